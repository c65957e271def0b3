/* SPDX-License-Identifier: Apache-2.0 */
/* The counters of one container's control groups, v1, v2 or some of each, through descriptors that stay open.
 */
#ifndef MONITORING_CGROUP_H
#define MONITORING_CGROUP_H

#include "cgroup_files.h"
#include "muster/buf.h"
#include "muster/monitor.h"

#include <stddef.h>

#define CGROUP_ROOT "/" /* as an id: the whole machine */

struct cgroup {
    struct {
        const struct cgroup_file *file;
        int fd;
    } sources[CGROUP_FILES_MAX];
    size_t count;
    unsigned wanted;
    char path[MONITOR_CGROUP_BYTES]; /* below the mount point of the first hierarchy that has it */
    struct monitor_device devices[MONITOR_DEVICES_MAX]; /* of the newest sample */
};

/* Opens what there is for container `id` (or CGROUP_ROOT), as far as it gives one of the `wanted` groups of
 * values; `text` is /proc/PID/cgroup of one of its processes. A file that is missing costs only its own group
 * of values. -ENOENT when there was none at all, -EBADMSG, -EMFILE. */
int cgroup_open(struct cgroup *cgroup, const char *sysfs, const char *text, size_t bytes, const char *id,
                unsigned wanted);
void cgroup_close(struct cgroup *cgroup);

/* Fills the `wanted` values in, as far as they were opened, and sets their bits in sample->groups;
 * sample->devices is borrowed from `cgroup`. A file that cannot be read or makes no sense costs its own
 * group; *ret_faults says how many did. -ENODEV when the container has gone. */
int cgroup_read(struct cgroup *cgroup, unsigned wanted, struct mst_buf *scratch,
                struct monitor_sample *sample, size_t *ret_faults);

#endif
