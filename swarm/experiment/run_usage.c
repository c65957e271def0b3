/* SPDX-License-Identifier: Apache-2.0 */
/* stats.csv and nodes.csv: what containers, processes and nodes used over time. */
#include "csvread.h"
#include "muster/buf.h"
#include "muster/cleanup.h"
#include "muster/file.h"
#include "runs.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define USAGE_MAX_BYTES ((size_t)256 << 20)
#define SERIES_MAX      4096
#define LARGE           9.3e18 /* counters of 64 bits */

#define NODE_ID_BYTES 25
#define NAME_BYTES    256

enum column { TIME, NODE, CPU, RX, TX, SLOT, NAME, COLUMN_COUNT }; /* nodes.csv has neither of the last two */

/* A task by its slot, which a container that was started again keeps; of a global service without the node's
 * id, for the node is told anyway. What has no slot goes by its name. */
static int display_name(const char *slot, const char *name, char *text, size_t bytes)
{
    const char *const dot = strrchr(slot, '.');
    const bool has_id = dot && strlen(dot + 1) == NODE_ID_BYTES;

    return slot[0] == '\0'
               ? snprintf(text, bytes, "%s", name)
               : snprintf(text, bytes, "%.*s", (int)(has_id ? (size_t)(dot - slot) : strlen(slot)), slot);
}

static struct run_usage *find_series(struct run *run, const char *node, const char *name)
{
    struct run_usage *grown;

    for (size_t i = 0; i < run->usage_count; i++) {
        if (strcmp(run->usage[i].node, node) == 0 && strcmp(run->usage[i].name, name) == 0)
            return &run->usage[i];
    }
    if (run->usage_count >= SERIES_MAX)
        return NULL;
    grown = reallocarray(run->usage, run->usage_count + 1, sizeof *grown);
    if (!grown)
        return NULL;
    run->usage = grown;
    grown += run->usage_count;
    *grown = (struct run_usage){.name = strdup(name), .node = strdup(node)};
    run->usage_count++;
    return grown->name && grown->node ? grown : NULL;
}

static int add_row(struct run_usage *series, const double values[COLUMN_COUNT])
{
    double **const lists[] = {&series->time_s, &series->cpu_percent, &series->rx_bytes, &series->tx_bytes};
    const double row[] = {values[TIME], values[CPU], values[RX], values[TX]};
    const bool is_full = (series->count & (series->count - 1)) == 0; /* doubled at each power of two */

    for (size_t i = 0; i < MST_ARRAY_COUNT(lists); i++) {
        if (is_full) {
            double *const grown =
                reallocarray(*lists[i], series->count > 0 ? 2 * series->count : 1, sizeof *grown);
            if (!grown)
                return -ENOMEM;
            *lists[i] = grown;
        }
        (*lists[i])[series->count] = row[i];
    }
    series->count++;
    return 0;
}

static int load_file(const char *path, bool is_nodes, struct run *run, struct mst_error *err)
{
    static const char *const names[COLUMN_COUNT] = {"time",     "node", "cpu_percent", "rx_bytes",
                                                    "tx_bytes", "slot", "name"};
    mst_cleanup(csvread_release) struct csvread csv = {0};
    size_t columns[COLUMN_COUNT] = {0};
    int r = csvread_load(path, USAGE_MAX_BYTES, &csv, err);

    for (size_t i = 0; i < COLUMN_COUNT && r >= 0; i++) {
        if (i < SLOT || !is_nodes)
            r = csvread_column(&csv, names[i], &columns[i], err);
    }
    for (size_t row = 0; row < csv.rows && r >= 0; row++) {
        double values[COLUMN_COUNT] = {0};
        char name[NAME_BYTES] = "";
        struct run_usage *series;
        for (size_t i = 0; i < SLOT && r >= 0; i++) {
            if (i != NODE)
                r = csvread_number(&csv, row, columns[i], 0, LARGE, i != TIME, &values[i], err);
        }
        if (r < 0)
            return r;
        if (!is_nodes)
            (void)display_name(csvread_text(&csv, row, columns[SLOT]), csvread_text(&csv, row, columns[NAME]),
                               name, sizeof name);
        series = find_series(run, csvread_text(&csv, row, columns[NODE]), name);
        if (!series || add_row(series, values) < 0)
            r = mst_error_set(err, -EFBIG, "%s:%zu: more than %d containers, or no memory", path, row + 2,
                              SERIES_MAX);
    }
    return r;
}

int run_usage_load(const char *folder, struct run *run, struct mst_error *err)
{
    static const char *const files[] = {"stats.csv", "nodes.csv"};

    for (size_t i = 0; i < MST_ARRAY_COUNT(files); i++) {
        mst_cleanup(mst_freep) char *path = mst_path_join(folder, files[i]);
        int r = path ? 0 : mst_error_set(err, -ENOMEM, "%s: no memory", folder);
        if (r >= 0 && access(path, F_OK) == 0) {
            r = load_file(path, i == 1, run, err);
            run->has_nodes_csv = run->has_nodes_csv || i == 1;
        }
        if (r < 0)
            return r;
    }
    return 0;
}

void run_usage_release(struct run *run)
{
    for (size_t i = 0; i < run->usage_count; i++) {
        free(run->usage[i].name);
        free(run->usage[i].node);
        free(run->usage[i].time_s);
        free(run->usage[i].cpu_percent);
        free(run->usage[i].rx_bytes);
        free(run->usage[i].tx_bytes);
    }
    free(run->usage);
    run->usage = NULL;
    run->usage_count = 0;
}
