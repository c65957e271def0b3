/* SPDX-License-Identifier: Apache-2.0 */
#include "optimizer.h"

#include "clones.h"
#include "kernels.h"

#include <math.h>
#include <string.h>

size_t trainer_optimizer_states(const struct trainer_config *config)
{
    switch (config->rule.optimizer) {
    case TRAINER_ADAM:
    case TRAINER_ADAMW:
        return 2;
    case TRAINER_SGD:
    case TRAINER_NESTEROV:
        break;
    }
    return config->momentum > 0 ? 1 : 0;
}

const char *trainer_optimizer_state_name(const struct trainer_config *config, size_t state)
{
    static const char *const adam[] = {"adam_m", "adam_v"};

    return trainer_optimizer_states(config) == 2 ? adam[state] : "momentum";
}

static double or_default(double value, double fallback)
{
    return value > 0 ? value : fallback;
}

static double beta1(const struct trainer_config *config)
{
    return or_default(config->rule.beta1, TRAINER_BETA1);
}

static double beta2(const struct trainer_config *config)
{
    return or_default(config->rule.beta2, TRAINER_BETA2);
}

struct trainer_update trainer_optimizer_begin(const struct trainer_config *config, uint64_t step, float clip)
{
    const double lr = trainer_schedule_lr(config, step), t = (double)step + 1;
    struct trainer_update update = {.config = config, .step = step, .lr = (float)lr, .clip = clip};

    if (trainer_optimizer_states(config) == 2) {
        update.bias1 = (float)(lr / (1 - pow(beta1(config), t)));
        update.bias2 = (float)(1 / sqrt(1 - pow(beta2(config), t)));
    }
    return update;
}

/* ---- the loops ----------------------------------------------------------------------------------------- */

TRAINER_CLONES static void sgd(size_t count, float lr, float clip, float decay, const float *restrict w,
                               const float *restrict g, float *restrict next)
{
    for (size_t i = 0; i < count; i++)
        next[i] = w[i] - lr * (clip * g[i] + decay * w[i]);
}

TRAINER_CLONES static void momentum_sgd(size_t count, float lr, float momentum, float clip, float decay,
                                        const float *restrict w, const float *restrict g,
                                        const float *restrict v, float *restrict v_next, float *restrict next)
{
    for (size_t i = 0; i < count; i++) {
        const float velocity = momentum * v[i] + (clip * g[i] + decay * w[i]);
        v_next[i] = velocity;
        next[i] = w[i] - lr * velocity;
    }
}

TRAINER_CLONES static void nesterov(size_t count, float lr, float momentum, float clip, float decay,
                                    const float *restrict w, const float *restrict g, const float *restrict v,
                                    float *restrict v_next, float *restrict next)
{
    for (size_t i = 0; i < count; i++) {
        const float gradient = clip * g[i] + decay * w[i];
        const float velocity = momentum * v[i] + gradient;
        v_next[i] = velocity;
        next[i] = w[i] - lr * (gradient + momentum * velocity);
    }
}

struct adam {
    float b1, b2, rest1, rest2; /* rest: 1 - b */
    float bias1, bias2, epsilon;
    float clip, decay; /* decay: of the gradient */
    float keep;        /* adamw: 1 - lr * weight_decay, else 1 */
};

TRAINER_CLONES static void adam(size_t count, const struct adam *a, const float *restrict w,
                                const float *restrict g, const float *restrict m, const float *restrict v,
                                float *restrict m_next, float *restrict v_next, float *restrict next)
{
    const struct adam c = *a;

    for (size_t i = 0; i < count; i++) {
        const float gradient = c.clip * g[i] + c.decay * w[i];
        const float first = c.b1 * m[i] + c.rest1 * gradient;
        const float second = c.b2 * v[i] + c.rest2 * (gradient * gradient);
        m_next[i] = first;
        v_next[i] = second;
        next[i] = c.keep * w[i] - c.bias1 * first / (sqrtf(second) * c.bias2 + c.epsilon);
    }
}

/* ---- ranges -------------------------------------------------------------------------------------------- */

static void train_adam(const struct trainer_update *update, const struct trainer_arenas *arenas, size_t first,
                       size_t count)
{
    const struct trainer_config *config = update->config;
    const bool decoupled = config->rule.optimizer == TRAINER_ADAMW;
    const struct adam settings = {
        .b1 = (float)beta1(config),
        .b2 = (float)beta2(config),
        .rest1 = (float)(1 - beta1(config)),
        .rest2 = (float)(1 - beta2(config)),
        .bias1 = update->bias1,
        .bias2 = update->bias2,
        .epsilon = (float)or_default(config->rule.epsilon, TRAINER_EPSILON),
        .clip = update->clip,
        .decay = decoupled ? 0.0f : (float)config->rule.weight_decay,
        .keep = decoupled ? (float)(1 - (double)update->lr * config->rule.weight_decay) : 1.0f,
    };

    adam(count, &settings, arenas->parameters + first, arenas->gradient + first, arenas->states[0] + first,
         arenas->states[1] + first, arenas->next_states[0] + first, arenas->next_states[1] + first,
         arenas->next_parameters + first);
}

static void train(const struct trainer_update *update, const struct trainer_arenas *arenas, size_t first,
                  size_t count)
{
    const struct trainer_config *config = update->config;
    const float momentum = (float)config->momentum, decay = (float)config->rule.weight_decay;
    const float lr = update->lr, clip = update->clip;
    const float *w = arenas->parameters + first, *g = arenas->gradient + first;
    float *next = arenas->next_parameters + first;
    const bool plain = clip == 1.0f && decay == 0.0f; /* saves two multiplications */

    const size_t states = trainer_optimizer_states(config);
    if (states == 2) {
        train_adam(update, arenas, first, count);
    } else if (states == 0) {
        if (plain)
            kernel_sgd(count, lr, w, g, next);
        else
            sgd(count, lr, clip, decay, w, g, next);
    } else {
        const float *v = arenas->states[0] + first;
        float *v_next = arenas->next_states[0] + first;
        if (config->rule.optimizer == TRAINER_NESTEROV)
            nesterov(count, lr, momentum, clip, decay, w, g, v, v_next, next);
        else if (plain)
            kernel_sgd_momentum(count, lr, momentum, w, g, v, v_next, next);
        else
            momentum_sgd(count, lr, momentum, clip, decay, w, g, v, v_next, next);
    }
}

static void average(const struct trainer_update *update, const struct trainer_arenas *arenas, float rate,
                    size_t first, size_t count)
{
    const float *w = arenas->parameters + first, *g = arenas->gradient + first;

    for (size_t i = 0; i < count; i++)
        arenas->next_parameters[first + i] = w[i] + rate * (g[i] - w[i]);
    for (size_t s = 0; s < trainer_optimizer_states(update->config); s++)
        memset(arenas->next_states[s] + first, 0, count * sizeof(float));
}

/* The next tensor that is an average and ends behind `place`, or NULL. */
static const struct trainer_tensor *next_average(const struct trainer_model *model, size_t place)
{
    if (!model->has_averages)
        return NULL;
    for (size_t i = 0; i < model->layer_count; i++) {
        for (size_t t = 0; t < model->layers[i].tensor_count; t++) {
            const struct trainer_tensor *tensor = &model->layers[i].tensors[t];
            if (tensor->average > 0 && tensor->offset + trainer_shape_elements(&tensor->shape) > place)
                return tensor;
        }
    }
    return NULL;
}

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

void trainer_optimizer_update(const struct trainer_update *update, const struct trainer_arenas *arenas,
                              size_t offset, size_t count)
{
    const struct trainer_model *model = update->config->model;
    const size_t end = offset + count;

    while (offset < end) {
        const struct trainer_tensor *tensor = next_average(model, offset);
        const size_t trained = tensor && tensor->offset < end ? tensor->offset : end;
        if (offset < trained) {
            train(update, arenas, offset, trained - offset);
            offset = trained;
        }
        if (offset < end) {
            const size_t stop = smaller(end, tensor->offset + trainer_shape_elements(&tensor->shape));
            average(update, arenas, tensor->average, offset, stop - offset);
            offset = stop;
        }
    }
}

float trainer_optimizer_clip(const struct trainer_config *config, const float *gradient)
{
    const struct trainer_model *model = config->model;
    double sum = 0;

    if (!(config->rule.clip_norm > 0))
        return 1.0f;
    for (size_t place = 0; place < model->parameters;) {
        const struct trainer_tensor *tensor = next_average(model, place);
        const size_t trained = tensor ? tensor->offset : model->parameters;
        for (; place < trained; place++)
            sum += (double)gradient[place] * (double)gradient[place];
        if (tensor)
            place = tensor->offset + trainer_shape_elements(&tensor->shape);
    }
    const double norm = sqrt(sum);
    /* Compared this way round a NaN comes out as one. */
    return norm <= config->rule.clip_norm ? 1.0f : (float)(config->rule.clip_norm / norm);
}

/* ---- settings ------------------------------------------------------------------------------------------ */

static double steps_of(const struct trainer_config *config, double epochs)
{
    return round(epochs * (double)config->steps_per_epoch);
}

double trainer_schedule_lr(const struct trainer_config *config, uint64_t done)
{
    const struct trainer_rule *rule = &config->rule;
    const double warm = steps_of(config, rule->warmup_epochs), at = (double)done;
    const double all = (double)config->epochs * (double)config->steps_per_epoch;

    if (at < warm)
        return config->lr * (at + 1) / (warm + 1);
    switch (rule->schedule) {
    case TRAINER_CONSTANT:
        break;
    case TRAINER_STEP: {
        const double times = floor((at - warm) / fmax(1, steps_of(config, rule->step_epochs)));
        return fmax(rule->min_lr, config->lr * pow(rule->step_factor, times));
    }
    case TRAINER_COSINE: {
        const double part = all > warm ? fmin(1, (at - warm) / (all - warm)) : 1;
        return rule->min_lr + (config->lr - rule->min_lr) * (1 + cos(M_PI * part)) / 2;
    }
    }
    return config->lr;
}

static int check_number(const char *name, double value, bool fits, const char *expected,
                        struct mst_error *err)
{
    return fits && isfinite(value) ? 0
                                   : mst_error_set(err, -EINVAL, "%s %g, expected %s", name, value, expected);
}

int trainer_optimizer_check(const struct trainer_config *config, struct mst_error *err)
{
    const struct trainer_rule *rule = &config->rule;
    const bool adam_like = rule->optimizer == TRAINER_ADAM || rule->optimizer == TRAINER_ADAMW;
    const bool steps = rule->schedule == TRAINER_STEP;

    int r =
        check_number("beta1", rule->beta1, rule->beta1 >= 0 && rule->beta1 < 1, "0 or more and below 1", err);
    if (r >= 0)
        r = check_number("beta2", rule->beta2, rule->beta2 >= 0 && rule->beta2 < 1, "0 or more and below 1",
                         err);
    if (r >= 0)
        r = check_number("epsilon", rule->epsilon, rule->epsilon >= 0 && rule->epsilon <= 1, "0 to 1", err);
    if (r >= 0)
        r = check_number("weight decay", rule->weight_decay,
                         rule->weight_decay >= 0 && rule->weight_decay <= 1, "0 to 1", err);
    if (r >= 0)
        r = check_number("clip norm", rule->clip_norm, rule->clip_norm >= 0, "0 (none) or more", err);
    if (r >= 0)
        r = check_number("warm-up epochs", rule->warmup_epochs, rule->warmup_epochs >= 0, "0 or more", err);
    if (r >= 0)
        r = check_number("lowest learning rate", rule->min_lr,
                         rule->min_lr >= 0 && rule->min_lr <= config->lr, "0 up to the learning rate", err);
    if (r >= 0 && steps)
        r = check_number("epochs between the schedule's steps", rule->step_epochs, rule->step_epochs > 0,
                         "more than 0", err);
    if (r >= 0 && steps)
        r = check_number("factor of the schedule's steps", rule->step_factor,
                         rule->step_factor > 0 && rule->step_factor <= 1, "more than 0, up to 1", err);
    if (r >= 0 && adam_like && config->momentum > 0)
        r = mst_error_set(err, -EINVAL,
                          "momentum %g with adam, which has none (beta1 stands for it), expected 0",
                          config->momentum);
    if (r >= 0 && rule->optimizer == TRAINER_NESTEROV && !(config->momentum > 0))
        r = mst_error_set(err, -EINVAL, "optimizer nesterov with momentum 0, expected one above 0");
    return r;
}
