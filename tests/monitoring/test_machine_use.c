/* SPDX-License-Identifier: Apache-2.0 */
#include "machine_use.h"
#include "muster/cleanup.h"
#include "test.h"

#include <math.h>
#include <sys/stat.h>

static char folder[] = "/tmp/muster-machine-XXXXXX";

static int make_tree(void **state)
{
    static const char *const folders[] = {
        "", "/block", "/block/sda", "/block/nvme0n1", "/block/cciss!c0d0", "/block/loop0"};
    (void)state;
    bool is_made = mkdtemp(folder) != NULL;
    for (size_t i = 1; is_made && i < MST_ARRAY_COUNT(folders); i++) {
        char path[128];
        (void)snprintf(path, sizeof path, "%s%s", folder, folders[i]);
        is_made = mkdir(path, 0755) == 0;
    }
    return is_made ? 0 : -1;
}

static int remove_tree(void **state)
{
    char command[128];
    (void)state;
    (void)snprintf(command, sizeof command, "rm -rf %s", folder);
    return system(command);
}

static void disks_are_whole_and_counted_once(void **state)
{
    static struct monitor_device list[MONITOR_DEVICES_MAX];
    static const char text[] = "   8       0 sda 10 1 2048 500 20 2 4096 700 3 1200 1300 0 0 0 0 0 0\n"
                               "   8       1 sda1 10 1 2048 500 20 2 4096 700 3 1200 1300 0 0 0 0\n"
                               "   7       0 loop0 1 0 2 0 0 0 0 0 0 0 0\n"
                               " 259       0 nvme0n1 1 0 8 2 0 0 0 0 0 1 2\n"
                               " 104       0 cciss/c0d0 1 0 8 2 0 0 0 0 0 1 2\n"
                               "   8      16 sdb 1 0 8\n"; /* a line that was cut */
    (void)state;
    assert_int_equal(machine_disks(text, folder, list), 3);
    assert_string_equal(list[0].name, "/dev/sda");
    assert_true(list[0].read_bytes == 2048 * 512 && list[0].write_bytes == 4096 * 512);
    assert_true(list[0].reads == 10 && list[0].writes == 20 && list[0].reads_merged == 1 &&
                list[0].writes_merged == 2);
    assert_true(list[0].read_ms == 500 && list[0].write_ms == 700 && list[0].in_flight == 3 &&
                list[0].busy_ms == 1200 && list[0].weighted_ms == 1300);
    assert_string_equal(list[1].name, "/dev/nvme0n1");
    assert_string_equal(list[2].name, "/dev/cciss/c0d0");
    assert_int_equal(machine_disks("", folder, list), 0);
}

static bool is_not_secret(const char *path)
{
    return strcmp(path, "/secret") != 0;
}

static void filesystems_are_found_where_they_can_be_seen(void **state)
{
    static const char text[] =
        "22 27 0:21 / /proc rw,relatime - proc proc rw\n"
        "27 1 254:0 / /secret rw,relatime shared:1 - ext4 /dev/vda rw,discard\n"
        "28 27 254:0 /etc/hosts /etc/hosts rw - ext4 /dev/vda rw\n"
        "29 27 254:0 /x /again rw - ext4 /dev/vda rw\n"
        "30 27 254:1 / /a\\040blank rw shared:1 master:2 - xfs /dev/mapper/vg\\040data rw\n"
        "31 27 0:50 / /tank rw - zfs tank/home rw\n"
        "32 27 7:0 / /snap rw - squashfs /dev/loop0 ro\n"
        "33 27 0:51 / /run rw - tmpfs tmpfs rw\n"
        "34 27 8:1 / /bad rw - ext4 /dev/\"x rw\n"
        "nonsense\n"
        "35 27 8:2 / /cut rw - ext4"; /* the end is missing */
    struct machine_mounts mounts = {.count = 0};
    (void)state;
    machine_mounts_read(text, is_not_secret, &mounts);
    assert_int_equal(mounts.count, 3);
    assert_string_equal(mounts.list[0].source, "/dev/vda");
    assert_string_equal(mounts.list[0].path, "/etc/hosts");
    assert_string_equal(mounts.list[1].source, "/dev/mapper/vg data");
    assert_string_equal(mounts.list[1].path, "/a blank");
    assert_string_equal(mounts.list[2].source, "tank/home");
    machine_mounts_read(text, NULL, &mounts);
    assert_string_equal(mounts.list[0].path, "/secret");
    machine_mounts_read("", NULL, &mounts);
    assert_int_equal(mounts.count, 0);
    machine_mounts_release(&mounts);
}

static void tasks_and_load_are_the_kernels(void **state)
{
    uint64_t running = 7, iowaiting = 7;
    (void)state;
    assert_false(machine_tasks("cpu 1 2\n", &running, &iowaiting));
    assert_true(
        machine_tasks("cpu 1 2\nprocs_running 3\nprocs_blocked 2\nsoftirq 1\n", &running, &iowaiting));
    assert_true(running == 3 && iowaiting == 2);
    assert_true(fabs(machine_load(0, 10, 10) - 10 * (1 - exp(-1))) < 1e-9);
    assert_true(machine_load(2, 2, 5) == 2 || fabs(machine_load(2, 2, 5) - 2) < 1e-9);
    assert_true(fabs(machine_load(machine_load(4, 1, 3), 1, 7) - machine_load(4, 1, 10)) < 1e-9);
}

/* On whatever machine this runs: the kernel's own files make sense, twice. */
static void this_machine_can_be_read(void **state)
{
    const struct monitor_paths paths = {"/proc", "/sys"};
    struct machine_use use;
    struct mst_buf scratch = MST_BUF_INIT(1 << 20);
    struct monitor_sample first = {.read_ns = 1}, second = {.read_ns = 2};
    (void)state;
    machine_use_init(&use, &paths);
    machine_use_sample(&use, MONITOR_GROUPS_ALL, &scratch, &first);
    const uint64_t written = first.io_write_bytes;
    machine_use_sample(&use, MONITOR_GROUPS_ALL, &scratch, &second);
    assert_true(first.groups & MONITOR_TASKS);
    assert_true(second.io_write_bytes >= written);
    for (size_t i = 0; i < second.filesystem_count; i++) {
        assert_true(second.filesystems[i].used_bytes <= second.filesystems[i].limit_bytes);
        assert_true(second.filesystems[i].limit_bytes > 0 && *second.filesystems[i].source);
    }
    second.groups = MONITOR_CPU;
    machine_use_sample(&use, MONITOR_TASKS, &scratch, &second);
    assert_int_equal(second.groups, MONITOR_CPU | MONITOR_TASKS);
    machine_use_release(&use);
    mst_buf_release(&scratch);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(disks_are_whole_and_counted_once),
        cmocka_unit_test(filesystems_are_found_where_they_can_be_seen),
        cmocka_unit_test(tasks_and_load_are_the_kernels),
        cmocka_unit_test(this_machine_can_be_read),
    };
    return cmocka_run_group_tests(tests, make_tree, remove_tree);
}
