/* SPDX-License-Identifier: Apache-2.0 */
/* What runs used over time, for the figures. Time counts from the start of a node's first worker, by that
 * node's own clock, so that clocks need not agree; where events tell no start, from the run's first row. */
#include "muster/cleanup.h"
#include "report_private.h"

#include <math.h>
#include <string.h>

#define POINTS_MAX 600

/* Sums in slices of time. */
struct slices {
    double *cpu, *rx, *tx;             /* one block, owned by cpu */
    unsigned *cpu_count, *bytes_count; /* one block, owned by cpu_count */
    size_t count;
    double width_s;
};

static int slices_allocate(struct slices *slices, double width_s, size_t count)
{
    *slices = (struct slices){.width_s = width_s, .count = count};
    slices->cpu = calloc(slices->count, 3 * sizeof *slices->cpu);
    slices->cpu_count = calloc(slices->count, 2 * sizeof *slices->cpu_count);
    if (!slices->cpu || !slices->cpu_count)
        return -ENOMEM;
    slices->rx = slices->cpu + slices->count;
    slices->tx = slices->rx + slices->count;
    slices->bytes_count = slices->cpu_count + slices->count;
    return 0;
}

static int slices_init(struct slices *slices, double length_s)
{
    const double width_s = fmax(1, ceil(length_s / POINTS_MAX));

    return slices_allocate(slices, width_s, 1 + (size_t)fmin(POINTS_MAX, fmax(0, length_s) / width_s));
}

static void slices_release(struct slices *slices)
{
    free(slices->cpu);
    free(slices->cpu_count);
}

static void slices_clear(struct slices *slices)
{
    memset(slices->cpu, 0, 3 * slices->count * sizeof *slices->cpu);
    memset(slices->cpu_count, 0, 2 * slices->count * sizeof *slices->cpu_count);
}

/* Counters that went back, or that nobody read, give no rate. */
static void slices_take(struct slices *slices, const struct run_usage *usage, double zero_s)
{
    for (size_t i = 0; i < usage->count; i++) {
        const double at = (usage->time_s[i] - zero_s) / slices->width_s;
        const double passed = i > 0 ? usage->time_s[i] - usage->time_s[i - 1] : NAN;
        const double rx = i > 0 ? (usage->rx_bytes[i] - usage->rx_bytes[i - 1]) / passed : NAN;
        const double tx = i > 0 ? (usage->tx_bytes[i] - usage->tx_bytes[i - 1]) / passed : NAN;
        if (!(at >= 0) || at >= (double)slices->count)
            continue;
        if (isfinite(usage->cpu_percent[i])) {
            slices->cpu[(size_t)at] += usage->cpu_percent[i];
            slices->cpu_count[(size_t)at]++;
        }
        if (passed > 0 && rx >= 0 && tx >= 0) {
            slices->rx[(size_t)at] += rx;
            slices->tx[(size_t)at] += tx;
            slices->bytes_count[(size_t)at]++;
        }
    }
}

static void put_slices(cJSON *json, const struct slices *slices, bool *ok)
{
    cJSON *times = put_array(json, "t", ok), *cpu = put_array(json, "cpu", ok),
          *rx = put_array(json, "rx", ok), *tx = put_array(json, "tx", ok);

    for (size_t i = 0; i < slices->count && *ok; i++) {
        const double cpus = slices->cpu_count[i], bytes = slices->bytes_count[i];
        if (cpus == 0 && bytes == 0)
            continue;
        put_number(times, NULL, (double)i * slices->width_s, ok);
        put_number(cpu, NULL, cpus > 0 ? round(slices->cpu[i] / cpus * 10) / 10 : NAN, ok);
        put_number(rx, NULL, bytes > 0 ? round(slices->rx[i] / bytes) : NAN, ok);
        put_number(tx, NULL, bytes > 0 ? round(slices->tx[i] / bytes) : NAN, ok);
    }
}

/* ---- where a run's time begins ---- */

static double first_row_s(const struct run *run, const char *node)
{
    double first = NAN;

    for (size_t i = 0; i < run->usage_count; i++) {
        if (run->usage[i].count > 0 && (!node || strcmp(run->usage[i].node, node) == 0))
            first = fmin(first, run->usage[i].time_s[0]); /* fmin() passes NAN over */
    }
    return first;
}

static double zero_of(const struct run *run, const char *node)
{
    double first = NAN;

    for (size_t i = 0; i < run->worker_count; i++) {
        if (strcmp(run->workers[i].node, node) == 0)
            first = fmin(first, run->workers[i].begin_s);
    }
    for (size_t i = 0; i < run->worker_count && isnan(first); i++)
        first = run->workers[i].begin_s; /* a node without a worker */
    return isnan(first) ? first_row_s(run, NULL) : first;
}

/* Without events the epochs are placed so that the last one ends when muster knew that all had trained. */
static double epoch_end_s(const struct run *run, const struct run_worker *worker, size_t epoch, double zero_s)
{
    double end = run->started_s + run->until_trained_s;

    if (isfinite(worker->epochs[epoch].end_s))
        return worker->epochs[epoch].end_s - zero_s;
    for (size_t i = epoch + 1; i < worker->epoch_count; i++)
        end -= worker->epochs[i].seconds;
    return end - zero_s;
}

static void put_workers(cJSON *json, const struct run *run, bool *ok)
{
    cJSON *list = put_array(json, "workers", ok);

    for (size_t i = 0; i < run->worker_count && *ok; i++) {
        const struct run_worker *worker = &run->workers[i];
        const double zero_s = zero_of(run, worker->node);
        cJSON *item = put_object(list, NULL, ok), *times, *values;
        put_text(item, "node", worker->node, ok);
        times = put_array(item, "t", ok);
        values = put_array(item, "ms", ok);
        for (size_t e = 0; e < worker->epoch_count && *ok; e++) {
            const double end = epoch_end_s(run, worker, e, zero_s);
            put_number(times, NULL, round((end - worker->epochs[e].seconds / 2) * 100) / 100, ok);
            put_number(values, NULL, round(worker->epochs[e].ms_per_step * 100) / 100, ok);
        }
    }
}

static double length_of(const struct run *run)
{
    double length = 0;

    for (size_t i = 0; i < run->usage_count; i++) {
        const struct run_usage *usage = &run->usage[i];
        if (usage->count > 0)
            length = fmax(length, usage->time_s[usage->count - 1] - zero_of(run, usage->node));
    }
    return length;
}

/* A node that nodes.csv does not tell of: the sum over its rows. Slices keep sums a second apart exact
 * enough. */
static int put_summed_nodes(cJSON *list, const struct run *run, struct slices *slices, bool *ok)
{
    for (size_t i = 0; i < run->usage_count && *ok; i++) {
        bool is_new = true;
        cJSON *item;
        struct slices sum;
        for (size_t k = 0; k < i; k++)
            is_new = is_new && strcmp(run->usage[k].node, run->usage[i].node) != 0;
        if (!is_new)
            continue;
        if (slices_allocate(&sum, slices->width_s, slices->count) < 0) {
            slices_release(&sum);
            return -ENOMEM;
        }
        for (size_t k = i; k < run->usage_count; k++) {
            if (strcmp(run->usage[k].node, run->usage[i].node) != 0)
                continue;
            slices_clear(slices);
            slices_take(slices, &run->usage[k], zero_of(run, run->usage[k].node));
            for (size_t s = 0; s < slices->count; s++) {
                sum.cpu[s] += slices->cpu_count[s] > 0 ? slices->cpu[s] / slices->cpu_count[s] : 0;
                sum.rx[s] += slices->bytes_count[s] > 0 ? slices->rx[s] / slices->bytes_count[s] : 0;
                sum.tx[s] += slices->bytes_count[s] > 0 ? slices->tx[s] / slices->bytes_count[s] : 0;
                sum.cpu_count[s] = sum.cpu_count[s] || slices->cpu_count[s] > 0;
                sum.bytes_count[s] = sum.bytes_count[s] || slices->bytes_count[s] > 0;
            }
        }
        item = put_object(list, NULL, ok);
        put_text(item, "name", run->usage[i].node, ok);
        put_bool(item, "is_node", true, ok);
        put_bool(item, "is_sum", true, ok);
        put_slices(item, &sum, ok);
        slices_release(&sum);
    }
    return 0;
}

static int put_run(cJSON *list, const struct run *run, bool *ok)
{
    cJSON *json = put_object(list, NULL, ok), *usage;
    struct slices slices;
    int r = slices_init(&slices, length_of(run));

    put_workers(json, run, ok);
    usage = put_array(json, "usage", ok);
    for (size_t i = 0; i < run->usage_count && r >= 0 && *ok; i++) {
        const bool is_node = run->usage[i].name[0] == '\0';
        cJSON *item = put_object(usage, NULL, ok);
        put_text(item, "name", is_node ? run->usage[i].node : run->usage[i].name, ok);
        put_bool(item, "is_node", is_node, ok);
        slices_clear(&slices);
        slices_take(&slices, &run->usage[i], zero_of(run, run->usage[i].node));
        put_slices(item, &slices, ok);
    }
    if (r >= 0 && !run->has_nodes_csv)
        r = put_summed_nodes(usage, run, &slices, ok);
    slices_release(&slices);
    return r;
}

int report_use(const struct report_content *content, cJSON **ret_json, struct mst_error *err)
{
    cJSON *json = cJSON_CreateArray();
    bool ok = json != NULL;
    int r = 0;

    for (size_t i = 0; i < content->outcome_count; i++) {
        const struct experiment *experiment = &content->outcomes[i].experiment;
        cJSON *trials = put_array(json, NULL, &ok);
        for (size_t k = 0; k < experiment->trial_count && r >= 0 && ok; k++) {
            const struct trial *trial = &experiment->trials[k];
            cJSON *item = trial->counts ? put_object(trials, NULL, &ok) : NULL;
            if (!item)
                continue;
            put_number(item, "number", (double)trial->number, &ok);
            cJSON *const runs = put_array(item, "workloads", &ok);
            for (size_t w = 0; w < trial->run_count && r >= 0; w++)
                r = put_run(runs, &trial->runs[w], &ok);
        }
    }
    if (r < 0 || !ok) {
        cJSON_Delete(json);
        return mst_error_set(err, -ENOMEM, "report: no memory");
    }
    *ret_json = json;
    return 0;
}
