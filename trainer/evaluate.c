/* SPDX-License-Identifier: Apache-2.0 */
/* What all workers do together between steps: look at the test set, and compare their replicas. */
#include "muster/cleanup.h"
#include "trainer_state.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
        const struct trainer_loss loss =
            trainer_loss_softmax(batch, classes, logits, trainer->labels, 0.0f, NULL);
        all.sum += loss.sum;
        all.correct += loss.correct;
        done += batch;
    }
    return all;
}

int trainer_evaluate_range(struct trainer *trainer, const struct trainer_dataset *dataset, size_t first,
                           size_t count, struct trainer_evaluation *ret_result, struct mst_error *err)
{
    if (!trainer_shape_equal(&dataset->shape, &trainer->config.model->input) ||
        dataset->classes > trainer_model_classes(trainer->config.model))
        return mst_error_set(err, -EINVAL, "the data does not fit model '%s'", trainer->config.model->name);
    if (count < 1 || first > dataset->count || count > dataset->count - first)
        return mst_error_set(err, -EINVAL, "samples %zu to %zu of a set of %zu", first, first + count,
                             dataset->count);
    const struct trainer_loss loss = evaluate(trainer, dataset, first, count);
    *ret_result = (struct trainer_evaluation){
        .images = count,
        .accuracy = (double)loss.correct / (double)count,
        .loss = loss.sum / (double)count,
    };
    return 0;
}

int trainer_evaluate(struct trainer *trainer, struct trainer_evaluation *ret_result, struct mst_error *err)
{
    const struct trainer_dataset *test = trainer->config.test;

    if (!test)
        return mst_error_set(err, -ENOENT, "there is no test set");
    const size_t first = test->count * trainer->rank / trainer->world;
    const size_t end = test->count * (trainer->rank + 1) / trainer->world;
    const struct trainer_loss loss = evaluate(trainer, test, first, end - first);
    /* Counts go in two floats: one is exact only up to 2^24. */
    float sums[] = {(float)(loss.sum / (double)test->count), (float)(loss.correct >> 16),
                    (float)(loss.correct & 0xffff)};

    if (trainer->exchange) {
        const int r = trainer_exchange_sum(trainer->exchange, trainer->step | EXCHANGE_FOR_EVALUATION, sums,
                                           MST_ARRAY_COUNT(sums), NULL, err);
        if (r < 0)
            return mst_error_wrap(err, r, "evaluate after step %" PRIu64, trainer->step);
    }
    *ret_result = (struct trainer_evaluation){
        .images = test->count,
        .accuracy = ((double)sums[1] * 65536 + (double)sums[2]) / (double)test->count,
        .loss = (double)sums[0],
    };
    return 0;
}

int trainer_digest(const struct trainer *trainer, uint8_t ret_digest[static MST_SHA256_BYTES],
                   struct mst_error *err)
{
    return mst_sha256(trainer->parameters[trainer->current], trainer->count * sizeof(float), ret_digest, err);
}

/* Digests travel as floats, two bytes each, every rank in a place of its own: the sum over ranks is the list.
 */
#define DIGEST_FLOATS (MST_SHA256_BYTES / 2)

static int compare(const struct trainer *trainer, const float *digests, struct mst_error *err)
{
    char ranks[256] = "";
    size_t used = 0, differing = 0;

    for (uint32_t rank = 1; rank < trainer->world; rank++) {
        if (memcmp(digests + rank * DIGEST_FLOATS, digests, DIGEST_FLOATS * sizeof *digests) == 0)
            continue;
        differing++;
        if (used < sizeof ranks - 16)
            used += (size_t)snprintf(ranks + used, sizeof ranks - used, " %" PRIu32, rank);
    }
    if (differing == 0)
        return 0;
    return mst_error_set(err, -EUCLEAN,
                         "after step %" PRIu64 " the parameters of %zu of %" PRIu32
                         " workers differ from those of rank 0: ranks%s",
                         trainer->step, differing, trainer->world, ranks);
}

int trainer_verify_replicas(struct trainer *trainer, struct mst_error *err)
{
    const size_t floats = (size_t)trainer->world * DIGEST_FLOATS;
    uint8_t digest[MST_SHA256_BYTES];

    if (!trainer->exchange)
        return 0;
    mst_cleanup(mst_freep) float *digests = calloc(floats, sizeof *digests);
    if (!digests)
        return mst_error_set(err, -ENOMEM, "no memory for the digests of %" PRIu32 " workers",
                             trainer->world);
    int r = trainer_digest(trainer, digest, err);
    if (r < 0)
        return r;
    for (size_t i = 0; i < DIGEST_FLOATS; i++)
        digests[trainer->rank * DIGEST_FLOATS + i] = (float)(digest[2 * i] << 8 | digest[2 * i + 1]);
    r = trainer_exchange_sum(trainer->exchange, trainer->step | EXCHANGE_FOR_COMPARISON, digests, floats,
                             NULL, err);
    if (r < 0)
        return mst_error_wrap(err, r, "compare replicas after step %" PRIu64, trainer->step);
    return compare(trainer, digests, err);
}
