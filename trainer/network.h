/* SPDX-License-Identifier: Apache-2.0 */
/* A model with the memory to run it: the input, every layer's output, and the gradients that flow back. All
 * of them lie in one arena, planned once for the largest batch. Outputs live from forward to backward, so
 * each has a place of its own (but for layers that only reshape); of the gradients only two live at a time,
 * so they take turns. */
#ifndef TRAINER_NETWORK_H
#define TRAINER_NETWORK_H

#include "model.h"

struct trainer_network {
    const struct trainer_model *model; /* borrowed */
    size_t max_batch;
    float *arena; /* owned; the others point into it */
    size_t arena_floats;
    bool used;           /* by a whole batch */
    float *input;        /* max_batch x elements of the input: the caller fills it */
    float **outputs;     /* by layer; the array is owned */
    float *gradients[2]; /* of outputs: the last layer's is [0], see trainer_network_gradient() */
    float *scratch;
    float **kept; /* by layer: what it keeps from forward to backward; the array is owned */
};

int trainer_network_init(struct trainer_network *network, const struct trainer_model *model, size_t max_batch,
                         struct mst_error *err);
void trainer_network_release(struct trainer_network *network);

/* From network->input to the last layer's output (batch x classes), which is returned. */
const float *trainer_network_forward(struct trainer_network *network, const float *params, size_t batch);

/* From network->gradients[0], the gradient by the last output, to `grads`; after trainer_network_forward()
 * with the same batch and params. pass->scratch is filled in here. */
void trainer_network_backward(struct trainer_network *network, const float *params,
                              const struct trainer_pass *pass, float *grads);

/* The same in parts, for those who do something else in between: layers [first, end), from the input of
 * `first`, or from the gradient by the output of `end` - 1, which stands in trainer_network_gradient(). */
void trainer_network_forward_layers(struct trainer_network *network, const float *params,
                                    const struct trainer_pass *pass, size_t first, size_t end);
void trainer_network_backward_layers(struct trainer_network *network, const float *params,
                                     const struct trainer_pass *pass, size_t first, size_t end, float *grads);

/* Where the input of a layer lies, and the gradient by its output. */
float *trainer_network_input(const struct trainer_network *network, size_t layer);
float *trainer_network_gradient(const struct trainer_network *network, size_t layer);
/* Have the input of a layer elsewhere from now on: in max_batch times its size, borrowed. */
void trainer_network_place_input(struct trainer_network *network, size_t layer, float *memory);
/* Below the first layer with parameters, which this is, nobody needs gradients. */
size_t trainer_network_first_trained(const struct trainer_model *model);

#endif
