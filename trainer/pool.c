/* SPDX-License-Identifier: Apache-2.0 */
/* Pools over images (rows, columns, channels), each channel for itself:
 *     max_pool   y = the largest value in the window; its gradient goes to the first place that has it
 *     avg_pool   y = the mean of the values in the window
 * What a window covers outside of the image takes no part, in the mean's count neither. */
#include "layer.h"

#include <string.h>

static const char *const keys[] = {"size", "stride", "padding", NULL};

static int configure(struct trainer_layer *layer, const cJSON *json, const char *where, struct mst_error *err)
{
    size_t out[2];

    const int r =
        trainer_window_read(json, "size", true, &layer->in, where, &layer->settings.window, out, err);
    if (r >= 0)
        layer->out = (struct trainer_shape){.count = 3, .dims = {out[0], out[1], layer->in.dims[2]}};
    return r;
}

/* The places of one window on the image: [rows[0], rows[1]) x [columns[0], columns[1]). */
struct patch {
    size_t rows[2], columns[2];
};

static struct patch patch_at(const struct trainer_layer *layer, size_t row, size_t column)
{
    const struct trainer_window *window = &layer->settings.window;
    struct patch patch;
    size_t first, end;

    ptrdiff_t start = trainer_window_clip(window, 0, row, layer->in.dims[0], &first, &end);
    patch.rows[0] = (size_t)(start + (ptrdiff_t)first);
    patch.rows[1] = (size_t)(start + (ptrdiff_t)end);
    start = trainer_window_clip(window, 1, column, layer->in.dims[1], &first, &end);
    patch.columns[0] = (size_t)(start + (ptrdiff_t)first);
    patch.columns[1] = (size_t)(start + (ptrdiff_t)end);
    return patch;
}

static size_t patch_places(const struct patch *patch)
{
    return (patch->rows[1] - patch->rows[0]) * (patch->columns[1] - patch->columns[0]);
}

/* ---- max ----------------------------------------------------------------------------------------------- */

static void largest_of(size_t channels, const float *x, float *y)
{
    for (size_t k = 0; k < channels; k++)
        y[k] = x[k] <= y[k] ? y[k] : x[k]; /* a NaN stays one */
}

static void max_of(const struct trainer_layer *layer, const struct patch *patch, const float *image, float *y)
{
    const size_t channels = layer->in.dims[2];
    const float *first = image + (patch->rows[0] * layer->in.dims[1] + patch->columns[0]) * channels;

    memcpy(y, first, channels * sizeof *y);
    for (size_t r = patch->rows[0]; r < patch->rows[1]; r++) {
        for (size_t c = patch->columns[0]; c < patch->columns[1]; c++)
            largest_of(channels, image + (r * layer->in.dims[1] + c) * channels, y);
    }
}

static void max_forward(const struct trainer_layer *layer, const struct trainer_pass *pass,
                        const float *params, const float *x, float *y)
{
    (void)params;
    for (size_t n = 0; n < pass->batch; n++, x += trainer_shape_elements(&layer->in)) {
        for (size_t r = 0; r < layer->out.dims[0]; r++) {
            for (size_t c = 0; c < layer->out.dims[1]; c++, y += layer->out.dims[2]) {
                const struct patch patch = patch_at(layer, r, c);
                max_of(layer, &patch, x, y);
            }
        }
    }
}

/* A gradient that has found its place is set to zero, so that no second place gets it. */
static void hand_down(size_t channels, const float *x, const float *y, float *dy, float *dx)
{
    for (size_t k = 0; k < channels; k++) {
        const float given = x[k] == y[k] ? dy[k] : 0.0f;
        dx[k] += given;
        dy[k] -= given;
    }
}

static void max_backward(const struct trainer_layer *layer, const struct trainer_pass *pass,
                         const float *params, const float *x, const float *y, float *dy, float *dx,
                         float *grads)
{
    const size_t channels = layer->in.dims[2], in_floats = trainer_shape_elements(&layer->in);

    (void)params;
    (void)grads;
    if (!dx)
        return;
    memset(dx, 0, pass->batch * in_floats * sizeof *dx);
    for (size_t n = 0; n < pass->batch; n++, x += in_floats, dx += in_floats) {
        for (size_t place = 0; place < layer->out.dims[0] * layer->out.dims[1]; place++) {
            const struct patch patch =
                patch_at(layer, place / layer->out.dims[1], place % layer->out.dims[1]);
            for (size_t r = patch.rows[0]; r < patch.rows[1]; r++) {
                for (size_t c = patch.columns[0]; c < patch.columns[1]; c++) {
                    const size_t at = (r * layer->in.dims[1] + c) * channels;
                    hand_down(channels, x + at, y, dy, dx + at);
                }
            }
            y += channels;
            dy += channels;
        }
    }
}

/* ---- mean ---------------------------------------------------------------------------------------------- */

static void avg_forward(const struct trainer_layer *layer, const struct trainer_pass *pass,
                        const float *params, const float *x, float *y)
{
    const size_t channels = layer->in.dims[2];

    (void)params;
    for (size_t n = 0; n < pass->batch; n++, x += trainer_shape_elements(&layer->in)) {
        for (size_t place = 0; place < layer->out.dims[0] * layer->out.dims[1]; place++, y += channels) {
            const struct patch patch =
                patch_at(layer, place / layer->out.dims[1], place % layer->out.dims[1]);
            const float share = 1.0f / (float)patch_places(&patch);
            memset(y, 0, channels * sizeof *y);
            for (size_t r = patch.rows[0]; r < patch.rows[1]; r++) {
                for (size_t c = patch.columns[0]; c < patch.columns[1]; c++) {
                    const float *from = x + (r * layer->in.dims[1] + c) * channels;
                    for (size_t k = 0; k < channels; k++)
                        y[k] += from[k];
                }
            }
            for (size_t k = 0; k < channels; k++)
                y[k] *= share;
        }
    }
}

static void avg_backward(const struct trainer_layer *layer, const struct trainer_pass *pass,
                         const float *params, const float *x, const float *y, float *dy, float *dx,
                         float *grads)
{
    const size_t channels = layer->in.dims[2], in_floats = trainer_shape_elements(&layer->in);

    (void)params;
    (void)x;
    (void)y;
    (void)grads;
    if (!dx)
        return;
    memset(dx, 0, pass->batch * in_floats * sizeof *dx);
    for (size_t n = 0; n < pass->batch; n++, dx += in_floats) {
        for (size_t place = 0; place < layer->out.dims[0] * layer->out.dims[1]; place++, dy += channels) {
            const struct patch patch =
                patch_at(layer, place / layer->out.dims[1], place % layer->out.dims[1]);
            const float share = 1.0f / (float)patch_places(&patch);
            for (size_t r = patch.rows[0]; r < patch.rows[1]; r++) {
                for (size_t c = patch.columns[0]; c < patch.columns[1]; c++) {
                    float *to = dx + (r * layer->in.dims[1] + c) * channels;
                    for (size_t k = 0; k < channels; k++)
                        to[k] += share * dy[k];
                }
            }
        }
    }
}

static int describe(const struct trainer_layer *layer, struct mst_buf *text)
{
    return trainer_window_describe(&layer->settings.window, text);
}

const struct trainer_layer_ops trainer_layer_max_pool = {
    .type = "max_pool",
    .keys = keys,
    .configure = configure,
    .describe = describe,
    .forward = max_forward,
    .backward = max_backward,
};

const struct trainer_layer_ops trainer_layer_avg_pool = {
    .type = "avg_pool",
    .keys = keys,
    .configure = configure,
    .describe = describe,
    .forward = avg_forward,
    .backward = avg_backward,
};
