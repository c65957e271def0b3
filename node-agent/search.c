/* SPDX-License-Identifier: Apache-2.0 */
#include "search.h"

#include "muster/clock.h"
#include "muster/log.h"
#include "report.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

/* Whoever starts later sweeps too and says hello by itself, so a repeated sweep only mends lost packets,
 * those of the one before included. What all send, all get: the more there are, the longer each waits. */
#define PAUSE_FIRST_NS    (250 * MST_NS_PER_MS)
#define PAUSE_LAST_NS     (2000 * MST_NS_PER_MS)
#define PAUSE_PER_HOST_NS (16 * MST_NS_PER_MS)
#define LOOKUP_NS         (3000 * MST_NS_PER_MS)
#define NEIGHBOURS_MAX    256 /* of one round */

struct search {
    struct search_options options;
    bool wanted;
    struct discovery_sweep *sweep; /* under way, or NULL */
    int sweep_fd;
    struct discovery_sweep *last; /* complete, or NULL: keeps its result alive */
    struct discovery_sweep_result told;
    struct discovery_lookup *lookup; /* under way, or NULL */
    int lookup_fd;
    uint64_t next_ns, pause_ns;
    uint32_t rounds;
    bool down; /* the network is, and that was said */
};

static void learn(struct search *search, uint32_t ipv4)
{
    struct mst_error err = MST_ERROR_INIT;
    if (mesh_learn(search->options.mesh, ipv4, search->options.port, &err) < 0)
        mst_log_warn("search", "host left out: %s", err.text);
}

static void host_found(void *context, const struct discovery_host *host)
{
    learn(context, host->ipv4);
}

/* The descriptors only end the wait: search_tick() does the work in every turn of the loop. */
static void something_ready(void *context, uint32_t events)
{
    (void)context;
    (void)events;
}

int search_new(const struct search_options *options, struct search **ret_search, struct mst_error *err)
{
    struct search *search = calloc(1, sizeof *search);
    if (!search)
        return mst_error_set(err, -ENOMEM, "search the subnet: no memory");
    search->options = *options;
    search->sweep_fd = -1;
    search->lookup_fd = -1;
    search->wanted = true;
    search->pause_ns = PAUSE_FIRST_NS;
    *ret_search = search;
    return 0;
}

static void end_sweep(struct search *search)
{
    loop_remove(search->options.loop, search->sweep_fd);
    search->sweep_fd = -1;
}

static void end_lookup(struct search *search)
{
    loop_remove(search->options.loop, search->lookup_fd);
    search->lookup_fd = -1;
    discovery_lookup_free(search->lookup);
    search->lookup = NULL;
}

void search_free(struct search *search)
{
    if (!search)
        return;
    end_lookup(search);
    end_sweep(search);
    discovery_sweep_free(search->sweep);
    discovery_sweep_free(search->last);
    free(search->told.hosts);
    free(search);
}

void search_set_wanted(struct search *search, bool wanted)
{
    search->wanted = wanted;
}

uint32_t search_rounds(const struct search *search)
{
    return search->rounds;
}

/* ---- hints ---- */

/* Nothing is sent beyond what is attached, whoever names it; the subnet may have been cut for the sweep. */
static bool is_within(const struct search *search, uint32_t ipv4)
{
    return mst_cidr_contains(discovery_own_subnet(&search->options.choice.interface), ipv4);
}

static void learn_hint(struct search *search, uint32_t ipv4)
{
    if (is_within(search, ipv4))
        learn(search, ipv4);
}

static void learn_neighbours(struct search *search)
{
    struct mst_error err = MST_ERROR_INIT;
    uint32_t list[NEIGHBOURS_MAX];
    size_t count = 0;
    struct discovery_choice whole = search->options.choice;
    whole.subnet = discovery_own_subnet(&whole.interface);
    if (discovery_neighbours(&whole, list, NEIGHBOURS_MAX, &count, &err) < 0)
        mst_log_debug("search", "no hints from the neighbour cache: %s", err.text);
    for (size_t i = 0; i < count; i++)
        learn(search, list[i]);
}

static void start_lookup(struct search *search, uint64_t now_ns)
{
    struct mst_error err = MST_ERROR_INIT;
    int r = discovery_lookup_new(search->options.dns, now_ns + LOOKUP_NS, &search->lookup, &err);
    if (r == 0) {
        search->lookup_fd = discovery_lookup_fd(search->lookup);
        r = loop_add(search->options.loop, search->lookup_fd, EPOLLIN, something_ready, search, &err);
    }
    if (r < 0) {
        mst_log_debug("search", "%s", err.text);
        end_lookup(search);
    }
}

static void tick_lookup(struct search *search)
{
    struct mst_error err = MST_ERROR_INIT;
    size_t count;
    const int r = discovery_lookup_process(search->lookup, &err);
    if (r == 0)
        return;
    if (r < 0)
        mst_log_debug("search", "no hints from DNS: %s", err.text);
    const uint32_t *list = discovery_lookup_result(search->lookup, &count);
    for (size_t i = 0; i < count; i++)
        learn_hint(search, list[i]);
    end_lookup(search);
}

static void take_hints(struct search *search, uint64_t now_ns)
{
    for (size_t h = 0; search->rounds == 0 && h < search->options.hint_count; h++)
        learn_hint(search, search->options.hints[h]);
    learn_neighbours(search);
    if (search->options.dns && !search->lookup)
        start_lookup(search, now_ns);
}

/* ---- sweeps ---- */

static int start(struct search *search, uint64_t now_ns, struct mst_error *err)
{
    const struct discovery_sweep_options options = {
        .choice = search->options.choice,
        .port = search->options.port,
        .no_resend = true,
        .on_host = host_found,
        .context = search,
    };
    take_hints(search, now_ns);
    int r = search->options.arp ? discovery_arp_sweep_new(search->options.arp, &options, &search->sweep, err)
                                : discovery_tcp_sweep_new(&options, &search->sweep, err);
    if (r < 0)
        return r;
    search->sweep_fd = discovery_sweep_fd(search->sweep);
    return loop_add(search->options.loop, search->sweep_fd, EPOLLIN, something_ready, search, err);
}

static void report(struct search *search)
{
    const struct discovery_sweep_result *result = discovery_sweep_result(search->sweep);
    struct report report = report_begin(search->options.events, "sweep");
    report_number(&report, "round", search->rounds);
    report_text(&report, "method", discovery_method_text(result->method));
    report_number(&report, "addresses", result->addresses);
    report_number(&report, "answered", result->answered);
    report_number(&report, "resends", result->resends);
    report_number(&report, "ms", result->ms);
    report_bool(&report, "complete", result->complete);
    report_send(&report);
}

static void finish(struct search *search, uint64_t now_ns)
{
    search->rounds++;
    search->down = false;
    if (search->rounds == 1 && search->options.events)
        report(search);
    end_sweep(search);
    discovery_sweep_free(search->last);
    search->last = search->sweep;
    search->sweep = NULL;
    const uint64_t polite_ns = discovery_sweep_result(search->last)->answered * PAUSE_PER_HOST_NS;
    search->next_ns = now_ns + (search->pause_ns > polite_ns ? search->pause_ns : polite_ns);
    search->pause_ns = 2 * search->pause_ns < PAUSE_LAST_NS ? 2 * search->pause_ns : PAUSE_LAST_NS;
}

static bool is_down(int code)
{
    return code == -ENETDOWN || code == -ENETUNREACH || code == -EHOSTUNREACH;
}

/* A link may come up again, as a cable that is put back does, and a worker that is cut off joins again: it
 * must not end for it. */
static void wait_for_link(struct search *search, uint64_t now_ns, const struct mst_error *why)
{
    if (!search->down)
        mst_log_warn("search", "%s; trying again", why->text);
    search->down = true;
    end_sweep(search);
    discovery_sweep_free(search->sweep);
    search->sweep = NULL;
    search->next_ns = now_ns + PAUSE_LAST_NS;
}

uint64_t search_deadline_ns(const struct search *search)
{
    uint64_t deadline_ns = search->wanted ? search->next_ns : UINT64_MAX;
    if (search->sweep)
        deadline_ns = discovery_sweep_wake_ns(search->sweep);
    if (search->lookup && discovery_lookup_wake_ns(search->lookup) < deadline_ns)
        deadline_ns = discovery_lookup_wake_ns(search->lookup);
    return deadline_ns;
}

int search_tick(struct search *search, uint64_t now_ns, struct mst_error *err)
{
    struct mst_error why = MST_ERROR_INIT;
    int r = 0;
    if (search->lookup)
        tick_lookup(search);
    if (!search->sweep && search->wanted && now_ns >= search->next_ns)
        r = start(search, now_ns, &why);
    if (r == 0 && search->sweep)
        r = discovery_sweep_process(search->sweep, &why);
    if (r == 1)
        finish(search, now_ns);
    else if (is_down(r))
        wait_for_link(search, now_ns, &why);
    else if (r < 0)
        return mst_error_set(err, r, "%s", why.text);
    return 0;
}

/* ---- what was found ---- */

static void name_host(struct discovery_host *host, const char *slot)
{
    (void)snprintf(host->slot, sizeof host->slot, "%s", slot);
    host->port = DISCOVERY_PORT_OPEN;
}

static struct discovery_host *find(const struct discovery_sweep_result *result, uint32_t ipv4)
{
    const struct discovery_host key = {.ipv4 = ipv4};
    return bsearch(&key, result->hosts, result->count, sizeof key, discovery_host_compare);
}

const struct discovery_sweep_result *search_result(struct search *search, const char *self_slot,
                                                   const struct discovery_workers *workers)
{
    if (!search->last)
        return NULL;
    const struct discovery_sweep_result *swept = discovery_sweep_result(search->last);
    struct discovery_host *hosts = calloc(swept->count + workers->count + 1, sizeof *hosts);
    if (!hosts)
        return NULL;
    memcpy(hosts, swept->hosts, swept->count * sizeof *hosts);
    free(search->told.hosts);
    search->told = *swept;
    search->told.hosts = hosts;
    for (size_t h = 0; h < swept->count; h++)
        if (hosts[h].self && hosts[h].ipv4 == search->options.choice.interface.ipv4)
            name_host(&hosts[h], self_slot);
    size_t count = swept->count;
    for (size_t w = 0; w < workers->count; w++) { /* in the order of their addresses */
        struct discovery_host *host = find(&search->told, workers->items[w].ipv4);
        if (!host && count > swept->count && hosts[count - 1].ipv4 == workers->items[w].ipv4)
            host = &hosts[count - 1];
        if (!host) {
            host = &hosts[count++];
            host->ipv4 = workers->items[w].ipv4;
        }
        name_host(host, workers->items[w].slot);
    }
    search->told.count = count;
    qsort(hosts, count, sizeof *hosts, discovery_host_compare);
    return &search->told;
}
