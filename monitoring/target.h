/* SPDX-License-Identifier: Apache-2.0 */
/* One running container that is sampled: what is known about it, its open files and its last sample. A
 * restart is a new target, so counters that begin anew are never compared with old ones. */
#ifndef MONITORING_TARGET_H
#define MONITORING_TARGET_H

#include "cgroup.h"
#include "muster/monitor.h"

struct target {
    struct monitor_container info;
    struct cgroup cgroup;
    uint64_t network; /* inode of the network namespace, 0: not known */
    int net_fd; /* /proc/PID/net/dev, -1: none. Pins the network namespace, so close it when the container
                   dies */
    struct monitor_interface interfaces[MONITOR_INTERFACES_MAX]; /* of the newest sample */
    struct monitor_sample last;
    bool has_last;
    struct monitor_sample remote; /* from the Engine's stats, when nothing is open here; groups 0: none */
    uint64_t faults;              /* files that could not be read or made no sense, over all passes */
};

/* `info` is copied, and its cgroup filled in. Where it is known by other means, `cgroup_text` says what
 * /proc/PID/cgroup would (else NULL). -ENOENT when the container's process or control groups have gone or
 * cannot be seen. */
int target_open(const struct monitor_paths *paths, const struct monitor_container *info, unsigned wanted,
                const char *cgroup_text, struct mst_buf *scratch, struct target **ret_target,
                struct mst_error *err);
/* Nothing is opened: what it uses is asked of the Engine. */
int target_new_remote(const struct monitor_container *info, struct target **ret_target,
                      struct mst_error *err);
void target_free(struct target *target); /* NULL is fine */

/* Reads the `wanted` groups. 0 with a sample; -ENODEV when the container has gone, -ENODATA when nothing made
 * sense this time. */
int target_sample(struct target *target, unsigned wanted, struct mst_buf *scratch,
                  struct monitor_sample *ret_sample);

#endif
