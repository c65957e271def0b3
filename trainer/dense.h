/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of a dense layer's passes, for those who do something else with its weight's gradient than sum
 * it over the workers. Shapes as in dense.c. */
#ifndef TRAINER_DENSE_H
#define TRAINER_DENSE_H

#include "layer.h"

/* A weight's gradient is computed in tiles of this many floats, so that each can go to the network (or into
 * the update, while it is still in the cache) before the next is made. Tiles cost nothing: 1 to 64 of them
 * take the same time. */
#define DENSE_TILE_FLOATS 131072

/* y = x W, and then y = activation(y + b). */
void trainer_dense_product(const struct trainer_layer *layer, size_t batch, const float *params,
                           const float *x, float *y);
void trainer_dense_activate(const struct trainer_layer *layer, size_t batch, const float *params, float *y);

/* Rows in a tile. */
size_t trainer_dense_tile_rows(const struct trainer_layer *layer);

/* From dy, the gradient by the layer's output, to the one by x W + b, in place. */
void trainer_dense_mask(const struct trainer_layer *layer, size_t batch, const float *y, float *dy);
/* The bias's gradient. */
void trainer_dense_bias_gradient(const struct trainer_layer *layer, const struct trainer_pass *pass,
                                 const float *dy, float *grads);
/* Rows [first, first + rows) of the weight's gradient, x^T dy over `batch` samples; `beta` 1 adds. */
void trainer_dense_weight_gradient(const struct trainer_layer *layer, size_t batch, size_t first, size_t rows,
                                   const float *x, const float *dy, float beta, float *grads);
/* Columns [first, first + rows) of dx = dy W^T, which those rows of W make. */
void trainer_dense_input_gradient(const struct trainer_layer *layer, size_t batch, size_t first, size_t rows,
                                  const float *params, const float *dy, float *dx);

#endif
