/* SPDX-License-Identifier: Apache-2.0 */
/* What the machine as a whole uses beside what its control group counts: disks, filesystems, running tasks.
 */
#ifndef MONITORING_MACHINE_USE_H
#define MONITORING_MACHINE_USE_H

#include "muster/buf.h"
#include "muster/monitor.h"

#define MACHINE_GROUPS                                                                                       \
    (MONITOR_IO | MONITOR_IO_COUNTS | MONITOR_IO_TIMES | MONITOR_FILESYSTEMS | MONITOR_TASKS)

/* One filesystem of this process' mount table, and the places where it can be seen. */
struct machine_mounts {
    struct machine_mount {
        char source[MONITOR_NAME_BYTES];
        uint32_t major, minor;
        char *path; /* owned: where statvfs() has worked, or is tried next */
    } list[MONITOR_FILESYSTEMS_MAX];
    size_t count;
};

struct machine_use {
    struct monitor_paths paths;                         /* borrowed texts */
    struct monitor_device devices[MONITOR_DEVICES_MAX]; /* of the newest sample, as the next */
    struct monitor_filesystem filesystems[MONITOR_FILESYSTEMS_MAX];
    struct machine_mounts mounts;
    uint64_t mounts_ns; /* when they were looked up */
    double load;        /* running tasks, smoothed */
    uint64_t load_ns;   /* 0: not yet */
};

void machine_use_init(struct machine_use *use, const struct monitor_paths *paths);
void machine_use_release(struct machine_use *use);

/* Adds the `wanted` ones of MACHINE_GROUPS to the sample, which borrows from `use`. What cannot be read stays
 * away. */
void machine_use_sample(struct machine_use *use, unsigned wanted, struct mst_buf *scratch,
                        struct monitor_sample *sample);

/* What the above is made of, from texts. */

/* /proc/diskstats: whole disks (`sysfs`/block has them) but loop, RAM and optical ones; how many. */
size_t machine_disks(const char *text, const char *sysfs,
                     struct monitor_device list[static MONITOR_DEVICES_MAX]);

/* /proc/self/mountinfo: what lies on a block device or in a ZFS pool, each once, with the first of its places
 * that `can_be_seen` (NULL: any). */
void machine_mounts_read(const char *text, bool (*can_be_seen)(const char *path),
                         struct machine_mounts *mounts);
void machine_mounts_release(struct machine_mounts *mounts);

/* Can stand in a label as it is. */
bool machine_source_is_plain(const char *source);

/* /proc/stat: procs_running and procs_blocked. False when they are not there. */
bool machine_tasks(const char *text, uint64_t *ret_running, uint64_t *ret_iowaiting);

/* `load` after `seconds` more of `running` tasks: a decay with the time constant of 10 s, as cAdvisor's. */
double machine_load(double load, double running, double seconds);

#endif
