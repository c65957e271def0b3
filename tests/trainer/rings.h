/* SPDX-License-Identifier: Apache-2.0 */
/* A whole ring of workers in one program: sockets between neighbours, one thread a worker. And what every
 * other exchange's tests need of it. */
#ifndef TESTS_TRAINER_RINGS_H
#define TESTS_TRAINER_RINGS_H

#include "helpers.h"
#include "muster/clock.h"
#include "muster/net.h"

#include <pthread.h>

#define RINGS_MAX_WORLD 8
#define RINGS_JOB_KEY   0xfeedc0de12345678u
#define RINGS_VIEW      5

enum rings_transport { RINGS_SOCKET_PAIRS, RINGS_TCP };

/* next[r] is rank r's socket to r + 1, prev[r] the one to r - 1. */
struct rings_sockets {
    int prev[RINGS_MAX_WORLD], next[RINGS_MAX_WORLD];
};

static inline void rings_pair(enum rings_transport transport, int fds[static 2])
{
    struct mst_error err = MST_ERROR_INIT;
    int listener;
    uint16_t port;

    if (transport == RINGS_SOCKET_PAIRS) {
        if (mst_socket_pair(fds, &err) < 0)
            fail_msg("%s", err.text);
        return;
    }
    const uint64_t deadline_ns = mst_now_ns() + 5 * MST_NS_PER_S;
    if (mst_tcp_listen(0x7f000001, 0, 1, &listener, &port, &err) < 0 ||
        mst_tcp_connect(0x7f000001, port, deadline_ns, &fds[0], &err) < 0)
        fail_msg("%s", err.text);
    assert_int_equal(mst_wait_fd(listener, 1 /* POLLIN */, deadline_ns), 0);
    fds[1] = mst_tcp_accept(listener, NULL, NULL);
    assert_true(fds[1] >= 0);
    assert_int_equal(mst_tcp_tune(fds[0], 0, &err), 0);
    assert_int_equal(mst_tcp_tune(fds[1], 0, &err), 0);
    assert_int_equal(close(listener), 0);
}

static inline struct rings_sockets rings_connect(uint32_t world, enum rings_transport transport)
{
    struct rings_sockets sockets;

    memset(&sockets, 0xff, sizeof sockets); /* all -1 */
    for (uint32_t rank = 0; world > 1 && rank < world; rank++) {
        int fds[2];
        rings_pair(transport, fds);
        sockets.next[rank] = fds[0];
        sockets.prev[(rank + 1) % world] = fds[1];
    }
    return sockets;
}

static inline struct trainer_ring_options rings_options(const struct rings_sockets *sockets, uint32_t rank,
                                                        uint32_t world)
{
    return (struct trainer_ring_options){
        .fd_prev = sockets->prev[rank],
        .fd_next = sockets->next[rank],
        .cancel_fd = -1,
        .rank = rank,
        .world = world,
        .timeout_ms = 20000,
        .view = RINGS_VIEW,
        .job_key = RINGS_JOB_KEY,
    };
}

static inline struct trainer_exchange *rings_new(const struct trainer_ring_options *options)
{
    struct mst_error err = MST_ERROR_INIT;
    struct trainer_exchange *exchange = NULL;

    if (trainer_ring_new(options, &exchange, &err) < 0)
        fail_msg("%s", err.text);
    return exchange;
}

/* Run work(&workers[r]) for each rank in a thread of its own; all are joined. cmocka's checks belong to the
 * main thread: workers note what they found. */
static inline void rings_run(uint32_t world, void *(*work)(void *worker), void *workers, size_t worker_bytes)
{
    pthread_t threads[TRAINER_MAX_WORLD];

    for (uint32_t rank = 0; rank < world; rank++)
        assert_int_equal(pthread_create(&threads[rank], NULL, work, (char *)workers + rank * worker_bytes),
                         0);
    for (uint32_t rank = 0; rank < world; rank++)
        assert_int_equal(pthread_join(threads[rank], NULL), 0);
}

#endif
