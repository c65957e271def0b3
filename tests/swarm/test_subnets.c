/* SPDX-License-Identifier: Apache-2.0 */
#include "../common/test.h"
#include "subnets.h"

static const char routes[] =
    "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n"
    "eth0\t00000000\t0102A8C0\t0003\t0\t0\t0\t00000000\t0\t0\t0\n"  /* default */
    "eth0\t0002A8C0\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0\n"  /* 192.168.2.0/24 */
    "down0\t0003A8C0\t00000000\t0000\t0\t0\t0\t00FFFFFF\t0\t0\t0\n" /* not up */
    "tun0\t0000000A\t00000000\t0001\t0\t0\t0\t000000FF\t0\t0\t0\n"; /* 10.0.0.0/8 */

static struct mst_cidr cidr(const char *text)
{
    struct mst_cidr value;

    assert_int_equal(mst_parse_cidr(text, &value, NULL), 0);
    return value;
}

static void overlaps_are_found_and_named(void **state)
{
    static const struct {
        const char *subnet, *owner;
    } cases[] = {
        {"192.168.2.128/25", "a route of this machine over 'eth0'"},
        {"192.168.0.0/16", "a route of this machine over 'eth0'"},
        {"192.168.3.0/24", NULL},
        {"10.200.0.0/24", "a route of this machine over 'tun0'"},
        {"172.18.5.0/24", "network 'docker_gwbridge'"},
        {"172.19.0.0/24", NULL},
        {"203.0.113.0/24", "node 'far'"},
        {"0.0.0.0/0", "network 'docker_gwbridge'"},
    };
    static const char networks[] =
        "[{\"Name\":\"docker_gwbridge\",\"IPAM\":{\"Config\":[{\"Subnet\":\"172.18.0.0/16\"}]}},"
        "{\"Name\":\"v6\",\"IPAM\":{\"Config\":[{\"Subnet\":\"fd00::/64\"}]}},"
        "{\"Name\":\"host\",\"IPAM\":{\"Config\":null}},{\"Name\":\"odd\"},7]";
    static const char nodes_text[] =
        "[{\"ID\":\"f\",\"Description\":{\"Hostname\":\"far\"},\"Status\":{\"Addr\":\"203.0.113.9\"}}]";
    mst_cleanup(subnets_release) struct subnets used = {0};
    mst_cleanup(swarm_nodes_release) struct swarm_nodes nodes = {0};
    cJSON *json = cJSON_Parse(networks);

    (void)state;
    assert_int_equal(subnets_add_networks(&used, json, NULL), 0);
    assert_int_equal(swarm_nodes_take(cJSON_Parse(nodes_text), &nodes, NULL), 0);
    assert_int_equal(subnets_add_nodes(&used, &nodes, NULL), 0);
    assert_int_equal(subnets_add_routes(&used, routes, NULL), 0);
    assert_int_equal(used.count, 4);
    for (size_t i = 0; i < MST_ARRAY_COUNT(cases); i++) {
        const struct subnet_use *use = subnets_overlap(&used, cidr(cases[i].subnet), NULL);
        if ((use == NULL) != (cases[i].owner == NULL) || (use && strcmp(use->owner, cases[i].owner) != 0))
            fail_msg("%s: %s", cases[i].subnet, use ? use->owner : "nobody");
    }
    assert_null(subnets_overlap(&used, cidr("172.18.0.0/24"), "network 'docker_gwbridge'"));
    cJSON_Delete(json);
}

static void garbled_routes_are_passed_over(void **state)
{
    static const char *const tables[] = {
        "",
        "\n\n",
        "x",
        "a b c d e f g h",
        "eth0 zz 0 1 0 0 0 ff",
        "a-name-of-an-interface-that-cannot-be-one-for-it-goes-on-and-on-and-on-and-on 0 0 1 0 0 0 FF",
    };

    (void)state;
    for (size_t i = 0; i < MST_ARRAY_COUNT(tables); i++) {
        mst_cleanup(subnets_release) struct subnets used = {0};
        assert_int_equal(subnets_add_routes(&used, tables[i], NULL), 0);
        assert_int_equal(used.count, 0);
    }
}

static void a_proposal_is_free_and_of_the_same_size(void **state)
{
    static const struct {
        uint32_t prefix;
        const char *proposal; /* NULL: none */
    } cases[] = {
        {24, "192.168.0.0/24"}, {16, "172.16.0.0/16"}, {26, "192.168.0.0/26"}, {31, NULL}, {8, NULL}};
    mst_cleanup(subnets_release) struct subnets used = {0};
    struct mst_cidr proposal = {0, 0};

    (void)state;
    for (size_t i = 0; i < MST_ARRAY_COUNT(cases); i++) {
        const int r = subnets_propose(&used, cases[i].prefix, &proposal);
        assert_int_equal(r, cases[i].proposal ? 0 : -ENOENT);
        if (r < 0)
            continue;
        assert_int_equal(proposal.network, cidr(cases[i].proposal).network);
        assert_int_equal(proposal.prefix, cases[i].prefix);
    }
    assert_int_equal(subnets_add_routes(&used, routes, NULL), 0);
    for (int i = 0; i < 200; i++) { /* each is used as soon as it is proposed */
        struct subnet_use *items = reallocarray(used.items, used.count + 1, sizeof *items);
        assert_non_null(items);
        used.items = items;
        assert_int_equal(subnets_propose(&used, 24, &proposal), 0);
        assert_null(subnets_overlap(&used, proposal, NULL));
        items[used.count++] = (struct subnet_use){.cidr = proposal, .owner = "test"};
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(overlaps_are_found_and_named),
        cmocka_unit_test(garbled_routes_are_passed_over),
        cmocka_unit_test(a_proposal_is_free_and_of_the_same_size),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
