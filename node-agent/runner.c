/* SPDX-License-Identifier: Apache-2.0 */
#include "muster/cleanup.h"
#include "muster/clock.h"
#include "muster/log.h"
#include "muster/net.h"
#include "runner_private.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>

/* For the slowest worker to save, test and deliver: a collector may take DELIVER_STORED_MS for each of its
 * files. One that is lost meanwhile is no reason to wait so long: membership ends the wait. */
#define ALL_DONE_MS 600000

static void set_stage(struct runner *runner, enum runner_stage stage)
{
    pthread_mutex_lock(&runner->lock);
    runner->stage = stage;
    pthread_mutex_unlock(&runner->lock);
    if (eventfd_write(runner->stage_fd, 1) < 0)
        mst_log_error("runner", "cannot tell of a stage: %s", strerrordesc_np(errno));
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
int runner_wait(struct runner *runner, bool (*condition)(const struct runner *), unsigned wait_ms)
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

bool runner_never(const struct runner *runner)
{
    (void)runner;
    return false;
}

static void set_result(struct runner *runner, const struct job_result *result)
{
    pthread_mutex_lock(&runner->lock);
    runner->result = *result;
    pthread_mutex_unlock(&runner->lock);
}

/* 0: completed; 1: paused. */
static int run(struct runner *runner, struct mst_error *err)
{
    struct job_result result = {0};
    struct deliver *connection = NULL;
    int r = runner_join(runner, err);
    if (r == 0)
        r = job_run(runner->options.job, &runner->view, &runner->progress, &result, err);
    if (r == 0 && runner->options.collect)
        r = runner_deliver(runner, &connection, err);
    if (r != 0)
        return r;
    set_result(runner, &result);
    set_stage(runner, RUNNER_DELIVERED);

    r = runner_wait(runner, is_all_done, ALL_DONE_MS);
    if (r < 0)
        r = mst_error_errno(err, r, "wait for all workers to finish");
    else if (connection && runner->options.rank == 0)
        r = runner_complete(runner, &connection, err);
    else if (connection)
        deliver_hint_complete(connection); /* the chief may be stopped before it comes to that */
    deliver_free(connection);
    return r;
}

static void close_all(int *fds, uint32_t count)
{
    for (uint32_t i = 0; fds && i < count; i++)
        mst_closep(&fds[i]);
}

static void *runner_main(void *context)
{
    struct runner *runner = context;
    struct mst_error err = MST_ERROR_INIT;
    const int r = run(runner, &err);
    close_all(runner->view.fds_in, runner->options.world); /* what the job did not take over */
    close_all(runner->view.fds_out, runner->options.world);
    if (r < 0) {
        pthread_mutex_lock(&runner->lock);
        runner->err = err;
        runner->err.code = r;
        pthread_mutex_unlock(&runner->lock);
    }
    set_stage(runner, r < 0 ? RUNNER_FAILED : r == 1 ? RUNNER_PAUSED : RUNNER_COMPLETED);
    pthread_mutex_lock(&runner->lock);
    runner->ended = true; /* the last that this thread does */
    pthread_cond_signal(&runner->changed);
    pthread_mutex_unlock(&runner->lock);
    return NULL;
}

static void free_arrays(struct runner *runner)
{
    close_all(runner->given, runner->options.world);
    free(runner->given);
    free(runner->view.fds_in);
    free(runner->view.fds_out);
    free(runner->members);
    free(runner->steps);
}

static void runner_free(struct runner *runner)
{
    mst_closep(&runner->stage_fd);
    mst_closep(&runner->cancel_fd);
    mst_closep(&runner->pause_fd);
    free_arrays(runner);
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

static int *no_descriptors(uint32_t count)
{
    int *fds = malloc(count * sizeof *fds);
    for (uint32_t i = 0; fds && i < count; i++)
        fds[i] = -1;
    return fds;
}

/* What is borrowed from the caller becomes our own. */
static int copy_options(struct runner *runner, const struct runner_options *options, struct mst_error *err)
{
    const size_t world = options->world;
    struct discovery_identity *members = calloc(world, sizeof *members);
    uint64_t *steps = calloc(world, sizeof *steps);
    runner->options = *options;
    runner->options.members = runner->members = members;
    runner->options.steps = runner->steps = steps;
    runner->given = no_descriptors(options->world);
    runner->view = (struct job_view){
        .view = options->view,
        .rank = options->rank,
        .world = options->world,
        .key = options->key,
        .agreed_ns = mst_now_ns(),
        .members = members,
        .fds_in = no_descriptors(options->world),
        .fds_out = no_descriptors(options->world),
        .steps = steps,
    };
    if (!members || !steps || !runner->given || !runner->view.fds_in || !runner->view.fds_out)
        return mst_error_set(err, -ENOMEM, "start the job with %zu workers: no memory", world);
    memcpy(members, options->members, world * sizeof *members);
    memcpy(steps, options->steps, world * sizeof *steps);
    return 0;
}

static int open_events(struct runner *runner, struct mst_error *err)
{
    int *const fds[] = {&runner->stage_fd, &runner->cancel_fd, &runner->pause_fd};
    for (size_t f = 0; f < MST_ARRAY_COUNT(fds); f++) {
        *fds[f] = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        if (*fds[f] < 0)
            return mst_error_errno(err, -errno, "start the job: make an eventfd");
    }
    runner->view.cancel_fd = runner->cancel_fd;
    runner->view.pause_fd = runner->pause_fd;
    return 0;
}

int runner_start(const struct runner_options *options, struct runner **ret_runner, struct mst_error *err)
{
    struct runner *runner = calloc(1, sizeof *runner);
    if (!runner)
        return mst_error_set(err, -ENOMEM, "start the job: no memory");
    runner->stage_fd = runner->cancel_fd = runner->pause_fd = -1;
    int r = init_locks(runner, err);
    if (r < 0) {
        free(runner);
        return r;
    }
    r = copy_options(runner, options, err);
    if (r == 0)
        r = open_events(runner, err);
    if (r == 0) {
        r = -pthread_create(&runner->thread, NULL, runner_main, runner);
        if (r < 0)
            (void)mst_error_errno(err, r, "start the job's thread");
    }
    if (r < 0) {
        runner_free(runner);
        return r;
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

struct job_progress runner_progress(struct runner *runner)
{
    return job_progress_get(&runner->progress);
}

void runner_give_data(struct runner *runner, uint32_t rank, int fd)
{
    pthread_mutex_lock(&runner->lock);
    mst_closep(&runner->given[rank]); /* dialled twice: the newer one holds */
    runner->given[rank] = fd;
    pthread_cond_signal(&runner->changed);
    pthread_mutex_unlock(&runner->lock);
}

void runner_give_collector(struct runner *runner, const struct discovery_identity *collector)
{
    pthread_mutex_lock(&runner->lock);
    runner->collector = *collector;
    runner->collector_known = true;
    pthread_cond_signal(&runner->changed);
    pthread_mutex_unlock(&runner->lock);
}

bool runner_lacks_collector(struct runner *runner)
{
    pthread_mutex_lock(&runner->lock);
    const bool lacks = runner->lacks_collector;
    runner->lacks_collector = false;
    pthread_mutex_unlock(&runner->lock);
    return lacks;
}

void runner_give_all_done(struct runner *runner)
{
    pthread_mutex_lock(&runner->lock);
    runner->all_done = true;
    pthread_cond_signal(&runner->changed);
    pthread_mutex_unlock(&runner->lock);
}

void runner_pause(struct runner *runner)
{
    if (eventfd_write(runner->pause_fd, 1) < 0)
        mst_log_error("runner", "cannot pause the job: %s", strerrordesc_np(errno));
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
