/* SPDX-License-Identifier: Apache-2.0 */
/* Which layer of a model is treated apart by the exchanges that do not send its weight's gradient. */
#ifndef TRAINER_SPLIT_H
#define TRAINER_SPLIT_H

#include "model.h"

/* The dense layer with the most weights, whose input must be a function of one sample and of the parameters
 * before it. -ENOTSUP says what stands in the way, in the name of `method`. */
int trainer_split_find(const struct trainer_model *model, const char *method, size_t *ret_layer,
                       struct mst_error *err);

#endif
