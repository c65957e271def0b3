/* SPDX-License-Identifier: Apache-2.0 */
/* What all kinds of exchange share, and what each has to offer.
 *
 * The training loop sums a vector over all workers:
 *
 *     exchange_begin()     names the vector; nothing of it needs to be there yet
 *     exchange_ready() ... says slice by slice what is final on this worker, and never waits
 *     exchange_finish()    waits for the rest
 *
 * The slices come in any order, cover the vector once, and may be on their way when exchange_ready() returns.
 * As the sum of a slice becomes known, landed() is called with it, from within exchange_ready() or
 * exchange_finish(), each place of the vector exactly once: that is where updates are applied while the rest
 * is still under way. One thread does all of it.
 *
 * A worker may have several shards. An exchange that keeps them apart wants a vector, a "part", for each; the
 * others want one part, in which the worker has added them up.
 *
 * Below that lies one loop that moves frames over all connections ("links") and blocks in one place only
 * (exchange.c). What frames go over which link, in which order, and what becomes of those that come is a
 * struct exchange_traffic: the ring's sum, the direct sum, the gathering of blocks, and the spreading of a
 * state. */
#ifndef TRAINER_EXCHANGE_H
#define TRAINER_EXCHANGE_H

#include "link.h"
#include "muster/trainer.h"

#include <poll.h>

#define EXCHANGE_SEGMENT_FLOATS (EXCHANGE_PAYLOAD_MAX / sizeof(float))

struct trainer_sum {
    uint64_t step;
    /* In: this worker's parts, by shard; out: the sum in parts[0], nothing of use in the others. The array
     * lives until exchange_finish(). */
    float *const *parts;
    size_t part_count;
    uint32_t shards; /* parts of all workers, which have shards rank, rank + world, ... */
    size_t count;    /* floats in a part */
    /* Places [0, rounded) may be rounded as the exchange's wire says; the others are exact, as all are that
     * do not say. */
    size_t rounded;
    void (*landed)(void *context, size_t offset, size_t count); /* NULL: nobody is interested */
    void *context;
    uint32_t patience_ms; /* of silence besides the time-out: others may still have something to do before */
};

/* A state on its way from those that have it to those that do not: up to three runs of bytes, of the same
 * lengths in all workers. */
struct exchange_piece {
    void *bytes;
    size_t count;
};
#define EXCHANGE_MAX_PIECES 4
struct exchange_spread {
    uint64_t step;
    const bool *has; /* by rank; some have it */
    struct exchange_piece pieces[EXCHANGE_MAX_PIECES];
};

/* Blocks of the same length, one a shard, from those that have the shards to all. The calls are as a sum's.
 */
struct trainer_gather {
    uint64_t step;
    uint32_t number; /* of this gather among those of the step, at most EXCHANGE_GATHERS - 1 */
    uint32_t
        shards; /* of all workers, which have shards rank, rank + world, ..., at most TRAINER_MAX_WORLD */
    /* Of all shards, in their order, borrowed until exchange_gather_finish(). Those of this worker are given,
     * those of others arrive in their places. */
    float *values;
    size_t block_floats;
    /* Floats of another worker's shard arrived: each once, in rising order within a shard. NULL: nobody is
     * interested. */
    void (*landed)(void *context, uint32_t shard, size_t offset, size_t count);
    void *context;
    uint32_t patience_ms; /* as a sum's */
};

/* What is under way, as the loop sees it. */
struct exchange_traffic {
    /* Whether something is still to be sent to, or to come from, the other side of a link, now or later. The
     * other calls are made only while there is, in that direction. */
    bool (*owes)(const struct trainer_exchange *exchange, const struct exchange_link *link);
    bool (*awaits)(const struct trainer_exchange *exchange, const struct exchange_link *link);
    /* The frame to be sent now (phase, segment, bytes) and its payload; false: there is none yet. Of a sum's,
     * both are floats, exchange_wire_measure() says how many bytes they become, and the loop packs them. */
    bool (*next)(struct trainer_exchange *exchange, struct exchange_link *link,
                 struct exchange_frame *ret_frame, const void **ret_payload);
    void (*sent)(struct trainer_exchange *exchange, struct exchange_link *link);
    /* Whether there is room for a frame now. */
    bool (*listens)(const struct trainer_exchange *exchange, const struct exchange_link *link);
    /* A frame of this job and view came, link->in.frame: what it should have been, and where its payload
     * goes. */
    int (*expect)(struct trainer_exchange *exchange, struct exchange_link *link,
                  struct exchange_frame *ret_expected, void **ret_payload, struct mst_error *err);
    void (*received)(struct trainer_exchange *exchange, struct exchange_link *link);
};

struct trainer_exchange_ops {
    const struct exchange_traffic *sum;
    bool keeps_parts;
    /* A sum begins, exchange->sum: nothing of it is final. May allocate when it is the largest so far. */
    int (*lay_out)(struct trainer_exchange *exchange, struct mst_error *err);
    void (*ready)(struct trainer_exchange *exchange, size_t part, size_t offset, size_t count);
    /* A state of so many segments is to be spread from those who have it: set exchange->spread.to and .from
     * of each link. */
    void (*route)(struct trainer_exchange *exchange, const bool *has, size_t segments);
    /* Blocks are to be gathered: set the hops of exchange->gather.to and .from of each link. */
    void (*route_gather)(struct trainer_exchange *exchange);
    /* See exchange_preferred(); NULL: from the end. */
    bool (*preferred)(const struct trainer_exchange *exchange, size_t index, size_t *ret_offset,
                      size_t *ret_count);
    void (*free)(struct trainer_exchange *exchange); /* what the kind itself owns, and the struct */
};

struct exchange_settings {
    int cancel_fd;
    uint32_t timeout_ms, view;
    uint64_t job_key;
    enum trainer_wire wire;
};

/* How far the spreading is on one link: segments [next, end) are still to go or to come. */
struct exchange_range {
    size_t next, end;
};

/* The blocks that take one link one way: those of the rank at its beginning, then of the rank before that
 * one, of so many ranks; of each rank the shards in rising order. The cursor is at `segment` of `shard`. */
struct exchange_passage {
    uint32_t hops, hop, shard, segment;
};

/* Stands first in the struct of each kind. */
struct trainer_exchange {
    const struct trainer_exchange_ops *ops;
    uint32_t rank, world;
    uint32_t shards; /* that a kind which keeps parts was made for */
    struct exchange_settings settings;
    struct exchange_link *links; /* owned, with their sockets; links[0] and links[1] may share one */
    size_t link_count;
    uint8_t *packed;    /* payloads, see wire.h; owned, NULL with TRAINER_WIRE_F32 */
    struct pollfd *fds; /* link_count + 1 */
    int failure;        /* the negative errno of the first error: it is of no use since */
    const struct exchange_traffic *traffic;
    uint64_t step; /* of what is under way */
    uint64_t patience_ms;
    struct trainer_sum sum;
    struct {
        struct exchange_piece pieces[EXCHANGE_MAX_PIECES];
        struct exchange_range *to, *from; /* by link */
        size_t have;                      /* segments [0, have) are here */
    } spread;
    struct {
        struct trainer_gather request;
        struct exchange_passage *to, *from; /* by link */
        size_t *filled;                     /* by shard: floats [0, filled) of its block are here */
        size_t filled_room;
    } gather;
    uint64_t progress_ns; /* mst_now_ns() of the last byte moved */
    uint64_t paused_ns;   /* spent in waiting, without a byte */
    uint64_t longest_ns;  /* of those pauses */
    uint32_t waited_for;  /* 1 + the rank that ended it; 0: none yet */
    uint64_t bytes_sent, bytes_received;
};

/* For the kinds. Fills in what is common, allocates `link_count` links without sockets; -EINVAL for a rank,
 * world or time-out that cannot be. After an error there is nothing to release. */
int exchange_init(struct trainer_exchange *exchange, const struct trainer_exchange_ops *ops, uint32_t rank,
                  uint32_t world, const struct exchange_settings *settings, size_t link_count,
                  struct mst_error *err);
/* The socket of a link is the exchange's from now on. */
void exchange_set_link(struct trainer_exchange *exchange, size_t link, int fd, uint32_t peer);
/* Frees the links, and closes their sockets unless the caller keeps them. */
void exchange_release(struct trainer_exchange *exchange, bool close_sockets);

/* Tell whoever is interested that the sum of these places is known. */
void exchange_landed(const struct trainer_exchange *exchange, size_t offset, size_t count);

/* Errors as trainer_exchange_sum(). */
int exchange_begin(struct trainer_exchange *exchange, const struct trainer_sum *sum, struct mst_error *err);
int exchange_ready(struct trainer_exchange *exchange, size_t part, size_t offset, size_t count,
                   struct mst_error *err);
int exchange_finish(struct trainer_exchange *exchange, struct trainer_exchange_stats *ret_stats,
                    struct mst_error *err);

/* Several exchanges of one step. */
void exchange_stats_add(struct trainer_exchange_stats *all, const struct trainer_exchange_stats *own);

/* While a sum is under way: the `index`-th range of the vector in which this worker had better make its
 * values final, since it is the next that others wait for. false: there is none, or no more; from the end,
 * then. */
bool exchange_preferred(const struct trainer_exchange *exchange, size_t index, size_t *ret_offset,
                        size_t *ret_count);

/* As the three above, for blocks: exchange_gather_ready() says that floats of this worker's `shard` are
 * final, in rising order within a shard, and is not needed for one that has nothing to say. A sum and a
 * gathering cannot be under way at once. -EINVAL: more shards than TRAINER_MAX_WORLD, fewer than workers, or
 * a number of EXCHANGE_GATHERS or more. */
int exchange_gather_begin(struct trainer_exchange *exchange, const struct trainer_gather *gather,
                          struct mst_error *err);
int exchange_gather_ready(struct trainer_exchange *exchange, uint32_t shard, size_t offset, size_t count,
                          struct mst_error *err);
int exchange_gather_finish(struct trainer_exchange *exchange, struct trainer_exchange_stats *ret_stats,
                           struct mst_error *err);

/* Those that have the state send, the others receive. On an error the bytes of the others are undefined.
 * *ret_bytes: sent and received by this worker. */
int exchange_spread(struct trainer_exchange *exchange, const struct exchange_spread *spread,
                    uint64_t *ret_bytes, struct mst_error *err);

#endif
