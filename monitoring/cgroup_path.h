/* SPDX-License-Identifier: Apache-2.0 */
/* Where a container's control groups are. /proc/PID/cgroup of one of its processes tells, whatever the cgroup
 * driver and --cgroup-parent; which hierarchy has a controller is found out for each controller alone, since
 * machines with v1 controllers beside a v2 hierarchy are common. */
#ifndef MONITORING_CGROUP_PATH_H
#define MONITORING_CGROUP_PATH_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

/* The line of /proc/PID/cgroup for a v1 controller ("memory"), or for v2 (""). The path is borrowed from
 * `text`. 0, -ENOENT without such a line, -EBADMSG. */
int cgroup_path_of(const char *text, size_t bytes, const char *controller, const char **ret_path,
                   size_t *ret_path_bytes);

/* The length of `path` up to and with the component that names the container: "/docker/ID" of
 * "/docker/ID/init.scope". 0 when none does. */
size_t cgroup_path_cut(const char *path, size_t path_bytes, const char *id);

/* The folder of the container's control group for a controller ("" for v2) under `sysfs`/fs/cgroup. `text` is
 * /proc/PID/cgroup; id "/" is the hierarchy's root. 0, -ENOENT, -EBADMSG, -ENAMETOOLONG. */
int cgroup_path_find(const char *sysfs, const char *text, size_t bytes, const char *controller,
                     const char *id, char ret_folder[static PATH_MAX]);

#endif
