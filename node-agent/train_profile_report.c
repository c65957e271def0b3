/* SPDX-License-Identifier: Apache-2.0 */
/* A profile as an event, for programs, and as tables, for people. */
#include "muster/cleanup.h"
#include "muster/table.h"
#include "train_profile.h"

#include <inttypes.h>
#include <stdlib.h>

#define TOLD_PEERS  8   /* in an event: a line has its limit */
#define TOLD_EPOCHS 100 /* in the table; the last ones */
#define MB          1e6
#define SLOTS_SHOWN 24 /* bytes of a slot's name in a table */

static const struct {
    const char *key, *name;
} phases[TRAIN_PHASES] = {
    [TRAIN_START] = {"start_ms", "start"},
    [TRAIN_LOAD] = {"load_ms", "load"},
    [TRAIN_DISCOVERY] = {"discovery_ms", "discovery"},
    [TRAIN_CONNECT] = {"connect_ms", "connect"},
    [TRAIN_BETWEEN] = {"between_ms", "between steps"},
    [TRAIN_VERIFY] = {"verify_ms", "verify"},
    [TRAIN_VALIDATION] = {"validation_ms", "validation"},
    [TRAIN_SAVING] = {"saving_ms", "saving"},
    [TRAIN_TEST] = {"test_ms", "test"},
    [TRAIN_RECOVERY] = {"recovery_ms", "recovery"},
};

static const struct {
    const char *key, *quantiles_key, *name;
} parts[PROFILE_PARTS] = {
    [PROFILE_STEP] = {NULL, "step_ms", "step"},
    [PROFILE_COMPUTE] = {"compute_ms", "step_compute_ms", "compute"},
    [PROFILE_EXCHANGE] = {"exchange_ms", "step_exchange_ms", "exchange"},
    [PROFILE_WAIT] = {"wait_ms", "step_wait_ms", "wait"},
};

double profile_rate(uint64_t samples, double ms)
{
    return ms > 0 ? (double)samples * 1000 / ms : 0;
}

/* What a step took more than it says of itself is between steps, so that the parts are the whole. */
double profile_phase_ms(const struct train_profile *profile, enum train_phase phase)
{
    double ms = (double)profile->spent_ns[phase] / 1e6;

    if (phase == TRAIN_BETWEEN)
        ms += (double)profile->spent_ns[TRAIN_STEP] / 1e6 - profile->sums_ms[PROFILE_STEP];
    return ms;
}

static double total_ms(const struct train_profile *profile)
{
    return (double)(profile->since_ns - profile->start_ns) / 1e6;
}

/* ---- the event ---- */

static int by_ms(const void *a, const void *b)
{
    const double x = (*(const struct profile_peer *const *)a)->ms;
    const double y = (*(const struct profile_peer *const *)b)->ms;

    return (x < y) - (x > y);
}

/* Those whom this worker waited for, most first; owned by the caller. */
static const struct profile_peer **sort_peers(const struct train_profile *profile, size_t *ret_count)
{
    const struct profile_peer **sorted = calloc(profile->peer_count + 1, sizeof *sorted);
    size_t count = 0;

    for (size_t p = 0; sorted && p < profile->peer_count; p++) {
        if (profile->peers[p].steps > 0)
            sorted[count++] = &profile->peers[p];
    }
    if (count > 0)
        qsort(sorted, count, sizeof *sorted, by_ms);
    *ret_count = count;
    return sorted;
}

static void tell_quantiles(struct report *report, const char *key, const struct profile_quantiles *quantiles)
{
    cJSON *object = report_object(report, key);

    report_put_number(report, object, "mean", quantiles->mean);
    report_put_number(report, object, "p50", quantiles->p50);
    report_put_number(report, object, "p90", quantiles->p90);
    report_put_number(report, object, "p99", quantiles->p99);
    report_put_number(report, object, "max", quantiles->max);
}

static int tell_details(const struct train_profile *profile, struct report *report, struct mst_error *err)
{
    size_t count = 0;
    mst_cleanup(mst_freep) float *scratch = calloc(profile->kept + 1, sizeof *scratch);
    mst_cleanup(mst_freep) const struct profile_peer **peers = sort_peers(profile, &count);

    if (!scratch || !peers)
        return mst_error_set(err, -ENOMEM, "tell the profile: no memory");
    for (int part = 0; part < PROFILE_PARTS; part++) {
        const struct profile_quantiles quantiles =
            profile_quantiles(profile->steps, profile->kept, (enum profile_part)part, scratch);
        tell_quantiles(report, parts[part].quantiles_key, &quantiles);
    }
    cJSON *array = report_array(report, "slowest");
    for (size_t p = 0; p < count && p < TOLD_PEERS; p++) {
        cJSON *object = report_append_object(report, array);
        report_put_text(report, object, "slot", peers[p]->slot);
        report_put_number(report, object, "steps", (double)peers[p]->steps);
        report_put_number(report, object, "ms", peers[p]->ms);
    }
    return 0;
}

int profile_tell(struct train_profile *profile, struct report *report, struct mst_error *err)
{
    (void)profile_enter(profile, profile->phase); /* up to now */
    for (int phase = 0; phase < TRAIN_PHASES; phase++) {
        for (int part = PROFILE_COMPUTE; phase == TRAIN_STEP && part < PROFILE_PARTS; part++)
            report_number(report, parts[part].key, profile->sums_ms[part]);
        if (phases[phase].key)
            report_number(report, phases[phase].key, profile_phase_ms(profile, (enum train_phase)phase));
    }
    report_number(report, "total_ms", total_ms(profile));
    report_number(report, "steps", (double)profile->step_count);
    report_number(report, "samples_per_s", profile_rate(profile->samples, profile->sums_ms[PROFILE_STEP]));
    report_number(report, "bytes_sent", (double)profile->bytes_sent);
    return profile->detailed ? tell_details(profile, report, err) : 0;
}

void profile_tell_epoch(const struct train_profile *profile, const struct profile_epoch *epoch,
                        struct report *report)
{
    const struct profile_quantiles *step = &epoch->parts[PROFILE_STEP];

    report_number(report, "p50_ms", step->p50);
    report_number(report, "p90_ms", step->p90);
    report_number(report, "max_ms", step->max);
    if (epoch->slowest != SIZE_MAX)
        report_text(report, "slowest", profile->peers[epoch->slowest].slot);
}

/* ---- the tables ---- */

static int print_and_free(struct mst_table *table, int r, FILE *stream, struct mst_error *err)
{
    if (r == 0)
        r = mst_table_print(table, stream);
    mst_table_free(table);
    return r < 0 ? mst_error_errno(err, r, "print the profile") : 0;
}

static double share_of(double part, double whole)
{
    return whole > 0 ? 100 * part / whole : 0;
}

static int print_steps(const struct train_profile *profile, FILE *stream, struct mst_error *err)
{
    mst_cleanup(mst_freep) float *scratch = calloc(profile->kept + 1, sizeof *scratch);
    struct mst_table *table = NULL;

    if (!scratch)
        return mst_error_set(err, -ENOMEM, "print the profile: no memory");
    int r = mst_table_new("OF A STEP|>MEAN MS|>P50|>P90|>P99|>MAX|>SHARE %", &table, err);
    if (r < 0)
        return r;
    for (int part = 0; part < PROFILE_PARTS && r == 0; part++) {
        const struct profile_quantiles q =
            profile_quantiles(profile->steps, profile->kept, (enum profile_part)part, scratch);
        const double cells[] = {q.mean, q.p50, q.p90, q.p99, q.max};
        r = mst_table_cell(table, "%s", parts[part].name);
        for (size_t c = 0; c < MST_ARRAY_COUNT(cells) && r == 0; c++)
            r = mst_table_cell(table, "%.2f", cells[c]);
        if (r == 0)
            r = mst_table_cell(table, "%.1f",
                               share_of(profile->sums_ms[part], profile->sums_ms[PROFILE_STEP]));
    }
    return print_and_free(table, r, stream, err);
}

static int print_epochs(const struct train_profile *profile, FILE *stream, struct mst_error *err)
{
    struct mst_table *table = NULL;
    size_t e = profile->epoch_count > TOLD_EPOCHS ? profile->epoch_count - TOLD_EPOCHS : 0;

    int r = mst_table_new("EPOCH|>STEPS|>SECONDS|>STEP MS|>P50|>P90|>MAX|>COMPUTE|>EXCHANGE|>WAIT|>MB SENT|"
                          ">SAMPLES/S|WAITED FOR",
                          &table, err);
    if (r < 0)
        return r;
    for (; e < profile->epoch_count && r == 0; e++) {
        const struct profile_epoch *epoch = &profile->epochs[e];
        const struct profile_quantiles *step = &epoch->parts[PROFILE_STEP];
        const double cells[] = {epoch->seconds,
                                step->mean,
                                step->p50,
                                step->p90,
                                step->max,
                                epoch->parts[PROFILE_COMPUTE].mean,
                                epoch->parts[PROFILE_EXCHANGE].mean,
                                epoch->parts[PROFILE_WAIT].mean,
                                (double)epoch->bytes_sent / MB};
        r = mst_table_cell(table, "%" PRIu32, epoch->epoch);
        if (r == 0)
            r = mst_table_cell(table, "%" PRIu64, epoch->steps);
        for (size_t c = 0; c < MST_ARRAY_COUNT(cells) && r == 0; c++)
            r = mst_table_cell(table, "%.2f", cells[c]);
        if (r == 0)
            r = mst_table_cell(table, "%.0f", profile_rate(profile->step_samples, step->mean));
        if (r == 0)
            r = mst_table_cell(table, "%.*s", SLOTS_SHOWN,
                               epoch->slowest == SIZE_MAX ? "-" : profile->peers[epoch->slowest].slot);
    }
    return print_and_free(table, r, stream, err);
}

static int print_peers(const struct train_profile *profile, FILE *stream, struct mst_error *err)
{
    size_t count = 0;
    mst_cleanup(mst_freep) const struct profile_peer **peers = sort_peers(profile, &count);
    struct mst_table *table = NULL;

    if (!peers)
        return mst_error_set(err, -ENOMEM, "print the profile: no memory");
    if (count == 0)
        return 0;
    int r = mst_table_new("WAITED FOR|>STEPS|>MS|>OF ALL WAITS %", &table, err);
    if (r < 0)
        return r;
    for (size_t p = 0; p < count && p < TOLD_PEERS && r == 0; p++) {
        r = mst_table_cell(table, "%.*s", SLOTS_SHOWN, peers[p]->slot);
        if (r == 0)
            r = mst_table_cell(table, "%" PRIu64, peers[p]->steps);
        if (r == 0)
            r = mst_table_cell(table, "%.1f", peers[p]->ms);
        if (r == 0)
            r = mst_table_cell(table, "%.1f", share_of(peers[p]->ms, profile->sums_ms[PROFILE_WAIT]));
    }
    (void)fputc('\n', stream);
    return print_and_free(table, r, stream, err);
}

static int add_part(struct mst_table *table, const char *name, double ms, double whole)
{
    int r = mst_table_cell(table, "%s", name);

    if (r == 0)
        r = mst_table_cell(table, "%.1f", ms);
    return r == 0 ? mst_table_cell(table, "%.1f", share_of(ms, whole)) : r;
}

static int print_run(const struct train_profile *profile, FILE *stream, struct mst_error *err)
{
    const double whole = total_ms(profile);
    struct mst_table *table = NULL;

    int r = mst_table_new("OF THE RUN|>MS|>SHARE %", &table, err);
    if (r < 0)
        return r;
    for (int phase = 0; phase < TRAIN_PHASES && r == 0; phase++) {
        for (int part = PROFILE_COMPUTE; phase == TRAIN_STEP && part < PROFILE_PARTS && r == 0; part++)
            r = add_part(table, parts[part].name, profile->sums_ms[part], whole);
        if (r == 0 && phases[phase].name)
            r = add_part(table, phases[phase].name, profile_phase_ms(profile, (enum train_phase)phase),
                         whole);
    }
    if (r == 0)
        r = add_part(table, "all", whole, whole);
    return print_and_free(table, r, stream, err);
}

int profile_print(const struct train_profile *profile, FILE *stream, struct mst_error *err)
{
    int r = print_epochs(profile, stream, err);
    if (r == 0) {
        (void)fputc('\n', stream);
        r = print_steps(profile, stream, err);
    }
    if (r == 0)
        r = print_peers(profile, stream, err);
    if (r == 0) {
        (void)fputc('\n', stream);
        r = print_run(profile, stream, err);
    }
    return r;
}
