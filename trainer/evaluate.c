/* SPDX-License-Identifier: Apache-2.0 */
/* The test set, of which each worker takes a share. */
#include "muster/cleanup.h"
#include "trainer_state.h"

#include <inttypes.h>
#include <math.h>

static struct trainer_loss evaluate(struct trainer *trainer, const struct trainer_dataset *set, size_t first,
                                    size_t count)
{
    const size_t classes = trainer_model_classes(trainer->config.model);
    struct trainer_loss all = {0};

    for (size_t done = 0; done < count;) {
        const size_t most = trainer->network.max_batch;
        const size_t batch = count - done < most ? count - done : most;
        for (size_t i = 0; i < batch; i++)
            trainer->samples[i] = (uint32_t)(first + done + i);
        trainer_dataset_gather(set, trainer->samples, batch, trainer->network.input, trainer->labels);
        const float *logits =
            trainer_network_forward(&trainer->network, trainer->parameters[trainer->current], batch);
        if (trainer->targets)
            trainer_dataset_gather_targets(set, trainer->samples, batch, trainer->targets);
        const struct trainer_answers answers = {.labels = trainer->targets ? NULL : trainer->labels,
                                                .targets = trainer->targets};
        const struct trainer_loss loss = trainer_loss_of(trainer_loss_in_force(&trainer->config), batch,
                                                         classes, logits, &answers, 0.0f, NULL);
        all.sum += loss.sum;
        all.correct += loss.correct;
        done += batch;
    }
    return all;
}

/* Parameters may be finite, and what they make of a sample not. All workers have the same sum and say it. */
static int not_finite(const struct trainer *trainer, size_t count, struct mst_error *err)
{
    return mst_error_set(err, -ERANGE,
                         "the loss over %zu samples is not a finite number with the parameters of model '%s' "
                         "after step %" PRIu64,
                         count, trainer->config.model->name, trainer->step);
}

static int check_fits(const struct trainer *trainer, const struct trainer_dataset *dataset,
                      struct mst_error *err)
{
    if (!trainer_shape_equal(&dataset->shape, &trainer->config.model->input) ||
        dataset->classes > trainer_model_classes(trainer->config.model))
        return mst_error_set(err, -EINVAL, "the data does not fit model '%s'", trainer->config.model->name);
    return 0;
}

int trainer_evaluate_range(struct trainer *trainer, const struct trainer_dataset *dataset, size_t first,
                           size_t count, struct trainer_evaluation *ret_result, struct mst_error *err)
{
    const int r = check_fits(trainer, dataset, err);
    if (r < 0)
        return r;
    if (count < 1 || first > dataset->count || count > dataset->count - first)
        return mst_error_set(err, -EINVAL, "samples %zu to %zu of a set of %zu", first, first + count,
                             dataset->count);
    const struct trainer_loss loss = evaluate(trainer, dataset, first, count);
    if (!isfinite(loss.sum))
        return not_finite(trainer, count, err);
    *ret_result = (struct trainer_evaluation){
        .images = count,
        .accuracy = (double)loss.correct / (double)count,
        .loss = loss.sum / (double)count,
    };
    return 0;
}

int trainer_evaluate(struct trainer *trainer, struct trainer_evaluation *ret_result, struct mst_error *err)
{
    if (!trainer->config.test)
        return mst_error_set(err, -ENOENT, "there is no test set");
    const int gathered = trainer_gather_parameters(trainer, err);
    if (gathered < 0)
        return gathered;
    return trainer_evaluate_set(trainer, trainer->config.test, ret_result, err);
}

int trainer_evaluate_set(struct trainer *trainer, const struct trainer_dataset *test,
                         struct trainer_evaluation *ret_result, struct mst_error *err)
{
    int r = check_fits(trainer, test, err);
    if (r < 0)
        return r;
    const size_t first = test->count * trainer->rank / trainer->world;
    const size_t end = test->count * (trainer->rank + 1) / trainer->world;
    const struct trainer_loss loss = evaluate(trainer, test, first, end - first);
    /* Counts go in two floats: one is exact only up to 2^24. */
    float sums[] = {(float)(loss.sum / (double)test->count), (float)(loss.correct >> 16),
                    (float)(loss.correct & 0xffff)};

    if (trainer->exchange) {
        r = trainer_exchange_sum(trainer->exchange, trainer->step | EXCHANGE_FOR_EVALUATION, sums,
                                 MST_ARRAY_COUNT(sums), NULL, err);
        if (r < 0)
            return mst_error_wrap(err, r, "evaluate after step %" PRIu64, trainer->step);
    }
    if (!isfinite(sums[0]))
        return not_finite(trainer, test->count, err);
    *ret_result = (struct trainer_evaluation){
        .images = test->count,
        .accuracy = ((double)sums[1] * 65536 + (double)sums[2]) / (double)test->count,
        .loss = (double)sums[0],
    };
    return 0;
}
