/* SPDX-License-Identifier: Apache-2.0 */
/* Batch normalisation, for each channel (last dim) over all samples and places of a step (Ioffe and Szegedy,
 * ICML 2015): with mean m and variance v (divided by the count n) of the channel,
 *     h = (x - m) / sqrt(v + epsilon);  y = gamma h + beta
 *     dgamma = sum dy h;  dbeta = sum dy;  dx = gamma / sqrt(v + epsilon) (dy - (dbeta + h dgamma) / n)
 * "weight" is gamma, "bias" beta. running_mean and running_var follow m and v n / (n - 1), by `rate` of the
 * difference a step, and stand for m and v outside of training, where backward takes them for constants.
 *
 * A step's samples lie in several shards, of equal size: each gives mean and sum of squared deviations, and
 * these are put together in the order of shards (Chan, Golub, LeVeque, Updating formulae, 1979), as are
 * dgamma and dbeta. So the step is the same whoever has which shard. */
#include "activation.h"
#include "layer.h"
#include "muster/json.h"

#include <math.h>
#include <string.h>

static const char *const keys[] = {"rate", "epsilon", "activation", NULL};

enum { WEIGHT, BIAS, RUNNING_MEAN, RUNNING_VAR };

static int read_number(const cJSON *json, const char *key, double max, const char *where, double *value,
                       struct mst_error *err)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(json, key);
    const double number = cJSON_GetNumberValue(item);

    if (!item)
        return 0;
    if (!(number > 0 && number <= max))
        return mst_error_set(err, -EBADMSG, "%s: key '%s' must be a number above 0, at most %g", where, key,
                             max);
    *value = number;
    return 0;
}

static int configure(struct trainer_layer *layer, const cJSON *json, const char *where, struct mst_error *err)
{
    const size_t channels = layer->in.dims[layer->in.count - 1];
    double rate = 0.1, epsilon = 1e-5;

    int r = read_number(json, "rate", 1, where, &rate, err);
    if (r >= 0)
        r = read_number(json, "epsilon", 1, where, &epsilon, err);
    if (r >= 0)
        r = trainer_layer_activation(layer, json, where, err);
    if (r < 0)
        return r;
    trainer_layer_add_tensor(layer, "weight", 1, &channels, 0, 0);
    trainer_layer_add_tensor(layer, "bias", 1, &channels, 0, 0);
    trainer_layer_add_tensor(layer, "running_mean", 1, &channels, 0, 0);
    trainer_layer_add_tensor(layer, "running_var", 1, &channels, 0, 0);
    layer->tensors[WEIGHT].initial = layer->tensors[RUNNING_VAR].initial = 1.0f;
    layer->tensors[RUNNING_MEAN].average = layer->tensors[RUNNING_VAR].average = (float)rate;
    layer->settings.batch_norm.epsilon = epsilon;
    layer->out = layer->in;
    return 0;
}

static size_t channels_of(const struct trainer_layer *layer)
{
    return layer->in.dims[layer->in.count - 1];
}

static size_t rows_of(const struct trainer_layer *layer, size_t batch)
{
    return batch * trainer_shape_elements(&layer->in) / channels_of(layer);
}

/* What forward leaves for backward, a float for each channel. */
struct kept {
    float *mean, *inverse; /* 1 / sqrt(v + epsilon) */
    float *variance;       /* v n / (n - 1) */
};

static struct kept kept_of(const struct trainer_layer *layer, const struct trainer_pass *pass)
{
    const size_t channels = channels_of(layer);

    return (struct kept){pass->kept, pass->kept + channels, pass->kept + 2 * channels};
}

static size_t kept_floats(const struct trainer_layer *layer, size_t batch)
{
    (void)batch;
    return 5 * channels_of(layer); /* the part of a shard that is alone, too */
}

/* Room for two doubles for each channel. */
static size_t scratch_floats(const struct trainer_layer *layer, size_t batch)
{
    (void)batch;
    return 4 * channels_of(layer);
}

static size_t part_floats(const struct trainer_layer *layer)
{
    return 2 * channels_of(layer);
}

/* ---- forward ------------------------------------------------------------------------------------------- */

/* part: mean, sum of squared deviations from it. */
static void forward_part(const struct trainer_layer *layer, const struct trainer_pass *pass, const float *x,
                         float *part)
{
    const size_t channels = channels_of(layer), rows = rows_of(layer, pass->batch);
    double *sums = (double *)(void *)pass->scratch;

    memset(sums, 0, channels * sizeof *sums);
    for (size_t r = 0; r < rows; r++) {
        for (size_t c = 0; c < channels; c++)
            sums[c] += (double)x[r * channels + c];
    }
    for (size_t c = 0; c < channels; c++)
        part[c] = (float)(sums[c] / (double)rows);
    memset(sums, 0, channels * sizeof *sums);
    for (size_t r = 0; r < rows; r++) {
        for (size_t c = 0; c < channels; c++) {
            const float deviation = x[r * channels + c] - part[c];
            sums[c] += (double)(deviation * deviation);
        }
    }
    for (size_t c = 0; c < channels; c++)
        part[channels + c] = (float)sums[c];
}

static void normalise(const struct trainer_layer *layer, const struct trainer_pass *pass, const float *params,
                      const float *x, float *y)
{
    const size_t channels = channels_of(layer), rows = rows_of(layer, pass->batch);
    const float *weight = params + layer->tensors[WEIGHT].offset,
                *bias = params + layer->tensors[BIAS].offset;
    const struct kept kept = kept_of(layer, pass);

    for (size_t r = 0; r < rows; r++) {
        for (size_t c = 0; c < channels; c++) {
            const size_t i = r * channels + c;
            y[i] = weight[c] * ((x[i] - kept.mean[c]) * kept.inverse[c]) + bias[c];
        }
    }
    trainer_activation_apply(layer->activation, rows * channels, y, y);
}

static void forward_whole(const struct trainer_layer *layer, const struct trainer_pass *pass,
                          const float *params, const float *parts, size_t count, const float *x, float *y)
{
    const size_t channels = channels_of(layer);
    const double rows = (double)rows_of(layer, pass->batch), all = rows * (double)count;
    const struct kept kept = kept_of(layer, pass);

    for (size_t c = 0; c < channels; c++) {
        double mean = 0, squares = 0;
        for (size_t p = 0; p < count; p++)
            mean += (double)parts[p * 2 * channels + c];
        mean /= (double)count;
        for (size_t p = 0; p < count; p++) {
            const double apart = (double)parts[p * 2 * channels + c] - mean;
            squares += (double)parts[(p * 2 + 1) * channels + c] + rows * apart * apart;
        }
        kept.mean[c] = (float)mean;
        kept.inverse[c] = (float)(1 / sqrt(squares / all + layer->settings.batch_norm.epsilon));
        kept.variance[c] = (float)(squares / (all > 1 ? all - 1 : 1));
    }
    normalise(layer, pass, params, x, y);
}

static void forward(const struct trainer_layer *layer, const struct trainer_pass *pass, const float *params,
                    const float *x, float *y)
{
    const size_t channels = channels_of(layer);
    const float *mean = params + layer->tensors[RUNNING_MEAN].offset;
    const float *variance = params + layer->tensors[RUNNING_VAR].offset;
    const struct kept kept = kept_of(layer, pass);

    if (pass->training) {
        float *part = pass->kept + 3 * channels;
        forward_part(layer, pass, x, part);
        forward_whole(layer, pass, params, part, 1, x, y);
        return;
    }
    for (size_t c = 0; c < channels; c++) {
        kept.mean[c] = mean[c];
        kept.variance[c] = variance[c];
        kept.inverse[c] = (float)(1 / sqrt((double)variance[c] + layer->settings.batch_norm.epsilon));
    }
    normalise(layer, pass, params, x, y);
}

/* ---- backward ------------------------------------------------------------------------------------------ */

static void set_or_add(const struct trainer_pass *pass, float value, float *place)
{
    *place = pass->accumulate ? *place + value : value;
}

/* part: dbeta, dgamma. */
static void backward_part(const struct trainer_layer *layer, const struct trainer_pass *pass, const float *x,
                          const float *y, float *dy, float *part, float *grads)
{
    const size_t channels = channels_of(layer), rows = rows_of(layer, pass->batch);
    const struct kept kept = kept_of(layer, pass);
    double *sums = (double *)(void *)pass->scratch;
    double *products = sums + channels;

    trainer_activation_gradient(layer->activation, rows * channels, y, dy);
    memset(sums, 0, 2 * channels * sizeof *sums);
    for (size_t r = 0; r < rows; r++) {
        for (size_t c = 0; c < channels; c++) {
            const size_t i = r * channels + c;
            sums[c] += (double)dy[i];
            products[c] += (double)(dy[i] * ((x[i] - kept.mean[c]) * kept.inverse[c]));
        }
    }
    for (size_t c = 0; c < channels; c++) {
        part[c] = (float)sums[c];
        part[channels + c] = (float)products[c];
        set_or_add(pass, part[c], grads + layer->tensors[BIAS].offset + c);
        set_or_add(pass, part[channels + c], grads + layer->tensors[WEIGHT].offset + c);
        set_or_add(pass, pass->share * kept.mean[c], grads + layer->tensors[RUNNING_MEAN].offset + c);
        set_or_add(pass, pass->share * kept.variance[c], grads + layer->tensors[RUNNING_VAR].offset + c);
    }
    for (size_t t = layer->tensor_count; t-- > 0;)
        trainer_pass_ready(pass, layer->tensors[t].offset, channels);
}

/* `count` 0: mean and variance are constants. */
static void backward_whole(const struct trainer_layer *layer, const struct trainer_pass *pass,
                           const float *params, const float *parts, size_t count, const float *x,
                           const float *dy, float *dx)
{
    const size_t channels = channels_of(layer), rows = rows_of(layer, pass->batch);
    const float *weight = params + layer->tensors[WEIGHT].offset;
    const struct kept kept = kept_of(layer, pass);
    float *bias_mean = pass->scratch, *weight_mean = bias_mean + channels, *factor = weight_mean + channels;

    for (size_t c = 0; c < channels; c++) {
        double sum = 0, product = 0;
        for (size_t p = 0; p < count; p++) {
            sum += (double)parts[p * 2 * channels + c];
            product += (double)parts[(p * 2 + 1) * channels + c];
        }
        const double all = count > 0 ? (double)rows * (double)count : 1;
        factor[c] = weight[c] * kept.inverse[c];
        bias_mean[c] = (float)(sum / all);
        weight_mean[c] = (float)(product / all);
    }
    for (size_t r = 0; r < rows; r++) {
        for (size_t c = 0; c < channels; c++) {
            const size_t i = r * channels + c;
            const float h = (x[i] - kept.mean[c]) * kept.inverse[c];
            dx[i] = factor[c] * (dy[i] - bias_mean[c] - h * weight_mean[c]);
        }
    }
}

static void backward(const struct trainer_layer *layer, const struct trainer_pass *pass, const float *params,
                     const float *x, const float *y, float *dy, float *dx, float *grads)
{
    const size_t channels = channels_of(layer);
    float *part = pass->kept + 3 * channels;

    backward_part(layer, pass, x, y, dy, part, grads);
    if (dx)
        backward_whole(layer, pass, params, part, pass->training ? 1 : 0, x, dy, dx);
}

static int describe(const struct trainer_layer *layer, struct mst_buf *text)
{
    return mst_buf_printf(text, " rate %.9g epsilon %.17g", (double)layer->tensors[RUNNING_MEAN].average,
                          layer->settings.batch_norm.epsilon);
}

static const struct trainer_mixing mixing = {
    .part_floats = part_floats,
    .forward_part = forward_part,
    .forward_whole = forward_whole,
    .backward_part = backward_part,
    .backward_whole = backward_whole,
};

const struct trainer_layer_ops trainer_layer_batch_norm = {
    .type = "batch_norm",
    .keys = keys,
    .configure = configure,
    .describe = describe,
    .scratch_floats = scratch_floats,
    .kept_floats = kept_floats,
    .mixing = &mixing,
    .forward = forward,
    .backward = backward,
};
