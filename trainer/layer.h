/* SPDX-License-Identifier: Apache-2.0 */
/* A layer is a fixed description (struct trainer_layer, made by the model reader) and a row of callbacks that
 * do its arithmetic in memory that others planned. Layers hold no state, allocate nothing, and know nothing
 * of other layers, of the loss or of the network; one description serves any number of threads.
 *
 * To add a layer: a file with its `struct trainer_layer_ops`, its settings in the union below, and its name
 * in the table in layer.c. */
#ifndef TRAINER_LAYER_H
#define TRAINER_LAYER_H

#include "activation.h"
#include "keys.h"
#include "muster/buf.h"
#include "muster/trainer.h"
#include "rng.h"
#include "window.h"

#include <cjson/cJSON.h>

struct trainer_layer;

/* A parameter tensor: `offset` floats into the parameter arena, and the same into the gradient arena. */
struct trainer_tensor {
    const char *role; /* "weight", "bias" */
    struct trainer_shape shape;
    size_t offset;
    /* Glorot uniform: U(-a, a), a = sqrt(6 / (fan_in + fan_out)) (Glorot and Bengio, AISTATS 2010); fan_in 0:
     * zeros */
    size_t fan_in, fan_out;
    float initial; /* with fan_in 0: what all values start from */
    /* 0: trained. Else the tensor is a running mean of what batches show, which moves by this share of the
     * difference in each step: backward() puts a shard's value times pass->share in the gradient's place,
     * and the optimizer does not train it. */
    float average;
};
#define TRAINER_LAYER_MAX_TENSORS 4

/* One pass over a batch. Batches are the first, slowest dim of every x, y, dx, dy. */
struct trainer_pass {
    size_t batch;
    bool training;        /* with random numbers, and with the batch's own statistics */
    const uint64_t *keys; /* in training: one a sample, from which its random numbers come */
    float share;          /* 1 / shards of the step */
    bool accumulate; /* add to the gradients instead of setting them: a worker's second shard in a step */
    float *scratch;  /* as many floats as the layer's scratch_floats() asked for */
    float *kept;     /* the layer's kept_floats(): what forward writes there, backward finds */
    /* Called when gradients [offset, offset + count) of the arena will not change any more in this step, in
     * whatever order. NULL: nobody is interested. */
    void (*gradient_ready)(void *context, size_t offset, size_t count);
    /* The `index`-th range of the arena in which gradients are wanted first: the next that other workers wait
     * for. false: no more of them; then from the end. NULL: from the end. */
    bool (*preferred)(void *context, size_t index, size_t *ret_offset, size_t *ret_count);
    void *context;
};

/* For layers in which a sample's output depends on the step's other samples. In a step whose shards are
 * passed one by one, in one worker or in several, all shards come up to the layer, each gives a part
 * (part_floats() of them), and with the parts of all, `count` of them in the order of shards, each goes on.
 */
struct trainer_mixing {
    size_t (*part_floats)(const struct trainer_layer *layer);
    void (*forward_part)(const struct trainer_layer *layer, const struct trainer_pass *pass, const float *x,
                         float *part);
    void (*forward_whole)(const struct trainer_layer *layer, const struct trainer_pass *pass,
                          const float *params, const float *parts, size_t count, const float *x, float *y);
    /* What becomes of dy here is what backward_whole() takes. The gradients of parameters are the shard's. */
    void (*backward_part)(const struct trainer_layer *layer, const struct trainer_pass *pass, const float *x,
                          const float *y, float *dy, float *part, float *grads);
    void (*backward_whole)(const struct trainer_layer *layer, const struct trainer_pass *pass,
                           const float *params, const float *parts, size_t count, const float *x,
                           const float *dy, float *dx);
};

struct trainer_layer_ops {
    const char *type;
    const char *const *keys; /* of the JSON object, besides "type" and "name"; ends with NULL */
    /* Read the settings, check them against layer->in, fill layer->out and layer->tensors (shapes and fans).
     * `where` names file and layer for errors. */
    int (*configure)(struct trainer_layer *layer, const cJSON *json, const char *where,
                     struct mst_error *err);
    bool
        aliases; /* y is x and dx is dy: the layer only sees them in another shape; no forward, no backward */
    /* Settings that neither shapes nor activation show, for the model's digest; NULL: there are none. */
    int (*describe)(const struct trainer_layer *layer, struct mst_buf *text);
    bool (*fits)(const struct trainer_layer *layer, float value);              /* as input; NULL: any does */
    size_t (*scratch_floats)(const struct trainer_layer *layer, size_t batch); /* NULL: none */
    size_t (*kept_floats)(const struct trainer_layer *layer, size_t batch);    /* NULL: none */
    const struct trainer_mixing *mixing; /* NULL: each sample is for itself. forward() and backward() are for
                                          * a step of one shard. */
    /* x (batch x in), y (batch x out); params is the whole arena. */
    void (*forward)(const struct trainer_layer *layer, const struct trainer_pass *pass, const float *params,
                    const float *x, float *y);
    /* From dy, the gradient of the loss by y (may be overwritten), to dx (NULL: not wanted) and to the
     * layer's part of `grads` (the whole arena). */
    void (*backward)(const struct trainer_layer *layer, const struct trainer_pass *pass, const float *params,
                     const float *x, const float *y, float *dy, float *dx, float *grads);
};

#define TRAINER_LAYER_NAME_BYTES 64
struct trainer_layer {
    const struct trainer_layer_ops *ops;
    char name[TRAINER_LAYER_NAME_BYTES];
    struct trainer_shape in, out;
    struct trainer_tensor tensors[TRAINER_LAYER_MAX_TENSORS];
    size_t tensor_count;
    enum trainer_activation activation; /* behind the layer's own arithmetic */
    uint32_t number;                    /* in the model, from 0 */
    union {
        struct trainer_window window; /* conv2d, max_pool, avg_pool */
        struct {
            double rate;
        } dropout;
        struct {
            double epsilon;
        } batch_norm;
    } settings;
};

/* NULL when there is no such type. */
const struct trainer_layer_ops *trainer_layer_find(const char *type);
/* "'avg_pool', ... or 'tanh'": all there are. */
const char *trainer_layer_types(char text[static TRAINER_NAMES_TEXT_BYTES]);
extern const struct trainer_layer_ops trainer_layer_avg_pool, trainer_layer_batch_norm, trainer_layer_conv2d,
    trainer_layer_dense, trainer_layer_dropout, trainer_layer_embedding, trainer_layer_flatten,
    trainer_layer_max_pool, trainer_layer_relu, trainer_layer_sigmoid, trainer_layer_softmax,
    trainer_layer_tanh;

/* For configure(): a whole number in [1, max], and "activation" (its name; "linear" is the default). */
int trainer_layer_size(const cJSON *json, const char *key, size_t max, const char *where, size_t *ret_size,
                       struct mst_error *err);
int trainer_layer_activation(struct trainer_layer *layer, const cJSON *json, const char *where,
                             struct mst_error *err);
/* y[r][c] = activation(y[r][c] + bias[c]); rows x columns. */
void trainer_layer_bias_activation(const struct trainer_layer *layer, size_t rows, size_t columns,
                                   const float *bias, float *y);
/* Add a tensor; shape is given as `count` dims. */
void trainer_layer_add_tensor(struct trainer_layer *layer, const char *role, size_t count, const size_t *dims,
                              size_t fan_in, size_t fan_out);

/* For describe(). */
int trainer_window_describe(const struct trainer_window *window, struct mst_buf *text);

/* Initial values of all of a layer's tensors; `number` is that of its first tensor in the model. */
void trainer_layer_fill(const struct trainer_layer *layer, uint64_t seed, uint32_t number, float *params);

/* "28 x 28 x 1" */
#define TRAINER_SHAPE_TEXT_BYTES 96
const char *trainer_shape_text(const struct trainer_shape *shape, char text[static TRAINER_SHAPE_TEXT_BYTES]);

/* Tell pass->gradient_ready, if there is one. */
static inline void trainer_pass_ready(const struct trainer_pass *pass, size_t offset, size_t count)
{
    if (pass->gradient_ready)
        pass->gradient_ready(pass->context, offset, count);
}

#endif
