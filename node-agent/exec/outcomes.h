/* SPDX-License-Identifier: Apache-2.0 */
/* How CMD ended at each worker of a view, and what follows from that: pure. */
#ifndef EXEC_OUTCOMES_H
#define EXEC_OUTCOMES_H

#include "muster/digest.h"
#include "muster/error.h"
#include "round.h"

struct exec_outcomes {
    struct exec_outcome *items; /* owned, by rank */
    uint32_t world, rank, known;
    bool failed; /* CMD ended with another status than 0, first heard of `failed_rank` */
    uint32_t failed_rank;
};

int exec_outcomes_init(struct exec_outcomes *outcomes, uint32_t rank, uint32_t world, struct mst_error *err);
void exec_outcomes_release(struct exec_outcomes *outcomes); /* usable with mst_cleanup() */

/* 1: new; 0: it was known; -EBADMSG: it contradicts what was known. */
int exec_outcomes_set(struct exec_outcomes *outcomes, uint32_t rank, const struct exec_outcome *outcome,
                      struct mst_error *err);
bool exec_outcomes_complete(const struct exec_outcomes *outcomes);
/* This worker's own exit status, once complete. */
int exec_outcomes_status(const struct exec_outcomes *outcomes);
/* Equal in all workers once complete. */
int exec_outcomes_digest(const struct exec_outcomes *outcomes, uint8_t ret_digest[static MST_SHA256_BYTES],
                         struct mst_error *err);

#endif
