/* SPDX-License-Identifier: Apache-2.0 */
#include "model.h"

#include "keys.h"
#include "loss.h"
#include "muster/buf.h"
#include "muster/cleanup.h"
#include "muster/file.h"
#include "muster/json.h"
#include "muster/parse.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#define MODEL_WHERE_BYTES     512
#define MODEL_MAX_ACTIVATIONS 268435456 /* floats that one sample may become in a layer */

static const char *const model_keys[] = {"name", "input", "loss", "layers", NULL};
static const char *const common_keys[] = {"type", "name", NULL};

static void freep(struct trainer_model **model)
{
    trainer_model_free(*model);
}

/* Names go into file names, CSV and safetensors. */
static int copy_name(const char *name, size_t bytes, char *ret_name, const char *where, struct mst_error *err)
{
    static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-";
    const size_t length = strlen(name);

    if (length == 0 || length >= bytes || strspn(name, allowed) != length)
        return mst_error_set(err, -EBADMSG, "%s: name '%.64s' must be 1 to %zu letters, digits, '_' or '-'",
                             where, name, bytes - 1);
    memcpy(ret_name, name, length + 1);
    return 0;
}

static int read_input(const cJSON *json, const char *what, struct trainer_shape *ret_input,
                      struct mst_error *err)
{
    const cJSON *input = cJSON_GetObjectItemCaseSensitive(json, "input");
    const int count = cJSON_GetArraySize(input);
    struct trainer_shape shape = {0};
    size_t elements = 1;

    if (!cJSON_IsArray(input) || count < 1 || count > TRAINER_MAX_DIMS)
        return mst_error_set(err, -EBADMSG, "%s: key 'input' must be a list of 1 to %d sizes", what,
                             TRAINER_MAX_DIMS);
    for (int d = 0; d < count; d++) {
        const double value = cJSON_GetNumberValue(cJSON_GetArrayItem(input, d));
        if (!(value >= 1 && value <= (double)(TRAINER_MAX_SAMPLE_SIZE / elements)) ||
            value != (double)(size_t)value)
            return mst_error_set(
                err, -EBADMSG,
                "%s: input[%d] must be a whole number, and all sizes together at most %d values", what, d,
                TRAINER_MAX_SAMPLE_SIZE);
        shape.dims[shape.count++] = (size_t)value;
        elements *= (size_t)value;
    }
    *ret_input = shape;
    return 0;
}

/* "dense_2" for the second dense layer. */
static void default_name(struct trainer_model *model, const struct trainer_layer_ops *ops, char *ret_name)
{
    size_t number = 1;

    for (size_t i = 0; i < model->layer_count; i++)
        number += model->layers[i].ops == ops;
    (void)snprintf(ret_name, TRAINER_LAYER_NAME_BYTES, "%s_%zu", ops->type, number);
}

static int name_layer(struct trainer_model *model, struct trainer_layer *layer, const cJSON *json,
                      const char *where, struct mst_error *err)
{
    const char *name;

    default_name(model, layer->ops, layer->name);
    if (cJSON_GetObjectItemCaseSensitive(json, "name")) {
        int r = mst_json_get_string(json, "name", where, &name, err);
        if (r >= 0)
            r = copy_name(name, sizeof layer->name, layer->name, where, err);
        if (r < 0)
            return r;
    }
    for (size_t i = 0; i < model->layer_count; i++) {
        if (strcmp(model->layers[i].name, layer->name) == 0)
            return mst_error_set(err, -EBADMSG, "%s: layers[%zu] has the same name", where, i);
    }
    return 0;
}

/* Give the layer's tensors their places, and hold the limits: sizes multiplied later cannot overflow. */
static int place_layer(struct trainer_model *model, struct trainer_layer *layer, const char *where,
                       struct mst_error *err)
{
    char text[TRAINER_SHAPE_TEXT_BYTES];

    if (trainer_shape_elements(&layer->out) > MODEL_MAX_ACTIVATIONS)
        return mst_error_set(err, -EBADMSG,
                             "%s: its output of %s is more than the limit of %d values a sample", where,
                             trainer_shape_text(&layer->out, text), MODEL_MAX_ACTIVATIONS);
    for (size_t t = 0; t < layer->tensor_count; t++) {
        const size_t count = trainer_shape_elements(&layer->tensors[t].shape);
        if (count > TRAINER_MODEL_MAX_PARAMETERS - model->parameters)
            return mst_error_set(err, -EBADMSG, "%s: a %s of %s takes the model beyond %d parameters", where,
                                 layer->tensors[t].role, trainer_shape_text(&layer->tensors[t].shape, text),
                                 TRAINER_MODEL_MAX_PARAMETERS);
        layer->tensors[t].offset = model->parameters;
        model->has_averages = model->has_averages || layer->tensors[t].average > 0;
        model->parameters += count;
    }
    return 0;
}

static int read_layer(struct trainer_model *model, const cJSON *json, const char *what, struct mst_error *err)
{
    char where[MODEL_WHERE_BYTES], types[TRAINER_NAMES_TEXT_BYTES];
    struct trainer_layer *layer = &model->layers[model->layer_count];
    const char *type;

    (void)snprintf(where, sizeof where, "%s: layers[%zu]", what, model->layer_count);
    if (!cJSON_IsObject(json))
        return mst_error_set(err, -EBADMSG, "%s: must be an object with a 'type'", where);
    int r = mst_json_get_string(json, "type", where, &type, err);
    if (r < 0)
        return r;
    layer->ops = trainer_layer_find(type);
    if (!layer->ops)
        return mst_error_set(err, -EBADMSG, "%s: type '%.64s', expected %s", where, type,
                             trainer_layer_types(types));
    r = name_layer(model, layer, json, where, err);
    if (r < 0)
        return r;
    (void)snprintf(where, sizeof where, "%s: layers[%zu] (%s)", what, model->layer_count, layer->name);
    r = trainer_check_keys(json, layer->ops->keys, common_keys, where, err);
    if (r < 0)
        return r;
    layer->number = (uint32_t)model->layer_count;
    layer->in = model->layer_count > 0 ? layer[-1].out : model->input;
    r = layer->ops->configure(layer, json, where, err);
    model->mixes = model->mixes || layer->ops->mixing;
    if (r >= 0)
        r = place_layer(model, layer, where, err);
    if (r >= 0)
        model->layer_count++;
    return r;
}

static int read_layers(struct trainer_model *model, const cJSON *json, const char *what,
                       struct mst_error *err)
{
    const cJSON *list = cJSON_GetObjectItemCaseSensitive(json, "layers");
    const int count = cJSON_GetArraySize(list);

    if (!cJSON_IsArray(list) || count < 1 || count > TRAINER_MODEL_MAX_LAYERS)
        return mst_error_set(err, -EBADMSG, "%s: key 'layers' must be a list of 1 to %d layers", what,
                             TRAINER_MODEL_MAX_LAYERS);
    model->layers = calloc((size_t)count, sizeof *model->layers);
    if (!model->layers)
        return mst_error_set(err, -ENOMEM, "%s: no memory for %d layers", what, count);
    for (const cJSON *item = list->child; item; item = item->next) {
        const int r = read_layer(model, item, what, err);
        if (r < 0)
            return r;
    }
    if (model->parameters == 0)
        return mst_error_set(err, -EBADMSG, "%s: no layer has parameters: there is nothing to train", what);
    return 0;
}

int trainer_model_check_loss(const struct trainer_model *model, enum trainer_loss_kind loss,
                             const char *where, struct mst_error *err)
{
    const struct trainer_layer *last = &model->layers[model->layer_count - 1];
    const bool softmax = last->ops == &trainer_layer_softmax;
    const size_t least = loss == TRAINER_MSE ? 1 : 2;
    char text[TRAINER_SHAPE_TEXT_BYTES];

    if (last->out.count != 1 || last->out.dims[0] < least)
        return mst_error_set(
            err, -EBADMSG,
            "%s: layers[%zu] (%s): the last layer gives %s, the loss '%s' needs one dim of at "
            "least %zu%s",
            where, model->layer_count - 1, last->name, trainer_shape_text(&last->out, text),
            trainer_loss_name(loss), least, least == 2 ? " classes" : "");
    if (loss == TRAINER_CROSS_ENTROPY && !softmax)
        return mst_error_set(err, -EBADMSG,
                             "%s: layers[%zu] (%s): the loss 'cross_entropy' takes probabilities: end with a "
                             "softmax layer, or take 'softmax_cross_entropy'",
                             where, model->layer_count - 1, last->name);
    if (loss == TRAINER_SOFTMAX_CROSS_ENTROPY && softmax)
        return mst_error_set(
            err, -EBADMSG,
            "%s: layers[%zu] (%s): the loss 'softmax_cross_entropy' has a softmax of its own: "
            "leave the layer out, or take 'cross_entropy'",
            where, model->layer_count - 1, last->name);
    return 0;
}

static int read_model(struct trainer_model *model, const cJSON *json, const char *what, struct mst_error *err)
{
    const char *name, *loss;

    if (!cJSON_IsObject(json))
        return mst_error_set(err, -EBADMSG, "%s: a model is a JSON object", what);
    int r = trainer_check_keys(json, model_keys, NULL, what, err);
    if (r >= 0)
        r = mst_json_get_string(json, "name", what, &name, err);
    if (r >= 0)
        r = copy_name(name, sizeof model->name, model->name, what, err);
    if (r >= 0)
        r = mst_json_get_string(json, "loss", what, &loss, err);
    if (r < 0)
        return r;
    model->loss = trainer_loss_find(loss);
    if (model->loss == TRAINER_LOSS_OF_MODEL)
        return mst_error_set(err, -EBADMSG,
                             "%s: loss '%.64s', expected 'softmax_cross_entropy', 'cross_entropy' or 'mse'",
                             what, loss);
    r = read_input(json, what, &model->input, err);
    if (r >= 0)
        r = read_layers(model, json, what, err);
    if (r >= 0)
        r = trainer_model_check_loss(model, model->loss, what, err);
    return r;
}

int trainer_model_parse(const char *text, size_t bytes, const char *what, struct trainer_model **ret_model,
                        struct mst_error *err)
{
    mst_cleanup(mst_json_deletep) cJSON *json = NULL;
    mst_cleanup(freep) struct trainer_model *model = NULL;

    int r = mst_json_parse(text, bytes, what, &json, err);
    if (r < 0)
        return r;
    model = calloc(1, sizeof *model);
    if (!model)
        return mst_error_set(err, -ENOMEM, "%s: no memory", what);
    r = read_model(model, json, what, err);
    if (r < 0)
        return r;
    *ret_model = model;
    model = NULL;
    return 0;
}

int trainer_model_read(const char *path, struct trainer_model **ret_model, struct mst_error *err)
{
    mst_cleanup(mst_buf_release) struct mst_buf text = MST_BUF_INIT(TRAINER_MODEL_MAX_BYTES);

    const int r = mst_file_read(path, &text, err);
    if (r < 0)
        return r;
    return trainer_model_parse(mst_buf_text(&text), text.count, path, ret_model, err);
}

void trainer_model_free(struct trainer_model *model)
{
    if (!model)
        return;
    free(model->layers);
    free(model);
}

const char *trainer_model_name(const struct trainer_model *model)
{
    return model->name;
}

size_t trainer_model_parameters(const struct trainer_model *model)
{
    return model->parameters;
}

struct trainer_shape trainer_model_input(const struct trainer_model *model)
{
    return model->input;
}

enum trainer_loss_kind trainer_model_loss(const struct trainer_model *model)
{
    return model->loss;
}

size_t trainer_model_classes(const struct trainer_model *model)
{
    return model->layers[model->layer_count - 1].out.dims[0];
}

static int describe_shape(struct mst_buf *text, const char *label, const struct trainer_shape *shape)
{
    char dims[TRAINER_SHAPE_TEXT_BYTES];

    return mst_buf_printf(text, " %s %s", label, trainer_shape_text(shape, dims));
}

int trainer_model_digest(const struct trainer_model *model, uint8_t ret_digest[static MST_SHA256_BYTES],
                         struct mst_error *err)
{
    mst_cleanup(mst_buf_release) struct mst_buf text = MST_BUF_INIT(TRAINER_MODEL_MAX_BYTES);

    int r = mst_buf_printf(&text, "%s", trainer_loss_name(model->loss));
    if (r >= 0)
        r = describe_shape(&text, "input", &model->input);
    for (size_t i = 0; r >= 0 && i < model->layer_count; i++) {
        const struct trainer_layer *layer = &model->layers[i];
        r = mst_buf_printf(&text, "\n%s %s", layer->ops->type, trainer_activation_name(layer->activation));
        if (r >= 0 && layer->ops->describe)
            r = layer->ops->describe(layer, &text);
        if (r >= 0)
            r = describe_shape(&text, "out", &layer->out);
        for (size_t t = 0; r >= 0 && t < layer->tensor_count; t++)
            r = describe_shape(&text, layer->tensors[t].role, &layer->tensors[t].shape);
    }
    if (r < 0)
        return mst_error_errno(err, r, "model '%s'", model->name);
    return mst_sha256(mst_buf_text(&text), text.count, ret_digest, err);
}
