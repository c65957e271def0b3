/* SPDX-License-Identifier: Apache-2.0 */
/* Any text as a model. One that is taken, and small, goes up and down once. */
#include "network.h"

#include <stdlib.h>

#define SMALL 20000 /* floats */

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);

static bool is_small(const struct trainer_model *model)
{
    size_t floats = model->parameters + trainer_shape_elements(&model->input);

    for (size_t i = 0; i < model->layer_count; i++) {
        const struct trainer_layer *layer = &model->layers[i];
        floats += trainer_shape_elements(&layer->out);
        /* A window on one place may be large, too. */
        if (layer->ops->scratch_floats)
            floats += layer->ops->scratch_floats(layer, 2);
    }
    return floats < SMALL;
}

static void run(const struct trainer_model *model)
{
    static const uint64_t keys[] = {1, 2};
    const struct trainer_pass pass = {.batch = 2, .training = true, .keys = keys, .share = 1};
    struct trainer_network network;
    float *params = calloc(model->parameters, sizeof *params);
    float *grads = calloc(model->parameters, sizeof *grads);

    if (!params || !grads || trainer_network_init(&network, model, 2, NULL) < 0)
        abort();
    for (size_t i = 0; i < 2 * trainer_shape_elements(&model->input); i++)
        network.input[i] = (float)(i % 11);
    for (size_t i = 0; i < model->layer_count; i++)
        trainer_layer_fill(&model->layers[i], 1, (uint32_t)i, params);
    trainer_network_forward_layers(&network, params, &pass, 0, model->layer_count);
    trainer_network_backward(&network, params, &pass, grads);
    trainer_network_release(&network);
    free(params);
    free(grads);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    struct trainer_model *model = NULL;
    struct mst_error err = MST_ERROR_INIT;
    uint8_t digest[MST_SHA256_BYTES];
    const int r = trainer_model_parse((const char *)bytes, count, "model", &model, &err);

    if (r < 0) {
        if (model || !err.text[0])
            abort();
        return 0;
    }
    if (trainer_model_digest(model, digest, NULL) < 0)
        abort();
    if (is_small(model))
        run(model);
    trainer_model_free(model);
    return 0;
}
