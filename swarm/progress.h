/* SPDX-License-Identifier: Apache-2.0 */
/* How the workers are getting on: a line for each on a terminal, redrawn; one line an epoch elsewhere.
 * Losses, pauses and recoveries are lines that stay, on both. */
#ifndef SWARM_PROGRESS_H
#define SWARM_PROGRESS_H

#include "nodes.h"
#include "report.h"
#include "workers.h"

struct progress {
    const struct swarm_nodes *nodes; /* borrowed, for host names */
    const char *stack;               /* borrowed; NULL: slots are shown whole */
    size_t expected;                 /* workers */
    uint32_t told_epoch;             /* plain lines so far */
    bool has_told_start;
    size_t told_have;
    size_t told_losses, told_recoveries;
    bool has_told_pause;
};

void progress_show(struct progress *progress, struct report *report, const struct workers *workers);
/* "w2.1": a slot without its stack's name. */
const char *progress_slot_name(const char *stack, const char *slot);
/* One worker's line, without a line end: for the display and its test. */
void progress_worker_line(const struct progress *progress, const struct worker *worker, char *text,
                          size_t capacity);

#endif
