/* SPDX-License-Identifier: Apache-2.0 */
/* Convolution of images (rows, columns, channels) without padding, stride 1; then relu where asked for.
 *     y[r][c][f] = b[f] + sum over i, j, k of x[r + i][c + j][k] * W[i][j][k][f]
 *
 * By im2col (Chellapilla, Puri, Simard, 2006): each output place becomes a row of the kernel_rows x
 * kernel_columns x channels values that it sees, and a matrix product does the rest. The rows are made in
 * tiles of whole output rows that stay in the second-level cache together with their results, so the full
 * matrix (9 times the image here) never exists. */
#include "blas.h"
#include "kernels.h"
#include "layer.h"
#include "muster/json.h"

#include <assert.h>
#include <string.h>

#define CONV2D_TILE_FLOATS 65536 /* of im2col rows and results: 256 KiB */

static const char *const keys[] = {"filters", "kernel", "activation", NULL};

/* The numbers that all loops go by. */
struct conv2d_plan {
    size_t in_columns, channels, in_floats;
    size_t out_rows, out_columns, filters, out_floats;
    size_t kernel_rows, kernel_columns, patch; /* patch: floats that one output place sees */
    size_t tile_rows;                          /* output rows a tile */
};

static struct conv2d_plan plan_of(const struct trainer_layer *layer)
{
    struct conv2d_plan plan = {
        .in_columns = layer->in.dims[1],
        .channels = layer->in.dims[2],
        .in_floats = trainer_shape_elements(&layer->in),
        .out_rows = layer->out.dims[0],
        .out_columns = layer->out.dims[1],
        .filters = layer->out.dims[2],
        .out_floats = trainer_shape_elements(&layer->out),
        .kernel_rows = layer->settings.conv2d.kernel_rows,
        .kernel_columns = layer->settings.conv2d.kernel_columns,
    };

    plan.patch = plan.kernel_rows * plan.kernel_columns * plan.channels;
    const size_t row_floats = plan.out_columns * (plan.patch + plan.filters);
    plan.tile_rows = CONV2D_TILE_FLOATS / row_floats;
    if (plan.tile_rows == 0)
        plan.tile_rows = 1;
    if (plan.tile_rows > plan.out_rows)
        plan.tile_rows = plan.out_rows;
    return plan;
}

static int read_kernel(struct trainer_layer *layer, const cJSON *json, const char *where,
                       struct mst_error *err)
{
    const cJSON *kernel = cJSON_GetObjectItemCaseSensitive(json, "kernel");
    size_t sizes[2];

    if (!cJSON_IsArray(kernel) || cJSON_GetArraySize(kernel) != 2)
        return mst_error_set(err, -EBADMSG, "%s: key 'kernel' must be [rows, columns]", where);
    for (int d = 0; d < 2; d++) {
        const double value =
            cJSON_GetNumberValue(cJSON_GetArrayItem(kernel, d)); /* NaN when it is no number */
        if (!(value >= 1 && value <= (double)layer->in.dims[d]) || value != (double)(size_t)value)
            return mst_error_set(err, -EBADMSG,
                                 "%s: kernel[%d] must be a whole number from 1 to the input's %zu", where, d,
                                 layer->in.dims[d]);
        sizes[d] = (size_t)value;
    }
    layer->settings.conv2d.kernel_rows = sizes[0];
    layer->settings.conv2d.kernel_columns = sizes[1];
    return 0;
}

static int configure(struct trainer_layer *layer, const cJSON *json, const char *where, struct mst_error *err)
{
    char text[TRAINER_SHAPE_TEXT_BYTES];
    size_t filters;

    if (layer->in.count != 3)
        return mst_error_set(err, -EBADMSG, "%s: takes rows x columns x channels, but its input is %s", where,
                             trainer_shape_text(&layer->in, text));
    int r = trainer_layer_size(json, "filters", 65536, where, &filters, err);
    if (r >= 0)
        r = read_kernel(layer, json, where, err);
    if (r >= 0)
        r = trainer_layer_activation(layer, json, where, err);
    if (r < 0)
        return r;
    const size_t rows = layer->settings.conv2d.kernel_rows, columns = layer->settings.conv2d.kernel_columns;
    const size_t channels = layer->in.dims[2];
    trainer_layer_add_tensor(layer, "weight", 4, (const size_t[]){rows, columns, channels, filters},
                             rows * columns * channels, rows * columns * filters);
    trainer_layer_add_tensor(layer, "bias", 1, (const size_t[]){filters}, 0, 0);
    layer->out = (struct trainer_shape){
        .count = 3, .dims = {layer->in.dims[0] - rows + 1, layer->in.dims[1] - columns + 1, filters}};
    return 0;
}

static size_t scratch_floats(const struct trainer_layer *layer, size_t batch)
{
    const struct conv2d_plan plan = plan_of(layer);

    (void)batch;
    return plan.tile_rows * plan.out_columns * plan.patch;
}

/* patches (rows x out_columns, patch) from one image, for output rows [first, first + rows). */
static void gather_patches(const struct conv2d_plan *plan, size_t first, size_t rows, const float *image,
                           float *patches)
{
    const size_t run = plan->kernel_columns * plan->channels; /* neighbours in memory */

    for (size_t r = first; r < first + rows; r++) {
        for (size_t c = 0; c < plan->out_columns; c++) {
            const float *corner = image + (r * plan->in_columns + c) * plan->channels;
            for (size_t i = 0; i < plan->kernel_rows; i++, patches += run) {
                const float *from = corner + i * plan->in_columns * plan->channels;
                for (size_t j = 0; j < run; j++)
                    patches[j] = from[j];
            }
        }
    }
}

/* The reverse: every patch is added to the places that it was taken from. */
static void scatter_patches(const struct conv2d_plan *plan, size_t first, size_t rows, const float *patches,
                            float *image)
{
    const size_t run = plan->kernel_columns * plan->channels;

    for (size_t r = first; r < first + rows; r++) {
        for (size_t c = 0; c < plan->out_columns; c++) {
            float *corner = image + (r * plan->in_columns + c) * plan->channels;
            for (size_t i = 0; i < plan->kernel_rows; i++, patches += run) {
                float *to = corner + i * plan->in_columns * plan->channels;
                for (size_t j = 0; j < run; j++)
                    to[j] += patches[j];
            }
        }
    }
}

static void forward(const struct trainer_layer *layer, const struct trainer_pass *pass, const float *params,
                    const float *x, float *y)
{
    const struct conv2d_plan plan = plan_of(layer);
    const float *weight = params + layer->tensors[0].offset, *bias = params + layer->tensors[1].offset;

    for (size_t n = 0; n < pass->batch; n++, x += plan.in_floats) {
        for (size_t first = 0; first < plan.out_rows; first += plan.tile_rows) {
            const size_t left = plan.out_rows - first;
            const size_t rows = left < plan.tile_rows ? left : plan.tile_rows;
            const size_t places = rows * plan.out_columns;
            gather_patches(&plan, first, rows, x, pass->scratch);
            blas_multiply(places, plan.filters, plan.patch, pass->scratch, weight, 0.0f, y);
            if (layer->relu)
                kernel_bias_relu(places, plan.filters, bias, y);
            else
                kernel_bias(places, plan.filters, bias, y);
            y += places * plan.filters;
        }
    }
}

static void backward(const struct trainer_layer *layer, const struct trainer_pass *pass, const float *params,
                     const float *x, const float *y, float *dy, float *dx, float *grads)
{
    const struct conv2d_plan plan = plan_of(layer);
    const struct trainer_tensor *weight = &layer->tensors[0], *bias = &layer->tensors[1];
    float *weight_gradient = grads + weight->offset, *bias_gradient = grads + bias->offset;

    if (!pass->accumulate) {
        memset(weight_gradient, 0, plan.patch * plan.filters * sizeof *weight_gradient);
        memset(bias_gradient, 0, plan.filters * sizeof *bias_gradient);
    }
    if (dx)
        memset(dx, 0, pass->batch * plan.in_floats * sizeof *dx);
    for (size_t n = 0; n < pass->batch; n++, x += plan.in_floats) {
        for (size_t first = 0; first < plan.out_rows; first += plan.tile_rows) {
            const size_t left = plan.out_rows - first;
            const size_t rows = left < plan.tile_rows ? left : plan.tile_rows;
            const size_t places = rows * plan.out_columns, floats = places * plan.filters;
            if (layer->relu)
                kernel_relu_mask(floats, y, dy);
            kernel_add_columns(places, plan.filters, dy, bias_gradient);
            gather_patches(&plan, first, rows, x, pass->scratch);
            blas_multiply_at(plan.patch, plan.filters, places, pass->scratch, plan.patch, dy, 1.0f,
                             weight_gradient);
            if (dx) {
                blas_multiply_bt(places, plan.patch, plan.filters, dy, params + weight->offset, 0.0f,
                                 pass->scratch);
                scatter_patches(&plan, first, rows, pass->scratch, dx + n * plan.in_floats);
            }
            y += floats;
            dy += floats;
        }
    }
    trainer_pass_ready(pass, bias->offset, plan.filters);
    trainer_pass_ready(pass, weight->offset, plan.patch * plan.filters);
}

const struct trainer_layer_ops trainer_layer_conv2d = {
    .type = "conv2d",
    .keys = keys,
    .configure = configure,
    .scratch_floats = scratch_floats,
    .forward = forward,
    .backward = backward,
};
