/* SPDX-License-Identifier: Apache-2.0 */
#include "outcomes.h"

#include "muster/cleanup.h"
#include "supervisor.h"

#include <inttypes.h>
#include <stdlib.h>

int exec_outcomes_init(struct exec_outcomes *outcomes, uint32_t rank, uint32_t world, struct mst_error *err)
{
    *outcomes = (struct exec_outcomes){.rank = rank, .world = world};
    outcomes->items = calloc(world, sizeof *outcomes->items);
    return outcomes->items ? 0
                           : mst_error_set(err, -ENOMEM, "run with %" PRIu32 " workers: no memory", world);
}

void exec_outcomes_release(struct exec_outcomes *outcomes)
{
    free(outcomes->items);
    *outcomes = (struct exec_outcomes){0};
}

int exec_outcomes_set(struct exec_outcomes *outcomes, uint32_t rank, const struct exec_outcome *outcome,
                      struct mst_error *err)
{
    struct exec_outcome *item = &outcomes->items[rank];
    if (item->kind == outcome->kind && item->status == outcome->status)
        return 0;
    if (item->kind != EXEC_OUTCOME_NONE)
        return mst_error_set(err, -EBADMSG, "rank %" PRIu32 " tells two ends of its command", rank);
    *item = *outcome;
    outcomes->known++;
    if (!outcomes->failed && outcome->kind == EXEC_OUTCOME_ENDED && outcome->status != 0) {
        outcomes->failed = true;
        outcomes->failed_rank = rank;
    }
    return 1;
}

bool exec_outcomes_complete(const struct exec_outcomes *outcomes)
{
    return outcomes->known == outcomes->world;
}

int exec_outcomes_status(const struct exec_outcomes *outcomes)
{
    const struct exec_outcome *own = &outcomes->items[outcomes->rank];
    if (own->kind == EXEC_OUTCOME_ENDED)
        return own->status;
    return own->kind == EXEC_OUTCOME_SERVED && !outcomes->failed ? 0 : EXEC_STATUS_STOPPED;
}

int exec_outcomes_digest(const struct exec_outcomes *outcomes, uint8_t ret_digest[static MST_SHA256_BYTES],
                         struct mst_error *err)
{
    mst_cleanup(mst_sha256_release) struct mst_sha256 sha = {0};
    int r = mst_sha256_init(&sha, err);
    for (uint32_t rank = 0; r == 0 && rank < outcomes->world; rank++) {
        const uint8_t bytes[] = {(uint8_t)outcomes->items[rank].kind, outcomes->items[rank].status};
        r = mst_sha256_update(&sha, bytes, sizeof bytes, err);
    }
    return r < 0 ? r : mst_sha256_finish(&sha, ret_digest, err);
}
