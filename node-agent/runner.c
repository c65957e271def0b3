/* SPDX-License-Identifier: Apache-2.0 */
#include "runner.h"

#include "deliver.h"
#include "muster/cleanup.h"
#include "muster/clock.h"
#include "muster/log.h"
#include "muster/net.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>

#define CONNECT_MS      5000 /* for both neighbours */
#define DIAL_PAUSE_MS   100
#define COLLECTOR_MS    10000 /* for the collector to be found, once training is over */
#define ALL_DONE_MS     30000 /* for the slowest worker to save, test and deliver */
#define DATA_SILENCE_MS 10000

struct runner {
    struct runner_options options;
    struct job_progress progress;
    pthread_t thread;
    int stage_fd, cancel_fd;

    pthread_mutex_t lock; /* guards what follows; `changed` tells of changes to it */
    pthread_cond_t changed;
    enum runner_stage stage;
    struct job_result result;
    struct mst_error err;
    int previous_fd; /* -1: not there yet */
    bool collector_known;
    struct discovery_identity collector;
    bool all_done, cancelled, ended;
};

static void set_stage(struct runner *runner, enum runner_stage stage)
{
    pthread_mutex_lock(&runner->lock);
    runner->stage = stage;
    pthread_mutex_unlock(&runner->lock);
    if (eventfd_write(runner->stage_fd, 1) < 0)
        mst_log_error("runner", "cannot tell of a stage: %s", strerrordesc_np(errno));
}

static bool has_previous(const struct runner *runner)
{
    return runner->previous_fd >= 0;
}

static bool has_collector(const struct runner *runner)
{
    return runner->collector_known;
}

static bool is_all_done(const struct runner *runner)
{
    return runner->all_done;
}

/* This long from now, as pthreads want it. */
static struct timespec after_ms(unsigned wait_ms)
{
    const uint64_t at_ns = mst_now_ns() + wait_ms * MST_NS_PER_MS;
    return (struct timespec){.tv_sec = (time_t)(at_ns / MST_NS_PER_S),
                             .tv_nsec = (long)(at_ns % MST_NS_PER_S)};
}

/* Wait until `condition` holds: 0, -ECANCELED or -ETIMEDOUT. */
static int wait_for(struct runner *runner, bool (*condition)(const struct runner *), unsigned wait_ms)
{
    const struct timespec deadline = after_ms(wait_ms);
    int r = 0;
    pthread_mutex_lock(&runner->lock);
    while (r == 0 && !runner->cancelled && !condition(runner))
        r = -pthread_cond_timedwait(&runner->changed, &runner->lock, &deadline);
    if (runner->cancelled)
        r = -ECANCELED;
    else if (condition(runner))
        r = 0;
    pthread_mutex_unlock(&runner->lock);
    return r;
}

static bool never(const struct runner *runner)
{
    (void)runner;
    return false;
}

/* A listener that is flooded, or not there yet, says so and is asked again until CONNECT_MS have passed. */
static int dial_next(struct runner *runner, struct mst_error *err)
{
    const struct discovery_identity *next = &runner->options.next;
    const uint64_t deadline_ns = mst_now_ns() + CONNECT_MS * MST_NS_PER_MS;
    for (;;) {
        struct discovery_session session;
        enum discovery_reason reason = DISCOVERY_REASON_NONE;
        const int r =
            discovery_hello_dial(next->ipv4, next->port, &runner->options.self, DISCOVERY_PURPOSE_DATA,
                                 deadline_ns, &runner->options.view.fd_next, &session, &reason, err);
        mst_forget(&session, sizeof session);
        if (r == 0 || !discovery_reason_may_pass(reason) || mst_now_ns() >= deadline_ns)
            return r;
        if (wait_for(runner, never, DIAL_PAUSE_MS) == -ECANCELED)
            return mst_error_set(err, -ECANCELED, "stopped");
    }
}

/* Dial the next worker and await the call of the previous one. */
static int join_ring(struct runner *runner, struct mst_error *err)
{
    const struct discovery_identity *next = &runner->options.next;
    struct job_view *view = &runner->options.view;
    int r = dial_next(runner, err);
    if (r == 0)
        r = mst_tcp_tune(view->fd_next, DATA_SILENCE_MS, err);
    if (r < 0)
        return mst_error_wrap(err, r, "data connection to %s", next->slot);

    r = wait_for(runner, has_previous, CONNECT_MS);
    if (r < 0)
        return mst_error_errno(err, r, "wait for the data connection of the worker before this one");
    pthread_mutex_lock(&runner->lock);
    view->fd_prev = runner->previous_fd;
    runner->previous_fd = -1;
    pthread_mutex_unlock(&runner->lock);
    return mst_tcp_tune(view->fd_prev, DATA_SILENCE_MS, err);
}

static int deliver_all(struct runner *runner, struct deliver *deliver, struct mst_error *err)
{
    const struct job *job = runner->options.job;
    for (size_t index = 0;; index++) {
        mst_cleanup(job_file_release) struct job_file file = {0};
        int r = job->kind->file(job->state, index, &file, err);
        if (r == 0)
            return 0;
        if (r == 1)
            r = deliver_file(deliver, file.path, file.name, err);
        if (r < 0)
            return r;
    }
}

/* Hand the files on. No collector is no failure: they are on this worker's disk. */
static int deliver(struct runner *runner, struct deliver **ret_deliver, struct mst_error *err)
{
    int r = wait_for(runner, has_collector, COLLECTOR_MS);
    if (r == -ETIMEDOUT) {
        mst_log_warn("runner", "no collector was found in %d s: the files stay with this worker",
                     COLLECTOR_MS / 1000);
        return 0;
    }
    if (r < 0)
        return mst_error_set(err, r, "stopped while looking for the collector");
    struct deliver *connection = NULL;
    /* Set under the lock, and not changed once known. */
    r = deliver_open(&runner->options.self, &runner->collector, &connection, err);
    if (r == 0)
        r = deliver_all(runner, connection, err);
    if (r < 0) {
        deliver_free(connection);
        return r;
    }
    *ret_deliver = connection;
    return 0;
}

static void set_result(struct runner *runner, const struct job_result *result)
{
    pthread_mutex_lock(&runner->lock);
    runner->result = *result;
    pthread_mutex_unlock(&runner->lock);
}

static int run(struct runner *runner, struct mst_error *err)
{
    struct job_view *view = &runner->options.view;
    struct job_result result = {0};
    struct deliver *connection = NULL;
    int r = view->world > 1 ? join_ring(runner, err) : 0;
    if (r == 0)
        r = job_run(runner->options.job, view, &runner->progress, &result, err);
    if (r == 0 && runner->options.collect)
        r = deliver(runner, &connection, err);
    if (r < 0)
        return r;
    set_result(runner, &result);
    set_stage(runner, RUNNER_DELIVERED);

    r = wait_for(runner, is_all_done, ALL_DONE_MS);
    if (r < 0)
        r = mst_error_errno(err, r, "wait for all workers to finish");
    else if (connection && view->rank == 0)
        r = deliver_complete(connection, err);
    deliver_free(connection);
    return r;
}

static void *runner_main(void *context)
{
    struct runner *runner = context;
    struct mst_error err = MST_ERROR_INIT;
    const int r = run(runner, &err);
    mst_closep(&runner->options.view.fd_prev); /* what the job did not take over */
    mst_closep(&runner->options.view.fd_next);
    if (r < 0) {
        pthread_mutex_lock(&runner->lock);
        runner->err = err;
        runner->err.code = r;
        pthread_mutex_unlock(&runner->lock);
    }
    set_stage(runner, r < 0 ? RUNNER_FAILED : RUNNER_COMPLETED);
    pthread_mutex_lock(&runner->lock);
    runner->ended = true; /* the last that this thread does */
    pthread_cond_signal(&runner->changed);
    pthread_mutex_unlock(&runner->lock);
    return NULL;
}

static void runner_free(struct runner *runner)
{
    mst_closep(&runner->stage_fd);
    mst_closep(&runner->cancel_fd);
    mst_closep(&runner->previous_fd);
    (void)pthread_cond_destroy(&runner->changed); /* both fail only while in use: a bug */
    (void)pthread_mutex_destroy(&runner->lock);
    job_progress_release(&runner->progress);
    mst_forget(&runner->options.self, sizeof runner->options.self);
    free(runner);
}

static int init_locks(struct runner *runner, struct mst_error *err)
{
    pthread_condattr_t attributes;
    int r = job_progress_init(&runner->progress, err);
    if (r < 0)
        return r;
    r = pthread_mutex_init(&runner->lock, NULL);
    if (r == 0)
        r = pthread_condattr_init(&attributes);
    if (r == 0) {
        r = pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
        if (r == 0)
            r = pthread_cond_init(&runner->changed, &attributes);
        (void)pthread_condattr_destroy(&attributes);
    }
    return r == 0 ? 0 : mst_error_errno(err, -r, "make the runner's lock");
}

int runner_start(const struct runner_options *options, struct runner **ret_runner, struct mst_error *err)
{
    struct runner *runner = calloc(1, sizeof *runner);
    if (!runner)
        return mst_error_set(err, -ENOMEM, "start the job: no memory");
    runner->options = *options;
    runner->options.view.fd_prev = -1;
    runner->options.view.fd_next = -1;
    runner->previous_fd = -1;
    runner->stage_fd = -1;
    runner->cancel_fd = -1;
    int r = init_locks(runner, err);
    if (r < 0) {
        free(runner);
        return r;
    }
    runner->stage_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    runner->cancel_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (runner->stage_fd < 0 || runner->cancel_fd < 0) {
        r = mst_error_errno(err, -errno, "start the job: make an eventfd");
        runner_free(runner);
        return r;
    }
    runner->options.view.cancel_fd = runner->cancel_fd;
    r = -pthread_create(&runner->thread, NULL, runner_main, runner);
    if (r < 0) {
        runner_free(runner);
        return mst_error_errno(err, r, "start the job's thread");
    }
    *ret_runner = runner;
    return 0;
}

int runner_fd(const struct runner *runner)
{
    return runner->stage_fd;
}

enum runner_stage runner_stage(struct runner *runner, struct job_result *ret_result,
                               struct mst_error *ret_error)
{
    eventfd_t ignored;
    (void)eventfd_read(runner->stage_fd, &ignored); /* empty already: nothing changed since */
    pthread_mutex_lock(&runner->lock);
    const enum runner_stage stage = runner->stage;
    *ret_result = runner->result;
    *ret_error = runner->err;
    pthread_mutex_unlock(&runner->lock);
    return stage;
}

void runner_progress(struct runner *runner, uint64_t *ret_step, uint32_t *ret_epoch)
{
    job_progress_get(&runner->progress, ret_step, ret_epoch);
}

void runner_give_previous(struct runner *runner, int fd)
{
    pthread_mutex_lock(&runner->lock);
    mst_closep(&runner->previous_fd); /* dialled twice: the newer one holds */
    runner->previous_fd = fd;
    pthread_cond_signal(&runner->changed);
    pthread_mutex_unlock(&runner->lock);
}

void runner_give_collector(struct runner *runner, const struct discovery_identity *collector)
{
    pthread_mutex_lock(&runner->lock);
    if (!runner->collector_known) {
        runner->collector = *collector;
        runner->collector_known = true;
        pthread_cond_signal(&runner->changed);
    }
    pthread_mutex_unlock(&runner->lock);
}

void runner_give_all_done(struct runner *runner)
{
    pthread_mutex_lock(&runner->lock);
    runner->all_done = true;
    pthread_cond_signal(&runner->changed);
    pthread_mutex_unlock(&runner->lock);
}

void runner_cancel(struct runner *runner)
{
    pthread_mutex_lock(&runner->lock);
    runner->cancelled = true;
    pthread_cond_signal(&runner->changed);
    pthread_mutex_unlock(&runner->lock);
    if (eventfd_write(runner->cancel_fd, 1) < 0)
        mst_log_error("runner", "cannot cancel the job: %s", strerrordesc_np(errno));
}

int runner_stop(struct runner *runner, int wait_ms)
{
    const struct timespec deadline = after_ms((unsigned)wait_ms);
    runner_cancel(runner);
    /* Not pthread_clockjoin_np(): the thread sanitizer does not know it for a join. */
    int r = 0;
    pthread_mutex_lock(&runner->lock);
    while (r == 0 && !runner->ended)
        r = pthread_cond_timedwait(&runner->changed, &runner->lock, &deadline);
    const bool ended = runner->ended;
    pthread_mutex_unlock(&runner->lock);
    if (!ended)
        return -r;
    (void)pthread_join(runner->thread, NULL); /* of a thread of ours that has ended: cannot fail */
    runner_free(runner);
    return 0;
}
