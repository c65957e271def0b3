/* SPDX-License-Identifier: Apache-2.0 */
#include "loss.h"

#include <math.h>

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
