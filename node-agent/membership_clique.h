/* SPDX-License-Identifier: Apache-2.0 */
/* Largest sets of workers that all reach each other, in a network where nearly all do. */
#ifndef AGENT_MEMBERSHIP_CLIQUE_H
#define AGENT_MEMBERSHIP_CLIQUE_H

#include <stdbool.h>
#include <stddef.h>

struct clique_links {
    size_t count;
    size_t cuts;   /* pairs that do not reach each other */
    bool *missing; /* owned, NULL while there is no cut: count * count */
    bool failed;   /* no memory for a cut */
};

/* Of `count` workers that all reach each other. */
void clique_links_init(struct clique_links *links, size_t count);
void clique_cut(struct clique_links *links, size_t a, size_t b);
void clique_links_release(struct clique_links *links); /* usable with mst_cleanup() */

/* Call found() with every set that is left when of each pair that is cut one is left out; the largest cliques
 * are among them. There are at most two to the number of workers that must go; beyond CLIQUE_TRIES of them
 * the one with the most cuts goes without asking, so that the time is bounded, and the set found need not be
 * the largest. `in` is borrowed, by index. 0 or -ENOMEM. */
#define CLIQUE_TRIES 4096
int clique_search(const struct clique_links *links, void (*found)(void *context, const bool *in),
                  void *context);

#endif
