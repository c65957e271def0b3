/* SPDX-License-Identifier: Apache-2.0 */
/* What the search gives to the mesh, and what it says of a sweep afterwards, in a network namespace. */
#include "../netns.h"
#include "muster/clock.h"
#include "muster/net.h"
#include "search.h"
#include "test.h"

struct fixture {
    struct loop *loop;
    struct discovery_self self;
    struct mesh *mesh;
    struct search *search;
};

static struct netns_peer peer;

static int enter(void **state)
{
    (void)state;
    if (!netns_enter()) {
        if (netns_must_work())
            return -1;
        (void)fprintf(stderr, "skipped: no rights to make a network namespace\n");
        _exit(77);
    }
    peer = netns_peer_start("10.9.0.7/24", NULL, NULL, NULL);
    return 0;
}

static int leave(void **state)
{
    (void)state;
    netns_peer_stop(&peer);
    return 0;
}

static void nobody(void *context, const struct discovery_identity *who)
{
    (void)context;
    (void)who;
}

static void nobody_down(void *context, const struct discovery_identity *who, const char *reason)
{
    (void)context;
    (void)who;
    (void)reason;
}

static struct discovery_choice choose(const char *subnet)
{
    struct mst_cidr cidr;
    struct discovery_choice choice;
    assert_int_equal(mst_parse_cidr(subnet, &cidr, NULL), 0);
    assert_int_equal(discovery_interface_find(&cidr, &choice, NULL), 0);
    return choice;
}

static void open_search(struct fixture *fixture, struct search_options options)
{
    *fixture = (struct fixture){.self = {.key_count = 1}};
    struct discovery_identity *identity = &fixture->self.identity;
    memcpy(identity->cluster, "blue", sizeof "blue");
    memcpy(identity->slot, "here", sizeof "here");
    identity->role = DISCOVERY_ROLE_WORKER;
    identity->ipv4 = options.choice.interface.ipv4;
    identity->port = DISCOVERY_PORT;
    assert_int_equal(loop_new(&fixture->loop, NULL), 0);
    const struct mesh_callbacks callbacks = {.seen = nobody, .peer_up = nobody, .peer_down = nobody_down};
    const struct mesh_options mesh_options = {.loop = fixture->loop, .self = &fixture->self, .expected = 4};
    assert_int_equal(mesh_new(&mesh_options, &callbacks, &fixture->mesh, NULL), 0);
    options.loop = fixture->loop;
    options.mesh = fixture->mesh;
    options.port = DISCOVERY_PORT;
    assert_int_equal(search_new(&options, &fixture->search, NULL), 0);
}

static void close_search(struct fixture *fixture)
{
    search_free(fixture->search);
    mesh_free(fixture->mesh);
    loop_free(fixture->loop);
}

static void turn(struct fixture *fixture)
{
    struct mst_error err = MST_ERROR_INIT;
    assert_int_equal(loop_run_once(fixture->loop, mst_now_ns() + 5 * MST_NS_PER_MS, NULL), 0);
    if (search_tick(fixture->search, mst_now_ns(), &err) < 0)
        fail_msg("%s", err.text);
    mesh_tick(fixture->mesh, mst_now_ns());
}

static bool was_dialled(const struct fixture *fixture, const char *address)
{
    char text[MESH_STRANGER_BYTES];
    for (size_t s = 0; mesh_stranger(fixture->mesh, s, text); s++)
        if (strncmp(text, address, strlen(address)) == 0 && text[strlen(address)] == ':')
            return true;
    return false;
}

#define UNTIL(fixture, condition)                                                                            \
    do {                                                                                                     \
        const uint64_t until_ns = mst_now_ns() + 20 * MST_NS_PER_S;                                          \
        while (!(condition)) {                                                                               \
            if (mst_now_ns() > until_ns)                                                                     \
                fail_msg("waited in vain for: %s", #condition);                                              \
            turn(fixture);                                                                                   \
        }                                                                                                    \
    } while (0)

static void hints_and_neighbours_are_greeted_and_nothing_beyond_the_subnet(void **state)
{
    (void)state;
    static const uint32_t hints[] = {NETNS_OF(55), 0x08080808, 0x0a090155, NETNS_IPV4};
    assert_int_equal(netns_ip("route add default via 10.9.0.7"), 0); /* there is a way to anywhere */
    assert_int_equal(netns_ip("neigh add 10.9.0.77 lladdr 02:00:00:00:00:77 dev eth0 nud permanent"), 0);
    const struct search_options options = {
        .choice = choose(NETNS_SUBNET), .hints = hints, .hint_count = MST_ARRAY_COUNT(hints)};
    struct fixture fixture;
    open_search(&fixture, options);
    UNTIL(&fixture, was_dialled(&fixture, "10.9.0.55") && was_dialled(&fixture, "10.9.0.77") &&
                        was_dialled(&fixture, "10.9.0.7"));
    assert_false(was_dialled(&fixture, "8.8.8.8"));
    assert_false(was_dialled(&fixture, "10.9.1.85"));
    assert_false(was_dialled(&fixture, "10.9.0.100"));
    close_search(&fixture);
    assert_int_equal(netns_ip("route del default"), 0);
}

static void hints_count_where_the_sweep_does_not_reach(void **state)
{
    (void)state;
    static const uint32_t hints[] = {0x0a16c8c8}; /* 10.22.200.200 */
    assert_int_equal(netns_ip("addr add 10.22.0.100/16 dev eth0"), 0);
    struct search_options options = {.choice = choose("10.22.0.0/16"), .hints = hints, .hint_count = 1};
    assert_true(discovery_choice_narrow(&options.choice, DISCOVERY_TCP_MIN_PREFIX));
    struct fixture fixture;
    open_search(&fixture, options);
    UNTIL(&fixture, was_dialled(&fixture, "10.22.200.200"));
    close_search(&fixture);
    assert_int_equal(netns_ip("addr del 10.22.0.100/16 dev eth0"), 0);
}

static void a_name_that_nobody_knows_hurts_nobody(void **state)
{
    (void)state;
    const struct search_options options = {.choice = choose(NETNS_SUBNET), .dns = "tasks.nobody.invalid"};
    struct fixture fixture;
    open_search(&fixture, options);
    UNTIL(&fixture, search_rounds(fixture.search) >= 2 && was_dialled(&fixture, "10.9.0.7"));
    close_search(&fixture);
    open_search(&fixture, options);
    turn(&fixture);
    close_search(&fixture); /* in the middle of a look-up */
}

static const struct discovery_host *host_at(const struct discovery_sweep_result *result, uint32_t ipv4)
{
    for (size_t h = 0; h < result->count; h++)
        if (result->hosts[h].ipv4 == ipv4)
            return &result->hosts[h];
    return NULL;
}

static struct discovery_identity worker_at(uint32_t ipv4, uint16_t port, const char *slot)
{
    struct discovery_identity identity = {.role = DISCOVERY_ROLE_WORKER, .ipv4 = ipv4, .port = port};
    memcpy(identity.incarnation, &ipv4, sizeof ipv4);
    memcpy(identity.incarnation + sizeof ipv4, &port, sizeof port);
    (void)snprintf(identity.slot, sizeof identity.slot, "%s", slot);
    return identity;
}

static void workers_that_came_after_the_sweep_are_in_its_result(void **state)
{
    (void)state;
    const struct search_options options = {.choice = choose(NETNS_SUBNET)};
    struct discovery_workers workers = {0};
    struct fixture fixture;
    open_search(&fixture, options);
    assert_null(search_result(fixture.search, "here", &workers));
    UNTIL(&fixture, search_rounds(fixture.search) > 0);
    const struct discovery_identity here[] = {
        worker_at(NETNS_OF(7), 7070, "seven"), worker_at(NETNS_OF(200), 7071, "late-one"),
        worker_at(NETNS_OF(200), 7072, "late-other"), worker_at(NETNS_OF(3), 7070, "later")};
    for (size_t w = 0; w < MST_ARRAY_COUNT(here); w++)
        assert_int_equal(discovery_workers_add(&workers, &here[w], NULL), 1);
    for (int again = 0; again < 2; again++) {
        const struct discovery_sweep_result *result = search_result(fixture.search, "here", &workers);
        assert_int_equal(result->count, 4); /* .3, .7, .100, .200 */
        for (size_t h = 1; h < result->count; h++)
            assert_true(result->hosts[h - 1].ipv4 < result->hosts[h].ipv4);
        assert_string_equal(host_at(result, NETNS_OF(3))->slot, "later");
        assert_string_equal(host_at(result, NETNS_OF(7))->slot, "seven");
        assert_string_equal(host_at(result, NETNS_IPV4)->slot, "here");
        assert_non_null(strstr(host_at(result, NETNS_OF(200))->slot, "late-"));
        assert_int_equal(host_at(result, NETNS_OF(3))->port, DISCOVERY_PORT_OPEN);
        assert_int_equal(result->answered, 1); /* the sweep's own figure */
    }
    discovery_workers_release(&workers);
    close_search(&fixture);
}

static void a_link_that_is_down_for_a_while_ends_nothing(void **state)
{
    (void)state;
    for (int by_arp = 0; by_arp < 2; by_arp++) {
        mst_cleanup(discovery_arp_freep) struct discovery_arp *arp = NULL;
        struct search_options options = {.choice = choose(NETNS_SUBNET)};
        if (by_arp)
            assert_int_equal(discovery_arp_open(&options.choice.interface, &arp, NULL), 0);
        options.arp = arp;
        struct fixture fixture;
        open_search(&fixture, options);
        UNTIL(&fixture, search_rounds(fixture.search) > 0);
        assert_int_equal(netns_ip("link set dev eth0 down"), 0);
        for (const uint64_t until_ns = mst_now_ns() + 3 * MST_NS_PER_S; mst_now_ns() < until_ns;)
            turn(&fixture);
        assert_int_equal(netns_ip("link set dev eth0 up"), 0);
        const uint32_t before = search_rounds(fixture.search);
        UNTIL(&fixture, search_rounds(fixture.search) > before + 1);
        const struct discovery_workers nobody_known = {0};
        assert_non_null(host_at(search_result(fixture.search, "here", &nobody_known), NETNS_OF(7)));
        close_search(&fixture);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hints_and_neighbours_are_greeted_and_nothing_beyond_the_subnet),
        cmocka_unit_test(hints_count_where_the_sweep_does_not_reach),
        cmocka_unit_test(a_name_that_nobody_knows_hurts_nobody),
        cmocka_unit_test(workers_that_came_after_the_sweep_are_in_its_result),
        cmocka_unit_test(a_link_that_is_down_for_a_while_ends_nothing),
    };
    return cmocka_run_group_tests(tests, enter, leave);
}
