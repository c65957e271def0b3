/* SPDX-License-Identifier: Apache-2.0 */
/* The table of all nodes. */
#include "muster/cleanup.h"
#include "muster/clock.h"
#include "nodes.h"
#include "output.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TABLE_MAX_BYTES ((size_t)64 << 20)
#define ROWS_MAX        65536
#define FIRST_NS        MST_NS_PER_S /* between the two readings of --no-stream */
#define PERCENT         100.0

#define QUESTION                                                                                             \
    "/metrics?name[]=container_cpu_usage_seconds_total&name[]=container_memory_working_set_bytes"            \
    "&name[]=container_spec_memory_limit_bytes&name[]=container_network_receive_bytes_total"                 \
    "&name[]=container_network_transmit_bytes_total&name[]=container_fs_reads_bytes_total"                   \
    "&name[]=container_fs_writes_bytes_total&name[]=container_threads&name[]=machine_cpu_cores"              \
    "&name[]=machine_memory_bytes"

/* What a node said last. */
struct said {
    char url[PEERS_URL_BYTES], address[64];
    struct nodes_page page;
    uint64_t at_ns;
};

struct all_nodes {
    const struct monitor_options *monitor;
    struct stats_options options;
    struct peers *peers;
    struct nodes_names names;
    struct said *said; /* owned: of the round before */
    size_t said_count;
    struct stats_row *rows; /* owned */
    size_t row_count, row_room;
    struct mst_buf text;
    bool has_shown;
};

static uint64_t whole(double value)
{
    return value < 0 ? 0 : value >= 1.8e19 ? UINT64_MAX : (uint64_t)value;
}

static struct stats_row row_of(const struct nodes_page *page, const struct nodes_container *container,
                               const struct nodes_container *before, uint64_t between_ns, const char *node)
{
    struct stats_row row = {.containers = 1};
    const double limit =
        container->limit > 0 && container->limit < page->memory ? container->limit : page->memory;

    memcpy(row.id, container->id, sizeof row.id);
    memcpy(row.name, container->name, sizeof row.name);
    (void)snprintf(row.node, sizeof row.node, "%s", node);
    row.has_cpu = before && before->has_cpu && container->has_cpu && between_ns > 0 &&
                  container->cpu_s >= before->cpu_s;
    if (row.has_cpu)
        row.cpu_percent =
            PERCENT * (container->cpu_s - before->cpu_s) / ((double)between_ns / (double)MST_NS_PER_S);
    row.has_memory = container->has_memory;
    row.memory_bytes = whole(container->memory);
    row.has_limit = limit > 0;
    row.limit_bytes = whole(limit);
    row.has_net = container->has_net;
    row.rx_bytes = whole(container->rx);
    row.tx_bytes = whole(container->tx);
    row.has_block = container->has_block;
    row.read_bytes = whole(container->read);
    row.write_bytes = whole(container->write);
    row.has_pids = container->has_threads;
    row.pids = whole(container->threads);
    return row;
}

size_t nodes_rows(const struct nodes_page *page, const struct nodes_page *before, uint64_t between_ns,
                  const char *node, const char *stack, struct stats_row *rows)
{
    size_t count = 0;

    for (size_t i = 0; i < page->count; i++) {
        const struct nodes_container *container = &page->items[i],
                                     *old = before ? nodes_page_find(before, container->id) : NULL;
        if (container->id[0] == '\0' || !container->has_cpu ||
            (stack && strcmp(stack, container->stack) != 0))
            continue;
        rows[count] = row_of(page, container, old, between_ns, node);
        memcpy(rows[count].service, container->service, sizeof rows[count].service);
        count++;
    }
    return count;
}

static int make_room(struct all_nodes *all, size_t more, struct mst_error *err)
{
    struct stats_row *rows;
    const size_t wanted = all->row_count + more;

    if (wanted <= all->row_room)
        return 0;
    if (wanted > ROWS_MAX)
        return mst_error_set(err, -E2BIG, "more than %d containers on all nodes", ROWS_MAX);
    rows = reallocarray(all->rows, 2 * wanted, sizeof *rows);
    if (!rows)
        return mst_error_set(err, -ENOMEM, "a table of %zu rows: no memory", wanted);
    all->rows = rows;
    all->row_room = 2 * wanted;
    return 0;
}

static const struct said *said_before(const struct all_nodes *all, const struct peers_node *node)
{
    for (size_t i = 0; i < all->said_count; i++) {
        if (strcmp(all->said[i].url, node->url) == 0 && strcmp(all->said[i].address, node->address) == 0)
            return &all->said[i];
    }
    return NULL;
}

static void add_silent(struct all_nodes *all, const char *node, const char *why)
{
    struct stats_row *row = &all->rows[all->row_count++];

    *row = (struct stats_row){.containers = 0};
    (void)snprintf(row->node, sizeof row->node, "%s", node);
    (void)snprintf(row->fault, sizeof row->fault, "%s", why[0] ? why : "no reason given");
}

/* One node's answer to rows; what it said is kept for the next round. */
static int take_answer(struct all_nodes *all, const struct peers_node *node,
                       const struct peers_answer *answer, struct said *said, struct mst_error *err)
{
    const struct said *before = said_before(all, node);
    const char *name = nodes_name(&all->names, node);
    struct mst_error fault = MST_ERROR_INIT;
    int r;

    (void)snprintf(said->url, sizeof said->url, "%s", node->url);
    (void)snprintf(said->address, sizeof said->address, "%s", node->address);
    said->at_ns = answer->at_ns;
    if (answer->code >= 0 && nodes_page_read(mst_buf_text(&answer->body), &said->page, &fault) == -ENOMEM)
        return mst_error_set(err, -ENOMEM, "%s", fault.text);
    r = make_room(all, said->page.count + 1, err);
    if (r < 0)
        return r;
    if (answer->code < 0 || fault.code < 0)
        add_silent(all, name, answer->code < 0 ? answer->fault : fault.text);
    else
        all->row_count +=
            nodes_rows(&said->page, before ? &before->page : NULL, before ? said->at_ns - before->at_ns : 0,
                       name, all->monitor->stack, all->rows + all->row_count);
    return 0;
}

static void said_free(struct said *said, size_t count)
{
    for (size_t i = 0; said && i < count; i++)
        nodes_page_release(&said[i].page);
    free(said);
}

static int ask(struct all_nodes *all, struct mst_error *err)
{
    struct peers_answer *answers = NULL;
    const struct peers_node *nodes;
    struct said *said;
    size_t count;
    int r = peers_find(all->peers, err);

    if (r < 0)
        return r;
    nodes = peers_nodes(all->peers, &count);
    said = calloc(count + 1, sizeof *said);
    if (!said)
        return mst_error_set(err, -ENOMEM, "%zu nodes: no memory", count);
    r = peers_ask(all->peers, QUESTION, NODES_ANSWER_MS, NODES_ANSWER_MAX_BYTES, all->monitor->stop_fd,
                  &answers, err);
    if (r >= 0)
        r = nodes_names_ask(&all->names, all->peers, answers, all->monitor->stop_fd, err);
    all->row_count = 0;
    for (size_t i = 0; r >= 0 && i < count; i++)
        r = take_answer(all, &nodes[i], &answers[i], &said[i], err);
    peers_release(answers, count);
    said_free(all->said, all->said_count);
    all->said = said;
    all->said_count = count;
    return r;
}

static int show(struct all_nodes *all, struct mst_error *err)
{
    int r;

    mst_buf_clear(&all->text);
    stats_arrange(all->rows, &all->row_count, &all->options);
    r = stats_print(all->rows, all->row_count, &all->options, &all->text, err);
    if (r == 0)
        r = stats_show(STDOUT_FILENO, all->monitor->stop_fd, &all->text, !all->has_shown, err);
    all->has_shown = true;
    return r;
}

/* -ECANCELED when it is to end. */
static int wait_until(uint64_t at_ns, int stop_fd)
{
    for (;;) {
        struct pollfd stop = {.fd = stop_fd, .events = POLLIN};
        const int ms = mst_ms_until(at_ns, 60000);
        if (poll(&stop, 1, ms) > 0)
            return -ECANCELED;
        if (mst_now_ns() >= at_ns)
            return 0;
    }
}

static int run(struct all_nodes *all, struct mst_error *err)
{
    int r = 0;

    for (unsigned round = 0; r == 0; round++) {
        const uint64_t start_ns = mst_now_ns();
        r = ask(all, err);
        if (r == 0 && (round > 0 || !all->options.is_once))
            r = show(all, err);
        if (round > 0 && all->options.is_once)
            break;
        if (r == 0)
            r = wait_until(start_ns + (round == 0 ? FIRST_NS : all->monitor->interval_ns),
                           all->monitor->stop_fd);
    }
    return r;
}

int nodes_stats_run(const struct monitor_options *monitor, const struct stats_options *options,
                    struct peers *peers, struct mst_error *err)
{
    struct all_nodes all = {
        .monitor = monitor, .options = *options, .peers = peers, .text = MST_BUF_INIT(TABLE_MAX_BYTES)};
    int r;

    all.options.with_nodes = true;
    r = stats_check(&all.options, err);
    if (r == 0)
        r = run(&all, err);
    said_free(all.said, all.said_count);
    nodes_names_release(&all.names);
    free(all.rows);
    mst_buf_release(&all.text);
    return r == -ECANCELED || r == -EPIPE ? 0 : r;
}
