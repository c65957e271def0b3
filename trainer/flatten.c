/* SPDX-License-Identifier: Apache-2.0 */
/* Rows, columns and channels become one dim, in that order; the memory is the same. */
#include "layer.h"

static const char *const keys[] = {NULL};

static int configure(struct trainer_layer *layer, const cJSON *json, const char *where, struct mst_error *err)
{
    (void)json;
    (void)where;
    (void)err;
    layer->out = (struct trainer_shape){.count = 1, .dims = {trainer_shape_elements(&layer->in)}};
    return 0;
}

const struct trainer_layer_ops trainer_layer_flatten = {
    .type = "flatten",
    .keys = keys,
    .configure = configure,
    .aliases = true,
};
