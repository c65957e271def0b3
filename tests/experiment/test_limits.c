/* SPDX-License-Identifier: Apache-2.0 */
#include "../common/test.h"
#include "experiment/limits.h"

#include <stddef.h>
#include <string.h>

static const char v1[] = "tmpfs /sys/fs/cgroup tmpfs rw 0 0\n"
                         "cgroup /sys/fs/cgroup/cpu,cpuacct cgroup rw,relatime,cpu,cpuacct 0 0\n"
                         "cgroup /sys/fs/cgroup/memory cgroup rw,relatime,memory 0 0\n"
                         "cgroup /sys/fs/cgroup/cpuset cgroup rw,relatime,cpuset 0 0\n"
                         "cgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\n";
static const char v2[] = "proc /proc proc rw 0 0\ncgroup2 /sys/fs/cgroup cgroup2 rw,nosuid 0 0\n";

static void hierarchies_of_version_1_are_found(void **state)
{
    const struct limits limits = {.nano_cpus = 1000000000, .memory_bytes = 1 << 30};
    struct limits_mounts mounts;

    (void)state;
    assert_int_equal(limits_find(v1, "", &limits, &mounts, NULL), 0);
    assert_int_equal(mounts.version, 1);
    assert_string_equal(mounts.folders[LIMITS_CPU], "/sys/fs/cgroup/cpu,cpuacct");
    assert_string_equal(mounts.folders[LIMITS_CPUACCT], "/sys/fs/cgroup/cpu,cpuacct");
    assert_string_equal(mounts.folders[LIMITS_MEMORY], "/sys/fs/cgroup/memory");
    assert_string_equal(mounts.folders[LIMITS_PIDS], "");
}

static void version_2_has_one_for_all(void **state)
{
    const struct limits limits = {.nano_cpus = 500000000, .memory_bytes = 1 << 26, .pids = 100};
    struct limits_mounts mounts;

    (void)state;
    assert_int_equal(limits_find(v2, "cpuset cpu io memory pids\n", &limits, &mounts, NULL), 0);
    assert_int_equal(mounts.version, 2);
    for (int c = 0; c < LIMITS_CONTROLLERS; c++)
        assert_string_equal(mounts.folders[c], "/sys/fs/cgroup");
}

static void what_a_limit_needs_and_is_not_there_is_said(void **state)
{
    const struct limits pids = {.pids = 10}, memory = {.memory_bytes = 1 << 30}, none = {0};
    struct limits_mounts mounts = {.version = 7};
    struct mst_error err = MST_ERROR_INIT;

    (void)state;
    assert_int_equal(limits_find(v1, "", &pids, &mounts, &err), -ENOENT);
    assert_non_null(strstr(err.text, "'pids'"));
    assert_int_equal(limits_find(v2, "cpu pids", &memory, &mounts, &err), -ENOENT);
    assert_non_null(strstr(err.text, "'memory'"));
    assert_int_equal(mounts.version, 7);
    assert_int_equal(limits_find("", "", &none, &mounts, NULL), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hierarchies_of_version_1_are_found),
        cmocka_unit_test(version_2_has_one_for_all),
        cmocka_unit_test(what_a_limit_needs_and_is_not_there_is_said),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
