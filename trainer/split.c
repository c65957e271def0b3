/* SPDX-License-Identifier: Apache-2.0 */
#include "split.h"

#include "muster/cleanup.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

int trainer_split_find(const struct trainer_model *model, const char *method, size_t *ret_layer,
                       struct mst_error *err)
{
    size_t largest = model->layer_count, weights = 0;

    for (size_t i = 0; i < model->layer_count; i++) {
        if (model->layers[i].ops->mixing)
            return mst_error_set(err, -ENOTSUP,
                                 "model '%s', layer '%s' (%s): its samples depend on each other, which the "
                                 "exchange '%s' does not allow: take 'direct'",
                                 model->name, model->layers[i].name, model->layers[i].ops->type, method);
    }
    for (size_t i = 0; i < model->layer_count; i++) {
        const struct trainer_layer *layer = &model->layers[i];
        if (layer->ops != &trainer_layer_dense)
            continue;
        const size_t own = trainer_shape_elements(&layer->tensors[0].shape);
        if (own > weights) {
            weights = own;
            largest = i;
        }
    }
    if (largest == model->layer_count)
        return mst_error_set(err, -ENOTSUP,
                             "model '%s' has no dense layer, the exchange '%s' is about one: take 'direct'",
                             model->name, method);
    *ret_layer = largest;
    return 0;
}

/* ---- shares -------------------------------------------------------------------------------------------- */

/* Layers that treat each channel (the last dim) for itself, and keep the order of channels. */
static bool is_by_channel(const struct trainer_layer *layer)
{
    static const char *const types[] = {"relu", "sigmoid", "tanh", "flatten", "max_pool", "avg_pool"};

    for (size_t i = 0; i < MST_ARRAY_COUNT(types); i++) {
        if (strcmp(layer->ops->type, types[i]) == 0)
            return true;
    }
    return false;
}

static bool has_channels(const struct trainer_layer *layer)
{
    return layer->ops == &trainer_layer_conv2d || layer->ops == &trainer_layer_dense;
}

int trainer_split_plan(const struct trainer_model *model, struct trainer_split *ret_split,
                       struct mst_error *err)
{
    size_t dense;

    const int r = trainer_split_find(model, "sharded", &dense, err);
    if (r < 0)
        return r;
    size_t feeder = dense;
    while (feeder > 0 && is_by_channel(&model->layers[feeder - 1]))
        feeder--;
    if (feeder == 0)
        return mst_error_set(err, -ENOTSUP,
                             "model '%s': layer '%s' takes the input itself, the exchange 'sharded' needs a "
                             "conv2d or dense layer before it: take 'factors'",
                             model->name, model->layers[dense].name);
    const struct trainer_layer *layer = &model->layers[feeder - 1];
    if (!has_channels(layer))
        return mst_error_set(
            err, -ENOTSUP,
            "model '%s': the exchange 'sharded' cannot cut layer '%s' (%s), which stands before "
            "'%s': take 'factors' or 'direct'",
            model->name, layer->name, layer->ops->type, model->layers[dense].name);
    *ret_split = (struct trainer_split){
        .dense = dense, .feeder = feeder - 1, .channels = layer->out.dims[layer->out.count - 1]};
    return 0;
}

static void narrow(const struct trainer_split *split, struct trainer_shape *shape)
{
    size_t *last = &shape->dims[shape->count - 1];

    *last = *last / split->channels * (split->end - split->first);
}

/* Which tensors are cut: the feeder's, by columns, and the dense layer's weight, by rows in runs of one
 * channel, which are columns when all channels of a place make a row. */
static bool is_cut(const struct trainer_split *split, size_t layer, size_t tensor)
{
    return layer == split->feeder || (layer == split->dense && tensor == 0);
}

static void narrow_tensor(const struct trainer_split *split, size_t layer, struct trainer_tensor *tensor)
{
    if (layer == split->feeder) {
        narrow(split, &tensor->shape);
        return;
    }
    tensor->shape.dims[0] = tensor->shape.dims[0] / split->channels * (split->end - split->first);
}

static void make_share(const struct trainer_split *split, struct trainer_model *model)
{
    size_t offset = 0;

    for (size_t i = 0; i < model->layer_count; i++) {
        struct trainer_layer *layer = &model->layers[i];
        if (i > split->feeder && i <= split->dense)
            narrow(split, &layer->in);
        if (i >= split->feeder && i < split->dense)
            narrow(split, &layer->out);
        for (size_t t = 0; t < layer->tensor_count; t++) {
            if (is_cut(split, i, t))
                narrow_tensor(split, i, &layer->tensors[t]);
            layer->tensors[t].offset = offset;
            offset += trainer_shape_elements(&layer->tensors[t].shape);
        }
    }
    model->parameters = offset;
}

int trainer_split_share(const struct trainer_model *model, uint32_t rank, uint32_t world,
                        struct trainer_split *ret_split, struct mst_error *err)
{
    struct trainer_split split;

    int r = trainer_split_plan(model, &split, err);
    if (r < 0)
        return r;
    if (world > split.channels)
        return mst_error_set(err, -EINVAL,
                             "%" PRIu32 " workers for the %zu channels of layer '%s': the exchange 'sharded' "
                             "gives each at least one",
                             world, split.channels, model->layers[split.feeder].name);
    split.first = split.channels * rank / world;
    split.end = split.channels * (rank + 1) / world;
    struct trainer_model *share = calloc(1, sizeof *share);
    struct trainer_layer *layers = calloc(model->layer_count, sizeof *layers);
    if (!share || !layers) {
        free(share);
        free(layers);
        return mst_error_set(err, -ENOMEM, "no memory for a share of model '%s'", model->name);
    }
    memcpy(layers, model->layers, model->layer_count * sizeof *layers);
    *share = *model;
    share->layers = layers;
    make_share(&split, share);
    split.model = share;
    *ret_split = split;
    return 0;
}

void trainer_split_free(struct trainer_split *split)
{
    trainer_model_free(split->model);
    *split = (struct trainer_split){0};
}

/* A cut tensor as rows of all channels, of which a share has a run of columns. */
struct columns {
    size_t rows, whole, share, first; /* floats: of a row, of the share's part of it, and where that begins */
};

static struct columns columns_of(const struct trainer_split *split, const struct trainer_layer *layer,
                                 size_t t)
{
    const size_t floats = trainer_shape_elements(&layer->tensors[t].shape); /* of the share */
    const size_t own = split->end - split->first;
    const size_t unit = layer == &split->model->layers[split->feeder] ? 1 : layer->out.dims[0];

    return (struct columns){.rows = floats / (own * unit),
                            .whole = split->channels * unit,
                            .share = own * unit,
                            .first = split->first * unit};
}

void trainer_split_take(const struct trainer_split *split, const struct trainer_model *whole,
                        const float *all, float *share)
{
    for (size_t i = 0; i < whole->layer_count; i++) {
        const struct trainer_layer *layer = &split->model->layers[i];
        for (size_t t = 0; t < layer->tensor_count; t++) {
            const float *from = all + whole->layers[i].tensors[t].offset;
            float *to = share + layer->tensors[t].offset;
            if (!is_cut(split, i, t)) {
                memcpy(to, from, trainer_shape_elements(&layer->tensors[t].shape) * sizeof *to);
                continue;
            }
            const struct columns columns = columns_of(split, layer, t);
            for (size_t row = 0; row < columns.rows; row++)
                memcpy(to + row * columns.share, from + row * columns.whole + columns.first,
                       columns.share * sizeof *to);
        }
    }
}

size_t trainer_split_floats(const struct trainer_split *split)
{
    size_t floats = 0;

    for (size_t i = split->feeder; i <= split->dense; i++) {
        const struct trainer_layer *layer = &split->model->layers[i];
        for (size_t t = 0; t < layer->tensor_count; t++)
            floats += is_cut(split, i, t) ? trainer_shape_elements(&layer->tensors[t].shape) : 0;
    }
    return floats;
}

void trainer_split_pack(const struct trainer_split *split, const float *share, float *packed)
{
    for (size_t i = split->feeder; i <= split->dense; i++) {
        const struct trainer_layer *layer = &split->model->layers[i];
        for (size_t t = 0; t < layer->tensor_count; t++) {
            if (!is_cut(split, i, t))
                continue;
            const size_t floats = trainer_shape_elements(&layer->tensors[t].shape);
            memcpy(packed, share + layer->tensors[t].offset, floats * sizeof *packed);
            packed += floats;
        }
    }
}

void trainer_split_unpack(const struct trainer_split *split, const struct trainer_model *whole,
                          const float *packed, float *all)
{
    for (size_t i = split->feeder; i <= split->dense; i++) {
        const struct trainer_layer *layer = &split->model->layers[i];
        for (size_t t = 0; t < layer->tensor_count; t++) {
            if (!is_cut(split, i, t))
                continue;
            const struct columns columns = columns_of(split, layer, t);
            float *to = all + whole->layers[i].tensors[t].offset + columns.first;
            for (size_t row = 0; row < columns.rows; row++, packed += columns.share)
                memcpy(to + row * columns.whole, packed, columns.share * sizeof *to);
        }
    }
}

void trainer_split_give(const struct trainer_split *split, const struct trainer_model *whole,
                        const float *share, float *all)
{
    for (size_t i = 0; i < whole->layer_count; i++) {
        const struct trainer_layer *layer = &split->model->layers[i];
        for (size_t t = 0; t < layer->tensor_count; t++) {
            if (!is_cut(split, i, t))
                memcpy(all + whole->layers[i].tensors[t].offset, share + layer->tensors[t].offset,
                       trainer_shape_elements(&layer->tensors[t].shape) * sizeof *all);
        }
    }
}
