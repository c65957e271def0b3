/* SPDX-License-Identifier: Apache-2.0 */
#include "membership.h"
#include "simulation.h"
#include "test.h"

#define MS 1000000ULL
#define S  (1000 * MS)

/* Seeds a case, more on demand: MUSTER_SEEDS=10000. */
static uint64_t seeds(uint64_t usual)
{
    const char *text = getenv("MUSTER_SEEDS");
    return text ? strtoull(text, NULL, 10) : usual;
}

static void check(const struct simulation_options *options, const struct simulation_outcome *outcome)
{
    if (!outcome->violated && outcome->agreed)
        return;
    fail_msg("seed %llu, %zu machines, %zu wanted, %u losses, %u and %u crashes: %s after %zu messages, %zu "
             "restarts, %zu stalls, %zu refused",
             (unsigned long long)options->seed, options->machines, options->wanted, options->losses,
             options->crashes, options->crashes_in_a_send,
             outcome->violated ? outcome->violated : "no agreement", outcome->messages, outcome->restarts,
             outcome->stalls, outcome->refused);
}

/* Nothing breaks: everybody that is wanted holds the same view soon after the last has started. */
static void a_stable_network_always_agrees_soon(void **state)
{
    (void)state;
    static const size_t sizes[][2] = {{1, 1}, {2, 2}, {3, 3}, {5, 5}, {8, 8}, {4, 3}, {8, 5}, {8, 7}};
    static const uint64_t delays[] = {1 * MS, 50 * MS, 400 * MS, 1500 * MS};
    for (size_t c = 0; c < MST_ARRAY_COUNT(sizes); c++) {
        for (size_t d = 0; d < MST_ARRAY_COUNT(delays); d++) {
            for (uint64_t seed = 0; seed < seeds(20); seed++) {
                const struct simulation_options options = {
                    .seed = seed * 100 + c * 10 + d,
                    .machines = sizes[c][0],
                    .wanted = sizes[c][1],
                    .start_spread_ns = seed % 3 == 0 ? 5 * S : 300 * MS,
                    .delay_ns = delays[d],
                };
                struct simulation_outcome outcome;
                simulation_run(&options, 60 * S, &outcome);
                check(&options, &outcome);
                /* Connections stand 200 ms after a start, and two rounds of messages follow. A number is
                 * given up after a second, later ones after more: slow messages need some of them. */
                const uint64_t patience = delays[d] < 500 * MS ? 4 * S : 30 * S;
                const uint64_t enough = options.start_spread_ns + 200 * MS + 4 * delays[d] + patience;
                if (options.machines == options.wanted && outcome.agreed_ns > enough)
                    fail_msg("seed %llu: agreed after %llu ms only", (unsigned long long)options.seed,
                             (unsigned long long)(outcome.agreed_ns / MS));
                if (options.machines == options.wanted)
                    assert_int_equal(outcome.restarts, 0);
            }
        }
    }
}

/* Connections are lost and machines crash for three seconds; after that all must come together. Fewer than
 * twice as many machines as wanted: of twice as many, two halves may each make a view of their own. */
static void whatever_breaks_no_number_is_committed_twice_and_all_agree_afterwards(void **state)
{
    (void)state;
    static const size_t sizes[][2] = {{2, 2}, {3, 3}, {5, 5}, {4, 3}, {6, 4}, {7, 6}};
    struct simulation_outcome sum = {0};
    for (size_t c = 0; c < MST_ARRAY_COUNT(sizes); c++) {
        for (uint64_t seed = 0; seed < seeds(400); seed++) {
            const struct simulation_options options = {
                .seed = seed + c * 1000000,
                .machines = sizes[c][0],
                .wanted = sizes[c][1],
                .start_spread_ns = 2 * S,
                .delay_ns = seed % 2 ? 30 * MS : 300 * MS,
                .quiet_ns = 3 * S,
                .losses = (uint32_t)(seed % 5 ? seed % 7 : 40), /* every fifth network is a restless one */
                .crashes = (uint32_t)(seed % 4),
                .crashes_in_a_send = (uint32_t)(seed % 3),
            };
            struct simulation_outcome outcome;
            simulation_run(&options, 120 * S, &outcome);
            check(&options, &outcome);
            sum.commits += outcome.commits;
            sum.restarts += outcome.restarts;
            sum.stalls += outcome.stalls;
            sum.refused += outcome.refused;
            sum.messages += outcome.messages;
        }
    }
    print_message("%zu commits, %zu restarts, %zu stalls, %zu refused, %zu messages\n", sum.commits,
                  sum.restarts, sum.stalls, sum.refused, sum.messages);
    assert_true(sum.restarts > 500 && sum.refused > 10); /* the faults did happen */
}

/* A worker by hand: what it sends and commits is counted. */
struct hand {
    size_t proposals, signatures, commits;
};

static void count_send(void *context, const struct membership_id *to,
                       const struct membership_message *message)
{
    struct hand *hand = context;
    (void)to;
    if (message->kind == MEMBERSHIP_PROPOSE)
        hand->proposals++;
    else
        hand->signatures++;
}

static void count_commit(void *context, uint64_t view, const struct membership_worker *workers, size_t count)
{
    struct hand *hand = context;
    (void)view;
    (void)workers;
    (void)count;
    hand->commits++;
}

static struct membership_worker worker_at(uint8_t place)
{
    struct membership_worker worker = {.ipv4 = 0x0a000000U + place, .port = 7070};
    memset(worker.id.bytes, place, sizeof worker.id.bytes);
    return worker;
}

static struct membership *by_hand(struct hand *hand, uint8_t place, size_t wanted)
{
    const struct membership_worker self = worker_at(place);
    const struct membership_callbacks callbacks = {
        .context = hand, .send = count_send, .committed = count_commit};
    struct membership *membership = NULL;
    *hand = (struct hand){0};
    assert_int_equal(membership_new(&self, wanted, &callbacks, &membership, NULL), 0);
    assert_int_equal(membership_start(membership, 0, NULL), 0);
    return membership;
}

static struct membership_message proposal(uint64_t view, const struct membership_worker *workers,
                                          size_t count)
{
    struct membership_message message = {
        .kind = MEMBERSHIP_PROPOSE, .view = view, .count = count, .workers = workers};
    assert_int_equal(membership_digest(view, workers, count, message.digest, NULL), 0);
    return message;
}

static void the_number_of_workers_has_limits(void **state)
{
    (void)state;
    static const struct {
        size_t wanted;
        int code;
    } cases[] = {{0, -EINVAL}, {1, 0}, {1024, 0}, {1025, -EINVAL}, {SIZE_MAX, -EINVAL}};
    const struct membership_worker self = worker_at(1);
    const struct membership_callbacks callbacks = {0};
    for (size_t c = 0; c < MST_ARRAY_COUNT(cases); c++) {
        struct membership *membership = NULL;
        assert_int_equal(membership_new(&self, cases[c].wanted, &callbacks, &membership, NULL),
                         cases[c].code);
        assert_int_equal(membership != NULL, cases[c].code == 0);
        membership_free(membership);
    }
}

static void one_worker_needs_nobody(void **state)
{
    (void)state;
    struct hand hand;
    const struct membership_worker *workers;
    size_t count;
    struct membership *membership = by_hand(&hand, 1, 1);
    assert_int_equal(hand.commits, 1);
    assert_int_equal(membership_view(membership, &workers, &count), 1);
    assert_int_equal(count, 1);
    assert_int_equal(workers[0].ipv4, 0x0a000001U);
    assert_true(membership_deadline_ns(membership) == UINT64_MAX);
    membership_free(membership);
}

static void what_no_correct_peer_sends_is_refused_and_changes_nothing(void **state)
{
    (void)state;
    struct hand hand;
    const struct membership_worker *held, list[] = {worker_at(1), worker_at(2)}, stranger = worker_at(9);
    struct membership_message good = proposal(1, list, 2), bad[7];
    size_t count;
    for (size_t b = 0; b < MST_ARRAY_COUNT(bad); b++)
        bad[b] = good;
    bad[0].view = 0;
    bad[1].view = UINT64_MAX;
    bad[2].digest[31] ^= 1;
    bad[3].view = 2; /* the digest is of number and list */
    bad[4].count = 0;
    bad[5].count = MEMBERSHIP_MAX_WORKERS + 1;
    bad[6].kind = (enum membership_kind)7;
    struct membership *membership = by_hand(&hand, 1, 2);
    assert_int_equal(membership_receive(membership, &list[1].id, &good, 1, NULL), -EPROTO); /* not up */
    assert_int_equal(membership_peer_up(membership, &list[1], 1, NULL), 0);
    assert_int_equal(membership_receive(membership, &stranger.id, &good, 1, NULL), -EPROTO);
    for (size_t b = 0; b < MST_ARRAY_COUNT(bad); b++) {
        struct mst_error err = MST_ERROR_INIT;
        assert_int_equal(membership_receive(membership, &list[1].id, &bad[b], 1, &err), -EPROTO);
        assert_true(strlen(err.text) > 0);
        assert_int_equal(hand.signatures, 0);
    }
    assert_int_equal(membership_peer_down(membership, &stranger.id, 1, NULL), 0);
    assert_int_equal(membership_view(membership, &held, &count), 0);
    assert_int_equal(count, 0);

    assert_int_equal(membership_receive(membership, &list[1].id, &good, 1, NULL), 0);
    assert_int_equal(hand.signatures, 1);
    struct membership_message commit = good;
    commit.kind = MEMBERSHIP_COMMIT;
    commit.digest[0] ^= 1;
    assert_int_equal(membership_receive(membership, &list[1].id, &commit, 1, NULL), 0);
    assert_int_equal(hand.commits, 0); /* a signature of something else */
    membership_free(membership);
}

static void one_worker_too_many_signs_nothing(void **state)
{
    (void)state;
    struct hand hand;
    const struct membership_worker list[] = {worker_at(1), worker_at(2), worker_at(3)};
    const struct membership_message message = proposal(1, list, 2);
    struct membership *membership = by_hand(&hand, 3, 2);
    for (size_t p = 0; p < 2; p++)
        assert_int_equal(membership_peer_up(membership, &list[p], 1, NULL), 0);
    for (size_t p = 0; p < 2; p++)
        assert_int_equal(membership_receive(membership, &list[p].id, &message, 1, NULL), 0);
    assert_true(hand.proposals > 0);
    assert_int_equal(hand.signatures, 0);
    assert_int_equal(hand.commits, 0);
    assert_int_equal(membership_reachable(membership), 3);
    /* It says so again from time to time, to be told that there is no place. */
    const uint64_t deadline_ns = membership_deadline_ns(membership);
    assert_true(deadline_ns > 1 && deadline_ns < 60 * S);
    const size_t before = hand.proposals;
    assert_int_equal(membership_tick(membership, deadline_ns, NULL), 0);
    assert_int_equal(hand.proposals, before + 2);
    membership_free(membership);
}

static void a_digest_depends_on_number_and_order(void **state)
{
    (void)state;
    const struct membership_worker list[] = {worker_at(1), worker_at(2)}, turned[] = {list[1], list[0]};
    uint8_t a[MST_SHA256_BYTES], b[MST_SHA256_BYTES];
    assert_int_equal(membership_digest(1, list, 2, a, NULL), 0);
    assert_int_equal(membership_digest(1, turned, 2, b, NULL), 0);
    assert_memory_not_equal(a, b, sizeof a);
    assert_int_equal(membership_digest(2, list, 2, b, NULL), 0);
    assert_memory_not_equal(a, b, sizeof a);
    assert_int_equal(membership_digest(1, list, 1, b, NULL), 0);
    assert_memory_not_equal(a, b, sizeof a);
    assert_int_equal(membership_digest(1, list, 2, b, NULL), 0);
    assert_memory_equal(a, b, sizeof a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_number_of_workers_has_limits),
        cmocka_unit_test(one_worker_needs_nobody),
        cmocka_unit_test(what_no_correct_peer_sends_is_refused_and_changes_nothing),
        cmocka_unit_test(one_worker_too_many_signs_nothing),
        cmocka_unit_test(a_digest_depends_on_number_and_order),
        cmocka_unit_test(a_stable_network_always_agrees_soon),
        cmocka_unit_test(whatever_breaks_no_number_is_committed_twice_and_all_agree_afterwards),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
