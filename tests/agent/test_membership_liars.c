/* SPDX-License-Identifier: Apache-2.0 */
/* Peers that know the key and say anything that has the right form: numbers, vows, lists, digests and states
 * of their own invention. Nobody promises that such a job gets anywhere, but the state machine neither breaks
 * nor breaks its own word: one signature a number, numbers and views that only grow, no view of too few. */
#include "membership.h"
#include "muster/clock.h"
#include "test.h"

#define PEERS  5
#define ROUNDS 6000
#define EVENTS 200
#define PLACES 12

struct liars {
    uint64_t random;
    struct membership *membership;
    struct membership_worker self, peers[PEERS];
    bool up[PEERS], ended;
    uint64_t now_ns;
    uint64_t proposed, signed_view, held; /* the highest so far */
    uint8_t signed_digest[MST_SHA256_BYTES];
    struct membership_place places[MEMBERSHIP_MAX_ATTEMPTS + 1][PLACES];
    uint64_t spoken; /* some number that was said: lies are near the truth */
    uint8_t lineage[MEMBERSHIP_LINEAGE_BYTES];
    bool job_runs;
    size_t first, most, committed;
};

static bool one_in(struct liars *liars, uint64_t n)
{
    return test_below(&liars->random, n) == 0;
}

static void on_send(void *context, const struct membership_id *to, const struct membership_message *message)
{
    struct liars *liars = context;
    (void)to;
    liars->spoken = message->view;
    if (message->kind == MEMBERSHIP_PROPOSE) {
        assert_true(message->view >= liars->proposed && message->view > liars->held);
        assert_true(message->count >= 1 && message->count <= PEERS + 1);
        liars->proposed = message->view;
    } else if (message->kind == MEMBERSHIP_COMMIT) { /* it was saved before */
        assert_int_equal(message->view, liars->signed_view);
        assert_memory_equal(message->digest, liars->signed_digest, MST_SHA256_BYTES);
    }
}

/* What is signed stands last among the attempts. */
static void note_signature(struct liars *liars, const struct membership_ballot *ballot)
{
    assert_true(ballot->view >= liars->signed_view && ballot->view >= liars->proposed);
    if (ballot->view == liars->signed_view)
        assert_memory_equal(ballot->digest, liars->signed_digest, MST_SHA256_BYTES);
    liars->signed_view = ballot->view;
    memcpy(liars->signed_digest, ballot->digest, MST_SHA256_BYTES);
}

static int on_save(void *context, const struct membership_vow *vow, struct mst_error *err)
{
    struct liars *liars = context;
    assert_true(vow->count <= MEMBERSHIP_MAX_ATTEMPTS);
    if (vow->count > 0)
        note_signature(liars, &vow->attempts[vow->count - 1]);
    memcpy(liars->lineage, vow->held.lineage, sizeof liars->lineage);
    return one_in(liars, 200) ? mst_error_set(err, -ENOSPC, "no room") : 0;
}

static void on_stop(void *context, bool at_once, const char *reason)
{
    (void)context, (void)at_once;
    assert_true(reason[0] != '\0');
}

static void on_committed(void *context, const struct membership_view *view)
{
    struct liars *liars = context;
    bool has_self = false;
    assert_true(view->view > liars->held && view->view == liars->signed_view);
    assert_true(view->count >= 1 && view->count <= liars->most);
    for (size_t m = 0; m < view->count; m++)
        has_self = has_self || membership_id_equal(&view->members[m].worker.id, &liars->self.id);
    assert_true(has_self);
    liars->held = view->view;
    liars->job_runs = true;
    liars->committed++;
}

static void on_left(void *context, uint64_t view)
{
    struct liars *liars = context;
    (void)view;
    liars->ended = true;
}

static void on_refuse(void *context, const struct membership_id *peer, bool full)
{
    (void)context, (void)peer, (void)full;
}

static struct membership_worker worker_of(uint8_t number, uint8_t slot)
{
    struct membership_worker worker = {.ipv4 = 0x0a000000U + number, .port = 7070};
    memset(worker.id.bytes, number, sizeof worker.id.bytes);
    memset(worker.slot.bytes, slot, sizeof worker.slot.bytes);
    return worker;
}

static uint64_t some_view(struct liars *liars)
{
    static const uint64_t far[] = {0, 1, UINT64_MAX / 2, UINT64_MAX / 2 + 1, UINT64_MAX};
    if (one_in(liars, 60))
        return far[test_below(&liars->random, MST_ARRAY_COUNT(far))];
    const uint64_t near = liars->spoken + test_below(&liars->random, 5);
    return near > 2 ? near - 2 : near;
}

static void some_bytes(struct liars *liars, uint8_t *bytes, size_t count)
{
    if (one_in(liars, 2)) /* what others know, too */
        memset(bytes, (int)test_below(&liars->random, 2), count);
    else
        for (size_t b = 0; b < count; b++)
            bytes[b] = (uint8_t)test_random(&liars->random);
}

static void some_ballot(struct liars *liars, struct membership_place *places,
                        struct membership_ballot *ballot)
{
    *ballot = (struct membership_ballot){.view = some_view(liars), .places = places};
    some_bytes(liars, ballot->lineage, sizeof ballot->lineage);
    if (one_in(liars, 2))
        memcpy(ballot->lineage, liars->lineage, sizeof ballot->lineage);
    some_bytes(liars, ballot->digest, sizeof ballot->digest);
    ballot->count = test_below(&liars->random, PLACES + 1);
    for (size_t p = 0; p < ballot->count; p++) { /* also one slot twice */
        memset(places[p].slot.bytes, (int)test_below(&liars->random, 8), MEMBERSHIP_SLOT_BYTES);
        places[p].part = (enum membership_part)test_below(&liars->random, 3);
    }
}

/* The sender, some others, nobody known, in order or not. */
static size_t some_workers(struct liars *liars, const struct membership_worker *from,
                           struct membership_worker workers[static PEERS + 3])
{
    size_t count = 0;
    for (uint8_t number = 1; number <= PEERS + 3; number++)
        if (from->id.bytes[0] == number || !one_in(liars, 4))
            workers[count++] = worker_of(number, (uint8_t)test_below(&liars->random, 8));
    if (count > 1 && one_in(liars, 20)) {
        const struct membership_worker first = workers[0];
        workers[0] = workers[count - 1];
        workers[count - 1] = first;
    }
    return one_in(liars, 30) ? 0 : count;
}

static int say(struct liars *liars, const struct membership_worker *from)
{
    struct mst_error err = MST_ERROR_INIT;
    struct membership_worker workers[PEERS + 3];
    struct membership_message message = {.kind = (enum membership_kind)(1 + test_below(&liars->random, 3)),
                                         .view = some_view(liars),
                                         .leaving = one_in(liars, 6),
                                         .step = one_in(liars, 3) ? test_random(&liars->random) : 7,
                                         .size = test_below(&liars->random, 9)};
    if (message.kind == MEMBERSHIP_PROPOSE) {
        message.count = some_workers(liars, from, workers);
        message.workers = workers;
        message.vow.count = test_below(&liars->random, MEMBERSHIP_MAX_ATTEMPTS + 2);
        some_ballot(liars, liars->places[0], &message.vow.held);
        for (size_t a = 0; a < message.vow.count && a < MEMBERSHIP_MAX_ATTEMPTS; a++)
            some_ballot(liars, liars->places[a + 1], &message.vow.attempts[a]);
        if (one_in(liars, 2))
            message.vow = (struct membership_vow){0};
    }
    some_bytes(liars, message.lineage, sizeof message.lineage);
    memcpy(message.digest, liars->signed_digest, sizeof message.digest);
    if (message.kind == MEMBERSHIP_COMMIT && one_in(liars, 3))
        some_bytes(liars, message.digest, sizeof message.digest);
    return membership_receive(liars->membership, &from->id, &message, liars->now_ns, &err);
}

static int something_happens(struct liars *liars)
{
    struct mst_error err = MST_ERROR_INIT;
    const size_t p = test_below(&liars->random, PEERS);
    switch (test_below(&liars->random, 12)) {
    case 0:
        liars->up[p] = true;
        return membership_peer_up(liars->membership, &liars->peers[p], liars->now_ns, &err);
    case 1:
        liars->up[p] = false;
        return membership_peer_down(liars->membership, &liars->peers[p].id, liars->now_ns, &err);
    case 2:
        liars->now_ns += test_below(&liars->random, 3 * MST_NS_PER_S);
        return membership_tick(liars->membership, liars->now_ns, &err);
    case 3:
        if (!liars->job_runs)
            return 0;
        liars->job_runs = false;
        return membership_stopped(liars->membership, test_below(&liars->random, 10), liars->now_ns, &err);
    case 4:
        if (one_in(liars, 50) && membership_leave(liars->membership, liars->now_ns, &err) == 1)
            liars->ended = true;
        return 0;
    default:
        return say(liars, &liars->peers[p]);
    }
}

static size_t run_round(uint64_t seed)
{
    struct mst_error err = MST_ERROR_INIT;
    struct liars liars = {.random = seed, .now_ns = MST_NS_PER_S, .self = worker_of(4, 4)};
    liars.first = 1 + test_below(&liars.random, 3);
    liars.most = liars.first + test_below(&liars.random, 4);
    for (uint8_t p = 0; p < PEERS; p++) /* two of them with one slot */
        liars.peers[p] = worker_of(p < 3 ? p + 1 : p + 2, p == 4 ? 4 : p + 1);
    const struct membership_options options = {.self = liars.self,
                                               .first = liars.first,
                                               .least = 1 + test_below(&liars.random, liars.first),
                                               .most = liars.most,
                                               .allow_minority = one_in(&liars, 8)};
    const struct membership_callbacks callbacks = {.context = &liars,
                                                   .send = on_send,
                                                   .save_vow = on_save,
                                                   .stop = on_stop,
                                                   .committed = on_committed,
                                                   .left = on_left,
                                                   .refuse = on_refuse};
    assert_int_equal(membership_new(&options, &callbacks, &liars.membership, &err), 0);
    int r = membership_start(liars.membership, 7, liars.now_ns, &err);
    for (int event = 0; event < EVENTS && !liars.ended && (r == 0 || r == -EPROTO); event++) {
        r = something_happens(&liars);
        assert_true(membership_deadline_ns(liars.membership) > 0);
        const struct membership_wait wait = membership_waits_for(liars.membership);
        assert_true(wait.want >= 1);
    }
    assert_true(r == 0 || r == -EPROTO || r == -ENOSPC);
    membership_free(liars.membership);
    return liars.committed;
}

static void whatever_peers_say_the_state_machine_keeps_its_own_word(void **state)
{
    size_t committed = 0;
    (void)state;
    for (uint64_t seed = 1; seed <= ROUNDS; seed++)
        committed += run_round(seed);
    assert_true(committed > ROUNDS / 10); /* the lies are good enough to get somewhere */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whatever_peers_say_the_state_machine_keeps_its_own_word),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
