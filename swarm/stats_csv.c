/* SPDX-License-Identifier: Apache-2.0 */
#include "stats_csv.h"

#include "muster/buf.h"
#include "muster/cleanup.h"
#include "muster/csv.h"
#include "muster/file.h"
#include "muster/json.h"

#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define CONTAINERS_MAX  4096
#define ROWS_BYTES      ((size_t)256 << 10)
#define FLUSH_BYTES     ((size_t)64 << 10)
#define EXACT_INT_LIMIT 9007199254740992.0 /* 2^53 */

/* The sample before of each container, for the CPU's rate. */
struct container_before {
    char id[72];
    double cpu_ns, at_ns;
};

struct stats_csv {
    struct mst_file_writer file; /* where files cannot be without a name; else its path and fd alone */
    struct mst_buf rows;
    struct container_before *before;
    size_t before_count, row_count;
    char stack[128];
    bool is_named;
};

/* A file without a name: nobody has to clean it up. */
static int open_file(struct stats_csv *stats, const char *path, struct mst_error *err)
{
    const char *slash = strrchr(path, '/');
    mst_cleanup(mst_freep) char *folder =
        slash ? strndup(path, slash == path ? 1 : (size_t)(slash - path)) : strdup(".");

    stats->file.path = folder ? strdup(path) : NULL;
    if (!stats->file.path)
        return mst_error_set(err, -ENOMEM, "write '%s': no memory", path);
    stats->file.fd = open(folder, O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600);
    if (stats->file.fd >= 0 && fchmod(stats->file.fd, 0644) == 0)
        return 0;
    if (stats->file.fd >= 0 || (errno != EOPNOTSUPP && errno != EISDIR))
        return mst_error_errno(err, -errno, "open a file in '%s'", folder);
    free(stats->file.path);
    stats->file = (struct mst_file_writer){.fd = -1};
    const int r = mst_file_writer_open(&stats->file, path, 0644, err);
    stats->is_named = r >= 0;
    return r;
}

static int name_file(struct stats_csv *stats, struct mst_error *err)
{
    char ours[32];

    (void)snprintf(ours, sizeof ours, "/proc/self/fd/%d", stats->file.fd);
    if (fsync(stats->file.fd) < 0 ||
        linkat(AT_FDCWD, ours, AT_FDCWD, stats->file.path, AT_SYMLINK_FOLLOW) < 0)
        return mst_error_errno(err, -errno, "write '%s'", stats->file.path);
    return 0;
}

int stats_csv_new(const char *path, const char *stack, struct stats_csv **ret_stats, struct mst_error *err)
{
    mst_cleanup(stats_csv_freep) struct stats_csv *stats = calloc(1, sizeof *stats);
    int r;

    if (!stats)
        return mst_error_set(err, -ENOMEM, "write '%s': no memory", path);
    stats->rows = (struct mst_buf)MST_BUF_INIT(ROWS_BYTES);
    stats->file.fd = -1;
    (void)snprintf(stats->stack, sizeof stats->stack, "%s", stack);
    r = open_file(stats, path, err);
    if (r < 0)
        return r;
    if (mst_buf_append_text(&stats->rows, MST_CSV_STATS_HEADER) < 0)
        return mst_error_set(err, -ENOMEM, "write '%s': no memory", path);
    *ret_stats = stats;
    stats = NULL;
    return 0;
}

void stats_csv_free(struct stats_csv *stats)
{
    if (!stats)
        return;
    if (stats->is_named) {
        mst_file_writer_discard(&stats->file);
    } else {
        mst_closep(&stats->file.fd);
        free(stats->file.path);
    }
    mst_buf_release(&stats->rows);
    free(stats->before);
    free(stats);
}

void stats_csv_freep(struct stats_csv **stats)
{
    stats_csv_free(*stats);
    *stats = NULL;
}

size_t stats_csv_rows(const struct stats_csv *stats)
{
    return stats->row_count;
}

static int flush(struct stats_csv *stats, struct mst_error *err)
{
    const int r = mst_write_all(stats->file.fd, mst_buf_text(&stats->rows), stats->rows.count);

    mst_buf_clear(&stats->rows);
    return r < 0 ? mst_error_errno(err, r, "write '%s'", stats->file.path) : 0;
}

static struct container_before *find_before(struct stats_csv *stats, const char *id)
{
    struct container_before *before;

    for (size_t i = 0; i < stats->before_count; i++) {
        if (strcmp(stats->before[i].id, id) == 0)
            return &stats->before[i];
    }
    if (stats->before_count >= CONTAINERS_MAX)
        return NULL;
    before = reallocarray(stats->before, stats->before_count + 1, sizeof *before);
    if (!before)
        return NULL;
    stats->before = before;
    before[stats->before_count] = (struct container_before){.cpu_ns = -1};
    (void)snprintf(before[stats->before_count].id, sizeof before->id, "%s", id);
    return &before[stats->before_count++];
}

/* 100 is one core. Nothing in a container's first row, or after its counter went back (it was started again).
 */
static int append_percent(struct stats_csv *stats, const cJSON *sample, const char *id)
{
    const double cpu_ns = mst_json_double_or(sample, "cpu_ns", -1);
    const double at_ns = mst_json_double_or(sample, "read_ns", mst_json_double_or(sample, "t", 0) * 1e9);
    struct container_before *before = find_before(stats, id);
    int r;

    if (before && before->cpu_ns >= 0 && cpu_ns >= before->cpu_ns && at_ns > before->at_ns)
        r = mst_buf_printf(&stats->rows, "%.2f,", 100 * (cpu_ns - before->cpu_ns) / (at_ns - before->at_ns));
    else
        r = mst_buf_append_text(&stats->rows, ",");
    if (before) {
        before->cpu_ns = cpu_ns;
        before->at_ns = at_ns;
    }
    return r;
}

static int append_count(struct mst_buf *rows, const cJSON *sample, const char *key, char end)
{
    const double value = mst_json_double_or(sample, key, -1);

    return value >= 0 && value < EXACT_INT_LIMIT ? mst_buf_printf(rows, "%" PRIu64 "%c", (uint64_t)value, end)
                                                 : mst_buf_append(rows, &end, 1);
}

static int append_row(struct stats_csv *stats, const cJSON *sample, double time_s, const char *id)
{
    static const char *const names[] = {"node", "stack", "service", "task_slot", "container", "name"};
    static const char *const counts[] = {"memory_bytes", "memory_limit_bytes", "rx_bytes",
                                         "tx_bytes",     "rx_packets",         "tx_packets"};
    const double cpu_ns = mst_json_double_or(sample, "cpu_ns", -1);
    int r = mst_buf_printf(&stats->rows, "%.3f,", time_s);

    for (size_t i = 0; i < MST_ARRAY_COUNT(names) && r >= 0; i++)
        r = mst_csv_append(&stats->rows, mst_json_string_or(sample, names[i], ""), ',');
    if (r >= 0)
        r = append_percent(stats, sample, id);
    if (r >= 0)
        r = cpu_ns >= 0 ? mst_buf_printf(&stats->rows, "%.9f,", cpu_ns / 1e9)
                        : mst_buf_append_text(&stats->rows, ",");
    for (size_t i = 0; i < MST_ARRAY_COUNT(counts) && r >= 0; i++)
        r = append_count(&stats->rows, sample, counts[i], i + 1 < MST_ARRAY_COUNT(counts) ? ',' : '\n');
    return r;
}

int stats_csv_add(struct stats_csv *stats, const cJSON *sample, struct mst_error *err)
{
    const double time_s = mst_json_double_or(sample, "t", 0);
    const char *id = mst_json_string_or(sample, "container", "");
    const size_t before = stats->rows.count;

    if (!(time_s > 0) || !isfinite(time_s) || id[0] == '\0' ||
        strcmp(mst_json_string_or(sample, "stack", ""), stats->stack) != 0)
        return 0;
    if (append_row(stats, sample, time_s, id) < 0) {
        stats->rows.count = before;
        return mst_error_set(err, -ENOMEM, "write '%s': a row does not fit", stats->file.path);
    }
    stats->row_count++;
    return stats->rows.count >= FLUSH_BYTES ? flush(stats, err) : 0;
}

int stats_csv_commit(struct stats_csv *stats, struct mst_error *err)
{
    int r;

    if (stats->row_count == 0)
        return 0; /* _free takes the file away */
    r = flush(stats, err);
    if (r < 0)
        return r;
    if (!stats->is_named)
        return name_file(stats, err);
    stats->is_named = false;
    return mst_file_writer_commit(&stats->file, err);
}
