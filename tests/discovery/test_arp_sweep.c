/* SPDX-License-Identifier: Apache-2.0 */
#include "arp.h"
#include "muster/cleanup.h"
#include "muster/clock.h"
#include "muster/sweep.h"
#include "sweep_fixture.h"

#include <sys/wait.h>

#define PEERS 5
static struct netns_peer peers[PEERS];

/* .1 (a gateway), .7, .200 and .254; .50 twice, on two machines. */
static int start_peers(void **state)
{
    static const char *const addresses[PEERS] = {"10.9.0.1/24", "10.9.0.7/24", "10.9.0.200/24",
                                                 "10.9.0.50/24", "10.9.0.50/24"};
    (void)enter_or_skip(state);
    for (size_t i = 0; i < PEERS; i++)
        peers[i] = netns_peer_start(addresses[i], i == 2 ? "10.9.0.254/24" : NULL, NULL, NULL);
    return 0;
}

static int stop_peers(void **state)
{
    (void)state;
    for (size_t i = 0; i < PEERS; i++)
        netns_peer_stop(&peers[i]);
    return 0;
}

static struct discovery_arp *open_arp(const struct discovery_choice *choice)
{
    struct discovery_arp *arp = NULL;
    struct mst_error err = MST_ERROR_INIT;
    if (discovery_arp_open(&choice->interface, &arp, &err) < 0)
        fail_msg("%s", err.text);
    return arp;
}

static void every_host_answers_and_nobody_else_does(void **state)
{
    (void)state;
    static const uint32_t expected[] = {1, 7, 50, 100, 200, 254};
    struct discovery_sweep_options options = {.choice = choose(NETNS_SUBNET)};
    mst_cleanup(discovery_arp_freep) struct discovery_arp *arp = open_arp(&options.choice);
    for (int round = 0; round < 2; round++) { /* one capture serves many sweeps */
        struct discovery_sweep *sweep = NULL;
        struct mst_error err = MST_ERROR_INIT;
        assert_int_equal(discovery_arp_sweep_new(arp, &options, &sweep, &err), 0);
        if (discovery_sweep_run(sweep, &err) < 0)
            fail_msg("%s", err.text);
        const struct discovery_sweep_result *result = discovery_sweep_result(sweep);
        assert_int_equal(result->method, DISCOVERY_METHOD_ARP);
        assert_int_equal(result->addresses, 253);
        assert_int_equal(result->count, MST_ARRAY_COUNT(expected));
        assert_int_equal(result->answered, 5);
        assert_int_equal(result->resends, 1);
        assert_true(result->probes >= 253 + 253 - 5 && result->probes <= 2 * 253);
        assert_true(result->complete);
        print_message("/24 with one re-send: %.1f ms\n", result->ms);
        for (size_t i = 0; i < result->count; i++) {
            const struct discovery_host *host = &result->hosts[i];
            assert_int_equal(host->ipv4, NETNS_OF(expected[i]));
            assert_int_equal(host->self, host->ipv4 == NETNS_IPV4);
            assert_int_equal(host->duplicate, host->ipv4 == NETNS_OF(50));
            assert_true(host->has_mac);
            assert_int_equal(host->attempts, host->self ? 0 : 1);
            assert_int_equal(host->port, DISCOVERY_PORT_UNKNOWN);
        }
        const struct discovery_host *twice = host_at(result, NETNS_OF(50));
        assert_memory_not_equal(twice->mac, twice->other_mac, DISCOVERY_MAC_BYTES);
        discovery_sweep_free(sweep);
    }
}

/* Both ends are on one machine: the answer is there before the call that sends has returned. */
static void a_round_trip_begins_before_the_request_is_sent(void **state)
{
    (void)state;
    struct discovery_sweep_options options = {.choice = choose(NETNS_SUBNET)};
    mst_cleanup(discovery_arp_freep) struct discovery_arp *arp = open_arp(&options.choice);
    struct discovery_sweep *sweep = NULL;
    uint64_t shortest_ns = UINT64_MAX;
    for (int i = 0; i < 200; i++) {
        const uint64_t begin_ns = mst_now_ns();
        assert_int_equal(arp_send(arp, NETNS_OF(1), NULL), 0);
        const uint64_t ns = mst_now_ns() - begin_ns;
        shortest_ns = ns < shortest_ns ? ns : shortest_ns;
    }
    assert_int_equal(discovery_arp_sweep_new(arp, &options, &sweep, NULL), 0);
    assert_int_equal(discovery_sweep_run(sweep, NULL), 0);
    const struct discovery_sweep_result *result = discovery_sweep_result(sweep);
    for (size_t i = 0; i < result->count; i++) {
        const struct discovery_host *host = &result->hosts[i];
        if (!host->self)
            print_message("%u: %.1f us, sending takes %.1f us\n", host->ipv4 & 255,
                          (double)host->rtt_ns / 1e3, (double)shortest_ns / 1e3);
        assert_true(host->self || host->rtt_ns >= shortest_ns);
    }
    discovery_sweep_free(sweep);
}

struct tally {
    unsigned hosts;
    bool called_with_self;
};

static void tally_host(void *context, const struct discovery_host *host)
{
    struct tally *tally = context;
    tally->hosts++;
    tally->called_with_self |= host->self;
}

static bool tally_has_one(void *context)
{
    return ((const struct tally *)context)->hosts >= 1;
}

static void it_stops_when_the_caller_has_enough(void **state)
{
    (void)state;
    struct tally tally = {0};
    struct discovery_sweep_options options = {.choice = choose(NETNS_SUBNET),
                                              .on_host = tally_host,
                                              .enough = tally_has_one,
                                              .context = &tally,
                                              .probes_per_s =
                                                  1000 /* .1 answers long before .254 is asked */};
    mst_cleanup(discovery_arp_freep) struct discovery_arp *arp = open_arp(&options.choice);
    struct discovery_sweep *sweep = NULL;
    assert_int_equal(discovery_arp_sweep_new(arp, &options, &sweep, NULL), 0);
    assert_int_equal(discovery_sweep_run(sweep, NULL), 0);
    assert_false(discovery_sweep_result(sweep)->complete);
    assert_true(discovery_sweep_result(sweep)->probes < 253);
    assert_true(tally.hosts >= 1 && !tally.called_with_self);
    discovery_sweep_free(sweep);
}

static void the_rate_is_kept(void **state)
{
    (void)state;
    struct discovery_sweep_options options = {
        .choice = choose(NETNS_SUBNET), .no_resend = true, .probes_per_s = 2000, .reply_timeout_ms = 10};
    mst_cleanup(discovery_arp_freep) struct discovery_arp *arp = open_arp(&options.choice);
    struct discovery_sweep *sweep = NULL;
    assert_int_equal(discovery_arp_sweep_new(arp, &options, &sweep, NULL), 0);
    assert_int_equal(discovery_sweep_run(sweep, NULL), 0);
    assert_int_equal(discovery_sweep_result(sweep)->probes, 253);
    assert_true(discovery_sweep_result(sweep)->ms >= 253 * 1000.0 / 2000);
    discovery_sweep_free(sweep);
}

static void the_deadline_ends_it(void **state)
{
    (void)state;
    struct discovery_sweep_options options = {.choice = choose(NETNS_SUBNET), .reply_timeout_ms = 60000};
    options.deadline_ns = mst_now_ns() + 100 * MST_NS_PER_MS;
    mst_cleanup(discovery_arp_freep) struct discovery_arp *arp = open_arp(&options.choice);
    struct discovery_sweep *sweep = NULL;
    assert_int_equal(discovery_arp_sweep_new(arp, &options, &sweep, NULL), 0);
    assert_int_equal(discovery_sweep_run(sweep, NULL), 0);
    assert_false(discovery_sweep_result(sweep)->complete);
    assert_int_equal(discovery_sweep_result(sweep)->answered, 5);
    discovery_sweep_free(sweep);
}

static void a_part_of_the_subnet_is_swept_to_its_edges(void **state)
{
    (void)state;
    /* .64 and .127 are hosts like others here: only the whole /24 has a broadcast address. */
    struct discovery_sweep_options options = {.choice = choose("10.9.0.64/26")};
    mst_cleanup(discovery_arp_freep) struct discovery_arp *arp = open_arp(&options.choice);
    struct discovery_sweep *sweep = NULL;
    assert_int_equal(discovery_arp_sweep_new(arp, &options, &sweep, NULL), 0);
    assert_int_equal(discovery_sweep_run(sweep, NULL), 0);
    assert_int_equal(discovery_sweep_result(sweep)->addresses, 63);
    assert_int_equal(discovery_sweep_result(sweep)->answered, 0);
    discovery_sweep_free(sweep);
}

static void an_interface_that_goes_down_is_an_error_and_not_a_hang(void **state)
{
    (void)state;
    assert_int_equal(netns_ip("link add gone type veth peer name gonep"), 0);
    assert_int_equal(netns_ip("addr add 10.8.0.1/24 dev gone"), 0);
    assert_int_equal(netns_ip("link set gone up"), 0);
    assert_int_equal(netns_ip("link set gonep up"), 0);
    struct discovery_sweep_options options = {.choice = choose("10.8.0.0/24")};
    mst_cleanup(discovery_arp_freep) struct discovery_arp *arp = open_arp(&options.choice);
    struct discovery_sweep *sweep = NULL;
    struct mst_error err = MST_ERROR_INIT;
    assert_int_equal(discovery_arp_sweep_new(arp, &options, &sweep, NULL), 0);
    assert_int_equal(discovery_sweep_process(sweep, NULL), 0);
    assert_int_equal(netns_ip("link del gone"), 0);
    assert_true(discovery_sweep_run(sweep, &err) < 0);
    assert_non_null(strstr(err.text, "gone"));
    discovery_sweep_free(sweep);
}

static void without_rights_the_open_says_so(void **state)
{
    (void)state;
    const struct discovery_choice choice = choose(NETNS_SUBNET);
    (void)fflush(NULL);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        struct discovery_arp *arp = NULL;
        struct mst_error err = MST_ERROR_INIT;
        if (setgid(65532) < 0 || setuid(65532) < 0)
            _exit(1);
        const int r = discovery_arp_open(&choice.interface, &arp, &err);
        _exit(r == -EPERM && !arp && strstr(err.text, "eth0") ? 0 : 2);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

static void an_open_capture_sweeps_after_root_is_given_up(void **state)
{
    (void)state;
    struct discovery_sweep_options options = {.choice = choose(NETNS_SUBNET)};
    mst_cleanup(discovery_arp_freep) struct discovery_arp *arp = open_arp(&options.choice);
    (void)fflush(NULL);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        struct discovery_sweep *sweep = NULL;
        if (setgid(65532) < 0 || setuid(65532) < 0 ||
            discovery_arp_sweep_new(arp, &options, &sweep, NULL) < 0 || discovery_sweep_run(sweep, NULL) < 0)
            _exit(1);
        _exit(discovery_sweep_result(sweep)->answered == 5 ? 0 : 2);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

static void links_and_subnets_that_do_not_fit_are_refused(void **state)
{
    (void)state;
    struct discovery_sweep_options options = {.choice = choose(NETNS_SUBNET)};
    mst_cleanup(discovery_arp_freep) struct discovery_arp *arp = open_arp(&options.choice);
    struct discovery_arp *other = NULL;
    struct discovery_sweep *sweep = NULL;
    struct discovery_interface loopback = {.name = "lo", .ipv4 = 0x7f000001, .prefix = 8, .loopback = true};
    assert_int_equal(discovery_arp_open(&loopback, &other, NULL), -EINVAL);
    struct discovery_interface missing = options.choice.interface;
    (void)snprintf(missing.name, sizeof missing.name, "nowhere");
    assert_int_equal(discovery_arp_open(&missing, &other, NULL), -ENODEV);
    assert_null(other);
    options.choice.subnet.prefix = 31;
    assert_int_equal(discovery_arp_sweep_new(arp, &options, &sweep, NULL), -EINVAL);
    options.choice.subnet.prefix = 24;
    options.choice.interface.index++;
    assert_int_equal(discovery_arp_sweep_new(arp, &options, &sweep, NULL), -EINVAL);
    assert_null(sweep);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_host_answers_and_nobody_else_does),
        cmocka_unit_test(a_round_trip_begins_before_the_request_is_sent),
        cmocka_unit_test(it_stops_when_the_caller_has_enough),
        cmocka_unit_test(the_rate_is_kept),
        cmocka_unit_test(the_deadline_ends_it),
        cmocka_unit_test(a_part_of_the_subnet_is_swept_to_its_edges),
        cmocka_unit_test(an_interface_that_goes_down_is_an_error_and_not_a_hang),
        cmocka_unit_test(without_rights_the_open_says_so),
        cmocka_unit_test(an_open_capture_sweeps_after_root_is_given_up),
        cmocka_unit_test(links_and_subnets_that_do_not_fit_are_refused),
    };
    return cmocka_run_group_tests(tests, start_peers, stop_peers);
}
