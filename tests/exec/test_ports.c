/* SPDX-License-Identifier: Apache-2.0 */
#include "../agent/test.h"
#include "muster/net.h"
#include "ports.h"
#include "workspace.h"

#include <netinet/in.h>

static void ranges_are_read_strictly(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int code;
        unsigned first, last;
    } cases[] = {
        {"29500", 0, 29500, 29500},     {"20000:20010", 0, 20000, 20010},
        {"1:65535", 0, 1, 65535},       {"", -EINVAL, 7, 7},
        {"0", -EINVAL, 7, 7},           {"5:4", -EINVAL, 7, 7},
        {"1:65536", -EINVAL, 7, 7},     {"1:", -EINVAL, 7, 7},
        {":5", -EINVAL, 7, 7},          {"1:2:3", -EINVAL, 7, 7},
        {"123456789:5", -EINVAL, 7, 7},
    };
    for (size_t c = 0; c < MST_ARRAY_COUNT(cases); c++) {
        struct exec_port_range range = {7, 7};
        assert_int_equal(exec_ports_parse(cases[c].text, &range, NULL), cases[c].code);
        assert_int_equal(range.first, cases[c].first);
        assert_int_equal(range.last, cases[c].last);
    }
}

static void a_reserved_port_is_given_to_nobody_else(void **state)
{
    (void)state;
    const struct exec_port_range all = exec_ports_default();
    assert_true(all.first >= 1 && all.last >= all.first);
    uint16_t first, second = 0;
    int first_fd = -1, second_fd = -1, listener = -1;
    assert_int_equal(exec_ports_reserve(INADDR_LOOPBACK, all, &first, &first_fd, NULL), 0);
    assert_true(first >= all.first && first <= all.last);
    const struct exec_port_range one = {first, first};
    struct mst_error err = MST_ERROR_INIT;
    assert_int_equal(exec_ports_reserve(INADDR_LOOPBACK, one, &second, &second_fd, &err), -EADDRINUSE);
    assert_int_equal(second, 0);
    assert_int_equal(second_fd, -1);

    mst_closep(&first_fd); /* what happens when the program starts */
    assert_int_equal(mst_tcp_listen(INADDR_LOOPBACK, first, 1, &listener, NULL, NULL), 0);
    assert_int_equal(exec_ports_reserve(INADDR_LOOPBACK, one, &second, &second_fd, &err), -EADDRINUSE);
    mst_closep(&listener);
}

static void the_only_free_port_of_a_range_is_found(void **state)
{
    (void)state;
    enum { COUNT = 8 };
    const struct exec_port_range all = exec_ports_default();
    const struct exec_port_range range = {all.last - COUNT + 1, all.last};
    int fds[COUNT];
    uint16_t ports[COUNT];
    size_t taken = 0;
    while (taken < COUNT && exec_ports_reserve(INADDR_LOOPBACK, range, &ports[taken], &fds[taken], NULL) == 0)
        taken++;
    for (size_t a = 0; a < taken; a++)
        for (size_t b = 0; b < a; b++)
            assert_int_not_equal(ports[a], ports[b]);
    assert_true(taken > 0);
    mst_closep(&fds[taken / 2]);
    uint16_t port;
    int fd = -1;
    assert_int_equal(exec_ports_reserve(INADDR_LOOPBACK, range, &port, &fd, NULL), 0);
    assert_int_equal(port, ports[taken / 2]);
    mst_closep(&fd);
    for (size_t p = 0; p < taken; p++)
        mst_closep(&fds[p]);
}

static void a_foreign_address_is_an_error(void **state)
{
    (void)state;
    uint16_t port = 9;
    int fd = -1;
    assert_int_equal(exec_ports_reserve(0xc0000201, exec_ports_default(), &port, &fd, NULL), -EADDRNOTAVAIL);
    assert_int_equal(port, 9);
    assert_int_equal(fd, -1);
}

static void the_workspace_is_private_and_goes_away(void **state)
{
    char folder[256], link[256], target[256];
    struct stat info;
    struct exec_workspace workspace;
    struct mst_buf text = MST_BUF_INIT(100);
    assert_int_equal(setenv("TMPDIR", *state, 1), 0);
    assert_int_equal(exec_workspace_open(&workspace, "/opt/program", NULL), 0);
    (void)snprintf(folder, sizeof folder, "%s", workspace.folder);
    assert_memory_equal(folder, *state, strlen(*state));
    assert_int_equal(stat(folder, &info), 0);
    assert_int_equal(info.st_mode & 0777, 0700);
    (void)snprintf(link, sizeof link, "%s/ssh", folder);
    const ssize_t length = readlink(link, target, sizeof target);
    assert_int_equal(length, strlen("/opt/program"));
    assert_memory_equal(target, "/opt/program", (size_t)length);

    assert_int_equal(mst_buf_append_text(&text, "10.0.0.1 slots=1\n"), 0);
    assert_int_equal(exec_workspace_write_hosts(&workspace, &text, NULL), 0);
    assert_int_equal(exec_workspace_write_hosts(&workspace, &text, NULL), 0); /* in each view */
    assert_int_equal(stat(workspace.host_file, &info), 0);
    assert_int_equal(info.st_size, 17);
    exec_workspace_close(&workspace);
    assert_int_equal(stat(folder, &info), -1);
    exec_workspace_close(&workspace); /* again: nothing */
    mst_buf_release(&text);
    assert_int_equal(unsetenv("TMPDIR"), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranges_are_read_strictly),
        cmocka_unit_test(a_reserved_port_is_given_to_nobody_else),
        cmocka_unit_test(the_only_free_port_of_a_range_is_found),
        cmocka_unit_test(a_foreign_address_is_an_error),
        cmocka_unit_test_setup_teardown(the_workspace_is_private_and_goes_away, test_folder_setup,
                                        test_folder_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
