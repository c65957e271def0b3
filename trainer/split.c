/* SPDX-License-Identifier: Apache-2.0 */
#include "split.h"

int trainer_split_find(const struct trainer_model *model, const char *method, size_t *ret_layer,
                       struct mst_error *err)
{
    size_t largest = model->layer_count, weights = 0;

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
