/* SPDX-License-Identifier: Apache-2.0 */
/* Convolution of images (rows, columns, channels); then an activation where asked for. With steps s, t and
 * padding p, q (window.h), and zeros outside of the image:
 *     y[r][c][f] = b[f] + sum over i, j, k of x[r s - p + i][c t - q + j][k] * W[i][j][k][f]
 *
 * By im2col (Chellapilla, Puri, Simard, 2006): each output place becomes a row of the kernel_rows x
 * kernel_columns x channels values that it sees, and a matrix product does the rest. The rows are made in
 * tiles of whole output rows that stay in the second-level cache together with their results, so the full
 * matrix (9 times the image here) never exists.
 *
 * The crew shares the images of a batch in groups. How many groups there are follows from layer and batch and
 * not from the number of threads, for each sums up a gradient of its own; they are added in the groups'
 * order. Where weights are so many that sums of them would cost more than they bring, there is one group, and
 * the crew shares its products. */
#include "arena.h"
#include "blas.h"
#include "crew.h"
#include "kernels.h"
#include "layer.h"
#include "muster/json.h"

#include <assert.h>
#include <string.h>

#define CONV2D_TILE_FLOATS 65536 /* of im2col rows and results: 256 KiB */
#define CONV2D_GROUPS      8
#define CONV2D_SUMS_FLOATS 262144 /* of all groups together */

static const char *const keys[] = {"filters", "kernel", "stride", "padding", "activation", NULL};

/* The numbers that all loops go by. */
struct conv2d_plan {
    size_t in_columns, channels, in_floats;
    size_t out_rows, out_columns, filters, out_floats;
    size_t kernel_rows, kernel_columns, patch; /* patch: floats that one output place sees */
    size_t row_step, column_step;              /* floats of the image from one output place to the next */
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
        .kernel_rows = layer->settings.window.size[0],
        .kernel_columns = layer->settings.window.size[1],
        .row_step = layer->settings.window.stride[0] * layer->in.dims[1] * layer->in.dims[2],
        .column_step = layer->settings.window.stride[1] * layer->in.dims[2],
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

static int configure(struct trainer_layer *layer, const cJSON *json, const char *where, struct mst_error *err)
{
    size_t filters, out[2];

    int r = trainer_window_read(json, "kernel", false, &layer->in, where, &layer->settings.window, out, err);
    if (r >= 0)
        r = trainer_layer_size(json, "filters", 65536, where, &filters, err);
    if (r >= 0)
        r = trainer_layer_activation(layer, json, where, err);
    if (r < 0)
        return r;
    const size_t rows = layer->settings.window.size[0], columns = layer->settings.window.size[1];
    const size_t channels = layer->in.dims[2];
    trainer_layer_add_tensor(layer, "weight", 4, (const size_t[]){rows, columns, channels, filters},
                             rows * columns * channels, rows * columns * filters);
    trainer_layer_add_tensor(layer, "bias", 1, (const size_t[]){filters}, 0, 0);
    layer->out = (struct trainer_shape){.count = 3, .dims = {out[0], out[1], filters}};
    return 0;
}

static size_t groups_of(const struct conv2d_plan *plan, size_t batch)
{
    const size_t most = CONV2D_SUMS_FLOATS / ((plan->patch + 1) * plan->filters);
    const size_t groups = most < CONV2D_GROUPS ? most : CONV2D_GROUPS;

    return groups < 2 || batch < 2 ? 1 : groups < batch ? groups : batch;
}

/* Of one group: patches, and the gradients of weight and bias. */
static size_t patches_floats(const struct conv2d_plan *plan)
{
    return trainer_floats_round(plan->tile_rows * plan->out_columns * plan->patch);
}

static size_t sums_floats(const struct conv2d_plan *plan)
{
    return trainer_floats_round((plan->patch + 1) * plan->filters);
}

static size_t scratch_floats(const struct trainer_layer *layer, size_t batch)
{
    const struct conv2d_plan plan = plan_of(layer);

    return groups_of(&plan, batch) * (patches_floats(&plan) + sums_floats(&plan));
}

/* patches (rows x out_columns, patch) from one image, for output rows [first, first + rows). */
static void gather_patches(const struct conv2d_plan *plan, size_t first, size_t rows, const float *image,
                           float *patches)
{
    const size_t run = plan->kernel_columns * plan->channels; /* neighbours in memory */

    for (size_t r = first; r < first + rows; r++) {
        for (size_t c = 0; c < plan->out_columns; c++) {
            const float *corner = image + r * plan->row_step + c * plan->column_step;
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
            float *corner = image + r * plan->row_step + c * plan->column_step;
            for (size_t i = 0; i < plan->kernel_rows; i++, patches += run) {
                float *to = corner + i * plan->in_columns * plan->channels;
                for (size_t j = 0; j < run; j++)
                    to[j] += patches[j];
            }
        }
    }
}

/* The same with padding: what a patch has outside of the image is zeros, and adds to nothing. */
static void gather_padded(const struct trainer_layer *layer, const struct conv2d_plan *plan, size_t first,
                          size_t rows, const float *image, float *patches)
{
    const struct trainer_window *window = &layer->settings.window;
    const size_t run = plan->kernel_columns * plan->channels;
    size_t i_first, i_end, j_first, j_end;

    memset(patches, 0, rows * plan->out_columns * plan->patch * sizeof *patches);
    for (size_t r = first; r < first + rows; r++) {
        const ptrdiff_t row = trainer_window_clip(window, 0, r, layer->in.dims[0], &i_first, &i_end);
        for (size_t c = 0; c < plan->out_columns; c++, patches += plan->patch) {
            const ptrdiff_t column = trainer_window_clip(window, 1, c, plan->in_columns, &j_first, &j_end);
            for (size_t i = i_first; i < i_end; i++) {
                const size_t from =
                    (size_t)(row + (ptrdiff_t)i) * plan->in_columns + (size_t)(column + (ptrdiff_t)j_first);
                memcpy(patches + i * run + j_first * plan->channels, image + from * plan->channels,
                       (j_end - j_first) * plan->channels * sizeof *patches);
            }
        }
    }
}

static void scatter_padded(const struct trainer_layer *layer, const struct conv2d_plan *plan, size_t first,
                           size_t rows, const float *patches, float *image)
{
    const struct trainer_window *window = &layer->settings.window;
    const size_t run = plan->kernel_columns * plan->channels;
    size_t i_first, i_end, j_first, j_end;

    for (size_t r = first; r < first + rows; r++) {
        const ptrdiff_t row = trainer_window_clip(window, 0, r, layer->in.dims[0], &i_first, &i_end);
        for (size_t c = 0; c < plan->out_columns; c++, patches += plan->patch) {
            const ptrdiff_t column = trainer_window_clip(window, 1, c, plan->in_columns, &j_first, &j_end);
            for (size_t i = i_first; i < i_end; i++) {
                const size_t to =
                    (size_t)(row + (ptrdiff_t)i) * plan->in_columns + (size_t)(column + (ptrdiff_t)j_first);
                kernel_add((j_end - j_first) * plan->channels, patches + i * run + j_first * plan->channels,
                           image + to * plan->channels);
            }
        }
    }
}

/* With one channel and columns side by side, what the places of an output row see at one place of the kernel
 * lies side by side, too: the matrix is made turned round, (patch, rows x out_columns), in long runs. */
static bool is_across(const struct conv2d_plan *plan)
{
    return plan->channels == 1 && plan->column_step == 1;
}

static void gather_across(const struct trainer_layer *layer, const struct conv2d_plan *plan, size_t first,
                          size_t rows, const float *image, float *patches)
{
    const struct trainer_window *window = &layer->settings.window;
    const size_t in_rows = layer->in.dims[0], in_columns = plan->in_columns, columns = plan->out_columns;

    for (size_t i = 0; i < plan->kernel_rows; i++) {
        for (size_t j = 0; j < plan->kernel_columns; j++) {
            /* Output columns [begin, end) see the image. */
            const size_t left = window->before[1] > j ? window->before[1] - j : 0;
            const size_t begin = left < columns ? left : columns;
            const size_t all = in_columns + window->before[1], right = all > j ? all - j : 0;
            const size_t end = right < begin ? begin : right < columns ? right : columns;
            for (size_t r = first; r < first + rows; r++, patches += columns) {
                const size_t row = r * window->stride[0] + i - window->before[0]; /* huge when above */
                const size_t seen = row < in_rows ? end - begin : 0;
                if (seen < columns)
                    memset(patches, 0, columns * sizeof *patches);
                if (seen > 0)
                    memcpy(patches + begin, image + row * in_columns + begin + j - window->before[1],
                           seen * sizeof *patches);
            }
        }
    }
}

static bool is_padded(const struct trainer_layer *layer)
{
    const struct trainer_window *window = &layer->settings.window;

    return window->before[0] + window->before[1] + window->after[0] + window->after[1] > 0;
}

static void gather(const struct trainer_layer *layer, const struct conv2d_plan *plan, size_t first,
                   size_t rows, const float *image, float *patches)
{
    if (is_across(plan))
        gather_across(layer, plan, first, rows, image, patches);
    else if (is_padded(layer))
        gather_padded(layer, plan, first, rows, image, patches);
    else
        gather_patches(plan, first, rows, image, patches);
}

static void scatter(const struct trainer_layer *layer, const struct conv2d_plan *plan, size_t first,
                    size_t rows, const float *patches, float *image)
{
    if (is_padded(layer))
        scatter_padded(layer, plan, first, rows, patches, image);
    else
        scatter_patches(plan, first, rows, patches, image);
}

static int describe(const struct trainer_layer *layer, struct mst_buf *text)
{
    return trainer_window_describe(&layer->settings.window, text);
}

/* What the groups of a pass share. */
struct conv2d_work {
    const struct trainer_layer *layer;
    const struct trainer_pass *pass;
    struct conv2d_plan plan;
    size_t groups;
    const float *params, *x;
    float *y;
    const float *outputs; /* backward: what forward gave */
    float *dy, *dx;
    float *sums; /* by group, sums_floats(): gradients of weight and bias */
};

static float *patches_of(const struct conv2d_work *work, size_t group)
{
    return work->pass->scratch + group * patches_floats(&work->plan);
}

/* A group's images go from its first to that of the next group. */
static size_t first_image(const struct conv2d_work *work, size_t group)
{
    return work->pass->batch * group / work->groups;
}

static void forward_group(void *context, uint32_t group)
{
    const struct conv2d_work *work = context;
    const struct conv2d_plan *plan = &work->plan;
    const struct trainer_layer *layer = work->layer;
    const float *weight = work->params + layer->tensors[0].offset;
    const float *bias = work->params + layer->tensors[1].offset;
    float *patches = patches_of(work, group);

    for (size_t n = first_image(work, group); n < first_image(work, group + 1); n++) {
        const float *x = work->x + n * plan->in_floats;
        float *y = work->y + n * plan->out_floats;
        for (size_t first = 0; first < plan->out_rows; first += plan->tile_rows) {
            const size_t left = plan->out_rows - first;
            const size_t rows = left < plan->tile_rows ? left : plan->tile_rows;
            const size_t places = rows * plan->out_columns;
            gather(layer, plan, first, rows, x, patches);
            if (is_across(plan))
                blas_multiply_at(places, plan->filters, plan->patch, patches, places, weight, 0.0f, y);
            else
                blas_multiply(places, plan->filters, plan->patch, patches, weight, 0.0f, y);
            trainer_layer_bias_activation(layer, places, plan->filters, bias, y);
            y += places * plan->filters;
        }
    }
}

static void forward(const struct trainer_layer *layer, const struct trainer_pass *pass, const float *params,
                    const float *x, float *y)
{
    const struct conv2d_plan plan = plan_of(layer);
    struct conv2d_work work = {.layer = layer,
                               .pass = pass,
                               .plan = plan,
                               .groups = groups_of(&plan, pass->batch),
                               .params = params,
                               .x = x,
                               .y = y};

    crew_share((uint32_t)work.groups, forward_group, &work);
}

static void backward_group(void *context, uint32_t group)
{
    const struct conv2d_work *work = context;
    const struct conv2d_plan *plan = &work->plan;
    const struct trainer_layer *layer = work->layer;
    const size_t begin = first_image(work, group), end = first_image(work, group + 1);
    float *patches = patches_of(work, group);
    float *weight_gradient = work->sums + group * sums_floats(plan);
    float *bias_gradient = weight_gradient + plan->patch * plan->filters;

    memset(weight_gradient, 0, (plan->patch + 1) * plan->filters * sizeof *weight_gradient);
    if (work->dx)
        memset(work->dx + begin * plan->in_floats, 0, (end - begin) * plan->in_floats * sizeof *work->dx);
    for (size_t n = begin; n < end; n++) {
        const float *x = work->x + n * plan->in_floats, *y = work->outputs + n * plan->out_floats;
        float *dy = work->dy + n * plan->out_floats;
        for (size_t first = 0; first < plan->out_rows; first += plan->tile_rows) {
            const size_t left = plan->out_rows - first;
            const size_t rows = left < plan->tile_rows ? left : plan->tile_rows;
            const size_t places = rows * plan->out_columns, floats = places * plan->filters;
            trainer_activation_gradient(layer->activation, floats, y, dy);
            kernel_add_columns(places, plan->filters, dy, bias_gradient);
            gather(layer, plan, first, rows, x, patches);
            if (is_across(plan))
                blas_multiply(plan->patch, plan->filters, places, patches, dy, 1.0f, weight_gradient);
            else
                blas_multiply_at(plan->patch, plan->filters, places, patches, plan->patch, dy, 1.0f,
                                 weight_gradient);
            if (work->dx) {
                blas_multiply_bt(places, plan->patch, plan->filters, dy,
                                 work->params + layer->tensors[0].offset, 0.0f, patches);
                scatter(layer, plan, first, rows, patches, work->dx + n * plan->in_floats);
            }
            y += floats;
            dy += floats;
        }
    }
}

static void add_sums(const struct conv2d_work *work, size_t offset, size_t count, float *gradient)
{
    if (!work->pass->accumulate)
        memset(gradient, 0, count * sizeof *gradient);
    for (size_t group = 0; group < work->groups; group++)
        kernel_add(count, work->sums + group * sums_floats(&work->plan) + offset, gradient);
}

static void backward(const struct trainer_layer *layer, const struct trainer_pass *pass, const float *params,
                     const float *x, const float *y, float *dy, float *dx, float *grads)
{
    const struct conv2d_plan plan = plan_of(layer);
    const struct trainer_tensor *weight = &layer->tensors[0], *bias = &layer->tensors[1];
    const size_t weights = plan.patch * plan.filters, groups = groups_of(&plan, pass->batch);
    struct conv2d_work work = {.layer = layer,
                               .pass = pass,
                               .plan = plan,
                               .groups = groups,
                               .params = params,
                               .x = x,
                               .outputs = y,
                               .dy = dy,
                               .dx = dx,
                               .sums = pass->scratch + groups * patches_floats(&plan)};

    crew_share((uint32_t)groups, backward_group, &work);
    add_sums(&work, 0, weights, grads + weight->offset);
    add_sums(&work, weights, plan.filters, grads + bias->offset);
    trainer_pass_ready(pass, bias->offset, plan.filters);
    trainer_pass_ready(pass, weight->offset, weights);
}

const struct trainer_layer_ops trainer_layer_conv2d = {
    .type = "conv2d",
    .keys = keys,
    .configure = configure,
    .describe = describe,
    .scratch_floats = scratch_floats,
    .forward = forward,
    .backward = backward,
};
