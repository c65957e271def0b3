/* SPDX-License-Identifier: Apache-2.0 */
/* The hello over real sockets, on loopback and on Unix pairs. */
#include "hello_fixture.h"
#include "muster/cleanup.h"
#include "muster/clock.h"
#include "muster/net.h"

#include <poll.h>
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

#define LOOPBACK 0x7f000001U

struct server {
    int listen_fd;
    struct discovery_self self;
    struct discovery_hello hello;
    int result;
    char follow[4]; /* what came right behind the hello */
};

static void *serve(void *context)
{
    struct server *server = context;
    const uint64_t deadline_ns = mst_now_ns() + 5 * MST_NS_PER_S;
    uint32_t ipv4 = 0;
    uint16_t port = 0;
    (void)mst_wait_fd(server->listen_fd, POLLIN, deadline_ns);
    mst_cleanup(mst_closep) int fd = mst_tcp_accept(server->listen_fd, &ipv4, &port);
    server->result = discovery_hello_listener(&server->hello, &server->self, NULL, NULL, ipv4, port, NULL);
    if (server->result == 0)
        server->result = discovery_hello_run(&server->hello, fd, deadline_ns, NULL);
    if (server->result == 0)
        (void)mst_receive_all(fd, server->follow, sizeof server->follow, deadline_ns);
    return NULL;
}

static void dial(const struct discovery_self *self, struct server *server, int *ret_fd, int expected,
                 struct discovery_session *ret_session, enum discovery_reason *ret_reason)
{
    pthread_t thread;
    uint16_t port;
    struct mst_error err = MST_ERROR_INIT;
    assert_int_equal(mst_tcp_listen(LOOPBACK, 0, 4, &server->listen_fd, &port, NULL), 0);
    assert_int_equal(pthread_create(&thread, NULL, serve, server), 0);
    const int r =
        discovery_hello_dial(LOOPBACK, port, self, DISCOVERY_PURPOSE_DATA, mst_now_ns() + 5 * MST_NS_PER_S,
                             ret_fd, ret_session, ret_reason, &err);
    if (r != expected)
        fail_msg("%d instead of %d: %s", r, expected, err.text);
    if (r == 0)
        assert_int_equal(mst_send_all(*ret_fd, "data", 4, mst_now_ns() + MST_NS_PER_S), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    (void)close(server->listen_fd);
}

static void the_socket_is_left_at_the_byte_behind_the_hello(void **state)
{
    (void)state;
    const struct discovery_self self = make_self("w1.1", 1, 7);
    struct server server = {.self = make_self("w2.1", 2, 7)};
    struct discovery_session session;
    enum discovery_reason reason = 99;
    mst_cleanup(mst_closep) int fd = -1;
    dial(&self, &server, &fd, 0, &session, &reason);
    assert_int_equal(reason, DISCOVERY_REASON_NONE);
    assert_int_equal(server.result, 0);
    assert_string_equal(session.peer.slot, "w2.1");
    assert_memory_equal(session.key, server.hello.session.key, sizeof session.key);
    assert_memory_equal(server.follow, "data", 4);
}

static void a_refusal_arrives_although_the_listener_closes_at_once(void **state)
{
    (void)state;
    for (int i = 0; i < 50; i++) {
        const struct discovery_self self = make_self("w1.1", 1, 8);
        struct server server = {.self = make_self("w2.1", 2, 7)};
        struct discovery_session session = {0};
        enum discovery_reason reason = 99;
        int fd = -1;
        dial(&self, &server, &fd, -EACCES, &session, &reason);
        assert_int_equal(reason, DISCOVERY_REASON_KEY);
        assert_int_equal(fd, -1);
    }
}

static void nobody_there_is_no_reason_of_the_hellos(void **state)
{
    (void)state;
    const struct discovery_self self = make_self("w1.1", 1, 7);
    struct discovery_session session;
    enum discovery_reason reason = 99;
    struct mst_error err = MST_ERROR_INIT;
    int fd = -1, listen_fd;
    uint16_t port;
    assert_int_equal(mst_tcp_listen(LOOPBACK, 0, 4, &listen_fd, &port, NULL), 0);
    (void)close(listen_fd);
    assert_int_equal(discovery_hello_dial(LOOPBACK, port, &self, DISCOVERY_PURPOSE_HELLO,
                                          mst_now_ns() + MST_NS_PER_S, &fd, &session, &reason, &err),
                     -ECONNREFUSED);
    assert_int_equal(reason, DISCOVERY_REASON_NONE);
    assert_int_equal(fd, -1);
}

static void silence_ends_at_the_deadline(void **state)
{
    (void)state;
    const struct discovery_self self = make_self("w1.1", 1, 7);
    struct discovery_hello hello;
    struct mst_error err = MST_ERROR_INIT;
    int fds[2];
    assert_int_equal(mst_socket_pair(fds, NULL), 0);
    assert_int_equal(discovery_hello_dialer(&hello, &self, DISCOVERY_PURPOSE_HELLO, LOOPBACK, 7070, NULL), 0);
    const uint64_t start_ns = mst_now_ns();
    assert_int_equal(discovery_hello_run(&hello, fds[0], start_ns + 50 * MST_NS_PER_MS, &err), -ETIMEDOUT);
    assert_true(mst_ms_since(start_ns) >= 50 && mst_ms_since(start_ns) < 5000);
    assert_non_null(strstr(err.text, "hello to 127.0.0.1:7070: no answer in"));
    (void)close(fds[0]);
    (void)close(fds[1]);
}

/* One loop, both sides, a socket that takes and gives little at a time. */
static void both_sides_run_in_one_poll_loop(void **state)
{
    (void)state;
    const struct discovery_self a = make_self("w1.1", 1, 7), b = make_self("w2.1", 2, 7);
    struct discovery_hello sides[2];
    struct pollfd fds[2];
    int pair[2], done = 0;
    const int little = 1;
    assert_int_equal(mst_socket_pair(pair, NULL), 0);
    for (int i = 0; i < 2; i++)
        (void)setsockopt(pair[i], SOL_SOCKET, SO_SNDBUF, &little, sizeof little);
    assert_int_equal(discovery_hello_dialer(&sides[0], &a, DISCOVERY_PURPOSE_CONTROL, 2, 2, NULL), 0);
    assert_int_equal(discovery_hello_listener(&sides[1], &b, NULL, NULL, 1, 1, NULL), 0);
    const uint64_t deadline_ns = mst_now_ns() + 5 * MST_NS_PER_S;
    while (done != 3) {
        for (int i = 0; i < 2; i++) {
            const int r = discovery_hello_io(&sides[i], pair[i], NULL);
            assert_true(r == DISCOVERY_HELLO_GOING || r == DISCOVERY_HELLO_DONE);
            done |= r == DISCOVERY_HELLO_DONE ? 1 << i : 0;
            fds[i] = (struct pollfd){.fd = done & 1 << i ? -1 : pair[i],
                                     .events = discovery_hello_events(&sides[i])};
        }
        assert_true(mst_now_ns() < deadline_ns);
        if (done != 3)
            (void)poll(fds, 2, 1000);
    }
    assert_memory_equal(sides[0].session.key, sides[1].session.key, MST_SHA256_BYTES);
    (void)close(pair[0]);
    (void)close(pair[1]);
}

static void a_peer_that_closes_is_told_from_one_that_is_slow(void **state)
{
    (void)state;
    const struct discovery_self self = make_self("w1.1", 1, 7);
    struct discovery_hello hello;
    int fds[2];
    assert_int_equal(mst_socket_pair(fds, NULL), 0);
    assert_int_equal(discovery_hello_dialer(&hello, &self, DISCOVERY_PURPOSE_HELLO, 1, 1, NULL), 0);
    assert_int_equal(discovery_hello_io(&hello, fds[0], NULL), DISCOVERY_HELLO_GOING);
    (void)close(fds[1]);
    assert_int_equal(discovery_hello_io(&hello, fds[0], NULL), -EPIPE);
    assert_int_equal(hello.reason, DISCOVERY_REASON_CLOSED);
    (void)close(fds[0]);
}

static void a_full_listener_turns_away_with_one_byte(void **state)
{
    (void)state;
    const struct discovery_self self = make_self("w1.1", 1, 7);
    struct discovery_hello hello;
    struct mst_error err = MST_ERROR_INIT;
    int fds[2];
    assert_int_equal(mst_socket_pair(fds, NULL), 0);
    assert_int_equal(discovery_hello_dialer(&hello, &self, DISCOVERY_PURPOSE_HELLO, LOOPBACK, 7070, NULL), 0);
    assert_int_equal(discovery_hello_io(&hello, fds[0], NULL), DISCOVERY_HELLO_GOING);
    discovery_hello_turn_away(fds[1], DISCOVERY_REASON_FULL);
    (void)close(fds[1]);
    for (int i = 0; i < 2; i++) { /* asked again, it says the same */
        assert_int_equal(discovery_hello_io(&hello, fds[0], &err), -EPROTO);
        assert_int_equal(hello.reason, DISCOVERY_REASON_FULL);
        assert_string_equal(
            err.text, "hello to 127.0.0.1:7070: it has too many unauthenticated connections at the moment");
    }
    assert_true(discovery_reason_may_pass(hello.reason));
    (void)close(fds[0]);

    /* No reply is larger than what it answers: whoever said nothing is told nothing. */
    char byte;
    assert_int_equal(mst_socket_pair(fds, NULL), 0);
    discovery_hello_turn_away(fds[1], DISCOVERY_REASON_FULL);
    (void)close(fds[1]);
    assert_int_equal(recv(fds[0], &byte, 1, 0), 0);
    (void)close(fds[0]);
}

/* A listener that takes one connection after another until one of them is through. */
static void *serve_until_done(void *context)
{
    struct server *server = context;
    const uint64_t deadline_ns = mst_now_ns() + 5 * MST_NS_PER_S;
    for (server->result = -1; server->result != 0;) {
        if (mst_wait_fd(server->listen_fd, POLLIN, deadline_ns) < 0)
            return NULL;
        mst_cleanup(mst_closep) int fd = mst_tcp_accept(server->listen_fd, NULL, NULL);
        if (fd < 0)
            return NULL; /* shut down: the dialer has given up */
        server->result = discovery_hello_listener(&server->hello, &server->self, NULL, NULL, 1, 1, NULL);
        if (server->result == 0)
            server->result = discovery_hello_run(&server->hello, fd, deadline_ns, NULL);
    }
    return NULL;
}

/* Which keys a side holds in the course of a change from `o` to `n`, in the order in which they are tried. */
static struct discovery_self self_with_keys(uint8_t id, const char *keys)
{
    struct discovery_self self = make_self("w", id, (uint8_t)keys[0]);
    self.key_count = strlen(keys);
    self.keys[1] = self.keys[0];
    if (keys[1])
        memset(self.keys[1].bytes, keys[1], self.keys[1].count);
    return self;
}

static void while_a_key_is_replaced_all_talk_but_the_first_and_the_last(void **state)
{
    (void)state;
    static const char *const holdings[] = {"o", "on", "no", "n"};
    for (size_t d = 0; d < MST_ARRAY_COUNT(holdings); d++) {
        for (size_t l = 0; l < MST_ARRAY_COUNT(holdings); l++) {
            const struct discovery_self self = self_with_keys(1, holdings[d]);
            struct server server = {.self = self_with_keys(2, holdings[l])};
            const bool shared = strpbrk(holdings[d], holdings[l]) != NULL;
            struct discovery_session session = {0};
            enum discovery_reason reason = 99;
            mst_cleanup(mst_closep) int fd = -1;
            pthread_t thread;
            uint16_t port;
            assert_int_equal(mst_tcp_listen(LOOPBACK, 0, 4, &server.listen_fd, &port, NULL), 0);
            assert_int_equal(pthread_create(&thread, NULL, serve_until_done, &server), 0);
            const int r = discovery_hello_dial(LOOPBACK, port, &self, DISCOVERY_PURPOSE_CONTROL,
                                               mst_now_ns() + 5 * MST_NS_PER_S, &fd, &session, &reason, NULL);
            (void)shutdown(server.listen_fd, SHUT_RDWR);
            assert_int_equal(pthread_join(thread, NULL), 0);
            (void)close(server.listen_fd);
            assert_int_equal(r, shared ? 0 : -EACCES);
            assert_int_equal(reason, shared ? DISCOVERY_REASON_NONE : DISCOVERY_REASON_KEY);
            assert_int_equal(server.result == 0, shared);
            if (shared)
                assert_memory_equal(session.key, server.hello.session.key, sizeof session.key);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_socket_is_left_at_the_byte_behind_the_hello),
        cmocka_unit_test(a_refusal_arrives_although_the_listener_closes_at_once),
        cmocka_unit_test(nobody_there_is_no_reason_of_the_hellos),
        cmocka_unit_test(silence_ends_at_the_deadline),
        cmocka_unit_test(both_sides_run_in_one_poll_loop),
        cmocka_unit_test(a_peer_that_closes_is_told_from_one_that_is_slow),
        cmocka_unit_test(a_full_listener_turns_away_with_one_byte),
        cmocka_unit_test(while_a_key_is_replaced_all_talk_but_the_first_and_the_last),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
