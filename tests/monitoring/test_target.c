/* SPDX-License-Identifier: Apache-2.0 */
#include "muster/cleanup.h"
#include "source.h"
#include "target.h"
#include "test.h"

#include <dirent.h>

static size_t open_descriptors(void)
{
    size_t count = 0;
    DIR *dir = opendir("/proc/self/fd");
    assert_non_null(dir);
    while (readdir(dir))
        count++;
    assert_int_equal(closedir(dir), 0);
    return count;
}

static void a_sample_has_control_groups_and_network(void **state)
{
    mst_cleanup(mst_buf_release) struct mst_buf scratch = MST_BUF_INIT(SOURCE_MAX_BYTES);
    const struct monitor_container info = container_with(1234);
    const size_t descriptors = open_descriptors();
    struct target *target = NULL;
    struct monitor_sample sample;
    (void)state;
    assert_int_equal(target_open(&v1_paths, &info, MONITOR_GROUPS_BASIC, NULL, &scratch, &target, NULL), 0);
    assert_int_equal(target_sample(target, MONITOR_GROUPS_BASIC, &scratch, &sample), 0);
    assert_ptr_equal(sample.container, &target->info);
    assert_true(sample.read_ns > 0 && sample.wall_s > 1e9);
    assert_true(sample.groups & MONITOR_CPU && sample.groups & MONITOR_NETWORK);
    /* both interfaces, without lo */
    assert_true(sample.rx_bytes == 1000796 && sample.rx_packets == 710 && sample.rx_errors == 1);
    assert_true(sample.tx_bytes == 2000042 && sample.tx_packets == 801 && sample.tx_dropped == 4);
    assert_true(sample.rx_dropped == 2 && sample.tx_errors == 3);
    assert_int_equal(target->faults, 0);
    target_free(target);
    assert_int_equal(open_descriptors(), descriptors);
}

static void a_container_in_a_foreign_network_has_no_network_of_its_own(void **state)
{
    static const enum monitor_network networks[] = {MONITOR_NETWORK_HOST, MONITOR_NETWORK_SHARED};
    mst_cleanup(mst_buf_release) struct mst_buf scratch = MST_BUF_INIT(SOURCE_MAX_BYTES);
    (void)state;
    for (size_t i = 0; i < MST_ARRAY_COUNT(networks); i++) {
        struct monitor_container info = container_with(1234);
        struct target *target = NULL;
        struct monitor_sample sample;
        info.network = networks[i];
        assert_int_equal(target_open(&v1_paths, &info, MONITOR_GROUPS_BASIC, NULL, &scratch, &target, NULL),
                         0);
        assert_int_equal(target_sample(target, MONITOR_GROUPS_BASIC, &scratch, &sample), 0);
        assert_false(sample.groups & MONITOR_NETWORK);
        assert_true(sample.groups & MONITOR_CPU);
        target_free(target);
    }
}

static void a_network_of_lo_alone_is_absent_and_not_zero(void **state)
{
    const struct monitor_paths paths = {DATA("hybrid/proc"), DATA("hybrid/sys")};
    mst_cleanup(mst_buf_release) struct mst_buf scratch = MST_BUF_INIT(SOURCE_MAX_BYTES);
    const struct monitor_container info = container_with(77);
    struct target *target = NULL;
    struct monitor_sample sample;
    (void)state;
    assert_int_equal(target_open(&paths, &info, MONITOR_GROUPS_BASIC, NULL, &scratch, &target, NULL), 0);
    assert_int_equal(target_sample(target, MONITOR_GROUPS_BASIC, &scratch, &sample), 0);
    assert_false(sample.groups & MONITOR_NETWORK);
    target_free(target);
}

static void what_cannot_be_seen_is_an_error_that_says_where_was_looked(void **state)
{
    static const struct {
        const struct monitor_paths *paths;
        pid_t pid;
    } cases[] = {{&v1_paths, 999}, {&v2_paths, 4324}};
    mst_cleanup(mst_buf_release) struct mst_buf scratch = MST_BUF_INIT(SOURCE_MAX_BYTES);
    const size_t descriptors = open_descriptors();
    (void)state;
    for (size_t i = 0; i < MST_ARRAY_COUNT(cases); i++) {
        const struct monitor_container info = container_with(cases[i].pid);
        struct target *target = NULL;
        struct mst_error err = MST_ERROR_INIT;
        assert_int_equal(
            target_open(cases[i].paths, &info, MONITOR_GROUPS_BASIC, NULL, &scratch, &target, &err), -ENOENT);
        assert_null(target);
        assert_non_null(strstr(err.text, cases[i].paths->procfs));
        assert_non_null(strstr(err.text, "'web'"));
    }
    assert_int_equal(open_descriptors(), descriptors);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_sample_has_control_groups_and_network),
        cmocka_unit_test(a_container_in_a_foreign_network_has_no_network_of_its_own),
        cmocka_unit_test(a_network_of_lo_alone_is_absent_and_not_zero),
        cmocka_unit_test(what_cannot_be_seen_is_an_error_that_says_where_was_looked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
