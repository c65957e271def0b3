/* SPDX-License-Identifier: Apache-2.0 */
#include "network.h"

#include "arena.h"

#include <assert.h>
#include <stdlib.h>

/* Where everything lies, in floats from the arena's start. */
struct plan {
    size_t used;
    size_t gradient_floats[2];
    size_t scratch_floats;
};

static size_t larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

static size_t take(struct plan *plan, size_t floats)
{
    const size_t offset = plan->used;

    plan->used += trainer_floats_round(floats);
    return offset;
}

size_t trainer_network_first_trained(const struct trainer_model *model)
{
    size_t i = 0;

    while (model->layers[i].tensor_count == 0)
        i++;
    return i;
}

/* Backward goes from the last layer to the first; dx of one layer is dy of the one before, and they take
 * turns in two buffers. */
static void plan_gradients(const struct trainer_network *network, struct plan *plan)
{
    const struct trainer_model *model = network->model;
    const size_t first = trainer_network_first_trained(model);
    size_t turn = 0;

    for (size_t i = model->layer_count; i-- > first;) {
        const struct trainer_layer *layer = &model->layers[i];
        const size_t floats = network->max_batch * trainer_shape_elements(&layer->out);
        plan->gradient_floats[turn] = larger(plan->gradient_floats[turn], floats);
        if (!layer->ops->aliases)
            turn = 1 - turn;
    }
}

static void plan_scratch(const struct trainer_network *network, struct plan *plan)
{
    for (size_t i = 0; i < network->model->layer_count; i++) {
        const struct trainer_layer *layer = &network->model->layers[i];
        if (layer->ops->scratch_floats)
            plan->scratch_floats =
                larger(plan->scratch_floats, layer->ops->scratch_floats(layer, network->max_batch));
    }
}

static size_t output_floats(const struct trainer_network *network, size_t i)
{
    return network->max_batch * trainer_shape_elements(&network->model->layers[i].out);
}

static size_t kept_floats(const struct trainer_network *network, size_t i)
{
    const struct trainer_layer *layer = &network->model->layers[i];

    return layer->ops->kept_floats ? layer->ops->kept_floats(layer, network->max_batch) : 0;
}

int trainer_network_init(struct trainer_network *network, const struct trainer_model *model, size_t max_batch,
                         struct mst_error *err)
{
    const size_t input_floats = max_batch * trainer_shape_elements(&model->input);
    struct plan plan = {0};

    *network = (struct trainer_network){.model = model, .max_batch = max_batch};
    plan_gradients(network, &plan);
    plan_scratch(network, &plan);
    size_t total = trainer_floats_round(input_floats) + trainer_floats_round(plan.gradient_floats[0]) +
                   trainer_floats_round(plan.gradient_floats[1]) + trainer_floats_round(plan.scratch_floats);
    for (size_t i = 0; i < model->layer_count; i++)
        total += model->layers[i].ops->aliases ? 0 : trainer_floats_round(output_floats(network, i));

    for (size_t i = 0; i < model->layer_count; i++)
        total += trainer_floats_round(kept_floats(network, i));

    network->outputs = calloc(model->layer_count, sizeof *network->outputs);
    network->kept = calloc(model->layer_count, sizeof *network->kept);
    network->arena = trainer_floats_blank(total);
    network->arena_floats = total;
    if (!network->outputs || !network->kept || !network->arena) {
        trainer_network_release(network);
        return mst_error_set(err, -ENOMEM, "no memory for %zu floats: model '%s' with batches of %zu", total,
                             model->name, max_batch);
    }
    network->input = network->arena + take(&plan, input_floats);
    for (size_t i = 0; i < model->layer_count; i++) {
        float *x = i > 0 ? network->outputs[i - 1] : network->input;
        network->outputs[i] =
            model->layers[i].ops->aliases ? x : network->arena + take(&plan, output_floats(network, i));
    }
    for (size_t i = 0; i < model->layer_count; i++)
        network->kept[i] = network->arena + take(&plan, kept_floats(network, i));
    network->gradients[0] = network->arena + take(&plan, plan.gradient_floats[0]);
    network->gradients[1] = network->arena + take(&plan, plan.gradient_floats[1]);
    network->scratch = network->arena + take(&plan, plan.scratch_floats);
    assert(plan.used == total);
    return 0;
}

void trainer_network_release(struct trainer_network *network)
{
    free(network->arena);
    free(network->outputs);
    free(network->kept);
    *network = (struct trainer_network){0};
}

float *trainer_network_input(const struct trainer_network *network, size_t layer)
{
    return layer > 0 ? network->outputs[layer - 1] : network->input;
}

float *trainer_network_gradient(const struct trainer_network *network, size_t layer)
{
    size_t turn = 0;

    for (size_t i = layer + 1; i < network->model->layer_count; i++)
        turn ^= !network->model->layers[i].ops->aliases;
    return network->gradients[turn];
}

void trainer_network_place_input(struct trainer_network *network, size_t layer, float *memory)
{
    /* Layers that only reshape have no memory of their own: what is moved is the output before them. */
    for (; layer > 0; layer--) {
        network->outputs[layer - 1] = memory;
        if (!network->model->layers[layer - 1].ops->aliases)
            return;
    }
    network->input = memory;
}

void trainer_network_forward_layers(struct trainer_network *network, const float *params,
                                    const struct trainer_pass *pass, size_t first, size_t end)
{
    assert(pass->batch <= network->max_batch && end <= network->model->layer_count);
    struct trainer_pass own = *pass;

    own.scratch = network->scratch;
    for (size_t i = first; i < end; i++) {
        const struct trainer_layer *layer = &network->model->layers[i];
        own.kept = network->kept[i];
        if (!layer->ops->aliases)
            layer->ops->forward(layer, &own, params, trainer_network_input(network, i), network->outputs[i]);
    }
}

const float *trainer_network_forward(struct trainer_network *network, const float *params, size_t batch)
{
    const size_t layers = network->model->layer_count;
    const struct trainer_pass pass = {.batch = batch};

    trainer_network_forward_layers(network, params, &pass, 0, layers);
    return network->outputs[layers - 1];
}

void trainer_network_backward_layers(struct trainer_network *network, const float *params,
                                     const struct trainer_pass *pass, size_t first, size_t end, float *grads)
{
    struct trainer_pass own = *pass;
    const size_t lowest = trainer_network_first_trained(network->model);

    own.scratch = network->scratch;
    for (size_t i = end; i-- > (first > lowest ? first : lowest);) {
        const struct trainer_layer *layer = &network->model->layers[i];
        if (layer->ops->aliases)
            continue;
        own.kept = network->kept[i];
        float *dx = i > lowest ? trainer_network_gradient(network, i - 1) : NULL;
        layer->ops->backward(layer, &own, params, trainer_network_input(network, i), network->outputs[i],
                             trainer_network_gradient(network, i), dx, grads);
    }
}

void trainer_network_backward(struct trainer_network *network, const float *params,
                              const struct trainer_pass *pass, float *grads)
{
    trainer_network_backward_layers(network, params, pass, 0, network->model->layer_count, grads);
    if (!network->used)
        trainer_floats_gather(network->arena, network->arena_floats);
    network->used = true;
}
