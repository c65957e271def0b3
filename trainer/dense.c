/* SPDX-License-Identifier: Apache-2.0 */
/* Dense: y = x W + b, x (batch, in), W (in, out), b (out); then an activation where asked for.
 *     dW = x^T dy, db = sum over the batch of dy, dx = dy W^T */
#include "dense.h"

#include "blas.h"
#include "kernels.h"
#include "muster/json.h"

#include <string.h>

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

void trainer_dense_product(const struct trainer_layer *layer, size_t batch, const float *params,
                           const float *x, float *y)
{
    blas_multiply(batch, layer->out.dims[0], layer->in.dims[0], x, params + layer->tensors[0].offset, 0.0f,
                  y);
}

void trainer_dense_activate(const struct trainer_layer *layer, size_t batch, const float *params, float *y)
{
    const size_t out = layer->out.dims[0];
    const float *bias = params + layer->tensors[1].offset;

    trainer_layer_bias_activation(layer, batch, out, bias, y);
}

static void forward(const struct trainer_layer *layer, const struct trainer_pass *pass, const float *params,
                    const float *x, float *y)
{
    trainer_dense_product(layer, pass->batch, params, x, y);
    trainer_dense_activate(layer, pass->batch, params, y);
}

size_t trainer_dense_tile_rows(const struct trainer_layer *layer)
{
    const size_t rows = DENSE_TILE_FLOATS / layer->out.dims[0];

    return rows > 0 ? rows : 1;
}

void trainer_dense_mask(const struct trainer_layer *layer, size_t batch, const float *y, float *dy)
{
    trainer_activation_gradient(layer->activation, batch * layer->out.dims[0], y, dy);
}

void trainer_dense_bias_gradient(const struct trainer_layer *layer, const struct trainer_pass *pass,
                                 const float *dy, float *grads)
{
    const size_t out = layer->out.dims[0];
    float *bias_gradient = grads + layer->tensors[1].offset;

    if (!pass->accumulate)
        memset(bias_gradient, 0, out * sizeof *bias_gradient);
    kernel_add_columns(pass->batch, out, dy, bias_gradient);
}

void trainer_dense_weight_gradient(const struct trainer_layer *layer, size_t batch, size_t first, size_t rows,
                                   const float *x, const float *dy, float beta, float *grads)
{
    const size_t in = layer->in.dims[0], out = layer->out.dims[0];

    blas_multiply_at(rows, out, batch, x + first, in, dy, beta,
                     grads + layer->tensors[0].offset + first * out);
}

void trainer_dense_input_gradient(const struct trainer_layer *layer, size_t batch, size_t first, size_t rows,
                                  const float *params, const float *dy, float *dx)
{
    const size_t in = layer->in.dims[0], out = layer->out.dims[0];

    blas_multiply_bt_into(batch, rows, out, dy, params + layer->tensors[0].offset + first * out, in,
                          dx + first);
}

/* Rows [first, end) of dW in tiles, from the last to the first. */
static void backward_rows(const struct trainer_layer *layer, const struct trainer_pass *pass, size_t first,
                          size_t end, const float *x, const float *dy, float *grads)
{
    const size_t out = layer->out.dims[0], tile = trainer_dense_tile_rows(layer);

    while (end > first) {
        const size_t rows = end - first < tile ? end - first : tile;
        end -= rows;
        trainer_dense_weight_gradient(layer, pass->batch, end, rows, x, dy, pass->accumulate ? 1.0f : 0.0f,
                                      grads);
        trainer_pass_ready(pass, layer->tensors[0].offset + end * out, rows * out);
    }
}

/* The first row that begins at `place` of the arena or behind it. */
static size_t row_at(const struct trainer_layer *layer, size_t place)
{
    const size_t out = layer->out.dims[0], offset = layer->tensors[0].offset;
    const size_t row = place > offset ? (place - offset + out - 1) / out : 0;

    return row < layer->in.dims[0] ? row : layer->in.dims[0];
}

/* dW in the ranges in which it is wanted: they cover the arena once. A row that lies in two of them goes with
 * the one in which it begins. Where there are none, from the end, which is the direction in which the arena
 * becomes final. */
static void backward_weight(const struct trainer_layer *layer, const struct trainer_pass *pass,
                            const float *x, const float *dy, float *grads)
{
    size_t index = 0, offset, count;

    for (; pass->preferred && pass->preferred(pass->context, index, &offset, &count); index++)
        backward_rows(layer, pass, row_at(layer, offset), row_at(layer, offset + count), x, dy, grads);
    if (index == 0)
        backward_rows(layer, pass, 0, layer->in.dims[0], x, dy, grads);
}

/* dx, with a word to the exchange now and then: what has come meanwhile is passed on. */
static void backward_input(const struct trainer_layer *layer, const struct trainer_pass *pass,
                           const float *params, const float *dy, float *dx)
{
    const size_t in = layer->in.dims[0], tile = trainer_dense_tile_rows(layer);

    for (size_t first = 0; first < in; first += tile) {
        const size_t rows = in - first < tile ? in - first : tile;
        trainer_dense_input_gradient(layer, pass->batch, first, rows, params, dy, dx);
        trainer_pass_ready(pass, layer->tensors[0].offset, 0);
    }
}

static void backward(const struct trainer_layer *layer, const struct trainer_pass *pass, const float *params,
                     const float *x, const float *y, float *dy, float *dx, float *grads)
{
    trainer_dense_mask(layer, pass->batch, y, dy);
    trainer_dense_bias_gradient(layer, pass, dy, grads);
    trainer_pass_ready(pass, layer->tensors[1].offset, layer->out.dims[0]);
    backward_weight(layer, pass, x, dy, grads);
    if (dx)
        backward_input(layer, pass, params, dy, dx);
}

const struct trainer_layer_ops trainer_layer_dense = {
    .type = "dense",
    .keys = keys,
    .configure = configure,
    .forward = forward,
    .backward = backward,
};
