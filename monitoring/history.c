/* SPDX-License-Identifier: Apache-2.0 */
#include "history.h"

#include "muster/cleanup.h"
#include "muster/clock.h"

#include <cjson/cJSON.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* On a node where containers come and go most series are of those that have gone. They shrink to the ticks
 * that they had, and texts are no longer than they are, so that thousands of them stay within a few MB. */
struct history_series {
    char id[MONITOR_ID_BYTES];                   /* containers */
    char *name, *image, *stack, *service, *slot; /* owned */
    bool is_machine;
    double started_s;
    struct monitor_sample last; /* of the tick before */
    uint64_t limit_bytes, threads;
    struct monitor_training *training; /* owned; of trainings */
    uint64_t first_tick, last_tick;    /* the newest with a value */
    uint64_t base;                     /* of what has gone: the tick of the first value that is left... */
    size_t span;                       /* ... and how many there are; 0: a ring over `capacity` ticks */
    float *values;                     /* [value][tick % capacity] or [value][tick - base]; NAN: none */
};

int history_init(struct history *history, size_t capacity, const char *node, const char *version,
                 struct mst_error *err)
{
    *history = (struct history){.capacity = capacity, .node = node, .version = version};
    history->times = calloc(capacity, sizeof *history->times);
    return history->times ? 0 : mst_error_set(err, -ENOMEM, "a history of %zu ticks: no memory", capacity);
}

static void series_free(struct history_series *series)
{
    if (!series)
        return;
    free(series->name);
    free(series->image);
    free(series->stack);
    free(series->service);
    free(series->slot);
    free(series->training);
    free(series->values);
    free(series);
}

static float value_at(const struct history *history, const struct history_series *series, size_t value,
                      uint64_t tick)
{
    if (series->span == 0)
        return series->values[value * history->capacity + (size_t)(tick % history->capacity)];
    return tick >= series->base && tick - series->base < series->span
               ? series->values[value * series->span + (size_t)(tick - series->base)]
               : NAN;
}

/* In sight when the tick that is being made is there. */
static uint64_t oldest_tick(const struct history *history)
{
    return history->ticks >= history->capacity ? history->ticks + 1 - history->capacity : 0;
}

/* Into `room` ticks from `base` on, or into a ring with `span` 0. False without memory; it is then as before.
 */
static bool reshape(const struct history *history, struct history_series *series, size_t values,
                    uint64_t base, size_t span)
{
    const size_t room = span ? span : history->capacity;
    float *numbers = reallocarray(NULL, room, values * sizeof *numbers);
    if (!numbers)
        return false;
    const uint64_t oldest = oldest_tick(history);
    for (size_t v = 0; v < values; v++) {
        for (size_t i = 0; span == 0 && i < room; i++)
            numbers[v * room + i] = NAN;
        for (uint64_t tick = span ? base : oldest; tick < (span ? base + span : history->ticks); tick++)
            numbers[v * room + (size_t)(span ? tick - base : tick % room)] =
                value_at(history, series, v, tick);
    }
    free(series->values);
    series->values = numbers;
    series->base = base;
    series->span = span;
    return true;
}

/* It has gone: only the ticks that it had, and that are still in sight. */
static void shrink(const struct history *history, struct history_series *series, size_t values)
{
    const uint64_t oldest = oldest_tick(history);
    const uint64_t base = series->first_tick > oldest ? series->first_tick : oldest;
    if (series->span == 0 && series->last_tick >= base && series->last_tick + 1 - base < history->capacity)
        (void)reshape(history, series, values, base, (size_t)(series->last_tick + 1 - base));
}

void history_release(struct history *history)
{
    for (size_t i = 0; i < history->count; i++)
        series_free(history->series[i]);
    for (size_t i = 0; i < history->training_count; i++)
        series_free(history->trainings[i]);
    free(history->series);
    free(history->trainings);
    free(history->times);
    *history = (struct history){0};
}

/* Room for one more where there are too many: what has been gone for longest is forgotten. */
static bool drop_oldest(const struct history *history, struct history_series **list, size_t *count)
{
    size_t oldest = 0;
    for (size_t i = 1; i < *count; i++) {
        if (list[i]->last_tick < list[oldest]->last_tick)
            oldest = i;
    }
    if (list[oldest]->last_tick + 1 >= history->ticks)
        return false;
    series_free(list[oldest]);
    memmove(list + oldest, list + oldest + 1, (--*count - oldest) * sizeof *list);
    return true;
}

/* NULL without memory, or when there are too many. */
static struct history_series *add_series(const struct history *history, struct history_series ***list,
                                         size_t *count, size_t *room, size_t values)
{
    if (*count == HISTORY_SERIES_MAX && !drop_oldest(history, *list, count))
        return NULL;
    if (*count == *room) {
        const size_t wanted = *room ? *room * 2 : 16;
        void *larger = reallocarray(*list, wanted, sizeof **list);
        if (!larger)
            return NULL;
        *list = larger;
        *room = wanted;
    }
    struct history_series *series = calloc(1, sizeof *series);
    float *numbers = series ? reallocarray(NULL, history->capacity, values * sizeof *numbers) : NULL;
    if (!numbers) {
        free(series);
        return NULL;
    }
    for (size_t i = 0; i < history->capacity * values; i++)
        numbers[i] = NAN;
    series->values = numbers;
    series->first_tick = history->ticks;
    (*list)[(*count)++] = series;
    return series;
}

/* Those that ended before the ring's oldest tick; and every other one forgets the tick that is overwritten.
 */
static void make_tick(const struct history *history, struct history_series **list, size_t *count,
                      size_t values)
{
    const size_t at = (size_t)(history->ticks % history->capacity);
    size_t kept = 0;
    for (size_t i = 0; i < *count; i++) {
        if (history->ticks - list[i]->last_tick >= history->capacity) {
            series_free(list[i]);
            continue;
        }
        if (list[i]->last_tick + 1 < history->ticks)
            shrink(history, list[i], values);
        for (size_t v = 0; v < values && list[i]->span == 0; v++)
            list[i]->values[v * history->capacity + at] = NAN;
        list[kept++] = list[i];
    }
    *count = kept;
}

static double rate(uint64_t now, uint64_t before, double seconds)
{
    return now >= before && seconds > 0 ? (double)(now - before) / seconds : NAN;
}

static void put(const struct history *history, struct history_series *series, size_t value, double number)
{
    series->values[value * history->capacity + (size_t)(history->ticks % history->capacity)] = (float)number;
}

static void put_rates(const struct history *history, struct history_series *series,
                      const struct monitor_sample *sample, const struct monitor_sample *before)
{
    const double seconds = (double)(sample->read_ns - before->read_ns) / (double)MST_NS_PER_S;
    const unsigned both = sample->groups & before->groups;
    double percent;
    if (monitor_cpu_percent(before, sample, &percent))
        put(history, series, HISTORY_CPU, percent);
    if (both & MONITOR_NETWORK) {
        put(history, series, HISTORY_RX, rate(sample->rx_bytes, before->rx_bytes, seconds));
        put(history, series, HISTORY_TX, rate(sample->tx_bytes, before->tx_bytes, seconds));
    }
    if (both & MONITOR_IO) {
        put(history, series, HISTORY_READ, rate(sample->io_read_bytes, before->io_read_bytes, seconds));
        put(history, series, HISTORY_WRITE, rate(sample->io_write_bytes, before->io_write_bytes, seconds));
    }
}

static int set_text(char **text, const char *value)
{
    if (*text && strcmp(*text, value) == 0)
        return 0;
    char *copy = strdup(value);
    if (!copy)
        return -ENOMEM;
    free(*text);
    *text = copy;
    return 0;
}

static int describe(struct history_series *series, const struct monitor_container *info)
{
    const struct {
        char **text;
        const char *value;
    } texts[] = {{&series->name, info->name},
                 {&series->image, info->image},
                 {&series->stack, info->stack},
                 {&series->service, info->service},
                 {&series->slot, info->slot}};
    int r = 0;
    for (size_t i = 0; r == 0 && i < MST_ARRAY_COUNT(texts); i++)
        r = set_text(texts[i].text, texts[i].value);
    memcpy(series->id, info->id, sizeof series->id);
    series->is_machine = info->is_machine;
    series->started_s = info->started_s;
    return r;
}

static int add_container(struct history *history, const struct monitor_pass *pass, size_t i)
{
    const struct monitor_sample *sample = &pass->samples[i];
    const struct monitor_container *info = sample->container;
    struct history_series *series = NULL;
    for (size_t s = 0; s < history->count && !series; s++) {
        if (strcmp(history->series[s]->id, info->id) == 0)
            series = history->series[s];
    }
    if (!series)
        series = add_series(history, &history->series, &history->count, &history->room, HISTORY_VALUES);
    if (!series)
        return history->count == HISTORY_SERIES_MAX ? 0 : -ENOMEM;
    if (series->span > 0 && !reshape(history, series, HISTORY_VALUES, 0, 0)) /* it is back */
        return -ENOMEM;
    const bool is_same_start = series->last.read_ns > 0 && series->last.read_ns < sample->read_ns &&
                               series->started_s == info->started_s;
    if (describe(series, info) < 0)
        return -ENOMEM;
    series->last_tick = history->ticks;
    uint64_t bytes;
    if (monitor_memory_limit(sample, pass->machine.memory_bytes, &bytes))
        series->limit_bytes = bytes;
    if (monitor_memory_used(sample, &bytes))
        put(history, series, HISTORY_MEMORY, (double)bytes);
    if (sample->groups & MONITOR_THREADS)
        series->threads = sample->threads;
    if (is_same_start)
        put_rates(history, series, sample, &series->last);
    series->last = *sample;
    return 0;
}

static struct history_series *add_training_series(struct history *history)
{
    struct history_series *series = add_series(history, &history->trainings, &history->training_count,
                                               &history->training_room, HISTORY_TRAINING_VALUES);
    if (!series)
        return NULL;
    series->training = calloc(1, sizeof *series->training);
    if (series->training)
        return series;
    history->training_count--; /* it was added last */
    series_free(series);
    return NULL;
}

static int add_training(struct history *history, const struct monitor_training *training)
{
    struct history_series *series = NULL;
    for (size_t s = 0; s < history->training_count && !series; s++) {
        const struct monitor_training *known = history->trainings[s]->training;
        if (strcmp(known->slot, training->slot) == 0 && strcmp(known->container, training->container) == 0)
            series = history->trainings[s];
    }
    if (!series)
        series = add_training_series(history);
    if (!series)
        return history->training_count == HISTORY_SERIES_MAX ? 0 : -ENOMEM;
    if (series->span > 0 && !reshape(history, series, HISTORY_TRAINING_VALUES, 0, 0))
        return -ENOMEM;
    *series->training = *training;
    series->last_tick = history->ticks;
    if ((training->groups & MONITOR_TRAINING_PROGRESS) && !training->is_done) {
        put(history, series, HISTORY_LOSS, training->loss);
        put(history, series, HISTORY_STEP_MS, training->ms_per_step);
        put(history, series, HISTORY_ACCURACY, training->accuracy);
    }
    return 0;
}

int history_add(struct history *history, const struct monitor_pass *pass, struct mst_error *err)
{
    int r = 0;
    if (history->ticks > 0) {
        const double gap_s = pass->wall_s - history->times[(history->ticks - 1) % history->capacity];
        if (gap_s < history->min_gap_s && gap_s > -history->min_gap_s) /* a clock that was set back goes on */
            return 0;
    }
    make_tick(history, history->series, &history->count, HISTORY_VALUES);
    make_tick(history, history->trainings, &history->training_count, HISTORY_TRAINING_VALUES);
    history->times[history->ticks % history->capacity] = pass->wall_s;
    history->machine = pass->machine;
    for (size_t i = 0; r == 0 && i < pass->count; i++)
        r = add_container(history, pass, i);
    for (size_t i = 0; r == 0 && i < pass->training_count; i++)
        r = pass->trainings[i].is_no_training ? 0 : add_training(history, &pass->trainings[i]);
    history->ticks++;
    return r < 0 ? mst_error_set(err, r, "one more tick of the page: no memory") : 0;
}

/* ---- as JSON; numbers by hand, since there are a hundred thousand of them ---- */

struct json {
    struct mst_buf *text;
    int code;
};

static void add(struct json *json, const char *text)
{
    if (json->code == 0)
        json->code = mst_buf_append_text(json->text, text);
}

static void add_string(struct json *json, const char *key, const char *value)
{
    cJSON *item = cJSON_CreateString(value);
    mst_cleanup(mst_freep) char *text = item ? cJSON_PrintUnformatted(item) : NULL;
    cJSON_Delete(item);
    add(json, "\"");
    add(json, key);
    add(json, "\":");
    add(json, text ? text : "\"\"");
    add(json, ",");
}

static void add_number(struct json *json, const char *key, double value)
{
    if (json->code < 0)
        return;
    if (!isfinite(value))
        json->code = mst_buf_printf(json->text, "\"%s\":null,", key);
    else
        json->code = mst_buf_printf(json->text, "\"%s\":%.15g,", key, value);
}

/* Ends an object or array in place of its last comma. */
static void close_with(struct json *json, const char *end)
{
    if (json->code == 0 && json->text->count > 0 && json->text->bytes[json->text->count - 1] == ',')
        json->text->count--;
    add(json, end);
}

/* Ticks [begin, end). */
static void add_row(struct json *json, const struct history *history, const struct history_series *series,
                    size_t value, const char *key, uint64_t begin, uint64_t end)
{
    add(json, "\"");
    add(json, key);
    add(json, "\":[");
    for (uint64_t tick = begin; json->code == 0 && tick < end; tick++) {
        const float number = value_at(history, series, value, tick);
        if (!isfinite(number))
            json->code = mst_buf_append_text(json->text, "null,");
        else
            json->code =
                mst_buf_printf(json->text, fabsf(number) >= 1e4f ? "%.0f," : "%.4g,", (double)number);
    }
    close_with(json, "],");
}

/* Only from a series' first tick to its last: where containers come and go, most ticks of most series would
 * be nulls, which are a hundred times what there is to tell. */
static void add_values(struct json *json, const struct history *history, const struct history_series *series,
                       const char *const *keys, size_t values, uint64_t first)
{
    const uint64_t begin = series->first_tick > first ? series->first_tick : first;
    const uint64_t end = series->last_tick + 1 < history->ticks ? series->last_tick + 1 : history->ticks;
    add_number(json, "first", (double)(begin - first));
    for (size_t v = 0; v < values; v++)
        add_row(json, history, series, v, keys[v], begin, end);
}

/* What had gone before `first` is not told again and again to who has it. */
static bool is_told(const struct history *history, const struct history_series *series, uint64_t first)
{
    return series->last_tick >= first || series->last_tick + 1 >= history->ticks;
}

static void add_container_json(struct json *json, const struct history *history,
                               const struct history_series *series, uint64_t first)
{
    static const char *const keys[HISTORY_VALUES] = {"cpu", "memory", "rx", "tx", "read", "write"};
    add(json, "{");
    add_string(json, "id", series->id);
    add_string(json, "name", series->is_machine ? history->node : series->name);
    add_string(json, "image", series->image);
    add_string(json, "stack", series->stack);
    add_string(json, "service", series->service);
    add_string(json, "slot", series->slot);
    add(json, series->is_machine ? "\"machine\":true," : "\"machine\":false,");
    add(json, series->last_tick + 1 == history->ticks ? "\"running\":true," : "\"running\":false,");
    add_number(json, "started", series->started_s);
    add_number(json, "limit", (double)series->limit_bytes);
    add_number(json, "threads", (double)series->threads);
    add_values(json, history, series, keys, HISTORY_VALUES, first);
    close_with(json, "},");
}

static void add_training_json(struct json *json, const struct history *history,
                              const struct history_series *series, uint64_t first)
{
    static const char *const keys[HISTORY_TRAINING_VALUES] = {"loss", "step_ms", "accuracy"};
    const struct monitor_training *training = series->training;
    add(json, "{");
    add_string(json, "slot", training->slot);
    add_string(json, "container", training->container);
    add_string(json, "stack", training->stack);
    add_string(json, "service", training->service);
    add_string(json, "state", training->has_failed ? "failed" : training->is_done ? "done" : "running");
    add_number(json, "epoch", (double)training->epoch);
    add_number(json, "epochs", (double)training->epochs);
    add_number(json, "step", (double)training->step);
    add_number(json, "steps", (double)training->steps);
    add_number(json, "rank", (double)training->rank);
    add_number(json, "members", training->groups & MONITOR_TRAINING_VIEW ? (double)training->members : NAN);
    add_number(json, "recoveries", (double)training->recoveries);
    add_number(json, "test_accuracy",
               training->groups & MONITOR_TRAINING_TEST ? training->test_accuracy : (double)NAN);
    add_values(json, history, series, keys, HISTORY_TRAINING_VALUES, first);
    close_with(json, "},");
}

int history_json(const struct history *history, double since_s, bool has_day, struct mst_buf *text)
{
    struct json json = {.text = text};
    const uint64_t oldest = history->ticks > history->capacity ? history->ticks - history->capacity : 0;
    uint64_t first = oldest;
    while (first < history->ticks && history->times[first % history->capacity] <= since_s)
        first++;
    add(&json, "{");
    add_string(&json, "node", history->node);
    add_string(&json, "version", history->version);
    add(&json, has_day ? "\"day\":true," : "\"day\":false,");
    add_string(&json, "engine", history->machine.engine);
    add_string(&json, "kernel", history->machine.kernel);
    add_string(&json, "os", history->machine.os);
    add_number(&json, "cpus", (double)history->machine.cpus);
    add_number(&json, "memory", (double)history->machine.memory_bytes);
    add(&json, "\"times\":[");
    for (uint64_t tick = first; json.code == 0 && tick < history->ticks; tick++)
        json.code = mst_buf_printf(text, "%.3f,", history->times[tick % history->capacity]);
    close_with(&json, "],");
    add(&json, "\"containers\":[");
    for (size_t i = 0; i < history->count; i++) {
        if (is_told(history, history->series[i], first))
            add_container_json(&json, history, history->series[i], first);
    }
    close_with(&json, "],");
    add(&json, "\"trainings\":[");
    for (size_t i = 0; i < history->training_count; i++) {
        if (is_told(history, history->trainings[i], first))
            add_training_json(&json, history, history->trainings[i], first);
    }
    close_with(&json, "]}\n");
    return json.code;
}
