/* SPDX-License-Identifier: Apache-2.0 */
/* The functions, and the layers that are nothing else. */
#include "activation.h"

#include "kernels.h"
#include "layer.h"

#include <math.h>
#include <string.h>

const char *trainer_activation_name(enum trainer_activation activation)
{
    static const char *const names[] = {"linear", "relu", "tanh", "sigmoid"};

    return names[activation];
}

void trainer_activation_apply(enum trainer_activation activation, size_t count, const float *x, float *y)
{
    switch (activation) {
    case TRAINER_LINEAR:
        if (x != y)
            memcpy(y, x, count * sizeof *y);
        break;
    case TRAINER_RELU:
        for (size_t i = 0; i < count; i++)
            y[i] = x[i] < 0.0f ? 0.0f : x[i];
        break;
    case TRAINER_TANH:
        for (size_t i = 0; i < count; i++)
            y[i] = tanhf(x[i]);
        break;
    case TRAINER_SIGMOID:
        for (size_t i = 0; i < count; i++)
            y[i] = 1.0f / (1.0f + expf(-x[i]));
        break;
    }
}

void trainer_activation_gradient(enum trainer_activation activation, size_t count, const float *y, float *dy)
{
    switch (activation) {
    case TRAINER_LINEAR:
        break;
    case TRAINER_RELU:
        kernel_relu_mask(count, y, dy);
        break;
    case TRAINER_TANH:
        for (size_t i = 0; i < count; i++)
            dy[i] *= 1.0f - y[i] * y[i];
        break;
    case TRAINER_SIGMOID:
        for (size_t i = 0; i < count; i++)
            dy[i] *= y[i] * (1.0f - y[i]);
        break;
    }
}

/* ---- layers -------------------------------------------------------------------------------------------- */

static const char *const keys[] = {NULL};

static int configure(struct trainer_layer *layer, enum trainer_activation activation)
{
    layer->out = layer->in;
    layer->activation = activation;
    return 0;
}

static int configure_tanh(struct trainer_layer *layer, const cJSON *json, const char *where,
                          struct mst_error *err)
{
    (void)json;
    (void)where;
    (void)err;
    return configure(layer, TRAINER_TANH);
}

static int configure_sigmoid(struct trainer_layer *layer, const cJSON *json, const char *where,
                             struct mst_error *err)
{
    (void)json;
    (void)where;
    (void)err;
    return configure(layer, TRAINER_SIGMOID);
}

static void forward(const struct trainer_layer *layer, const struct trainer_pass *pass, const float *params,
                    const float *x, float *y)
{
    (void)params;
    trainer_activation_apply(layer->activation, pass->batch * trainer_shape_elements(&layer->in), x, y);
}

static void backward(const struct trainer_layer *layer, const struct trainer_pass *pass, const float *params,
                     const float *x, const float *y, float *dy, float *dx, float *grads)
{
    (void)params;
    (void)x;
    (void)grads;
    const size_t count = pass->batch * trainer_shape_elements(&layer->in);

    if (!dx)
        return;
    trainer_activation_gradient(layer->activation, count, y, dy);
    memcpy(dx, dy, count * sizeof *dx);
}

const struct trainer_layer_ops trainer_layer_tanh = {
    .type = "tanh",
    .keys = keys,
    .configure = configure_tanh,
    .forward = forward,
    .backward = backward,
};

const struct trainer_layer_ops trainer_layer_sigmoid = {
    .type = "sigmoid",
    .keys = keys,
    .configure = configure_sigmoid,
    .forward = forward,
    .backward = backward,
};
