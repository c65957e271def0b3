/* SPDX-License-Identifier: Apache-2.0 */
/* Entering and leaving a view: the exchange, and states made equal. */
#include "muster/clock.h"
#include "muster/log.h"
#include "train_private.h"

#include <inttypes.h>

/* The others count this worker's state as that of another job: it starts anew, to take theirs. */
static int forget_state(struct train *train, struct mst_error *err)
{
    trainer_free(train->trainer);
    train->trainer = NULL;
    train->shared = (struct shared_sums){0};
    train->pending = (struct train_patience){0};
    return train_prepare(train, err);
}

static int synchronise(struct train *train, const struct job_view *view, struct mst_error *err)
{
    struct trainer_synchronised synchronised = {0};
    int r = trainer_synchronise(train->trainer, view->steps, &train->shared, sizeof train->shared,
                                &synchronised, err);
    if (r < 0)
        return mst_error_wrap(err, r, "make the workers' states equal");
    if (synchronised.took) {
        profile_forget_epoch(&train->profile);
        train->sums = (struct trainer_epoch){0};
        train->epoch = train_position_epoch(train);
        train->epoch_ns = mst_now_ns();
    }
    bool any_behind = false;
    for (uint32_t rank = 0; rank < view->world; rank++)
        any_behind = any_behind || view->steps[rank] != synchronised.step;
    if (!any_behind)
        return 0;
    train_report_state(train, &synchronised);
    return 0;
}

int train_enter(void *state, struct job_view *view, struct mst_error *err)
{
    struct train *train = state;
    int r = 0;
    train->view = view->view;
    train->rank = view->rank;
    train->world = view->world;
    (void)profile_enter_at(&train->profile, TRAIN_CONNECT, view->agreed_ns);
    r = profile_view(&train->profile, view, err);
    if (r == 0 && !train->history)
        r = train_make_history(train, err);
    if (r == 0)
        r = train_prepare(train, err);
    if (r == 0 && view->steps[view->rank] != trainer_steps_done(train->trainer))
        r = forget_state(train, err);
    if (r == 0)
        r = train_connect(train, view, err);
    if (r == 0)
        r = trainer_set_exchange(train->trainer, train->exchange, err);
    if (r == 0 && view->world > 1)
        r = synchronise(train, view, err);
    train->gathered = train->shared;
    (void)profile_enter(&train->profile, TRAIN_BETWEEN);
    return r;
}

void train_leave(void *state)
{
    struct train *train = state;
    struct mst_error err = MST_ERROR_INIT;
    const uint64_t step = train->trainer ? trainer_steps_done(train->trainer) : 0;
    if (train->trainer && trainer_set_exchange(train->trainer, NULL, &err) < 0)
        mst_log_error("train", "leave the exchange: %s", err.text);
    if (train->trainer && trainer_steps_done(train->trainer) < step) {
        train->shared = train->gathered;
        mst_log_warn("train",
                     "the parameters were split: %" PRIu64 " steps since they were gathered are lost",
                     step - trainer_steps_done(train->trainer));
    }
    trainer_exchange_free(train->exchange);
    train->exchange = NULL;
    progress_clear(&train->show);
    (void)profile_enter(&train->profile, TRAIN_RECOVERY);
}
