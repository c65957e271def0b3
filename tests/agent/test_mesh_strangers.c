/* SPDX-License-Identifier: Apache-2.0 */
/* What strangers on the agent's port can do: not much. */
#include "mesh_fixture.h"
#include "mesh_private.h"

#define PLACES            (DISCOVERY_UNAUTHENTICATED + NODES_MAX) /* of those who have not said their hello */
#define PLACES_AN_ADDRESS (DISCOVERY_UNAUTHENTICATED / 4)
#define ACCEPTS_A_TURN    16

/* Strangers that node 0 has let in and that have not said their hello; `from` 0: from anywhere. */
static size_t count_waiting(const struct fixture *fixture, uint32_t from)
{
    size_t count = 0;
    for (const struct link *link = fixture->nodes[0].mesh->links; link; link = link->next)
        count += !link->dialer && link->stage == LINK_HELLO && (from == 0 || link->ipv4 == from);
    return count;
}

static void garbage_and_silence_are_dropped_within_a_second(void **state)
{
    struct fixture *fixture = *state;
    static const char *const texts[] = {"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "SSH-2.0-x\r\n", "\x16\x03\x01",
                                        "m", ""};
    open_mesh(new_node(fixture, 0));
    for (size_t t = 0; t < MST_ARRAY_COUNT(texts); t++) {
        mst_cleanup(mst_closep) int fd = stranger_connects(fixture);
        if (texts[t][0])
            assert_int_equal(send(fd, texts[t], strlen(texts[t]), MSG_NOSIGNAL), (ssize_t)strlen(texts[t]));
        UNTIL(fixture, is_closed(fd));
    }
    uint64_t random = 1;
    for (int round = 0; round < 200; round++) {
        mst_cleanup(mst_closep) int fd = stranger_connects(fixture);
        char bytes[1000];
        for (size_t i = 0; i < sizeof bytes; i++)
            bytes[i] = (char)test_random(&random);
        (void)!send(fd, bytes, 1 + test_below(&random, sizeof bytes), MSG_NOSIGNAL);
        turn(fixture);
    }
    turn_for(fixture, 50);
    assert_int_equal(fixture->nodes[0].seen + fixture->nodes[0].ups, 0);
}

/* How many bytes come back, and whether the connection is over. */
static size_t drain(int fd, bool *ret_closed)
{
    char bytes[2048];
    size_t count = 0;
    ssize_t got;
    while ((got = recv(fd, bytes, sizeof bytes, MSG_DONTWAIT)) > 0)
        count += (size_t)got;
    *ret_closed = got == 0 || (got < 0 && errno != EAGAIN);
    return count;
}

static void no_reply_is_larger_than_what_it_answers(void **state)
{
    struct fixture *fixture = *state;
    struct node *node = new_node(fixture, 0);
    struct discovery_self other = node->self;
    struct discovery_hello hello;
    size_t opener_bytes;
    open_mesh(node);
    other.keys[0].bytes[0] ^= 1;
    assert_int_equal(discovery_hello_dialer(&hello, &other, DISCOVERY_PURPOSE_CONTROL, 1, 1, NULL), 0);
    const uint8_t *opener = discovery_hello_output(&hello, &opener_bytes);
    for (size_t sent = 0; sent <= opener_bytes; sent += sent < 16 ? 1 : 31) {
        mst_cleanup(mst_closep) int fd = stranger_connects(fixture);
        bool closed = false;
        size_t received = 0;
        if (sent > 0)
            assert_int_equal(send(fd, opener, sent, MSG_NOSIGNAL), (ssize_t)sent);
        (void)shutdown(fd, SHUT_WR); /* what there was is all that comes */
        const uint64_t until_ns = mst_now_ns() + WAIT_NS;
        while (!closed && mst_now_ns() < until_ns) {
            turn(fixture);
            received += drain(fd, &closed);
        }
        assert_true(closed);
        assert_true(received <= (sent < 8 ? 0 : 1));
    }
    discovery_hello_release(&hello);
}

/* One byte of a good first message at a time, each in time for any limit on a single read. */
static void a_byte_now_and_then_does_not_keep_a_place(void **state)
{
    struct fixture *fixture = *state;
    struct node *node = new_node(fixture, 0);
    struct discovery_hello hello;
    size_t opener_bytes, sent = 0;
    open_mesh(node);
    assert_int_equal(discovery_hello_dialer(&hello, &node->self, DISCOVERY_PURPOSE_CONTROL, 1, 1, NULL), 0);
    const uint8_t *opener = discovery_hello_output(&hello, &opener_bytes);
    mst_cleanup(mst_closep) int fd = stranger_connects(fixture);
    while (!is_closed(fd) && sent < opener_bytes) {
        (void)!send(fd, opener + sent++, 1, MSG_NOSIGNAL);
        turn_for(fixture, 20);
    }
    assert_true(sent < opener_bytes);
    discovery_hello_release(&hello);
}

static void half_open_connections_do_not_keep_a_peer_out(void **state)
{
    struct fixture *fixture = *state;
    struct node *a = new_node(fixture, 0);
    open_mesh(a);
    for (size_t f = 0; f < FLOOD; f++) {
        fixture->flood[f] = stranger_connects_from(fixture, LOOPBACK(0x100 + f)); /* each from elsewhere */
        turn(fixture);
    }
    struct node *b = new_node(fixture, 1);
    open_mesh(b);
    learn(fixture, 1, 0);
    UNTIL(fixture, a->ups == 1 && b->ups == 1);
    for (size_t f = 0; f < FLOOD; f++)
        UNTIL(fixture, is_closed(fixture->flood[f]));
}

/* A flood that never ends, from `addresses` addresses, while a peer comes: it must not even be disturbed. */
static void flood(struct fixture *fixture, size_t addresses, const char *says)
{
    struct node *a = new_node(fixture, 0), *b = new_node(fixture, 1);
    size_t next = 0;
    open_mesh(a);
    open_mesh(b);
    learn(fixture, 1, 0);
    const uint64_t until_ns = mst_now_ns() + WAIT_NS;
    while ((a->ups != 1 || b->ups != 1) && mst_now_ns() < until_ns) {
        for (size_t i = 0; i < 10; i++, next++) {
            int *fd = &fixture->flood[next % FLOOD];
            mst_closep(fd);
            *fd = stranger_connects_from(fixture, LOOPBACK(0x200 + next % addresses));
            (void)!send(*fd, says, strlen(says), MSG_NOSIGNAL);
        }
        turn(fixture);
        assert_true(count_waiting(fixture, 0) <= PLACES);
        assert_true(count_waiting(fixture, LOOPBACK(0x200)) <= PLACES_AN_ADDRESS);
    }
    assert_int_equal(a->ups, 1);
    assert_int_equal(b->ups, 1);
    close_mesh(a);
    close_mesh(b);
}

static void a_flood_from_one_address_or_from_many_lets_peers_in(void **state)
{
    struct fixture *fixture = *state;
    static const char *const texts[] = {"", "mstr", "\x01\x02\x03\x04\x05\x06\x07\x08"};
    for (size_t t = 0; t < MST_ARRAY_COUNT(texts); t++) {
        flood(fixture, 1, texts[t]);
        flood(fixture, 200, texts[t]);
    }
}

static void places_are_few_and_no_address_has_them_all(void **state)
{
    struct fixture *fixture = *state;
    open_mesh(new_node(fixture, 0));
    for (size_t f = 0; f < 20; f++)
        fixture->flood[f] = stranger_connects_from(fixture, LOOPBACK(0x300 + f));
    for (size_t f = 20; f < 120; f++)
        fixture->flood[f] = stranger_connects_from(fixture, LOOPBACK(0x400));
    size_t most = 0;
    for (int turns = 0; turns < 20; turns++) {
        const size_t before = count_waiting(fixture, 0);
        turn(fixture);
        const size_t now = count_waiting(fixture, 0), there = count_waiting(fixture, LOOPBACK(0x400));
        assert_true(now <= before + ACCEPTS_A_TURN); /* the rest waits: there are others in the loop */
        assert_true(there <= PLACES_AN_ADDRESS && now - there <= 20);
        most = now > most ? now : most;
    }
    assert_int_equal(most, 20 + PLACES_AN_ADDRESS); /* and those of other addresses were left alone */
    for (size_t f = 120; f < FLOOD; f++) {
        fixture->flood[f] = stranger_connects_from(fixture, LOOPBACK(0x500 + f));
        turn(fixture);
        assert_true(count_waiting(fixture, 0) <= PLACES);
    }
}

static void strangers_in_great_number_do_not_make_frames_late(void **state)
{
    struct fixture *fixture = *state;
    struct node *a = new_node(fixture, 0), *b = new_node(fixture, 1);
    open_mesh(a);
    open_mesh(b);
    learn(fixture, 0, 1);
    UNTIL(fixture, a->ups == 1 && b->ups == 1);
    for (size_t f = 0; f < FLOOD; f++)
        fixture->flood[f] = stranger_connects_from(fixture, LOOPBACK(0x500 + f));
    /* All of them wait to be let in. However many they are, what a peer sends is read in between. */
    assert_int_equal(send_number(b, a, 0), 0);
    b->frozen = true;
    for (int turns = 0; turns < 3 && a->frames == 0; turns++)
        turn(fixture);
    assert_int_equal(a->frames, 1);
    assert_int_equal(a->downs, 0);
}

static void a_recorded_hello_gets_nobody_in(void **state)
{
    struct fixture *fixture = *state;
    struct node *node = new_node(fixture, 0);
    struct discovery_hello hello;
    struct discovery_self peer = node->self;
    size_t opener_bytes;
    open_mesh(node);
    memset(peer.identity.incarnation, 0, sizeof peer.identity.incarnation);
    assert_int_equal(discovery_hello_dialer(&hello, &peer, DISCOVERY_PURPOSE_CONTROL, 1, 1, NULL), 0);
    const uint8_t *opener = discovery_hello_output(&hello, &opener_bytes);
    for (int round = 0; round < 3; round++) {
        mst_cleanup(mst_closep) int fd = stranger_connects(fixture);
        uint8_t answer[2 * DISCOVERY_HELLO_MESSAGE_BYTES];
        assert_int_equal(send(fd, opener, opener_bytes, MSG_NOSIGNAL), (ssize_t)opener_bytes);
        ssize_t got = -1;
        UNTIL(fixture, (got = recv(fd, answer, sizeof answer, 0)) >= 0);
        assert_int_equal(got, opener_bytes); /* the answer, and never more than was asked with */
        memset(answer, 'x', 64);
        assert_int_equal(send(fd, answer, 64, MSG_NOSIGNAL), 64); /* no proof */
        UNTIL(fixture, is_closed(fd));
    }
    assert_int_equal(node->seen + node->ups, 0);
    discovery_hello_release(&hello);
}

static void roles_that_have_no_business_here_are_refused(void **state)
{
    struct fixture *fixture = *state;
    static const struct {
        enum discovery_role role;
        enum discovery_purpose purpose;
        enum discovery_reason reason;
        bool lowest; /* of the two incarnations */
    } cases[] = {
        {DISCOVERY_ROLE_PROBE, DISCOVERY_PURPOSE_HELLO, DISCOVERY_REASON_NONE, true},
        {DISCOVERY_ROLE_PROBE, DISCOVERY_PURPOSE_CONTROL, DISCOVERY_REASON_ROLE, true},
        {DISCOVERY_ROLE_PROBE, DISCOVERY_PURPOSE_DATA, DISCOVERY_REASON_ROLE, true},
        {DISCOVERY_ROLE_COLLECTOR, DISCOVERY_PURPOSE_CONTROL, DISCOVERY_REASON_ROLE, true},
        {DISCOVERY_ROLE_LAUNCH, DISCOVERY_PURPOSE_DATA, DISCOVERY_REASON_ROLE, true},
        {DISCOVERY_ROLE_WORKER, DISCOVERY_PURPOSE_CONTROL, DISCOVERY_REASON_ROLE, false}, /* ours to dial */
        {DISCOVERY_ROLE_WORKER, DISCOVERY_PURPOSE_DATA, DISCOVERY_REASON_BUSY, true},     /* no peer yet */
        {DISCOVERY_ROLE_WORKER, DISCOVERY_PURPOSE_CONTROL, DISCOVERY_REASON_NONE, true},
    };
    struct node *node = new_node(fixture, 0);
    memset(node->self.identity.incarnation, 5, sizeof node->self.identity.incarnation);
    open_mesh(node);
    for (size_t c = 0; c < MST_ARRAY_COUNT(cases); c++) {
        struct discovery_self self = node->self;
        struct discovery_hello hello;
        self.identity.role = cases[c].role;
        memset(self.identity.incarnation, cases[c].lowest ? 1 : 9, sizeof self.identity.incarnation);
        mst_cleanup(mst_closep) int fd = stranger_connects(fixture);
        assert_int_equal(discovery_hello_dialer(&hello, &self, cases[c].purpose, 1, 1, NULL), 0);
        int r = DISCOVERY_HELLO_GOING;
        UNTIL(fixture, (r = discovery_hello_io(&hello, fd, NULL)) != DISCOVERY_HELLO_GOING);
        assert_int_equal(hello.reason, cases[c].reason);
        assert_int_equal(r == DISCOVERY_HELLO_DONE, cases[c].reason == DISCOVERY_REASON_NONE);
        discovery_hello_release(&hello);
    }
    UNTIL(fixture, node->ups == 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_LOOP(garbage_and_silence_are_dropped_within_a_second),
        WITH_LOOP(no_reply_is_larger_than_what_it_answers),
        WITH_LOOP(a_byte_now_and_then_does_not_keep_a_place),
        WITH_LOOP(half_open_connections_do_not_keep_a_peer_out),
        WITH_LOOP(a_flood_from_one_address_or_from_many_lets_peers_in),
        WITH_LOOP(places_are_few_and_no_address_has_them_all),
        WITH_LOOP(strangers_in_great_number_do_not_make_frames_late),
        WITH_LOOP(a_recorded_hello_gets_nobody_in),
        WITH_LOOP(roles_that_have_no_business_here_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
