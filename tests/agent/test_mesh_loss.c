/* SPDX-License-Identifier: Apache-2.0 */
/* How peers are lost, how they come back, and what they tell each other of others. */
#include "mesh_fixture.h"
#include "muster/big_endian.h"

#define SILENCE (400 * MST_NS_PER_MS)

static void open_pair(struct fixture *fixture, uint64_t silence_ns)
{
    for (size_t n = 0; n < 2; n++)
        open_mesh_with(new_node(fixture, n), (struct mesh_options){.silence_ns = silence_ns});
    learn(fixture, 0, 1);
    UNTIL(fixture, fixture->nodes[0].ups == 1 && fixture->nodes[1].ups == 1);
}

/* Both keep the other awake while time goes by. */
static void beat_for(struct fixture *fixture, uint64_t ms)
{
    const struct mst_buf nothing = MST_BUF_INIT(0);
    for (const uint64_t until_ns = mst_now_ns() + ms * MST_NS_PER_MS; mst_now_ns() < until_ns;) {
        for (size_t n = 0; n < NODES_MAX; n++)
            if (fixture->nodes[n].mesh && !fixture->nodes[n].frozen)
                mesh_send_all(fixture->nodes[n].mesh, FRAME_TYPE, &nothing);
        turn_for(fixture, 20);
    }
}

static void a_frozen_peer_is_lost_and_comes_back_whoever_is_the_lower(void **state)
{
    struct fixture *fixture = *state;
    for (uint8_t lower = 0; lower < 2; lower++) {
        struct node *a = new_node(fixture, 0), *b = new_node(fixture, 1);
        memset(a->self.identity.incarnation, 5 + lower, DISCOVERY_INCARNATION_BYTES);
        memset(b->self.identity.incarnation, 6 - lower, DISCOVERY_INCARNATION_BYTES);
        for (size_t n = 0; n < 2; n++)
            open_mesh_with(&fixture->nodes[n], (struct mesh_options){.silence_ns = SILENCE});
        learn(fixture, 0, 1);
        UNTIL(fixture, a->ups == 1 && b->ups == 1);
        mesh_set_dialling(a->mesh, false); /* all that are wanted are there */
        mesh_set_dialling(b->mesh, false);
        b->frozen = true;
        UNTIL(fixture, a->downs == 1);
        assert_non_null(strstr(a->reason, "no sign of life"));
        turn_for(fixture, 200); /* some vain tries */
        b->frozen = false;
        UNTIL(fixture, b->downs >= 1 && a->ups >= 2 && b->ups >= 2);
        close_mesh(a);
        close_mesh(b);
    }
}

static void a_restarted_peer_at_another_address_is_taken_whoever_is_the_lower(void **state)
{
    struct fixture *fixture = *state;
    for (uint8_t lower = 0; lower < 2; lower++) {
        struct node *a = new_node(fixture, 0), *b = new_node(fixture, 1), *again = new_node(fixture, 2);
        memset(a->self.identity.incarnation, 5, DISCOVERY_INCARNATION_BYTES);
        memset(again->self.identity.incarnation, lower ? 4 : 6, DISCOVERY_INCARNATION_BYTES);
        open_mesh(a);
        open_mesh(b);
        learn(fixture, 0, 1);
        UNTIL(fixture, a->ups == 1);
        mesh_set_dialling(a->mesh, false);
        close_mesh(b);
        UNTIL(fixture, a->downs == 1); /* at once, long before the silence could be noticed */
        assert_null(strstr(a->reason, "no sign of life"));
        open_mesh(again);
        learn(fixture, 2, 0); /* found by its own sweep */
        UNTIL(fixture, a->ups == 2 && again->ups == 1);
        close_mesh(a);
        close_mesh(again);
    }
}

static void a_loss_on_one_side_only_is_mended(void **state)
{
    struct fixture *fixture = *state;
    open_pair(fixture, 60 * MST_NS_PER_S);
    struct node *a = &fixture->nodes[0], *b = &fixture->nodes[1];
    for (size_t round = 1; round <= 4; round++) {
        struct node *one = round % 2 ? a : b, *other = round % 2 ? b : a;
        mesh_set_dialling(a->mesh, false);
        mesh_set_dialling(b->mesh, false);
        one->refuses_frames = true; /* it drops the other, which knows of nothing */
        (void)send_number(other, one, 0);
        UNTIL(fixture, one->downs == round);
        one->refuses_frames = false;
        UNTIL(fixture, a->ups == round + 1 && b->ups == round + 1);
    }
}

static void time_that_this_process_did_not_get_is_not_the_peers_silence(void **state)
{
    struct fixture *fixture = *state;
    open_pair(fixture, SILENCE);
    struct node *a = &fixture->nodes[0], *b = &fixture->nodes[1];
    for (int round = 0; round < 3; round++) {
        a->frozen = true;
        /* b does not miss a: its silence is measured by b. Here only a's view of b counts. */
        for (int beat = 0; beat < 5; beat++) {
            const struct mst_buf nothing = MST_BUF_INIT(0);
            mesh_send_all(b->mesh, FRAME_TYPE, &nothing);
            b->frozen = true;
            assert_int_equal(poll(NULL, 0, 100), 0);
        }
        mesh_tick(a->mesh, mst_now_ns()); /* the clock comes before the bytes */
        assert_int_equal(a->downs, 0);
        a->frozen = b->frozen = false;
        UNTIL(fixture, a->downs == 0 && a->frames > 0);
        if (b->downs > 0)
            break; /* it looked at the clock in the middle of the above: its right */
    }
}

static void a_peer_that_is_only_slow_is_not_cut(void **state)
{
    struct fixture *fixture = *state;
    struct node *a = new_node(fixture, 0);
    struct puppet puppet;
    open_mesh_with(a, (struct mesh_options){.silence_ns = SILENCE});
    puppet_connects(fixture, &puppet, DISCOVERY_PURPOSE_CONTROL);
    UNTIL(fixture, a->ups == 1);
    /* One frame that takes four times as long as the silence that is allowed. */
    uint8_t payload[8 + 40] = {40};
    mst_cleanup(mst_buf_release) struct mst_buf stream = MST_BUF_INIT(1024);
    a->next_number = 40;
    puppet_packs(&puppet, FRAME_TYPE, payload, sizeof payload, &stream);
    const uint64_t pause_ms = 4 * SILENCE / MST_NS_PER_MS / stream.count;
    for (size_t at = 0; at < stream.count; at++) {
        assert_int_equal(send(puppet.fd, stream.bytes + at, 1, MSG_NOSIGNAL), 1);
        turn_for(fixture, pause_ms);
    }
    UNTIL(fixture, a->frames == 1);
    assert_int_equal(a->wrong_frames + a->downs, 0);
    UNTIL(fixture, a->downs == 1); /* and then it is silent */
    puppet_ends(&puppet);
}

static void what_was_said_before_the_end_is_heard_though_nothing_can_be_sent_any_more(void **state)
{
    struct fixture *fixture = *state;
    for (int round = 0; round < 10; round++) {
        struct node *a = new_node(fixture, 0);
        struct puppet puppet;
        open_mesh(a);
        puppet_connects(fixture, &puppet, DISCOVERY_PURPOSE_CONTROL);
        UNTIL(fixture, a->ups == 1);
        mst_cleanup(mst_buf_release) struct mst_buf stream = MST_BUF_INIT(1024);
        const uint8_t payload[8] = {0};
        puppet_packs(&puppet, FRAME_TYPE, payload, sizeof payload, &stream);
        /* Unread bytes make the close a reset: a's next write fails. */
        a->frozen = true;
        assert_int_equal(mesh_send(a->mesh, puppet.self.identity.incarnation, FRAME_TYPE, &stream, NULL), 0);
        puppet_sends(&puppet, &stream);
        puppet_ends(&puppet);
        while (mesh_send(a->mesh, puppet.self.identity.incarnation, FRAME_TYPE, &stream, NULL) == 0)
            ;
        assert_int_equal(a->frames + a->downs, 0);
        a->frozen = false;
        mesh_tick(a->mesh, mst_now_ns());
        assert_int_equal(a->frames, 1);
        assert_int_equal(a->downs, 1);
        close_mesh(a);
    }
}

struct talker {
    struct puppet puppet;
    size_t frames, downs;
};

static void talker_is_down(void *context, const struct discovery_identity *peer, const char *reason)
{
    struct talker *talker = context;
    (void)peer, (void)reason;
    talker->downs++;
}

/* For each of its frames there is another one. */
static int talker_says(void *context, const struct discovery_identity *from, uint16_t type,
                       const uint8_t *payload, size_t count, struct mst_error *err)
{
    struct talker *talker = context;
    static const char more[4096];
    mst_cleanup(mst_buf_release) struct mst_buf stream = MST_BUF_INIT(8192);
    (void)from, (void)type, (void)payload, (void)count, (void)err;
    if (++talker->frames < 5000) {
        puppet_packs(&talker->puppet, FRAME_TYPE, more, sizeof more, &stream);
        puppet_sends(&talker->puppet, &stream);
    }
    return 0;
}

static void nobody(void *context, const struct discovery_identity *who)
{
    (void)context, (void)who;
}

static void the_last_words_of_a_peer_that_takes_nothing_have_an_end(void **state)
{
    struct fixture *fixture = *state;
    struct node *a = new_node(fixture, 0);
    struct talker talker = {0};
    const struct mesh_callbacks callbacks = {.context = &talker,
                                             .seen = nobody,
                                             .peer_up = nobody,
                                             .peer_down = talker_is_down,
                                             .frame = talker_says};
    const struct mesh_options options = {.loop = a->loop, .self = &a->self, .expected = 1};
    static const char filler[100000];
    mst_cleanup(mst_buf_release) struct mst_buf much = MST_BUF_INIT(sizeof filler);
    assert_int_equal(mst_buf_append(&much, filler, sizeof filler), 0);
    assert_int_equal(mesh_new(&options, &callbacks, &a->mesh, NULL), 0);
    puppet_connects(fixture, &talker.puppet, DISCOVERY_PURPOSE_CONTROL);
    while (mesh_send(a->mesh, talker.puppet.self.identity.incarnation, FRAME_TYPE, &much, NULL) == 0)
        ; /* it reads nothing */
    assert_int_equal(talker.downs, 0);
    mst_cleanup(mst_buf_release) struct mst_buf first = MST_BUF_INIT(128);
    puppet_packs(&talker.puppet, FRAME_TYPE, "first", 5, &first);
    puppet_sends(&talker.puppet, &first);
    mesh_tick(a->mesh, mst_now_ns());
    assert_int_equal(talker.downs, 1);
    assert_in_range(talker.frames, 1, 1000);
    puppet_ends(&talker.puppet);
}

static void a_long_queue_to_one_peer_does_not_hold_up_the_others(void **state)
{
    struct fixture *fixture = *state;
    for (size_t n = 0; n < 3; n++)
        open_mesh(new_node(fixture, n));
    struct node *a = &fixture->nodes[0], *b = &fixture->nodes[1], *c = &fixture->nodes[2];
    learn(fixture, 0, 1);
    learn(fixture, 0, 2);
    UNTIL(fixture, a->ups == 2);
    b->frozen = true;
    uint64_t number = 0;
    for (size_t queued = 0; queued < 3000000; queued += 8 + number++ % 5000)
        assert_int_equal(send_number(a, b, number), 0);
    b->frozen = false; /* it reads, as fast as it can */
    for (uint64_t beat = 0; beat < 20; beat++) {
        assert_int_equal(send_number(a, c, beat), 0);
        turn(fixture);
        turn(fixture);
        assert_int_equal(c->frames, beat + 1);
    }
    UNTIL(fixture, b->frames == number);
    assert_int_equal(b->wrong_frames + c->wrong_frames, 0);
}

static void a_worker_that_one_has_met_is_found_by_all(void **state)
{
    struct fixture *fixture = *state;
    for (size_t n = 0; n < NODES_MAX; n++)
        open_mesh(new_node(fixture, n));
    for (size_t n = 1; n < NODES_MAX; n++)
        learn(fixture, n, 0); /* nobody's sweep finds any other */
    UNTIL(fixture, sum_ups(fixture) == NODES_MAX * (NODES_MAX - 1));
    beat_for(fixture, 300);
    for (size_t n = 0; n < NODES_MAX; n++)
        assert_int_equal(fixture->nodes[n].downs, 0);
}

static void what_peers_tell_is_limited(void **state)
{
    struct fixture *fixture = *state;
    struct node *a = new_node(fixture, 0);
    struct puppet puppet;
    const struct mesh_options options = {.subnet = {LOOPBACK(0), 24}};
    open_mesh_with(a, options);
    puppet_connects(fixture, &puppet, DISCOVERY_PURPOSE_CONTROL);
    UNTIL(fixture, a->ups == 1);
    struct node *b = new_node(fixture, 1);
    open_mesh(b);
    /* b; nobody; another network; ourselves; no port. */
    const struct {
        uint32_t ipv4;
        uint16_t port;
    } told[] = {{LOOPBACK(3), fixture->port}, {0, fixture->port},          {0x08080808, 53},
                {LOOPBACK(2), fixture->port}, {0x7f000105, fixture->port}, {LOOPBACK(9), 0}};
    uint8_t payload[MST_ARRAY_COUNT(told) * 6];
    for (size_t t = 0; t < MST_ARRAY_COUNT(told); t++) {
        mst_be_put_u32(payload + 6 * t, told[t].ipv4);
        mst_be_put_u16(payload + 6 * t + 4, told[t].port);
    }
    mst_cleanup(mst_buf_release) struct mst_buf stream = MST_BUF_INIT(1 << 16);
    puppet_packs(&puppet, MESH_FRAME_HOSTS, payload, sizeof payload, &stream);
    puppet_packs(&puppet, MESH_OWN_FRAMES + 77, "later versions may say more", 27, &stream);
    puppet_sends(&puppet, &stream);
    UNTIL(fixture, a->ups == 2);
    char text[MESH_STRANGER_BYTES];
    turn_for(fixture, 100);
    for (size_t s = 0; mesh_stranger(a->mesh, s, text); s++)
        fail_msg("%s was dialled", text);
    assert_int_equal(a->downs + a->frames, 0);

    mst_buf_clear(&stream); /* half an entry */
    puppet_packs(&puppet, MESH_FRAME_HOSTS, payload, 9, &stream);
    puppet_sends(&puppet, &stream);
    UNTIL(fixture, a->downs == 1);
    assert_non_null(strstr(a->reason, "list of hosts"));
    puppet_ends(&puppet);
}

static void agents_with_the_old_key_with_both_and_with_the_new_one_meet_as_they_can(void **state)
{
    struct fixture *fixture = *state;
    struct node *old = new_node(fixture, 0), *both = new_node(fixture, 1), *new = new_node(fixture, 2);
    new->self.keys[0].bytes[0] ^= 1;
    both->self.keys[1] = old->self.keys[0];
    both->self.keys[0] = new->self.keys[0];
    both->self.key_count = 2;
    for (size_t n = 0; n < 3; n++)
        open_mesh(&fixture->nodes[n]);
    for (size_t who = 0; who < 3; who++)
        for (size_t whom = 0; whom < 3; whom++)
            learn(fixture, who, whom);
    UNTIL(fixture, old->ups == 1 && both->ups == 2 && new->ups == 1);
    UNTIL(fixture, says_of(fixture, 0, 2, "key") && says_of(fixture, 2, 0, "key"));
    assert_int_equal(old->ups + new->ups, 2);
}

static void while_the_network_is_being_chosen_nobody_becomes_a_peer(void **state)
{
    struct fixture *fixture = *state;
    struct node *a = new_node(fixture, 0), *b = new_node(fixture, 1), *c = new_node(fixture, 2);
    a->self.identity.state = DISCOVERY_STATE_LOOKING;
    open_mesh_with(a, (struct mesh_options){.only_hello = true});
    open_mesh(b);
    open_mesh(c);
    learn(fixture, 0, 1);
    learn(fixture, 2, 0);
    learn(fixture, 2, 1);
    UNTIL(fixture, a->seen >= 2 && b->ups == 1 && c->ups == 1);
    UNTIL(fixture, says_of(fixture, 2, 0, "looks for the network"));
    assert_int_equal(a->ups, 0);
    close_mesh(a); /* it has chosen, and begins in earnest */
    a->self.identity.state = DISCOVERY_STATE_FORMING;
    open_mesh(a);
    UNTIL(fixture, a->ups == 2 && b->ups == 2 && c->ups == 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_LOOP(a_frozen_peer_is_lost_and_comes_back_whoever_is_the_lower),
        WITH_LOOP(a_restarted_peer_at_another_address_is_taken_whoever_is_the_lower),
        WITH_LOOP(a_loss_on_one_side_only_is_mended),
        WITH_LOOP(time_that_this_process_did_not_get_is_not_the_peers_silence),
        WITH_LOOP(a_peer_that_is_only_slow_is_not_cut),
        WITH_LOOP(what_was_said_before_the_end_is_heard_though_nothing_can_be_sent_any_more),
        WITH_LOOP(the_last_words_of_a_peer_that_takes_nothing_have_an_end),
        WITH_LOOP(a_long_queue_to_one_peer_does_not_hold_up_the_others),
        WITH_LOOP(a_worker_that_one_has_met_is_found_by_all),
        WITH_LOOP(what_peers_tell_is_limited),
        WITH_LOOP(agents_with_the_old_key_with_both_and_with_the_new_one_meet_as_they_can),
        WITH_LOOP(while_the_network_is_being_chosen_nobody_becomes_a_peer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
