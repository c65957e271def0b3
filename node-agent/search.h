/* SPDX-License-Identifier: Apache-2.0 */
/* The search: whatever gives addresses, which all go to the mesh. Sweeps of the subnet, one after another
 * with growing pauses; before each of them the hints: neighbours that the kernel knows, a name's addresses in
 * DNS, and a list that was given. A hint is an address worth a hello and can be wrong in any way. The first
 * sweep always runs to its end, so that its figures are those of a complete one. */
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
    struct mst_event_sink *events; /* NULL: nothing is reported */
    struct discovery_arp *arp;     /* NULL: by TCP */
    struct discovery_choice choice;
    uint16_t port;
    const char *dns;       /* a name to look up, NULL: none */
    const uint32_t *hints; /* addresses to begin with */
    size_t hint_count;
};

int search_new(const struct search_options *options, struct search **ret_search, struct mst_error *err);
void search_free(struct search *search); /* NULL is fine */

/* While wanted, sweeps follow each other; the one under way always finishes. */
void search_set_wanted(struct search *search, bool wanted);
/* Sweeps that were completed so far. */
uint32_t search_rounds(const struct search *search);

uint64_t search_deadline_ns(const struct search *search);
/* Never blocks. A network that is down is tried again; an error ends the search for good. */
int search_tick(struct search *search, uint64_t now_ns, struct mst_error *err);

/* What the last complete sweep found, with the slots of `workers` and of this agent filled in, and with those
 * of the workers that it did not find: they came later. NULL before the first sweep is complete, or without
 * memory. Valid until the next call of tick, result or free. */
const struct discovery_sweep_result *search_result(struct search *search, const char *self_slot,
                                                   const struct discovery_workers *workers);

#endif
