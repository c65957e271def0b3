/* SPDX-License-Identifier: Apache-2.0 */
/* Who becomes a peer, what peers send each other, and who stays out. */
#include "mesh_fixture.h"

static void peers_come_up_once_a_pair_whoever_learns_of_whom(void **state)
{
    struct fixture *fixture = *state;
    for (size_t n = 0; n < NODES_MAX; n++)
        open_mesh(new_node(fixture, n));
    /* Both, one, or the other: a pair needs only one side that knows. */
    for (size_t a = 0; a < NODES_MAX; a++) {
        learn(fixture, a, a); /* oneself: nothing happens */
        for (size_t b = a + 1; b < NODES_MAX; b++) {
            if ((a + b) % 3 != 0)
                learn(fixture, a, b);
            if ((a + b) % 3 != 1)
                learn(fixture, b, a);
        }
    }
    UNTIL(fixture, sum_ups(fixture) == NODES_MAX * (NODES_MAX - 1));
    turn_for(fixture, 300);
    for (size_t n = 0; n < NODES_MAX; n++) {
        char text[MESH_STRANGER_BYTES];
        assert_int_equal(fixture->nodes[n].ups, NODES_MAX - 1);
        assert_int_equal(fixture->nodes[n].downs, 0);
        assert_true(fixture->nodes[n].seen >= NODES_MAX - 1);
        assert_null(mesh_stranger(fixture->nodes[n].mesh, 0, text));
    }
}

static void frames_arrive_whole_and_in_order(void **state)
{
    struct fixture *fixture = *state;
    struct node *a = new_node(fixture, 0), *b = new_node(fixture, 1);
    open_mesh(a);
    open_mesh(b);
    assert_int_equal(send_number(a, b, 0), -ENOTCONN);
    learn(fixture, 0, 1);
    UNTIL(fixture, a->ups == 1 && b->ups == 1);
    enum { COUNT = 5000 };
    for (uint64_t number = 0; number < COUNT; number++) {
        assert_int_equal(send_number(a, b, number), 0);
        assert_int_equal(send_number(b, a, number), 0);
        if (number % 100 == 99)
            turn(fixture);
    }
    UNTIL(fixture, a->frames == COUNT && b->frames == COUNT);
    assert_int_equal(a->wrong_frames + b->wrong_frames, 0);
    assert_true(mesh_flushed(a->mesh) && mesh_flushed(b->mesh));
}

static void a_peer_that_takes_nothing_stops_being_sent_to(void **state)
{
    struct fixture *fixture = *state;
    struct node *a = new_node(fixture, 0), *b = new_node(fixture, 1);
    open_mesh(a);
    open_mesh(b);
    learn(fixture, 0, 1);
    UNTIL(fixture, a->ups == 1 && b->ups == 1);
    int r = 0;
    b->frozen = true;
    for (uint64_t number = 0; r == 0 && number < 20000; number++)
        r = send_number(a, b, 4999);
    assert_int_equal(r, -ENOBUFS);
    assert_int_equal(a->downs, 0); /* the sender may be in the middle of something: told with the next tick */
    assert_int_equal(send_number(a, b, 0), -ENOTCONN);
    turn(fixture);
    assert_int_equal(a->downs, 1);
    assert_non_null(strstr(a->reason, "queued"));
    assert_true(mesh_flushed(a->mesh));
    b->frozen = false;
    UNTIL(fixture, a->ups == 2 && b->ups == 2); /* and they meet again */
}

static void a_refused_frame_drops_the_peer_with_the_reason(void **state)
{
    struct fixture *fixture = *state;
    struct node *a = new_node(fixture, 0), *b = new_node(fixture, 1);
    open_mesh(a);
    open_mesh(b);
    learn(fixture, 0, 1);
    UNTIL(fixture, a->ups == 1 && b->ups == 1);
    b->refuses_frames = true;
    assert_int_equal(send_number(a, b, 0), 0);
    UNTIL(fixture, b->downs == 1 && a->downs == 1);
    assert_string_equal(b->reason, "not to my taste");
    b->refuses_frames = false;
    UNTIL(fixture, a->ups == 2 && b->ups == 2); /* and they meet again */
}

static void who_does_not_belong_stays_out_and_is_named(void **state)
{
    struct fixture *fixture = *state;
    static const struct {
        const char *what, *reason;
    } cases[] = {{"key", "key"}, {"cluster", "cluster"}, {"job", "another job"}, {"no key", "insecure"}};
    for (size_t c = 0; c < MST_ARRAY_COUNT(cases); c++) {
        struct node *a = new_node(fixture, 0), *b = new_node(fixture, 1);
        if (strcmp(cases[c].what, "key") == 0)
            b->self.keys[0].bytes[31] ^= 1;
        else if (strcmp(cases[c].what, "cluster") == 0)
            b->self.identity.cluster[0] = 'g';
        else if (strcmp(cases[c].what, "job") == 0)
            b->self.identity.job_key[0] ^= 1;
        else
            b->self.keys[0].count = 0;
        open_mesh(a);
        open_mesh(b);
        learn(fixture, 0, 1);
        learn(fixture, 1, 0);
        UNTIL(fixture, says_of(fixture, 0, 1, cases[c].reason) && says_of(fixture, 1, 0, cases[c].reason));
        assert_int_equal(a->ups + b->ups, 0);
        /* Somebody who belongs is not kept out by the one who does not. */
        struct node *third = new_node(fixture, 2);
        open_mesh(third);
        learn(fixture, 2, 0);
        learn(fixture, 2, 1);
        UNTIL(fixture, a->ups == 1 && third->ups == 1);
        assert_int_equal(b->ups, 0);
        for (size_t n = 0; n < 3; n++)
            close_mesh(&fixture->nodes[n]);
    }
}

static void an_agent_that_starts_later_is_found(void **state)
{
    struct fixture *fixture = *state;
    struct node *a = new_node(fixture, 0);
    open_mesh(a);
    learn(fixture, 0, 1);
    UNTIL(fixture, says_of(fixture, 0, 1, "refused"));
    struct node *b = new_node(fixture, 1);
    open_mesh(b);
    UNTIL(fixture, a->ups == 1 && b->ups == 1);

    mesh_set_dialling(a->mesh, false);
    struct node *c = new_node(fixture, 2);
    learn(fixture, 0, 2);
    open_mesh(c);
    turn_for(fixture, 300);
    assert_int_equal(c->seen, 0); /* nobody is dialled any more... */
    learn(fixture, 2, 0);
    UNTIL(fixture, c->ups == 1 && a->ups == 2); /* ...but whoever dials is heard */
}

static void a_peer_that_comes_back_is_another_one(void **state)
{
    struct fixture *fixture = *state;
    struct node *a = new_node(fixture, 0);
    open_mesh(a);
    for (size_t round = 1; round <= 6; round++) { /* the lower of two random numbers dials: both come up */
        struct node *b = new_node(fixture, 1);
        open_mesh(b);
        learn(fixture, 0, 1);
        UNTIL(fixture, a->ups == round && b->ups == 1);
        close_mesh(b);
        UNTIL(fixture, a->downs == round);
    }
}

static void silence_is_noticed(void **state)
{
    struct fixture *fixture = *state;
    struct node *a = new_node(fixture, 0), *b = new_node(fixture, 1);
    open_mesh_with(a, (struct mesh_options){.silence_ns = 300 * MST_NS_PER_MS});
    open_mesh_with(b, (struct mesh_options){.silence_ns = 60 * MST_NS_PER_S});
    learn(fixture, 0, 1);
    UNTIL(fixture, a->ups == 1 && b->ups == 1);
    /* With a sign of life now and then it stays. */
    for (uint64_t number = 0; number < 8; number++) {
        assert_int_equal(send_number(b, a, number), 0);
        turn_for(fixture, 100);
    }
    assert_int_equal(a->downs, 0);
    const uint64_t start_ns = mst_now_ns();
    UNTIL(fixture, a->downs == 1);
    assert_true(mst_ms_since(start_ns) < 2000);
    assert_non_null(strstr(a->reason, "no sign of life"));
    UNTIL(fixture, b->downs >= 1);
}

/* Somebody else's address that leads on to `to`, as a service's virtual one does. */
struct relay {
    int listen_fd;
    uint32_t to;
    int fds[16][2];
    size_t count;
};

static void relay_turn(struct fixture *fixture, struct relay *relay)
{
    const int fd = mst_tcp_accept(relay->listen_fd, NULL, NULL);
    if (fd >= 0) {
        int onward = -1;
        assert_true(relay->count < MST_ARRAY_COUNT(relay->fds));
        assert_int_equal(mst_tcp_connect_start(relay->to, fixture->port, &onward, NULL), 0);
        relay->fds[relay->count][0] = fd;
        relay->fds[relay->count++][1] = onward;
    }
    for (size_t c = 0; c < relay->count; c++) {
        for (size_t side = 0; side < 2; side++) {
            char bytes[2048];
            if (mst_wait_fd(relay->fds[c][!side], POLLOUT, mst_now_ns()) < 0)
                continue;
            const ssize_t got = recv(relay->fds[c][side], bytes, sizeof bytes, 0);
            if (got > 0)
                (void)!send(relay->fds[c][!side], bytes, (size_t)got, MSG_NOSIGNAL);
            else if (got == 0)
                (void)shutdown(relay->fds[c][!side], SHUT_WR);
        }
    }
}

static void relay_close(struct relay *relay)
{
    (void)close(relay->listen_fd);
    for (size_t c = 0; c < relay->count; c++) {
        (void)close(relay->fds[c][0]);
        (void)close(relay->fds[c][1]);
    }
}

static void a_virtual_address_leads_to_a_worker_that_is_known_by_its_own(void **state)
{
    struct fixture *fixture = *state;
    for (size_t to = 0; to < 2; to++) { /* to ourselves, and to another */
        struct node *a = new_node(fixture, 0), *b = new_node(fixture, 1);
        struct relay relay = {.to = LOOPBACK(to + 2)};
        open_mesh(a);
        open_mesh(b);
        assert_int_equal(mst_tcp_listen(LOOPBACK(60), fixture->port, 4, &relay.listen_fd, NULL, NULL), 0);
        assert_int_equal(mesh_learn(a->mesh, LOOPBACK(60), fixture->port, NULL), 0);
        if (to == 0)
            learn(fixture, 0, 1);
        const uint64_t until_ns = mst_now_ns() + WAIT_NS;
        while ((a->ups != 1 || b->ups != 1 || relay.count == 0) && mst_now_ns() < until_ns) {
            turn(fixture);
            relay_turn(fixture, &relay);
        }
        assert_int_equal(a->ups, 1);
        assert_int_equal(b->ups, 1);
        for (int turns = 0; turns < 300; turns++) {
            turn(fixture);
            relay_turn(fixture, &relay);
        }
        assert_int_equal(a->ups + b->ups, 2); /* one connection, and to the worker's own address */
        assert_int_equal(a->downs + b->downs, 0);
        char text[MESH_STRANGER_BYTES];
        assert_null(mesh_stranger(a->mesh, 0, text)); /* it is no stranger either */
        relay_close(&relay);
        close_mesh(a);
        close_mesh(b);
    }
}

static void an_address_that_is_taken_is_an_error(void **state)
{
    struct fixture *fixture = *state;
    struct node *a = new_node(fixture, 0);
    open_mesh(a);
    const struct mesh_options options = {.loop = a->loop, .self = &a->self, .expected = 1};
    const struct mesh_callbacks callbacks = {.context = a};
    struct mesh *second = NULL;
    struct mst_error err = MST_ERROR_INIT;
    assert_int_equal(mesh_new(&options, &callbacks, &second, &err), -EADDRINUSE);
    assert_non_null(strstr(err.text, "127.0.0.2"));
    assert_null(second);
    mesh_free(NULL);
}

static void hosts_are_limited(void **state)
{
    struct fixture *fixture = *state;
    struct node *a = new_node(fixture, 0);
    open_mesh(a);
    for (uint32_t h = 0; h < MESH_HOSTS_MAX; h++)
        assert_int_equal(mesh_learn(a->mesh, 0x0a000001U + h, 7070, NULL), 0);
    assert_int_equal(mesh_learn(a->mesh, 0x0b000001U, 7070, NULL), -ENOBUFS);
    assert_int_equal(mesh_learn(a->mesh, 0x0a000001U, 7070, NULL), 0); /* known */
}

/* As a collector that does not take files any more: it may have been replaced, and have said so to nobody. */
static void who_is_known_is_asked_again_when_it_is_in_doubt(void **state)
{
    struct fixture *fixture = *state;
    struct node *a = new_node(fixture, 0), *b = new_node(fixture, 1);
    b->self.identity.role = DISCOVERY_ROLE_COLLECTOR;
    open_mesh(a);
    open_mesh(b);
    learn(fixture, 0, 1);
    UNTIL(fixture, a->seen == 1);
    turn_for(fixture, 200);
    assert_int_equal(a->seen, 1); /* known is known */
    mesh_ask_again(a->mesh, LOOPBACK(3), fixture->port);
    UNTIL(fixture, a->seen == 2);
    close_mesh(b);
    mesh_ask_again(a->mesh, LOOPBACK(3), fixture->port);
    UNTIL(fixture, says_of(fixture, 0, 1, "refused"));
    b = new_node(fixture, 1);
    b->self.identity.role = DISCOVERY_ROLE_COLLECTOR;
    open_mesh(b);
    UNTIL(fixture, a->seen == 3);
    mesh_ask_again(a->mesh, LOOPBACK(77), fixture->port); /* who was never known is left alone */
    turn_for(fixture, 50);
    assert_int_equal(a->seen, 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_LOOP(peers_come_up_once_a_pair_whoever_learns_of_whom),
        WITH_LOOP(frames_arrive_whole_and_in_order),
        WITH_LOOP(a_peer_that_takes_nothing_stops_being_sent_to),
        WITH_LOOP(a_refused_frame_drops_the_peer_with_the_reason),
        WITH_LOOP(who_does_not_belong_stays_out_and_is_named),
        WITH_LOOP(an_agent_that_starts_later_is_found),
        WITH_LOOP(a_peer_that_comes_back_is_another_one),
        WITH_LOOP(silence_is_noticed),
        WITH_LOOP(a_virtual_address_leads_to_a_worker_that_is_known_by_its_own),
        WITH_LOOP(an_address_that_is_taken_is_an_error),
        WITH_LOOP(who_is_known_is_asked_again_when_it_is_in_doubt),
        WITH_LOOP(hosts_are_limited),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
