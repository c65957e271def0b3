/* SPDX-License-Identifier: Apache-2.0 */
#include "membership_clique.h"

#include "muster/cleanup.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

void clique_links_init(struct clique_links *links, size_t count)
{
    *links = (struct clique_links){.count = count};
}

void clique_links_release(struct clique_links *links)
{
    free(links->missing);
    links->missing = NULL;
}

void clique_cut(struct clique_links *links, size_t a, size_t b)
{
    if (!links->missing)
        links->missing = calloc(links->count * links->count, sizeof *links->missing);
    if (!links->missing) {
        links->failed = true;
        return;
    }
    if (links->missing[a * links->count + b])
        return;
    links->missing[a * links->count + b] = true;
    links->missing[b * links->count + a] = true;
    links->cuts++;
}

struct walk {
    const struct clique_links *links;
    void (*found)(void *context, const bool *in);
    void *context;
    bool *in;
    size_t tries;
};

static bool is_cut(const struct walk *walk, size_t a, size_t b)
{
    return walk->links->missing[a * walk->links->count + b];
}

/* A pair of the set that is cut, the first one from `from` on. */
static bool find_cut(const struct walk *walk, size_t from, size_t *ret_a, size_t *ret_b)
{
    for (size_t a = from; a < walk->links->count; a++) {
        for (size_t b = a + 1; walk->in[a] && b < walk->links->count; b++) {
            if (walk->in[b] && is_cut(walk, a, b)) {
                *ret_a = a;
                *ret_b = b;
                return true;
            }
        }
    }
    return false;
}

static size_t cuts_of(const struct walk *walk, size_t a)
{
    size_t cuts = 0;
    for (size_t b = 0; b < walk->links->count; b++)
        cuts += walk->in[b] && b != a && is_cut(walk, a, b);
    return cuts;
}

/* No more branches: leave out whoever is cut off from the most, until nobody is. */
static void settle(struct walk *walk)
{
    size_t a, b;
    mst_cleanup(mst_freep) bool *before = malloc(walk->links->count * sizeof *before);
    if (!before)
        return; /* other branches have been found already */
    memcpy(before, walk->in, walk->links->count * sizeof *before);
    while (find_cut(walk, 0, &a, &b)) {
        size_t worst = b;
        for (size_t i = 0; i < walk->links->count; i++)
            if (walk->in[i] && cuts_of(walk, i) > cuts_of(walk, worst))
                worst = i;
        walk->in[worst] = false;
    }
    walk->found(walk->context, walk->in);
    memcpy(walk->in, before, walk->links->count * sizeof *before);
}

/* Depth is bounded by the number of workers, 1024. */
static void branch(struct walk *walk, size_t from)
{
    size_t a, b;
    if (!find_cut(walk, from, &a, &b)) {
        walk->tries++;
        walk->found(walk->context, walk->in);
        return;
    }
    if (walk->tries >= CLIQUE_TRIES) {
        settle(walk);
        return;
    }
    walk->in[b] = false;
    branch(walk, a);
    walk->in[b] = true;
    if (walk->tries >= CLIQUE_TRIES)
        return;
    walk->in[a] = false;
    branch(walk, a);
    walk->in[a] = true;
}

int clique_search(const struct clique_links *links, void (*found)(void *context, const bool *in),
                  void *context)
{
    mst_cleanup(mst_freep) bool *in = malloc(links->count * sizeof *in);
    if (!in || links->failed)
        return -ENOMEM;
    for (size_t i = 0; i < links->count; i++)
        in[i] = true;
    struct walk walk = {.links = links, .found = found, .context = context, .in = in};
    if (links->cuts == 0)
        found(context, in);
    else
        branch(&walk, 0);
    return 0;
}
