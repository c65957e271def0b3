/* SPDX-License-Identifier: Apache-2.0 */
/* What the workers of a view tell each other about CMD: small messages of one size, around a ring of
 * connections, so that each worker has two of them whatever the size of the view.
 *
 * First a round of records: who I am, and a port that is free at my address. Whoever has all of them knows
 * that every worker is there and that none runs an older CMD any more: only then does it start its own.
 * Later outcomes: how CMD ended at a worker. Each message goes once around, to all but its author. */
#ifndef EXEC_ROUND_H
#define EXEC_ROUND_H

#include "facts.h"
#include "muster/buf.h"
#include "muster/error.h"
#include "muster/hello.h"

#include <stdbool.h>
#include <stdint.h>

#define EXEC_ROUND_BYTES 176 /* of each message */

enum exec_over { EXEC_NOT_OVER, EXEC_OVER_WELL, EXEC_OVER_FAILED };

struct exec_record {
    uint64_t view;
    uint8_t incarnation[DISCOVERY_INCARNATION_BYTES];
    enum exec_over over; /* this worker knows already how it ended: nothing is started any more */
    bool running;        /* CMD runs here since an earlier view (--on-change ignore) */
    struct exec_member member;
};

enum exec_outcome_kind {
    EXEC_OUTCOME_NONE,    /* not known yet */
    EXEC_OUTCOME_ENDED,   /* CMD ended by itself, with this status */
    EXEC_OUTCOME_STOPPED, /* it was ended because of another worker's */
    EXEC_OUTCOME_SERVED,  /* none ran here: the chief's launched what it wanted */
};

struct exec_outcome {
    enum exec_outcome_kind kind;
    uint8_t status;
};

struct exec_round {
    uint32_t rank, world;
    uint64_t view;
    int fd_in, fd_out; /* borrowed, non-blocking; -1 in a world of one */
    int cancel_fd;     /* borrowed */
};

/* Everybody's record, by rank, into `ret_records` (world of them; the own one included). -ECANCELED,
 * -ETIMEDOUT, -EPIPE when a neighbour is gone, -EBADMSG. */
int exec_round_records(const struct exec_round *round, const struct exec_record *own, uint64_t deadline_ns,
                       struct exec_record *ret_records, struct mst_error *err);

/* One message of an outcome, appended. */
int exec_round_pack_outcome(struct mst_buf *out, const struct exec_round *round, uint32_t rank,
                            const struct exec_outcome *outcome);
/* -EBADMSG unless it is an outcome of this view, of a worker that can have sent it this way. */
int exec_round_unpack_outcome(const uint8_t message[static EXEC_ROUND_BYTES], const struct exec_round *round,
                              uint32_t *ret_rank, struct exec_outcome *ret_outcome, struct mst_error *err);
/* Is rank `author`'s message to be passed on to the next worker? */
bool exec_round_passes_on(const struct exec_round *round, uint32_t author);

#endif
