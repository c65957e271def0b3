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
    int net_fd; /* /proc/PID/net/dev, -1: none. Pins the network namespace, so close it when the container
                   dies */
    struct monitor_sample last;
    bool has_last;
    uint64_t faults; /* files that could not be read or made no sense, over all passes */
};

/* `info` is copied. -ENOENT when the container's process or control groups have gone or cannot be seen. */
int target_open(const struct monitor_paths *paths, const struct monitor_container *info,
                struct mst_buf *scratch, struct target **ret_target, struct mst_error *err);
void target_free(struct target *target); /* NULL is fine */

/* 0 with a sample; -ENODEV when the container has gone, -ENODATA when nothing made sense this time. */
int target_sample(struct target *target, struct mst_buf *scratch, struct monitor_sample *ret_sample);

#endif
