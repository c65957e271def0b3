/* SPDX-License-Identifier: Apache-2.0 */
/* What keeps the workers' copies of the state equal: comparing them, and bringing those behind level. */
#include "muster/cleanup.h"
#include "muster/clock.h"
#include "trainer_state.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int trainer_digest(const struct trainer *trainer, uint8_t ret_digest[static MST_SHA256_BYTES],
                   struct mst_error *err)
{
    return mst_sha256(trainer->parameters[trainer->current], trainer->count * sizeof(float), ret_digest, err);
}

/* Digests travel as floats, two bytes each, every rank in a place of its own: the sum over ranks is the list.
 */
#define DIGEST_FLOATS (MST_SHA256_BYTES / 2)

struct comparison {
    const char *what;
    uint64_t step, purpose;
    uint32_t reference; /* the rank that is taken to be right */
    uint32_t patience_ms;
};

static int judge(const struct trainer *trainer, const struct comparison *comparison, const float *digests,
                 struct mst_error *err)
{
    const float *right = digests + comparison->reference * DIGEST_FLOATS;
    char ranks[256] = "";
    size_t used = 0, differing = 0;

    for (uint32_t rank = 0; rank < trainer->world; rank++) {
        if (memcmp(digests + rank * DIGEST_FLOATS, right, DIGEST_FLOATS * sizeof *digests) == 0)
            continue;
        differing++;
        if (used < sizeof ranks - 16)
            used += (size_t)snprintf(ranks + used, sizeof ranks - used, " %" PRIu32, rank);
    }
    if (differing == 0)
        return 0;
    return mst_error_set(err, -EUCLEAN,
                         "after step %" PRIu64 " the %s of %zu of %" PRIu32
                         " workers differ from those of rank %" PRIu32 ": ranks%s",
                         comparison->step, comparison->what, differing, trainer->world, comparison->reference,
                         ranks);
}

static int compare(struct trainer *trainer, const struct comparison *comparison,
                   const uint8_t digest[static MST_SHA256_BYTES], struct mst_error *err)
{
    const size_t floats = (size_t)trainer->world * DIGEST_FLOATS;
    mst_cleanup(mst_freep) float *digests = calloc(floats, sizeof *digests);
    struct trainer_exchange_stats stats;

    if (!digests)
        return mst_error_set(err, -ENOMEM, "no memory for the digests of %" PRIu32 " workers",
                             trainer->world);
    for (size_t i = 0; i < DIGEST_FLOATS; i++)
        digests[trainer->rank * DIGEST_FLOATS + i] = (float)(digest[2 * i] << 8 | digest[2 * i + 1]);
    const struct trainer_sum sum = {.step = comparison->step | comparison->purpose,
                                    .parts = &digests,
                                    .part_count = 1,
                                    .shards = trainer->world,
                                    .count = floats,
                                    .patience_ms = comparison->patience_ms};
    int r = exchange_begin(trainer->exchange, &sum, err);
    if (r >= 0)
        r = exchange_ready(trainer->exchange, 0, 0, floats, err);
    if (r >= 0)
        r = exchange_finish(trainer->exchange, &stats, err);
    return r < 0 ? r : judge(trainer, comparison, digests, err);
}

int trainer_verify_replicas(struct trainer *trainer, struct mst_error *err)
{
    const struct comparison comparison = {
        .what = "parameters", .step = trainer->step, .purpose = EXCHANGE_FOR_COMPARISON};
    uint8_t digest[MST_SHA256_BYTES];

    int r = trainer_gather_parameters(trainer, err);
    if (r < 0 || !trainer->exchange)
        return r;
    r = trainer_digest(trainer, digest, err);
    if (r >= 0)
        r = compare(trainer, &comparison, digest, err);
    if (r < 0 && r != -EUCLEAN)
        return mst_error_wrap(err, r, "compare replicas after step %" PRIu64, trainer->step);
    return r;
}

/* ---- synchronising --------------------------------------------------------------------------------------
 */

/* Whoever has nothing to send or to receive waits for the others in the comparison: as long as the state
 * takes at 100 Mbit/s, besides the time-out. */
#define SPREAD_BYTES_PER_MS 10000

/* Who has the most advanced state. */
struct standing {
    uint64_t highest;
    uint32_t first; /* rank that has it */
    bool any_behind;
    bool *has; /* by rank, owned */
};

static void release_standing(struct standing *standing)
{
    free(standing->has);
}

static int find_standing(const struct trainer *trainer, const uint64_t *steps, struct standing *ret_standing,
                         struct mst_error *err)
{
    struct standing standing = {.has = calloc(trainer->world, sizeof *standing.has)};

    if (!standing.has)
        return mst_error_set(err, -ENOMEM, "no memory for the steps of %" PRIu32 " workers", trainer->world);
    for (uint32_t rank = 0; rank < trainer->world; rank++) {
        if (rank > 0 && steps[rank] <= standing.highest)
            continue;
        standing.highest = steps[rank];
        standing.first = rank;
    }
    for (uint32_t rank = 0; rank < trainer->world; rank++) {
        standing.has[rank] = steps[rank] == standing.highest;
        standing.any_behind = standing.any_behind || !standing.has[rank];
    }
    *ret_standing = standing;
    return 0;
}

static int digest_pieces(const struct exchange_piece *pieces, uint8_t ret_digest[static MST_SHA256_BYTES],
                         struct mst_error *err)
{
    mst_cleanup(mst_sha256_release) struct mst_sha256 sha = {0};

    int r = mst_sha256_init(&sha, err);
    for (size_t i = 0; i < EXCHANGE_MAX_PIECES && r >= 0; i++) {
        if (pieces[i].count > 0)
            r = mst_sha256_update(&sha, pieces[i].bytes, pieces[i].count, err);
    }
    return r < 0 ? r : mst_sha256_finish(&sha, ret_digest, err);
}

/* The state that this worker has, or, for one that is behind, the place for the one that it takes: the arena
 * that the next step would write, and `extra`. */
static void list_pieces(const struct trainer *trainer, bool behind, void *extra, size_t extra_bytes,
                        struct exchange_piece ret_pieces[static EXCHANGE_MAX_PIECES])
{
    static_assert(EXCHANGE_MAX_PIECES == TRAINER_MAX_STATES + 2, "all pieces are filled in");
    const size_t arena = behind ? 1 - trainer->current : trainer->current;
    const size_t bytes = trainer->count * sizeof(float);

    ret_pieces[0] = (struct exchange_piece){trainer->parameters[arena], bytes};
    for (size_t s = 0; s < TRAINER_MAX_STATES; s++)
        ret_pieces[1 + s] =
            (struct exchange_piece){trainer->states[arena][s], s < trainer->state_count ? bytes : 0};
    ret_pieces[1 + TRAINER_MAX_STATES] = (struct exchange_piece){extra, extra_bytes};
}

static int spread_and_compare(struct trainer *trainer, const struct standing *standing,
                              const struct exchange_piece *pieces, uint64_t *ret_bytes, struct mst_error *err)
{
    struct comparison comparison = {.what = "states",
                                    .step = standing->highest,
                                    .purpose = EXCHANGE_FOR_STATE,
                                    .reference = standing->first};
    uint8_t digest[MST_SHA256_BYTES];
    int r = 0;

    *ret_bytes = 0;
    if (standing->any_behind) {
        struct exchange_spread spread = {.step = standing->highest | EXCHANGE_FOR_STATE,
                                         .has = standing->has};
        memcpy(spread.pieces, pieces, sizeof spread.pieces);
        for (size_t i = 0; i < EXCHANGE_MAX_PIECES; i++)
            comparison.patience_ms += (uint32_t)(pieces[i].count / SPREAD_BYTES_PER_MS);
        r = exchange_spread(trainer->exchange, &spread, ret_bytes, err);
    }
    if (r >= 0)
        r = digest_pieces(pieces, digest, err);
    if (r >= 0)
        r = compare(trainer, &comparison, digest, err);
    return r;
}

int trainer_synchronise(struct trainer *trainer, const uint64_t *steps, void *extra, size_t extra_bytes,
                        struct trainer_synchronised *ret_synchronised, struct mst_error *err)
{
    const uint64_t start_ns = mst_now_ns();
    mst_cleanup(release_standing) struct standing standing = {0};
    struct exchange_piece pieces[EXCHANGE_MAX_PIECES];
    uint8_t arrived[TRAINER_MAX_EXTRA_BYTES];
    uint64_t bytes = 0;

    if (extra_bytes > sizeof arrived)
        return mst_error_set(err, -EINVAL, "synchronise: %zu bytes besides the state, expected at most %d",
                             extra_bytes, TRAINER_MAX_EXTRA_BYTES);
    if (steps[trainer->rank] != trainer->step)
        return mst_error_set(err, -EINVAL,
                             "synchronise: this worker is said to be after step %" PRIu64
                             ", and is after step %" PRIu64,
                             steps[trainer->rank], trainer->step);
    int r = find_standing(trainer, steps, &standing, err);
    if (r < 0)
        return r;
    const bool behind = !standing.has[trainer->rank];
    list_pieces(trainer, behind, behind ? arrived : extra, extra_bytes, pieces);
    if (trainer->world > 1)
        r = spread_and_compare(trainer, &standing, pieces, &bytes, err);
    if (r < 0)
        return mst_error_wrap(err, r, "synchronise after step %" PRIu64, standing.highest);
    if (behind) {
        trainer->current = 1 - trainer->current;
        trainer->step = standing.highest;
        if (extra_bytes > 0)
            memcpy(extra, arrived, extra_bytes);
    }
    *ret_synchronised = (struct trainer_synchronised){
        .took = behind, .step = standing.highest, .bytes = bytes, .ms = mst_ms_since(start_ns)};
    return 0;
}
