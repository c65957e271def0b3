/* SPDX-License-Identifier: Apache-2.0 */
#include "muster/cleanup.h"
#include "sweep_fixture.h"

static const struct discovery_interface *named(const struct discovery_interface *list, size_t count,
                                               const char *name, uint32_t ipv4)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(list[i].name, name) == 0 && list[i].ipv4 == ipv4)
            return &list[i];
    fail_msg("%s is not listed", name);
    return NULL;
}

static void addresses_links_and_the_default_route_are_seen_as_they_are(void **state)
{
    (void)state;
    struct discovery_interface list[16];
    size_t count;
    assert_int_equal(netns_ip("link set eth0 mtu 1450"), 0);
    assert_int_equal(netns_ip("addr add 10.9.0.101/32 dev eth0 label eth0:vip"), 0);
    assert_int_equal(netns_ip("link add eth1 type veth peer name eth1p"), 0);
    assert_int_equal(netns_ip("addr add 172.18.0.3/16 dev eth1"), 0);
    assert_int_equal(netns_ip("link set eth1 up"), 0);
    assert_int_equal(netns_ip("link set eth1p up"), 0);
    assert_int_equal(netns_ip("route add default via 172.18.0.1"), 0);
    assert_int_equal(discovery_interfaces_list(list, 16, &count, NULL), 0);
    assert_int_equal(count, 4); /* lo, eth0 twice, eth1 */

    const struct discovery_interface *lo = named(list, count, "lo", 0x7f000001);
    assert_true(lo->loopback && !lo->ethernet && lo->prefix == 8);
    const struct discovery_interface *eth0 = named(list, count, "eth0", NETNS_IPV4);
    assert_true(eth0->up && eth0->ethernet && !eth0->loopback && !eth0->holds_default_route);
    assert_int_equal(eth0->prefix, 24);
    assert_int_equal(eth0->mtu, 1450);
    assert_true(eth0->index > 0);
    assert_int_equal(named(list, count, "eth0", NETNS_OF(101))->prefix, 32); /* the label is gone */
    assert_true(named(list, count, "eth1", 0xac120003)->holds_default_route);
    assert_int_equal(discovery_interfaces_list(list, 2, &count, NULL), -ENOBUFS);
}

static void the_overlays_interface_is_found_without_being_told(void **state)
{
    (void)state;
    struct discovery_choice choice;
    struct mst_error err = MST_ERROR_INIT;
    if (discovery_interface_find(NULL, &choice, &err) < 0)
        fail_msg("%s", err.text);
    assert_string_equal(choice.reason,
                        "eth0 10.9.0.100/24: MTU 1450 as overlays have, private, not the default route's");
}

/* As Swarm gives them to a task with a published port: ingress, the overlay with its service's virtual
 * address, and docker_gwbridge. */
static void a_task_with_published_ports_looks_on_its_overlay_first(void **state)
{
    (void)state;
    struct discovery_choice choices[8];
    struct discovery_filter filter;
    size_t count = 0;
    struct mst_error err = MST_ERROR_INIT;
    assert_int_equal(netns_ip("link add eth2 mtu 1450 type veth peer name eth2p"), 0);
    assert_int_equal(netns_ip("addr add 10.0.0.7/24 dev eth2"), 0);
    assert_int_equal(netns_ip("addr add 10.0.0.6/32 dev eth2"), 0);
    assert_int_equal(netns_ip("link set eth2 up"), 0);
    assert_int_equal(netns_ip("link add eth3 mtu 1450 type veth peer name eth3p"), 0);
    assert_int_equal(netns_ip("addr add 10.8.0.7/24 dev eth3"), 0);
    assert_int_equal(netns_ip("link set eth3 up"), 0);
    if (discovery_interfaces_find(NULL, NULL, choices, 8, &count, &err) < 0)
        fail_msg("%s", err.text);
    assert_int_equal(count, 3);
    assert_string_equal(choices[0].interface.name, "eth3"); /* 10.8 comes before 10.9, on every node */
    assert_string_equal(choices[1].interface.name, "eth0");
    assert_string_equal(choices[2].interface.name, "eth2");
    assert_non_null(strstr(choices[2].reason, "perhaps the ingress network"));
    assert_int_equal(discovery_filter_parse("!10.8.0.0/24", &filter, NULL), 0);
    assert_int_equal(discovery_interfaces_find(NULL, &filter, choices, 8, &count, NULL), 0);
    assert_int_equal(count, 2);
    assert_string_equal(choices[0].interface.name, "eth0");
    assert_int_equal(netns_ip("link delete eth2"), 0);
    assert_int_equal(netns_ip("link delete eth3"), 0);
}

static void with_only_the_default_route_left_the_user_has_to_say_so(void **state)
{
    (void)state;
    struct discovery_choice choice;
    struct mst_error err = MST_ERROR_INIT;
    assert_int_equal(netns_ip("addr flush dev eth0"), 0);
    assert_int_equal(discovery_interface_find(NULL, &choice, &err), -EINVAL);
    assert_non_null(strstr(err.text, "--subnet is required"));
    const struct discovery_choice told = choose("172.18.0.0/16");
    assert_string_equal(told.interface.name, "eth1");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(addresses_links_and_the_default_route_are_seen_as_they_are),
        cmocka_unit_test(the_overlays_interface_is_found_without_being_told),
        cmocka_unit_test(a_task_with_published_ports_looks_on_its_overlay_first),
        cmocka_unit_test(with_only_the_default_route_left_the_user_has_to_say_so),
    };
    return cmocka_run_group_tests(tests, enter_or_skip, NULL);
}
