/* SPDX-License-Identifier: Apache-2.0 */
#include "job.h"

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

void job_progress_get(struct job_progress *progress, uint64_t *ret_step, uint32_t *ret_epoch)
{
    pthread_mutex_lock(&progress->lock);
    *ret_step = progress->step;
    *ret_epoch = progress->epoch;
    pthread_mutex_unlock(&progress->lock);
}

static void advance(struct job_progress *progress, uint32_t epoch, uint64_t steps)
{
    pthread_mutex_lock(&progress->lock);
    progress->epoch = epoch;
    progress->step += steps;
    pthread_mutex_unlock(&progress->lock);
}

static int check_cancelled(const struct job_view *view, struct mst_error *err)
{
    struct pollfd cancel = {.fd = view->cancel_fd, .events = POLLIN};
    if (poll(&cancel, 1, 0) > 0)
        return mst_error_set(err, -ECANCELED, "stopped");
    return 0;
}

static int run_epoch(const struct job *job, const struct job_view *view, struct job_progress *progress,
                     uint32_t epoch, struct mst_error *err)
{
    advance(progress, epoch, 0);
    int r = job->kind->epoch_begin(job->state, epoch, err);
    for (uint32_t step = 0; r == 0 && step < job->steps_per_epoch; step++) {
        r = check_cancelled(view, err);
        if (r == 0)
            r = job->kind->step(job->state, err);
        if (r == 0)
            advance(progress, epoch, 1);
    }
    return r < 0 ? r : job->kind->epoch_end(job->state, epoch, err);
}

int job_run(const struct job *job, struct job_view *view, struct job_progress *progress,
            struct job_result *ret_result, struct mst_error *err)
{
    int r = job->kind->prepare(job->state, view, err);
    for (uint32_t epoch = 1; r == 0 && epoch <= job->epochs; epoch++)
        r = run_epoch(job, view, progress, epoch, err);
    if (r == 0)
        r = job->kind->save(job->state, err);
    return r < 0 ? r : job->kind->finish(job->state, ret_result, err);
}

void job_file_release(struct job_file *file)
{
    free(file->path);
    free(file->name);
    *file = (struct job_file){0};
}
