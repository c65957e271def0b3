/* SPDX-License-Identifier: Apache-2.0 */
#include "helpers.h"
#include "muster/file.h"
#include "threads.h"

#include <ftw.h>

struct file {
    const char *path, *text;
};

static const struct {
    const char *what;
    uint32_t cpus;
    struct file files[6];
} cases[] = {
    {"no cgroup at all", TRAINER_NO_QUOTA, {{NULL, NULL}}},
    {"v2 without a limit",
     TRAINER_NO_QUOTA,
     {{"proc/self/cgroup", "0::/\n"}, {"sys/fs/cgroup/cpu.max", "max 100000\n"}}},
    {"v2, in a container, one and a half CPUs",
     2,
     {{"proc/self/cgroup", "0::/\n"}, {"sys/fs/cgroup/cpu.max", "150000 100000\n"}}},
    {"v2, a limit on a level above",
     3,
     {{"proc/self/cgroup", "0::/a/b\n"},
      {"sys/fs/cgroup/a/b/cpu.max", "max 100000\n"},
      {"sys/fs/cgroup/a/cpu.max", "300000 100000\n"}}},
    {"v2, the smallest of several",
     1,
     {{"proc/self/cgroup", "0::/a/b\n"},
      {"sys/fs/cgroup/a/b/cpu.max", "10000 100000\n"},
      {"sys/fs/cgroup/a/cpu.max", "300000 100000\n"}}},
    {"v1, the path of the host is not there",
     2,
     {{"proc/self/cgroup", "5:cpuset:/docker/x\n4:cpu,cpuacct:/docker/x\n"},
      {"sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "200000\n"},
      {"sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n"}}},
    {"v1, -1 is no limit",
     TRAINER_NO_QUOTA,
     {{"proc/self/cgroup", "4:cpu:/\n"},
      {"sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n"},
      {"sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n"}}},
    {"v1 and v2 side by side",
     1,
     {{"proc/self/cgroup", "4:cpuacct,cpu:/x\n0::/y\n"},
      {"sys/fs/cgroup/cpu/x/cpu.cfs_quota_us", "50000\n"},
      {"sys/fs/cgroup/cpu/x/cpu.cfs_period_us", "100000\n"},
      {"sys/fs/cgroup/unified/y/cpu.max", "max 100000\n"}}},
    {"nonsense",
     TRAINER_NO_QUOTA,
     {{"proc/self/cgroup", "nonsense\n:\n::\n0::/\n"}, {"sys/fs/cgroup/cpu.max", "12x 0\n"}}},
    {"a period of zero",
     TRAINER_NO_QUOTA,
     {{"proc/self/cgroup", "0::/\n"}, {"sys/fs/cgroup/cpu.max", "1000 0\n"}}},
};

static int remove_entry(const char *path, const struct stat *status, int type, struct FTW *place)
{
    (void)status;
    (void)type;
    (void)place;
    return remove(path);
}

static void write_file(const char *root, const struct file *file)
{
    char path[512], folder[512];

    (void)snprintf(path, sizeof path, "%s/%s", root, file->path);
    (void)snprintf(folder, sizeof folder, "%s", path);
    *strrchr(folder, '/') = '\0';
    assert_int_equal(mst_make_folders(folder, 0700, NULL), 0);
    FILE *stream = fopen(path, "w");
    assert_non_null(stream);
    assert_true(fputs(file->text, stream) >= 0);
    assert_int_equal(fclose(stream), 0);
}

static void finds_the_quota_that_holds(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char root[] = "/tmp/muster-threads-XXXXXX";
        assert_non_null(mkdtemp(root));
        for (const struct file *file = cases[i].files; file->path; file++)
            write_file(root, file);
        const uint32_t cpus = trainer_threads_quota(root);
        assert_int_equal(nftw(root, remove_entry, 16, FTW_DEPTH | FTW_PHYS), 0);
        if (cpus != cases[i].cpus)
            fail_msg("%s: %u CPUs, expected %u", cases[i].what, cpus, cases[i].cpus);
    }
}

static void this_machine_has_at_least_one_and_not_more_than_it_has(void **state)
{
    (void)state;
    assert_in_range(trainer_threads_available(), 1, (unsigned long)sysconf(_SC_NPROCESSORS_CONF));
    assert_true(trainer_kernel_name()[0] != '\0');
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(finds_the_quota_that_holds),
        cmocka_unit_test(this_machine_has_at_least_one_and_not_more_than_it_has),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
