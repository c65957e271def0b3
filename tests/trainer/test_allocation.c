/* SPDX-License-Identifier: Apache-2.0 */
/* Steps allocate nothing once the first is done. The linker sends the allocations of our own code through
 * here (--wrap in CMakeLists.txt); what OpenBLAS does inside is its own affair. */
#include "meshes.h"

#include <stdatomic.h>

void *__real_malloc(size_t bytes);
void *__real_calloc(size_t count, size_t bytes);
void *__real_realloc(void *memory, size_t bytes);
void *__real_aligned_alloc(size_t alignment, size_t bytes);
void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);
void *__wrap_realloc(void *memory, size_t bytes);
void *__wrap_aligned_alloc(size_t alignment, size_t bytes);

static atomic_size_t allocations; /* by all threads */

void *__wrap_malloc(size_t bytes)
{
    atomic_fetch_add(&allocations, 1);
    return __real_malloc(bytes);
}

void *__wrap_calloc(size_t count, size_t bytes)
{
    atomic_fetch_add(&allocations, 1);
    return __real_calloc(count, bytes);
}

void *__wrap_realloc(void *memory, size_t bytes)
{
    atomic_fetch_add(&allocations, 1);
    return __real_realloc(memory, bytes);
}

void *__wrap_aligned_alloc(size_t alignment, size_t bytes)
{
    atomic_fetch_add(&allocations, 1);
    return __real_aligned_alloc(alignment, bytes);
}

struct worker {
    struct trainer *trainer;
    struct trainer_exchange *exchange;
    int code;
};

static void *take_steps(void *argument)
{
    struct worker *worker = argument;
    struct trainer_step_stats stats;
    struct mst_error err;

    for (int i = 0; i < 30 && worker->code == 0; i++) /* 30 * 12 samples: passes end, permutations change */
        worker->code = trainer_step(worker->trainer, false, &stats, &err);
    return NULL;
}

static void check(bool direct, enum trainer_method method, uint32_t world, double momentum)
{
    struct trainer_model *model = helper_model("{\"name\":\"t\",\"input\":[6,6,1],\"loss\":\"softmax_cross_"
                                               "entropy\",\"layers\":[{\"type\":\"conv2d\",\"filters\":2,"
                                               "\"kernel\":[3,3],\"activation\":\"relu\"},{\"type\":"
                                               "\"flatten\"},{\"type\":\"dense\",\"units\":3}]}");
    struct trainer_dataset *data =
        helper_dataset((struct trainer_shape){.count = 3, .dims = {6, 6, 1}}, 50, 3);
    const struct trainer_config config = {.model = model,
                                          .train = data,
                                          .batch = 4,
                                          .shards = 3,
                                          .lr = 0.1,
                                          .momentum = momentum,
                                          .seed = 1,
                                          .steps_per_epoch = 10,
                                          .epochs = 6,
                                          .threads = 1};
    const struct rings_sockets sockets = rings_connect(direct ? 1 : world, RINGS_SOCKET_PAIRS);
    struct meshes_sockets mesh;
    struct worker workers[RINGS_MAX_WORLD] = {0};

    meshes_connect(&mesh, direct ? world : 1, RINGS_SOCKET_PAIRS);
    for (uint32_t rank = 0; rank < world; rank++) {
        const struct trainer_ring_options options = rings_options(&sockets, rank, world);
        const struct trainer_direct_options mesh_options = meshes_options(&mesh, rank, world, config.shards);
        workers[rank].exchange = direct ? meshes_new(&mesh_options) : rings_new(&options);
        assert_int_equal(trainer_new(&config, &workers[rank].trainer, NULL), 0);
        assert_int_equal(trainer_set_method(workers[rank].trainer, method, NULL), 0);
        assert_int_equal(trainer_set_exchange(workers[rank].trainer, workers[rank].exchange, NULL), 0);
    }
    rings_run(world, take_steps, workers, sizeof workers[0]);
    const size_t before = atomic_load(&allocations);
    assert_true(before > 0); /* the wrapping works */
    rings_run(world, take_steps, workers, sizeof workers[0]);
    assert_int_equal(atomic_load(&allocations), before);
    for (uint32_t rank = 0; rank < world; rank++) {
        assert_int_equal(workers[rank].code, 0);
        trainer_free(workers[rank].trainer);
        trainer_exchange_free(workers[rank].exchange);
    }
    trainer_dataset_free(data);
    trainer_model_free(model);
}

static void steps_allocate_nothing_alone_or_together(void **state)
{
    (void)state;
    for (uint32_t world = 1; world <= 3; world++) {
        check(false, TRAINER_SUM, world, 0);
        check(false, TRAINER_SUM, world, 0.9);
        check(true, TRAINER_SUM, world, 0);
        check(true, TRAINER_SUM, world, 0.9);
        check(true, TRAINER_FACTORS, world, 0);
        check(true, TRAINER_FACTORS, world, 0.9);
        if (world <= 2) /* channels */
            check(true, TRAINER_SHARDED, world, 0.9);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps_allocate_nothing_alone_or_together),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
