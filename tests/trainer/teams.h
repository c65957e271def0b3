/* SPDX-License-Identifier: Apache-2.0 */
/* Trainers that meet in views: in each, some of them are connected by an exchange of a kind, do something
 * together in a thread each, and part again. */
#ifndef TESTS_TRAINER_TEAMS_H
#define TESTS_TRAINER_TEAMS_H

#include "meshes.h"
#include "trainer_state.h"

#include <math.h>

#define TEAMS_SMALL                                                                                          \
    "{\"name\":\"small\",\"input\":[8,8,1],\"loss\":\"softmax_cross_entropy\",\"layers\":["                  \
    "{\"type\":\"conv2d\",\"filters\":4,\"kernel\":[3,3],\"activation\":\"relu\"},{\"type\":\"flatten\"},"   \
    "{\"type\":\"dense\",\"units\":16,\"activation\":\"relu\"},{\"type\":\"dense\",\"units\":4}]}"

/* How they exchange: the last ones over a direct exchange. */
enum teams_kind { TEAMS_RING, TEAMS_DIRECT, TEAMS_FACTORS, TEAMS_SHARDED };

struct teams_data {
    struct trainer_model *model;
    struct trainer_dataset *train;
};

/* cmocka setup and teardown. */
static inline int teams_make_data(void **state)
{
    struct teams_data *data = calloc(1, sizeof *data);

    if (!data)
        return -1;
    data->model = helper_model(TEAMS_SMALL);
    data->train = helper_dataset((struct trainer_shape){.count = 3, .dims = {8, 8, 1}}, 500, 4);
    *state = data;
    return 0;
}

static inline int teams_free_data(void **state)
{
    struct teams_data *data = *state;

    trainer_dataset_free(data->train);
    trainer_model_free(data->model);
    free(data);
    return 0;
}

static inline struct trainer_config teams_config(const struct teams_data *data, uint32_t shards,
                                                 double momentum)
{
    return (struct trainer_config){.model = data->model,
                                   .train = data->train,
                                   .batch = 4,
                                   .shards = shards,
                                   .lr = 0.05,
                                   .momentum = momentum,
                                   .seed = 1,
                                   .steps_per_epoch = 70,
                                   .epochs = 1,
                                   .threads = 1};
}

static inline struct trainer *teams_trainer(const struct trainer_config *config)
{
    struct mst_error err = MST_ERROR_INIT;
    struct trainer *trainer = NULL;

    if (trainer_new(config, &trainer, &err) < 0)
        fail_msg("%s", err.text);
    return trainer;
}

struct teams_member {
    struct trainer *trainer;
    struct trainer_exchange *exchange; /* in this view */
    int cancel_fd;
    /* What to do, set by the test. */
    const uint64_t *known_steps; /* NULL: do not synchronise */
    void *extra;
    size_t extra_bytes;
    uint32_t steps;                              /* to take then; fewer when one of them is paused */
    uint64_t pause_after;                        /* ask for a pause in the step after this one; 0: never */
    int (*instead)(struct teams_member *member); /* of all that; NULL: nothing else */
    /* What came of it. */
    struct trainer_synchronised synchronised;
    struct trainer_step_stats stats; /* of the last step */
    int code;
    struct mst_error err;
};

static inline enum trainer_method teams_method(enum teams_kind kind)
{
    return kind == TEAMS_FACTORS ? TRAINER_FACTORS : kind == TEAMS_SHARDED ? TRAINER_SHARDED : TRAINER_SUM;
}

/* Connect members[0 .. world) in this order. */
static inline void teams_meet(struct teams_member *members, uint32_t world, uint32_t shards,
                              enum teams_kind kind)
{
    const struct rings_sockets ring =
        rings_connect(kind == TEAMS_RING && world <= RINGS_MAX_WORLD ? world : 1, RINGS_SOCKET_PAIRS);
    struct meshes_sockets mesh;

    meshes_connect(&mesh, kind == TEAMS_RING ? 1 : world, RINGS_SOCKET_PAIRS);
    for (uint32_t rank = 0; rank < world; rank++) {
        struct trainer_ring_options ring_options = {0};
        struct trainer_direct_options direct_options = meshes_options(&mesh, rank, world, shards);
        if (kind == TEAMS_RING)
            ring_options = rings_options(&ring, rank, world);
        ring_options.cancel_fd = direct_options.cancel_fd =
            members[rank].cancel_fd > 0 ? members[rank].cancel_fd : -1;
        members[rank].exchange = kind == TEAMS_RING ? rings_new(&ring_options) : meshes_new(&direct_options);
        assert_int_equal(trainer_set_method(members[rank].trainer, teams_method(kind), NULL), 0);
        assert_int_equal(trainer_set_exchange(members[rank].trainer, members[rank].exchange, NULL), 0);
    }
}

static inline void teams_part(struct teams_member *members, uint32_t world)
{
    for (uint32_t rank = 0; rank < world; rank++) {
        assert_int_equal(trainer_set_exchange(members[rank].trainer, NULL, NULL), 0);
        trainer_exchange_free(members[rank].exchange);
        members[rank].exchange = NULL;
    }
}

static inline void *teams_work(void *argument)
{
    struct teams_member *member = argument;

    member->code = 0;
    if (member->instead) {
        member->code = member->instead(member);
        return NULL;
    }
    if (member->known_steps)
        member->code = trainer_synchronise(member->trainer, member->known_steps, member->extra,
                                           member->extra_bytes, &member->synchronised, &member->err);
    member->stats.paused = false;
    for (uint32_t i = 0; i < member->steps && member->code == 0 && !member->stats.paused; i++)
        member->code = trainer_step(member->trainer,
                                    member->pause_after > 0 &&
                                        trainer_steps_done(member->trainer) >= member->pause_after,
                                    &member->stats, &member->err);
    if (member->code == 0)
        member->code = trainer_gather_parameters(member->trainer, &member->err);
    return NULL;
}

static inline void teams_run(struct teams_member *members, uint32_t world)
{
    rings_run(world, teams_work, members, sizeof members[0]);
}

static inline void teams_check_codes(const struct teams_member *members, uint32_t world)
{
    for (uint32_t rank = 0; rank < world; rank++) {
        if (members[rank].code < 0)
            fail_msg("world %u, rank %u: %s", world, rank, members[rank].err.text);
    }
}

/* Parameters, what the optimizer remembers, and step, to the bit. */
static inline bool teams_same_state(const struct trainer *a, const struct trainer *b)
{
    const size_t bytes = a->count * sizeof(float);

    return a->step == b->step && a->count == b->count &&
           memcmp(a->parameters[a->current], b->parameters[b->current], bytes) == 0 &&
           a->state_count == b->state_count &&
           (a->state_count < 1 || memcmp(a->states[a->current][0], b->states[b->current][0], bytes) == 0) &&
           (a->state_count < 2 || memcmp(a->states[a->current][1], b->states[b->current][1], bytes) == 0);
}

/* Whatever bits, other ones for each `seed`: NaN, infinities and zeros of both signs among them. */
static inline void teams_set_state(struct trainer *trainer, uint64_t step, uint32_t seed)
{
    static const float odd[] = {-0.0f, 0.0f, 1.0f / 0.0f, -1.0f / 0.0f, 0.0f / 0.0f};
    uint32_t bits = seed * 2654435761u + 1;

    for (size_t i = 0; i < trainer->count; i++) {
        bits = bits * 1664525u + 1013904223u;
        memcpy(&trainer->parameters[trainer->current][i], &bits, sizeof bits);
        if (trainer->states[0][0])
            trainer->states[trainer->current][0][i] =
                (bits >> 20) % 7 < 5 ? odd[(bits >> 20) % 7] : (float)bits;
    }
    trainer->step = step;
}

#define TEAMS_MAX_MEMBERS 5

/* One view of a run: which members, by number, take how many steps. */
struct teams_view {
    uint32_t members[TEAMS_MAX_MEMBERS], world, steps;
};

/* All members begin with the same seed; those that were away, or are new, take the state of the others. */
static inline void teams_run_views(const struct trainer_config *config, enum teams_kind kind,
                                   const struct teams_view *views, size_t count, struct trainer **ret_last)
{
    struct teams_member pool[TEAMS_MAX_MEMBERS] = {0};
    uint32_t last = 0;

    for (uint32_t i = 0; i < TEAMS_MAX_MEMBERS; i++)
        pool[i].trainer = teams_trainer(config);
    for (size_t v = 0; v < count; v++) {
        struct teams_member members[TEAMS_MAX_MEMBERS] = {0};
        uint64_t steps[TEAMS_MAX_MEMBERS];
        for (uint32_t rank = 0; rank < views[v].world; rank++) {
            members[rank] = (struct teams_member){.trainer = pool[views[v].members[rank]].trainer,
                                                  .known_steps = steps,
                                                  .steps = views[v].steps};
            steps[rank] = trainer_steps_done(members[rank].trainer);
        }
        teams_meet(members, views[v].world, config->shards, kind);
        teams_run(members, views[v].world);
        teams_check_codes(members, views[v].world);
        for (uint32_t rank = 1; rank < views[v].world; rank++)
            assert_true(teams_same_state(members[rank].trainer, members[0].trainer));
        teams_part(members, views[v].world);
        last = views[v].members[0];
    }
    *ret_last = pool[last].trainer;
    for (uint32_t i = 0; i < TEAMS_MAX_MEMBERS; i++) {
        if (i != last)
            trainer_free(pool[i].trainer);
    }
}

static inline double teams_largest_difference(const struct trainer *a, const struct trainer *b)
{
    double largest = 0;

    for (size_t i = 0; i < a->count; i++)
        largest =
            fmax(largest, fabs((double)a->parameters[a->current][i] - (double)b->parameters[b->current][i]));
    return largest;
}

#endif
