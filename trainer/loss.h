/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TRAINER_LOSS_H
#define TRAINER_LOSS_H

#include <stddef.h>
#include <stdint.h>

struct trainer_loss {
    double sum;     /* over the batch; not finite when a logit is not */
    size_t correct; /* samples whose largest logit (the first, if several) is their label's */
};

/* Softmax and cross-entropy in one: for each row of `logits` (batch, classes) the loss is
 * -log(softmax(row)[label]), and its gradient scale * (softmax(row) - onehot(label)), which goes into
 * `gradient` (batch, classes; NULL: not wanted). Labels lie in [0, classes). */
struct trainer_loss trainer_loss_softmax(size_t batch, size_t classes, const float *logits,
                                         const uint32_t *labels, float scale, float *gradient);

#endif
