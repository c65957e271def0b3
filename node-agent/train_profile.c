/* SPDX-License-Identifier: Apache-2.0 */
#include "train_profile.h"

#include "muster/cleanup.h"
#include "muster/clock.h"

#include <stdlib.h>
#include <string.h>

void profile_begin(struct train_profile *profile, uint64_t start_ns, bool detailed)
{
    *profile = (struct train_profile){.detailed = detailed, .start_ns = start_ns, .since_ns = start_ns};
}

void profile_release(struct train_profile *profile)
{
    free(profile->steps);
    free(profile->epochs);
    free(profile->peers);
    free(profile->by_rank);
    *profile = (struct train_profile){0};
}

enum train_phase profile_enter_at(struct train_profile *profile, enum train_phase phase, uint64_t at_ns)
{
    const enum train_phase before = profile->phase;

    if (at_ns > profile->since_ns) {
        profile->spent_ns[before] += at_ns - profile->since_ns;
        profile->since_ns = at_ns;
    }
    profile->phase = phase;
    return before;
}

enum train_phase profile_enter(struct train_profile *profile, enum train_phase phase)
{
    return profile_enter_at(profile, phase, mst_now_ns());
}

void profile_lost_step(struct train_profile *profile)
{
    profile->phase = TRAIN_RECOVERY; /* since the step began */
}

/* ---- whom others are ---- */

static size_t find_peer(const struct train_profile *profile, const char *slot)
{
    size_t p = 0;

    while (p < profile->peer_count && strcmp(profile->peers[p].slot, slot) != 0)
        p++;
    return p;
}

int profile_view(struct train_profile *profile, const struct job_view *view, struct mst_error *err)
{
    profile->step_end_ns = 0;
    if (!profile->detailed || !view->members)
        return 0;
    const size_t world = view->world;
    struct profile_peer *peers =
        reallocarray(profile->peers, profile->peer_count + world, sizeof *profile->peers);
    if (peers)
        profile->peers = peers;
    size_t *by_rank = reallocarray(profile->by_rank, world, sizeof *profile->by_rank);
    if (by_rank)
        profile->by_rank = by_rank;
    if (!peers || !by_rank)
        return mst_error_set(err, -ENOMEM, "profile of %zu workers: no memory", world);
    profile->world = view->world;
    for (size_t rank = 0; rank < world; rank++) {
        const size_t p = find_peer(profile, view->members[rank].slot);
        if (p == profile->peer_count) {
            profile->peers[profile->peer_count++] = (struct profile_peer){0};
            memcpy(profile->peers[p].slot, view->members[rank].slot, sizeof profile->peers[p].slot);
        }
        profile->by_rank[rank] = p;
    }
    return 0;
}

static struct profile_peer *peer_of(const struct train_profile *profile,
                                    const struct trainer_step_stats *stats)
{
    const uint32_t rank = stats->waited_for - 1; /* 0, for nobody, becomes a rank that there is not */

    return rank < profile->world ? &profile->peers[profile->by_rank[rank]] : NULL;
}

const char *profile_waited_for(const struct train_profile *profile, const struct trainer_step_stats *stats)
{
    const struct profile_peer *peer = peer_of(profile, stats);

    return peer ? peer->slot : NULL;
}

/* ---- steps and epochs ---- */

/* `items` with room for one more than `count`: as they are, or moved; NULL without memory. */
static void *with_room(void *items, size_t size, size_t count, size_t *room)
{
    if (count < *room)
        return items;
    const size_t wanted = *room > 0 ? 2 * *room : 256;
    void *grown = reallocarray(items, wanted, size);
    if (grown)
        *room = wanted;
    return grown;
}

static int no_memory(size_t count, struct mst_error *err)
{
    return mst_error_set(err, -ENOMEM, "profile of %zu steps: no memory", count);
}

int profile_add(struct train_profile *profile, const struct trainer_step_stats *stats, struct mst_error *err)
{
    const double ms[PROFILE_PARTS] = {stats->total_ms, stats->compute_ms, stats->transfer_ms, stats->wait_ms};

    (void)profile_enter(profile, TRAIN_BETWEEN);
    profile->step_end_ns = profile->since_ns;
    for (int part = 0; part < PROFILE_PARTS; part++)
        profile->sums_ms[part] += ms[part];
    profile->step_count++;
    profile->samples += stats->samples;
    profile->step_samples = stats->samples;
    profile->bytes_sent += stats->bytes_sent;
    if (!profile->detailed)
        return 0;
    struct profile_step *steps = with_room(profile->steps, sizeof *steps, profile->kept, &profile->room);
    if (!steps)
        return no_memory(profile->kept, err);
    profile->steps = steps;
    for (int part = 0; part < PROFILE_PARTS; part++)
        profile->steps[profile->kept].ms[part] = (float)ms[part];
    profile->kept++;
    struct profile_peer *peer = peer_of(profile, stats);
    if (peer) {
        peer->steps++;
        peer->epoch_steps++;
        peer->ms += stats->wait_ms;
        peer->epoch_ms += stats->wait_ms;
    }
    return 0;
}

static int by_value(const void *a, const void *b)
{
    const float x = *(const float *)a, y = *(const float *)b;

    return (x > y) - (x < y);
}

/* The smallest value that so many percent are not above: a value that was measured, not one in between. */
static double quantile(const float *sorted, size_t count, size_t percent)
{
    const size_t place = (count * percent + 99) / 100;

    return (double)sorted[place > 0 ? place - 1 : 0];
}

struct profile_quantiles profile_quantiles(const struct profile_step *steps, size_t count,
                                           enum profile_part part, float *scratch)
{
    double sum = 0;

    if (count == 0)
        return (struct profile_quantiles){0};
    for (size_t i = 0; i < count; i++) {
        scratch[i] = steps[i].ms[part];
        sum += (double)scratch[i];
    }
    qsort(scratch, count, sizeof *scratch, by_value);
    return (struct profile_quantiles){.mean = sum / (double)count,
                                      .p50 = quantile(scratch, count, 50),
                                      .p90 = quantile(scratch, count, 90),
                                      .p99 = quantile(scratch, count, 99),
                                      .max = (double)scratch[count - 1]};
}

static void begin_epoch(struct train_profile *profile)
{
    profile->epoch_first = profile->kept;
    for (size_t p = 0; p < profile->peer_count; p++) {
        profile->peers[p].epoch_steps = 0;
        profile->peers[p].epoch_ms = 0;
    }
}

void profile_forget_epoch(struct train_profile *profile)
{
    begin_epoch(profile);
}

static size_t slowest_of_epoch(const struct train_profile *profile)
{
    size_t slowest = SIZE_MAX;

    for (size_t p = 0; p < profile->peer_count; p++) {
        const struct profile_peer *peer = &profile->peers[p];
        if (peer->epoch_steps > 0 &&
            (slowest == SIZE_MAX || peer->epoch_ms > profile->peers[slowest].epoch_ms))
            slowest = p;
    }
    return slowest;
}

int profile_close_epoch(struct train_profile *profile, const struct trainer_history_row *row,
                        const struct profile_epoch **ret_epoch, struct mst_error *err)
{
    const size_t count = profile->kept - profile->epoch_first;

    *ret_epoch = NULL;
    if (!profile->detailed || count == 0)
        return 0;
    struct profile_epoch *epochs =
        with_room(profile->epochs, sizeof *epochs, profile->epoch_count, &profile->epoch_room);
    if (epochs)
        profile->epochs = epochs;
    mst_cleanup(mst_freep) float *scratch = malloc(count * sizeof *scratch);
    if (!epochs || !scratch)
        return no_memory(count, err);
    struct profile_epoch *epoch = &epochs[profile->epoch_count++];
    *epoch = (struct profile_epoch){.epoch = row->epoch,
                                    .steps = row->steps,
                                    .bytes_sent = row->bytes_sent,
                                    .seconds = row->seconds,
                                    .slowest = slowest_of_epoch(profile)};
    for (int part = 0; part < PROFILE_PARTS; part++)
        epoch->parts[part] =
            profile_quantiles(profile->steps + profile->epoch_first, count, (enum profile_part)part, scratch);
    begin_epoch(profile);
    *ret_epoch = epoch;
    return 0;
}
