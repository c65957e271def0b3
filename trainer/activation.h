/* SPDX-License-Identifier: Apache-2.0 */
/* Functions of one value whose derivative follows from the result alone, so that they can be applied in place
 * behind another layer's arithmetic: relu max(0, x), tanh, and sigmoid 1 / (1 + exp(-x)). */
#ifndef TRAINER_ACTIVATION_H
#define TRAINER_ACTIVATION_H

#include <stddef.h>

enum trainer_activation { TRAINER_LINEAR, TRAINER_RELU, TRAINER_TANH, TRAINER_SIGMOID };

/* "linear", "relu", ...: as in model files. */
const char *trainer_activation_name(enum trainer_activation activation);
/* y[i] = f(x[i]); x and y may be the same array. */
void trainer_activation_apply(enum trainer_activation activation, size_t count, const float *x, float *y);
/* dy[i] *= f'(x[i]), from y = f(x) */
void trainer_activation_gradient(enum trainer_activation activation, size_t count, const float *y, float *dy);

#endif
