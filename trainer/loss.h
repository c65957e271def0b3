/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TRAINER_LOSS_H
#define TRAINER_LOSS_H

#include "muster/trainer.h"

struct trainer_loss {
    double sum; /* over the batch; not finite when an output is not */
    size_t
        correct; /* samples whose largest output (the first, if several) is their label's; 0 with targets */
};

/* What the outputs should have been: for each sample a label in [0, width), or a target of `width` floats. */
struct trainer_answers {
    const uint32_t *labels; /* or NULL */
    const float *targets;
};

/* "softmax_cross_entropy" and so on: as in model and recipe files. NULL for the model's own. */
const char *trainer_loss_name(enum trainer_loss_kind kind);
/* TRAINER_LOSS_OF_MODEL when there is none of that name. */
enum trainer_loss_kind trainer_loss_find(const char *name);

/* Over rows of `y` (batch, width), the model's outputs; for each the loss, and its gradient by y, times
 * `scale`, which goes into `gradient` (batch, width; NULL: not wanted):
 *     softmax_cross_entropy   -log(softmax(y)[label]);  softmax(y) - onehot(label)
 *     cross_entropy           -log(y[label]), y being probabilities;  -1 / y[label] at the label
 *     mse                     mean over the row of (y - t)^2;  2 (y - t) / width; t = onehot(label) for
 * labels
 */
struct trainer_loss trainer_loss_of(enum trainer_loss_kind kind, size_t batch, size_t width, const float *y,
                                    const struct trainer_answers *answers, float scale, float *gradient);

/* Softmax and cross-entropy in one, as above. Labels lie in [0, classes). */
struct trainer_loss trainer_loss_softmax(size_t batch, size_t classes, const float *logits,
                                         const uint32_t *labels, float scale, float *gradient);

#endif
