/* SPDX-License-Identifier: Apache-2.0 */
/* y = max(0, x), element by element: for models that want it apart from the layer before. */
#include "kernels.h"
#include "layer.h"

#include <string.h>

static const char *const keys[] = {NULL};

static int configure(struct trainer_layer *layer, const cJSON *json, const char *where, struct mst_error *err)
{
    (void)json;
    (void)where;
    (void)err;
    layer->out = layer->in;
    return 0;
}

static void forward(const struct trainer_layer *layer, const struct trainer_pass *pass, const float *params,
                    const float *x, float *y)
{
    (void)params;
    kernel_relu(pass->batch * trainer_shape_elements(&layer->in), x, y);
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
    kernel_relu_mask(count, y, dy);
    memcpy(dx, dy, count * sizeof *dx);
}

const struct trainer_layer_ops trainer_layer_relu = {
    .type = "relu",
    .keys = keys,
    .configure = configure,
    .forward = forward,
    .backward = backward,
};
