/* SPDX-License-Identifier: Apache-2.0 */
/* The exporter. A scrape reads everything at that moment; between scrapes only the page's charts need ticks,
 * a few seconds apart while nobody looks, and a recording. */
#include "serve.h"

#include "archive.h"
#include "muster/cleanup.h"
#include "muster/clock.h"
#include "muster/log.h"
#include "sampler.h"

#include <microhttpd.h>

#define SWEEP_NS      MST_NS_PER_S
#define IDLE_TICK_NS  (5 * MST_NS_PER_S)
#define LOOKED_AT_NS  (30 * MST_NS_PER_S) /* after the page's last question it is taken for closed */
#define QUESTIONS_MAX 256                 /* at a time; more wait for the next round */
#define TICKS_MIN     10
#define TICKS_MAX     7200

struct serve {
    const struct serve_options *options;
    struct web *web;
    struct sampler sampler;
    struct history history, day; /* the page's; the second only beside a recording */
    struct record *record;       /* NULL: none */
    uint64_t lost;               /* passes that a full disk has cost */
    int wake_fd;
    uint64_t looked_at_ns, tick_ns, sweep_ns;
};

/* What has been read goes to whoever wants it. */
static int take(struct serve *serve, bool is_tick, const struct monitor_pass **ret_pass,
                struct mst_error *err)
{
    const unsigned wanted = is_tick && !serve->record ? MONITOR_GROUPS_STATS : MONITOR_GROUPS_ALL;
    int r = sampler_take(&serve->sampler, wanted, ret_pass, err);
    if (r == 0 && serve->record)
        r = record_add(serve->record, *ret_pass, &serve->lost, err);
    if (r == 0)
        r = history_add(&serve->history, *ret_pass, err);
    if (r == 0 && serve->record)
        r = history_add(&serve->day, *ret_pass, err);
    return r;
}

/* All that are there: those that ask for metrics share one reading. Who asks while it goes on is answered
 * from the next one: no answer is older than its question. */
static int answer_all(struct serve *serve, struct mst_error *err)
{
    struct http_question *questions[QUESTIONS_MAX];
    const struct monitor_pass *pass = NULL;
    size_t count = 0;
    int r = 0;
    while (count < QUESTIONS_MAX && (questions[count] = http_next(web_http(serve->web))))
        count++;
    for (size_t i = 0; i < count; i++) {
        struct http_question *question = questions[i];
        switch (web_kind(serve->web, question)) {
        case WEB_METRICS:
            if (!pass && r == 0)
                r = take(serve, false, &pass, err);
            if (pass)
                web_answer_metrics(serve->web, question, pass);
            else
                web_answer_error(question, MHD_HTTP_INTERNAL_SERVER_ERROR, "nothing could be read\n");
            break;
        case WEB_HISTORY:
            serve->looked_at_ns = mst_now_ns();
            web_answer_history(serve->web, question, &serve->history, serve->record ? &serve->day : NULL);
            break;
        case WEB_NODES:
            web_answer_nodes(serve->web, question);
            break;
        case WEB_UNKNOWN:
            web_answer_error(question, MHD_HTTP_NOT_FOUND, "not found\n");
            break;
        }
    }
    return r;
}

static uint64_t tick_interval(const struct serve *serve, uint64_t now)
{
    const uint64_t interval_ns = serve->options->monitor.interval_ns;
    const bool is_looked_at = serve->looked_at_ns && now - serve->looked_at_ns < LOOKED_AT_NS;
    return serve->record || is_looked_at || interval_ns > IDLE_TICK_NS ? interval_ns : IDLE_TICK_NS;
}

static int do_what_is_due(struct serve *serve, struct mst_error *err)
{
    const uint64_t now = mst_now_ns();
    struct mst_error complaint = MST_ERROR_INIT;
    if (now >= serve->sweep_ns) {
        serve->sweep_ns = now + SWEEP_NS;
        if (http_sweep(web_http(serve->web), &complaint) < 0)
            mst_log_error("monitor", "%s", complaint.text);
    }
    const uint64_t interval_ns = tick_interval(serve, now);
    if (serve->tick_ns > now + interval_ns) /* somebody looks now */
        serve->tick_ns = now + interval_ns;
    if (now < serve->tick_ns)
        return 0;
    const struct monitor_pass *pass;
    serve->tick_ns += interval_ns; /* on its grid; what was missed is left out */
    if (serve->tick_ns <= now)
        serve->tick_ns = now + interval_ns;
    return take(serve, true, &pass, err);
}

static int loop(struct serve *serve, struct mst_error *err)
{
    int r = 0;
    serve->tick_ns = serve->sweep_ns = mst_now_ns();
    while (r == 0) {
        r = do_what_is_due(serve, err);
        if (r < 0)
            break;
        http_set_ready(web_http(serve->web), true);
        r = sampler_wait(&serve->sampler, serve->tick_ns < serve->sweep_ns ? serve->tick_ns : serve->sweep_ns,
                         err);
        if (r == -ECANCELED && !web_is_stopped(serve->options->monitor.stop_fd))
            r = answer_all(serve, err);
    }
    return r;
}

static int prepare(struct serve *serve, serve_ready_fn *ready, struct mst_error *err)
{
    const struct serve_options *options = serve->options;
    const uint64_t wanted = options->history_ns / options->monitor.interval_ns;
    const size_t ticks = wanted < TICKS_MIN ? TICKS_MIN : wanted > TICKS_MAX ? TICKS_MAX : (size_t)wanted;
    int r = history_init(&serve->history, ticks, options->web.node, options->web.version, err);
    serve->history.min_gap_s = (double)options->monitor.interval_ns / (double)MST_NS_PER_S / 2;
    if (r == 0)
        r = web_new(&options->web, &serve->web, err);
    if (r == 0)
        r = web_wake_open(options->monitor.stop_fd, serve->web, &serve->wake_fd, err);
    if (r == 0 && options->record.path)
        r = record_open(&options->record, &serve->record, err);
    if (r == 0 && serve->record)
        r = archive_init(&serve->day, options->web.node, options->web.version, err);
    if (r == 0 && serve->record)
        r = archive_load(options->record.path, (double)options->history_ns / (double)MST_NS_PER_S,
                         &serve->history, &serve->day, err);
    if (r == 0 && ready)
        r = ready(&options->monitor, err);
    if (r == 0)
        r = sampler_init(&serve->sampler, &options->monitor, true, serve->wake_fd, err);
    /* A scrape that is already waiting is answered when what runs is known. */
    if (r == 0)
        r = sampler_settle(&serve->sampler, err);
    return r == -ECANCELED && !web_is_stopped(options->monitor.stop_fd) ? 0 : r;
}

int serve_run_when(const struct serve_options *options, serve_ready_fn *ready, struct mst_error *err)
{
    struct serve serve = {.options = options, .wake_fd = -1};
    struct mst_error closing = MST_ERROR_INIT;
    int r = prepare(&serve, ready, err);
    if (r == 0)
        r = loop(&serve, err);
    const int closed = record_close(serve.record, &closing);
    if (r == -ECANCELED || r == 0)
        r = closed < 0 ? mst_error_set(err, closed, "%s", closing.text) : 0;
    web_free(serve.web);
    sampler_release(&serve.sampler);
    history_release(&serve.history);
    history_release(&serve.day);
    mst_closep(&serve.wake_fd);
    return r;
}

int serve_run(const struct serve_options *options, struct mst_error *err)
{
    return serve_run_when(options, NULL, err);
}
