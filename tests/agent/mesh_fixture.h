/* SPDX-License-Identifier: Apache-2.0 */
/* What the mesh's tests share: several meshes in one program, on addresses of the loopback network, driven by
 * one loop each, in turns. */
#ifndef TESTS_AGENT_MESH_FIXTURE_H
#define TESTS_AGENT_MESH_FIXTURE_H

#include "loop.h"
#include "mesh.h"
#include "muster/clock.h"
#include "muster/net.h"
#include "test.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#define NODES_MAX   5
#define FLOOD       300
#define WAIT_NS     (10 * MST_NS_PER_S)
#define LOOPBACK(x) (0x7f000000U + (uint32_t)(x))
#define FRAME_TYPE  ((uint16_t)7)

struct node {
    struct loop *loop;
    struct discovery_self self;
    struct mesh *mesh; /* NULL: not running */
    bool frozen;       /* gets no turns */
    size_t seen, ups, downs, frames, wrong_frames, datas;
    uint64_t next_number; /* of the frames that come */
    bool refuses_frames;
    char reason[256]; /* of the last peer_down */
};

struct fixture {
    uint16_t port;
    struct node nodes[NODES_MAX];
    int flood[FLOOD];
};

static inline void on_seen(void *context, const struct discovery_identity *who)
{
    struct node *node = context;
    (void)who;
    node->seen++;
}

static inline void on_up(void *context, const struct discovery_identity *peer)
{
    struct node *node = context;
    (void)peer;
    node->ups++;
}

static inline void on_down(void *context, const struct discovery_identity *peer, const char *reason)
{
    struct node *node = context;
    (void)peer;
    node->downs++;
    (void)snprintf(node->reason, sizeof node->reason, "%s", reason);
}

/* Frames carry their number in the first bytes and are as long as it says. */
static inline int on_frame(void *context, const struct discovery_identity *from, uint16_t type,
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

static inline void on_data(void *context, const struct discovery_identity *from, int fd)
{
    struct node *node = context;
    (void)from;
    node->datas++;
    (void)close(fd);
}

static inline int setup(void **state)
{
    struct fixture *fixture = calloc(1, sizeof *fixture);
    int listener = -1;
    *state = fixture;
    for (size_t f = 0; fixture && f < FLOOD; f++)
        fixture->flood[f] = -1;
    for (size_t n = 0; fixture && n < NODES_MAX; n++)
        if (loop_new(&fixture->nodes[n].loop, NULL) < 0)
            return -1;
    /* A port that is free on 127.0.0.1 is free on its neighbours, too, for all practical purposes. */
    if (!fixture || mst_tcp_listen(LOOPBACK(1), 0, 1, &listener, &fixture->port, NULL) < 0)
        return -1;
    return close(listener);
}

static inline int teardown(void **state)
{
    struct fixture *fixture = *state;
    for (size_t n = 0; n < NODES_MAX; n++) {
        mesh_free(fixture->nodes[n].mesh);
        loop_free(fixture->nodes[n].loop);
    }
    for (size_t f = 0; f < FLOOD; f++)
        mst_closep(&fixture->flood[f]);
    free(fixture);
    return 0;
}

/* Node `n` at 127.0.0.(n+2); the settings that matter can be changed before open_mesh(). */
static inline struct node *new_node(struct fixture *fixture, size_t n)
{
    struct node *node = &fixture->nodes[n];
    mesh_free(node->mesh);
    *node = (struct node){.loop = node->loop, .self = {.key_count = 1}};
    struct discovery_identity *identity = &node->self.identity;
    (void)snprintf(identity->cluster, sizeof identity->cluster, "blue");
    (void)snprintf(identity->slot, sizeof identity->slot, "w%zu", n);
    assert_int_equal(mst_random(identity->incarnation, sizeof identity->incarnation, NULL), 0);
    identity->role = DISCOVERY_ROLE_WORKER;
    identity->ipv4 = LOOPBACK(n + 2);
    identity->port = fixture->port;
    identity->features = DISCOVERY_FEATURE_TELLS;
    memset(identity->job_key, 1, sizeof identity->job_key);
    node->self.keys[0].count = 32;
    memset(node->self.keys[0].bytes, 9, 32);
    return node;
}

static inline void open_mesh_with(struct node *node, struct mesh_options options)
{
    const struct mesh_callbacks callbacks = {.context = node,
                                             .seen = on_seen,
                                             .peer_up = on_up,
                                             .peer_down = on_down,
                                             .frame = on_frame,
                                             .data = on_data};
    options.loop = node->loop;
    options.self = &node->self;
    options.expected = NODES_MAX;
    assert_int_equal(mesh_new(&options, &callbacks, &node->mesh, NULL), 0);
}

static inline void open_mesh(struct node *node)
{
    open_mesh_with(node, (struct mesh_options){0});
}

static inline void close_mesh(struct node *node)
{
    mesh_free(node->mesh);
    node->mesh = NULL;
}

static inline void learn(struct fixture *fixture, size_t who, size_t whom)
{
    assert_int_equal(mesh_learn(fixture->nodes[who].mesh, LOOPBACK(whom + 2), fixture->port, NULL), 0);
}

/* One turn for all that are not frozen. */
static inline void turn(struct fixture *fixture)
{
    uint64_t wait_ns = MST_NS_PER_MS; /* once a round, so that a round without events does not spin */
    for (size_t n = 0; n < NODES_MAX; n++) {
        struct node *node = &fixture->nodes[n];
        if (!node->mesh || node->frozen)
            continue;
        assert_int_equal(loop_run_once(node->loop, mst_now_ns() + wait_ns, NULL), 0);
        mesh_tick(node->mesh, mst_now_ns());
        wait_ns = 0;
    }
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

static inline void turn_for(struct fixture *fixture, uint64_t ms)
{
    const uint64_t until_ns = mst_now_ns() + ms * MST_NS_PER_MS;
    while (mst_now_ns() < until_ns)
        turn(fixture);
}

static inline size_t sum_ups(const struct fixture *fixture)
{
    size_t ups = 0;
    for (size_t n = 0; n < NODES_MAX; n++)
        ups += fixture->nodes[n].ups;
    return ups;
}

static inline int send_number(struct node *from, const struct node *to, uint64_t number)
{
    mst_cleanup(mst_buf_release) struct mst_buf payload = MST_BUF_INIT(8192);
    static const char filler[5000];
    assert_int_equal(mst_buf_append(&payload, &number, sizeof number), 0);
    assert_int_equal(mst_buf_append(&payload, filler, number % 5000), 0);
    return mesh_send(from->mesh, to->self.identity.incarnation, FRAME_TYPE, &payload, NULL);
}

/* The reason that node `n` gives for the address of node `whom`. */
static inline bool says_of(struct fixture *fixture, size_t n, size_t whom, const char *part)
{
    char text[MESH_STRANGER_BYTES], address[MST_IPV4_TEXT_BYTES];
    mst_ipv4_text(LOOPBACK(whom + 2), address);
    for (size_t s = 0; mesh_stranger(fixture->nodes[n].mesh, s, text); s++)
        if (strncmp(text, address, strlen(address)) == 0 && strstr(text, part))
            return true;
    return false;
}

/* A stranger at `from` that connects to node 0; never waits for the node. */
static inline int stranger_connects_from(struct fixture *fixture, uint32_t from)
{
    const struct sockaddr_in source = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(from)};
    const struct sockaddr_in target = {
        .sin_family = AF_INET, .sin_port = htons(fixture->port), .sin_addr.s_addr = htonl(LOOPBACK(2))};
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    assert_true(fd >= 0);
    assert_int_equal(bind(fd, (const struct sockaddr *)&source, sizeof source), 0);
    assert_true(connect(fd, (const struct sockaddr *)&target, sizeof target) == 0 || errno == EINPROGRESS);
    return fd;
}

static inline int stranger_connects(struct fixture *fixture)
{
    return stranger_connects_from(fixture, LOOPBACK(99));
}

/* What comes before the end of the connection does not matter; the end does. */
static inline bool is_closed(int fd)
{
    char bytes[1024];
    ssize_t got;
    do
        got = recv(fd, bytes, sizeof bytes, 0);
    while (got > 0);
    return got == 0 || (errno != EAGAIN && errno != ENOTCONN);
}

/* A peer that a test plays itself, byte by byte. */
struct puppet {
    struct discovery_self self;
    int fd;
    struct discovery_hello hello;
    struct discovery_frames frames;
};

/* It knows node 0's key and job, and dials it with the lowest of incarnations. */
static inline void puppet_connects(struct fixture *fixture, struct puppet *puppet,
                                   enum discovery_purpose purpose)
{
    puppet->self = fixture->nodes[0].self;
    memset(puppet->self.identity.incarnation, 0, sizeof puppet->self.identity.incarnation);
    (void)snprintf(puppet->self.identity.slot, sizeof puppet->self.identity.slot, "puppet");
    puppet->self.identity.ipv4 = LOOPBACK(98); /* nobody is there */
    puppet->fd = stranger_connects_from(fixture, LOOPBACK(98));
    assert_int_equal(
        discovery_hello_dialer(&puppet->hello, &puppet->self, purpose, LOOPBACK(2), fixture->port, NULL), 0);
    int status = DISCOVERY_HELLO_GOING;
    const uint64_t until_ns = mst_now_ns() + WAIT_NS;
    while (status == DISCOVERY_HELLO_GOING && mst_now_ns() < until_ns) {
        turn(fixture);
        if (mst_wait_fd(puppet->fd, POLLOUT, mst_now_ns()) == 0)
            status = discovery_hello_io(&puppet->hello, puppet->fd, NULL);
    }
    assert_int_equal(status, DISCOVERY_HELLO_DONE);
    assert_int_equal(discovery_frames_init(&puppet->frames, &puppet->hello.session, NULL), 0);
}

static inline void puppet_ends(struct puppet *puppet)
{
    mst_closep(&puppet->fd);
    discovery_frames_release(&puppet->frames);
    discovery_hello_release(&puppet->hello);
}

/* A frame of `count` bytes: the number and zeros, as on_frame() expects them. */
static inline void puppet_packs(struct puppet *puppet, uint16_t type, const void *payload, size_t count,
                                struct mst_buf *out)
{
    assert_int_equal(discovery_frames_pack(&puppet->frames, type, payload, count, out, NULL), 0);
}

static inline void puppet_sends(struct puppet *puppet, const struct mst_buf *bytes)
{
    assert_int_equal(send(puppet->fd, bytes->bytes, bytes->count, MSG_NOSIGNAL), (ssize_t)bytes->count);
}

#define WITH_LOOP(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

#endif
