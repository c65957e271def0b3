/* SPDX-License-Identifier: Apache-2.0 */
/* What the autoscaler says: a line on stderr and an event on stdout for each decision that is not the one
 * before, and a table of all of them for --once. */
#ifndef SWARM_AUTOSCALE_TELL_H
#define SWARM_AUTOSCALE_TELL_H

#include "autoscale/view.h"
#include "muster/event.h"
#include "output.h"

struct autoscale_row {
    const struct autoscale_subject *subject; /* borrowed */
    struct autoscale_decision decision;
    bool is_done; /* written; else it would be */
};

/* Only when it differs from what was told of the service last. */
int autoscale_tell(struct mst_event_sink *sink, struct autoscale_known *known,
                   const struct autoscale_row *row, bool is_dry, struct mst_error *err);
int autoscale_print(const struct autoscale_row *rows, size_t count, enum output_format format,
                    struct mst_error *err);

#endif
