/* SPDX-License-Identifier: Apache-2.0 */
#include "cgroup.h"
#include "muster/cleanup.h"
#include "source.h"
#include "test.h"

#include <limits.h>
#include <signal.h>
#include <sys/wait.h>

static struct monitor_sample read_tree(const char *tree, const char *pid, size_t *ret_faults)
{
    char sysfs[PATH_MAX], proc[PATH_MAX];
    (void)snprintf(sysfs, sizeof sysfs, "%s/%s/sys", MUSTER_TEST_DATA, tree);
    (void)snprintf(proc, sizeof proc, "%s/%s/proc/%s/cgroup", MUSTER_TEST_DATA, tree, pid);
    mst_cleanup(mst_buf_release) struct mst_buf text = load(proc);
    mst_cleanup(mst_buf_release) struct mst_buf scratch = MST_BUF_INIT(SOURCE_MAX_BYTES);
    struct cgroup cgroup;
    struct monitor_sample sample = {0};
    assert_int_equal(cgroup_open(&cgroup, sysfs, text.bytes, text.count, CONTAINER_ID, MONITOR_GROUPS_BASIC),
                     0);
    for (int pass = 0; pass < 2; pass++) { /* kept-open descriptors are read again from the start */
        sample = (struct monitor_sample){0};
        assert_int_equal(cgroup_read(&cgroup, MONITOR_GROUPS_BASIC, &scratch, &sample, ret_faults), 0);
    }
    cgroup_close(&cgroup);
    return sample;
}

static void v1_gives_every_group(void **state)
{
    size_t faults = 7;
    const struct monitor_sample s = read_tree("v1", "1234", &faults);
    (void)state;
    assert_int_equal(faults, 0);
    assert_int_equal(s.groups, MONITOR_CPU | MONITOR_CPU_SPLIT | MONITOR_THROTTLING | MONITOR_MEMORY |
                                   MONITOR_MEMORY_STAT | MONITOR_MEMORY_LIMIT | MONITOR_IO);
    assert_true(s.cpu_ns == 4124098266);
    assert_true(s.cpu_user_ns == 260000000 && s.cpu_system_ns == 3860000000); /* ticks of 10 ms */
    assert_true(s.cfs_periods == 591 && s.cfs_throttled == 7 && s.cfs_throttled_ns == 350000000);
    assert_true(s.memory_usage_bytes == 1015808 && s.memory_limit_bytes == 67108864);
    assert_true(s.memory_rss_bytes == 212992 && s.memory_cache_bytes == 32768);
    assert_true(s.memory_inactive_file_bytes == 4096);
    assert_true(s.io_read_bytes == 45056 && s.io_write_bytes == 8192);
}

static void v2_gives_the_same_groups_in_the_same_units(void **state)
{
    size_t faults = 7;
    const struct monitor_sample s = read_tree("v2", "4321", &faults);
    (void)state;
    assert_int_equal(faults, 0);
    assert_int_equal(s.groups, MONITOR_CPU | MONITOR_CPU_SPLIT | MONITOR_THROTTLING | MONITOR_MEMORY |
                                   MONITOR_MEMORY_STAT | MONITOR_MEMORY_LIMIT | MONITOR_IO);
    assert_true(s.cpu_ns == 7654321000 && s.cpu_user_ns == 5000000000 && s.cpu_system_ns == 2654321000);
    assert_true(s.cfs_periods == 100 && s.cfs_throttled == 10 && s.cfs_throttled_ns == 123456000);
    assert_true(s.memory_usage_bytes == 104857600 && s.memory_limit_bytes == 0);
    assert_true(s.memory_rss_bytes == 52428800 && s.memory_cache_bytes == 41943040);
    assert_true(s.memory_inactive_file_bytes == 20971520);
    assert_true(s.io_read_bytes == 1052672 && s.io_write_bytes == 2097152);
}

static void in_a_mixture_each_controller_is_read_where_it_is(void **state)
{
    size_t faults = 7;
    const struct monitor_sample s = read_tree("hybrid", "77", &faults);
    (void)state;
    assert_int_equal(faults, 0);
    /* cpu from v2, memory from v1; io is nowhere, and absent instead of 0 */
    assert_int_equal(s.groups, MONITOR_CPU | MONITOR_CPU_SPLIT | MONITOR_MEMORY | MONITOR_MEMORY_STAT |
                                   MONITOR_MEMORY_LIMIT);
    assert_true(s.cpu_ns == 5000 && s.memory_usage_bytes == 2000000);
    assert_true(s.memory_limit_bytes == 0); /* v1's largest number of whole pages */
}

static void a_pid_that_belongs_to_somebody_else_is_not_read(void **state)
{
    mst_cleanup(mst_buf_release) struct mst_buf text = load(DATA("v2/proc/4324/cgroup"));
    struct cgroup cgroup;
    (void)state;
    assert_int_equal(
        cgroup_open(&cgroup, v2_paths.sysfs, text.bytes, text.count, CONTAINER_ID, MONITOR_GROUPS_BASIC),
        -ENOENT);
    assert_int_equal(cgroup.count, 0);
}

/* ---- a tree whose files can be changed ---- */

struct tree {
    char root[64], folder[PATH_MAX];
};

static void tree_make(struct tree *tree)
{
    (void)snprintf(tree->root, sizeof tree->root, "/tmp/muster-cgroup-XXXXXX");
    assert_non_null(mkdtemp(tree->root));
    (void)snprintf(tree->folder, sizeof tree->folder, "%s/fs/cgroup/memory/docker/" CONTAINER_ID, tree->root);
    assert_int_equal(mst_make_folders(tree->folder, 0755, NULL), 0);
}

static void tree_put(const struct tree *tree, const char *name, const char *text)
{
    mst_cleanup(mst_freep) char *path = mst_path_join(tree->folder, name);
    FILE *file = fopen(path, "we");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static void tree_remove(const struct tree *tree)
{
    char command[128];
    (void)snprintf(command, sizeof command, "rm -rf %s", tree->root);
    assert_int_equal(system(command), 0);
}

static const char memory_line[] = "4:memory:/docker/" CONTAINER_ID "\n";

static void a_garbled_file_costs_its_own_group(void **state)
{
    static const char *const garbled[] = {"", "12", "-5\n", "1000000\n1000000\n", "cat\n"};
    mst_cleanup(mst_buf_release) struct mst_buf scratch = MST_BUF_INIT(SOURCE_MAX_BYTES);
    struct tree tree;
    (void)state;
    tree_make(&tree);
    tree_put(&tree, "memory.limit_in_bytes", "4096\n");
    for (size_t i = 0; i < MST_ARRAY_COUNT(garbled); i++) {
        struct cgroup cgroup;
        struct monitor_sample sample = {0};
        size_t faults = 7;
        tree_put(&tree, "memory.usage_in_bytes", garbled[i]);
        assert_int_equal(cgroup_open(&cgroup, tree.root, memory_line, strlen(memory_line), CONTAINER_ID,
                                     MONITOR_GROUPS_BASIC),
                         0);
        assert_int_equal(cgroup_read(&cgroup, MONITOR_GROUPS_BASIC, &scratch, &sample, &faults), 0);
        assert_int_equal(faults, 1);
        assert_int_equal(sample.groups, MONITOR_MEMORY_LIMIT);
        cgroup_close(&cgroup);
    }
    tree_remove(&tree);
}

static void a_file_without_end_is_not_read_into_memory(void **state)
{
    mst_cleanup(mst_buf_release) struct mst_buf scratch = MST_BUF_INIT(SOURCE_MAX_BYTES);
    struct tree tree;
    struct cgroup cgroup;
    struct monitor_sample sample = {0};
    size_t faults = 0;
    char path[PATH_MAX + 32];
    (void)state;
    tree_make(&tree);
    (void)snprintf(path, sizeof path, "%s/memory.usage_in_bytes", tree.folder);
    assert_int_equal(symlink("/dev/zero", path), 0);
    assert_int_equal(
        cgroup_open(&cgroup, tree.root, memory_line, strlen(memory_line), CONTAINER_ID, MONITOR_GROUPS_BASIC),
        0);
    assert_int_equal(cgroup_read(&cgroup, MONITOR_GROUPS_BASIC, &scratch, &sample, &faults), 0);
    assert_int_equal(faults, 1);
    assert_int_equal(sample.groups, 0);
    assert_true(scratch.capacity <= 2 * SOURCE_MAX_BYTES + 2);
    cgroup_close(&cgroup);
    tree_remove(&tree);
}

/* A process file answers ESRCH after its process has gone, just as a control group's answers ENODEV. */
static void a_container_that_goes_in_the_middle_of_a_pass_gives_no_half_sample(void **state)
{
    mst_cleanup(mst_buf_release) struct mst_buf scratch = MST_BUF_INIT(SOURCE_MAX_BYTES);
    struct tree tree;
    struct cgroup cgroup;
    struct monitor_sample sample = {0};
    size_t faults = 7;
    char path[PATH_MAX + 32], target[64];
    (void)state;
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        (void)pause();
        _exit(0);
    }
    tree_make(&tree);
    tree_put(&tree, "memory.usage_in_bytes", "4096\n"); /* is read first, and would be fine */
    (void)snprintf(path, sizeof path, "%s/memory.limit_in_bytes", tree.folder);
    (void)snprintf(target, sizeof target, "/proc/%ld/cgroup", (long)child);
    assert_int_equal(symlink(target, path), 0);
    assert_int_equal(
        cgroup_open(&cgroup, tree.root, memory_line, strlen(memory_line), CONTAINER_ID, MONITOR_GROUPS_BASIC),
        0);
    assert_int_equal(cgroup_read(&cgroup, MONITOR_GROUPS_BASIC, &scratch, &sample, &faults), 0);
    assert_int_equal(sample.groups, MONITOR_MEMORY);

    assert_int_equal(kill(child, SIGKILL), 0);
    assert_int_equal(waitpid(child, NULL, 0), child);
    faults = 7;
    assert_int_equal(cgroup_read(&cgroup, MONITOR_GROUPS_BASIC, &scratch, &sample, &faults), -ENODEV);
    assert_int_equal(faults, 7);
    cgroup_close(&cgroup);
    tree_remove(&tree);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(v1_gives_every_group),
        cmocka_unit_test(v2_gives_the_same_groups_in_the_same_units),
        cmocka_unit_test(in_a_mixture_each_controller_is_read_where_it_is),
        cmocka_unit_test(a_pid_that_belongs_to_somebody_else_is_not_read),
        cmocka_unit_test(a_garbled_file_costs_its_own_group),
        cmocka_unit_test(a_file_without_end_is_not_read_into_memory),
        cmocka_unit_test(a_container_that_goes_in_the_middle_of_a_pass_gives_no_half_sample),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
