/* SPDX-License-Identifier: Apache-2.0 */
#include "layer.h"

#include "kernels.h"
#include "muster/cleanup.h"
#include "muster/json.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static const struct trainer_layer_ops *const table[] = {
    &trainer_layer_avg_pool, &trainer_layer_batch_norm, &trainer_layer_conv2d,  &trainer_layer_dense,
    &trainer_layer_dropout,  &trainer_layer_embedding,  &trainer_layer_flatten, &trainer_layer_max_pool,
    &trainer_layer_relu,     &trainer_layer_sigmoid,    &trainer_layer_softmax, &trainer_layer_tanh,
};

const struct trainer_layer_ops *trainer_layer_find(const char *type)
{
    for (size_t i = 0; i < MST_ARRAY_COUNT(table); i++) {
        if (strcmp(table[i]->type, type) == 0)
            return table[i];
    }
    return NULL;
}

const char *trainer_layer_types(char text[static TRAINER_NAMES_TEXT_BYTES])
{
    const char *types[MST_ARRAY_COUNT(table) + 1] = {0};

    for (size_t i = 0; i < MST_ARRAY_COUNT(table); i++)
        types[i] = table[i]->type;
    return trainer_names_text(types, text);
}

int trainer_layer_size(const cJSON *json, const char *key, size_t max, const char *where, size_t *ret_size,
                       struct mst_error *err)
{
    uint64_t value;

    const int r = mst_json_get_u64(json, key, 1, max, where, &value, err);
    if (r >= 0)
        *ret_size = (size_t)value;
    return r;
}

int trainer_layer_activation(struct trainer_layer *layer, const cJSON *json, const char *where,
                             struct mst_error *err)
{
    const char *text = "linear";

    if (cJSON_GetObjectItemCaseSensitive(json, "activation")) {
        const int r = mst_json_get_string(json, "activation", where, &text, err);
        if (r < 0)
            return r;
    }
    for (enum trainer_activation a = TRAINER_LINEAR; a <= TRAINER_SIGMOID; a++) {
        if (strcmp(text, trainer_activation_name(a)) == 0) {
            layer->activation = a;
            return 0;
        }
    }
    return mst_error_set(
        err, -EBADMSG, "%s: activation '%.32s', expected 'linear', 'relu', 'tanh' or 'sigmoid'%s", where,
        text, strcmp(text, "softmax") == 0 ? " (softmax is a layer of its own, and part of the loss)" : "");
}

void trainer_layer_bias_activation(const struct trainer_layer *layer, size_t rows, size_t columns,
                                   const float *bias, float *y)
{
    if (layer->activation == TRAINER_RELU) {
        kernel_bias_relu(rows, columns, bias, y);
        return;
    }
    kernel_bias(rows, columns, bias, y);
    if (layer->activation != TRAINER_LINEAR)
        trainer_activation_apply(layer->activation, rows * columns, y, y);
}

void trainer_layer_add_tensor(struct trainer_layer *layer, const char *role, size_t count, const size_t *dims,
                              size_t fan_in, size_t fan_out)
{
    assert(layer->tensor_count < TRAINER_LAYER_MAX_TENSORS && count <= TRAINER_MAX_DIMS);
    struct trainer_tensor *tensor = &layer->tensors[layer->tensor_count++];

    *tensor =
        (struct trainer_tensor){.role = role, .shape.count = count, .fan_in = fan_in, .fan_out = fan_out};
    memcpy(tensor->shape.dims, dims, count * sizeof *dims);
}

void trainer_layer_fill(const struct trainer_layer *layer, uint64_t seed, uint32_t number, float *params)
{
    for (size_t t = 0; t < layer->tensor_count; t++) {
        const struct trainer_tensor *tensor = &layer->tensors[t];
        const size_t count = trainer_shape_elements(&tensor->shape);
        float *values = params + tensor->offset;

        if (tensor->fan_in == 0) {
            for (size_t i = 0; i < count; i++)
                values[i] = tensor->initial;
            continue;
        }
        const float limit = (float)sqrt(6.0 / (double)(tensor->fan_in + tensor->fan_out));
        struct trainer_rng rng;
        trainer_rng_init(&rng, seed, TRAINER_RNG_WEIGHTS, number + (uint32_t)t);
        for (size_t i = 0; i < count; i++)
            values[i] = limit * (2.0f * trainer_rng_float(&rng) - 1.0f);
    }
}

const char *trainer_shape_text(const struct trainer_shape *shape, char text[static TRAINER_SHAPE_TEXT_BYTES])
{
    size_t used = 0;

    text[0] = '\0';
    for (size_t d = 0; d < shape->count && used < TRAINER_SHAPE_TEXT_BYTES; d++) {
        const int n = snprintf(text + used, TRAINER_SHAPE_TEXT_BYTES - used, "%s%zu", d > 0 ? " x " : "",
                               shape->dims[d]);
        used += (size_t)n;
    }
    return text;
}
