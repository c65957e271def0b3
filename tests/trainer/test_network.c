/* SPDX-License-Identifier: Apache-2.0 */
/* Every layer's gradients against central differences of the loss, in small networks in which each kind of
 * layer stands first, in the middle and last where it can. */
#include "helpers.h"
#include "loss.h"
#include "network.h"

#include <math.h>

#define LOSS  "\"loss\":\"softmax_cross_entropy\""
#define BATCH 3

static const struct {
    const char *name, *text;
} networks[] = {
    {"dense", "{\"name\":\"t\",\"input\":[7]," LOSS ",\"layers\":[{\"type\":\"dense\",\"units\":4}]}"},
    {"dense with relu, in front of dense",
     "{\"name\":\"t\",\"input\":[7]," LOSS
     ",\"layers\":[{\"type\":\"dense\",\"units\":6,\"activation\":\"relu\"},"
     "{\"type\":\"dense\",\"units\":5},{\"type\":\"dense\",\"units\":3}]}"},
    {"relu and flatten as layers of their own",
     "{\"name\":\"t\",\"input\":[2,3,2]," LOSS ",\"layers\":[{\"type\":\"relu\"},{\"type\":\"flatten\"},"
     "{\"type\":\"dense\",\"units\":6},{\"type\":\"relu\"},{\"type\":\"dense\",\"units\":3}]}"},
    {"conv2d over one channel, as the published model",
     "{\"name\":\"t\",\"input\":[6,5,1]," LOSS
     ",\"layers\":[{\"type\":\"conv2d\",\"filters\":3,\"kernel\":[3,3],"
     "\"activation\":\"relu\"},{\"type\":\"flatten\"},{\"type\":\"dense\",\"units\":4}]}"},
    {"conv2d over several channels, not square, twice",
     "{\"name\":\"t\",\"input\":[6,7,2]," LOSS
     ",\"layers\":[{\"type\":\"conv2d\",\"filters\":3,\"kernel\":[2,3]},"
     "{\"type\":\"conv2d\",\"filters\":4,\"kernel\":[3,2],\"activation\":\"relu\"},{\"type\":\"flatten\"},"
     "{\"type\":\"dense\",\"units\":3}]}"},
    {"conv2d that covers its whole input, in several tiles' worth of filters",
     "{\"name\":\"t\",\"input\":[5,40,1]," LOSS
     ",\"layers\":[{\"type\":\"conv2d\",\"filters\":700,\"kernel\":[3,3]},"
     "{\"type\":\"conv2d\",\"filters\":2,\"kernel\":[3,38]},{\"type\":\"flatten\"},"
     "{\"type\":\"dense\",\"units\":2}]}"},
    {"conv2d with steps and padding, even and uneven",
     "{\"name\":\"t\",\"input\":[6,7,2]," LOSS
     ",\"layers\":[{\"type\":\"conv2d\",\"filters\":3,\"kernel\":3,\"stride\":2,\"padding\":\"same\"},"
     "{\"type\":\"conv2d\",\"filters\":4,\"kernel\":[4,2],\"stride\":[1,2],\"padding\":[3,1],"
     "\"activation\":\"tanh\"},{\"type\":\"flatten\"},{\"type\":\"dense\",\"units\":3}]}"},
    {"conv2d over one channel, with padding, and steps down only",
     "{\"name\":\"t\",\"input\":[5,4,1]," LOSS
     ",\"layers\":[{\"type\":\"conv2d\",\"filters\":1,\"kernel\":[2,3],\"stride\":[2,1],\"padding\":[1,2]},"
     "{\"type\":\"conv2d\",\"filters\":4,\"kernel\":3,\"padding\":\"same\",\"activation\":\"tanh\"},"
     "{\"type\":\"flatten\"},{\"type\":\"dense\",\"units\":3}]}"},
    {"max_pool, with windows apart, and over each other with padding",
     "{\"name\":\"t\",\"input\":[7,6,1]," LOSS
     ",\"layers\":[{\"type\":\"conv2d\",\"filters\":3,\"kernel\":[2,3]},{\"type\":\"max_pool\",\"size\":2},"
     "{\"type\":\"conv2d\",\"filters\":4,\"kernel\":1},{\"type\":\"max_pool\",\"size\":[3,2],\"stride\":1,"
     "\"padding\":\"same\"},{\"type\":\"flatten\"},{\"type\":\"dense\",\"units\":3}]}"},
    {"avg_pool, the same",
     "{\"name\":\"t\",\"input\":[7,6,1]," LOSS
     ",\"layers\":[{\"type\":\"conv2d\",\"filters\":3,\"kernel\":[2,3]},{\"type\":\"avg_pool\",\"size\":2},"
     "{\"type\":\"conv2d\",\"filters\":4,\"kernel\":1},{\"type\":\"avg_pool\",\"size\":[3,2],\"stride\":1,"
     "\"padding\":\"same\"},{\"type\":\"flatten\"},{\"type\":\"dense\",\"units\":3}]}"},
    {"tanh, sigmoid and softmax as layers of their own",
     "{\"name\":\"t\",\"input\":[5]," LOSS
     ",\"layers\":[{\"type\":\"dense\",\"units\":6},{\"type\":\"tanh\"},{\"type\":\"dense\",\"units\":5},"
     "{\"type\":\"sigmoid\"},{\"type\":\"dense\",\"units\":5},{\"type\":\"softmax\"},"
     "{\"type\":\"dense\",\"units\":3,\"activation\":\"sigmoid\"}]}"},
    {"softmax with the loss over probabilities",
     "{\"name\":\"t\",\"input\":[5],\"loss\":\"cross_entropy\",\"layers\":[{\"type\":\"dense\",\"units\":4},"
     "{\"type\":\"softmax\"}]}"},
    {"the mean squared difference",
     "{\"name\":\"t\",\"input\":[5],\"loss\":\"mse\",\"layers\":[{\"type\":\"dense\",\"units\":4}]}"},
    {"dropout outside of training",
     "{\"name\":\"t\",\"input\":[5]," LOSS ",\"layers\":[{\"type\":\"dense\",\"units\":4},"
     "{\"type\":\"dropout\",\"rate\":0.5},{\"type\":\"dense\",\"units\":3}]}"},
    {"embedding", "{\"name\":\"t\",\"input\":[4]," LOSS
                  ",\"layers\":[{\"type\":\"embedding\",\"vocabulary\":5,\"size\":3},"
                  "{\"type\":\"flatten\"},{\"type\":\"dense\",\"units\":3}]}"},
};

struct fixture {
    struct trainer_model *model;
    struct trainer_network network;
    float *params, *grads;
    uint32_t labels[BATCH];
};

static void set_up(struct fixture *fixture, const char *text)
{
    struct mst_error err = MST_ERROR_INIT;
    struct trainer_rng rng;

    fixture->model = helper_model(text);
    if (trainer_network_init(&fixture->network, fixture->model, BATCH, &err) < 0)
        fail_msg("%s", err.text);
    fixture->params = calloc(fixture->model->parameters, sizeof(float));
    fixture->grads = calloc(fixture->model->parameters, sizeof(float));
    assert_non_null(fixture->params);
    assert_non_null(fixture->grads);
    trainer_rng_init(&rng, 5, TRAINER_RNG_WEIGHTS, 99);
    for (size_t i = 0; i < fixture->model->layer_count; i++)
        trainer_layer_fill(&fixture->model->layers[i], 5, (uint32_t)(10 * i), fixture->params);
    for (size_t i = 0; i < BATCH * trainer_shape_elements(&fixture->model->input); i++)
        fixture->network.input[i] = fixture->model->layers[0].ops == &trainer_layer_embedding
                                        ? (float)trainer_rng_below(&rng, 6) /* 5 is none of the table */
                                        : trainer_rng_float(&rng) * 2 - 1;
    for (size_t i = 0; i < BATCH; i++)
        fixture->labels[i] = (uint32_t)(i % trainer_model_classes(fixture->model));
}

static void tear_down(struct fixture *fixture)
{
    trainer_network_release(&fixture->network);
    trainer_model_free(fixture->model);
    free(fixture->params);
    free(fixture->grads);
}

static double loss_of(struct fixture *fixture, bool with_gradient)
{
    const float *logits = trainer_network_forward(&fixture->network, fixture->params, BATCH);

    const struct trainer_answers answers = {.labels = fixture->labels};

    return trainer_loss_of(fixture->model->loss, BATCH, trainer_model_classes(fixture->model), logits,
                           &answers, 1.0f, with_gradient ? fixture->network.gradients[0] : NULL)
        .sum;
}

static void backward(struct fixture *fixture, bool accumulate)
{
    const struct trainer_pass pass = {.batch = BATCH, .accumulate = accumulate};

    (void)loss_of(fixture, true);
    trainer_network_backward(&fixture->network, fixture->params, &pass, fixture->grads);
}

/* True when the gradient is the central difference or, for a relu may switch on one side within the step's
 * reach, a one-sided one; which is what it is on the other side. */
static bool check_place(struct fixture *fixture, size_t i, const char *name)
{
    const double step = 5e-4, tolerance = 2e-3;
    const float kept = fixture->params[i];
    const double here = loss_of(fixture, false);

    fixture->params[i] = kept + (float)step;
    const double up = (loss_of(fixture, false) - here) / step;
    fixture->params[i] = kept - (float)step;
    const double down = (here - loss_of(fixture, false)) / step;
    fixture->params[i] = kept;
    const double analytic = (double)fixture->grads[i];
    const double error =
        fmin(fabs((up + down) / 2 - analytic), fmin(fabs(up - analytic), fabs(down - analytic)));
    if (analytic < fmin(up, down) - tolerance || analytic > fmax(up, down) + tolerance)
        fail_msg("%s: parameter %zu: gradient %.6f, differences %.6f up, %.6f down", name, i, analytic, up,
                 down);
    return error <= tolerance;
}

static void gradients_agree_with_central_differences(void **state)
{
    (void)state;
    for (size_t n = 0; n < sizeof networks / sizeof networks[0]; n++) {
        struct fixture fixture;
        size_t checked = 0, passed = 0;

        set_up(&fixture, networks[n].text);
        backward(&fixture, false);
        const size_t count = fixture.model->parameters;
        const size_t stride = count / 300 + 1; /* of a large network, a part that meets every tensor */
        for (size_t i = 0; i < count; i += stride, checked++)
            passed += check_place(&fixture, i, networks[n].name);
        if (passed * 100 < checked * 99)
            fail_msg("%s: only %zu of %zu gradients agree", networks[n].name, passed, checked);
        tear_down(&fixture);
    }
}

/* y[row][column][filter] as conv2d.c's first comment has it. */
static double convolved(const struct trainer_layer *layer, const float *params, const float *x, size_t row,
                        size_t column, size_t filter)
{
    const struct trainer_window *window = &layer->settings.window;
    const size_t channels = layer->in.dims[2], filters = layer->out.dims[2];
    const float *weight = params + layer->tensors[0].offset;
    double sum = (double)params[layer->tensors[1].offset + filter];

    for (size_t i = 0; i < window->size[0]; i++) {
        for (size_t j = 0; j < window->size[1]; j++) {
            const size_t r = row * window->stride[0] + i, c = column * window->stride[1] + j;
            if (r < window->before[0] || r - window->before[0] >= layer->in.dims[0] ||
                c < window->before[1] || c - window->before[1] >= layer->in.dims[1])
                continue;
            const size_t place = (r - window->before[0]) * layer->in.dims[1] + c - window->before[1];
            for (size_t k = 0; k < channels; k++)
                sum += (double)x[place * channels + k] *
                       (double)weight[((i * window->size[1] + j) * channels + k) * filters + filter];
        }
    }
    return sum;
}

static void a_convolution_is_its_formula_for_all_windows_steps_and_paddings(void **state)
{
    char text[512];

    (void)state;
    for (unsigned n = 0; n < 3 * 4 * 4 * 2 * 2 * 3 * 3; n++) {
        const unsigned channels = 1 + n % 3, rows = 1 + n / 3 % 4, columns = 1 + n / 12 % 4;
        const unsigned down = 1 + n / 48 % 2, along = 1 + n / 96 % 2;
        const unsigned above = n / 192 % 3 % rows, before = n / 576 % 3 % columns;
        struct fixture fixture;
        (void)snprintf(text, sizeof text,
                       "{\"name\":\"t\",\"input\":[4,5,%u]," LOSS
                       ",\"layers\":[{\"type\":\"conv2d\",\"filters\":3,"
                       "\"kernel\":[%u,%u],\"stride\":[%u,%u],\"padding\":[%u,%u]},{\"type\":\"flatten\"},"
                       "{\"type\":\"dense\",\"units\":3}]}",
                       channels, rows, columns, down, along, above, before);
        set_up(&fixture, text);
        const struct trainer_layer *layer = &fixture.model->layers[0];
        (void)trainer_network_forward(&fixture.network, fixture.params, BATCH);
        const float *y = fixture.network.outputs[0], *x = fixture.network.input;
        for (size_t i = 0; i < BATCH; i++, x += trainer_shape_elements(&layer->in)) {
            for (size_t place = 0; place < trainer_shape_elements(&layer->out); place++, y++) {
                const size_t filter = place % 3, column = place / 3 % layer->out.dims[1];
                const double expected =
                    convolved(layer, fixture.params, x, place / 3 / layer->out.dims[1], column, filter);
                if (fabs((double)*y - expected) > 1e-5)
                    fail_msg("%s: place %zu: %g, expected %g", text, place, (double)*y, expected);
            }
        }
        tear_down(&fixture);
    }
}

static void a_second_pass_adds_where_asked_and_else_starts_anew(void **state)
{
    (void)state;
    for (size_t n = 0; n < sizeof networks / sizeof networks[0]; n++) {
        struct fixture fixture;

        set_up(&fixture, networks[n].text);
        for (size_t i = 0; i < fixture.model->parameters; i++)
            fixture.grads[i] = NAN; /* the first pass must not read what was there */
        backward(&fixture, false);
        float *first = malloc(fixture.model->parameters * sizeof *first);
        assert_non_null(first);
        memcpy(first, fixture.grads, fixture.model->parameters * sizeof *first);
        backward(&fixture, true);
        for (size_t i = 0; i < fixture.model->parameters; i++)
            assert_true(fabsf(fixture.grads[i] - 2 * first[i]) <= 1e-5f + 1e-5f * fabsf(first[i]));
        free(first);
        tear_down(&fixture);
    }
}

struct slices {
    size_t next_end; /* slices must come from the end of the arena to its start, without a hole */
    const float *grads;
    float *copy;
};

static void note_slice(void *context, size_t offset, size_t count)
{
    struct slices *slices = context;

    assert_int_equal(offset + count, slices->next_end);
    slices->next_end = offset;
    memcpy(slices->copy + offset, slices->grads + offset, count * sizeof(float));
}

static void slices_are_final_when_told_and_cover_the_arena_from_its_end(void **state)
{
    (void)state;
    for (size_t n = 0; n < sizeof networks / sizeof networks[0]; n++) {
        struct fixture fixture;

        set_up(&fixture, networks[n].text);
        const size_t count = fixture.model->parameters;
        struct slices slices = {
            .next_end = count, .grads = fixture.grads, .copy = calloc(count, sizeof(float))};
        assert_non_null(slices.copy);
        const struct trainer_pass pass = {.batch = BATCH, .gradient_ready = note_slice, .context = &slices};
        (void)loss_of(&fixture, true);
        trainer_network_backward(&fixture.network, fixture.params, &pass, fixture.grads);
        assert_int_equal(slices.next_end, 0);
        assert_memory_equal(slices.copy, fixture.grads, count * sizeof(float));
        free(slices.copy);
        tear_down(&fixture);
    }
}

static void a_smaller_batch_gives_the_same_rows(void **state)
{
    (void)state;
    for (size_t n = 0; n < sizeof networks / sizeof networks[0]; n++) {
        struct fixture fixture;
        float all[BATCH * 8];

        set_up(&fixture, networks[n].text);
        const size_t classes = trainer_model_classes(fixture.model);
        memcpy(all, trainer_network_forward(&fixture.network, fixture.params, BATCH),
               BATCH * classes * sizeof(float));
        const float *one = trainer_network_forward(&fixture.network, fixture.params, 1);
        for (size_t c = 0; c < classes; c++)
            assert_true(fabsf(one[c] - all[c]) < 1e-5f);
        tear_down(&fixture);
    }
}

static void initial_weights_keep_to_glorots_limits_and_biases_are_zero(void **state)
{
    (void)state;
    struct trainer_model *model = helper_model(networks[3].text);
    float *params = calloc(model->parameters, sizeof *params);
    uint32_t number = 0;

    assert_non_null(params);
    for (size_t i = 0; i < model->layer_count; number += (uint32_t)model->layers[i].tensor_count, i++)
        trainer_layer_fill(&model->layers[i], 1, number, params);
    const float conv_limit = sqrtf(6.0f / (9 + 27)), dense_limit = sqrtf(6.0f / (36 + 4));
    float largest = 0;
    for (size_t i = 0; i < 27; i++) {
        assert_true(fabsf(params[i]) <= conv_limit);
        largest = fmaxf(largest, fabsf(params[i]));
    }
    assert_true(largest > conv_limit * 0.8f);
    for (size_t i = 27; i < 30; i++)
        assert_true(params[i] == 0);
    for (size_t i = 30; i < 30 + 144; i++)
        assert_true(fabsf(params[i]) <= dense_limit && params[i] != 0);
    free(params);
    trainer_model_free(model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_agree_with_central_differences),
        cmocka_unit_test(a_convolution_is_its_formula_for_all_windows_steps_and_paddings),
        cmocka_unit_test(a_second_pass_adds_where_asked_and_else_starts_anew),
        cmocka_unit_test(slices_are_final_when_told_and_cover_the_arena_from_its_end),
        cmocka_unit_test(a_smaller_batch_gives_the_same_rows),
        cmocka_unit_test(initial_weights_keep_to_glorots_limits_and_biases_are_zero),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
