/* SPDX-License-Identifier: Apache-2.0 */
/* The published training: three workers, 64 samples each, 70 steps x 12 epochs, learning rate 0.001. Its runs
 * ended with a loss of 0.842 and 1.006 and an accuracy of 0.823 and 0.811 in the last epoch; right
 * implementations scatter around that by seed, so medians and single runs have limits of their own. The
 * whole, with seeds 1 to 5, takes minutes and is run with MUSTER_TEST_LONG=1 (scripts/test.sh --long);
 * without it, the first epoch of one seed. */
#include "rings.h"

#define WORLD 3
#define SEEDS 5
#define STEPS 70

struct worker {
    struct trainer *trainer;
    struct trainer_exchange *exchange;
    uint32_t epochs;
    struct trainer_epoch last;
    struct trainer_evaluation evaluation;
    uint8_t digest[MST_SHA256_BYTES];
    int code;
    struct mst_error err;
};

static int train_epochs(struct worker *worker)
{
    struct trainer_step_stats stats;

    for (uint32_t epoch = 0; epoch < worker->epochs; epoch++) {
        worker->last = (struct trainer_epoch){0};
        for (int step = 0; step < STEPS; step++) {
            const int r = trainer_step(worker->trainer, false, &stats, &worker->err);
            if (r < 0)
                return r;
            trainer_epoch_add(&worker->last, &stats);
        }
        const int r = trainer_verify_replicas(worker->trainer, &worker->err);
        if (r < 0)
            return r;
    }
    return 0;
}

static void *train(void *argument)
{
    struct worker *worker = argument;

    worker->code = train_epochs(worker);
    if (worker->code == 0)
        worker->code = trainer_evaluate(worker->trainer, &worker->evaluation, &worker->err);
    if (worker->code == 0)
        worker->code = trainer_digest(worker->trainer, worker->digest, &worker->err);
    return NULL;
}

struct published {
    struct trainer_dataset *train, *test;
    struct trainer_model *model;
};

static void run_seed(const struct published *published, uint64_t seed, uint32_t epochs, double *ret_loss,
                     double *ret_accuracy)
{
    const struct trainer_config config = {.model = published->model,
                                          .train = published->train,
                                          .test = published->test,
                                          .batch = 64,
                                          .shards = WORLD,
                                          .lr = 0.001,
                                          .seed = seed,
                                          .steps_per_epoch = STEPS,
                                          .epochs = epochs,
                                          .threads = 1};
    const struct rings_sockets sockets = rings_connect(WORLD, RINGS_TCP);
    struct worker workers[WORLD] = {0};
    struct mst_error err = MST_ERROR_INIT;

    for (uint32_t rank = 0; rank < WORLD; rank++) {
        const struct trainer_ring_options options = rings_options(&sockets, rank, WORLD);
        workers[rank].epochs = epochs;
        workers[rank].exchange = rings_new(&options);
        if (trainer_new(&config, &workers[rank].trainer, &err) < 0 ||
            trainer_set_exchange(workers[rank].trainer, workers[rank].exchange, &err) < 0)
            fail_msg("%s", err.text);
    }
    rings_run(WORLD, train, workers, sizeof workers[0]);
    for (uint32_t rank = 0; rank < WORLD; rank++) {
        if (workers[rank].code < 0)
            fail_msg("seed %d, rank %u: %s", (int)seed, rank, workers[rank].err.text);
        assert_memory_equal(workers[rank].digest, workers[0].digest, MST_SHA256_BYTES);
        trainer_free(workers[rank].trainer);
        trainer_exchange_free(workers[rank].exchange);
    }
    *ret_loss = workers[0].last.loss_sum / STEPS;
    *ret_accuracy = workers[0].last.accuracy_sum / STEPS;
    print_message(
        "seed %d: last epoch: loss %.4f, accuracy %.4f; test: loss %.4f, accuracy %.4f; %.1f ms a step "
        "(compute %.1f, wait %.1f, transfer %.1f)\n",
        (int)seed, *ret_loss, *ret_accuracy, workers[0].evaluation.loss, workers[0].evaluation.accuracy,
        workers[0].last.total_ms / STEPS, workers[0].last.compute_ms / STEPS, workers[0].last.wait_ms / STEPS,
        workers[0].last.transfer_ms / STEPS);
}

static int compare_doubles(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static int set_up(void **state)
{
    struct published *published = calloc(1, sizeof *published);
    struct mst_error err = MST_ERROR_INIT;

    *state = published;
    if (!published ||
        trainer_dataset_open_folder(MUSTER_SOURCE_DIR "/data/mnist", &published->train, &published->test,
                                    &err) < 0 ||
        trainer_model_read(MUSTER_SOURCE_DIR "/trainer/models/mnist-cnn.json", &published->model, &err) < 0) {
        print_error("%s\n", err.text);
        return -1;
    }
    return 0;
}

static int tear_down(void **state)
{
    struct published *published = *state;

    trainer_dataset_free(published->train);
    trainer_dataset_free(published->test);
    trainer_model_free(published->model);
    free(published);
    return 0;
}

static void one_epoch_learns_and_leaves_equal_replicas(void **state)
{
    double loss, accuracy;

    run_seed(*state, 1, 1, &loss, &accuracy);
    assert_true(loss < 2.27 && accuracy > 0.12); /* guessing: 2.303 and 0.1 */
}

static void five_seeds_end_where_the_published_runs_did(void **state)
{
    double losses[SEEDS], accuracies[SEEDS];

    for (uint64_t seed = 1; seed <= SEEDS; seed++)
        run_seed(*state, seed, 12, &losses[seed - 1], &accuracies[seed - 1]);
    qsort(losses, SEEDS, sizeof losses[0], compare_doubles);
    qsort(accuracies, SEEDS, sizeof accuracies[0], compare_doubles);
    print_message("median: loss %.4f, accuracy %.4f\n", losses[SEEDS / 2], accuracies[SEEDS / 2]);
    assert_true(losses[SEEDS / 2] <= 1.10 && losses[SEEDS - 1] <= 1.30);
    assert_true(accuracies[SEEDS / 2] >= 0.80 && accuracies[0] >= 0.77);
}

int main(void)
{
    const char *text = getenv("MUSTER_TEST_LONG");
    const bool is_long = text && strcmp(text, "1") == 0;
    const struct CMUnitTest quick[] = {cmocka_unit_test(one_epoch_learns_and_leaves_equal_replicas)};
    const struct CMUnitTest whole[] = {cmocka_unit_test(five_seeds_end_where_the_published_runs_did)};

    return is_long ? cmocka_run_group_tests(whole, set_up, tear_down)
                   : cmocka_run_group_tests(quick, set_up, tear_down);
}
