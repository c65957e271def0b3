/* SPDX-License-Identifier: Apache-2.0 */
#include "autoscale/usage.h"

#include "live.h"
#include "muster/cleanup.h"
#include "muster/clock.h"
#include "muster/json.h"
#include "muster/peers.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LEAST_NS    (MST_NS_PER_S / 2)  /* between two readings, for a rate */
#define OLDEST_NS   (30 * MST_NS_PER_S) /* the newest sample; older: stale */
#define OLD_PAGE_NS (2 * MST_NS_PER_S)  /* the monitors' time of day is in whole seconds */
#define PERCENT     100.0
#define NANO_PER_1  1e9

struct sample {
    uint64_t at_ns;
    double cpu_s, memory, value;
};

/* A container's use, or a gauge. */
struct autoscale_series {
    char key[ENGINE_NAME_MAX_BYTES];     /* the container's id; of a gauge the task's */
    char service[ENGINE_NAME_MAX_BYTES]; /* gauges */
    char gauge[PEERS_GAUGE_BYTES];
    uint64_t average_ns;
    struct sample samples[AUTOSCALE_SAMPLES]; /* the oldest first */
    size_t count;
    double seen_s;         /* the monitor's clock at the last sample */
    double reports;        /* how often the worker has reported */
    uint64_t reported_ns;  /* when that number moved last */
    struct sample pending; /* of the page that is being read */
    double pending_seen_s, pending_reports;
    bool has_cpu, has_memory, has_value;
    bool wants_memory; /* else CPU time */
    uint64_t taken;    /* the round of the newest sample */
};

void autoscale_usage_release(struct autoscale_usage *usage)
{
    free(usage->containers);
    free(usage->gauges);
    *usage = (struct autoscale_usage){0};
}

/* ---- which are of interest ---- */

static int by_key(const void *a, const void *b)
{
    return strcmp(((const struct autoscale_series *)a)->key, ((const struct autoscale_series *)b)->key);
}

static struct autoscale_series *find_container(const struct autoscale_usage *usage, const char *id)
{
    struct autoscale_series key = {.count = 0};

    if (!usage->containers)
        return NULL;
    (void)snprintf(key.key, sizeof key.key, "%s", id);
    return bsearch(&key, usage->containers, usage->container_count, sizeof key, by_key);
}

static bool is_read(const struct autoscale_subject *subject)
{
    return subject->is_wanted && subject->code >= 0;
}

/* What is known of the containers that are still there. */
static void keep(const struct autoscale_usage *usage, const struct autoscale_subject *subject,
                 struct autoscale_series *list, size_t *count)
{
    for (size_t t = 0; t < subject->task_count && *count < AUTOSCALE_SERIES_MAX; t++) {
        struct autoscale_series *series = &list[*count];
        const struct autoscale_series *old = find_container(usage, subject->tasks[t].container);
        if (subject->tasks[t].container[0] == '\0')
            continue;
        *series = old ? *old : (struct autoscale_series){.count = 0};
        (void)snprintf(series->key, sizeof series->key, "%s", subject->tasks[t].container);
        series->average_ns = subject->policy.average_ns;
        series->wants_memory = subject->policy.metric == AUTOSCALE_MEMORY;
        (*count)++;
    }
}

/* The engine names a task's container SERVICE.SLOT.TASK-ID. */
static bool is_of_task(const char *container, const struct autoscale_task *task)
{
    const char *dot = strrchr(container, '.');

    return dot && task->id[0] != '\0' && strcmp(dot + 1, task->id) == 0;
}

/* NULL: none of them runs in it. */
static const struct autoscale_task *task_in(const char *container, const struct autoscale_subject *subject)
{
    for (size_t i = 0; subject && i < subject->task_count; i++) {
        if (is_of_task(container, &subject->tasks[i]))
            return &subject->tasks[i];
    }
    return NULL;
}

/* Somebody asks for this gauge of this service: how long are its means? 0: nobody. */
static uint64_t gauge_average_ns(const struct autoscale_view *view, const char *service, const char *gauge)
{
    for (size_t i = 0; i < view->count; i++) {
        const struct autoscale_policy *policy = &view->items[i].policy;
        if (is_read(&view->items[i]) && policy->metric == AUTOSCALE_GAUGE &&
            strcmp(policy->gauge, gauge) == 0 && strcmp(policy->source, service) == 0)
            return policy->average_ns + 1;
    }
    return 0;
}

static void forget_gauges(struct autoscale_usage *usage, const struct autoscale_view *view)
{
    size_t kept = 0;

    for (size_t i = 0; i < usage->gauge_count; i++) {
        const bool is_fresh = usage->gauges[i].taken + 1 >= usage->round;
        if (is_fresh && gauge_average_ns(view, usage->gauges[i].service, usage->gauges[i].gauge) > 0)
            usage->gauges[kept++] = usage->gauges[i];
    }
    usage->gauge_count = kept;
}

int autoscale_usage_begin(struct autoscale_usage *usage, const struct autoscale_view *view,
                          struct mst_error *err)
{
    struct autoscale_series *list;
    size_t room = 1, count = 0;

    for (size_t i = 0; i < view->count; i++)
        room += is_read(&view->items[i]) ? view->items[i].task_count : 0;
    if (room > AUTOSCALE_SERIES_MAX)
        room = AUTOSCALE_SERIES_MAX;
    list = calloc(room, sizeof *list);
    if (!list)
        return mst_error_set(err, -ENOMEM, "what %zu tasks use: no memory", room);
    for (size_t i = 0; i < view->count; i++) {
        if (is_read(&view->items[i]) && view->items[i].policy.metric != AUTOSCALE_GAUGE)
            keep(usage, &view->items[i], list, &count);
    }
    qsort(list, count, sizeof *list, by_key);
    free(usage->containers);
    usage->containers = list;
    usage->container_count = count;
    forget_gauges(usage, view);
    usage->view = view;
    usage->round++;
    return 0;
}

/* ---- a page ---- */

struct page {
    struct autoscale_usage *usage;
};

static void take_container(struct autoscale_usage *usage, const struct peers_sample *sample)
{
    char path[ENGINE_NAME_MAX_BYTES * 2], id[65];
    struct autoscale_series *series;

    if (!peers_label(sample, "id", path, sizeof path) || !peers_container_id(path, id))
        return;
    series = find_container(usage, id);
    if (!series || !isfinite(sample->value))
        return;
    if (peers_is_named(sample, "container_cpu_usage_seconds_total")) {
        series->pending.cpu_s = sample->value;
        series->has_cpu = true;
    } else if (peers_is_named(sample, "container_memory_working_set_bytes")) {
        series->pending.memory = sample->value;
        series->has_memory = true;
    } else {
        series->pending_seen_s = sample->value;
    }
}

static struct autoscale_series *find_gauge(const struct autoscale_usage *usage, const char *service,
                                           const char *task, const char *gauge)
{
    for (size_t i = 0; i < usage->gauge_count; i++) {
        struct autoscale_series *series = &usage->gauges[i];
        if (strcmp(series->key, task) == 0 && strcmp(series->gauge, gauge) == 0 &&
            strcmp(series->service, service) == 0)
            return series;
    }
    return NULL;
}

static int take_gauge(struct autoscale_usage *usage, const struct peers_sample *sample, struct mst_error *err)
{
    char service[ENGINE_NAME_MAX_BYTES], container[ENGINE_NAME_MAX_BYTES], gauge[PEERS_GAUGE_BYTES];
    const struct autoscale_task *task;
    struct autoscale_series *series;
    uint64_t average_ns;

    if (!peers_label(sample, "service", service, sizeof service) ||
        !peers_label(sample, "container", container, sizeof container) ||
        !peers_label(sample, "name", gauge, sizeof gauge) || !isfinite(sample->value))
        return 0;
    average_ns = gauge_average_ns(usage->view, service, gauge);
    task = average_ns > 0 ? task_in(container, autoscale_view_find(usage->view, service)) : NULL;
    if (!task)
        return 0;
    series = find_gauge(usage, service, task->id, gauge);
    if (!series && usage->gauge_count < AUTOSCALE_SERIES_MAX) {
        struct autoscale_series *gauges = reallocarray(usage->gauges, usage->gauge_count + 1, sizeof *gauges);
        if (!gauges)
            return mst_error_set(err, -ENOMEM, "one more gauge: no memory");
        usage->gauges = gauges;
        series = &gauges[usage->gauge_count++];
        *series = (struct autoscale_series){.count = 0};
        (void)snprintf(series->key, sizeof series->key, "%s", task->id);
        (void)snprintf(series->service, sizeof series->service, "%s", service);
        (void)snprintf(series->gauge, sizeof series->gauge, "%s", gauge);
    }
    if (series)
        series->average_ns = average_ns;
    if (series && peers_is_named(sample, "muster_reported_value")) {
        series->pending.value = sample->value;
        series->has_value = true;
    } else if (series) {
        series->pending_reports = sample->value;
    }
    return 0;
}

static int take_sample(void *context, const struct peers_sample *sample, struct mst_error *err)
{
    struct page *page = context;

    if (peers_is_named(sample, "muster_reported_value") || peers_is_named(sample, "muster_reports_total"))
        return take_gauge(page->usage, sample, err);
    if (peers_is_named(sample, "container_cpu_usage_seconds_total") ||
        peers_is_named(sample, "container_memory_working_set_bytes") ||
        peers_is_named(sample, "container_last_seen"))
        take_container(page->usage, sample);
    return 0;
}

/* Closely spaced samples take each other's place, so that the ring reaches back over the whole mean. */
static void add_sample(struct autoscale_series *series, uint64_t at_ns, uint64_t round)
{
    const uint64_t apart_ns = series->average_ns / (AUTOSCALE_SAMPLES - 8);

    series->pending.at_ns = at_ns;
    if (series->count >= 2 && at_ns - series->samples[series->count - 2].at_ns < apart_ns)
        series->count--;
    if (series->count == AUTOSCALE_SAMPLES) {
        memmove(series->samples, series->samples + 1, (AUTOSCALE_SAMPLES - 1) * sizeof *series->samples);
        series->count--;
    }
    series->samples[series->count++] = series->pending;
    series->taken = round;
}

static void commit_container(struct autoscale_series *series, uint64_t at_ns, uint64_t round)
{
    const struct sample *newest = series->count > 0 ? &series->samples[series->count - 1] : NULL;
    const bool is_whole =
        (series->wants_memory ? series->has_memory : series->has_cpu) && series->taken != round;
    /* The same time of day as in the page before: nothing was read in between. */
    const bool is_old_page =
        newest && at_ns - newest->at_ns > OLD_PAGE_NS && series->pending_seen_s > 0 &&
        !(series->pending_seen_s < series->seen_s || series->pending_seen_s > series->seen_s);

    if (is_whole && newest && !series->wants_memory && series->pending.cpu_s < newest->cpu_s)
        series->count = 0; /* it began anew */
    if (is_whole && !is_old_page) {
        add_sample(series, at_ns, round);
        series->seen_s = series->pending_seen_s;
    }
    series->has_cpu = series->has_memory = false;
    series->pending_seen_s = 0;
}

static void commit_gauge(struct autoscale_series *series, uint64_t at_ns, uint64_t round)
{
    if (series->has_value && series->taken != round) {
        if (series->count == 0 || series->pending_reports < series->reports ||
            series->pending_reports > series->reports)
            series->reported_ns = at_ns;
        series->reports = series->pending_reports;
        add_sample(series, at_ns, round);
    }
    series->has_value = false;
}

int autoscale_usage_take(struct autoscale_usage *usage, const char *text, uint64_t at_ns,
                         struct mst_error *err)
{
    struct page page = {usage};
    const int r = peers_read(text, take_sample, &page, err);

    for (size_t i = 0; i < usage->container_count; i++) {
        if (r < 0)
            usage->containers[i].has_cpu = usage->containers[i].has_memory = false;
        commit_container(&usage->containers[i], at_ns, usage->round);
    }
    for (size_t i = 0; i < usage->gauge_count; i++) {
        if (r < 0)
            usage->gauges[i].has_value = false;
        commit_gauge(&usage->gauges[i], at_ns, usage->round);
    }
    return r;
}

/* ---- values ---- */

/* The sample from which the mean reaches nearest to as long as it is to be. */
static size_t first_within(const struct autoscale_series *series, uint64_t average_ns)
{
    const uint64_t newest_ns = series->samples[series->count - 1].at_ns;
    size_t first = series->count - 1;

    while (first > 0 && newest_ns - series->samples[first - 1].at_ns <= average_ns)
        first--;
    if (first > 0) {
        const uint64_t within_ns = newest_ns - series->samples[first].at_ns,
                       beyond_ns = newest_ns - series->samples[first - 1].at_ns;
        /* Asked more seldom than that: from the one before. */
        if (first == series->count - 1 || beyond_ns - average_ns < average_ns - within_ns)
            first--;
    }
    return first;
}

/* CPU seconds a second; false: not known yet. */
static bool cpu_rate(const struct autoscale_series *series, double *ret_rate)
{
    const struct sample *newest, *oldest;

    if (series->count < 2)
        return false;
    newest = &series->samples[series->count - 1];
    oldest = &series->samples[first_within(series, series->average_ns)];
    if (newest->at_ns - oldest->at_ns < LEAST_NS)
        return false;
    *ret_rate =
        (newest->cpu_s - oldest->cpu_s) / ((double)(newest->at_ns - oldest->at_ns) / (double)MST_NS_PER_S);
    return true;
}

static double mean(const struct autoscale_series *series, uint64_t average_ns, size_t offset)
{
    const size_t first = first_within(series, average_ns);
    double sum = 0;

    for (size_t i = first; i < series->count; i++) {
        double value;
        memcpy(&value, (const char *)&series->samples[i] + offset, sizeof value);
        sum += value;
    }
    return sum / (double)(series->count - first);
}

static const cJSON *limits_of(const struct autoscale_subject *subject)
{
    return mst_json_at(subject->json, "Spec", "TaskTemplate", "Resources", "Limits", NULL);
}

static bool container_value(const struct autoscale_subject *subject, const struct autoscale_series *series,
                            double *ret_value)
{
    const cJSON *limits = limits_of(subject);
    const double cores = (double)mst_json_u64_or(limits, "NanoCPUs", 0) / NANO_PER_1,
                 bytes = (double)mst_json_u64_or(limits, "MemoryBytes", 0);
    double rate;

    if (subject->policy.metric == AUTOSCALE_MEMORY) {
        *ret_value = bytes > 0
                         ? PERCENT * mean(series, series->average_ns, offsetof(struct sample, memory)) / bytes
                         : 0;
        return bytes > 0;
    }
    if (!cpu_rate(series, &rate))
        return false;
    *ret_value = PERCENT * rate;
    if (subject->policy.metric == AUTOSCALE_CPU && cores > 0)
        *ret_value /= cores;
    return true;
}

static bool tasks_value(const struct autoscale_usage *usage, const struct autoscale_subject *subject,
                        uint64_t now_ns, double *ret_value, char missing[static 200])
{
    const struct autoscale_task *absent = NULL;
    const char *why = "";
    double sum = 0;
    size_t without = 0;

    for (size_t i = 0; i < subject->task_count; i++) {
        const struct autoscale_series *series = find_container(usage, subject->tasks[i].container);
        const char *fault = NULL;
        double value;
        if (!series || series->count == 0)
            fault = "no monitor knows it";
        else if (now_ns - series->samples[series->count - 1].at_ns > OLDEST_NS)
            fault = "what is known is too old";
        else if (!container_value(subject, series, &value))
            fault = "it has been read only once";
        if (!fault) {
            sum += value;
        } else if (without++ == 0) {
            absent = &subject->tasks[i];
            why = fault;
        }
    }
    if (absent)
        (void)snprintf(missing, 200, "no value for %zu of %zu tasks: %.100s.%llu: %s", without,
                       subject->task_count, subject->name, (unsigned long long)absent->slot, why);
    else if (subject->task_count == 0)
        (void)snprintf(missing, 200, "no task runs");
    else
        *ret_value = sum / (double)subject->task_count;
    return !absent && subject->task_count > 0;
}

/* The sum needs every task's share; of a queue that all report, one report is enough. */
static bool gauge_value(const struct autoscale_usage *usage, const struct autoscale_view *view,
                        const struct autoscale_subject *subject, uint64_t now_ns, double *ret_value,
                        char missing[static 200])
{
    const struct autoscale_policy *policy = &subject->policy;
    const struct autoscale_subject *source = autoscale_view_find(view, policy->source);
    size_t fresh = 0;
    double sum = 0, largest = -HUGE_VAL;

    if (!source) {
        (void)snprintf(missing, 200, "gauge '%s': there is no service '%.100s'", policy->gauge,
                       policy->source);
        return false;
    }
    for (size_t i = 0; i < source->task_count; i++) {
        const struct autoscale_series *series =
            find_gauge(usage, source->name, source->tasks[i].id, policy->gauge);
        double value;
        if (!series || series->count == 0 || now_ns - series->reported_ns > AUTOSCALE_STALE_NS ||
            now_ns - series->samples[series->count - 1].at_ns > OLDEST_NS)
            continue;
        value = mean(series, policy->average_ns, offsetof(struct sample, value));
        fresh++;
        sum += value;
        largest = value > largest ? value : largest;
    }
    if (fresh == 0 || (!policy->is_largest && fresh < source->task_count)) {
        (void)snprintf(missing, 200,
                       "gauge '%s': %zu of %zu tasks of service '%.80s' have reported it in the last %u s",
                       policy->gauge, fresh, source->task_count, source->name,
                       (unsigned)(AUTOSCALE_STALE_NS / MST_NS_PER_S));
        return false;
    }
    *ret_value = policy->is_largest ? largest : sum;
    return true;
}

bool autoscale_usage_value(const struct autoscale_usage *usage, const struct autoscale_view *view,
                           const struct autoscale_subject *subject, uint64_t now_ns, double *ret_value,
                           char missing[static 200])
{
    return subject->policy.metric == AUTOSCALE_GAUGE
               ? gauge_value(usage, view, subject, now_ns, ret_value, missing)
               : tasks_value(usage, subject, now_ns, ret_value, missing);
}
