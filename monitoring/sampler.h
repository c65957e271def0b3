/* SPDX-License-Identifier: Apache-2.0 */
/* The one reader of everything: knows which containers there are, by whatever source, and reads all of them
 * in one pass. Belongs to one thread. */
#ifndef MONITORING_SAMPLER_H
#define MONITORING_SAMPLER_H

#include "follow.h"
#include "machine.h"
#include "machine_use.h"
#include "muster/monitor.h"
#include "roster.h"
#include "training.h"

struct sampler {
    const struct monitor_options *options; /* borrowed */
    unsigned groups;
    int wake_fd; /* borrowed */
    struct roster roster;
    struct follow follow; /* unless the source is the control groups */
    uint64_t scan_ns;     /* when to look through the control groups again */
    bool has_source, has_asked_version;
    struct target *machine_target; /* NULL: only containers */
    struct machine_use machine_use;
    struct machine_devices devices;
    struct monitor_pass pass; /* the newest */
    struct monitor_sample *samples, *before;
    size_t capacity;
    struct trainings trainings;
};

/* Connects, or looks through the control groups; `wake_fd` readable ends a sampler_wait(). `with_machine`:
 * the first sample of a pass is the machine's own. */
int sampler_init(struct sampler *sampler, const struct monitor_options *options, bool with_machine,
                 int wake_fd, struct mst_error *err);
void sampler_release(struct sampler *sampler); /* fine after a failed init */

/* Follows what starts and ends until `deadline_ns`. 0, -ECANCELED when wake_fd is readable, or why nothing
 * was ever known. */
int sampler_wait(struct sampler *sampler, uint64_t deadline_ns, struct mst_error *err);

/* Waits until what runs at the start is known, a second at most. */
int sampler_settle(struct sampler *sampler, struct mst_error *err);

/* Reads the `wanted` groups of all. *ret_pass is borrowed until the next call. */
int sampler_take(struct sampler *sampler, unsigned wanted, const struct monitor_pass **ret_pass,
                 struct mst_error *err);

#endif
