/* SPDX-License-Identifier: Apache-2.0 */
#include "muster/cleanup.h"
#include "muster/clock.h"
#include "muster/net.h"
#include "runner_private.h"

#define CONNECT_MS      5000 /* for all data connections */
#define DIAL_PAUSE_MS   20
#define DATA_SILENCE_MS 10000

/* Who makes the data connection to us? In a ring the worker before, in a mesh the lower ranks. */
static bool dials_us(const struct runner *runner, uint32_t rank)
{
    const struct runner_options *options = &runner->options;
    switch (options->job->kind->data) {
    case JOB_DATA_NONE:
        break;
    case JOB_DATA_RING:
        return options->world > 1 && (rank + 1) % options->world == options->rank;
    case JOB_DATA_MESH:
        return rank < options->rank;
    }
    return false;
}

static bool is_dialled(const struct runner *runner, uint32_t rank)
{
    const struct runner_options *options = &runner->options;
    switch (options->job->kind->data) {
    case JOB_DATA_NONE:
        break;
    case JOB_DATA_RING:
        return options->world > 1 && (options->rank + 1) % options->world == rank;
    case JOB_DATA_MESH:
        return rank > options->rank;
    }
    return false;
}

static bool has_all_data(const struct runner *runner)
{
    for (uint32_t rank = 0; rank < runner->options.world; rank++)
        if (dials_us(runner, rank) && runner->given[rank] < 0)
            return false;
    return true;
}

/* A listener that is flooded, or has not heard of the view yet, says so and is asked again until the
 * deadline. */
static int dial(struct runner *runner, uint32_t rank, uint64_t deadline_ns, struct mst_error *err)
{
    const struct discovery_identity *peer = &runner->options.members[rank];
    for (;;) {
        struct discovery_session session;
        enum discovery_reason reason = DISCOVERY_REASON_NONE;
        /* One hello's time, so that a call to stop is heard in between. */
        const uint64_t hello_ns = mst_now_ns() + DISCOVERY_HELLO_MS * MST_NS_PER_MS;
        int r = discovery_hello_dial(peer->ipv4, peer->port, &runner->options.self, DISCOVERY_PURPOSE_DATA,
                                     hello_ns < deadline_ns ? hello_ns : deadline_ns,
                                     &runner->view.fds_out[rank], &session, &reason, err);
        mst_forget(&session, sizeof session);
        if (r == 0)
            return mst_tcp_tune(runner->view.fds_out[rank], DATA_SILENCE_MS, err);
        if ((!discovery_reason_may_pass(reason) && r != -ETIMEDOUT) || mst_now_ns() >= deadline_ns)
            return mst_error_wrap(err, r, "data connection to %s", peer->slot);
        if (runner_wait(runner, runner_never, DIAL_PAUSE_MS) == -ECANCELED)
            return mst_error_set(err, -ECANCELED, "stopped");
    }
}

/* The connections that were made to us are the job's from here on. */
static int take_given(struct runner *runner, struct mst_error *err)
{
    const bool mesh = runner->options.job->kind->data == JOB_DATA_MESH;
    int *fds = mesh ? runner->view.fds_out : runner->view.fds_in;
    int r = 0;
    pthread_mutex_lock(&runner->lock);
    for (uint32_t rank = 0; rank < runner->options.world; rank++) {
        if (!dials_us(runner, rank))
            continue;
        fds[rank] = runner->given[rank];
        runner->given[rank] = -1;
        if (r == 0)
            r = mst_tcp_tune(fds[rank], DATA_SILENCE_MS, err);
    }
    pthread_mutex_unlock(&runner->lock);
    return r;
}

static int say_who_is_missing(struct runner *runner, int code, struct mst_error *err)
{
    const char *slot = "nobody";
    pthread_mutex_lock(&runner->lock);
    for (uint32_t rank = runner->options.world; rank-- > 0;)
        if (dials_us(runner, rank) && runner->given[rank] < 0)
            slot = runner->options.members[rank].slot;
    pthread_mutex_unlock(&runner->lock);
    return mst_error_errno(err, code, "wait for the data connection of %s", slot);
}

/* Dial those that are ours to dial, and await the others' calls. */
int runner_join(struct runner *runner, struct mst_error *err)
{
    const uint64_t deadline_ns = mst_now_ns() + CONNECT_MS * MST_NS_PER_MS;
    int r = 0;
    for (uint32_t rank = 0; r == 0 && rank < runner->options.world; rank++)
        if (is_dialled(runner, rank))
            r = dial(runner, rank, deadline_ns, err);
    if (r < 0)
        return r;
    r = runner_wait(runner, has_all_data, CONNECT_MS);
    return r < 0 ? say_who_is_missing(runner, r, err) : take_given(runner, err);
}
