/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of a table, chosen by number: x (n) holds whole numbers in [0, vocabulary), y (n, size) the rows
 * W[x[i]] of W (vocabulary, size).
 *     dW[x[i]] += dy[i], in the order of samples
 * Numbers come from the data, so the layer is a model's first; trainer_check() sees that they fit, and one
 * that does not, in data that comes later, gives a row of zeros. */
#include "layer.h"

#include <string.h>

static const char *const keys[] = {"vocabulary", "size", NULL};

static int configure(struct trainer_layer *layer, const cJSON *json, const char *where, struct mst_error *err)
{
    char text[TRAINER_SHAPE_TEXT_BYTES];
    size_t vocabulary, size;

    if (layer->number > 0)
        return mst_error_set(err, -EBADMSG,
                             "%s: must be the first layer: its input are numbers from the data", where);
    if (layer->in.count != 1)
        return mst_error_set(err, -EBADMSG, "%s: takes one dim of numbers, but its input is %s", where,
                             trainer_shape_text(&layer->in, text));
    /* Above 2^24 not every whole number is a float. */
    int r = trainer_layer_size(json, "vocabulary", 16777216, where, &vocabulary, err);
    if (r >= 0)
        r = trainer_layer_size(json, "size", 65536, where, &size, err);
    if (r < 0)
        return r;
    trainer_layer_add_tensor(layer, "weight", 2, (const size_t[]){vocabulary, size}, vocabulary, size);
    layer->out = (struct trainer_shape){.count = 2, .dims = {layer->in.dims[0], size}};
    return 0;
}

/* SIZE_MAX when it is none. */
static size_t number_of(float value, size_t vocabulary)
{
    if (!(value >= 0 && value < (float)vocabulary) || value != (float)(size_t)value)
        return SIZE_MAX;
    return (size_t)value;
}

static bool fits(const struct trainer_layer *layer, float value)
{
    return number_of(value, layer->tensors[0].shape.dims[0]) != SIZE_MAX;
}

static void forward(const struct trainer_layer *layer, const struct trainer_pass *pass, const float *params,
                    const float *x, float *y)
{
    const size_t vocabulary = layer->tensors[0].shape.dims[0], size = layer->out.dims[1];
    const float *table = params + layer->tensors[0].offset;

    for (size_t i = 0; i < pass->batch * layer->in.dims[0]; i++, y += size) {
        const size_t number = number_of(x[i], vocabulary);
        if (number == SIZE_MAX)
            memset(y, 0, size * sizeof *y);
        else
            memcpy(y, table + number * size, size * sizeof *y);
    }
}

static void backward(const struct trainer_layer *layer, const struct trainer_pass *pass, const float *params,
                     const float *x, const float *y, float *dy, float *dx, float *grads)
{
    const size_t vocabulary = layer->tensors[0].shape.dims[0], size = layer->out.dims[1];
    float *table = grads + layer->tensors[0].offset;

    (void)params;
    (void)y;
    (void)dx; /* the first layer's */
    if (!pass->accumulate)
        memset(table, 0, vocabulary * size * sizeof *table);
    for (size_t i = 0; i < pass->batch * layer->in.dims[0]; i++, dy += size) {
        const size_t number = number_of(x[i], vocabulary);
        for (size_t j = 0; number != SIZE_MAX && j < size; j++)
            table[number * size + j] += dy[j];
    }
    trainer_pass_ready(pass, layer->tensors[0].offset, vocabulary * size);
}

const struct trainer_layer_ops trainer_layer_embedding = {
    .type = "embedding",
    .keys = keys,
    .configure = configure,
    .fits = fits,
    .forward = forward,
    .backward = backward,
};
