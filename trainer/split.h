/* SPDX-License-Identifier: Apache-2.0 */
/* Which layer of a model is treated apart by the exchanges that do not send its weight's gradient. */
#ifndef TRAINER_SPLIT_H
#define TRAINER_SPLIT_H

#include "model.h"

/* The dense layer with the most weights, whose input must be a function of one sample and of the parameters
 * before it. -ENOTSUP says what stands in the way, in the name of `method`. */
int trainer_split_find(const struct trainer_model *model, const char *method, size_t *ret_layer,
                       struct mst_error *err);

/* A model cut into shares: the largest dense layer by its input, which the channels of a layer before it feed
 * (a convolution's filters, another dense layer's units). Layers before that one, and behind the dense one,
 * are whole in every share. */
struct trainer_split {
    size_t dense, feeder;        /* layers */
    size_t channels;             /* of the feeder */
    size_t first, end;           /* this share's channels */
    struct trainer_model *model; /* of this share; owned by whoever made it, see trainer_split_free() */
};

/* Which layers they are. -ENOTSUP names the layer that stands in the way. */
int trainer_split_plan(const struct trainer_model *model, struct trainer_split *ret_split,
                       struct mst_error *err);
/* Share `rank` of `world`, with a model of its own. -EINVAL: there are fewer channels than shares; -ENOMEM.
 */
int trainer_split_share(const struct trainer_model *model, uint32_t rank, uint32_t world,
                        struct trainer_split *ret_split, struct mst_error *err);
void trainer_split_free(struct trainer_split *split); /* also one with nothing in it */

/* Arenas as long as the models' parameters. To a share's arena all that it has, from the whole one's. */
void trainer_split_take(const struct trainer_split *split, const struct trainer_model *whole,
                        const float *all, float *share);
/* What is cut, the shares' own part of it, in one row: trainer_split_floats() of them. */
size_t trainer_split_floats(const struct trainer_split *split);
void trainer_split_pack(const struct trainer_split *split, const float *share, float *packed);
void trainer_split_unpack(const struct trainer_split *split, const struct trainer_model *whole,
                          const float *packed, float *all);
/* What is not cut, to the whole one's arena. */
void trainer_split_give(const struct trainer_split *split, const struct trainer_model *whole,
                        const float *share, float *all);

#endif
