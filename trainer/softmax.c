/* SPDX-License-Identifier: Apache-2.0 */
/* Over the last dim: y[i] = exp(x[i]) / sum over j of exp(x[j]).
 *     dx[i] = y[i] (dy[i] - sum over j of dy[j] y[j]) */
#include "layer.h"

#include <math.h>

static const char *const keys[] = {NULL};

static int configure(struct trainer_layer *layer, const cJSON *json, const char *where, struct mst_error *err)
{
    (void)json;
    (void)where;
    (void)err;
    layer->out = layer->in;
    return 0;
}

static size_t width_of(const struct trainer_layer *layer)
{
    return layer->in.dims[layer->in.count - 1];
}

static void forward(const struct trainer_layer *layer, const struct trainer_pass *pass, const float *params,
                    const float *x, float *y)
{
    const size_t width = width_of(layer);
    const size_t rows = pass->batch * trainer_shape_elements(&layer->in) / width;

    (void)params;
    for (size_t r = 0; r < rows; r++, x += width, y += width) {
        float largest = x[0];
        double sum = 0;
        for (size_t i = 1; i < width; i++)
            largest = x[i] > largest ? x[i] : largest;
        for (size_t i = 0; i < width; i++) {
            y[i] = expf(x[i] - largest);
            sum += (double)y[i];
        }
        for (size_t i = 0; i < width; i++)
            y[i] = (float)((double)y[i] / sum);
    }
}

static void backward(const struct trainer_layer *layer, const struct trainer_pass *pass, const float *params,
                     const float *x, const float *y, float *dy, float *dx, float *grads)
{
    const size_t width = width_of(layer);
    const size_t rows = pass->batch * trainer_shape_elements(&layer->in) / width;

    (void)params;
    (void)x;
    (void)grads;
    if (!dx)
        return;
    for (size_t r = 0; r < rows; r++, y += width, dy += width, dx += width) {
        double sum = 0;
        for (size_t i = 0; i < width; i++)
            sum += (double)dy[i] * (double)y[i];
        for (size_t i = 0; i < width; i++)
            dx[i] = y[i] * (dy[i] - (float)sum);
    }
}

const struct trainer_layer_ops trainer_layer_softmax = {
    .type = "softmax",
    .keys = keys,
    .configure = configure,
    .forward = forward,
    .backward = backward,
};
