/* SPDX-License-Identifier: Apache-2.0 */
/* Agents on several networks at once find the one that they have in common. Each is a process in a network
 * namespace of its own: eth0 on 10.9.0.0/24 leads to the others, eth1 on 10.8.0.0/24 does or does not. */
#include "../netns.h"
#include "loop.h"
#include "mesh.h"
#include "muster/clock.h"
#include "muster/net.h"
#include "station.h"
#include "test.h"

#include <poll.h>
#include <signal.h>
#include <sys/mman.h>

#define AGENTS_MAX 4
#define SETTLE_NS  (20 * MST_NS_PER_S)
#define FIRST      0x0a080000U /* 10.8.0.0: comes first in order */

/* What an agent of the test does, and what came of it: shared between the processes. */
struct plan {
    unsigned number;    /* the last byte of its addresses */
    const char *second; /* how eth1 is made; NULL: there is none */
    enum discovery_role role;
    uint64_t alone_ns;
    volatile int code;        /* of station_settle(); 1: not yet */
    volatile uint32_t chosen; /* its address then */
    volatile size_t met;      /* others that it met afterwards */
};
static struct plan *plans; /* AGENTS_MAX of them */

/* In a child, a failed check of cmocka's would go on with the parent's next test. */
#define MUST(condition)                                                                                      \
    do {                                                                                                     \
        if (!(condition)) {                                                                                  \
            (void)fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);                            \
            _exit(1);                                                                                        \
        }                                                                                                    \
    } while (0)

static void isolated(unsigned number)
{
    MUST(netns_ip("link add eth1 type veth peer name eth1p") == 0);
    MUST(netns_ip("link set eth1p up") == 0);
    MUST(netns_ip("addr add 10.8.0.%u/24 dev eth1", number) == 0);
    MUST(netns_ip("link set eth1 up") == 0);
}

/* On the same wire as eth0. */
static void shared(unsigned number)
{
    MUST(netns_ip("link add link eth0 name eth1 type macvlan mode bridge") == 0);
    MUST(netns_ip("addr add 10.8.0.%u/24 dev eth1", number) == 0);
    MUST(netns_ip("link set eth1 up") == 0);
}

static struct agent_config config_of(const struct plan *plan)
{
    static char slot[32];
    (void)snprintf(slot, sizeof slot, "w%u", plan->number);
    return (struct agent_config){.cluster = "blue",
                                 .slot = slot,
                                 .insecure = true,
                                 .keep_user = true,
                                 .port = 7070,
                                 .workers = AGENTS_MAX,
                                 .workers_max = AGENTS_MAX};
}

static void open_station(struct station *station, const struct plan *plan)
{
    const struct agent_config config = config_of(plan);
    struct mst_error err = MST_ERROR_INIT;
    MUST(station_open(station, &config, plan->role, STATION_SWEEPS, &err) == 0);
}

static void seen(void *context, const struct discovery_identity *who)
{
    struct plan *plan = context;
    plan->met += who->state != DISCOVERY_STATE_LOOKING;
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

/* Go on as an agent does that has decided, until `stop` is readable. */
static void serve(struct station *station, struct plan *plan, int stop)
{
    struct loop *loop = NULL;
    struct mesh *mesh = NULL;
    uint32_t also[DISCOVERY_CHOICES_MAX];
    const struct mesh_callbacks callbacks = {
        .context = plan, .seen = seen, .peer_up = no_peer, .peer_down = no_peer_down};
    struct pollfd poll_fd = {.fd = stop, .events = POLLIN};
    station->self.identity.state = DISCOVERY_STATE_FORMING;
    MUST(loop_new(&loop, NULL) == 0);
    const struct mesh_options options = {.loop = loop,
                                         .self = &station->self,
                                         .expected = AGENTS_MAX,
                                         .also = also,
                                         .also_count = station_others(station, also)};
    MUST(mesh_new(&options, &callbacks, &mesh, NULL) == 0);
    while (poll(&poll_fd, 1, 0) == 0) {
        MUST(loop_run_once(loop, mst_now_ns() + 20 * MST_NS_PER_MS, NULL) == 0);
        mesh_tick(mesh, mst_now_ns());
    }
    mesh_free(mesh);
    loop_free(loop);
}

static void settle(struct station *station, struct plan *plan)
{
    struct mst_error err = MST_ERROR_INIT;
    plan->code = station_settle(station, mst_now_ns() + SETTLE_NS, plan->alone_ns, -1, &err);
    plan->chosen = station->self.identity.ipv4;
}

static void agent_body(int ready, int stop, void *context)
{
    struct plan *plan = context;
    struct station station;
    if (plan->second)
        plan->second[0] == 's' ? shared(plan->number) : isolated(plan->number);
    netns_peer_ready(ready);
    open_station(&station, plan);
    settle(&station, plan);
    if (plan->code == 0)
        serve(&station, plan, stop);
    station_close(&station);
}

/* All at once, each in its namespace; then wait until all have decided. */
static void run(const struct plan *wanted, size_t count)
{
    struct netns_peer peers[AGENTS_MAX];
    for (size_t a = 0; a < count; a++) {
        char address[32];
        plans[a] = wanted[a];
        plans[a].number = (unsigned)a + 1;
        plans[a].role = wanted[a].role ? wanted[a].role : DISCOVERY_ROLE_WORKER;
        plans[a].code = 1;
        (void)snprintf(address, sizeof address, "10.9.0.%u/24", plans[a].number);
        peers[a] = netns_peer_start(address, NULL, agent_body, &plans[a]);
    }
    const uint64_t until_ns = mst_now_ns() + SETTLE_NS + 5 * MST_NS_PER_S;
    size_t decided = 0;
    while (decided < count && mst_now_ns() < until_ns) {
        (void)poll(NULL, 0, 10);
        for (size_t a = decided = 0; a < count; a++)
            decided += plans[a].code != 1;
    }
    assert_int_equal(decided, count);
    for (size_t a = 0; a < count; a++)
        netns_peer_stop(&peers[a]);
}

static int enter(void **state)
{
    (void)state;
    if (!netns_enter()) {
        if (netns_must_work())
            return -1;
        (void)fprintf(stderr, "skipped: no rights to make a network namespace\n");
        _exit(77);
    }
    plans = mmap(NULL, AGENTS_MAX * sizeof *plans, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return plans == MAP_FAILED ? -1 : 0;
}

static void a_network_that_leads_to_nobody_is_left_for_the_next(void **state)
{
    (void)state;
    const struct plan agents[] = {{.second = "isolated"}, {.second = "isolated"}, {.second = "isolated"}};
    run(agents, 3);
    for (size_t a = 0; a < 3; a++) {
        assert_int_equal(plans[a].code, 0);
        assert_int_equal(plans[a].chosen, NETNS_OF(a + 1));
    }
}

static void who_has_several_follows_those_that_have_only_one(void **state)
{
    (void)state;
    const struct plan agents[] = {
        {.second = "shared"}, {.second = NULL}, {.second = NULL}, {.second = "isolated"}};
    run(agents, 4);
    for (size_t a = 0; a < 4; a++) {
        assert_int_equal(plans[a].code, 0);
        assert_int_equal(plans[a].chosen, NETNS_OF(a + 1));
    }
}

static void where_all_are_on_both_all_take_the_same(void **state)
{
    (void)state;
    const struct plan agents[] = {
        {.second = "shared"}, {.second = "shared"}, {.second = "shared"}, {.second = "shared"}};
    run(agents, 4);
    for (size_t a = 0; a < 4; a++) {
        assert_int_equal(plans[a].code, 0);
        assert_int_equal(plans[a].chosen, FIRST + a + 1);
    }
}

static void a_collector_goes_where_the_workers_are(void **state)
{
    (void)state;
    const struct plan agents[] = {{.second = "isolated", .role = DISCOVERY_ROLE_COLLECTOR},
                                  {.second = "isolated"},
                                  {.second = "isolated"}};
    run(agents, 3);
    assert_int_equal(plans[0].code, 0);
    assert_int_equal(plans[0].chosen, NETNS_OF(1));
}

static void who_meets_nobody_waits_stops_when_told_or_is_content_alone(void **state)
{
    (void)state;
    struct station station;
    struct mst_error err = MST_ERROR_INIT;
    const struct plan plan = {.number = 100, .role = DISCOVERY_ROLE_WORKER};
    isolated(100);
    open_station(&station, &plan);
    assert_int_equal(station.network_count, 2);
    assert_int_equal(station.choice.interface.ipv4, FIRST + 100);
    assert_int_equal(station_settle(&station, mst_now_ns() + 700 * MST_NS_PER_MS, 0, -1, &err), -ETIMEDOUT);
    assert_string_equal(err.text, "no agent of cluster 'blue' on any of: eth1 10.8.0.0/24, eth0 10.9.0.0/24");
    /* As process_signals_open() gives them: a child that ended is no reason to stop. */
    static const struct {
        unsigned char number;
        int code;
    } signals[] = {{SIGTERM, -ECANCELED}, {SIGINT, -EINTR}, {SIGCHLD, -ETIMEDOUT}};
    for (size_t i = 0; i < MST_ARRAY_COUNT(signals); i++) {
        int fds[2];
        assert_int_equal(pipe2(fds, O_CLOEXEC | O_NONBLOCK), 0);
        assert_int_equal(write(fds[1], &signals[i].number, 1), 1);
        assert_int_equal(station_settle(&station, mst_now_ns() + 300 * MST_NS_PER_MS, 0, fds[0], &err),
                         signals[i].code);
        (void)close(fds[0]);
        (void)close(fds[1]);
    }
    assert_int_equal(station_settle(&station, mst_now_ns() + SETTLE_NS, MST_NS_PER_MS, -1, &err), 0);
    assert_int_equal(station.self.identity.ipv4, FIRST + 100);
    station_close(&station);
    assert_int_equal(netns_ip("link delete eth1"), 0);

    open_station(&station, &plan); /* with one network there is nothing to decide */
    assert_int_equal(station_settle(&station, 0, 0, -1, &err), 0);
    station_close(&station);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_network_that_leads_to_nobody_is_left_for_the_next),
        cmocka_unit_test(who_has_several_follows_those_that_have_only_one),
        cmocka_unit_test(where_all_are_on_both_all_take_the_same),
        cmocka_unit_test(a_collector_goes_where_the_workers_are),
        cmocka_unit_test(who_meets_nobody_waits_stops_when_told_or_is_content_alone),
    };
    return cmocka_run_group_tests(tests, enter, NULL);
}
