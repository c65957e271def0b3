/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TRAINER_MODEL_H
#define TRAINER_MODEL_H

#include "layer.h"

#define TRAINER_MODEL_NAME_BYTES 64

struct trainer_model {
    char name[TRAINER_MODEL_NAME_BYTES];
    struct trainer_shape input;
    enum trainer_loss_kind loss;
    size_t layer_count;
    struct trainer_layer *layers; /* owned */
    bool has_averages;            /* a tensor is one */
    bool mixes;                   /* samples: a layer has ops->mixing */
    size_t parameters;            /* floats in all; tensors lie in the arena in order, without holes */
};

/* Whether the last layer's output suits a loss: -EBADMSG says why not; `where` stands before it. */
int trainer_model_check_loss(const struct trainer_model *model, enum trainer_loss_kind loss,
                             const char *where, struct mst_error *err);

/* SHA-256 over what the model computes: types, shapes and settings, not names or white space. */
int trainer_model_digest(const struct trainer_model *model, uint8_t ret_digest[static MST_SHA256_BYTES],
                         struct mst_error *err);

#endif
