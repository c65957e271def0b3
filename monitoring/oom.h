/* SPDX-License-Identifier: Apache-2.0 */
/* How often processes of a container were killed for want of memory. The kernel's count goes with the control
 * group, most often in the very moment that it rises, since the first process is the one that is killed; so
 * the Engine's events count too, and what was counted before a restart stays. Only containers that had such a
 * kill are kept. */
#ifndef MONITORING_OOM_H
#define MONITORING_OOM_H

#include "muster/monitor.h"

#define OOM_MAX 1024 /* containers; of more, those that came first are forgotten */

struct oom_entry {
    char id[MONITOR_ID_BYTES], started_at[64];
    uint64_t before;        /* kills until the last restart */
    uint64_t kills, events; /* since, by the kernel and by the Engine, which tell of the same ones */
    uint64_t last_event_ns; /* Unix time: an event may be told twice */
};

struct oom {
    struct oom_entry *entries; /* owned */
    size_t count, room;
};

void oom_release(struct oom *oom);

/* The Engine tells of one, at `time_ns` (Unix). */
void oom_event(struct oom *oom, const char *id, uint64_t time_ns);

/* The kernel counts `kills` since the start of the container: how many there were in all. */
uint64_t oom_total(struct oom *oom, const struct monitor_container *info, uint64_t kills);

/* The container is no more. */
void oom_forget(struct oom *oom, const char *id);

#endif
