/* SPDX-License-Identifier: Apache-2.0 */
/* From a gradient to the next parameters. What an optimizer remembers from step to step (momentum, Adam's
 * moments) lies in state arrays with a float for each parameter; like parameters there are two of each, of
 * which a step reads one and writes the other.
 *
 * Formulas, with g the mean gradient times the clip factor, plus weight_decay * w (but for adamw):
 *     sgd        v' = momentum v + g;  w' = w - lr v'   (no v when momentum is 0)
 *     nesterov   v' = momentum v + g;  w' = w - lr (g + momentum v')
 *     adam       m' = b1 m + (1 - b1) g;  v' = b2 v + (1 - b2) g^2;
 *                w' = w - lr / (1 - b1^t) * m' / (sqrt(v') / sqrt(1 - b2^t) + epsilon), t = 1 in the first
 * step adamw      the same, from w - lr weight_decay w as torch has them (Sutskever and others, ICML 2013;
 * Kingma and Ba, ICLR 2015; Loshchilov and Hutter, ICLR 2019). Tensors that are averages (struct
 * trainer_tensor.average) are not trained: what stands in their place in the gradient is the mean of the
 * batches' values, and w' = w + average (g - w). */
#ifndef TRAINER_OPTIMIZER_H
#define TRAINER_OPTIMIZER_H

#include "model.h"

#define TRAINER_MAX_STATES 2

/* How many state arrays a configuration needs, and what they are called in files: "momentum", "adam_m",
 * "adam_v". */
size_t trainer_optimizer_states(const struct trainer_config *config);
const char *trainer_optimizer_state_name(const struct trainer_config *config, size_t state);

/* -EINVAL names the setting of config->rule that does not fit. */
int trainer_optimizer_check(const struct trainer_config *config, struct mst_error *err);

/* The learning rate of the step after `done` steps (optimizer docs: schedules in struct trainer_rule). */
double trainer_schedule_lr(const struct trainer_config *config, uint64_t done);

/* What is the same for all ranges of one step. */
struct trainer_update {
    const struct trainer_config *config; /* borrowed, with its model */
    uint64_t step;                       /* done before this one */
    float lr;
    float clip;         /* factor on the gradient; 1: none */
    float bias1, bias2; /* adam: lr / (1 - b1^t), 1 / sqrt(1 - b2^t) */
};
struct trainer_update trainer_optimizer_begin(const struct trainer_config *config, uint64_t step, float clip);

/* The arrays, each as long as the model's parameters. `next` ones may not be the others. */
struct trainer_arenas {
    const float *parameters, *gradient;
    const float *states[TRAINER_MAX_STATES];
    float *next_parameters;
    float *next_states[TRAINER_MAX_STATES];
};
/* For places [offset, offset + count) of the arenas; ranges may come in any order and size, and give the same
 * bits. Different ranges may be done by different threads. */
void trainer_optimizer_update(const struct trainer_update *update, const struct trainer_arenas *arenas,
                              size_t offset, size_t count);

/* The factor that takes the gradient (as long as the model's parameters; averages do not count) to a norm of
 * at most config->rule.clip_norm: 1 when it is smaller, or none was asked for. Sums are doubles, in the order
 * of places. NaN when the gradient has one. */
float trainer_optimizer_clip(const struct trainer_config *config, const float *gradient);

#endif
