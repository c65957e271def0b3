/* SPDX-License-Identifier: Apache-2.0 */
/* In training each value is set to zero with probability `rate`, and the others are divided by 1 - rate
 * (Srivastava and others, JMLR 15, 2014); else y = x. Which ones follows from the sample's key and the
 * layer's number alone, so that the same shards drop the same values whoever has them, and backward draws
 * them again instead of keeping them. */
#include "clones.h"
#include "layer.h"
#include "muster/json.h"

#include <math.h>
#include <string.h>

static const char *const keys[] = {"rate", NULL};

static int configure(struct trainer_layer *layer, const cJSON *json, const char *where, struct mst_error *err)
{
    const double rate = cJSON_GetNumberValue(cJSON_GetObjectItemCaseSensitive(json, "rate"));

    if (!(rate >= 0 && rate < 1))
        return mst_error_set(err, -EBADMSG, "%s: key 'rate' must be a number from 0 to below 1", where);
    layer->settings.dropout.rate = rate;
    layer->out = layer->in;
    return 0;
}

/* SplitMix64, as rng.c has it, with its counter written out so that draws do not wait for each other. A draw
 * decides over two values: a half of it below `threshold` drops one. */
TRAINER_CLONES static void drop(size_t count, uint64_t state, uint32_t threshold, float scale, const float *x,
                                float *y)
{
    for (size_t i = 0; i + 1 < count; i += 2) {
        uint64_t z = state + (i / 2 + 1) * 0x9e3779b97f4a7c15u;
        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
        z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
        z ^= z >> 31;
        y[i] = (uint32_t)z < threshold ? 0.0f : scale * x[i];
        y[i + 1] = (uint32_t)(z >> 32) < threshold ? 0.0f : scale * x[i + 1];
    }
}

static void apply(const struct trainer_layer *layer, const struct trainer_pass *pass, const float *x,
                  float *y)
{
    const size_t floats = trainer_shape_elements(&layer->in);
    const double rate = layer->settings.dropout.rate;
    const uint32_t threshold = (uint32_t)(rate * 0x1p32);
    const float scale = (float)(1 / (1 - rate));

    if (!pass->training || rate == 0) {
        memcpy(y, x, pass->batch * floats * sizeof *y);
        return;
    }
    for (size_t n = 0; n < pass->batch; n++, x += floats, y += floats) {
        struct trainer_rng rng;
        trainer_rng_init(&rng, pass->keys[n], TRAINER_RNG_DROPOUT, layer->number);
        drop(floats, rng.state, threshold, scale, x, y);
        if (floats % 2) { /* the draw after those of the pairs */
            rng.state += floats / 2 * 0x9e3779b97f4a7c15u;
            y[floats - 1] = (uint32_t)trainer_rng_next(&rng) < threshold ? 0.0f : scale * x[floats - 1];
        }
    }
}

static void forward(const struct trainer_layer *layer, const struct trainer_pass *pass, const float *params,
                    const float *x, float *y)
{
    (void)params;
    apply(layer, pass, x, y);
}

static void backward(const struct trainer_layer *layer, const struct trainer_pass *pass, const float *params,
                     const float *x, const float *y, float *dy, float *dx, float *grads)
{
    (void)params;
    (void)x;
    (void)y;
    (void)grads;
    if (dx)
        apply(layer, pass, dy, dx);
}

static int describe(const struct trainer_layer *layer, struct mst_buf *text)
{
    return mst_buf_printf(text, " rate %.17g", layer->settings.dropout.rate);
}

const struct trainer_layer_ops trainer_layer_dropout = {
    .type = "dropout",
    .keys = keys,
    .configure = configure,
    .describe = describe,
    .forward = forward,
    .backward = backward,
};
