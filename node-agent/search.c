/* SPDX-License-Identifier: Apache-2.0 */
#include "search.h"

#include "muster/clock.h"
#include "muster/log.h"
#include "report.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

/* Whoever starts later sweeps too and says hello by itself, so a repeated sweep only mends lost packets. */
#define SEARCH_PAUSE_FIRST_NS (250 * MST_NS_PER_MS)
#define SEARCH_PAUSE_LAST_NS  (2000 * MST_NS_PER_MS)

struct search {
    struct search_options options;
    bool wanted;
    struct discovery_sweep *sweep; /* under way, or NULL */
    int sweep_fd;
    struct discovery_sweep *last; /* complete, or NULL: keeps its result alive */
    uint64_t next_ns, pause_ns;
    uint32_t rounds;
};

static void host_found(void *context, const struct discovery_host *host)
{
    struct search *search = context;
    struct mst_error err = MST_ERROR_INIT;
    if (mesh_learn(search->options.mesh, host->ipv4, search->options.port, &err) < 0)
        mst_log_warn("search", "host left out: %s", err.text);
}

/* The descriptor only ends the wait: search_tick() does the work in every turn of the loop. */
static void sweep_ready(void *context, uint32_t events)
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
    search->wanted = true;
    search->pause_ns = SEARCH_PAUSE_FIRST_NS;
    *ret_search = search;
    return 0;
}

static void stop_watching(struct search *search)
{
    loop_remove(search->options.loop, search->sweep_fd);
    search->sweep_fd = -1;
}

void search_free(struct search *search)
{
    if (!search)
        return;
    stop_watching(search);
    discovery_sweep_free(search->sweep);
    discovery_sweep_free(search->last);
    free(search);
}

void search_set_wanted(struct search *search, bool wanted)
{
    search->wanted = wanted;
}

static int start(struct search *search, struct mst_error *err)
{
    const struct discovery_sweep_options options = {
        .choice = search->options.choice,
        .port = search->options.port,
        .on_host = host_found,
        .context = search,
    };
    int r = search->options.arp ? discovery_arp_sweep_new(search->options.arp, &options, &search->sweep, err)
                                : discovery_tcp_sweep_new(&options, &search->sweep, err);
    if (r < 0)
        return r;
    search->sweep_fd = discovery_sweep_fd(search->sweep);
    return loop_add(search->options.loop, search->sweep_fd, EPOLLIN, sweep_ready, search, err);
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
    if (search->rounds == 1)
        report(search);
    stop_watching(search);
    discovery_sweep_free(search->last);
    search->last = search->sweep;
    search->sweep = NULL;
    search->next_ns = now_ns + search->pause_ns;
    search->pause_ns =
        2 * search->pause_ns < SEARCH_PAUSE_LAST_NS ? 2 * search->pause_ns : SEARCH_PAUSE_LAST_NS;
}

uint64_t search_deadline_ns(const struct search *search)
{
    if (search->sweep)
        return discovery_sweep_wake_ns(search->sweep);
    return search->wanted ? search->next_ns : UINT64_MAX;
}

int search_tick(struct search *search, uint64_t now_ns, struct mst_error *err)
{
    int r = 0;
    if (!search->sweep && search->wanted && now_ns >= search->next_ns)
        r = start(search, err);
    if (r < 0 || !search->sweep)
        return r;
    r = discovery_sweep_process(search->sweep, err);
    if (r == 1)
        finish(search, now_ns);
    return r < 0 ? r : 0;
}

static void name_host(struct discovery_host *host, const char *slot)
{
    (void)snprintf(host->slot, sizeof host->slot, "%s", slot);
    host->port = DISCOVERY_PORT_OPEN;
}

const struct discovery_sweep_result *search_result(struct search *search, const char *self_slot,
                                                   const struct discovery_workers *workers)
{
    if (!search->last)
        return NULL;
    const struct discovery_sweep_result *result = discovery_sweep_result(search->last);
    for (size_t h = 0; h < result->count; h++) {
        struct discovery_host *host = &result->hosts[h];
        if (host->self)
            name_host(host, self_slot);
        for (size_t w = 0; w < workers->count; w++)
            if (workers->items[w].ipv4 == host->ipv4)
                name_host(host, workers->items[w].slot);
    }
    return result;
}
