/* SPDX-License-Identifier: Apache-2.0 */
#include "replay.h"

#include "container.h"
#include "muster/cleanup.h"
#include "muster/clock.h"
#include "muster/log.h"
#include "muster/parse.h"
#include "recording.h"
#include "sampler.h"

#include <inttypes.h>
#include <math.h>
#include <microhttpd.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define REPLAY_FILES_MAX 1024
#define REPLAY_POINTS    1200 /* of the page: more than a screen has */
#define REPLAY_MAX_BYTES ((size_t)8 << 20)

int replay_time(const char *text, double first_s, double *ret_time_s, struct mst_error *err)
{
    uint64_t ns;
    if (strlen(text) > 10 && text[4] == '-') {
        const double time_s = container_time_s(text);
        if (time_s > 0) {
            *ret_time_s = time_s;
            return 0;
        }
    } else if (mst_parse_double(text, 1e6, 1e11, ret_time_s, NULL) == 0) {
        return 0;
    } else if (mst_parse_duration_ns(*text == '+' ? text + 1 : text, &ns, NULL) == 0) {
        *ret_time_s = first_s + (double)ns / (double)MST_NS_PER_S;
        return 0;
    }
    return mst_error_set(err, -EINVAL, "'%.40s' is no time as 2026-01-31T23:59:59Z, 1764547199 or 90s", text);
}

/* Several files as one. */
struct reel {
    struct recording *files[REPLAY_FILES_MAX];
    size_t count, current;
    double first_s, last_s, from_s, to_s;
};

static int reel_rewind(struct reel *reel, struct mst_error *err)
{
    int r = 0;
    reel->current = 0;
    for (size_t i = 0; r == 0 && i < reel->count; i++)
        r = recording_seek(reel->files[i], reel->from_s, err);
    return r;
}

static int reel_open(struct reel *reel, const struct replay_options *options, struct mst_error *err)
{
    int r = 0;
    for (const char *const *file = options->files; r == 0 && *file; file++) {
        if (reel->count == REPLAY_FILES_MAX)
            return mst_error_set(err, -EINVAL, "more than %d files", REPLAY_FILES_MAX);
        r = recording_open(*file, &reel->files[reel->count], err);
        if (r < 0)
            break;
        const struct recording *recording = reel->files[reel->count++];
        double first_s, last_s;
        recording_span(recording, &first_s, &last_s);
        if (recording_torn(recording) > 0)
            mst_log_warn("monitor",
                         "'%s': %" PRIu64 " bytes at its end were torn by a crash and are left out", *file,
                         recording_torn(recording));
        if (recording_passes(recording) == 0)
            continue;
        reel->first_s = reel->first_s == 0 ? first_s : reel->first_s;
        reel->last_s = last_s;
    }
    reel->from_s = -INFINITY;
    reel->to_s = INFINITY;
    if (r == 0 && options->from) {
        r = replay_time(options->from, reel->first_s, &reel->from_s, err);
        r = r < 0 ? mst_error_wrap(err, r, "option '--from'") : 0;
    }
    if (r == 0 && options->to) {
        r = replay_time(options->to, reel->first_s, &reel->to_s, err);
        r = r < 0 ? mst_error_wrap(err, r, "option '--to'") : 0;
    }
    return r == 0 ? reel_rewind(reel, err) : r;
}

static void reel_close(struct reel *reel)
{
    for (size_t i = 0; i < reel->count; i++)
        recording_free(reel->files[i]);
}

/* As recording_next(). */
static int reel_next(struct reel *reel, const struct monitor_pass **ret_pass, struct mst_error *err)
{
    while (reel->current < reel->count) {
        const int r = recording_next(reel->files[reel->current], ret_pass, err);
        if (r == 1)
            return (*ret_pass)->wall_s <= reel->to_s;
        if (r < 0)
            return r;
        reel->current++;
    }
    return 0;
}

/* Waits until the pass is due. -ECANCELED when stopped. */
static int wait_for(const struct monitor_pass *pass, double speed, double *last_s, int stop_fd)
{
    const double gap_s = pass->wall_s - *last_s;
    const bool is_first = *last_s == 0;
    struct pollfd stop = {.fd = stop_fd, .events = POLLIN};
    *last_s = pass->wall_s;
    int wait_ms = 0;
    if (!is_first && speed > 0 && gap_s > 0)
        wait_ms = gap_s / speed * 1000 > 3600000 ? 3600000 : (int)(gap_s / speed * 1000);
    return poll(&stop, 1, wait_ms) > 0 ? -ECANCELED : 0;
}

/* ---- in the terminal ---- */

static int show(const struct replay_options *options, const struct monitor_pass *pass, struct mst_buf *text,
                bool is_first, struct mst_error *err)
{
    mst_cleanup(mst_freep) struct stats_row *rows = NULL;
    size_t count = 0;
    char when[MST_UTC_TEXT_BYTES];
    mst_buf_clear(text);
    mst_utc_text(pass->wall_s, when);
    int r = stats_rows(pass, &options->stats, &rows, &count, err);
    if (r == 0 && !options->stats.format)
        r = mst_buf_printf(text, "%s\n", when);
    if (r == 0)
        r = stats_print(rows, count, &options->stats, text, err);
    if (r == 0 && !options->stats.format && !isatty(STDOUT_FILENO))
        r = mst_buf_append(text, "\n", 1);
    return r == 0 ? stats_show(STDOUT_FILENO, options->stop_fd, text, is_first, err) : r;
}

static int replay_terminal(const struct replay_options *options, struct reel *reel, struct mst_error *err)
{
    struct mst_buf text = MST_BUF_INIT(REPLAY_MAX_BYTES);
    const struct monitor_pass *pass;
    double last_s = 0;
    bool is_first = true;
    int r;
    while ((r = reel_next(reel, &pass, err)) == 1) {
        r = wait_for(pass, options->speed, &last_s, options->stop_fd);
        if (r == 0)
            r = show(options, pass, &text, is_first, err);
        if (r < 0)
            break;
        is_first = false;
    }
    mst_buf_release(&text);
    return r;
}

/* ---- as CSV ---- */

static int replay_csv(const struct replay_options *options, struct reel *reel, struct mst_error *err)
{
    struct monitor_csv csv;
    const struct monitor_pass *pass;
    const char *node = reel->count ? recording_node(reel->files[0]) : "";
    int r = monitor_csv_open(&csv, options->csv_path, node, options->stop_fd, err);
    if (r < 0)
        return r;
    const struct monitor_output output = monitor_csv_output(&csv);
    while ((r = reel_next(reel, &pass, err)) == 1) {
        if (pass->machine.memory_bytes > 0)
            csv.machine_bytes = pass->machine.memory_bytes;
        r = 0;
        for (size_t i = 0; r == 0 && i < pass->count; i++) {
            const struct monitor_sample *before = &pass->before[i];
            if (!pass->samples[i].container->is_machine)
                r = output.sample(output.context, &pass->samples[i], before->read_ns ? before : NULL, err);
        }
        if (r == 0)
            r = output.flush(output.context, err);
        if (r < 0)
            break;
    }
    monitor_csv_release(&csv);
    return r;
}

/* ---- served ---- */

struct projector {
    const struct replay_options *options;
    struct reel *reel;
    struct web *web;
    struct history history;
    int wake_fd;
    uint64_t started_ns;
};

/* The whole of it for the page, thinned out to what can be seen. */
static int load_history(struct projector *projector, struct mst_error *err)
{
    struct reel *reel = projector->reel;
    const struct monitor_pass *pass;
    int r;
    const double first_s = reel->from_s > reel->first_s ? reel->from_s : reel->first_s;
    const double last_s = reel->to_s < reel->last_s ? reel->to_s : reel->last_s;
    projector->history.min_gap_s = last_s > first_s ? (last_s - first_s) / REPLAY_POINTS : 0;
    while ((r = reel_next(reel, &pass, err)) == 1) {
        r = history_add(&projector->history, pass, err);
        if (r < 0)
            return r;
    }
    return r < 0 ? r : reel_rewind(reel, err);
}

/* The pass that was newest at a time: `?at=` says which (the n-th of all with `#`), else the clock does,
 * which began with the first and stops at the last. */
static int find_pass(struct projector *projector, const char *at, const struct monitor_pass **ret_pass,
                     struct mst_error *err)
{
    struct reel *reel = projector->reel;
    const double begin_s = reel->from_s > reel->first_s ? reel->from_s : reel->first_s;
    const double speed = projector->options->speed;
    double at_s = INFINITY;
    uint64_t number = UINT64_MAX;
    int r = 0;
    if (at && *at == '#')
        r = mst_parse_u64(at + 1, 0, UINT64_MAX - 1, &number, err);
    else if (at)
        r = replay_time(at, begin_s, &at_s, err);
    else if (speed > 0)
        at_s = begin_s + (double)(mst_now_ns() - projector->started_ns) / (double)MST_NS_PER_S * speed;
    if (r == 0)
        r = reel_rewind(reel, err);
    if (r < 0)
        return r;
    /* Two goes: a pass is borrowed only until the next one, so the last that fits is counted first. */
    uint64_t wanted = number;
    const struct monitor_pass *pass;
    if (number == UINT64_MAX) {
        uint64_t count = 0;
        while ((r = reel_next(reel, &pass, err)) == 1 && (count == 0 || pass->wall_s <= at_s))
            count++;
        if (r < 0)
            return r;
        wanted = count > 0 ? count - 1 : 0;
        r = reel_rewind(reel, err);
    }
    for (uint64_t i = 0; r == 0 && i <= wanted; i++) {
        r = reel_next(reel, &pass, err);
        if (r != 1)
            return r < 0 ? r : mst_error_set(err, -ENODATA, "the recording has %" PRIu64 " samples", i);
        r = 0;
    }
    *ret_pass = pass;
    return r;
}

static void answer(struct projector *projector, struct http_question *question)
{
    struct mst_error err = MST_ERROR_INIT;
    const struct monitor_pass *pass;
    switch (web_kind(projector->web, question)) {
    case WEB_METRICS:
        if (find_pass(projector, http_question_value(question, "at", 0), &pass, &err) == 0)
            web_answer_metrics(projector->web, question, pass);
        else
            web_answer_error(question, MHD_HTTP_BAD_REQUEST, err.text);
        break;
    case WEB_HISTORY:
        web_answer_history(projector->web, question, &projector->history, NULL);
        break;
    case WEB_NODES:
        web_answer_nodes(projector->web, question);
        break;
    case WEB_UNKNOWN:
        web_answer_error(question, MHD_HTTP_NOT_FOUND, "not found\n");
        break;
    }
}

static int project(struct projector *projector, struct mst_error *err)
{
    int r = web_wake_open(projector->options->stop_fd, projector->web, &projector->wake_fd, err);
    struct pollfd wake = {.fd = projector->wake_fd, .events = POLLIN};
    projector->started_ns = mst_now_ns();
    http_set_ready(web_http(projector->web), true);
    while (r == 0) {
        struct mst_error complaint = MST_ERROR_INIT;
        wake.fd = projector->wake_fd;
        if (poll(&wake, 1, 1000) < 0 && errno != EINTR)
            return mst_error_errno(err, -errno, "wait for requests");
        if (web_is_stopped(projector->options->stop_fd))
            return -ECANCELED;
        for (struct http_question *question; (question = http_next(web_http(projector->web)));)
            answer(projector, question);
        if (http_sweep(web_http(projector->web), &complaint) < 0)
            mst_log_error("monitor", "%s", complaint.text);
    }
    return r;
}

static int replay_served(const struct replay_options *options, struct reel *reel, struct mst_error *err)
{
    struct projector projector = {.options = options, .reel = reel, .wake_fd = -1};
    struct web_options web = options->web;
    if (reel->first_s == 0)
        return mst_error_set(err, -ENODATA, "the recording is empty");
    /* What was served live said so. */
    web.version = web.metrics.version = recording_version(reel->files[0]);
    web.node = recording_node(reel->files[0]);
    int r = history_init(&projector.history, REPLAY_POINTS + 1, web.node, web.version, err);
    if (r == 0)
        r = load_history(&projector, err);
    if (r == 0)
        r = web_new(&web, &projector.web, err);
    if (r == 0)
        r = project(&projector, err);
    web_free(projector.web);
    history_release(&projector.history);
    mst_closep(&projector.wake_fd);
    return r;
}

int replay_run(const struct replay_options *options, struct mst_error *err)
{
    struct reel *reel = calloc(1, sizeof *reel);
    if (!reel)
        return mst_error_set(err, -ENOMEM, "replay: no memory");
    int r = reel_open(reel, options, err);
    if (r == 0 && options->is_served)
        r = replay_served(options, reel, err);
    else if (r == 0 && options->csv_path)
        r = replay_csv(options, reel, err);
    else if (r == 0)
        r = replay_terminal(options, reel, err);
    reel_close(reel);
    free(reel);
    return r == -ECANCELED || r == -EPIPE ? 0 : r;
}

/* ---- recording ---- */

int record_run(const struct serve_options *options, serve_ready_fn *ready, struct mst_error *err)
{
    struct sampler sampler = {0};
    struct record *record = NULL;
    struct mst_error closing = MST_ERROR_INIT;
    const struct monitor_pass *pass;
    uint64_t lost = 0;
    int r = record_open(&options->record, &record, err);
    if (r == 0 && ready)
        r = ready(&options->monitor, err);
    if (r == 0)
        r = sampler_init(&sampler, &options->monitor, true, options->monitor.stop_fd, err);
    if (r == 0)
        r = sampler_settle(&sampler, err);
    for (uint64_t tick_ns = mst_now_ns(); r == 0;) {
        r = sampler_wait(&sampler, tick_ns, err);
        if (r == 0)
            r = sampler_take(&sampler, MONITOR_GROUPS_ALL, &pass, err);
        if (r == 0)
            r = record_add(record, pass, &lost, err);
        const uint64_t now = mst_now_ns();
        tick_ns += options->monitor.interval_ns;
        tick_ns = tick_ns > now ? tick_ns : now + options->monitor.interval_ns;
    }
    const int closed = record_close(record, &closing);
    sampler_release(&sampler);
    if (lost > 0)
        mst_log_warn("monitor", "%" PRIu64 " samples were lost while the disk was full", lost);
    if (r != -ECANCELED)
        return r;
    return closed < 0 ? mst_error_set(err, closed, "%s", closing.text) : 0;
}
