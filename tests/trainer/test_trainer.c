/* SPDX-License-Identifier: Apache-2.0 */
#include "rings.h"
#include "trainer_state.h"

#include <math.h>

#define SMALL                                                                                                \
    "{\"name\":\"small\",\"input\":[8,8,1],\"loss\":\"softmax_cross_entropy\",\"layers\":["                  \
    "{\"type\":\"conv2d\",\"filters\":4,\"kernel\":[3,3],\"activation\":\"relu\"},{\"type\":\"flatten\"},"   \
    "{\"type\":\"dense\",\"units\":16,\"activation\":\"relu\"},{\"type\":\"dense\",\"units\":4}]}"

struct fixture {
    struct trainer_model *model;
    struct trainer_dataset *train, *test;
};

static int set_up(void **state)
{
    struct fixture *fixture = calloc(1, sizeof *fixture);

    if (!fixture)
        return -1;
    fixture->model = helper_model(SMALL);
    fixture->train = helper_dataset((struct trainer_shape){.count = 3, .dims = {8, 8, 1}}, 500, 4);
    fixture->test = helper_dataset((struct trainer_shape){.count = 3, .dims = {8, 8, 1}}, 101, 4);
    *state = fixture;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *fixture = *state;

    trainer_dataset_free(fixture->train);
    trainer_dataset_free(fixture->test);
    trainer_model_free(fixture->model);
    free(fixture);
    return 0;
}

static struct trainer_config config_of(const struct fixture *fixture, uint32_t batch, uint32_t shards)
{
    return (struct trainer_config){.model = fixture->model,
                                   .train = fixture->train,
                                   .test = fixture->test,
                                   .batch = batch,
                                   .shards = shards,
                                   .lr = 0.05,
                                   .seed = 1,
                                   .steps_per_epoch = 70,
                                   .epochs = 1,
                                   .threads = 1};
}

static struct trainer *new_trainer(const struct trainer_config *config)
{
    struct mst_error err = MST_ERROR_INIT;
    struct trainer *trainer = NULL;

    if (trainer_new(config, &trainer, &err) < 0)
        fail_msg("%s", err.text);
    return trainer;
}

#define MAX_STEPS 70

struct worker {
    struct trainer *trainer;
    struct trainer_exchange *exchange;
    uint32_t steps;
    double losses[MAX_STEPS], accuracies[MAX_STEPS];
    struct trainer_evaluation evaluation;
    int code;
    struct mst_error err;
};

static void *train(void *argument)
{
    struct worker *worker = argument;
    struct trainer_step_stats stats;

    for (uint32_t i = 0; i < worker->steps && worker->code == 0; i++) {
        worker->code = trainer_step(worker->trainer, false, &stats, &worker->err);
        worker->losses[i] = stats.loss;
        worker->accuracies[i] = stats.accuracy;
    }
    if (worker->code == 0)
        worker->code = trainer_evaluate(worker->trainer, &worker->evaluation, &worker->err);
    if (worker->code == 0)
        worker->code = trainer_verify_replicas(worker->trainer, &worker->err);
    return NULL;
}

static void start_workers(struct worker *workers, const struct trainer_config *config, uint32_t world,
                          uint32_t steps)
{
    const struct rings_sockets sockets = rings_connect(world, RINGS_TCP);

    for (uint32_t rank = 0; rank < world; rank++) {
        const struct trainer_ring_options options = rings_options(&sockets, rank, world);
        workers[rank] =
            (struct worker){.trainer = new_trainer(config), .exchange = rings_new(&options), .steps = steps};
        assert_int_equal(trainer_set_exchange(workers[rank].trainer, workers[rank].exchange, NULL), 0);
    }
}

static void free_workers(struct worker *workers, uint32_t world)
{
    for (uint32_t rank = 0; rank < world; rank++) {
        trainer_free(workers[rank].trainer);
        trainer_exchange_free(workers[rank].exchange);
    }
}

static void run_workers(struct worker *workers, const struct trainer_config *config, uint32_t world,
                        uint32_t steps)
{
    start_workers(workers, config, world, steps);
    rings_run(world, train, workers, sizeof workers[0]);
    for (uint32_t rank = 0; rank < world; rank++) {
        if (workers[rank].code < 0)
            fail_msg("world %u, rank %u: %s", world, rank, workers[rank].err.text);
    }
}

static double largest_difference(const struct trainer *a, const struct trainer *b)
{
    double largest = 0;

    for (size_t i = 0; i < a->count; i++)
        largest =
            fmax(largest, fabs((double)a->parameters[a->current][i] - (double)b->parameters[b->current][i]));
    return largest;
}

/* `world` workers with `shards` shards of `batch` against one that takes all samples of a step at once. */
static void check_same_as_alone(const struct fixture *fixture, uint32_t world, uint32_t shards,
                                uint32_t batch, double momentum)
{
    struct trainer_config together = config_of(fixture, batch, shards),
                          alone = config_of(fixture, batch * shards, 1);
    struct worker workers[RINGS_MAX_WORLD], single[1];

    together.momentum = alone.momentum = momentum;
    run_workers(single, &alone, 1, MAX_STEPS);
    run_workers(workers, &together, world, MAX_STEPS);
    for (uint32_t rank = 0; rank < world; rank++) {
        for (uint32_t i = 0; i < MAX_STEPS; i++) {
            if (!(fabs(workers[rank].losses[i] - single[0].losses[i]) <= 1e-4))
                fail_msg("world %u, shards %u, step %u: loss %.7f, alone %.7f", world, shards, i + 1,
                         workers[rank].losses[i], single[0].losses[i]);
            assert_true(workers[rank].losses[i] == workers[0].losses[i]);
            assert_true(workers[rank].accuracies[i] == workers[0].accuracies[i]);
        }
        assert_true(largest_difference(workers[rank].trainer, workers[0].trainer) == 0);
        assert_true(fabs(workers[rank].evaluation.accuracy - single[0].evaluation.accuracy) < 0.0101);
        assert_true(fabs(workers[rank].evaluation.loss - single[0].evaluation.loss) < 1e-4);
        assert_int_equal(workers[rank].evaluation.images, 101);
    }
    assert_true(largest_difference(workers[0].trainer, single[0].trainer) < 1e-4);
    free_workers(workers, world);
    free_workers(single, 1);
}

static void many_workers_take_the_steps_of_one_with_their_batches_joined(void **state)
{
    static const struct {
        uint32_t world, shards, batch;
        double momentum;
    } cases[] = {{3, 3, 16, 0}, {3, 3, 16, 0.9}, {2, 3, 16, 0}, {1, 3, 16, 0.9}, {4, 4, 5, 0}, {8, 8, 2, 0}};

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        check_same_as_alone(*state, cases[i].world, cases[i].shards, cases[i].batch, cases[i].momentum);
}

/* The issue's own numbers: the published model, three workers with 64 against one with 192. */
static void the_published_model_takes_the_same_steps_with_three_workers_as_with_one(void **state)
{
    (void)state;
    struct fixture mnist;
    struct mst_error err = MST_ERROR_INIT;

    if (trainer_dataset_open_folder(MUSTER_SOURCE_DIR "/data/mnist", &mnist.train, &mnist.test, &err) < 0 ||
        trainer_model_read(MUSTER_SOURCE_DIR "/trainer/models/mnist-cnn.json", &mnist.model, &err) < 0)
        fail_msg("%s", err.text);
    struct trainer_config together = config_of(&mnist, 64, 3), alone = config_of(&mnist, 192, 1);
    struct worker workers[3], single[1];
    together.lr = alone.lr = 0.001;
    run_workers(single, &alone, 1, MAX_STEPS);
    run_workers(workers, &together, 3, MAX_STEPS);
    for (uint32_t i = 0; i < MAX_STEPS; i++)
        assert_true(fabs(workers[0].losses[i] - single[0].losses[i]) <= 1e-4);
    assert_true(largest_difference(workers[1].trainer, workers[0].trainer) == 0);
    assert_true(largest_difference(workers[2].trainer, workers[0].trainer) == 0);
    assert_true(largest_difference(workers[0].trainer, single[0].trainer) <= 1e-5);
    free_workers(workers, 3);
    free_workers(single, 1);
    trainer_dataset_free(mnist.train);
    trainer_dataset_free(mnist.test);
    trainer_model_free(mnist.model);
}

static void learns_and_gives_the_same_bits_every_time(void **state)
{
    struct trainer_config config = config_of(*state, 16, 3);
    struct worker runs[3][3];

    config.lr = 0.1;
    config.momentum = 0.9;
    for (int run = 0; run < 3; run++)
        run_workers(runs[run], &config, 3, MAX_STEPS);
    assert_true(runs[0][0].losses[MAX_STEPS - 1] < 0.8 * runs[0][0].losses[0]);
    for (int run = 1; run < 3; run++) {
        assert_memory_equal(runs[run][0].losses, runs[0][0].losses, sizeof runs[0][0].losses);
        assert_true(largest_difference(runs[run][0].trainer, runs[0][0].trainer) == 0);
    }
    for (int run = 0; run < 3; run++)
        free_workers(runs[run], 3);
}

static void a_replica_that_differs_is_named(void **state)
{
    const struct trainer_config config = config_of(*state, 4, 3);
    struct worker workers[3];

    start_workers(workers, &config, 3, 2);
    workers[2].trainer->parameters[0][5] += 1e-6f;
    rings_run(3, train, workers, sizeof workers[0]);
    for (uint32_t rank = 0; rank < 3; rank++) {
        assert_int_equal(workers[rank].code, -EUCLEAN);
        assert_non_null(
            strstr(workers[rank].err.text, "1 of 3 workers differ from those of rank 0: ranks 2"));
    }
    free_workers(workers, 3);
}

static void a_loss_that_is_no_number_is_an_error_and_the_step_does_not_count(void **state)
{
    const struct trainer_config config = config_of(*state, 4, 1);
    struct trainer *trainer = new_trainer(&config);
    struct trainer_step_stats stats = {.step = 99};
    struct mst_error err = MST_ERROR_INIT;
    uint8_t before[MST_SHA256_BYTES], after[MST_SHA256_BYTES];

    assert_int_equal(trainer_step(trainer, false, &stats, NULL), 0);
    trainer->parameters[trainer->current][3] = NAN;
    stats.step = 99;
    assert_int_equal(trainer_digest(trainer, before, NULL), 0);
    assert_int_equal(trainer_step(trainer, false, &stats, &err), -ERANGE);
    assert_int_equal(strncmp(err.text, "the loss is not a finite number", 31), 0); /* callers say the step */
    assert_int_equal(stats.step, 99);
    assert_int_equal(trainer_steps_done(trainer), 1);
    assert_int_equal(trainer_digest(trainer, after, NULL), 0);
    assert_memory_equal(before, after, sizeof before);
    trainer_free(trainer);
}

static void a_gradient_that_is_no_number_is_an_error_where_it_is_clipped(void **state)
{
    struct trainer_config config = config_of(*state, 4, 1);
    struct trainer_step_stats stats;
    struct mst_error err = MST_ERROR_INIT;

    config.rule.clip_norm = 1;
    struct trainer *trainer = new_trainer(&config);
    for (size_t i = 0; i < trainer->count; i++)
        trainer->parameters[trainer->current][i] *= 1e30f;
    const int r = trainer_step(trainer, false, &stats, &err);
    assert_int_equal(r, -ERANGE);
    assert_int_equal(strncmp(err.text, "the ", 4), 0);
    assert_non_null(strstr(err.text, "finite number"));
    assert_int_equal(trainer_steps_done(trainer), 0);
    trainer_free(trainer);
}

static void a_huge_learning_rate_ends_in_that_error(void **state)
{
    struct trainer_config config = config_of(*state, 16, 1);
    struct trainer_step_stats stats;
    int r = 0;

    config.lr = 1e30;
    struct trainer *trainer = new_trainer(&config);
    for (int i = 0; i < 10 && r == 0; i++)
        r = trainer_step(trainer, false, &stats, NULL);
    assert_int_equal(r, -ERANGE);
    trainer_free(trainer);
}

/* The squares of gradients overflow long before parameters do. */
static void a_gradient_whose_square_overflows_ends_adam_before_it_stands_still(void **state)
{
    struct trainer_config config = config_of(*state, 4, 1);
    struct trainer_step_stats stats = {.step = 99};
    struct mst_error err = MST_ERROR_INIT;
    uint8_t before[MST_SHA256_BYTES], after[MST_SHA256_BYTES];

    config.rule.optimizer = TRAINER_ADAM;
    struct trainer *trainer = new_trainer(&config);
    for (size_t i = 0; i < trainer->count; i++)
        trainer->parameters[trainer->current][i] *= 1e11f;
    assert_int_equal(trainer_digest(trainer, before, NULL), 0);
    assert_int_equal(trainer_step(trainer, false, &stats, &err), -ERANGE);
    assert_non_null(strstr(err.text, "the gradient takes parameters beyond the finite numbers"));
    assert_int_equal(stats.step, 99);
    assert_int_equal(trainer_steps_done(trainer), 0);
    assert_int_equal(trainer_digest(trainer, after, NULL), 0);
    assert_memory_equal(before, after, sizeof before);
    trainer_free(trainer);
}

static void a_lost_neighbour_leaves_the_state_after_the_last_whole_step(void **state)
{
    const struct trainer_config config = config_of(*state, 4, 3);
    struct worker workers[3], reference[3];

    run_workers(reference, &config, 3, 5);
    start_workers(workers, &config, 3, 10);
    workers[1].steps = 5;
    rings_run(3, train, workers, sizeof workers[0]); /* rank 1 evaluates when the others take step 6 */
    for (uint32_t rank = 0; rank < 3; rank++) {
        assert_true(workers[rank].code == -EPROTO || workers[rank].code == -EPIPE);
        assert_int_equal(trainer_steps_done(workers[rank].trainer), 5);
        assert_true(largest_difference(workers[rank].trainer, reference[rank].trainer) == 0);
    }
    free_workers(workers, 3);
    free_workers(reference, 3);
}

static void evaluates_a_range_and_the_whole(void **state)
{
    const struct fixture *fixture = *state;
    struct trainer_config config = config_of(fixture, 16, 1);
    struct trainer_evaluation whole, part, rest;
    struct trainer *trainer = new_trainer(&config);
    struct mst_error err = MST_ERROR_INIT;

    assert_int_equal(trainer_evaluate(trainer, &whole, NULL), 0);
    assert_int_equal(trainer_evaluate_range(trainer, fixture->test, 0, 33, &part, NULL), 0);
    assert_int_equal(trainer_evaluate_range(trainer, fixture->test, 33, 68, &rest, NULL), 0);
    assert_int_equal(part.images + rest.images, whole.images);
    assert_true(fabs((33 * part.loss + 68 * rest.loss) / 101 - whole.loss) < 1e-5);
    assert_true(fabs((33 * part.accuracy + 68 * rest.accuracy) / 101 - whole.accuracy) < 1e-9);
    assert_int_equal(trainer_evaluate_range(trainer, fixture->test, 33, 69, &rest, &err), -EINVAL);
    assert_int_equal(trainer_evaluate_range(trainer, fixture->test, SIZE_MAX, 2, &rest, &err), -EINVAL);
    assert_int_equal(trainer_evaluate_range(trainer, fixture->test, 0, 0, &rest, &err), -EINVAL);
    trainer_free(trainer);
    config.test = NULL;
    trainer = new_trainer(&config);
    assert_int_equal(trainer_evaluate(trainer, &whole, &err), -ENOENT);
    trainer_free(trainer);
}

static void check_refused(const struct trainer_config *config, const char *says)
{
    struct mst_error err = MST_ERROR_INIT;
    struct trainer *trainer = NULL;

    assert_int_equal(trainer_new(config, &trainer, &err), -EINVAL);
    assert_null(trainer);
    if (!strstr(err.text, says))
        fail_msg("'%s' has no '%s'", err.text, says);
}

#define WITH(field, value, says)                                                                             \
    do {                                                                                                     \
        struct trainer_config config = config_of(*state, 16, 3);                                             \
        config.field = (value);                                                                              \
        check_refused(&config, says);                                                                        \
    } while (0)

static void settings_that_do_not_fit_are_named(void **state)
{
    const struct fixture *fixture = *state;
    struct trainer_dataset *wide =
        helper_dataset((struct trainer_shape){.count = 3, .dims = {8, 9, 1}}, 10, 4);
    struct trainer_dataset *many =
        helper_dataset((struct trainer_shape){.count = 3, .dims = {8, 8, 1}}, 10, 5);

    WITH(batch, 0, "batch of 0");
    WITH(batch, TRAINER_MAX_BATCH + 1, "batch of 65537");
    WITH(shards, 0, "0 shards");
    WITH(lr, 0.0, "learning rate 0");
    WITH(lr, (double)NAN, "learning rate");
    WITH(lr, (double)INFINITY, "learning rate inf");
    WITH(momentum, 1.0, "momentum 1");
    WITH(momentum, -0.1, "momentum -0.1");
    WITH(momentum, (double)NAN, "momentum");
    WITH(epochs, 0, "0 epochs");
    WITH(steps_per_epoch, 0, "0 steps");
    WITH(threads, TRAINER_MAX_THREADS + 1, "257 threads");
    WITH(rule.clip_norm, -1, "clip norm -1");
    WITH(rule.shift, 8, "a shift by 8");
    WITH(rule.loss, TRAINER_CROSS_ENTROPY, "the loss 'cross_entropy' does not suit");
    WITH(train, wide, "takes 8 x 8 x 1, the training data is 8 x 9 x 1");
    WITH(test, many, "has 4 outputs, the test data 5 classes");
    struct trainer_config config = config_of(fixture, 4, 2);
    struct trainer *trainer = new_trainer(&config);
    const struct rings_sockets sockets = rings_connect(3, RINGS_SOCKET_PAIRS);
    struct trainer_exchange *rings[3];
    for (uint32_t rank = 0; rank < 3; rank++) {
        const struct trainer_ring_options options = rings_options(&sockets, rank, 3);
        rings[rank] = rings_new(&options);
    }
    assert_int_equal(trainer_set_exchange(trainer, rings[0], NULL), -EINVAL);
    for (uint32_t rank = 0; rank < 3; rank++)
        trainer_exchange_free(rings[rank]);
    trainer_free(trainer);
    trainer_dataset_free(wide);
    trainer_dataset_free(many);
}

static void the_jobs_digest_tells_settings_apart(void **state)
{
    const struct trainer_config base = config_of(*state, 16, 3);
    struct trainer_config same = base,
                          variants[] = {base, base, base, base, base, base, base, base, base, base};
    uint8_t first[MST_SHA256_BYTES], other[MST_SHA256_BYTES];

    variants[0].batch = 17;
    variants[1].shards = 4;
    variants[2].lr = 0.051;
    variants[3].momentum = 0.5;
    variants[4].seed = 2;
    variants[5].steps_per_epoch = 71;
    variants[6].train = base.test;
    variants[7].rule.optimizer = TRAINER_ADAM;
    variants[8].rule.loss = TRAINER_MSE;
    variants[9].rule.shift = 1;
    same.threads = 7; /* does not change the result */
    assert_int_equal(trainer_config_digest(&base, first, NULL), 0);
    assert_int_equal(trainer_config_digest(&same, other, NULL), 0);
    assert_memory_equal(first, other, sizeof first);
    for (size_t i = 0; i < sizeof variants / sizeof variants[0]; i++) {
        assert_int_equal(trainer_config_digest(&variants[i], other, NULL), 0);
        assert_memory_not_equal(first, other, sizeof first);
    }
}

static void an_epoch_adds_up_its_steps(void **state)
{
    (void)state;
    struct trainer_epoch epoch = {0};
    const struct trainer_step_stats stats = {.loss = 2,
                                             .accuracy = 0.5,
                                             .total_ms = 6,
                                             .compute_ms = 3,
                                             .wait_ms = 2,
                                             .transfer_ms = 1,
                                             .bytes_sent = 10};

    trainer_epoch_add(&epoch, &stats);
    trainer_epoch_add(&epoch, &stats);
    assert_int_equal(epoch.steps, 2);
    assert_true(epoch.loss_sum == 4 && epoch.accuracy_sum == 1 && epoch.total_ms == 12 &&
                epoch.compute_ms == 6);
    assert_true(epoch.wait_ms == 4 && epoch.transfer_ms == 2 && epoch.bytes_sent == 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(many_workers_take_the_steps_of_one_with_their_batches_joined),
        cmocka_unit_test(the_published_model_takes_the_same_steps_with_three_workers_as_with_one),
        cmocka_unit_test(learns_and_gives_the_same_bits_every_time),
        cmocka_unit_test(a_replica_that_differs_is_named),
        cmocka_unit_test(a_loss_that_is_no_number_is_an_error_and_the_step_does_not_count),
        cmocka_unit_test(a_gradient_that_is_no_number_is_an_error_where_it_is_clipped),
        cmocka_unit_test(a_gradient_whose_square_overflows_ends_adam_before_it_stands_still),
        cmocka_unit_test(a_huge_learning_rate_ends_in_that_error),
        cmocka_unit_test(a_lost_neighbour_leaves_the_state_after_the_last_whole_step),
        cmocka_unit_test(evaluates_a_range_and_the_whole),
        cmocka_unit_test(settings_that_do_not_fit_are_named),
        cmocka_unit_test(the_jobs_digest_tells_settings_apart),
        cmocka_unit_test(an_epoch_adds_up_its_steps),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
