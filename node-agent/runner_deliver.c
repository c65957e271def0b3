/* SPDX-License-Identifier: Apache-2.0 */
#include "muster/cleanup.h"
#include "muster/clock.h"
#include "muster/log.h"
#include "runner_private.h"

#define COLLECTOR_MS     10000 /* for the collector to be found, or found again */
#define DELIVER_TRIES    6     /* so about 8 s: Swarm starts a task anew after 5, if nobody says otherwise */
#define DELIVER_PAUSE_MS 250U  /* after the first try, and double that after each */

static bool has_collector(const struct runner *runner)
{
    return runner->collector_known;
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

/* The collector as it is known now; it may have been replaced since the last try. */
static int open_connection(struct runner *runner, struct deliver **ret_deliver, struct mst_error *err)
{
    pthread_mutex_lock(&runner->lock);
    const struct discovery_identity collector = runner->collector;
    pthread_mutex_unlock(&runner->lock);
    return deliver_open(&runner->options.self, &collector, ret_deliver, err);
}

static int try_deliver(struct runner *runner, struct deliver **deliver, struct mst_error *err)
{
    const int r = open_connection(runner, deliver, err);
    return r < 0 ? r : deliver_all(runner, *deliver, err);
}

static int try_complete(struct runner *runner, struct deliver **deliver, struct mst_error *err)
{
    const int r = *deliver ? 0 : open_connection(runner, deliver, err);
    return r < 0 ? r : deliver_complete(*deliver, err);
}

/* It may be down for a moment, or come back at another address: the agent looks for it meanwhile. */
static bool is_worth_another_try(int code)
{
    return code == -EPIPE || code == -ECONNRESET || code == -ECONNREFUSED || code == -EHOSTUNREACH ||
           code == -ETIMEDOUT || code == -ENETUNREACH;
}

static void say_lacking(struct runner *runner)
{
    pthread_mutex_lock(&runner->lock);
    runner->lacks_collector = true; /* the agent's thread looks several times a second */
    pthread_mutex_unlock(&runner->lock);
}

/* Go on until it is done, or not worth another try. After an error *deliver is NULL. */
static int try_often(struct runner *runner,
                     int (*attempt)(struct runner *, struct deliver **, struct mst_error *),
                     struct deliver **deliver, struct mst_error *err)
{
    int r;
    for (unsigned try = 0;; try++) {
        r = attempt(runner, deliver, err);
        if (r == 0)
            break;
        deliver_free(*deliver);
        *deliver = NULL;
        if (!is_worth_another_try(r) || try + 1 == DELIVER_TRIES)
            break;
        say_lacking(runner);
        if (runner_wait(runner, runner_never, DELIVER_PAUSE_MS << try) == -ECANCELED)
            return mst_error_set(err, -ECANCELED, "stopped while speaking to the collector");
    }
    return r;
}

/* No collector is no failure: the files are on this worker's disk. */
int runner_deliver(struct runner *runner, struct deliver **ret_deliver, struct mst_error *err)
{
    int r = runner_wait(runner, has_collector, COLLECTOR_MS);
    if (r == -ETIMEDOUT) {
        mst_log_warn("runner", "no collector was found in %d s: the files stay with this worker",
                     COLLECTOR_MS / 1000);
        return 0;
    }
    if (r < 0)
        return mst_error_set(err, r, "stopped while looking for the collector");
    r = try_often(runner, try_deliver, ret_deliver, err);
    return is_worth_another_try(r) ? mst_error_wrap(err, -EREMOTEIO, "the files stay here") : r;
}

int runner_complete(struct runner *runner, struct deliver **deliver, struct mst_error *err)
{
    const int r = try_often(runner, try_complete, deliver, err);
    return is_worth_another_try(r)
               ? mst_error_wrap(err, -EREMOTEIO, "all files are handed on, but the collector was not told so")
               : r;
}
