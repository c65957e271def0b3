/* SPDX-License-Identifier: Apache-2.0 */
#include "muster/cleanup.h"
#include "sweep_fixture.h"

#include <sys/resource.h>

#define PEERS 6
static struct netns_peer peers[PEERS];
static struct listener_plan plans[PEERS];

static struct listener_plan plan_for(enum manners manners, uint8_t at)
{
    struct listener_plan plan = {.manners = manners, .ipv4 = NETNS_OF(at), .self = make_self("w.1", at, 7)};
    plan.self.identity.ipv4 = plan.ipv4;
    return plan;
}

/* .1 a gateway without a listener, .2 and .3 workers, .4 to .6 foreign listeners. */
static int start_peers(void **state)
{
    static const enum manners manners[PEERS] = {MUTE, WORKER, WORKER, GARBAGE, CLOSER, MUTE};
    (void)enter_or_skip(state);
    for (uint8_t i = 0; i < PEERS; i++) {
        char address[32];
        (void)snprintf(address, sizeof address, "10.9.0.%u/24", i + 1U);
        plans[i] = plan_for(manners[i], (uint8_t)(i + 1));
        peers[i] = netns_peer_start(address, NULL, i == 0 ? NULL : listener_body, &plans[i]);
    }
    return 0;
}

static int stop_peers(void **state)
{
    (void)state;
    for (size_t i = 0; i < PEERS; i++)
        netns_peer_stop(&peers[i]);
    return 0;
}

static void open_closed_and_silent_addresses_are_told_apart(void **state)
{
    (void)state;
    struct discovery_sweep_options options = {.choice = choose(NETNS_SUBNET), .reply_timeout_ms = 200};
    struct discovery_sweep *sweep = NULL;
    struct mst_error err = MST_ERROR_INIT;
    assert_int_equal(discovery_tcp_sweep_new(&options, &sweep, &err), 0);
    if (discovery_sweep_run(sweep, &err) < 0)
        fail_msg("%s", err.text);
    const struct discovery_sweep_result *result = discovery_sweep_result(sweep);
    assert_int_equal(result->method, DISCOVERY_METHOD_TCP);
    assert_int_equal(result->addresses, 253);
    assert_int_equal(result->answered, PEERS);
    assert_int_equal(result->count, PEERS + 1);
    assert_true(result->complete);
    assert_int_equal(result->resends, 1);
    assert_int_equal(host_at(result, NETNS_OF(1))->port, DISCOVERY_PORT_CLOSED);
    for (uint32_t i = 2; i <= PEERS; i++)
        assert_int_equal(host_at(result, NETNS_OF(i))->port, DISCOVERY_PORT_OPEN);
    assert_true(host_at(result, NETNS_IPV4)->self);
    assert_null(host_at(result, NETNS_OF(77)));
    for (size_t i = 1; i < result->count; i++)
        assert_true(result->hosts[i - 1].ipv4 < result->hosts[i].ipv4);
    discovery_sweep_free(sweep);
}

/* The program that a small agent would be: each open port gets a hello, and only workers end on the list. */
static void gateways_and_foreign_listeners_never_become_workers(void **state)
{
    (void)state;
    static const enum discovery_reason reasons[] = {
        [2] = DISCOVERY_REASON_NONE,
        [3] = DISCOVERY_REASON_NONE,
        [4] = DISCOVERY_REASON_FOREIGN,
        [5] = DISCOVERY_REASON_CLOSED,
        [6] = DISCOVERY_REASON_NONE /* no answer: nothing was learnt */};
    static const int codes[] = {[2] = 0, [3] = 0, [4] = -EPROTO, [5] = -EPIPE, [6] = -ETIMEDOUT};
    const struct discovery_self self = make_self("here.1", 100, 7);
    mst_cleanup(discovery_workers_release) struct discovery_workers workers = {0};
    for (uint32_t i = 2; i <= 6; i++) {
        struct discovery_session session;
        enum discovery_reason reason = 99;
        struct mst_error err = MST_ERROR_INIT;
        mst_cleanup(mst_closep) int fd = -1;
        const uint64_t start_ns = mst_now_ns();
        const int r = discovery_hello_dial(NETNS_OF(i), DISCOVERY_PORT, &self, DISCOVERY_PURPOSE_HELLO,
                                           start_ns + 250 * MST_NS_PER_MS, &fd, &session, &reason, &err);
        assert_int_equal(r, codes[i]);
        assert_int_equal(reason, reasons[i]);
        assert_true(mst_ms_since(start_ns) < 2000);
        if (r < 0)
            assert_non_null(strstr(err.text, "10.9.0."));
        else
            assert_int_equal(discovery_workers_add(&workers, &session.peer, NULL), 1);
    }
    assert_int_equal(workers.count, 2);
    assert_int_equal(workers.items[0].ipv4, NETNS_OF(2));
    assert_int_equal(workers.items[1].ipv4, NETNS_OF(3));
}

static void another_key_and_another_cluster_are_told_by_name_and_address(void **state)
{
    (void)state;
    struct discovery_self self = make_self("here.1", 100, 8);
    struct discovery_session session;
    enum discovery_reason reason = 99;
    struct mst_error err = MST_ERROR_INIT;
    int fd;
    const uint64_t deadline_ns = mst_now_ns() + MST_NS_PER_S;
    assert_int_equal(discovery_hello_dial(NETNS_OF(2), DISCOVERY_PORT, &self, DISCOVERY_PURPOSE_HELLO,
                                          deadline_ns, &fd, &session, &reason, &err),
                     -EACCES);
    assert_int_equal(reason, DISCOVERY_REASON_KEY);
    assert_string_equal(err.text, "hello to 10.9.0.2:7070: its key is not ours");
    (void)snprintf(self.identity.cluster, sizeof self.identity.cluster, "red");
    assert_int_equal(discovery_hello_dial(NETNS_OF(2), DISCOVERY_PORT, &self, DISCOVERY_PURPOSE_HELLO,
                                          deadline_ns, &fd, &session, &reason, &err),
                     -EPROTO);
    assert_int_equal(reason, DISCOVERY_REASON_CLUSTER);
}

static void count_hosts(void *context, const struct discovery_host *host)
{
    assert_false(host->self);
    ++*(unsigned *)context;
}

static bool enough_after_two(void *context)
{
    return *(unsigned *)context >= 2;
}

static void a_sweep_stops_as_soon_as_it_has_enough(void **state)
{
    (void)state;
    unsigned found = 0;
    struct discovery_sweep_options options = {.choice = choose(NETNS_SUBNET),
                                              .on_host = count_hosts,
                                              .enough = enough_after_two,
                                              .context = &found};
    struct discovery_sweep *sweep = NULL;
    assert_int_equal(discovery_tcp_sweep_new(&options, &sweep, NULL), 0);
    assert_int_equal(discovery_sweep_run(sweep, NULL), 0);
    const struct discovery_sweep_result *result = discovery_sweep_result(sweep);
    assert_int_equal(result->answered, found);
    assert_false(result->complete);
    assert_int_equal(result->resends, 0);
    discovery_sweep_free(sweep);
}

static void the_deadline_ends_a_sweep(void **state)
{
    (void)state;
    struct discovery_sweep_options options = {.choice = choose(NETNS_SUBNET), .reply_timeout_ms = 30000};
    options.deadline_ns = mst_now_ns() + 150 * MST_NS_PER_MS;
    struct discovery_sweep *sweep = NULL;
    assert_int_equal(discovery_tcp_sweep_new(&options, &sweep, NULL), 0);
    assert_int_equal(discovery_sweep_run(sweep, NULL), 0);
    assert_false(discovery_sweep_result(sweep)->complete);
    assert_true(discovery_sweep_result(sweep)->ms < 5000);
    /* Never more than that at once, however long they are silent. */
    assert_true(discovery_sweep_result(sweep)->probes <= DISCOVERY_TCP_IN_FLIGHT + PEERS);
    discovery_sweep_free(sweep);
}

static void a_shortage_of_descriptors_only_slows_it_down(void **state)
{
    (void)state;
    struct rlimit before, few;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    few = before;
    few.rlim_cur = 40;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
    struct discovery_sweep_options options = {
        .choice = choose("10.9.0.96/28"), .reply_timeout_ms = 50, .no_resend = true};
    struct discovery_sweep_options wide = {
        .choice = choose(NETNS_SUBNET), .reply_timeout_ms = 50, .no_resend = true};
    struct discovery_sweep *sweep = NULL;
    assert_int_equal(discovery_tcp_sweep_new(&options, &sweep, NULL), 0);
    assert_int_equal(discovery_sweep_run(sweep, NULL), 0);
    assert_int_equal(discovery_sweep_result(sweep)->addresses, 15);
    discovery_sweep_free(sweep);
    assert_int_equal(discovery_tcp_sweep_new(&wide, &sweep, NULL), 0);
    assert_int_equal(discovery_sweep_run(sweep, NULL), 0);
    assert_int_equal(discovery_sweep_result(sweep)->answered, PEERS);
    assert_true(discovery_sweep_result(sweep)->complete);
    discovery_sweep_free(sweep);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
}

static size_t count_incomplete(void)
{
    size_t lines = 0;
    char line[256];
    FILE *neighbours = popen("ip -4 neigh show to 10.9.4.0/22 dev eth0 nud incomplete", "re");
    assert_non_null(neighbours);
    while (fgets(line, sizeof line, neighbours))
        lines++;
    (void)pclose(neighbours);
    return lines;
}

static void a_large_subnet_does_not_fill_the_kernels_neighbour_table(void **state)
{
    (void)state;
    assert_int_equal(netns_ip("addr add 10.9.4.100/22 dev eth0"), 0);
    struct discovery_sweep_options options = {
        .choice = choose("10.9.4.0/22"), .reply_timeout_ms = 20, .no_resend = true};
    struct discovery_sweep *sweep = NULL;
    struct mst_error err = MST_ERROR_INIT;
    size_t most = 0;
    bool stalled = false;
    int r;
    assert_int_equal(discovery_tcp_sweep_new(&options, &sweep, &err), 0);
    while ((r = discovery_sweep_process(sweep, &err)) == 0) {
        const uint64_t wait_ns = discovery_sweep_wake_ns(sweep) - mst_now_ns();
        if (wait_ns > 200 * MST_NS_PER_MS && wait_ns < 10 * MST_NS_PER_S && !stalled) {
            stalled = true; /* it waits for the kernel to forget */
            assert_int_equal(discovery_sweep_result(sweep)->probes, DISCOVERY_TCP_UNRESOLVED);
            most = count_incomplete();
        }
        struct pollfd poll_fd = {.fd = discovery_sweep_fd(sweep), .events = POLLIN};
        (void)poll(&poll_fd, 1, mst_ms_until(discovery_sweep_wake_ns(sweep), 1000));
    }
    assert_int_equal(r, 1);
    assert_true(stalled);
    assert_true(most <= DISCOVERY_TCP_UNRESOLVED);
    print_message("%zu addresses on the kernel's mind at most, /22 in %.1f s\n", most,
                  discovery_sweep_result(sweep)->ms / 1000);
    assert_int_equal(discovery_sweep_result(sweep)->probes, 1021);
    discovery_sweep_free(sweep);
    assert_int_equal(netns_ip("addr del 10.9.4.100/22 dev eth0"), 0);
}

static void subnets_that_are_too_large_too_small_or_not_attached_are_refused(void **state)
{
    (void)state;
    static const struct {
        uint32_t network, prefix;
    } cases[] = {{0x0a090000, 21}, {0x0a090000, 31}, {0x0a090064, 32}, {0x0a090000, 23}, {0x0a0a0000, 24}};
    for (size_t i = 0; i < MST_ARRAY_COUNT(cases); i++) {
        struct discovery_sweep_options options = {.choice = choose(NETNS_SUBNET)};
        struct discovery_sweep *sweep = NULL;
        struct mst_error err = MST_ERROR_INIT;
        options.choice.subnet = (struct mst_cidr){cases[i].network, cases[i].prefix};
        assert_int_equal(discovery_tcp_sweep_new(&options, &sweep, &err), -EINVAL);
        assert_null(sweep);
        assert_non_null(strstr(err.text, "10."));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(open_closed_and_silent_addresses_are_told_apart),
        cmocka_unit_test(gateways_and_foreign_listeners_never_become_workers),
        cmocka_unit_test(another_key_and_another_cluster_are_told_by_name_and_address),
        cmocka_unit_test(a_sweep_stops_as_soon_as_it_has_enough),
        cmocka_unit_test(the_deadline_ends_a_sweep),
        cmocka_unit_test(a_shortage_of_descriptors_only_slows_it_down),
        cmocka_unit_test(a_large_subnet_does_not_fill_the_kernels_neighbour_table),
        cmocka_unit_test(subnets_that_are_too_large_too_small_or_not_attached_are_refused),
    };
    return cmocka_run_group_tests(tests, start_peers, stop_peers);
}
