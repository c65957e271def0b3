/* SPDX-License-Identifier: Apache-2.0 */
/* The search: sweeps of the subnet, one after another with growing pauses, that feed the mesh with addresses.
 * The first one always runs to its end, so that its figures are those of a complete sweep. */
#ifndef AGENT_SEARCH_H
#define AGENT_SEARCH_H

#include "loop.h"
#include "mesh.h"
#include "muster/discovery.h"
#include "muster/event.h"
#include "muster/sweep.h"

#include <stdbool.h>
#include <stdint.h>

struct search;

struct search_options {
    struct loop *loop; /* all borrowed */
    struct mesh *mesh;
    struct mst_event_sink *events;
    struct discovery_arp *arp; /* NULL: by TCP */
    struct discovery_choice choice;
    uint16_t port;
};

int search_new(const struct search_options *options, struct search **ret_search, struct mst_error *err);
void search_free(struct search *search); /* NULL is fine */

/* While wanted, sweeps follow each other; the one under way always finishes. */
void search_set_wanted(struct search *search, bool wanted);
uint64_t search_deadline_ns(const struct search *search);
int search_tick(struct search *search, uint64_t now_ns, struct mst_error *err);

/* The hosts of the last complete sweep, NULL before it. Slots of `workers` are filled in. Borrowed until the
 * next tick. */
const struct discovery_sweep_result *search_result(struct search *search, const char *self_slot,
                                                   const struct discovery_workers *workers);

#endif
