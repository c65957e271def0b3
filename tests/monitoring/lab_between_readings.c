/* SPDX-License-Identifier: Apache-2.0 */
/* lab_between_readings HOST: the rows of `muster-monitor csv` against two one-shot readings of the Engine,
 * one before and one after them, for every running container: counters must lie between, and so must memory,
 * but for some slack, since it goes up and down. Used by lab_counters.sh. Exit code 0 when all is well. */
#include "muster/cleanup.h"
#include "muster/clock.h"
#include "muster/engine.h"
#include "muster/json.h"
#include "muster/parse.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#define CONTAINERS_MAX   64
#define TICKS            5
#define MEMORY_SLACK     ((uint64_t)1 << 20)
#define COLUMN_CONTAINER 5
#define COLUMNS          15
#define LINE_MAX_BYTES   2048
#define DEADLINE_NS      (20 * MST_NS_PER_S)

enum value { CPU_NS, MEMORY, MEMORY_LIMIT, RX_BYTES, TX_BYTES, RX_PACKETS, TX_PACKETS, VALUES };
static const char *const value_names[VALUES] = {"cpu_seconds_total", "memory_bytes", "memory_limit_bytes",
                                                "rx_bytes",          "tx_bytes",     "rx_packets",
                                                "tx_packets"};

struct container {
    char id[ENGINE_NAME_MAX_BYTES];
    uint64_t before[VALUES], after[VALUES];
    bool has_network;
    size_t rows;
};

struct node {
    struct container containers[CONTAINERS_MAX];
    size_t count, faults;
};

static void read_engine(struct engine *engine, const char *id, uint64_t values[static VALUES],
                        bool *ret_has_network)
{
    mst_cleanup(mst_buf_release) struct mst_buf path = MST_BUF_INIT(1024);
    mst_cleanup(engine_reply_release) struct engine_reply reply = {0};
    struct mst_error err = MST_ERROR_INIT;
    (void)engine_path(&path, "/containers/", id, "/stats");
    const struct engine_call call = {
        .method = "GET", .path = mst_buf_text(&path), .query = "stream=false&one-shot=true"};
    if (engine_request(engine, &call, &reply, &err) < 0) {
        (void)fprintf(stderr, "%s\n", err.text);
        exit(1);
    }
    const cJSON *memory = mst_json_at(reply.json, "memory_stats", NULL),
                *stats = mst_json_at(memory, "stats", NULL);
    const cJSON *cpu = mst_json_at(reply.json, "cpu_stats", "cpu_usage", NULL);
    const cJSON *networks = mst_json_at(reply.json, "networks", NULL);
    const uint64_t usage = mst_json_u64_or(memory, "usage", 0);
    const uint64_t inactive =
        mst_json_u64_or(stats, "total_inactive_file", mst_json_u64_or(stats, "inactive_file", 0));
    memset(values, 0, VALUES * sizeof *values);
    values[CPU_NS] = mst_json_u64_or(cpu, "total_usage", 0);
    values[MEMORY] = inactive < usage ? usage - inactive : usage;
    values[MEMORY_LIMIT] = mst_json_u64_or(memory, "limit", 0);
    *ret_has_network = networks && networks->child;
    for (const cJSON *item = networks ? networks->child : NULL; item; item = item->next) {
        for (int v = RX_BYTES; v <= TX_PACKETS; v++)
            values[v] += mst_json_u64_or(item, value_names[v], 0);
    }
}

static void fault(struct node *node, const struct container *container, const char *what, const char *text,
                  uint64_t before, uint64_t after)
{
    node->faults++;
    (void)fprintf(stderr,
                  "container %.12s: %s is '%s', the Engine says %" PRIu64 " before and %" PRIu64 " after\n",
                  container->id, what, text, before, after);
}

/* "12.000000345" seconds to nanoseconds; other columns are whole numbers. */
static int to_value(enum value v, char *text, uint64_t *ret_value)
{
    char *dot = v == CPU_NS ? strchr(text, '.') : NULL;
    if (dot)
        memmove(dot, dot + 1, strlen(dot));
    return mst_parse_u64(text, 0, UINT64_MAX, ret_value, NULL);
}

static void check(struct node *node, const struct container *container, enum value v, char *text)
{
    const bool is_network = v >= RX_BYTES;
    const uint64_t a = container->before[v], b = container->after[v];
    const uint64_t slack = v == MEMORY ? MEMORY_SLACK : 0;
    const uint64_t low = (a < b ? a : b), high = (a < b ? b : a) + slack;
    uint64_t value;
    if (is_network && !container->has_network) {
        if (*text != '\0')
            fault(node, container, value_names[v], text, a, b);
        return;
    }
    if (to_value(v, text, &value) < 0 || value + slack < low || value > high)
        fault(node, container, value_names[v], text, a, b);
}

static struct container *find(struct node *node, const char *id)
{
    for (size_t i = 0; i < node->count; i++) {
        if (strcmp(node->containers[i].id, id) == 0)
            return &node->containers[i];
    }
    return NULL;
}

/* Rows are kept until the Engine has been read again. */
static void check_rows(struct node *node, char *rows)
{
    for (char *line; (line = strsep(&rows, "\n"));) {
        char *columns[COLUMNS];
        size_t count = 0;
        while (line && count < COLUMNS)
            columns[count++] = strsep(&line, ",");
        struct container *container = count == COLUMNS ? find(node, columns[COLUMN_CONTAINER]) : NULL;
        if (!container)
            continue; /* the header; one that has just begun */
        container->rows++;
        for (int v = 0; v < VALUES; v++)
            check(node, container, (enum value)v, columns[COLUMNS - VALUES + v]);
    }
}

/* TICKS ticks of `muster-monitor csv`, as text. */
static int record(const char *host, size_t containers, struct mst_buf *rows)
{
    const uint64_t deadline_ns = mst_now_ns() + DEADLINE_NS;
    size_t lines = 0;
    int fds[2], status = 0;
    if (pipe(fds) < 0)
        return -errno;
    const pid_t pid = fork();
    if (pid == 0) {
        (void)dup2(fds[1], STDOUT_FILENO);
        (void)close(fds[0]);
        (void)execl(MUSTER_MONITOR, "muster-monitor", "csv", "-H", host, "--interval", "100ms", "-",
                    (char *)NULL);
        _exit(99);
    }
    (void)close(fds[1]);
    while (lines < 1 + TICKS * containers && mst_now_ns() < deadline_ns) {
        char chunk[LINE_MAX_BYTES];
        const ssize_t got = read(fds[0], chunk, sizeof chunk);
        if (got <= 0 || mst_buf_append(rows, chunk, (size_t)got) < 0)
            break;
        for (ssize_t i = 0; i < got; i++)
            lines += chunk[i] == '\n';
    }
    (void)kill(pid, SIGTERM);
    (void)waitpid(pid, &status, 0);
    (void)close(fds[0]);
    return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : -EIO;
}

static int compare(struct engine *engine, struct node *node, struct mst_error *err)
{
    mst_cleanup(mst_json_deletep) cJSON *list = NULL;
    mst_cleanup(mst_buf_release) struct mst_buf rows = MST_BUF_INIT(16 << 20);
    int r = engine_list(engine, ENGINE_CONTAINER, NULL, NULL, &list, err);
    if (r < 0)
        return r;
    for (const cJSON *item = list->child; item && node->count < CONTAINERS_MAX; item = item->next) {
        struct container *container = &node->containers[node->count++];
        (void)snprintf(container->id, sizeof container->id, "%s", mst_json_string_or(item, "Id", ""));
        read_engine(engine, container->id, container->before, &container->has_network);
    }
    r = record(engine_host(engine), node->count, &rows);
    if (r < 0)
        return mst_error_errno(err, r, "run muster-monitor csv");
    for (size_t i = 0; i < node->count; i++)
        read_engine(engine, node->containers[i].id, node->containers[i].after,
                    &node->containers[i].has_network);
    check_rows(node, rows.bytes);
    for (size_t i = 0; i < node->count; i++) {
        (void)printf("%.12s %zu rows, cpu %" PRIu64 " to %" PRIu64 " ns, rx %" PRIu64 " to %" PRIu64
                     " bytes\n",
                     node->containers[i].id, node->containers[i].rows, node->containers[i].before[CPU_NS],
                     node->containers[i].after[CPU_NS], node->containers[i].before[RX_BYTES],
                     node->containers[i].after[RX_BYTES]);
        if (node->containers[i].rows == 0)
            fault(node, &node->containers[i], "rows", "none", 0, 0);
    }
    return 0;
}

int main(int argc, char **argv)
{
    mst_cleanup(engine_freep) struct engine *engine = NULL;
    struct mst_error err = MST_ERROR_INIT;
    static struct node node;
    int r = engine_new(&(struct engine_options){.host = argc > 1 ? argv[1] : NULL}, &engine, &err);
    if (r == 0)
        r = compare(engine, &node, &err);
    if (r < 0)
        (void)fprintf(stderr, "%s\n", err.text);
    (void)printf("%zu containers, %zu faults\n", node.count, node.faults);
    return r < 0 || node.faults > 0 || node.count == 0;
}
