/* SPDX-License-Identifier: Apache-2.0 */
#include "loss.h"

#include "muster/cleanup.h"

#include <float.h>
#include <math.h>
#include <string.h>

static const char *const names[] = {
    [TRAINER_SOFTMAX_CROSS_ENTROPY] = "softmax_cross_entropy",
    [TRAINER_CROSS_ENTROPY] = "cross_entropy",
    [TRAINER_MSE] = "mse",
};

const char *trainer_loss_name(enum trainer_loss_kind kind)
{
    return names[kind];
}

enum trainer_loss_kind trainer_loss_find(const char *name)
{
    for (size_t k = 0; k < MST_ARRAY_COUNT(names); k++) {
        if (names[k] && strcmp(names[k], name) == 0)
            return (enum trainer_loss_kind)k;
    }
    return TRAINER_LOSS_OF_MODEL;
}

static size_t index_of_largest(size_t classes, const float *row)
{
    size_t largest = 0;

    for (size_t c = 1; c < classes; c++) {
        if (row[c] > row[largest])
            largest = c;
    }
    return largest;
}

struct trainer_loss trainer_loss_softmax(size_t batch, size_t classes, const float *logits,
                                         const uint32_t *labels, float scale, float *gradient)
{
    struct trainer_loss loss = {0};

    for (size_t n = 0; n < batch; n++, logits += classes) {
        const size_t largest = index_of_largest(classes, logits);
        /* Shift by the row's maximum: expf() of a raw logit above 88.7 is infinite in float. The sum is a
         * double: with thousands of classes small terms would be lost one by one. */
        double sum = 0;
        for (size_t c = 0; c < classes; c++)
            sum += (double)expf(logits[c] - logits[largest]);
        loss.sum += log(sum) - (double)(logits[labels[n]] - logits[largest]);
        loss.correct += largest == labels[n];
        if (!gradient)
            continue;
        const float factor = (float)((double)scale / sum);
        for (size_t c = 0; c < classes; c++)
            gradient[c] = expf(logits[c] - logits[largest]) * factor;
        gradient[labels[n]] -= scale;
        gradient += classes;
    }
    return loss;
}

static struct trainer_loss cross_entropy(size_t batch, size_t width, const float *y, const uint32_t *labels,
                                         float scale, float *gradient)
{
    struct trainer_loss loss = {0};

    for (size_t n = 0; n < batch; n++, y += width) {
        /* A probability that has become 0 costs much, and not infinitely much. A NaN stays one. */
        const float right = y[labels[n]] < FLT_MIN ? FLT_MIN : y[labels[n]];
        loss.sum -= log((double)right);
        loss.correct += index_of_largest(width, y) == labels[n];
        if (!gradient)
            continue;
        memset(gradient, 0, width * sizeof *gradient);
        gradient[labels[n]] = -scale / right;
        gradient += width;
    }
    return loss;
}

static struct trainer_loss mean_square(size_t batch, size_t width, const float *y,
                                       const struct trainer_answers *answers, float scale, float *gradient)
{
    struct trainer_loss loss = {0};

    for (size_t n = 0; n < batch; n++, y += width) {
        double sum = 0;
        for (size_t c = 0; c < width; c++) {
            const float target = !answers->labels          ? answers->targets[n * width + c]
                                 : c == answers->labels[n] ? 1.0f
                                                           : 0.0f;
            const float apart = y[c] - target;
            sum += (double)apart * (double)apart;
            if (gradient)
                *gradient++ = scale * 2.0f / (float)width * apart;
        }
        loss.sum += sum / (double)width;
        if (answers->labels)
            loss.correct += index_of_largest(width, y) == answers->labels[n];
    }
    return loss;
}

struct trainer_loss trainer_loss_of(enum trainer_loss_kind kind, size_t batch, size_t width, const float *y,
                                    const struct trainer_answers *answers, float scale, float *gradient)
{
    if (kind == TRAINER_MSE)
        return mean_square(batch, width, y, answers, scale, gradient);
    if (kind == TRAINER_CROSS_ENTROPY)
        return cross_entropy(batch, width, y, answers->labels, scale, gradient);
    return trainer_loss_softmax(batch, width, y, answers->labels, scale, gradient);
}
