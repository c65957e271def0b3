/* SPDX-License-Identifier: Apache-2.0 */
/* The counters of one container's control groups, v1, v2 or some of each, through descriptors that stay open.
 */
#ifndef MONITORING_CGROUP_H
#define MONITORING_CGROUP_H

#include "muster/buf.h"
#include "muster/monitor.h"

#include <stddef.h>

struct cgroup_file; /* one of the files that are known: cgroup.c */

#define CGROUP_SOURCES_MAX 16

struct cgroup {
    struct {
        const struct cgroup_file *file;
        int fd;
    } sources[CGROUP_SOURCES_MAX];
    size_t count;
};

/* Opens what there is for container `id`; `text` is /proc/PID/cgroup of one of its processes. A file that is
 * missing costs only its own group of values. -ENOENT when there was none at all, -EBADMSG, -EMFILE. */
int cgroup_open(struct cgroup *cgroup, const char *sysfs, const char *text, size_t bytes, const char *id);
void cgroup_close(struct cgroup *cgroup);

/* Fills the values in and sets their bits in sample->groups. A file that cannot be read or makes no sense
 * costs its own group; *ret_faults says how many did. -ENODEV when the container has gone. */
int cgroup_read(const struct cgroup *cgroup, struct mst_buf *scratch, struct monitor_sample *sample,
                size_t *ret_faults);

#endif
