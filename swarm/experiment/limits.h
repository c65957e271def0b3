/* SPDX-License-Identifier: Apache-2.0 */
/* A process's limits without a container: a control group of its own, of version 1 or 2, with the numbers
 * that Docker writes for the same limits. What it used is read from there as well. */
#ifndef EXPERIMENT_LIMITS_H
#define EXPERIMENT_LIMITS_H

#include "muster/error.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct limits {
    int64_t nano_cpus;    /* 1e9 is one core; 0: none */
    int64_t memory_bytes; /* 0: none */
    int64_t pids;         /* 0: none */
};

enum limits_controller { LIMITS_CPU, LIMITS_CPUACCT, LIMITS_MEMORY, LIMITS_PIDS, LIMITS_CONTROLLERS };

/* Where the machine has its hierarchies; empty texts: not there. Version 2 has one for all. */
struct limits_mounts {
    unsigned version; /* 1 or 2 */
    char folders[LIMITS_CONTROLLERS][128];
};

/* From the text of /proc/mounts, and for version 2 that of the root's cgroup.controllers. -ENOENT, with what
 * is missing for `limits` in the text. No I/O. */
int limits_find(const char *mounts, const char *controllers, const struct limits *limits,
                struct limits_mounts *ret_mounts, struct mst_error *err);
/* The same for this machine. */
int limits_look(const struct limits *limits, struct limits_mounts *ret_mounts, struct mst_error *err);

struct limits_group {
    struct limits_mounts mounts;
    char name[192]; /* relative: "muster-compare-1a2b/w1-node1" */
    struct limits limits;
};

/* Make the group and write its limits. What was left in a group of this name by somebody who was killed is
 * ended. */
int limits_make(const struct limits_mounts *mounts, const char *name, const struct limits *limits,
                struct limits_group *ret_group, struct mst_error *err);
/* The calling process goes into it; for between fork(2) and exec(3): no memory is taken. 0 or a negative
 * errno. */
int limits_enter(const struct limits_group *group);
/* SIGKILL for all in it, until none is left or `timeout_ms` have passed (-ETIMEDOUT). */
int limits_kill(const struct limits_group *group, unsigned timeout_ms, struct mst_error *err);
/* And the group itself; the parent folder as well when it is empty. */
int limits_remove(const struct limits_group *group, struct mst_error *err);

/* End and remove the groups below `parent` whose names do not begin with `but` (NULL: all of them): what was
 * left by somebody who was killed. */
int limits_sweep(const struct limits_mounts *mounts, const char *parent, const char *but, unsigned timeout_ms,
                 struct mst_error *err);

struct limits_use {
    uint64_t cpu_ns, memory_bytes; /* without the cache that the kernel takes back first, as Docker counts */
    uint64_t throttled_ns;
    bool has_cpu, has_memory, has_throttled;
};
void limits_read_use(const struct limits_group *group, struct limits_use *ret_use);

#endif
