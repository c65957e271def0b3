/* SPDX-License-Identifier: Apache-2.0 */
/* Dense: y = x W + b, x (batch, in), W (in, out), b (out); then relu where asked for.
 *     dW = x^T dy, db = sum over the batch of dy, dx = dy W^T */
#include "blas.h"
#include "kernels.h"
#include "layer.h"
#include "muster/json.h"

#include <string.h>

/* dW is computed in tiles of this many floats, so that each can go to the network (or into the update, while
 * it is still in the cache) before the next is made. Tiles cost nothing: 1 to 64 of them take the same time.
 */
#define DENSE_TILE_FLOATS 131072

static const char *const keys[] = {"units", "activation", NULL};

static int configure(struct trainer_layer *layer, const cJSON *json, const char *where, struct mst_error *err)
{
    char text[TRAINER_SHAPE_TEXT_BYTES];
    size_t units;

    if (layer->in.count != 1)
        return mst_error_set(err, -EBADMSG,
                             "%s: takes one dim, but its input is %s: put a flatten layer before it", where,
                             trainer_shape_text(&layer->in, text));
    int r = trainer_layer_size(json, "units", TRAINER_MODEL_MAX_PARAMETERS, where, &units, err);
    if (r >= 0)
        r = trainer_layer_activation(layer, json, where, err);
    if (r < 0)
        return r;
    const size_t in = layer->in.dims[0];
    trainer_layer_add_tensor(layer, "weight", 2, (const size_t[]){in, units}, in, units);
    trainer_layer_add_tensor(layer, "bias", 1, (const size_t[]){units}, 0, 0);
    layer->out = (struct trainer_shape){.count = 1, .dims = {units}};
    return 0;
}

static void forward(const struct trainer_layer *layer, const struct trainer_pass *pass, const float *params,
                    const float *x, float *y)
{
    const size_t in = layer->in.dims[0], out = layer->out.dims[0];
    const float *weight = params + layer->tensors[0].offset, *bias = params + layer->tensors[1].offset;

    blas_multiply(pass->batch, out, in, x, weight, 0.0f, y);
    if (layer->relu)
        kernel_bias_relu(pass->batch, out, bias, y);
    else
        kernel_bias(pass->batch, out, bias, y);
}

/* dW from its last rows to its first: the direction in which the arena becomes final. */
static void backward_weight(const struct trainer_layer *layer, const struct trainer_pass *pass,
                            const float *x, const float *dy, float *grads)
{
    const size_t in = layer->in.dims[0], out = layer->out.dims[0], offset = layer->tensors[0].offset;
    const size_t tile = DENSE_TILE_FLOATS / out > 0 ? DENSE_TILE_FLOATS / out : 1;

    for (size_t end = in; end > 0;) {
        const size_t rows = end < tile ? end : tile;
        const size_t first = end - rows;
        blas_multiply_at(rows, out, pass->batch, x + first, in, dy, pass->accumulate ? 1.0f : 0.0f,
                         grads + offset + first * out);
        trainer_pass_ready(pass, offset + first * out, rows * out);
        end = first;
    }
}

static void backward(const struct trainer_layer *layer, const struct trainer_pass *pass, const float *params,
                     const float *x, const float *y, float *dy, float *dx, float *grads)
{
    const size_t in = layer->in.dims[0], out = layer->out.dims[0];
    float *bias_gradient = grads + layer->tensors[1].offset;

    if (layer->relu)
        kernel_relu_mask(pass->batch * out, y, dy);
    if (!pass->accumulate)
        memset(bias_gradient, 0, out * sizeof *bias_gradient);
    kernel_add_columns(pass->batch, out, dy, bias_gradient);
    trainer_pass_ready(pass, layer->tensors[1].offset, out);
    backward_weight(layer, pass, x, dy, grads);
    if (dx)
        blas_multiply_bt(pass->batch, in, out, dy, params + layer->tensors[0].offset, 0.0f, dx);
}

const struct trainer_layer_ops trainer_layer_dense = {
    .type = "dense",
    .keys = keys,
    .configure = configure,
    .forward = forward,
    .backward = backward,
};
