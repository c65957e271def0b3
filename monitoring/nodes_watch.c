/* SPDX-License-Identifier: Apache-2.0 */
/* The other nodes for the page. */
#include "muster/cleanup.h"
#include "muster/clock.h"
#include "muster/json.h"
#include "nodes.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ROUND_NS   (5 * MST_NS_PER_S)
#define LOOKED_NS  (30 * MST_NS_PER_S) /* after the last question the page is taken for closed */
#define POINTS_MAX 120                 /* ten minutes */
#define SHOWN_MAX  256                 /* nodes on the page; the others are counted */
#define PERCENT    100.0

#define QUESTION                                                                                             \
    "/metrics?name[]=container_cpu_usage_seconds_total&name[]=container_memory_working_set_bytes"            \
    "&name[]=machine_cpu_cores&name[]=machine_memory_bytes"

struct watched {
    char url[PEERS_URL_BYTES], address[64], name[PEERS_NAME_BYTES], link[PEERS_URL_BYTES], fault[256];
    double cpus, memory_limit; /* of the machine */
    double containers;
    double cpu[POINTS_MAX], memory[POINTS_MAX]; /* per cent of all cores; bytes; -1: not known */
    /* The reading before: only the thread looks at it. */
    double cpu_s;
    uint64_t at_ns;
};

struct nodes_watch {
    pthread_mutex_t lock; /* guards what stands down to the blank line */
    pthread_cond_t wake;
    bool is_stopping;
    uint64_t looked_ns;    /* when the page asked last; 0: never */
    struct watched *nodes; /* owned */
    size_t count, total;   /* shown, and all that were found */
    double times[POINTS_MAX];
    size_t points; /* so far, at most POINTS_MAX; the oldest is first */

    pthread_t thread;
    int stop_fds[2]; /* the second is closed to end a round */
    struct peers *peers;
    struct peers_options options; /* what they borrow is the caller's */
    struct nodes_names names;
    char fault[MST_ERROR_TEXT_BYTES];
};

/* ---- a round ---- */

static const struct watched *find(const struct nodes_watch *watch, const struct peers_node *node)
{
    for (size_t i = 0; i < watch->count; i++) {
        if (strcmp(watch->nodes[i].url, node->url) == 0 &&
            strcmp(watch->nodes[i].address, node->address) == 0)
            return &watch->nodes[i];
    }
    return NULL;
}

static void push(double points[static POINTS_MAX], size_t count, double value)
{
    if (count == POINTS_MAX)
        memmove(points, points + 1, (POINTS_MAX - 1) * sizeof *points);
    points[count == POINTS_MAX ? POINTS_MAX - 1 : count] = value;
}

static void take_page(struct watched *node, const struct nodes_page *page, uint64_t at_ns, double *ret_cpu,
                      double *ret_memory)
{
    const struct nodes_container *machine = nodes_page_find(page, "");
    size_t containers = 0;

    for (size_t i = 0; i < page->count; i++)
        containers += page->items[i].id[0] != '\0' && page->items[i].has_cpu;
    node->containers = (double)containers;
    node->cpus = page->cpus;
    node->memory_limit = page->memory;
    if (!machine)
        return;
    if (machine->has_memory)
        *ret_memory = machine->memory;
    if (machine->has_cpu && node->at_ns > 0 && at_ns > node->at_ns && machine->cpu_s >= node->cpu_s &&
        page->cpus > 0)
        *ret_cpu = PERCENT * (machine->cpu_s - node->cpu_s) / page->cpus /
                   ((double)(at_ns - node->at_ns) / (double)MST_NS_PER_S);
    node->cpu_s = machine->cpu_s;
    node->at_ns = machine->has_cpu ? at_ns : 0;
}

static void take_answer(struct watched *node, const struct peers_answer *answer, size_t points)
{
    mst_cleanup(nodes_page_release) struct nodes_page page = {.count = 0};
    struct mst_error fault = MST_ERROR_INIT;
    double cpu = -1, memory = -1;

    node->fault[0] = '\0';
    if (answer->code < 0)
        (void)snprintf(node->fault, sizeof node->fault, "%s", answer->fault);
    else if (nodes_page_read(mst_buf_text(&answer->body), &page, &fault) < 0)
        (void)snprintf(node->fault, sizeof node->fault, "%.255s", fault.text);
    else
        take_page(node, &page, answer->at_ns, &cpu, &memory);
    push(node->cpu, points, cpu);
    push(node->memory, points, memory);
}

/* A new list in place of the old one, with what is known of the nodes that stay. */
static struct watched *make_list(const struct nodes_watch *watch, const struct peers_node *nodes,
                                 const struct peers_answer *answers, size_t count)
{
    struct watched *list = calloc(count + 1, sizeof *list);

    for (size_t i = 0; list && i < count; i++) {
        const struct watched *old = find(watch, &nodes[i]);
        if (old) {
            list[i] = *old;
        } else {
            for (size_t p = 0; p < POINTS_MAX; p++)
                list[i].cpu[p] = list[i].memory[p] = -1;
        }
        (void)snprintf(list[i].url, sizeof list[i].url, "%s", nodes[i].url);
        (void)snprintf(list[i].address, sizeof list[i].address, "%s", nodes[i].address);
        (void)snprintf(list[i].name, sizeof list[i].name, "%s", nodes_name(&watch->names, &nodes[i]));
        (void)snprintf(list[i].link, sizeof list[i].link, "%s", nodes[i].link);
        if (nodes[i].link[0] == '\0' && watch->options.link) {
            struct peers_node named = nodes[i];
            (void)snprintf(named.name, sizeof named.name, "%s", list[i].name);
            peers_link(&named, watch->options.link, list[i].link);
        }
        take_answer(&list[i], &answers[i], watch->points);
    }
    return list;
}

/* Only this thread writes `nodes`, so that it may read them without the lock. */
static int do_round(struct nodes_watch *watch, struct mst_error *err)
{
    struct peers_answer *answers = NULL;
    const struct peers_node *nodes;
    struct watched *list, *old;
    size_t total, count;
    int r = peers_find(watch->peers, err);

    if (r < 0)
        return r;
    nodes = peers_nodes(watch->peers, &total);
    r = peers_ask(watch->peers, QUESTION, NODES_ANSWER_MS, NODES_ANSWER_MAX_BYTES, watch->stop_fds[0],
                  &answers, err);
    if (r >= 0) {
        r = nodes_names_ask(&watch->names, watch->peers, answers, watch->stop_fds[0], err);
        if (r < 0)
            peers_release(answers, total);
    }
    if (r < 0)
        return r;
    count = total < SHOWN_MAX ? total : SHOWN_MAX;
    list = make_list(watch, nodes, answers, count);
    peers_release(answers, total);
    if (!list)
        return mst_error_set(err, -ENOMEM, "%zu nodes: no memory", count);
    (void)pthread_mutex_lock(&watch->lock);
    old = watch->nodes;
    watch->nodes = list;
    watch->count = count;
    watch->total = total;
    push(watch->times, watch->points, mst_wall_s());
    watch->points += watch->points < POINTS_MAX;
    (void)pthread_mutex_unlock(&watch->lock);
    free(old);
    return 0;
}

/* ---- the thread ---- */

static struct timespec at(uint64_t ns)
{
    return (struct timespec){(time_t)(ns / MST_NS_PER_S), (long)(ns % MST_NS_PER_S)};
}

/* Until it is time and somebody looks. False: it is to end. */
static bool wait_for_turn(struct nodes_watch *watch, uint64_t next_ns)
{
    bool is_stopping;

    (void)pthread_mutex_lock(&watch->lock);
    for (;;) {
        const uint64_t now_ns = mst_now_ns();
        const bool is_looked_at = watch->looked_ns > 0 && now_ns - watch->looked_ns < LOOKED_NS;
        const struct timespec until = at(next_ns > now_ns ? next_ns : now_ns + ROUND_NS);
        if (watch->is_stopping || (is_looked_at && now_ns >= next_ns))
            break;
        if (is_looked_at)
            (void)pthread_cond_timedwait(&watch->wake, &watch->lock, &until);
        else
            (void)pthread_cond_wait(&watch->wake, &watch->lock);
    }
    is_stopping = watch->is_stopping;
    (void)pthread_mutex_unlock(&watch->lock);
    return !is_stopping;
}

static void *run(void *context)
{
    struct nodes_watch *watch = context;
    uint64_t next_ns = 0;

    while (wait_for_turn(watch, next_ns)) {
        struct mst_error err = MST_ERROR_INIT;
        const int r = do_round(watch, &err);
        (void)pthread_mutex_lock(&watch->lock);
        (void)snprintf(watch->fault, sizeof watch->fault, "%s", r < 0 ? err.text : "");
        (void)pthread_mutex_unlock(&watch->lock);
        next_ns = mst_now_ns() + ROUND_NS;
    }
    return NULL;
}

static int start(struct nodes_watch *watch)
{
    pthread_condattr_t attributes;
    int r = pthread_mutex_init(&watch->lock, NULL);

    if (r == 0)
        r = pthread_condattr_init(&attributes);
    if (r != 0)
        return -r;
    r = pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    if (r == 0)
        r = pthread_cond_init(&watch->wake, &attributes);
    (void)pthread_condattr_destroy(&attributes);
    return r != 0 ? -r : -pthread_create(&watch->thread, NULL, run, watch);
}

int nodes_watch_new(const struct peers_options *options, struct nodes_watch **ret_watch,
                    struct mst_error *err)
{
    struct nodes_watch *watch = calloc(1, sizeof *watch);
    int r;

    if (!watch)
        return mst_error_set(err, -ENOMEM, "other nodes: no memory");
    watch->options = *options;
    watch->stop_fds[0] = watch->stop_fds[1] = -1;
    r = peers_new(&watch->options, &watch->peers, err);
    if (r < 0 && r != -ENOMEM)
        r = -EINVAL; /* an input file that cannot be used, whatever its trouble is */
    if (r == 0 && pipe2(watch->stop_fds, O_CLOEXEC) < 0)
        r = mst_error_errno(err, -errno, "watch other nodes");
    if (r == 0) {
        r = start(watch);
        if (r < 0)
            (void)mst_error_errno(err, r, "start a thread for other nodes");
    }
    if (r < 0) { /* no thread: nothing to end */
        peers_free(watch->peers);
        mst_closep(&watch->stop_fds[0]);
        mst_closep(&watch->stop_fds[1]);
        free(watch);
        return r;
    }
    *ret_watch = watch;
    return 0;
}

void nodes_watch_free(struct nodes_watch *watch)
{
    if (!watch)
        return;
    (void)pthread_mutex_lock(&watch->lock);
    watch->is_stopping = true;
    (void)pthread_cond_broadcast(&watch->wake);
    (void)pthread_mutex_unlock(&watch->lock);
    mst_closep(&watch->stop_fds[1]); /* the first becomes readable: a round ends at once */
    (void)pthread_join(watch->thread, NULL);
    (void)pthread_cond_destroy(&watch->wake);
    (void)pthread_mutex_destroy(&watch->lock);
    mst_closep(&watch->stop_fds[0]);
    nodes_names_release(&watch->names);
    peers_free(watch->peers);
    free(watch->nodes);
    free(watch);
}

/* ---- as JSON ---- */

static bool add_points(cJSON *object, const char *key, const double *points, size_t count)
{
    cJSON *list = cJSON_AddArrayToObject(object, key);

    for (size_t i = 0; list && i < count; i++) {
        cJSON *point = points[i] < 0 ? cJSON_CreateNull() : cJSON_CreateNumber(points[i]);
        if (!point || !cJSON_AddItemToArray(list, point)) {
            cJSON_Delete(point);
            return false;
        }
    }
    return list;
}

static bool add_node(const struct nodes_watch *watch, const struct watched *node, cJSON *list)
{
    cJSON *object = cJSON_CreateObject();

    if (!object || !cJSON_AddItemToArray(list, object)) {
        cJSON_Delete(object);
        return false;
    }
    return cJSON_AddStringToObject(object, "name", node->name) &&
           cJSON_AddStringToObject(object, "link", node->link) &&
           cJSON_AddStringToObject(object, "fault", node->fault) &&
           cJSON_AddNumberToObject(object, "cpus", node->cpus) &&
           cJSON_AddNumberToObject(object, "limit", node->memory_limit) &&
           cJSON_AddNumberToObject(object, "containers", node->containers) &&
           add_points(object, "cpu", node->cpu, watch->points) &&
           add_points(object, "memory", node->memory, watch->points);
}

int nodes_watch_json(struct nodes_watch *watch, struct mst_buf *text)
{
    mst_cleanup(mst_json_deletep) cJSON *json = cJSON_CreateObject();
    mst_cleanup(mst_freep) char *printed = NULL;
    cJSON *list = cJSON_AddArrayToObject(json, "nodes");
    bool is_whole = list;

    if (watch) {
        (void)pthread_mutex_lock(&watch->lock);
        watch->looked_ns = mst_now_ns();
        (void)pthread_cond_signal(&watch->wake);
        is_whole = is_whole && cJSON_AddBoolToObject(json, "told", true) &&
                   cJSON_AddNumberToObject(json, "total", (double)watch->total) &&
                   cJSON_AddStringToObject(json, "fault", watch->fault) &&
                   add_points(json, "times", watch->times, watch->points);
        for (size_t i = 0; is_whole && i < watch->count; i++)
            is_whole = add_node(watch, &watch->nodes[i], list);
        (void)pthread_mutex_unlock(&watch->lock);
    }
    printed = is_whole ? cJSON_PrintUnformatted(json) : NULL;
    return printed ? mst_buf_append_text(text, printed) : -ENOMEM;
}
