/* SPDX-License-Identifier: Apache-2.0 */
#include "../common/test.h"
#include "nodesfile.h"

static void lines_are_names_and_engines(void **state)
{
    static const struct {
        const char *text;
        int code;
        const char *what; /* the host of node2, or the error */
    } cases[] = {
        {"node1 unix:///a\nnode2 ssh://me@node2\n", 0, "ssh://me@node2"},
        {"# comment\n\n  node2\ttcp://10.0.0.2:2376  \r\n  # another\n", 0, "tcp://10.0.0.2:2376"},
        {"node2 unix:///a", 0, "unix:///a"},
        {"node22 unix:///b\n", 0, NULL},
        {"node2\n", -EBADMSG, "f:1: expected a node's host name and its engine"},
        {"node1 unix:///a\nnode2 unix:///b more\n", -EBADMSG, "f:2: expected"},
        {"node2 a\nnode2 b\n", -EBADMSG, "f:2: node 'node2' stands twice"},
        {"", -EBADMSG, "f: it names no node"},
        {"# nothing\n", -EBADMSG, "f: it names no node"},
    };

    (void)state;
    for (size_t i = 0; i < MST_ARRAY_COUNT(cases); i++) {
        struct nodesfile file = {0};
        struct mst_error err = MST_ERROR_INIT;
        const int r = nodesfile_parse(cases[i].text, "f", &file, &err);
        const char *host = r == 0 ? nodesfile_host(&file, "node2") : NULL;
        if (r != cases[i].code || (r < 0 && !strstr(err.text, cases[i].what)) ||
            (r == 0 && (!host != !cases[i].what || (host && strcmp(host, cases[i].what) != 0))))
            fail_msg("case %zu: %d, '%s', '%s'", i, r, err.text, host ? host : "");
        if (r < 0)
            assert_int_equal(file.count, 0);
        nodesfile_release(&file);
    }
}

static void a_file_that_cannot_be_read_is_a_fault_of_the_input(void **state)
{
    static const struct {
        const char *path, *text;
    } cases[] = {
        {"/nowhere/nodes", "nodes file: open '/nowhere/nodes': No such file or directory"},
        {"/", "nodes file: open '/': expected a file, and it is a folder"},
    };

    (void)state;
    for (size_t i = 0; i < MST_ARRAY_COUNT(cases); i++) {
        struct nodesfile file = {0};
        struct mst_error err = MST_ERROR_INIT;
        assert_int_equal(nodesfile_read(cases[i].path, &file, &err), -EINVAL);
        assert_string_equal(err.text, cases[i].text);
        assert_int_equal(file.count, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_are_names_and_engines),
        cmocka_unit_test(a_file_that_cannot_be_read_is_a_fault_of_the_input),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
