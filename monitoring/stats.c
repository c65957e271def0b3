/* SPDX-License-Identifier: Apache-2.0 */
#include "stats.h"

#include "muster/cleanup.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SHORT_ID 12

/* ---- rows ---- */

static uint64_t machine_memory(const struct monitor_pass *pass)
{
    return pass->machine.memory_bytes ? pass->machine.memory_bytes : UINT64_MAX;
}

static struct stats_row row_of(const struct monitor_pass *pass, const struct stats_options *options, size_t i)
{
    const struct monitor_sample *sample = &pass->samples[i], *before = &pass->before[i];
    const struct monitor_container *info = sample->container;
    struct stats_row row = {.containers = 1};
    memcpy(row.id, info->id, sizeof row.id);
    memcpy(row.name, info->name, sizeof row.name);
    memcpy(row.service, info->service, sizeof row.service);
    row.has_cpu = monitor_cpu_percent(before->read_ns ? before : NULL, sample, &row.cpu_percent);
    row.cpu_percent *= options->cpu_scale > 0 ? options->cpu_scale : 1;
    if (options->is_docker_cpu && before->read_ns)
        row.has_cpu = monitor_docker_percent(before, sample, &row.cpu_percent) || row.has_cpu;
    row.has_memory = monitor_memory_used(sample, &row.memory_bytes);
    row.has_limit = monitor_memory_limit(sample, machine_memory(pass), &row.limit_bytes);
    row.has_net = sample->groups & MONITOR_NETWORK;
    row.rx_bytes = row.has_net ? sample->rx_bytes : 0;
    row.tx_bytes = row.has_net ? sample->tx_bytes : 0;
    row.has_block = sample->groups & MONITOR_IO;
    row.read_bytes = row.has_block ? sample->io_read_bytes : 0;
    row.write_bytes = row.has_block ? sample->io_write_bytes : 0;
    row.has_pids = sample->groups & MONITOR_THREADS;
    row.pids = row.has_pids ? sample->threads : 0;
    return row;
}

/* Rows of one node come together. */
static void add_node(struct stats_row *sum, const struct stats_row *row)
{
    if (sum->nodes > 0 && strcmp(sum->node, row->node) == 0)
        return;
    memcpy(sum->node, row->node, sizeof sum->node);
    sum->nodes++;
}

static void add_row(struct stats_row *sum, const struct stats_row *row)
{
    add_node(sum, row);
    sum->containers += row->containers;
    sum->cpu_percent += row->has_cpu ? row->cpu_percent : 0;
    sum->has_cpu = sum->has_cpu || row->has_cpu;
    sum->memory_bytes += row->memory_bytes;
    sum->has_memory = sum->has_memory || row->has_memory;
    sum->limit_bytes += row->limit_bytes;
    sum->has_limit = sum->has_limit || row->has_limit;
    sum->rx_bytes += row->rx_bytes;
    sum->tx_bytes += row->tx_bytes;
    sum->has_net = sum->has_net || row->has_net;
    sum->read_bytes += row->read_bytes;
    sum->write_bytes += row->write_bytes;
    sum->has_block = sum->has_block || row->has_block;
    sum->pids += row->pids;
    sum->has_pids = sum->has_pids || row->has_pids;
}

static int compare_numbers(double a, double b)
{
    return (a < b) - (a > b); /* the largest first */
}

static int compare_rows(const void *left, const void *right, void *context)
{
    const struct stats_row *a = left, *b = right;
    int r = 0;
    switch (*(const enum stats_column *)context) {
    case STATS_NAME:
        break;
    case STATS_CPU:
        r = compare_numbers(a->cpu_percent, b->cpu_percent);
        break;
    case STATS_MEMORY:
        r = compare_numbers((double)a->memory_bytes, (double)b->memory_bytes);
        break;
    case STATS_NET:
        r = compare_numbers((double)a->rx_bytes + (double)a->tx_bytes,
                            (double)b->rx_bytes + (double)b->tx_bytes);
        break;
    case STATS_BLOCK:
        r = compare_numbers((double)a->read_bytes + (double)a->write_bytes,
                            (double)b->read_bytes + (double)b->write_bytes);
        break;
    case STATS_PIDS:
        r = compare_numbers((double)a->pids, (double)b->pids);
        break;
    }
    return r ? r : strcmp(a->name, b->name);
}

/* The row of a service, added if need be. Containers of none keep their own. */
static struct stats_row *service_row(struct stats_row *rows, size_t *count, const char *service)
{
    for (size_t i = 0; i < *count; i++) {
        if (!*rows[i].id && !*rows[i].fault && strcmp(rows[i].name, service) == 0)
            return &rows[i];
    }
    struct stats_row *row = &rows[(*count)++];
    *row = (struct stats_row){0};
    memcpy(row->name, service, sizeof row->name);
    return row;
}

void stats_arrange(struct stats_row *rows, size_t *count, const struct stats_options *options)
{
    size_t kept = 0;
    for (size_t i = 0; options->by_service && i < *count; i++) {
        const struct stats_row row = rows[i]; /* its place may be taken: there are never more than before */
        if (*row.service)
            add_row(service_row(rows, &kept, row.service), &row);
        else
            rows[kept++] = row;
    }
    *count = options->by_service ? kept : *count;
    enum stats_column sort = options->sort;
    if (options->is_sorted)
        qsort_r(rows, *count, sizeof *rows, compare_rows, &sort);
}

int stats_rows(const struct monitor_pass *pass, const struct stats_options *options,
               struct stats_row **ret_rows, size_t *ret_count, struct mst_error *err)
{
    struct stats_row *rows = calloc(pass->count + 1, sizeof *rows);
    size_t count = 0;
    if (!rows)
        return mst_error_set(err, -ENOMEM, "a table of %zu rows: no memory", pass->count);
    for (size_t i = 0; i < pass->count; i++) {
        if (!pass->samples[i].container->is_machine)
            rows[count++] = row_of(pass, options, i);
    }
    stats_arrange(rows, &count, options);
    *ret_rows = rows;
    *ret_count = count;
    return 0;
}

/* ---- Docker's numbers ---- */

static void with_unit(double size, double base, const char *const *units, size_t count, int digits,
                      char text[static 32])
{
    size_t unit = 0;
    while (size >= base && unit + 1 < count) {
        size /= base;
        unit++;
    }
    (void)snprintf(text, 32, "%.*g%s", digits, size, units[unit]);
}

void stats_binary(double bytes, char text[static 32])
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    with_unit(bytes, 1024, units, MST_ARRAY_COUNT(units), 4, text);
}

void stats_decimal(double bytes, char text[static 32])
{
    static const char *const units[] = {"B", "kB", "MB", "GB", "TB", "PB", "EB"};
    with_unit(bytes, 1000, units, MST_ARRAY_COUNT(units), 3, text);
}

struct cells {
    char node[MONITOR_NAME_BYTES + 16], error[256];
    char container[MONITOR_NAME_BYTES], name[MONITOR_NAME_BYTES + 16], id[MONITOR_ID_BYTES];
    char cpu[32], mem_usage[80], mem_percent[32], net[80], block[80], pids[32];
};

static void pair(char *text, size_t capacity, bool is_known, uint64_t a, uint64_t b)
{
    char left[32], right[32];
    stats_decimal((double)a, left);
    stats_decimal((double)b, right);
    if (is_known)
        (void)snprintf(text, capacity, "%s / %s", left, right);
    else
        (void)snprintf(text, capacity, "--");
}

static void fill(const struct stats_row *row, const struct stats_options *options, struct cells *cells)
{
    char used[32], limit[32];
    (void)snprintf(cells->id, sizeof cells->id, "%.*s", options->with_full_ids ? 64 : SHORT_ID, row->id);
    if (!*row->id)
        (void)snprintf(cells->id, sizeof cells->id, "--");
    (void)snprintf(cells->name, sizeof cells->name, "%s%s", *row->fault ? "unreachable: " : "",
                   *row->fault  ? row->fault
                   : *row->name ? row->name
                                : "--");
    (void)snprintf(cells->error, sizeof cells->error, "%s", row->fault);
    if (row->nodes > 1)
        (void)snprintf(cells->node, sizeof cells->node, "%u nodes", row->nodes);
    else
        (void)snprintf(cells->node, sizeof cells->node, "%s", *row->node ? row->node : "--");
    (void)snprintf(cells->container, sizeof cells->container, "%.*s", MONITOR_NAME_BYTES - 1,
                   *row->id ? cells->id : cells->name);
    (void)snprintf(cells->cpu, sizeof cells->cpu, row->has_cpu ? "%.2f%%" : "--", row->cpu_percent);
    stats_binary((double)row->memory_bytes, used);
    stats_binary((double)row->limit_bytes, limit);
    const bool is_known = row->has_memory && row->has_limit;
    if (is_known)
        (void)snprintf(cells->mem_usage, sizeof cells->mem_usage, "%s / %s", used, limit);
    else
        (void)snprintf(cells->mem_usage, sizeof cells->mem_usage, "-- / --");
    if (is_known)
        (void)snprintf(cells->mem_percent, sizeof cells->mem_percent, "%.2f%%",
                       row->limit_bytes ? 100.0 * (double)row->memory_bytes / (double)row->limit_bytes : 0.0);
    else
        (void)snprintf(cells->mem_percent, sizeof cells->mem_percent, "--");
    pair(cells->net, sizeof cells->net, row->has_net, row->rx_bytes, row->tx_bytes);
    pair(cells->block, sizeof cells->block, row->has_block, row->read_bytes, row->write_bytes);
    (void)snprintf(cells->pids, sizeof cells->pids, row->has_pids ? "%" PRIu64 : "--", row->pids);
}

/* ---- Docker's templates ---- */

static const struct {
    const char *key, *heading;
    size_t offset;
} placeholders[] = {
    {"BlockIO", "BLOCK I/O", offsetof(struct cells, block)},
    {"CPUPerc", "CPU %", offsetof(struct cells, cpu)},
    {"Container", "CONTAINER", offsetof(struct cells, container)},
    {"ID", "CONTAINER ID", offsetof(struct cells, id)},
    {"MemPerc", "MEM %", offsetof(struct cells, mem_percent)},
    {"MemUsage", "MEM USAGE / LIMIT", offsetof(struct cells, mem_usage)},
    {"Name", "NAME", offsetof(struct cells, name)},
    {"NetIO", "NET I/O", offsetof(struct cells, net)},
    {"PIDs", "PIDS", offsetof(struct cells, pids)},
    {"Node", "NODE", offsetof(struct cells, node)}, /* with_nodes, as the next */
    {"Error", "ERROR", offsetof(struct cells, error)},
};
#define PLACEHOLDERS_OF_NODES 2

static size_t count_placeholders(const struct stats_options *options)
{
    return MST_ARRAY_COUNT(placeholders) - (options->with_nodes ? 0 : PLACEHOLDERS_OF_NODES);
}

#define DEFAULT_TEMPLATE                                                                                     \
    "{{.ID}}\t{{.Name}}\t{{.CPUPerc}}\t{{.MemUsage}}\t{{.MemPerc}}\t{{.NetIO}}\t{{.BlockIO}}\t{{.PIDs}}"

static int json_string(struct mst_buf *text, const char *value)
{
    int r = mst_buf_append(text, "\"", 1);
    for (; *value && r == 0; value++) {
        const unsigned char c = (unsigned char)*value;
        if (c == '"' || c == '\\')
            r = mst_buf_printf(text, "\\%c", c);
        else if (c < 0x20)
            r = mst_buf_printf(text, "\\u%04x", c);
        else
            r = mst_buf_append(text, value, 1);
    }
    return r == 0 ? mst_buf_append(text, "\"", 1) : r;
}

static int json_row(struct mst_buf *text, const struct cells *cells, size_t known)
{
    int r = 0;
    for (size_t i = 0; r == 0 && i < known; i++) {
        r = mst_buf_printf(text, "%s\"%s\":", i ? "," : "{", placeholders[i].key);
        if (r == 0)
            r = json_string(text, (const char *)cells + placeholders[i].offset);
    }
    return r == 0 ? mst_buf_append(text, "}\n", 2) : r;
}

/* `cells` NULL: the headings. Escapes are Go's as Docker reads them: \t and \n. */
static int expand(struct mst_buf *text, const char *template, const struct cells *cells, size_t known,
                  struct mst_error *err)
{
    int r = 0;
    while (*template && r == 0) {
        if (strncmp(template, "\\t", 2) == 0 || strncmp(template, "\\n", 2) == 0) {
            r = mst_buf_append(text, template[1] == 't' ? "\t" : "\n", 1);
            template += 2;
            continue;
        }
        if (strncmp(template, "{{", 2) != 0) {
            r = mst_buf_append(text, template ++, 1);
            continue;
        }
        const char *end = strstr(template, "}}"), *key = template + 2 + strspn(template + 2, " ");
        const size_t bytes = *key == '.' ? strcspn(key + 1, " }") : 0;
        const bool is_json = end && strncmp(key, "json .", 6) == 0;
        size_t i = 0;
        while (i < known && !(strlen(placeholders[i].key) == bytes && end &&
                              strncmp(placeholders[i].key, key + 1, bytes) == 0))
            i++;
        if (is_json && cells) {
            r = json_row(text, cells, known);
            if (r == 0)
                text->count--; /* its line end is the template's matter */
        } else if (!is_json && (!end || i == known)) {
            return mst_error_set(
                err, -EINVAL,
                "template: '%.40s' is none of {{.Container}}, {{.Name}}, {{.ID}}, {{.CPUPerc}}, "
                "{{.MemUsage}}, {{.MemPerc}}, {{.NetIO}}, {{.BlockIO}}, {{.PIDs}}%s",
                template, known == MST_ARRAY_COUNT(placeholders) ? ", {{.Node}}, {{.Error}}" : "");
        } else if (!is_json) {
            r = mst_buf_append_text(text, cells ? (const char *)cells + placeholders[i].offset
                                                : placeholders[i].heading);
        }
        template = end + 2;
    }
    return r;
}

/* Lines with tabs to columns, three blanks apart, as Go's tabwriter does for Docker. */
static int align(const char *lines, struct mst_buf *text)
{
    enum { COLUMNS = 16 };
    size_t widths[COLUMNS] = {0}, number = 0;
    int r = 0;
    for (const char *at = lines; *at;) {
        const size_t bytes = strcspn(at, "\t\n");
        if (at[bytes] == '\t' && number < COLUMNS && bytes > widths[number])
            widths[number] = bytes;
        number = at[bytes] == '\t' ? number + 1 : 0;
        at += bytes + (at[bytes] != '\0');
    }
    number = 0;
    for (const char *at = lines; *at && r == 0;) {
        const size_t bytes = strcspn(at, "\t\n");
        const bool is_last = at[bytes] != '\t';
        const size_t width = number < COLUMNS ? widths[number] : bytes;
        r = is_last ? mst_buf_printf(text, "%.*s", (int)bytes, at)
                    : mst_buf_printf(text, "%-*.*s   ", (int)width, (int)bytes, at);
        number++;
        at += bytes;
        if (r == 0 && *at == '\n') {
            r = mst_buf_append(text, "\n", 1);
            number = 0;
        }
        at += *at != '\0';
    }
    return r;
}

int stats_print(const struct stats_row *rows, size_t count, const struct stats_options *options,
                struct mst_buf *text, struct mst_error *err)
{
    mst_cleanup(mst_buf_release) struct mst_buf lines = MST_BUF_INIT(text->max_bytes);
    const char *template = options->format ? options->format : "table";
    const bool is_table = strncmp(template, "table", 5) == 0 && (template[5] == '\0' || template[5] == ' ');
    const bool is_json = strcmp(template, "json") == 0;
    const size_t known = count_placeholders(options);
    int r = 0;
    if (is_table) {
        template = template[5]           ? template + 6
                   : options->with_nodes ? "{{.Node}}\t" DEFAULT_TEMPLATE
                                         : DEFAULT_TEMPLATE;
        r = expand(&lines, template, NULL, known, err);
        if (r == 0)
            r = mst_buf_append(&lines, "\n", 1);
    }
    for (size_t i = 0; r == 0 && i < count; i++) {
        struct cells cells;
        fill(&rows[i], options, &cells);
        r = is_json ? json_row(&lines, &cells, known) : expand(&lines, template, &cells, known, err);
        if (r == 0 && !is_json)
            r = mst_buf_append(&lines, "\n", 1);
    }
    if (r == 0)
        r = is_table ? align(mst_buf_text(&lines), text)
                     : mst_buf_append(text, mst_buf_text(&lines), lines.count);
    return r < 0 && r != -EINVAL ? mst_error_errno(err, r, "a table of %zu rows", count) : r;
}

int stats_check(const struct stats_options *options, struct mst_error *err)
{
    mst_cleanup(mst_buf_release) struct mst_buf text = MST_BUF_INIT((size_t)1 << 20);
    const struct stats_row row = {.name = "x"};
    return stats_print(&row, 1, options, &text, err);
}
