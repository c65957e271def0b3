/* SPDX-License-Identifier: Apache-2.0 */
/* How the workers are getting on: a line for each on a terminal, redrawn; one line an epoch elsewhere. */
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
};

void progress_show(struct progress *progress, struct report *report, const struct workers *workers);
/* One worker's line, without a line end: for the display and its test. */
void progress_worker_line(const struct progress *progress, const struct worker *worker, char *text,
                          size_t capacity);

#endif
