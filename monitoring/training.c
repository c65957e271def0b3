/* SPDX-License-Identifier: Apache-2.0 */
#include "training.h"

#include "muster/cleanup.h"
#include "muster/clock.h"
#include "muster/json.h"
#include "muster/log.h"
#include "muster/peers.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define TRAININGS_MAX        1024
#define TRAINING_TAIL        "500" /* lines from before: the view is told once */
#define TRAINING_TIME_BYTES  64    /* "2026-01-31T23:59:59.123456789Z" */
#define TRAINING_RETRY_NS    (5 * MST_NS_PER_S)
#define TRAINING_CHUNK_BYTES 65536
#define TRAINING_FILE_CHUNKS 64 /* read at a time: a long file is caught up with over several passes */

/* A log that ended is followed again from some lines before its end, and those were counted already. The
 * engine's own times tell them apart: what is not newer than the newest was, unless it follows the last one,
 * for a clock may be set back. A line's time is the engine's when its end came, so one that was cut off comes
 * again whole. */
struct place {
    char last[TRAINING_TIME_BYTES];   /* of the last line; "" before the first */
    char newest[TRAINING_TIME_BYTES]; /* of all */
    bool is_behind;                   /* being read again: nothing new so far */
    char from[TRAINING_TIME_BYTES];   /* `last` when it was followed again */
};

struct training {
    struct monitor_training info;
    char id[MONITOR_ID_BYTES]; /* "" for a file */
    const char *path;          /* borrowed; NULL for a container */
    int fd;
    off_t offset;
    struct engine_stream *stream; /* NULL: ended, or not open */
    struct engine_frames frames;
    struct engine_lines lines;
    struct place place;
    uint64_t retry_ns;
};

/* ---- events ---- */

static void take_progress(struct monitor_training *training, const cJSON *event)
{
    training->epoch = mst_json_u64_or(event, "epoch", training->epoch);
    training->epochs = mst_json_u64_or(event, "epochs", training->epochs);
    training->step = mst_json_u64_or(event, "step", training->step);
    training->steps = mst_json_u64_or(event, "steps", training->steps);
    training->rank = mst_json_u64_or(event, "rank", training->rank);
    training->loss = mst_json_double_or(event, "loss", training->loss);
    training->accuracy = mst_json_double_or(event, "accuracy", training->accuracy);
    training->ms_per_step = mst_json_double_or(event, "ms_per_step", training->ms_per_step);
    training->groups |= MONITOR_TRAINING_PROGRESS;
}

static void take_view(struct monitor_training *training, const cJSON *event)
{
    training->view = mst_json_u64_or(event, "view", training->view);
    training->members = mst_json_u64_or(event, "world", training->members);
    training->rank = mst_json_u64_or(event, "rank", training->rank);
    training->groups |= MONITOR_TRAINING_VIEW;
}

/* `steps` of an epoch are those made in it, of progress those of the whole training. */
static void take_epoch(struct monitor_training *training, const cJSON *event)
{
    training->epoch = mst_json_u64_or(event, "epoch", training->epoch);
    training->epochs = mst_json_u64_or(event, "epochs", training->epochs);
    training->loss = mst_json_double_or(event, "loss", training->loss);
    training->accuracy = mst_json_double_or(event, "accuracy", training->accuracy);
    training->ms_per_step = mst_json_double_or(event, "ms_per_step", training->ms_per_step);
    training->bytes_sent += mst_json_u64_or(event, "bytes_sent", 0);
    training->epochs_done++;
    training->groups |= MONITOR_TRAINING_PROGRESS;
}

_Static_assert(MONITOR_GAUGE_BYTES == PEERS_GAUGE_BYTES, "whoever reads the page has room for the name");

static void take_gauge(struct monitor_training *training, const cJSON *event)
{
    const char *name = mst_json_string_or(event, "name", "");
    const double value = mst_json_double_or(event, "value", NAN);
    size_t i = 0;
    if (!peers_is_gauge_name(name) || !isfinite(value))
        return;
    while (i < training->gauge_count && strcmp(training->gauges[i].name, name) != 0)
        i++;
    if (i == MONITOR_GAUGES_MAX)
        return;
    if (i == training->gauge_count) {
        training->gauges[i] = (struct monitor_gauge){.reports = 0};
        (void)snprintf(training->gauges[i].name, sizeof training->gauges[i].name, "%s", name);
        training->gauge_count++;
    }
    training->gauges[i].value = value;
    training->gauges[i].reports++;
}

void training_line(struct monitor_training *training, const char *line, size_t bytes)
{
    mst_cleanup(mst_json_deletep) cJSON *event = NULL;
    if (bytes == 0 || *line != '{' || mst_json_parse(line, bytes, "event", &event, NULL) < 0)
        return;
    const char *name = mst_json_string_or(event, "event", ""), *slot = mst_json_string_or(event, "slot", "");
    if (*slot && strlen(slot) < sizeof training->slot)
        (void)snprintf(training->slot, sizeof training->slot, "%s", slot);
    if (strcmp(name, "gauge") == 0) {
        take_gauge(training, event);
        return;
    }
    if (strcmp(name, "start") == 0 || strcmp(name, "progress") == 0)
        training->is_no_training = false;
    if (strcmp(name, "start") == 0) { /* a restart: the counters are the monitor's own, and stay */
        training->is_done = training->has_failed = false;
        training->groups = 0;
    } else if (strcmp(name, "progress") == 0) {
        take_progress(training, event);
    } else if (strcmp(name, "view") == 0) {
        take_view(training, event);
    } else if (strcmp(name, "epoch") == 0) {
        take_epoch(training, event);
    } else if (strcmp(name, "recovered") == 0) {
        training->recoveries++;
    } else if (strcmp(name, "lost") == 0) {
        training->lost++;
    } else if (strcmp(name, "checkpoint") == 0) {
        training->checkpoints++;
    } else if (strcmp(name, "test") == 0) {
        training->test_accuracy = mst_json_double_or(event, "accuracy", NAN);
        training->test_loss = mst_json_double_or(event, "loss", NAN);
        training->groups |= MONITOR_TRAINING_TEST;
    } else if (strcmp(name, "done") == 0) {
        training->is_done = true;
    } else if (strcmp(name, "failed") == 0) {
        training->has_failed = true;
    }
}

static int on_line(void *context, const char *line, size_t count, struct mst_error *err)
{
    (void)err;
    training_line(&((struct training *)context)->info, line, count);
    return 0;
}

/* The time before a message, "" when there is none; *text is what follows it. */
static void take_time(const char **text, size_t *count, char time[static TRAINING_TIME_BYTES])
{
    const char *space = memchr(*text, ' ', *count);
    const size_t bytes = space ? (size_t)(space - *text) : 0;
    time[0] = '\0';
    if (bytes == 0 || bytes >= TRAINING_TIME_BYTES || !isdigit((unsigned char)**text))
        return;
    memcpy(time, *text, bytes);
    time[bytes] = '\0';
    *text += bytes + 1;
    *count -= bytes + 1;
}

static bool is_new(struct place *place, const char *time, bool ends_line)
{
    if (*time == '\0')
        return true;
    if (*place->from && strcmp(time, place->from) == 0) {
        place->is_behind = false; /* what comes behind it is new, whatever time it bears */
        return false;
    }
    if (place->is_behind && strcmp(time, place->newest) <= 0)
        return false;
    place->is_behind = false; /* the last one is no longer in the log */
    if (ends_line) {
        (void)snprintf(place->last, sizeof place->last, "%s", time);
        if (strcmp(time, place->newest) > 0)
            (void)snprintf(place->newest, sizeof place->newest, "%s", time);
    }
    return true;
}

static int on_frame(void *context, unsigned stream, const char *bytes, size_t count, struct mst_error *err)
{
    struct training *training = context;
    char time[TRAINING_TIME_BYTES];
    if (stream != 1)
        return 0;
    take_time(&bytes, &count, time);
    if (!is_new(&training->place, time, count > 0 && bytes[count - 1] == '\n'))
        return 0;
    return engine_lines_feed(&training->lines, bytes, count, on_line, training, err);
}

static int on_bytes(void *context, const void *bytes, size_t count, struct mst_error *err)
{
    struct training *training = context;
    return engine_frames_feed(&training->frames, bytes, count, on_frame, training, err);
}

/* ---- sources ---- */

static void parsers_release(struct training *training)
{
    engine_frames_release(&training->frames);
    engine_lines_release(&training->lines);
    training->frames = (struct engine_frames)ENGINE_FRAMES_INIT;
    training->lines = (struct engine_lines)ENGINE_LINES_INIT;
}

static void on_end(void *context, int code, int status, const struct mst_error *err)
{
    struct training *training = context;
    (void)status;
    if (code < 0)
        mst_log_debug("monitor", "log of container %.12s: %s", training->id, err->text);
    training->stream = NULL;
    training->retry_ns = mst_now_ns() + TRAINING_RETRY_NS;
}

static void training_free(struct training *training)
{
    if (!training)
        return;
    if (training->stream)
        engine_stream_close(training->stream);
    mst_closep(&training->fd);
    parsers_release(training);
    free(training);
}

static struct training *training_add(struct trainings *trainings)
{
    if (trainings->count == TRAININGS_MAX)
        return NULL;
    if (trainings->count == trainings->capacity) {
        const size_t capacity = trainings->capacity ? trainings->capacity * 2 : 8;
        void *items = reallocarray(trainings->items, capacity, sizeof *trainings->items);
        trainings->items = items ? items : trainings->items;
        void *list = items ? reallocarray(trainings->list, capacity, sizeof *trainings->list) : NULL;
        trainings->list = list ? list : trainings->list;
        if (!list)
            return NULL;
        trainings->capacity = capacity;
    }
    struct training *training = calloc(1, sizeof *training);
    if (training) {
        training->fd = -1;
        training->frames = (struct engine_frames)ENGINE_FRAMES_INIT;
        training->lines = (struct engine_lines)ENGINE_LINES_INIT;
        trainings->items[trainings->count++] = training;
    }
    return training;
}

int trainings_init(struct trainings *trainings, const char *const *files, struct mst_error *err)
{
    *trainings = (struct trainings){0};
    for (; files && *files; files++) {
        struct training *training = training_add(trainings);
        if (!training)
            return mst_error_set(err, -ENOMEM, "follow '%s': no memory, or more than %d files", *files,
                                 TRAININGS_MAX);
        training->path = *files;
    }
    return 0;
}

void trainings_release(struct trainings *trainings)
{
    for (size_t i = 0; i < trainings->count; i++)
        training_free(trainings->items[i]);
    free(trainings->items);
    free(trainings->list);
    *trainings = (struct trainings){0};
}

static void open_log(struct training *training, struct engine_streams *streams)
{
    char path[64 + MONITOR_ID_BYTES];
    struct mst_error err = MST_ERROR_INIT;
    (void)snprintf(path, sizeof path, "/containers/%s/logs", training->id);
    parsers_release(training);
    const struct engine_call call = {
        .method = "GET", .path = path, .query = "follow=1&stdout=1&timestamps=1&tail=" TRAINING_TAIL};
    memcpy(training->place.from, training->place.last, sizeof training->place.from);
    training->place.is_behind = *training->place.from != '\0';
    if (engine_stream_open(streams, &call, on_bytes, on_end, training, &training->stream, &err) < 0)
        on_end(training, err.code, 0, &err);
}

static struct training *of_container(const struct trainings *trainings, const char *id)
{
    for (size_t i = 0; i < trainings->count; i++) {
        if (!trainings->items[i]->path && strcmp(trainings->items[i]->id, id) == 0)
            return trainings->items[i];
    }
    return NULL;
}

static void forget_gone(struct trainings *trainings, const struct roster *roster)
{
    for (size_t i = trainings->count; i-- > 0;) {
        struct training *training = trainings->items[i];
        if (training->path || roster_find(roster, training->id))
            continue;
        training_free(training);
        trainings->items[i] = trainings->items[--trainings->count];
    }
}

int trainings_follow(struct trainings *trainings, const struct roster *roster, struct engine_streams *streams,
                     struct mst_error *err)
{
    const uint64_t now = mst_now_ns();
    if (!streams)
        return 0;
    forget_gone(trainings, roster);
    for (size_t i = 0; i < roster->count; i++) {
        const struct monitor_container *info = &roster->targets[i]->info;
        if (!info->is_agent && !info->has_events)
            continue;
        struct training *training = of_container(trainings, info->id);
        if (!training && trainings->count == TRAININGS_MAX) {
            if (!trainings->is_full)
                mst_log_warn("monitor", "more than %d logs: '%s' is not followed", TRAININGS_MAX, info->name);
            trainings->is_full = true;
            continue;
        }
        if (!training && !(training = training_add(trainings)))
            return mst_error_set(err, -ENOMEM, "follow '%s': no memory", info->name);
        if (!*training->id && !info->is_agent) { /* gauges have no slot of their own */
            training->info.is_no_training = true;
            (void)snprintf(training->info.slot, sizeof training->info.slot, "%s",
                           *info->slot ? info->slot : info->name);
        }
        memcpy(training->id, info->id, sizeof training->id);
        memcpy(training->info.container, info->name, sizeof training->info.container);
        memcpy(training->info.stack, info->stack, sizeof training->info.stack);
        memcpy(training->info.service, info->service, sizeof training->info.service);
        if (!training->stream && now >= training->retry_ns)
            open_log(training, streams);
    }
    return 0;
}

static void lines_begin_anew(struct training *training)
{
    engine_lines_release(&training->lines);
    training->lines = (struct engine_lines)ENGINE_LINES_INIT;
}

/* Renamed, and another stands in its place with something in it. Until then whoever writes may still write to
 * the old one. */
static bool is_replaced(const struct training *training)
{
    struct stat ours, theirs;
    return fstat(training->fd, &ours) == 0 && stat(training->path, &theirs) == 0 &&
           (ours.st_ino != theirs.st_ino || ours.st_dev != theirs.st_dev) && theirs.st_size > 0;
}

/* A file that was replaced or cut is read from its start; the old one to its end before. */
static void read_file(struct training *training)
{
    char chunk[TRAINING_CHUNK_BYTES];
    for (int i = 0; i < TRAINING_FILE_CHUNKS; i++) {
        if (training->fd < 0)
            training->fd = open(training->path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
        if (training->fd < 0)
            return;
        const off_t end = lseek(training->fd, 0, SEEK_END);
        if (end >= 0 && end < training->offset) {
            training->offset = 0;
            lines_begin_anew(training);
        }
        const ssize_t got = pread(training->fd, chunk, sizeof chunk, training->offset);
        if (got < 0 || (got == 0 && !is_replaced(training)))
            return;
        if (got == 0) {
            mst_closep(&training->fd);
            training->offset = 0;
            lines_begin_anew(training);
            continue;
        }
        training->offset += got;
        if (engine_lines_feed(&training->lines, chunk, (size_t)got, on_line, training, NULL) < 0)
            lines_begin_anew(training); /* a line without an end: not events */
    }
}

static int compare_slots(const void *a, const void *b)
{
    const struct monitor_training *left = a, *right = b;
    const int by_slot = strcmp(left->slot, right->slot);
    return by_slot ? by_slot : strcmp(left->container, right->container);
}

size_t trainings_list(struct trainings *trainings, const struct monitor_training **ret_list)
{
    size_t count = 0;
    for (size_t i = 0; i < trainings->count; i++) {
        if (trainings->items[i]->path)
            read_file(trainings->items[i]);
        /* Not before it has said who it is; of two that say the same, one would be a duplicate series. */
        if (*trainings->items[i]->info.slot)
            trainings->list[count++] = trainings->items[i]->info;
    }
    if (count > 0)
        qsort(trainings->list, count, sizeof *trainings->list, compare_slots);
    size_t kept = 0;
    for (size_t i = 0; i < count; i++) {
        if (i == 0 || compare_slots(&trainings->list[i], &trainings->list[kept - 1]) != 0)
            trainings->list[kept++] = trainings->list[i];
    }
    *ret_list = trainings->list;
    return kept;
}
