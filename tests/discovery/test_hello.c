/* SPDX-License-Identifier: Apache-2.0 */
#include "hello_fixture.h"
#include "muster/cleanup.h"

#define DIALER_IPV4   0x0a0a0001U
#define LISTENER_IPV4 0x0a0a0002U

struct pair {
    struct discovery_self dialer_self, listener_self;
    struct discovery_hello dialer, listener;
};

static void pair_start(struct pair *pair, discovery_hello_verdict *verdict)
{
    assert_int_equal(discovery_hello_dialer(&pair->dialer, &pair->dialer_self, DISCOVERY_PURPOSE_CONTROL,
                                            LISTENER_IPV4, 7070, NULL),
                     0);
    assert_int_equal(discovery_hello_listener(&pair->listener, &pair->listener_self, verdict, NULL,
                                              DIALER_IPV4, 40000, NULL),
                     0);
}

static struct pair make_pair(void)
{
    return (struct pair){.dialer_self = make_self("w1.1", 1, 7), .listener_self = make_self("w2.1", 2, 7)};
}

static void both_sides_learn_each_other_and_one_session_key_however_the_bytes_are_cut(void **state)
{
    (void)state;
    for (size_t chunk = 1; chunk <= DISCOVERY_HELLO_MESSAGE_BYTES; chunk++) {
        struct pair pair = make_pair();
        pair_start(&pair, NULL);
        const struct outcome outcome = converse(&pair.dialer, &pair.listener, chunk);
        assert_int_equal(outcome.dialer, DISCOVERY_HELLO_DONE);
        assert_int_equal(outcome.listener, DISCOVERY_HELLO_DONE);
        const struct discovery_session *d = &pair.dialer.session, *l = &pair.listener.session;
        assert_memory_equal(d->key, l->key, sizeof d->key);
        assert_memory_equal(&d->peer, &pair.listener_self.identity, sizeof d->peer);
        assert_memory_equal(&l->peer, &pair.dialer_self.identity, sizeof l->peer);
        assert_true(d->dialer && !l->dialer && !d->insecure && !l->insecure);
        assert_int_equal(l->purpose, DISCOVERY_PURPOSE_CONTROL);
        assert_true(outcome.listener_sent <= outcome.dialer_sent);
    }
}

static void every_connection_has_another_session_key(void **state)
{
    (void)state;
    struct pair first = make_pair(), second = make_pair();
    pair_start(&first, NULL);
    pair_start(&second, NULL);
    (void)converse(&first.dialer, &first.listener, 99);
    (void)converse(&second.dialer, &second.listener, 99);
    assert_memory_not_equal(first.dialer.session.key, second.dialer.session.key, MST_SHA256_BYTES);
}

static void what_follows_the_hello_is_left_to_the_caller(void **state)
{
    (void)state;
    struct pair pair = make_pair();
    uint8_t bytes[DISCOVERY_HELLO_MESSAGE_BYTES + 5] = {0};
    size_t count, taken, sent = 0;
    pair_start(&pair, NULL);
    assert_int_equal(carry(&pair.dialer, &pair.listener, 512, &sent, NULL), DISCOVERY_HELLO_GOING);
    assert_int_equal(carry(&pair.listener, &pair.dialer, 512, &sent, NULL), DISCOVERY_HELLO_GOING);
    const void *proof = discovery_hello_output(&pair.dialer, &count);
    memcpy(bytes, proof, count);
    assert_int_equal(discovery_hello_feed(&pair.listener, bytes, count + 5, &taken, NULL),
                     DISCOVERY_HELLO_DONE);
    assert_int_equal(taken, count);
    assert_int_equal(discovery_hello_wanted(&pair.listener), 0);
    assert_int_equal(discovery_hello_feed(&pair.listener, bytes, 5, &taken, NULL), DISCOVERY_HELLO_DONE);
    assert_int_equal(taken, 0);
}

/* How two sides that do not belong together differ, what each finds, and how many bytes the listener gave
 * away. */
static void name_other_cluster(struct pair *pair)
{
    (void)snprintf(pair->dialer_self.identity.cluster, DISCOVERY_CLUSTER_BYTES, "red");
}

static void take_other_key(struct pair *pair)
{
    pair->dialer_self.keys[0].bytes[31] ^= 1;
}

static void drop_dialers_key(struct pair *pair)
{
    pair->dialer_self.keys[0].count = 0;
}

static void drop_listeners_key(struct pair *pair)
{
    pair->listener_self.keys[0].count = 0;
}

static void be_the_same_process(struct pair *pair)
{
    memset(pair->dialer_self.identity.incarnation, 2, DISCOVERY_INCARNATION_BYTES);
}

static void strangers_are_told_one_byte_and_each_fault_has_its_own_reason(void **state)
{
    (void)state;
    static const struct {
        void (*differ)(struct pair *pair);
        enum discovery_reason reason;
        int code;
        const char *dialer_text, *listener_text;
    } cases[] = {
        {name_other_cluster, DISCOVERY_REASON_CLUSTER, -EPROTO,
         "hello to 10.10.0.2:7070: it belongs to another cluster",
         "hello from 10.10.0.1:40000: it belongs to another cluster: it says 'red', not 'blue'"},
        {take_other_key, DISCOVERY_REASON_KEY, -EACCES, "hello to 10.10.0.2:7070: its key is not ours",
         "hello from 10.10.0.1:40000: its key is not ours"},
        {drop_dialers_key, DISCOVERY_REASON_INSECURE, -EACCES,
         "hello to 10.10.0.2:7070: one side has a key and the other runs with --insecure",
         "hello from 10.10.0.1:40000: one side has a key and the other runs with --insecure"},
        {drop_listeners_key, DISCOVERY_REASON_INSECURE, -EACCES,
         "hello to 10.10.0.2:7070: one side has a key and the other runs with --insecure",
         "hello from 10.10.0.1:40000: one side has a key and the other runs with --insecure"},
        {be_the_same_process, DISCOVERY_REASON_SELF, -EPROTO,
         "hello to 10.10.0.2:7070: the connection leads back to ourselves",
         "hello from 10.10.0.1:40000: the connection leads back to ourselves"},
    };
    for (size_t i = 0; i < MST_ARRAY_COUNT(cases); i++) {
        struct pair pair = make_pair();
        cases[i].differ(&pair);
        pair_start(&pair, NULL);
        const struct outcome outcome = converse(&pair.dialer, &pair.listener, 512);
        assert_int_equal(pair.listener.reason, cases[i].reason);
        assert_int_equal(pair.dialer.reason, cases[i].reason);
        assert_int_equal(outcome.listener, cases[i].code);
        assert_int_equal(outcome.dialer, cases[i].code);
        assert_int_equal(outcome.listener_sent, 1);
        assert_string_equal(outcome.dialer_err.text, cases[i].dialer_text);
        assert_string_equal(outcome.listener_err.text, cases[i].listener_text);
    }
}

static void another_version_is_refused_from_the_first_eight_bytes(void **state)
{
    (void)state;
    struct pair pair = make_pair();
    uint8_t opener[DISCOVERY_HELLO_MESSAGE_BYTES];
    size_t count, taken, sent = 0;
    struct mst_error err = MST_ERROR_INIT;
    pair_start(&pair, NULL);
    memcpy(opener, discovery_hello_output(&pair.dialer, &count), sizeof opener);
    opener[5] = 9;
    assert_int_equal(discovery_hello_feed(&pair.listener, opener, 8, &taken, NULL), -EPROTO);
    assert_int_equal(pair.listener.reason, DISCOVERY_REASON_VERSION);
    discovery_hello_sent(&pair.dialer, count);
    assert_int_equal(carry(&pair.listener, &pair.dialer, 1, &sent, &err), -EPROTO);
    assert_int_equal(pair.dialer.reason, DISCOVERY_REASON_VERSION);
    assert_int_equal(sent, 1);
    assert_string_equal(err.text, "hello to 10.10.0.2:7070: it speaks another version of the protocol");
}

static void two_insecure_sides_find_each_other(void **state)
{
    (void)state;
    struct pair pair = make_pair();
    drop_dialers_key(&pair);
    drop_listeners_key(&pair);
    pair_start(&pair, NULL);
    const struct outcome outcome = converse(&pair.dialer, &pair.listener, 512);
    assert_int_equal(outcome.dialer, DISCOVERY_HELLO_DONE);
    assert_true(pair.dialer.session.insecure && pair.listener.session.insecure);
}

static void a_listener_takes_the_old_key_and_the_new_one(void **state)
{
    (void)state;
    for (uint8_t key = 6; key <= 8; key++) {
        struct pair pair = make_pair();
        memset(pair.dialer_self.keys[0].bytes, key, 32);
        pair.listener_self.keys[1] = pair.listener_self.keys[0]; /* 7, and before it: */
        memset(pair.listener_self.keys[0].bytes, 8, 32);
        pair.listener_self.key_count = 2;
        pair_start(&pair, NULL);
        const struct outcome outcome = converse(&pair.dialer, &pair.listener, 512);
        assert_int_equal(outcome.dialer, key == 6 ? -EACCES : DISCOVERY_HELLO_DONE);
    }
}

static void a_key_beside_insecure_is_refused_at_once(void **state)
{
    (void)state;
    struct pair pair = make_pair();
    pair.dialer_self.key_count = 2; /* the second is empty */
    assert_int_equal(
        discovery_hello_dialer(&pair.dialer, &pair.dialer_self, DISCOVERY_PURPOSE_HELLO, 1, 1, NULL),
        -EINVAL);
    assert_int_equal(pair.dialer.status, DISCOVERY_HELLO_FAILED);
}

static enum discovery_reason refuse_job(void *context, const struct discovery_session *session)
{
    (void)context;
    assert_string_equal(session->peer.slot, "w1.1"); /* who asks is known by now */
    return DISCOVERY_REASON_JOB;
}

static void the_verdict_reaches_an_authenticated_dialer(void **state)
{
    (void)state;
    struct pair pair = make_pair();
    pair_start(&pair, refuse_job);
    const struct outcome outcome = converse(&pair.dialer, &pair.listener, 512);
    assert_int_equal(outcome.dialer, -EPROTO);
    assert_int_equal(pair.dialer.reason, DISCOVERY_REASON_JOB);
    assert_int_equal(pair.listener.reason, DISCOVERY_REASON_JOB);
    assert_string_equal(outcome.dialer_err.text, "hello to 10.10.0.2:7070: its job is another one");
}

/* Alter one byte on its way and expect that neither side ends well: `message` 1 to 4. The side that it is for
 * must fail or be left waiting; it must never be DONE. */
static void tamper(int message, size_t at)
{
    struct pair pair = make_pair();
    struct discovery_hello *from, *to;
    uint8_t bytes[DISCOVERY_HELLO_MESSAGE_BYTES];
    size_t count, taken, sent = 0;
    pair_start(&pair, NULL);
    for (int i = 1; i <= message; i++) {
        from = i % 2 ? &pair.dialer : &pair.listener;
        to = i % 2 ? &pair.listener : &pair.dialer;
        if (i < message)
            (void)carry(from, to, 512, &sent, NULL);
    }
    memcpy(bytes, discovery_hello_output(from, &count), sizeof bytes);
    assert_true(at < count);
    bytes[at] ^= 0x20;
    discovery_hello_sent(from, count);
    (void)discovery_hello_feed(to, bytes, count, &taken, NULL);
    assert_int_equal(to->status, DISCOVERY_HELLO_FAILED);
    assert_int_not_equal(to->reason, DISCOVERY_REASON_NONE);
    (void)converse(&pair.dialer, &pair.listener, 512);
    if (message < 4) /* after M3 the listener is satisfied, rightly */
        assert_int_not_equal(from->status, DISCOVERY_HELLO_DONE);
}

static void a_byte_altered_anywhere_ends_the_hello(void **state)
{
    (void)state;
    static const size_t bytes[] = {512, 512, 64, 64};
    for (int message = 1; message <= 4; message++)
        for (size_t at = 0; at < bytes[message - 1]; at++)
            tamper(message, at);
}

static void a_recorded_hello_is_worth_nothing_the_second_time(void **state)
{
    (void)state;
    struct pair pair = make_pair();
    uint8_t first[512], third[64];
    size_t count, taken, sent = 0;
    pair_start(&pair, NULL);
    memcpy(first, discovery_hello_output(&pair.dialer, &count), sizeof first);
    (void)carry(&pair.dialer, &pair.listener, 512, &sent, NULL);
    (void)carry(&pair.listener, &pair.dialer, 512, &sent, NULL);
    memcpy(third, discovery_hello_output(&pair.dialer, &count), sizeof third);

    struct discovery_hello again;
    assert_int_equal(discovery_hello_listener(&again, &pair.listener_self, NULL, NULL, 1, 1, NULL), 0);
    assert_int_equal(discovery_hello_feed(&again, first, sizeof first, &taken, NULL), DISCOVERY_HELLO_GOING);
    (void)discovery_hello_output(&again, &count);
    discovery_hello_sent(&again, count);
    assert_int_equal(discovery_hello_feed(&again, third, sizeof third, &taken, NULL), -EACCES);
    assert_int_equal(again.reason, DISCOVERY_REASON_TAMPERED);
    (void)discovery_hello_output(&again, &count);
    assert_int_equal(count, 0);
}

static void what_a_dialer_says_cannot_be_turned_back_on_it(void **state)
{
    (void)state;
    struct pair pair = make_pair();
    uint8_t opener[512];
    size_t count, taken;
    pair_start(&pair, NULL);
    memcpy(opener, discovery_hello_output(&pair.dialer, &count), sizeof opener);
    discovery_hello_sent(&pair.dialer, count);
    /* As it is, and dressed as an answer. */
    struct discovery_hello copy = pair.dialer;
    assert_true(discovery_hello_feed(&copy, opener, sizeof opener, &taken, NULL) < 0);
    assert_int_equal(copy.reason, DISCOVERY_REASON_FOREIGN);
    opener[6] = 2;
    assert_true(discovery_hello_feed(&pair.dialer, opener, sizeof opener, &taken, NULL) < 0);
    assert_int_equal(pair.dialer.reason, DISCOVERY_REASON_KEY);
}

static void foreign_bytes_get_no_answer_and_never_a_session(void **state)
{
    (void)state;
    static const char *const texts[] = {"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "SSH-2.0-OpenSSH_9.2\r\n",
                                        "mstX and then some more bytes",
                                        "\x16\x03\x01\x02\x01\x01\x02\x01\xfc"};
    for (size_t i = 0; i < MST_ARRAY_COUNT(texts); i++) {
        struct pair pair = make_pair();
        size_t count, taken;
        pair_start(&pair, NULL);
        assert_int_equal(discovery_hello_feed(&pair.listener, texts[i], strlen(texts[i]), &taken, NULL),
                         -EPROTO);
        assert_int_equal(pair.listener.reason, DISCOVERY_REASON_FOREIGN);
        (void)discovery_hello_output(&pair.listener, &count);
        assert_int_equal(count, 0);
        assert_int_equal(discovery_hello_feed(&pair.dialer, texts[i], strlen(texts[i]), &taken, NULL),
                         -EPROTO);
        assert_int_equal(pair.dialer.reason, DISCOVERY_REASON_FOREIGN);
    }
}

static void random_bytes_never_end_well(void **state)
{
    (void)state;
    uint64_t random = 42;
    for (int round = 0; round < 3000; round++) {
        struct pair pair = make_pair();
        uint8_t bytes[700];
        size_t count, taken;
        pair_start(&pair, NULL);
        for (size_t i = 0; i < sizeof bytes; i++) {
            random = random * 6364136223846793005ULL + 1442695040888963407ULL;
            bytes[i] = (uint8_t)(random >> 56);
        }
        /* Half of the rounds begin as a real message does, to get further. */
        const void *opener = discovery_hello_output(&pair.dialer, &count);
        if (round % 2)
            memcpy(bytes, opener, 8);
        (void)discovery_hello_feed(&pair.listener, bytes, sizeof bytes, &taken, NULL);
        assert_int_equal(pair.listener.status, DISCOVERY_HELLO_FAILED);
        bytes[6] = 2;
        (void)discovery_hello_feed(&pair.dialer, bytes, sizeof bytes, &taken, NULL);
        assert_int_equal(pair.dialer.status, DISCOVERY_HELLO_FAILED);
    }
}

static void a_close_in_the_middle_is_told_from_a_close_after_the_end(void **state)
{
    (void)state;
    struct pair pair = make_pair();
    struct mst_error err = MST_ERROR_INIT;
    pair_start(&pair, NULL);
    assert_int_equal(discovery_hello_closed(&pair.dialer, &err), -EPIPE);
    assert_int_equal(pair.dialer.reason, DISCOVERY_REASON_CLOSED);
    assert_string_equal(err.text, "hello to 10.10.0.2:7070: it closed the connection");
    assert_true(discovery_reason_may_pass(pair.dialer.reason));
    pair_start(&pair, NULL);
    (void)converse(&pair.dialer, &pair.listener, 512);
    assert_int_equal(discovery_hello_closed(&pair.dialer, NULL), DISCOVERY_HELLO_DONE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(both_sides_learn_each_other_and_one_session_key_however_the_bytes_are_cut),
        cmocka_unit_test(every_connection_has_another_session_key),
        cmocka_unit_test(what_follows_the_hello_is_left_to_the_caller),
        cmocka_unit_test(strangers_are_told_one_byte_and_each_fault_has_its_own_reason),
        cmocka_unit_test(another_version_is_refused_from_the_first_eight_bytes),
        cmocka_unit_test(two_insecure_sides_find_each_other),
        cmocka_unit_test(a_listener_takes_the_old_key_and_the_new_one),
        cmocka_unit_test(a_key_beside_insecure_is_refused_at_once),
        cmocka_unit_test(the_verdict_reaches_an_authenticated_dialer),
        cmocka_unit_test(a_byte_altered_anywhere_ends_the_hello),
        cmocka_unit_test(a_recorded_hello_is_worth_nothing_the_second_time),
        cmocka_unit_test(what_a_dialer_says_cannot_be_turned_back_on_it),
        cmocka_unit_test(foreign_bytes_get_no_answer_and_never_a_session),
        cmocka_unit_test(random_bytes_never_end_well),
        cmocka_unit_test(a_close_in_the_middle_is_told_from_a_close_after_the_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
