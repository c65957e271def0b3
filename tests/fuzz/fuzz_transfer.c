/* SPDX-License-Identifier: Apache-2.0 */
/* What a peer sends while gradients, blocks or a state are exchanged with it. The first byte of the input
 * says what is under way, the others come from the peer, which then closes. A stored input of each kind goes
 * through. */
#include "exchange/exchange.h"
#include "muster/net.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);

#define FLOATS  10
#define ROUNDED 8 /* of a sum, when the wire rounds */
#define SHARDS  2 /* a sum of ours that the peer has must not come before its last part left */
#define STEP    7
#define VIEW    1

enum { RING, RING_BF16, DIRECT, DIRECT_BF16, GATHER, SPREAD, KINDS };

/* Payload bytes of the frames that rank 1 has to send, at least. */
static const size_t payload_bytes[KINDS] = {40, 24, 40, 24, 40, 40};

static struct trainer_exchange *make(unsigned kind, int fd)
{
    const enum trainer_wire wire =
        kind == RING_BF16 || kind == DIRECT_BF16 ? TRAINER_WIRE_BF16 : TRAINER_WIRE_F32;
    const int fds[] = {-1, fd};
    const struct trainer_ring_options ring = {.fd_prev = fd,
                                              .fd_next = fd,
                                              .cancel_fd = -1,
                                              .world = 2,
                                              .timeout_ms = 5000,
                                              .view = VIEW,
                                              .wire = wire};
    const struct trainer_direct_options direct = {.fds = fds,
                                                  .cancel_fd = -1,
                                                  .world = 2,
                                                  .shards = SHARDS,
                                                  .timeout_ms = 5000,
                                                  .view = VIEW,
                                                  .wire = wire};
    struct trainer_exchange *exchange = NULL;

    if ((kind <= RING_BF16 ? trainer_ring_new(&ring, &exchange, NULL)
                           : trainer_direct_new(&direct, &exchange, NULL)) < 0)
        abort();
    return exchange;
}

static int sum(struct trainer_exchange *exchange, struct mst_error *err)
{
    float values[FLOATS] = {1};
    float *const parts[] = {values};
    const struct trainer_sum request = {
        .step = STEP, .parts = parts, .part_count = 1, .shards = SHARDS, .count = FLOATS, .rounded = ROUNDED};
    struct trainer_exchange_stats stats;

    int r = exchange_begin(exchange, &request, err);
    if (r == 0)
        r = exchange_ready(exchange, 0, 0, FLOATS, err);
    return r < 0 ? r : exchange_finish(exchange, &stats, err);
}

static int gather(struct trainer_exchange *exchange, struct mst_error *err)
{
    float values[2 * FLOATS] = {3};
    const struct trainer_gather request = {
        .step = STEP, .shards = SHARDS, .values = values, .block_floats = FLOATS};
    struct trainer_exchange_stats stats;

    int r = exchange_gather_begin(exchange, &request, err);
    if (r == 0)
        r = exchange_gather_ready(exchange, 0, 0, FLOATS, err);
    return r < 0 ? r : exchange_gather_finish(exchange, &stats, err);
}

static int spread(struct trainer_exchange *exchange, struct mst_error *err)
{
    static const bool has[] = {false, true};
    float state[FLOATS];
    const struct exchange_spread request = {.step = STEP, .has = has, .pieces = {{state, sizeof state}}};
    uint64_t bytes;

    return exchange_spread(exchange, &request, &bytes, err);
}

static int run(unsigned kind, struct trainer_exchange *exchange, struct mst_error *err)
{
    if (kind == GATHER)
        return gather(exchange, err);
    return kind == SPREAD ? spread(exchange, err) : sum(exchange, err);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    struct mst_error err = MST_ERROR_INIT, again = MST_ERROR_INIT;
    int fds[2];

    if (count < 1)
        return 0;
    const unsigned kind = bytes[0] % KINDS;
    if (mst_socket_pair(fds, &err) < 0)
        abort();
    struct trainer_exchange *exchange = make(kind, fds[0]);
    const ssize_t sent = send(fds[1], bytes + 1, count - 1, MSG_NOSIGNAL);
    if (shutdown(fds[1], SHUT_WR) < 0 || sent < 0)
        abort();
    const int r = run(kind, exchange, &err);
    if (r < 0 && (!err.text[0] || r == -ETIMEDOUT))
        abort(); /* a peer that closed was waited for */
    if (r == 0 && (size_t)sent < payload_bytes[kind] + EXCHANGE_FRAME_BYTES)
        abort(); /* more was taken than came */
    if (r < 0 && run(kind, exchange, &again) == 0)
        abort(); /* of no use any more */
    trainer_exchange_free(exchange);
    return close(fds[1]);
}
