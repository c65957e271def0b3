/* SPDX-License-Identifier: Apache-2.0 */
/* Several meshes in one program, on addresses of the loopback network, driven by one loop. */
#include "control.h"
#include "mesh.h"
#include "muster/clock.h"
#include "muster/net.h"
#include "test.h"

#include <sys/socket.h>

#define NODES_MAX   5
#define FLOOD       300
#define WAIT_NS     (10 * MST_NS_PER_S)
#define LOOPBACK(x) (0x7f000000U + (uint32_t)(x))
#define FRAME_TYPE  ((uint16_t)7)

struct node {
    struct discovery_self self;
    struct mesh *mesh; /* NULL: not running */
    size_t seen, ups, downs, frames, wrong_frames, datas;
    uint64_t next_number; /* of the frames that come */
    bool refuses_frames;
    char reason[256]; /* of the last peer_down */
};

struct fixture {
    struct loop *loop;
    uint16_t port;
    struct node nodes[NODES_MAX];
    int flood[FLOOD];
};

static void on_seen(void *context, const struct discovery_identity *who)
{
    struct node *node = context;
    (void)who;
    node->seen++;
}

static void on_up(void *context, const struct discovery_identity *peer)
{
    struct node *node = context;
    (void)peer;
    node->ups++;
}

static void on_down(void *context, const struct discovery_identity *peer, const char *reason)
{
    struct node *node = context;
    (void)peer;
    node->downs++;
    (void)snprintf(node->reason, sizeof node->reason, "%s", reason);
}

/* Frames carry their number in the first bytes and are as long as it says. */
static int on_frame(void *context, const struct discovery_identity *from, uint16_t type,
                    const uint8_t *payload, size_t count, struct mst_error *err)
{
    struct node *node = context;
    uint64_t number = 0;
    (void)from;
    if (node->refuses_frames)
        return mst_error_set(err, -EPROTO, "not to my taste");
    if (count >= sizeof number)
        memcpy(&number, payload, sizeof number);
    if (type != FRAME_TYPE || number != node->next_number++ || count != sizeof number + number % 5000)
        node->wrong_frames++;
    node->frames++;
    return 0;
}

static void on_data(void *context, const struct discovery_identity *from, int fd)
{
    struct node *node = context;
    (void)from;
    node->datas++;
    (void)close(fd);
}

static int setup(void **state)
{
    struct fixture *fixture = calloc(1, sizeof *fixture);
    int listener = -1;
    *state = fixture;
    for (size_t f = 0; fixture && f < FLOOD; f++)
        fixture->flood[f] = -1;
    /* A port that is free on 127.0.0.1 is free on its neighbours, too, for all practical purposes. */
    if (!fixture || loop_new(&fixture->loop, NULL) < 0 ||
        mst_tcp_listen(LOOPBACK(1), 0, 1, &listener, &fixture->port, NULL) < 0)
        return -1;
    return close(listener);
}

static int teardown(void **state)
{
    struct fixture *fixture = *state;
    for (size_t n = 0; n < NODES_MAX; n++)
        mesh_free(fixture->nodes[n].mesh);
    for (size_t f = 0; f < FLOOD; f++)
        mst_closep(&fixture->flood[f]);
    loop_free(fixture->loop);
    free(fixture);
    return 0;
}

/* Node `n` at 127.0.0.(n+2); the settings that matter can be changed before open_mesh(). */
static struct node *new_node(struct fixture *fixture, size_t n)
{
    struct node *node = &fixture->nodes[n];
    mesh_free(node->mesh);
    *node = (struct node){.self = {.key_count = 1}};
    struct discovery_identity *identity = &node->self.identity;
    (void)snprintf(identity->cluster, sizeof identity->cluster, "blue");
    (void)snprintf(identity->slot, sizeof identity->slot, "w%zu", n);
    assert_int_equal(mst_random(identity->incarnation, sizeof identity->incarnation, NULL), 0);
    identity->role = DISCOVERY_ROLE_WORKER;
    identity->ipv4 = LOOPBACK(n + 2);
    identity->port = fixture->port;
    memset(identity->job_key, 1, sizeof identity->job_key);
    node->self.keys[0].count = 32;
    memset(node->self.keys[0].bytes, 9, 32);
    return node;
}

static void open_mesh_of(struct fixture *fixture, struct node *node, uint64_t silence_ns)
{
    const struct mesh_options options = {
        .loop = fixture->loop, .self = &node->self, .expected = NODES_MAX, .silence_ns = silence_ns};
    const struct mesh_callbacks callbacks = {.context = node,
                                             .seen = on_seen,
                                             .peer_up = on_up,
                                             .peer_down = on_down,
                                             .frame = on_frame,
                                             .data = on_data};
    assert_int_equal(mesh_new(&options, &callbacks, &node->mesh, NULL), 0);
}

static void learn(struct fixture *fixture, size_t who, size_t whom)
{
    assert_int_equal(mesh_learn(fixture->nodes[who].mesh, LOOPBACK(whom + 2), fixture->port, NULL), 0);
}

/* One turn for all. */
static void turn(struct fixture *fixture)
{
    uint64_t deadline_ns = mst_now_ns() + 20 * MST_NS_PER_MS;
    for (size_t n = 0; n < NODES_MAX; n++)
        if (fixture->nodes[n].mesh && mesh_deadline_ns(fixture->nodes[n].mesh) < deadline_ns)
            deadline_ns = mesh_deadline_ns(fixture->nodes[n].mesh);
    assert_int_equal(loop_run_once(fixture->loop, deadline_ns, NULL), 0);
    for (size_t n = 0; n < NODES_MAX; n++)
        if (fixture->nodes[n].mesh)
            mesh_tick(fixture->nodes[n].mesh, mst_now_ns());
}

/* Turn until the condition holds; fails after a while. */
#define UNTIL(fixture, condition)                                                                            \
    do {                                                                                                     \
        const uint64_t until_ns = mst_now_ns() + WAIT_NS;                                                    \
        while (!(condition)) {                                                                               \
            if (mst_now_ns() > until_ns)                                                                     \
                fail_msg("waited in vain for: %s", #condition);                                              \
            turn(fixture);                                                                                   \
        }                                                                                                    \
    } while (0)

static void turn_for(struct fixture *fixture, uint64_t ms)
{
    const uint64_t until_ns = mst_now_ns() + ms * MST_NS_PER_MS;
    while (mst_now_ns() < until_ns)
        turn(fixture);
}

static size_t sum_ups(const struct fixture *fixture)
{
    size_t ups = 0;
    for (size_t n = 0; n < NODES_MAX; n++)
        ups += fixture->nodes[n].ups;
    return ups;
}

static int send_number(struct node *from, const struct node *to, uint64_t number)
{
    mst_cleanup(mst_buf_release) struct mst_buf payload = MST_BUF_INIT(8192);
    static const char filler[5000];
    assert_int_equal(mst_buf_append(&payload, &number, sizeof number), 0);
    assert_int_equal(mst_buf_append(&payload, filler, number % 5000), 0);
    return mesh_send(from->mesh, to->self.identity.incarnation, FRAME_TYPE, &payload, NULL);
}

static void peers_come_up_once_a_pair_whoever_learns_of_whom(void **state)
{
    struct fixture *fixture = *state;
    for (size_t n = 0; n < NODES_MAX; n++)
        open_mesh_of(fixture, new_node(fixture, n), 0);
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
    open_mesh_of(fixture, a, 0);
    open_mesh_of(fixture, b, 0);
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
    open_mesh_of(fixture, a, 0);
    open_mesh_of(fixture, b, 0);
    learn(fixture, 0, 1);
    UNTIL(fixture, a->ups == 1 && b->ups == 1);
    int r = 0;
    for (uint64_t number = 0; r == 0 && number < 20000; number++) /* the loop does not run: nobody reads */
        r = send_number(a, b, 4999);
    assert_int_equal(r, -ENOBUFS);
    assert_false(mesh_flushed(a->mesh));
    mst_cleanup(mst_buf_release) struct mst_buf payload = MST_BUF_INIT(DISCOVERY_FRAME_MAX_BYTES);
    assert_int_equal(mst_buf_reserve(&payload, 200000), 0);
    memset(payload.bytes, 0, 200000);
    payload.count = 200000;
    mesh_send_all(a->mesh, FRAME_TYPE, &payload);
    assert_int_equal(a->downs, 1);
    assert_non_null(strstr(a->reason, "queued"));
}

static void a_refused_frame_drops_the_peer_with_the_reason(void **state)
{
    struct fixture *fixture = *state;
    struct node *a = new_node(fixture, 0), *b = new_node(fixture, 1);
    open_mesh_of(fixture, a, 0);
    open_mesh_of(fixture, b, 0);
    learn(fixture, 0, 1);
    UNTIL(fixture, a->ups == 1 && b->ups == 1);
    b->refuses_frames = true;
    assert_int_equal(send_number(a, b, 0), 0);
    UNTIL(fixture, b->downs == 1 && a->downs == 1);
    assert_string_equal(b->reason, "not to my taste");
    b->refuses_frames = false;
    UNTIL(fixture, a->ups == 2 && b->ups == 2); /* and they meet again */
}

/* The reason that node `n` gives for the address of node `whom`. */
static bool says_of(struct fixture *fixture, size_t n, size_t whom, const char *part)
{
    char text[MESH_STRANGER_BYTES], address[MST_IPV4_TEXT_BYTES];
    mst_ipv4_text(LOOPBACK(whom + 2), address);
    for (size_t s = 0; mesh_stranger(fixture->nodes[n].mesh, s, text); s++)
        if (strncmp(text, address, strlen(address)) == 0 && strstr(text, part))
            return true;
    return false;
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
        open_mesh_of(fixture, a, 0);
        open_mesh_of(fixture, b, 0);
        learn(fixture, 0, 1);
        learn(fixture, 1, 0);
        UNTIL(fixture, says_of(fixture, 0, 1, cases[c].reason) && says_of(fixture, 1, 0, cases[c].reason));
        assert_int_equal(a->ups + b->ups, 0);
        /* Somebody who belongs is not kept out by the one who does not. */
        struct node *third = new_node(fixture, 2);
        open_mesh_of(fixture, third, 0);
        learn(fixture, 2, 0);
        learn(fixture, 2, 1);
        UNTIL(fixture, a->ups == 1 && third->ups == 1);
        assert_int_equal(b->ups, 0);
        for (size_t n = 0; n < 3; n++) {
            mesh_free(fixture->nodes[n].mesh);
            fixture->nodes[n].mesh = NULL;
        }
    }
}

static void an_agent_that_starts_later_is_found(void **state)
{
    struct fixture *fixture = *state;
    struct node *a = new_node(fixture, 0);
    open_mesh_of(fixture, a, 0);
    learn(fixture, 0, 1);
    UNTIL(fixture, says_of(fixture, 0, 1, "refused"));
    struct node *b = new_node(fixture, 1);
    open_mesh_of(fixture, b, 0);
    UNTIL(fixture, a->ups == 1 && b->ups == 1);

    mesh_set_dialling(a->mesh, false);
    struct node *c = new_node(fixture, 2);
    learn(fixture, 0, 2);
    open_mesh_of(fixture, c, 0);
    turn_for(fixture, 300);
    assert_int_equal(c->seen, 0); /* nobody is dialled any more... */
    learn(fixture, 2, 0);
    UNTIL(fixture, c->ups == 1 && a->ups == 2); /* ...but whoever dials is heard */
}

static void a_peer_that_comes_back_is_another_one(void **state)
{
    struct fixture *fixture = *state;
    struct node *a = new_node(fixture, 0);
    open_mesh_of(fixture, a, 0);
    for (size_t round = 1; round <= 6; round++) { /* the lower of two random numbers dials: both come up */
        struct node *b = new_node(fixture, 1);
        open_mesh_of(fixture, b, 0);
        learn(fixture, 0, 1);
        UNTIL(fixture, a->ups == round && b->ups == 1);
        mesh_free(b->mesh);
        b->mesh = NULL;
        UNTIL(fixture, a->downs == round);
    }
}

static void silence_is_noticed(void **state)
{
    struct fixture *fixture = *state;
    struct node *a = new_node(fixture, 0), *b = new_node(fixture, 1);
    open_mesh_of(fixture, a, 300 * MST_NS_PER_MS);
    open_mesh_of(fixture, b, 60 * MST_NS_PER_S);
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

/* A stranger that connects to node 0. */
static int stranger_connects(struct fixture *fixture)
{
    int fd = -1;
    assert_int_equal(mst_tcp_connect(LOOPBACK(2), fixture->port, mst_now_ns() + 5 * MST_NS_PER_S, &fd, NULL),
                     0);
    return fd;
}

/* What comes before the end of the connection does not matter; the end does. */
static bool is_closed(int fd)
{
    char bytes[1024];
    ssize_t got;
    do
        got = recv(fd, bytes, sizeof bytes, 0);
    while (got > 0);
    return got == 0 || errno != EAGAIN;
}

static void garbage_and_silence_are_dropped_within_a_second(void **state)
{
    struct fixture *fixture = *state;
    static const char *const texts[] = {"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "SSH-2.0-x\r\n", "\x16\x03\x01",
                                        "m", ""};
    open_mesh_of(fixture, new_node(fixture, 0), 0);
    for (size_t t = 0; t < MST_ARRAY_COUNT(texts); t++) {
        mst_cleanup(mst_closep) int fd = stranger_connects(fixture);
        const uint64_t start_ns = mst_now_ns();
        if (texts[t][0])
            assert_int_equal(send(fd, texts[t], strlen(texts[t]), MSG_NOSIGNAL), (ssize_t)strlen(texts[t]));
        UNTIL(fixture, is_closed(fd));
        assert_true(mst_ms_since(start_ns) < 1500);
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

static void half_open_connections_do_not_keep_a_peer_out(void **state)
{
    struct fixture *fixture = *state;
    struct node *a = new_node(fixture, 0);
    open_mesh_of(fixture, a, 0);
    for (size_t f = 0; f < FLOOD; f++) {
        fixture->flood[f] = stranger_connects(fixture);
        turn(fixture);
    }
    struct node *b = new_node(fixture, 1);
    open_mesh_of(fixture, b, 0);
    learn(fixture, 1, 0);
    const uint64_t start_ns = mst_now_ns();
    UNTIL(fixture, a->ups == 1 && b->ups == 1);
    assert_true(mst_ms_since(start_ns) < 4000);
    for (size_t f = 0; f < FLOOD; f++)
        UNTIL(fixture, is_closed(fixture->flood[f]));
}

static void an_address_that_is_taken_is_an_error(void **state)
{
    struct fixture *fixture = *state;
    struct node *a = new_node(fixture, 0);
    open_mesh_of(fixture, a, 0);
    const struct mesh_options options = {.loop = fixture->loop, .self = &a->self, .expected = 1};
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
    open_mesh_of(fixture, a, 0);
    for (uint32_t h = 0; h < MESH_HOSTS_MAX; h++)
        assert_int_equal(mesh_learn(a->mesh, 0x0a000001U + h, 7070, NULL), 0);
    assert_int_equal(mesh_learn(a->mesh, 0x0b000001U, 7070, NULL), -ENOBUFS);
    assert_int_equal(mesh_learn(a->mesh, 0x0a000001U, 7070, NULL), 0); /* known */
}

#define WITH_LOOP(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

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
        WITH_LOOP(garbage_and_silence_are_dropped_within_a_second),
        WITH_LOOP(half_open_connections_do_not_keep_a_peer_out),
        WITH_LOOP(an_address_that_is_taken_is_an_error),
        WITH_LOOP(hosts_are_limited),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
