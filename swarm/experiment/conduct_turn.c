/* SPDX-License-Identifier: Apache-2.0 */
/* One run, or two at once: the hosts are watched before and meanwhile, and what came of it is looked at
 * before it counts. */
#include "build.h"
#include "experiment/conduct.h"
#include "experiment/conduct_results.h"
#include "muster/cleanup.h"
#include "muster/clock.h"
#include "muster/experiment.h"
#include "muster/file.h"
#include "muster/json.h"
#include "muster/signals.h"

#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#define WATCH_START_MS  60000
#define WATCH_END_MS    10000
#define LEAST_OVERLAP   0.8 /* of two workloads' times */
#define ROWS_MAX_BYTES  ((size_t)64 << 20)
#define OFFSET_KNOWN_MS 100 /* of clocks further apart not enough is known to tell when a worker started */

void turn_host_name(const struct turn *turn, unsigned workload, const char *host, char *name, size_t bytes)
{
    (void)snprintf(name, bytes, "%03u-w%u-%s", turn->number, workload + 1, host);
}

/* ---- watching the hosts ---- */

static void add_row(struct turn_reading *reading, const struct checks_reading *now, const char *node,
                    unsigned cpus)
{
    const struct checks_reading *before = &reading->before_row;
    const double total = (double)(now->ticks.total - before->ticks.total);

    if (before->t > 0 && total > 0 && now->ticks.total > before->ticks.total)
        (void)mst_buf_printf(&reading->rows, "%.3f,%s,%.2f,%.2f,%.2f,%" PRIu64 ",%" PRIu64 "\n", now->t, node,
                             100.0 * cpus * (double)(now->ticks.busy - before->ticks.busy) / total,
                             100.0 * cpus * (double)(now->ticks.steal - before->ticks.steal) / total,
                             now->load1, now->rx_bytes,
                             now->tx_bytes); /* a day of seconds fits; what is more is left out */
    reading->before_row = *now;
}

static int take_reading(struct conduct_call *call, const cJSON *json, struct mst_error *err)
{
    struct turn *turn = call->context;
    struct turn_reading *reading = &turn->readings[call->index];
    struct checks_reading now;

    (void)err;
    checks_reading_parse(json, &now);
    if (reading->count++ == 0)
        reading->first = now;
    reading->last = now;
    add_row(reading, &now, call->host, turn->conduct->looks[call->index].cpus);
    return 0;
}

static int start_watches(struct turn *turn, struct launches *set, struct mst_error *err)
{
    struct conduct *conduct = turn->conduct;
    const uint64_t deadline_ns = mst_now_ns() + WATCH_START_MS * MST_NS_PER_MS;
    size_t ready = 0;
    int r = 0;

    for (size_t i = 0; i < conduct->host_count && r >= 0; i++) {
        turn->readings[i].rows = (struct mst_buf)MST_BUF_INIT(ROWS_MAX_BYTES);
        turn->watches[i] = (struct conduct_call){.host = conduct->hosts[i],
                                                 .name = "watch",
                                                 .request = conduct_request("watch", conduct),
                                                 .on_json = take_reading,
                                                 .context = turn,
                                                 .index = i};
        r = conduct_call_start(conduct, set, &turn->watches[i], err);
    }
    /* Two readings: the time between them is what the run is compared with. */
    while (r >= 0 && ready < conduct->host_count) {
        r = launches_round(set, deadline_ns, err);
        ready = 0;
        for (size_t i = 0; i < conduct->host_count && r >= 0; i++) {
            if (launch_has_ended(turn->watches[i].launch))
                r = conduct_call_result(&turn->watches[i], err) < 0 ? -EHOSTUNREACH : r;
            ready += turn->readings[i].count >= 2;
        }
    }
    for (size_t i = 0; i < conduct->host_count && r >= 0; i++) {
        turn->readings[i].start = turn->readings[i].last;
        turn->readings[i].has_start = true;
    }
    return r == -ETIMEDOUT ? mst_error_set(err, r, "the hosts did not say within %d s how busy they are",
                                           WATCH_START_MS / 1000)
                           : r;
}

static void release_watches(struct turn *turn)
{
    for (size_t i = 0; i < turn->conduct->host_count; i++) {
        cJSON_Delete(turn->watches[i].request);
        mst_buf_release(&turn->readings[i].rows);
    }
}

/* ---- noise ---- */

static void add_value(struct build *build, cJSON *object, const char *key, double value)
{
    if (object &&
        !(value >= 0 ? cJSON_AddNumberToObject(object, key, value) : cJSON_AddNullToObject(object, key)))
        build->no_memory = true;
}

static void add_window(struct build *build, cJSON *parent, const char *key, const struct checks_reading *from,
                       const struct checks_reading *to, double own_cpu_s, unsigned cpus)
{
    const double total = (double)to->ticks.total - (double)from->ticks.total;
    cJSON *object;
    double busy;

    if (total <= 0) {
        if (parent && !cJSON_AddNullToObject(parent, key))
            build->no_memory = true;
        return;
    }
    busy = 100 * ((double)to->ticks.busy - (double)from->ticks.busy) / total;
    object = build_object(build, parent, key);
    add_value(build, object, "seconds", to->t - from->t);
    add_value(build, object, "steal_percent",
              100 * ((double)to->ticks.steal - (double)from->ticks.steal) / total);
    add_value(build, object, "busy_percent", busy);
    if (own_cpu_s >= 0 && cpus > 0 && to->t > from->t)
        add_value(build, object, "other_percent",
                  fmax(0, busy - 100 * own_cpu_s / ((to->t - from->t) * cpus)));
    add_value(build, object, "mhz", to->mhz);
    add_value(build, object, "load1", to->load1);
}

/* What the workers of all nodes of this machine took: nodes may be one machine, as in the lab. */
static double own_cpu_seconds(const struct turn *turn, const struct conduct_results *results, size_t host)
{
    const struct conduct *conduct = turn->conduct;
    double sum_s = 0;

    for (unsigned w = 0; w < turn->cell->workloads; w++) {
        if (!results[w].has_cpu)
            return -1;
        for (size_t i = 0; i < conduct->host_count; i++) {
            if (i == host || (conduct->looks[i].boot_id[0] != '\0' &&
                              strcmp(conduct->looks[i].boot_id, conduct->looks[host].boot_id) == 0))
                sum_s += conduct_results_cpu(&results[w], conduct->looks[i].hostname);
        }
    }
    return sum_s;
}

static int add_noise(const struct turn *turn, const struct conduct_results *results, cJSON *entry,
                     struct mst_error *err)
{
    const struct conduct *conduct = turn->conduct;
    struct build build = {0};
    cJSON *list;

    cJSON_DeleteItemFromObjectCaseSensitive(entry, "noise");
    list = build_array(&build, entry, "noise");
    for (size_t i = 0; i < conduct->host_count; i++) {
        const struct turn_reading *reading = &turn->readings[i];
        const unsigned cpus = conduct->looks[i].cpus;
        cJSON *object = build_append(&build, list);
        build_text(&build, object, "node", conduct->hosts[i]);
        add_window(&build, object, "before", &reading->first, &reading->start, -1, cpus);
        add_window(&build, object, "during", &reading->start, &reading->last,
                   own_cpu_seconds(turn, results, i), cpus);
        if (object && !cJSON_AddNullToObject(object, "after"))
            build.no_memory = true;
    }
    return build.no_memory ? mst_error_set(err, -ENOMEM, "noise: no memory") : 0;
}

static int write_nodes(const struct turn *turn, const char *folder, struct mst_error *err)
{
    mst_cleanup(mst_buf_release) struct mst_buf text = MST_BUF_INIT(ROWS_MAX_BYTES);
    mst_cleanup(mst_freep) char *path = mst_path_join(folder, EXPERIMENT_NODES_FILE);
    int r = mst_buf_append_text(&text, EXPERIMENT_NODES_HEADER);
    bool has_rows = false;

    for (size_t i = 0; i < turn->conduct->host_count && r >= 0; i++) {
        const struct mst_buf *rows = &turn->readings[i].rows;
        has_rows |= rows->count > 0;
        r = mst_buf_append(&text, mst_buf_text(rows), rows->count);
    }
    if (r < 0 || !path)
        return mst_error_set(err, -ENOMEM, "write '%s' in '%s': no memory", EXPERIMENT_NODES_FILE, folder);
    return has_rows ? mst_file_write_atomic(path, mst_buf_text(&text), text.count, 0644, err) : 0;
}

/* ---- the entry ---- */

/* Relative to the experiment's folder, which may be moved. */
static int add_folders(const struct turn *turn, cJSON *entry, struct mst_error *err)
{
    struct build build = {0};
    const size_t skipped = strlen(turn->conduct->out) + 1;
    cJSON *list;

    cJSON_DeleteItemFromObjectCaseSensitive(entry, "folders");
    list = build_array(&build, entry, "folders");
    for (unsigned w = 0; w < turn->cell->workloads; w++) {
        cJSON *object;
        if (turn->run_folders[w][0] == '\0')
            continue;
        object = build_append(&build, list);
        if (object && !cJSON_AddNumberToObject(object, "workload", w + 1))
            build.no_memory = true;
        build_text(&build, object, "folder", turn->run_folders[w] + skipped);
    }
    return build.no_memory ? mst_error_set(err, -ENOMEM, "folders: no memory") : 0;
}

static bool clocks_agree(const struct conduct *conduct)
{
    for (size_t i = 0; i < conduct->host_count; i++) {
        if (!conduct->has_looks || fabs(conduct->looks[i].clock_offset_ms) > OFFSET_KNOWN_MS)
            return false;
    }
    return true;
}

/* By this machine's clock; -1: not told. */
static double last_start_s(const struct conduct *conduct, const struct conduct_results *results)
{
    double last_s = -1;

    for (size_t i = 0; i < results->start_count; i++) {
        double ahead_ms = 0;
        for (size_t h = 0; h < conduct->host_count; h++) {
            if (strcmp(conduct->hosts[h], results->starts[i].node) == 0)
                ahead_ms = conduct->looks[h].clock_offset_ms;
        }
        last_s = fmax(last_s, results->starts[i].s - ahead_ms / 1000);
    }
    return last_s;
}

/* Workloads that a host was late to start do not share the machines, which is what is measured. */
static int judge_overlap(const struct turn *turn, const struct conduct_results *results,
                         struct mst_error *err)
{
    for (unsigned w = 1; w < turn->cell->workloads; w++) {
        const double overlap = conduct_results_overlap(&results[0], &results[w]);
        if (overlap < LEAST_OVERLAP)
            return mst_error_set(err, -EOWNERDEAD,
                                 "workloads 1 and %u trained at once for %.0f %% of the time only", w + 1,
                                 100 * overlap);
    }
    return 0;
}

/* What the run folders say of the run, and whether it is one that counts. */
static int look_at_results(struct turn *turn, cJSON *entry, struct mst_error *err)
{
    struct conduct_results results[CONDUCT_WORKLOADS_MAX] = {0};
    double launched_s = -1, total_s = -1;
    int r = 0;

    for (unsigned w = 0; w < turn->cell->workloads && r >= 0; w++) {
        r = write_nodes(turn, turn->run_folders[w], err);
        if (r >= 0)
            r = conduct_results_read(turn->run_folders[w], &results[w], err);
        if (r >= 0)
            r = conduct_results_judge(&results[w], turn->conduct->jobs[w].worker_count, err);
        launched_s = fmax(launched_s, last_start_s(turn->conduct, &results[w]));
        total_s = fmax(total_s, results[w].total_seconds);
    }
    if (r >= 0)
        r = judge_overlap(turn, results, err);
    if (r >= 0)
        r = add_noise(turn, results, entry, err);
    if (r >= 0 &&
        (conduct_entry_set_number(entry, "launch_seconds",
                                  launched_s > 0 && clocks_agree(turn->conduct) ? launched_s - turn->ordered_s
                                                                                : -1) < 0 ||
         conduct_entry_set_number(entry, "total_seconds", total_s) < 0 ||
         conduct_entry_set_number(entry, "ms_per_step", results[0].ms_per_step) < 0 ||
         conduct_entry_set_text(entry, "digest", results[0].digest) < 0))
        r = mst_error_set(err, -ENOMEM, "entry: no memory");
    for (unsigned w = 0; w < turn->cell->workloads; w++)
        conduct_results_release(&results[w]);
    return r;
}

static int set_state(cJSON *entry, const char *state, const char *reason, const char *time_key)
{
    char now[MST_UTC_TEXT_BYTES];

    mst_utc_text(mst_wall_s(), now);
    return conduct_entry_set_text(entry, "state", state) < 0 ||
                   conduct_entry_set_text(entry, "reason", reason) < 0 ||
                   conduct_entry_set_text(entry, time_key, now) < 0
               ? -ENOMEM
               : 0;
}

/* ---- all of it ---- */

static int carry_out(struct turn *turn, cJSON *entry, struct mst_error *err)
{
    static const int caught[] = {SIGINT, SIGTERM};
    struct conduct *conduct = turn->conduct;
    struct launches watches = LAUNCHES_INIT(conduct->signal_fd);
    struct mst_error ignored = MST_ERROR_INIT;
    int r = mst_make_folders(turn->folder, 0755, err);

    if (r >= 0 && conduct_needs_hosts(conduct->options))
        r = start_watches(turn, &watches, err);
    turn->ordered_s = mst_wall_s();
    turn->deadline_ns = mst_now_ns() + conduct->options->run_timeout_ns;
    /* The hosts are watched by the same loop. */
    turn->set = watches;
    if (r >= 0)
        r = turn->mode->kind == CONDUCT_PROCESS ? conduct_bare(turn, err) : conduct_container(turn, err);
    if (r == -ECANCELED) /* the next Ctrl-C ends this program as it stands, and what it started with it */
        mst_signals_restore(caught, MST_ARRAY_COUNT(caught));
    launches_end(&turn->set, WATCH_END_MS);
    if (r >= 0)
        r = look_at_results(turn, entry, err);
    if (add_folders(turn, entry, r < 0 ? &ignored : err) < 0 && r >= 0)
        r = -ENOMEM;
    launches_release(&turn->set);
    release_watches(turn);
    return r;
}

int conduct_turn(struct conduct *conduct, struct conduct_cell *cell, struct mst_error *err)
{
    struct turn *turn = calloc(1, sizeof *turn);
    cJSON *entry = conduct_entry_new(conduct, cell, conduct->next_number, "running");
    struct mst_error why = MST_ERROR_INIT;
    int r, state;

    if (!turn || !entry || set_state(entry, "running", NULL, "started") < 0 ||
        !cJSON_AddItemToArray(conduct->entries, entry)) {
        free(turn);
        cJSON_Delete(entry);
        return mst_error_set(err, -ENOMEM, "run %u: no memory", conduct->next_number);
    }
    turn->conduct = conduct;
    turn->cell = cell;
    turn->mode = &conduct->options->modes[cell->mode];
    turn->number = conduct->next_number++;
    (void)snprintf(turn->folder, sizeof turn->folder, "%s/runs/%03u-%s", conduct->out, turn->number,
                   turn->mode->name);
    /* While it runs it stands in the record as running, and no more among the planned ones. */
    cell->is_complete = true;
    r = conduct_record_write(conduct, CONDUCT_UNFINISHED, NULL, err);
    cell->is_complete = false;
    if (r < 0) {
        free(turn);
        return r;
    }
    r = carry_out(turn, entry, &why);
    cell->attempts++;
    cell->is_complete = r >= 0;
    state = set_state(entry,
                      r >= 0            ? "complete"
                      : r == -ECANCELED ? "interrupted"
                                        : "failed",
                      r < 0 ? why.text : NULL, "ended");
    free(turn);
    if (state < 0)
        return mst_error_set(err, state, "run: no memory");
    return r < 0 ? mst_error_set(err, r, "%s", why.text) : 0;
}
