/* SPDX-License-Identifier: Apache-2.0 */
/* Sweeps over real interfaces of every size, and of machines that have more than one. */
#include "muster/cleanup.h"
#include "muster/sweep.h"
#include "sweep_fixture.h"

static struct discovery_sweep *sweep_now(const struct discovery_choice *choice, enum discovery_method method)
{
    const bool by_arp = method == DISCOVERY_METHOD_ARP;
    /* On a loaded machine answers are late, and a burst may overflow a queue. */
    const struct discovery_sweep_options options = {.choice = *choice,
                                                    .no_resend = !by_arp,
                                                    .reply_timeout_ms = by_arp ? 500 : 0,
                                                    .probes_per_s = by_arp ? 50000 : 0};
    mst_cleanup(discovery_arp_freep) struct discovery_arp *arp = NULL;
    struct discovery_sweep *sweep = NULL;
    struct mst_error err = MST_ERROR_INIT;
    int r = by_arp ? discovery_arp_open(&choice->interface, &arp, &err) : 0;
    if (r == 0)
        r = by_arp ? discovery_arp_sweep_new(arp, &options, &sweep, &err)
                   : discovery_tcp_sweep_new(&options, &sweep, &err);
    if (r == 0)
        r = discovery_sweep_run(sweep, &err);
    if (r < 0)
        fail_msg("%s: %s", choice->reason, err.text);
    return sweep; /* its result stays when the capture goes */
}

static size_t count_selves(const struct discovery_sweep_result *result)
{
    size_t selves = 0;
    for (size_t h = 0; h < result->count; h++)
        selves += result->hosts[h].self;
    return selves;
}

static void every_size_from_16_to_30_is_swept_to_its_ends(void **state)
{
    (void)state;
    for (unsigned prefix = 16; prefix <= 30; prefix++) {
        /* We are the last host of the subnet, the peer is the first. */
        const uint32_t hosts = UINT32_MAX >> prefix, network = 0x0a140000;
        char ours[MST_IPV4_TEXT_BYTES], theirs[MST_IPV4_TEXT_BYTES], address[32], subnet[32];
        (void)snprintf(subnet, sizeof subnet, "10.20.0.0/%u", prefix);
        (void)snprintf(address, sizeof address, "%s/%u", mst_ipv4_text(network + 1, theirs), prefix);
        struct netns_peer peer = netns_peer_start(address, NULL, NULL, NULL);
        assert_int_equal(
            netns_ip("addr add %s/%u dev eth0", mst_ipv4_text(network + hosts - 1, ours), prefix), 0);
        const struct discovery_choice choice = choose(subnet);
        wait_until_reachable(network + 1);
        for (int method = prefix < DISCOVERY_TCP_MIN_PREFIX; method < 2; method++) {
            const bool by_arp = method == 1;
            struct discovery_sweep *sweep =
                sweep_now(&choice, by_arp ? DISCOVERY_METHOD_ARP : DISCOVERY_METHOD_TCP);
            const struct discovery_sweep_result *result = discovery_sweep_result(sweep);
            assert_int_equal(result->addresses, hosts - 2);
            assert_int_equal(result->answered, 1);
            assert_int_equal(result->count, 2);
            assert_int_equal(result->hosts[0].ipv4, network + 1);
            assert_true(result->hosts[1].self);
            discovery_sweep_free(sweep);
        }
        assert_int_equal(netns_ip("addr del %s/%u dev eth0", ours, prefix), 0);
        netns_peer_stop(&peer);
        assert_int_equal(netns_ip("neigh flush dev eth0"), 0); /* the next one has another MAC */
    }
}

static void a_machine_with_two_interfaces_on_one_subnet_is_one_machine(void **state)
{
    (void)state;
    struct netns_peer peer = netns_peer_start("10.9.0.7/24", NULL, NULL, NULL);
    assert_int_equal(netns_ip("link add eth1 type veth peer name eth1p"), 0);
    assert_int_equal(netns_ip("link set eth1p master fabric up"), 0);
    assert_int_equal(netns_ip("addr add 10.9.0.101/24 dev eth1"), 0);
    assert_int_equal(netns_ip("addr add 10.9.0.55/32 dev eth0"), 0); /* a service's virtual address */
    assert_int_equal(netns_ip("link set eth1 up"), 0);
    wait_until_reachable(NETNS_OF(7));
    struct discovery_choice choices[4];
    struct discovery_filter filter;
    const struct mst_cidr subnet = {NETNS_OF(0), 24};
    size_t count = 0;
    assert_int_equal(discovery_interfaces_find(&subnet, NULL, choices, 4, &count, NULL), 0);
    assert_int_equal(count, 2);
    assert_string_equal(choices[0].interface.name, "eth0");
    assert_string_equal(choices[1].interface.name, "eth1");
    assert_int_equal(discovery_filter_parse("eth1", &filter, NULL), 0);
    assert_int_equal(discovery_interfaces_find(NULL, &filter, &choices[1], 1, &count, NULL), 0);
    assert_string_equal(choices[1].interface.name, "eth1");
    for (int i = 0; i < 2; i++) {
        for (int method = 0; method < 2; method++) {
            struct discovery_sweep *sweep =
                sweep_now(&choices[i], method ? DISCOVERY_METHOD_ARP : DISCOVERY_METHOD_TCP);
            const struct discovery_sweep_result *result = discovery_sweep_result(sweep);
            assert_int_equal(result->answered, 1);
            assert_int_equal(count_selves(result), 3);
            assert_int_equal(result->addresses, 251);
            assert_non_null(host_at(result, NETNS_OF(7)));
            assert_true(host_at(result, NETNS_OF(101))->self && host_at(result, NETNS_OF(55))->self);
            discovery_sweep_free(sweep);
        }
    }
    assert_int_equal(netns_ip("link delete eth1"), 0);
    netns_peer_stop(&peer);
}

static void of_a_subnet_that_is_too_large_for_tcp_the_part_around_us_is_left(void **state)
{
    (void)state;
    struct discovery_choice choice;
    assert_int_equal(netns_ip("addr add 10.20.21.100/16 dev eth0"), 0);
    choice = choose("10.20.0.0/16");
    assert_false(discovery_choice_narrow(&choice, 16));
    assert_true(discovery_choice_narrow(&choice, DISCOVERY_TCP_MIN_PREFIX));
    assert_int_equal(choice.subnet.network, 0x0a141400);
    assert_int_equal(choice.subnet.prefix, 22);
    assert_int_equal(discovery_own_subnet(&choice.interface).network, 0x0a140000);
    assert_non_null(strstr(choice.reason, "only 10.20.20.0/22 of it"));
    struct netns_peer peer = netns_peer_start("10.20.23.254/16", NULL, NULL, NULL);
    wait_until_reachable(0x0a1417fe);
    const struct discovery_sweep_options options = {.choice = choice};
    struct discovery_sweep *sweep = NULL;
    assert_int_equal(discovery_tcp_sweep_new(&options, &sweep, NULL), 0);
    assert_int_equal(discovery_sweep_result(sweep)->addresses,
                     1023); /* its ends are hosts like others here */
    assert_int_equal(discovery_sweep_run(sweep, NULL), 0);
    assert_int_equal(discovery_sweep_result(sweep)->answered, 1);
    discovery_sweep_free(sweep);
    netns_peer_stop(&peer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_size_from_16_to_30_is_swept_to_its_ends),
        cmocka_unit_test(a_machine_with_two_interfaces_on_one_subnet_is_one_machine),
        cmocka_unit_test(of_a_subnet_that_is_too_large_for_tcp_the_part_around_us_is_left),
    };
    return cmocka_run_group_tests(tests, enter_or_skip, NULL);
}
