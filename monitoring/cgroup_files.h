/* SPDX-License-Identifier: Apache-2.0 */
/* The files of a control group that are known, v1 and v2, and what each gives. */
#ifndef MONITORING_CGROUP_FILES_H
#define MONITORING_CGROUP_FILES_H

#include "muster/monitor.h"

#include <stddef.h>

struct cgroup_file {
    const char *controller; /* "" is v2 */
    const char *name;
    unsigned group;  /* what it mainly gives: v2 is asked only for what v1 did not give */
    unsigned groups; /* all that it may give, without `group` */
    /* Sets values and announces them in sample->groups; -EBADMSG for what makes no sense. */
    int (*read)(const char *text, size_t bytes, struct monitor_sample *sample);
};

#define CGROUP_FILES_MAX 48
extern const struct cgroup_file cgroup_files[];
extern const size_t cgroup_file_count;

#endif
