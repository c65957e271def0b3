/* SPDX-License-Identifier: Apache-2.0 */
/* The state machine driven by hand: one worker, and what it is told is made up. Whole networks of them are in
 * test_membership_model.c. */
#include "membership.h"
#include "test.h"

#define MS        1000000ULL
#define S         (1000 * MS)
#define SENT_MAX  64
#define PEERS_MAX 8

/* What the worker at hand did. */
struct hand {
    struct membership *membership;
    struct membership_message sent[SENT_MAX]; /* without their arrays; `vow` holds numbers only */
    uint8_t to[SENT_MAX];                     /* the place of whom it went to */
    size_t sent_count;
    struct membership_worker reached[PEERS_MAX]; /* of the last PROPOSE */
    size_t saves, stops, commits, lefts, refusals;
    bool at_once, full;
    uint64_t left_view;
    struct membership_vow saved; /* numbers only */
    struct membership_member members[PEERS_MAX];
    struct membership_view view;
    int save_result;
};

static void on_send(void *context, const struct membership_id *to, const struct membership_message *message)
{
    struct hand *hand = context;
    assert_true(hand->sent_count < SENT_MAX);
    hand->to[hand->sent_count] = to->bytes[0];
    hand->sent[hand->sent_count++] = *message;
    if (message->kind == MEMBERSHIP_PROPOSE) {
        assert_true(message->count <= PEERS_MAX);
        memcpy(hand->reached, message->workers, message->count * sizeof *message->workers);
    }
}

static int on_save(void *context, const struct membership_vow *vow, struct mst_error *err)
{
    struct hand *hand = context;
    hand->saves++;
    hand->saved = *vow;
    return hand->save_result < 0 ? mst_error_set(err, hand->save_result, "the disk is full") : 0;
}

static void on_stop(void *context, bool at_once, const char *reason)
{
    struct hand *hand = context;
    assert_true(strlen(reason) > 0);
    hand->stops++;
    hand->at_once = at_once;
}

static void on_committed(void *context, const struct membership_view *view)
{
    struct hand *hand = context;
    hand->commits++;
    hand->view = *view;
    assert_true(view->count <= PEERS_MAX);
    memcpy(hand->members, view->members, view->count * sizeof *view->members);
}

static void on_left(void *context, uint64_t view)
{
    struct hand *hand = context;
    hand->lefts++;
    hand->left_view = view;
}

static void on_refuse(void *context, const struct membership_id *peer, bool full)
{
    struct hand *hand = context;
    (void)peer;
    hand->refusals++;
    hand->full = full;
}

static struct membership_callbacks callbacks_of(struct hand *hand)
{
    return (struct membership_callbacks){.context = hand,
                                         .send = on_send,
                                         .save_vow = on_save,
                                         .stop = on_stop,
                                         .committed = on_committed,
                                         .left = on_left,
                                         .refuse = on_refuse};
}

/* Ids, slots and addresses are in the order of places. */
static struct membership_worker worker_at(uint8_t place)
{
    struct membership_worker worker = {.ipv4 = 0x0a000000U + place, .port = 7070};
    memset(worker.id.bytes, place, sizeof worker.id.bytes);
    memset(worker.slot.bytes, place, sizeof worker.slot.bytes);
    return worker;
}

static void start_elastic(struct hand *hand, uint8_t place, size_t first, size_t least, size_t most)
{
    *hand = (struct hand){0};
    const struct membership_options options = {
        .self = worker_at(place), .first = first, .least = least, .most = most};
    const struct membership_callbacks callbacks = callbacks_of(hand);
    assert_int_equal(membership_new(&options, &callbacks, &hand->membership, NULL), 0);
    assert_int_equal(membership_start(hand->membership, 0, 0, NULL), 0);
}

static void start(struct hand *hand, uint8_t place, size_t wanted)
{
    start_elastic(hand, place, wanted, 1, wanted);
}

static void peer_up(struct hand *hand, uint8_t place, uint64_t now_ns)
{
    const struct membership_worker peer = worker_at(place);
    assert_int_equal(membership_peer_up(hand->membership, &peer, now_ns, NULL), 0);
}

static void peer_down(struct hand *hand, uint8_t place, uint64_t now_ns)
{
    const struct membership_worker peer = worker_at(place);
    assert_int_equal(membership_peer_down(hand->membership, &peer.id, now_ns, NULL), 0);
}

static int receive(struct hand *hand, uint8_t from, const struct membership_message *message)
{
    const struct membership_worker peer = worker_at(from);
    struct mst_error err = MST_ERROR_INIT;
    const int r = membership_receive(hand->membership, &peer.id, message, 1, &err);
    assert_true(r == 0 || strlen(err.text) > 0);
    return r;
}

/* All of places 1 to `count` reach each other. */
static const struct membership_worker *reach_of(size_t count)
{
    static struct membership_worker workers[PEERS_MAX];
    for (size_t w = 0; w < count; w++)
        workers[w] = worker_at((uint8_t)(w + 1));
    return workers;
}

static struct membership_message proposal(uint64_t view, size_t count)
{
    return (struct membership_message){
        .kind = MEMBERSHIP_PROPOSE, .view = view, .count = count, .workers = reach_of(count)};
}

static const struct membership_message *last_sent(const struct hand *hand, enum membership_kind kind)
{
    for (size_t s = hand->sent_count; s-- > 0;)
        if (hand->sent[s].kind == kind)
            return &hand->sent[s];
    return NULL;
}

static size_t count_sent(const struct hand *hand, enum membership_kind kind)
{
    size_t count = 0;
    for (size_t s = 0; s < hand->sent_count; s++)
        count += hand->sent[s].kind == kind;
    return count;
}

/* Proposals and signatures of places 2 to `count` for the number that this one (place 1) has on the table.
 * The signature is the same list's: its own is handed back. */
static void agree(struct hand *hand, size_t count)
{
    const uint64_t number = last_sent(hand, MEMBERSHIP_PROPOSE)->view;
    struct membership_message message = proposal(number, count);
    message.vow = last_sent(hand, MEMBERSHIP_PROPOSE)->vow;
    struct membership_place places[PEERS_MAX];
    if (message.vow.held.view > 0) { /* numbers are kept, the places are the view's */
        for (size_t p = 0; p < hand->view.count; p++)
            places[p] =
                (struct membership_place){.slot = hand->members[p].worker.slot, .part = MEMBERSHIP_PRESENT};
        message.vow.held.places = places;
        message.vow.held.count = hand->view.count;
    }
    for (uint8_t place = 2; place <= count; place++)
        assert_int_equal(receive(hand, place, &message), 0);
    const struct membership_message *own = last_sent(hand, MEMBERSHIP_COMMIT);
    assert_non_null(own);
    assert_int_equal(own->view, number);
    const struct membership_message commit = *own;
    for (uint8_t place = 2; place <= count; place++)
        assert_int_equal(receive(hand, place, &commit), 0);
}

/* Place 1 of `count`, in its first view. */
static void in_first_view(struct hand *hand, size_t count)
{
    start(hand, 1, count);
    for (uint8_t place = 2; place <= count; place++)
        peer_up(hand, place, 1);
    agree(hand, count);
    assert_int_equal(hand->commits, 1);
    assert_int_equal(hand->view.view, 1);
    assert_int_equal(hand->view.count, count);
}

/* ---- limits ---- */

static void the_numbers_of_workers_have_limits(void **state)
{
    (void)state;
    static const struct {
        size_t first, least, most;
        int code;
    } cases[] = {{1, 1, 1, 0},
                 {3, 1, 3, 0},
                 {2, 2, 8, 0},
                 {1024, 1, 1024, 0},
                 {0, 0, 3, -EINVAL},
                 {3, 0, 3, -EINVAL},
                 {3, 4, 8, -EINVAL},
                 {4, 1, 3, -EINVAL},
                 {1, 1, 1025, -EINVAL},
                 {1025, 1, 1025, -EINVAL},
                 {SIZE_MAX, 1, SIZE_MAX, -EINVAL}};
    const struct membership_callbacks callbacks = {0};
    for (size_t c = 0; c < MST_ARRAY_COUNT(cases); c++) {
        struct membership *membership = NULL;
        const struct membership_options options = {
            .self = worker_at(1), .first = cases[c].first, .least = cases[c].least, .most = cases[c].most};
        assert_int_equal(membership_new(&options, &callbacks, &membership, NULL), cases[c].code);
        assert_int_equal(membership != NULL, cases[c].code == 0);
        membership_free(membership);
    }
}

static void a_vow_from_before_has_limits(void **state)
{
    (void)state;
    static struct membership_place places[MEMBERSHIP_MAX_PLACES + 1];
    const struct membership_callbacks callbacks = {0};
    struct membership *membership = NULL;
    struct membership_options options = {.self = worker_at(1), .first = 1, .least = 1, .most = 1};
    options.vow.held =
        (struct membership_ballot){.view = 7, .count = MEMBERSHIP_MAX_PLACES + 1, .places = places};
    assert_int_equal(membership_new(&options, &callbacks, &membership, NULL), -EINVAL);
    options.vow.held.count = 1;
    options.vow.held.view = UINT64_MAX;
    assert_int_equal(membership_new(&options, &callbacks, &membership, NULL), -EINVAL);
    options.vow.held.view = 7;
    options.vow.count = MEMBERSHIP_MAX_ATTEMPTS + 1;
    assert_int_equal(membership_new(&options, &callbacks, &membership, NULL), -EINVAL);
    options.vow.count = 0;
    assert_null(membership);
    assert_int_equal(membership_new(&options, &callbacks, &membership, NULL), 0);
    membership_free(membership);
}

static void a_slot_is_the_same_for_the_same_name_only(void **state)
{
    (void)state;
    const struct membership_slot a = membership_slot_of("train.1"), b = membership_slot_of("train.1"),
                                 c = membership_slot_of("train.2");
    assert_memory_equal(&a, &b, sizeof a);
    assert_memory_not_equal(&a, &c, sizeof a);
}

/* ---- first views ---- */

static void one_worker_needs_nobody(void **state)
{
    (void)state;
    struct hand hand;
    start(&hand, 1, 1);
    assert_int_equal(hand.commits, 1);
    assert_int_equal(hand.view.view, 1);
    assert_int_equal(hand.view.count, 1);
    assert_int_equal(hand.members[0].worker.ipv4, 0x0a000001U);
    assert_true(hand.saves > 0);
    assert_int_equal(membership_view(hand.membership).view, 1);
    assert_true(membership_deadline_ns(hand.membership) == UINT64_MAX);
    membership_free(hand.membership);
}

static void a_known_number_of_workers_speaks_at_once_and_not_before(void **state)
{
    (void)state;
    struct hand hand;
    start(&hand, 1, 3);
    assert_int_equal(membership_waits_for(hand.membership).have, 1);
    assert_int_equal(membership_waits_for(hand.membership).want, 3);
    peer_up(&hand, 2, 1);
    assert_int_equal(hand.sent_count, 0);
    peer_up(&hand, 3, 1);
    assert_int_equal(count_sent(&hand, MEMBERSHIP_PROPOSE), 2);
    assert_int_equal(hand.sent[0].view, 1);
    assert_int_equal(hand.sent[0].count, 3);
    assert_memory_equal(hand.reached, reach_of(3), 3 * sizeof *hand.reached);
    assert_int_equal(hand.saves, 0); /* nothing is signed yet */
    agree(&hand, 3);
    assert_int_equal(hand.commits, 1);
    for (uint8_t place = 1; place <= 3; place++)
        assert_int_equal(hand.members[place - 1].worker.ipv4, 0x0a000000U + place);
    membership_free(hand.membership);
}

static void an_unknown_number_of_workers_waits_until_nobody_comes_any_more(void **state)
{
    (void)state;
    struct hand hand;
    start_elastic(&hand, 1, 2, 1, 8);
    peer_up(&hand, 2, 1 * MS);
    peer_up(&hand, 3, 700 * MS);
    assert_int_equal(hand.sent_count, 0);
    assert_int_equal(membership_deadline_ns(hand.membership), 700 * MS + MEMBERSHIP_QUIET_NS);
    assert_int_equal(membership_tick(hand.membership, 700 * MS + MEMBERSHIP_QUIET_NS - 1, NULL), 0);
    assert_int_equal(hand.sent_count, 0);
    assert_int_equal(membership_tick(hand.membership, 700 * MS + MEMBERSHIP_QUIET_NS, NULL), 0);
    assert_int_equal(count_sent(&hand, MEMBERSHIP_PROPOSE), 2);
    agree(&hand, 3);
    assert_int_equal(hand.view.count, 3);
    membership_free(hand.membership);
}

static void a_list_is_kept_before_it_is_signed(void **state)
{
    (void)state;
    struct hand hand;
    start(&hand, 1, 2);
    hand.save_result = -ENOSPC;
    peer_up(&hand, 2, 1);
    const struct membership_message message = proposal(1, 2);
    assert_int_equal(receive(&hand, 2, &message), -ENOSPC);
    assert_int_equal(hand.saves, 1);
    assert_int_equal(count_sent(&hand, MEMBERSHIP_COMMIT), 0);
    assert_int_equal(hand.commits, 0);
    membership_free(hand.membership);
}

static void a_signature_of_another_list_does_not_count(void **state)
{
    (void)state;
    struct hand hand;
    start(&hand, 1, 2);
    peer_up(&hand, 2, 1);
    const struct membership_message message = proposal(1, 2);
    assert_int_equal(receive(&hand, 2, &message), 0);
    assert_int_equal(hand.saves, 1);
    assert_int_equal(hand.saved.count, 1);
    assert_int_equal(hand.saved.attempts[0].view, 1);
    struct membership_message commit = *last_sent(&hand, MEMBERSHIP_COMMIT);
    commit.digest[31] ^= 1;
    assert_int_equal(receive(&hand, 2, &commit), 0);
    assert_int_equal(hand.commits, 0);
    commit.digest[31] ^= 1;
    commit.view = 2;
    assert_int_equal(receive(&hand, 2, &commit), 0);
    assert_int_equal(hand.commits, 0);
    commit.view = 1;
    assert_int_equal(receive(&hand, 2, &commit), 0);
    assert_int_equal(hand.commits, 1);
    assert_int_equal(hand.saved.held.view, 1);
    assert_int_equal(hand.saved.count, 0);
    membership_free(hand.membership);
}

/* ---- what no correct peer sends ---- */

static void what_no_correct_peer_sends_is_refused_and_changes_nothing(void **state)
{
    (void)state;
    struct hand hand;
    struct membership_worker turned[] = {worker_at(2), worker_at(1)}, twice[] = {worker_at(2), worker_at(2)},
                             others[] = {worker_at(1), worker_at(3)};
    static struct membership_place places[MEMBERSHIP_MAX_PLACES + 1];
    const struct membership_message good = proposal(1, 2);
    struct membership_message bad[12];
    for (size_t b = 0; b < MST_ARRAY_COUNT(bad); b++)
        bad[b] = good;
    bad[0].view = 0;
    bad[1].view = UINT64_MAX;
    bad[2].count = 0;
    bad[3].count = MEMBERSHIP_MAX_WORKERS + 1;
    bad[4].workers = turned;
    bad[5].workers = twice;
    bad[6].workers = others; /* does not name its sender */
    bad[7].kind = (enum membership_kind)7;
    bad[8].vow.held.view = 1; /* signed this number already */
    bad[9].vow.count = MEMBERSHIP_MAX_ATTEMPTS + 1;
    bad[10].vow.held =
        (struct membership_ballot){.view = 0, .count = MEMBERSHIP_MAX_PLACES + 1, .places = places};
    bad[11].vow.count = 1;
    bad[11].vow.attempts[0].view = 3;
    start(&hand, 1, 2);
    assert_int_equal(receive(&hand, 2, &good), -EPROTO); /* not up */
    peer_up(&hand, 2, 1);
    assert_int_equal(receive(&hand, 9, &good), -EPROTO);
    const size_t sent = hand.sent_count;
    const uint64_t deadline_ns = membership_deadline_ns(hand.membership);
    for (size_t b = 0; b < MST_ARRAY_COUNT(bad); b++) {
        assert_int_equal(receive(&hand, 2, &bad[b]), -EPROTO);
        assert_int_equal(hand.sent_count, sent);
        assert_int_equal(hand.saves, 0);
        assert_true(membership_deadline_ns(hand.membership) == deadline_ns);
    }
    peer_down(&hand, 9, 1); /* nobody of that name */
    assert_int_equal(membership_view(hand.membership).view, 0);
    agree(&hand, 2);
    assert_int_equal(hand.commits, 1);
    membership_free(hand.membership);
}

/* ---- time ---- */

static void a_number_without_agreement_is_given_up_after_longer_and_longer(void **state)
{
    (void)state;
    static const uint64_t waits_s[] = {1, 2, 4, 8, 8};
    struct hand hand;
    start(&hand, 1, 2);
    peer_up(&hand, 2, 0);
    uint64_t now_ns = 0;
    for (size_t w = 0; w < MST_ARRAY_COUNT(waits_s); w++) {
        const uint64_t view = last_sent(&hand, MEMBERSHIP_PROPOSE)->view;
        assert_int_equal(membership_deadline_ns(hand.membership), now_ns + waits_s[w] * S);
        assert_int_equal(membership_tick(hand.membership, now_ns + waits_s[w] * S - 1, NULL), 0);
        assert_int_equal(last_sent(&hand, MEMBERSHIP_PROPOSE)->view, view);
        now_ns += waits_s[w] * S;
        assert_int_equal(membership_tick(hand.membership, now_ns, NULL), 0);
        if (w < 1) /* later the other one, which never says anything, is left out */
            assert_int_equal(last_sent(&hand, MEMBERSHIP_PROPOSE)->view, view + 1);
        if (membership_view(hand.membership).view > 0 ||
            membership_deadline_ns(hand.membership) == UINT64_MAX)
            break;
    }
    membership_free(hand.membership);
}

/* ---- losses ---- */

static void a_loss_stops_the_job_at_once_and_then_a_new_view_is_asked_for(void **state)
{
    (void)state;
    struct hand hand;
    in_first_view(&hand, 3);
    peer_down(&hand, 3, 5 * S);
    assert_int_equal(hand.stops, 1);
    assert_true(hand.at_once);
    assert_int_equal(membership_view(hand.membership).view, 0);
    const size_t proposals = count_sent(&hand, MEMBERSHIP_PROPOSE);
    assert_int_equal(membership_stopped(hand.membership, 17, 5 * S, NULL), 0);
    assert_int_equal(count_sent(&hand, MEMBERSHIP_PROPOSE), proposals + 1);
    const struct membership_message *said = last_sent(&hand, MEMBERSHIP_PROPOSE);
    assert_int_equal(said->view, 2);
    assert_int_equal(said->step, 17);
    assert_int_equal(said->count, 2);
    assert_int_equal(said->vow.held.view, 1);
    agree(&hand, 2);
    assert_int_equal(hand.commits, 2);
    assert_int_equal(hand.view.view, 2);
    assert_int_equal(hand.view.count, 2);
    assert_int_equal(hand.members[0].step, 17);
    membership_free(hand.membership);
}

static void without_a_quorum_it_waits_and_says_for_whom(void **state)
{
    (void)state;
    struct hand hand;
    in_first_view(&hand, 3);
    peer_down(&hand, 2, 5 * S);
    peer_down(&hand, 3, 5 * S);
    assert_int_equal(membership_stopped(hand.membership, 9, 5 * S, NULL), 0);
    assert_int_equal(hand.commits, 1);
    const struct membership_wait wait = membership_waits_for(hand.membership);
    assert_true(wait.quorum);
    assert_int_equal(wait.have, 1);
    assert_int_equal(wait.want, 2);
    assert_int_equal(wait.last_view, 1);
    membership_free(hand.membership);
}

static void the_first_of_two_goes_on_alone_and_the_second_does_not(void **state)
{
    (void)state;
    struct hand hand;
    in_first_view(&hand, 2);
    peer_down(&hand, 2, 5 * S);
    assert_int_equal(membership_stopped(hand.membership, 9, 5 * S, NULL), 0);
    assert_int_equal(hand.commits, 2);
    assert_int_equal(hand.view.count, 1);
    membership_free(hand.membership);

    start(&hand, 2, 2);
    peer_up(&hand, 1, 1);
    struct membership_message message = proposal(1, 2);
    assert_int_equal(receive(&hand, 1, &message), 0);
    message = *last_sent(&hand, MEMBERSHIP_COMMIT);
    assert_int_equal(receive(&hand, 1, &message), 0);
    assert_int_equal(hand.commits, 1);
    peer_down(&hand, 1, 5 * S);
    assert_int_equal(membership_stopped(hand.membership, 9, 5 * S, NULL), 0);
    assert_int_equal(hand.commits, 1);
    assert_true(membership_waits_for(hand.membership).quorum);
    membership_free(hand.membership);
}

static void a_job_that_cannot_go_on_asks_for_a_view_of_the_same(void **state)
{
    (void)state;
    struct hand hand;
    in_first_view(&hand, 2);
    assert_int_equal(membership_stopped(hand.membership, 4, 5 * S, NULL), 0);
    assert_int_equal(hand.stops, 0);
    agree(&hand, 2);
    assert_int_equal(hand.view.view, 2);
    assert_int_equal(hand.view.count, 2);
    membership_free(hand.membership);
}

/* ---- joining ---- */

static struct membership_message joiner(uint8_t place, const struct membership_worker *reach, size_t count)
{
    (void)place;
    return (struct membership_message){
        .kind = MEMBERSHIP_PROPOSE, .view = 2, .count = count, .workers = reach};
}

static void who_is_not_in_the_view_is_told_of_it(void **state)
{
    (void)state;
    struct hand hand;
    in_first_view(&hand, 2);
    peer_up(&hand, 5, 2 * S);
    const struct membership_message *said = last_sent(&hand, MEMBERSHIP_HOLD);
    assert_non_null(said);
    assert_int_equal(said->view, 1);
    assert_int_equal(said->size, 2);
    assert_memory_equal(said->lineage, hand.view.lineage, sizeof said->lineage);
    assert_int_equal(hand.stops, 0);
    membership_free(hand.membership);
}

static void a_full_view_refuses_and_a_held_slot_does(void **state)
{
    (void)state;
    struct hand hand;
    in_first_view(&hand, 2);
    const struct membership_worker reach[] = {worker_at(1), worker_at(2), worker_at(5)};
    const struct membership_message message = joiner(5, reach, 3);
    peer_up(&hand, 5, 2 * S);
    assert_int_equal(receive(&hand, 5, &message), 0);
    assert_int_equal(hand.refusals, 1);
    assert_true(hand.full);
    assert_int_equal(hand.stops, 0);

    struct membership_worker twin = worker_at(6);
    twin.slot = worker_at(2).slot;
    const struct membership_worker twins_reach[] = {worker_at(1), worker_at(2), twin};
    const struct membership_message again = joiner(6, twins_reach, 3);
    assert_int_equal(membership_peer_up(hand.membership, &twin, 2 * S, NULL), 0);
    assert_int_equal(membership_receive(hand.membership, &twin.id, &again, 2 * S, NULL), 0);
    assert_int_equal(hand.refusals, 2);
    assert_false(hand.full);
    membership_free(hand.membership);
}

static void a_newcomer_is_let_in_at_the_end_of_a_step(void **state)
{
    (void)state;
    struct hand hand;
    start_elastic(&hand, 1, 2, 1, 3);
    peer_up(&hand, 2, 1);
    assert_int_equal(membership_tick(hand.membership, 1 + MEMBERSHIP_QUIET_NS, NULL), 0);
    agree(&hand, 2);
    assert_int_equal(hand.commits, 1);
    const struct membership_worker reach[] = {worker_at(1), worker_at(3)};
    struct membership_message message = joiner(3, reach, 2);
    peer_up(&hand, 3, 2 * S);
    assert_int_equal(receive(&hand, 3, &message), 0);
    assert_int_equal(hand.stops, 0); /* it does not reach the other member yet */
    message.view = 3;
    message.count = 3;
    message.workers = reach_of(3);
    assert_int_equal(receive(&hand, 3, &message), 0);
    assert_int_equal(hand.stops, 1);
    assert_false(hand.at_once);
    assert_int_equal(hand.refusals, 0);
    membership_free(hand.membership);
}

static void the_further_of_two_views_wins(void **state)
{
    (void)state;
    struct hand hand;
    in_first_view(&hand, 2);
    peer_up(&hand, 5, 2 * S);
    struct membership_message hold = {.kind = MEMBERSHIP_HOLD, .view = 1, .step = 0, .size = 1};
    memset(hold.lineage, 0xff, sizeof hold.lineage);
    assert_int_equal(receive(&hand, 5, &hold), 0);
    assert_int_equal(hand.stops, 0); /* ours is larger */
    hold.step = 100;
    assert_int_equal(receive(&hand, 5, &hold), 0);
    assert_int_equal(hand.stops, 1);
    assert_true(hand.at_once);
    membership_free(hand.membership);
}

/* ---- leaving ---- */

static void who_is_alone_may_go_at_once(void **state)
{
    (void)state;
    struct hand hand;
    start(&hand, 1, 1);
    assert_int_equal(membership_leave(hand.membership, S, NULL), 1);
    membership_free(hand.membership);
    start(&hand, 1, 3); /* waits for others, and holds nothing */
    assert_int_equal(membership_leave(hand.membership, S, NULL), 1);
    membership_free(hand.membership);
    assert_int_equal(hand.lefts, 0);
}

static void who_leaves_signs_the_view_without_it_and_waits_for_the_others_word(void **state)
{
    (void)state;
    struct hand hand;
    in_first_view(&hand, 3);
    assert_int_equal(membership_leave(hand.membership, 2 * S, NULL), 0);
    assert_int_equal(hand.stops, 1);
    assert_false(hand.at_once);
    assert_int_equal(membership_stopped(hand.membership, 5, 2 * S, NULL), 0);
    assert_true(last_sent(&hand, MEMBERSHIP_PROPOSE)->leaving);
    agree(&hand, 3);
    assert_int_equal(hand.commits, 1); /* not a member */
    assert_int_equal(hand.lefts, 0);
    struct membership_message hold = {.kind = MEMBERSHIP_HOLD, .view = 2, .step = 5, .size = 2};
    memcpy(hold.lineage, hand.view.lineage, sizeof hold.lineage);
    assert_int_equal(receive(&hand, 2, &hold), 0);
    assert_int_equal(hand.lefts, 1);
    assert_int_equal(hand.left_view, 2);
    membership_free(hand.membership);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_numbers_of_workers_have_limits),
        cmocka_unit_test(a_vow_from_before_has_limits),
        cmocka_unit_test(a_slot_is_the_same_for_the_same_name_only),
        cmocka_unit_test(one_worker_needs_nobody),
        cmocka_unit_test(a_known_number_of_workers_speaks_at_once_and_not_before),
        cmocka_unit_test(an_unknown_number_of_workers_waits_until_nobody_comes_any_more),
        cmocka_unit_test(a_list_is_kept_before_it_is_signed),
        cmocka_unit_test(a_signature_of_another_list_does_not_count),
        cmocka_unit_test(what_no_correct_peer_sends_is_refused_and_changes_nothing),
        cmocka_unit_test(a_number_without_agreement_is_given_up_after_longer_and_longer),
        cmocka_unit_test(a_loss_stops_the_job_at_once_and_then_a_new_view_is_asked_for),
        cmocka_unit_test(without_a_quorum_it_waits_and_says_for_whom),
        cmocka_unit_test(the_first_of_two_goes_on_alone_and_the_second_does_not),
        cmocka_unit_test(a_job_that_cannot_go_on_asks_for_a_view_of_the_same),
        cmocka_unit_test(who_is_not_in_the_view_is_told_of_it),
        cmocka_unit_test(a_full_view_refuses_and_a_held_slot_does),
        cmocka_unit_test(a_newcomer_is_let_in_at_the_end_of_a_step),
        cmocka_unit_test(the_further_of_two_views_wins),
        cmocka_unit_test(who_is_alone_may_go_at_once),
        cmocka_unit_test(who_leaves_signs_the_view_without_it_and_waits_for_the_others_word),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
