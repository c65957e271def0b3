/* SPDX-License-Identifier: Apache-2.0 */
#include "nodes.h"

#include "muster/cleanup.h"
#include "muster/json.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAME_ANSWER_MAX_BYTES ((size_t)4096)

/* ---- a page ---- */

struct reading {
    struct nodes_page page;
    size_t room, newest; /* the container that the line before was of: lines of one come together seldom */
};

static int by_id(const void *a, const void *b)
{
    return strcmp(((const struct nodes_container *)a)->id, ((const struct nodes_container *)b)->id);
}

const struct nodes_container *nodes_page_find(const struct nodes_page *page, const char *id)
{
    struct nodes_container key = {.cpu_s = 0};

    if (page->count == 0 || strlen(id) >= sizeof key.id)
        return NULL;
    memcpy(key.id, id, strlen(id) + 1);
    return bsearch(&key, page->items, page->count, sizeof key, by_id);
}

/* Kept in the order of ids while it grows: each family's lines come in one order, which is what the first
 * made it. */
static int find(struct reading *reading, const char *id, struct nodes_container **ret_container,
                struct mst_error *err)
{
    struct nodes_page *page = &reading->page;
    size_t low = 0, high = page->count;

    if (reading->newest + 1 < page->count && strcmp(page->items[reading->newest + 1].id, id) == 0) {
        *ret_container = &page->items[++reading->newest];
        return 0;
    }
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (strcmp(page->items[middle].id, id) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    reading->newest = low;
    if (low < page->count && strcmp(page->items[low].id, id) == 0) {
        *ret_container = &page->items[low];
        return 0;
    }
    if (page->count == NODES_CONTAINERS_MAX)
        return mst_error_set(err, -E2BIG, "more than %d containers", NODES_CONTAINERS_MAX);
    if (page->count == reading->room) {
        const size_t room = reading->room > 0 ? 2 * reading->room : 32;
        struct nodes_container *items = reallocarray(page->items, room, sizeof *items);
        if (!items)
            return mst_error_set(err, -ENOMEM, "%zu containers: no memory", room);
        page->items = items;
        reading->room = room;
    }
    memmove(&page->items[low + 1], &page->items[low], (page->count - low) * sizeof *page->items);
    page->items[low] = (struct nodes_container){.cpu_s = 0};
    memcpy(page->items[low].id, id, strlen(id) + 1);
    page->count++;
    *ret_container = &page->items[low];
    return 0;
}

static const struct family {
    const char *name;
    size_t value, flag;
} families[] = {
#define FAMILY(name, value, flag)                                                                            \
    {                                                                                                        \
        name, offsetof(struct nodes_container, value), offsetof(struct nodes_container, flag)                \
    }
    FAMILY("container_cpu_usage_seconds_total", cpu_s, has_cpu),
    FAMILY("container_memory_working_set_bytes", memory, has_memory),
    FAMILY("container_spec_memory_limit_bytes", limit, has_limit),
    FAMILY("container_network_receive_bytes_total", rx, has_net),
    FAMILY("container_network_transmit_bytes_total", tx, has_net),
    FAMILY("container_fs_reads_bytes_total", read, has_block),
    FAMILY("container_fs_writes_bytes_total", write, has_block),
    FAMILY("container_threads", threads, has_threads),
};

static void take_names(struct nodes_container *container, const struct peers_sample *sample)
{
    if (container->name[0] != '\0')
        return;
    (void)peers_label(sample, "name", container->name, sizeof container->name);
    (void)peers_label(sample, "container_label_com_docker_swarm_service_name", container->service,
                      sizeof container->service);
    (void)peers_label(sample, "container_label_com_docker_stack_namespace", container->stack,
                      sizeof container->stack);
}

/* Values of several interfaces and devices are summed up. */
static int take_container(struct reading *reading, const struct family *family,
                          const struct peers_sample *sample, struct mst_error *err)
{
    char path[MONITOR_CGROUP_BYTES], id[MONITOR_ID_BYTES] = "";
    struct nodes_container *container;
    double value;
    int r;

    if (!peers_label(sample, "id", path, sizeof path) ||
        (strcmp(path, "/") != 0 && !peers_container_id(path, id)))
        return 0;
    r = find(reading, id, &container, err);
    if (r < 0)
        return r;
    if (id[0] != '\0')
        take_names(container, sample);
    memcpy(&value, (char *)container + family->value, sizeof value);
    value += sample->value;
    memcpy((char *)container + family->value, &value, sizeof value);
    *((char *)container + family->flag) = true;
    return 0;
}

static int take_sample(void *context, const struct peers_sample *sample, struct mst_error *err)
{
    struct reading *reading = context;

    if (!isfinite(sample->value) || sample->value < 0)
        return 0;
    if (peers_is_named(sample, "machine_cpu_cores"))
        reading->page.cpus = sample->value;
    else if (peers_is_named(sample, "machine_memory_bytes"))
        reading->page.memory = sample->value;
    for (size_t i = 0; i < MST_ARRAY_COUNT(families); i++) {
        if (peers_is_named(sample, families[i].name))
            return take_container(reading, &families[i], sample, err);
    }
    return 0;
}

int nodes_page_read(const char *text, struct nodes_page *ret_page, struct mst_error *err)
{
    struct reading reading = {.room = 0};
    const int r = peers_read(text, take_sample, &reading, err);

    if (r < 0) {
        nodes_page_release(&reading.page);
        return r;
    }
    *ret_page = reading.page;
    return 0;
}

void nodes_page_release(struct nodes_page *page)
{
    free(page->items);
    *page = (struct nodes_page){.count = 0};
}

/* ---- names ---- */

const char *nodes_name(const struct nodes_names *names, const struct peers_node *node)
{
    for (size_t i = 0; !node->has_name && i < names->count; i++) {
        if (strcmp(names->items[i].url, node->url) == 0 &&
            strcmp(names->items[i].address, node->address) == 0)
            return names->items[i].name;
    }
    return node->name;
}

static int add_name(struct nodes_names *names, const struct peers_node *node, const char *name)
{
    void *items = reallocarray(names->items, names->count + 1, sizeof *names->items);

    if (!items)
        return -ENOMEM;
    names->items = items;
    memset(&names->items[names->count], 0, sizeof *names->items);
    (void)snprintf(names->items[names->count].url, PEERS_URL_BYTES, "%s", node->url);
    (void)snprintf(names->items[names->count].address, sizeof names->items->address, "%s", node->address);
    (void)snprintf(names->items[names->count].name, PEERS_NAME_BYTES, "%s", name);
    names->count++;
    return 0;
}

static bool is_known(const struct nodes_names *names, const struct peers_node *node)
{
    return node->has_name || nodes_name(names, node) != node->name;
}

/* One that was found by its address says itself who it is. */
static int take_name(struct nodes_names *names, const struct peers_node *node,
                     const struct peers_answer *answer)
{
    mst_cleanup(mst_json_deletep) cJSON *json = NULL;
    const struct mst_buf *body = &answer->body;
    const char *name = "";

    if (answer->code >= 0 &&
        mst_json_parse(mst_buf_text(body), body->count, NODES_NAME_PATH, &json, NULL) >= 0)
        name = mst_json_string_or(json, "node", "");
    return add_name(names, node, name[0] ? name : node->name);
}

int nodes_names_ask(struct nodes_names *names, struct peers *peers, const struct peers_answer *answered,
                    int cancel_fd, struct mst_error *err)
{
    struct peers_answer *answers = NULL;
    size_t count, unknown = 0;
    const struct peers_node *nodes = peers_nodes(peers, &count);
    int r;

    for (size_t i = 0; i < count; i++)
        unknown += answered[i].code >= 0 && !is_known(names, &nodes[i]);
    if (unknown == 0)
        return 0;
    nodes_names_release(names); /* the same address is another task some day */
    r = peers_ask(peers, NODES_NAME_PATH, NODES_ANSWER_MS, NAME_ANSWER_MAX_BYTES, cancel_fd, &answers, err);
    for (size_t i = 0; r >= 0 && i < count; i++) {
        if (answered[i].code >= 0 && !nodes[i].has_name && take_name(names, &nodes[i], &answers[i]) < 0)
            r = mst_error_set(err, -ENOMEM, "names of nodes: no memory");
    }
    peers_release(answers, count);
    return r;
}

void nodes_names_release(struct nodes_names *names)
{
    free(names->items);
    *names = (struct nodes_names){.count = 0};
}
