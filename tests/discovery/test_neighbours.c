/* SPDX-License-Identifier: Apache-2.0 */
#include "muster/cleanup.h"
#include "sweep_fixture.h"

static struct netns_peer peers[2];

static int start_peers(void **state)
{
    (void)enter_or_skip(state);
    peers[0] = netns_peer_start("10.9.0.1/24", NULL, NULL, NULL);
    peers[1] = netns_peer_start("10.9.0.2/24", NULL, NULL, NULL);
    return 0;
}

static int stop_peers(void **state)
{
    (void)state;
    for (size_t i = 0; i < MST_ARRAY_COUNT(peers); i++)
        netns_peer_stop(&peers[i]);
    return 0;
}

static void only_those_spoken_to_on_this_interface_and_subnet_are_known(void **state)
{
    (void)state;
    struct discovery_choice choice = choose(NETNS_SUBNET);
    uint32_t list[8];
    size_t count = 7;
    assert_int_equal(discovery_neighbours(&choice, list, 8, &count, NULL), 0);
    assert_int_equal(count, 0);
    wait_until_reachable(NETNS_OF(2));
    assert_int_equal(discovery_neighbours(&choice, list, 8, &count, NULL), 0);
    assert_int_equal(count, 1);
    assert_int_equal(list[0], NETNS_OF(2));
    wait_until_reachable(NETNS_OF(1));
    /* Somebody who never answered, somebody with an address that was given by hand, another interface's. */
    int fd = -1;
    assert_int_equal(mst_tcp_connect(NETNS_OF(9), 9, mst_now_ns() + 20 * MST_NS_PER_MS, &fd, NULL),
                     -ETIMEDOUT);
    assert_int_equal(netns_ip("neigh add 10.9.0.77 lladdr 02:00:00:00:00:77 dev eth0 nud permanent"), 0);
    assert_int_equal(netns_ip("link add eth1 type veth peer name eth1p"), 0);
    assert_int_equal(netns_ip("addr add 10.9.0.101/24 dev eth1"), 0);
    assert_int_equal(netns_ip("link set eth1 up"), 0);
    assert_int_equal(netns_ip("neigh add 10.9.0.88 lladdr 02:00:00:00:00:88 dev eth1 nud permanent"), 0);
    assert_int_equal(discovery_neighbours(&choice, list, 8, &count, NULL), 0);
    uint32_t sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += list[i] - NETNS_OF(0);
    assert_int_equal(count, 3);
    assert_int_equal(sum, 1 + 2 + 77);

    choice.subnet = (struct mst_cidr){NETNS_OF(64), 26}; /* the part that is searched */
    assert_int_equal(discovery_neighbours(&choice, list, 8, &count, NULL), 0);
    assert_int_equal(count, 1);
    assert_int_equal(list[0], NETNS_OF(77));
    assert_int_equal(netns_ip("link delete eth1"), 0);
}

static void many_are_read_up_to_the_limit(void **state)
{
    (void)state;
    const struct discovery_choice choice = choose(NETNS_SUBNET);
    uint32_t list[240];
    size_t count = 0;
    for (unsigned i = 3; i < 253; i++)
        if (i != 100)
            assert_int_equal(netns_ip("neigh replace 10.9.0.%u lladdr 02:00:00:00:01:%02x dev eth0", i, i),
                             0);
    assert_int_equal(discovery_neighbours(&choice, list, 240, &count, NULL), 0);
    assert_int_equal(count, 240);
    for (size_t i = 0; i < count; i++)
        assert_true(mst_cidr_contains(choice.subnet, list[i]) && list[i] != NETNS_IPV4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_those_spoken_to_on_this_interface_and_subnet_are_known),
        cmocka_unit_test(many_are_read_up_to_the_limit),
    };
    return cmocka_run_group_tests(tests, start_peers, stop_peers);
}
