/* SPDX-License-Identifier: Apache-2.0 */
/* Which of several networks the others are on. Everybody who is not sure listens on all of them and searches
 * them in the same order, the next one only once the one before has been quiet; whoever says hello there has
 * proved to belong to the cluster. Who meets an agent that is sure of its network goes there; those who only
 * meet each other take the first network in that order on which they did. Nobody becomes a peer before that:
 * an agent's address must be the same for all. Should two that are on both networks decide differently all
 * the same, they still find each other: an agent goes on answering on its other networks (station_others()).
 */
#include "loop.h"
#include "mesh.h"
#include "muster/cleanup.h"
#include "muster/clock.h"
#include "muster/log.h"
#include "process.h"
#include "report.h"
#include "search.h"
#include "station.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

/* After a network's sweep, for hellos to be answered, and others who are at it to catch up. */
#define QUIET_NS         (300 * MST_NS_PER_MS)
#define WAITING_EVERY_NS (2 * MST_NS_PER_S)
#define LOOP_LONGEST_NS  (500 * MST_NS_PER_MS)
#define STRANGERS_NAMED  2  /* of each network, in one event */
#define EXPECTED         64 /* agents on a network at a time, beside strangers */

struct scout;

struct scouted {
    struct scout *scout;
    const struct station_network *network;
    struct discovery_self self; /* as it would be on this network */
    struct mesh *mesh;
    struct search *search; /* NULL: not yet */
    bool swept;
    bool met; /* an agent that is looking, too */
};

struct scout {
    struct station *station;
    struct loop *loop;
    struct scouted *networks; /* as many as the station has */
    size_t searched;          /* the first so many are searched */
    uint64_t quiet_ns;        /* when the next is searched, or those met are counted */
    uint64_t waiting_ns;
    int signal_fd;
    int stop; /* the signal that told to stop, 0: none */
    bool met_any;
    bool all_quiet; /* every network was searched, and nobody met in the pause after it */
    const struct station_network *chosen;
};

static void seen(void *context, const struct discovery_identity *who)
{
    struct scouted *network = context;
    struct scout *scout = network->scout;
    if ((who->role != DISCOVERY_ROLE_WORKER && who->role != DISCOVERY_ROLE_COLLECTOR) || scout->chosen)
        return;
    if (who->state != DISCOVERY_STATE_LOOKING) {
        scout->chosen = network->network;
        return;
    }
    network->met = true;
    if (!scout->met_any)
        scout->quiet_ns = mst_now_ns() + QUIET_NS;
    scout->met_any = true;
}

static void no_peer(void *context, const struct discovery_identity *peer)
{
    (void)context;
    (void)peer;
}

static void no_peer_down(void *context, const struct discovery_identity *peer, const char *reason)
{
    (void)context;
    (void)peer;
    (void)reason;
}

static int open_network(struct scout *scout, struct scouted *scouted, struct mst_error *err)
{
    const struct mesh_callbacks callbacks = {
        .context = scouted, .seen = seen, .peer_up = no_peer, .peer_down = no_peer_down};
    const struct mesh_options options = {
        .loop = scout->loop, .self = &scouted->self, .expected = EXPECTED, .only_hello = true};
    scouted->scout = scout;
    scouted->self = scout->station->self;
    scouted->self.identity.ipv4 = scouted->network->choice.interface.ipv4;
    scouted->self.identity.state = DISCOVERY_STATE_LOOKING;
    const int r = mesh_new(&options, &callbacks, &scouted->mesh, err);
    if (r == 0 && scouted->self.identity.role == DISCOVERY_ROLE_COLLECTOR)
        mesh_set_dialling(scouted->mesh, false);
    return r;
}

static int search_next(struct scout *scout, struct mst_error *err)
{
    struct scouted *scouted = &scout->networks[scout->searched];
    const struct search_options options = {
        .loop = scout->loop,
        .mesh = scouted->mesh,
        .arp = scouted->network->arp,
        .choice = scouted->network->choice,
        .port = scouted->self.identity.port,
        .dns = scout->station->dns,
        .hints = scout->station->hints,
        .hint_count = scout->station->hint_count,
    };
    scout->quiet_ns = UINT64_MAX; /* until its first sweep is over */
    mst_log_info("station", "searching %s", scouted->network->choice.reason);
    const int r = search_new(&options, &scouted->search, err);
    if (r == 0)
        scout->searched++;
    return r;
}

static void signalled(void *context, uint32_t events)
{
    struct scout *scout = context;
    (void)events;
    scout->stop = process_signals_read(scout->signal_fd);
}

/* "eth0 10.10.0.0/24, eth1 10.20.0.0/24" */
static void networks_text(const struct station *station, char *text, size_t text_bytes)
{
    char network[MST_IPV4_TEXT_BYTES];
    size_t used = 0;
    text[0] = '\0';
    for (size_t n = 0; n < station->network_count && used < text_bytes; n++) {
        const struct discovery_choice *choice = &station->networks[n].choice;
        const int more =
            snprintf(text + used, text_bytes - used, "%s%s %s/%u", n > 0 ? ", " : "", choice->interface.name,
                     mst_ipv4_text(choice->subnet.network, network), choice->subnet.prefix);
        used += more > 0 ? (size_t)more : 0;
    }
}

static void say_waiting(struct scout *scout)
{
    char text[MST_ERROR_TEXT_BYTES / 2], line[MST_ERROR_TEXT_BYTES], stranger[MESH_STRANGER_BYTES];
    struct report report = report_begin(&scout->station->events, "waiting");
    report_number(&report, "have", 1);
    report_number(&report, "want", scout->station->workers);
    cJSON *missing = report_array(&report, "missing");
    networks_text(scout->station, text, sizeof text);
    (void)snprintf(line, sizeof line, "no agent yet on any of: %s", text);
    report_append_text(&report, missing, line);
    for (size_t n = 0; n < scout->station->network_count; n++)
        for (size_t s = 0; s < STRANGERS_NAMED && mesh_stranger(scout->networks[n].mesh, s, stranger); s++)
            report_append_text(&report, missing, stranger);
    report_send(&report);
}

static void choose_first_met(struct scout *scout)
{
    for (size_t n = 0; n < scout->station->network_count && !scout->chosen; n++)
        if (scout->networks[n].met)
            scout->chosen = scout->networks[n].network;
}

static int tick(struct scout *scout, uint64_t now_ns, struct mst_error *err)
{
    int r = 0;
    for (size_t n = 0; r == 0 && n < scout->station->network_count; n++) {
        struct scouted *scouted = &scout->networks[n];
        if (scouted->search)
            r = search_tick(scouted->search, now_ns, err);
        if (scouted->search && !scouted->swept && search_rounds(scouted->search) > 0) {
            scouted->swept = true;
            if (!scout->met_any)
                scout->quiet_ns = now_ns + QUIET_NS;
        }
        mesh_tick(scouted->mesh, now_ns);
    }
    if (r < 0 || scout->chosen || now_ns < scout->quiet_ns)
        return r;
    if (scout->met_any)
        choose_first_met(scout);
    else if (scout->searched < scout->station->network_count)
        r = search_next(scout, err);
    else {
        scout->all_quiet = true;
        scout->quiet_ns = UINT64_MAX;
    }
    return r;
}

static uint64_t next_deadline_ns(const struct scout *scout, uint64_t now_ns, uint64_t end_ns)
{
    uint64_t deadline_ns = now_ns + LOOP_LONGEST_NS;
    loop_sooner(&deadline_ns, end_ns);
    loop_sooner(&deadline_ns, scout->quiet_ns);
    loop_sooner(&deadline_ns, scout->waiting_ns);
    for (size_t n = 0; n < scout->station->network_count; n++) {
        const struct scouted *scouted = &scout->networks[n];
        loop_sooner(&deadline_ns, mesh_deadline_ns(scouted->mesh));
        if (scouted->search)
            loop_sooner(&deadline_ns, search_deadline_ns(scouted->search));
    }
    return deadline_ns;
}

static int run(struct scout *scout, uint64_t deadline_ns, uint64_t alone_ns, struct mst_error *err)
{
    const uint64_t alone_at_ns = alone_ns > 0 ? mst_now_ns() + alone_ns : UINT64_MAX;
    uint64_t now_ns = mst_now_ns();
    int r = 0;
    scout->waiting_ns = now_ns + WAITING_EVERY_NS;
    while (r == 0 && !scout->chosen && scout->stop == 0 && now_ns < deadline_ns) {
        r = loop_run_once(scout->loop, next_deadline_ns(scout, now_ns, deadline_ns), err);
        now_ns = mst_now_ns();
        if (r == 0)
            r = tick(scout, now_ns, err);
        if (now_ns >= scout->waiting_ns) {
            scout->waiting_ns = now_ns + WAITING_EVERY_NS;
            say_waiting(scout);
        }
        if (now_ns >= alone_at_ns && scout->all_quiet && !scout->met_any && !scout->chosen)
            scout->chosen = &scout->station->networks[0];
    }
    if (r < 0 || scout->chosen)
        return r;
    if (scout->stop != 0)
        return mst_error_set(err, scout->stop == SIGINT ? -EINTR : -ECANCELED,
                             "told to stop while looking for the others' network");
    char text[MST_ERROR_TEXT_BYTES / 2];
    networks_text(scout->station, text, sizeof text);
    return mst_error_set(err, -ETIMEDOUT, "no agent of cluster '%s' on any of: %s",
                         scout->station->self.identity.cluster, text);
}

static int open_all(struct scout *scout, int signal_fd, struct mst_error *err)
{
    const size_t count = scout->station->network_count;
    scout->networks = calloc(count, sizeof *scout->networks);
    if (!scout->networks)
        return mst_error_set(err, -ENOMEM, "look for the others' network: no memory");
    scout->signal_fd = signal_fd;
    int r = loop_new(&scout->loop, err);
    if (r == 0 && signal_fd >= 0)
        r = loop_add(scout->loop, signal_fd, EPOLLIN, signalled, scout, err);
    for (size_t n = 0; r == 0 && n < count; n++) {
        scout->networks[n].network = &scout->station->networks[n];
        r = open_network(scout, &scout->networks[n], err);
    }
    scout->quiet_ns = UINT64_MAX;
    if (r == 0 && scout->station->self.identity.role != DISCOVERY_ROLE_COLLECTOR)
        r = search_next(scout, err);
    return r;
}

static void close_all(struct scout *scout)
{
    for (size_t n = 0; scout->networks && n < scout->station->network_count; n++) {
        struct scouted *scouted = &scout->networks[n];
        search_free(scouted->search);
        mesh_free(scouted->mesh);
        mst_forget(&scouted->self, sizeof scouted->self);
    }
    loop_free(scout->loop);
    free(scout->networks);
}

size_t station_others(const struct station *station, uint32_t *ret_ipv4)
{
    size_t count = 0;
    for (size_t n = 0; n < station->network_count; n++)
        if (station->networks[n].choice.interface.ipv4 != station->self.identity.ipv4)
            ret_ipv4[count++] = station->networks[n].choice.interface.ipv4;
    return count;
}

int station_settle(struct station *station, uint64_t deadline_ns, uint64_t alone_ns, int signal_fd,
                   struct mst_error *err)
{
    struct scout scout = {.station = station};
    if (station->network_count < 2)
        return 0;
    int r = open_all(&scout, signal_fd, err);
    if (r == 0)
        r = run(&scout, deadline_ns, alone_ns, err);
    if (r == 0) {
        station->choice = scout.chosen->choice;
        station->arp = scout.chosen->arp;
        station->self.identity.ipv4 = station->choice.interface.ipv4;
        mst_log_info("station", "going on with %s", station->choice.reason);
    }
    close_all(&scout);
    return r;
}
