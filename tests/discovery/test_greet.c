/* SPDX-License-Identifier: Apache-2.0 */
#include "muster/cleanup.h"
#include "sweep_fixture.h"

#define PEERS 9
static struct netns_peer peers[PEERS];
static struct listener_plan plans[PEERS];

/* .1 has no listener; .2 and .3 are workers, .3 with another key; .4 and .5 are foreign; .6 to .9 accept and
 * are silent. */
static int start_peers(void **state)
{
    static const enum manners manners[PEERS] = {MUTE, WORKER, WORKER, GARBAGE, CLOSER,
                                                MUTE, MUTE,   MUTE,   MUTE};
    (void)enter_or_skip(state);
    for (uint8_t i = 0; i < PEERS; i++) {
        char address[32];
        (void)snprintf(address, sizeof address, "10.9.0.%u/24", i + 1U);
        plans[i] = (struct listener_plan){
            .manners = manners[i], .ipv4 = NETNS_OF(i + 1), .self = make_self("w.1", i, i == 2 ? 8 : 7)};
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

static void all_are_asked_at_once_and_each_gives_its_own_answer(void **state)
{
    (void)state;
    static const struct {
        int code;
        enum discovery_reason reason;
        bool connected;
    } expected[PEERS + 1] = {
        {-ECONNREFUSED, DISCOVERY_REASON_NONE, false},
        {0, DISCOVERY_REASON_NONE, true},
        {-EACCES, DISCOVERY_REASON_KEY, true},
        {-EPROTO, DISCOVERY_REASON_FOREIGN, true},
        {-EPIPE, DISCOVERY_REASON_CLOSED, true},
        {-ETIMEDOUT, DISCOVERY_REASON_NONE, true},
        {-ETIMEDOUT, DISCOVERY_REASON_NONE, true},
        {-ETIMEDOUT, DISCOVERY_REASON_NONE, true},
        {-ETIMEDOUT, DISCOVERY_REASON_NONE, true},
        {-ETIMEDOUT, DISCOVERY_REASON_NONE, false}, /* .10: nobody */
    };
    struct discovery_self self = make_self("here.1", 100, 7);
    for (int keys = 1; keys <= 2; keys++) {
        struct discovery_greeting list[PEERS + 1];
        for (size_t i = 0; i <= PEERS; i++)
            list[i] = (struct discovery_greeting){.ipv4 = NETNS_OF(i + 1), .port = DISCOVERY_PORT};
        if (keys == 2) { /* ours and .3's: the old one comes second */
            self.keys[1] = self.keys[0];
            memset(self.keys[1].bytes, 8, self.keys[1].count);
            self.key_count = 2;
        }
        /* Five that take their whole second would be late one after the other. */
        assert_int_equal(discovery_greet(&self, list, PEERS + 1, mst_now_ns() + 3 * MST_NS_PER_S, NULL), 0);
        for (size_t i = 0; i <= PEERS; i++) {
            const bool now_known = keys == 2 && i == 2;
            assert_int_equal(list[i].code, now_known ? 0 : expected[i].code);
            assert_int_equal(list[i].reason, now_known ? DISCOVERY_REASON_NONE : expected[i].reason);
            assert_int_equal(list[i].connected, expected[i].connected);
            assert_int_equal(list[i].connect_ns > 0, expected[i].connected);
        }
        assert_string_equal(list[1].who.slot, "w.1");
    }
}

static void when_the_time_is_over_the_rest_is_not_asked(void **state)
{
    (void)state;
    const struct discovery_self self = make_self("here.1", 100, 7);
    enum { COUNT = DISCOVERY_GREETINGS_AT_ONCE + 50 };
    mst_cleanup(mst_freep) struct discovery_greeting *list = calloc(COUNT, sizeof *list);
    assert_non_null(list);
    for (size_t i = 0; i < COUNT; i++)
        list[i] = (struct discovery_greeting){.ipv4 = NETNS_OF(6), .port = DISCOVERY_PORT}; /* silent */
    const uint64_t start_ns = mst_now_ns();
    assert_int_equal(discovery_greet(&self, list, COUNT, start_ns + 200 * MST_NS_PER_MS, NULL), 0);
    size_t asked = 0;
    for (size_t i = 0; i < COUNT; i++)
        asked += list[i].code != -ECANCELED;
    assert_int_equal(asked, DISCOVERY_GREETINGS_AT_ONCE);
    assert_int_equal(discovery_greet(&self, list, COUNT, start_ns, NULL), 0); /* over before it begins */
    for (size_t i = 0; i < COUNT; i++)
        assert_int_equal(list[i].code, -ECANCELED);
    assert_int_equal(discovery_greet(&self, list, 0, mst_now_ns() + MST_NS_PER_S, NULL), 0);
}

static void more_than_fit_at_once_are_asked_in_turn(void **state)
{
    (void)state;
    const struct discovery_self self = make_self("here.1", 100, 7);
    enum { COUNT = 3 * DISCOVERY_GREETINGS_AT_ONCE };
    mst_cleanup(mst_freep) struct discovery_greeting *list = calloc(COUNT, sizeof *list);
    assert_non_null(list);
    for (size_t i = 0; i < COUNT; i++)
        list[i] = (struct discovery_greeting){.ipv4 = NETNS_OF(1), .port = DISCOVERY_PORT};
    list[COUNT - 1].ipv4 = NETNS_OF(2);
    assert_int_equal(discovery_greet(&self, list, COUNT, mst_now_ns() + 20 * MST_NS_PER_S, NULL), 0);
    for (size_t i = 0; i + 1 < COUNT; i++)
        assert_int_equal(list[i].code, -ECONNREFUSED);
    assert_int_equal(list[COUNT - 1].code, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_are_asked_at_once_and_each_gives_its_own_answer),
        cmocka_unit_test(when_the_time_is_over_the_rest_is_not_asked),
        cmocka_unit_test(more_than_fit_at_once_are_asked_in_turn),
    };
    return cmocka_run_group_tests(tests, start_peers, stop_peers);
}
