/* SPDX-License-Identifier: Apache-2.0 */
/* The validation set after each epoch, and early stopping. All workers get the same result, so that all stop
 * after the same epoch. */
#include "muster/cleanup.h"
#include "muster/file.h"
#include "train_private.h"

/* The parameters that did best are a file of their own: what training ends with is some epochs past them. */
static int save_best(struct train *train, struct mst_error *err)
{
    struct trainer_saved saved;
    mst_cleanup(mst_freep) char *path = mst_path_join(train->site.config->out, TRAIN_BEST_FILE_NAME);
    if (!path)
        return mst_error_set(err, -ENOMEM, "name the model file: no memory");
    return trainer_save(train->trainer, path, &saved, err);
}

int train_validate(struct train *train, uint32_t epoch, struct mst_error *err)
{
    const uint32_t limit = train->patience;
    struct train_patience patience = train->shared.patience;
    struct trainer_evaluation result;
    if (!train->data.validation)
        return 0;
    int r = trainer_evaluate_set(train->trainer, train->data.validation, &result, err);
    if (r < 0)
        return mst_error_wrap(err, r, "validate after epoch %u", epoch);
    train->validated = result;
    const bool better = patience.best_epoch == 0 || result.loss < patience.best_loss;
    patience.epoch = epoch;
    if (better) {
        patience.best_epoch = epoch;
        patience.best_loss = result.loss;
    }
    const bool told = train->pending.epoch == epoch; /* in a view before */
    const bool stops = limit > 0 && epoch - patience.best_epoch >= limit;
    train->pending = patience;
    if (!told)
        train_report_validation(train, &result, stops);
    if (better && limit > 0) {
        (void)profile_enter(&train->profile, TRAIN_SAVING);
        r = save_best(train, err);
    }
    return r < 0 ? r : stops;
}
