/* SPDX-License-Identifier: Apache-2.0 */
#include "job.h"

#include "muster/clock.h"

#include <poll.h>
#include <stdlib.h>

int job_progress_init(struct job_progress *progress, struct mst_error *err)
{
    *progress = (struct job_progress){0};
    const int r = pthread_mutex_init(&progress->lock, NULL);
    return r == 0 ? 0 : mst_error_errno(err, -r, "make the progress lock");
}

void job_progress_release(struct job_progress *progress)
{
    (void)pthread_mutex_destroy(&progress->lock); /* fails only for a lock that is held: a bug */
}

struct job_progress job_progress_get(struct job_progress *progress)
{
    struct job_progress copy = {0};
    pthread_mutex_lock(&progress->lock);
    copy.step = progress->step;
    copy.epoch = progress->epoch;
    copy.entered_ns = progress->entered_ns;
    copy.stepped_ns = progress->stepped_ns;
    pthread_mutex_unlock(&progress->lock);
    return copy;
}

static bool is_readable(int fd)
{
    struct pollfd watched = {.fd = fd, .events = POLLIN};
    return poll(&watched, 1, 0) > 0;
}

/* What one view's run of a job works with. */
struct run {
    const struct job *job;
    struct job_view *view;
    struct job_progress *progress;
};

static void note_entered(struct run *run)
{
    pthread_mutex_lock(&run->progress->lock);
    run->progress->entered_ns = mst_now_ns();
    pthread_mutex_unlock(&run->progress->lock);
}

static void note_step(struct run *run, uint64_t step, uint32_t epoch, bool stepped)
{
    pthread_mutex_lock(&run->progress->lock);
    run->progress->step = step;
    run->progress->epoch = epoch;
    if (stepped && run->progress->stepped_ns == 0)
        run->progress->stepped_ns = mst_now_ns();
    pthread_mutex_unlock(&run->progress->lock);
}

#define RUN_COMPLETE 2 /* beside 1, paused, and 0: there is no other epoch */

static int end_epoch(struct run *run, uint32_t epoch, struct mst_error *err)
{
    const int r = run->job->kind->epoch_end(run->job->state, epoch, err);
    return r == 1 ? RUN_COMPLETE : r;
}

/* From wherever the state is to the epoch's end. 1: paused before that. */
static int run_epoch(struct run *run, uint64_t step, uint32_t epoch, struct mst_error *err)
{
    const struct job *job = run->job;
    const uint64_t end = (uint64_t)epoch * job->steps_per_epoch;
    note_step(run, step, epoch, false);
    int r = job->kind->epoch_begin(job->state, epoch, err);
    while (r == 0 && step < end) {
        if (is_readable(run->view->cancel_fd))
            return mst_error_set(err, -ECANCELED, "stopped");
        r = job->kind->step(job->state, is_readable(run->view->pause_fd), err);
        if (r >= 0)
            note_step(run, ++step, epoch, true);
    }
    return r != 0 ? r : end_epoch(run, epoch, err);
}

static int run_epochs(struct run *run, struct mst_error *err)
{
    const struct job *job = run->job;
    const uint64_t step = job->kind->position(job->state);
    int r = 0;
    uint32_t epoch = (uint32_t)(step / job->steps_per_epoch) + 1;
    note_step(run, step, epoch <= job->epochs ? epoch : job->epochs, false);
    /* A view may begin where an epoch ends: who has closed it before does so again with the others. */
    if (step > 0 && step % job->steps_per_epoch == 0)
        r = end_epoch(run, epoch - 1, err);
    for (; r == 0 && epoch <= job->epochs; epoch++)
        r = run_epoch(run, job->kind->position(job->state), epoch, err);
    return r == RUN_COMPLETE ? 0 : r;
}

static int run_in_view(struct run *run, struct job_result *ret_result, struct mst_error *err)
{
    const struct job_kind *kind = run->job->kind;
    int r = kind->enter(run->job->state, run->view, err);
    if (r < 0)
        return r;
    note_entered(run);
    if (kind->run) /* it makes no steps: to have begun is the first sign that the view is good for something
                    */
        note_step(run, 0, 0, true);
    if (kind->run)
        return kind->run(run->job->state, run->view, ret_result, err);
    r = run_epochs(run, err);
    if (r == 0)
        r = kind->save(run->job->state, err);
    return r != 0 ? r : kind->finish(run->job->state, ret_result, err);
}

int job_run(const struct job *job, struct job_view *view, struct job_progress *progress,
            struct job_result *ret_result, struct mst_error *err)
{
    struct run run = {.job = job, .view = view, .progress = progress};
    const int r = run_in_view(&run, ret_result, err);
    job->kind->leave(job->state);
    return r;
}

void job_file_release(struct job_file *file)
{
    free(file->path);
    free(file->name);
    *file = (struct job_file){0};
}
