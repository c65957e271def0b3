/* SPDX-License-Identifier: Apache-2.0 */
#include "checkpoint_files.h"
#include "muster/cleanup.h"
#include "muster/clock.h"
#include "muster/file.h"
#include "muster/json.h"
#include "save.h"
#include "trainer_state.h"

#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define KEPT        2
#define FOLDER_MODE 0755

/* A copy of a trainer's state, which the thread writes while the trainer goes on. */
struct snapshot {
    struct trainer_config config;
    uint64_t step;
    size_t floats;                     /* in each of the arrays */
    float *parameters;                 /* owned */
    float *states[TRAINER_MAX_STATES]; /* owned; NULL: none */
    uint8_t extra[TRAINER_MAX_EXTRA_BYTES];
    size_t extra_bytes;
};

struct outcome {
    int code; /* 1: written; 0: nothing to tell; else the error */
    struct trainer_checkpoint checkpoint;
    struct mst_error err;
};

struct trainer_checkpoints {
    char *folder, *run; /* owned */
    uint8_t job[MST_SHA256_BYTES];
    uint64_t skipped;
    struct outcome outcome; /* of the last write that was waited for, until it is told */

    pthread_t thread;
    bool running; /* there is a thread to be joined; until then it alone uses the next three */
    struct snapshot snapshot;
    uint64_t kept[KEPT]; /* steps of the newest checkpoints of this run, the newest first */
    size_t kept_count;

    pthread_mutex_t lock;     /* guards the following */
    bool finished;            /* by the thread: joining will not wait */
    struct outcome finishing; /* what the thread leaves */
};

/* ---- writing ------------------------------------------------------------------------------------------- */

static void keep(struct trainer_checkpoints *checkpoints, uint64_t step)
{
    if (checkpoints->kept_count > 0 && checkpoints->kept[0] == step)
        return;
    checkpoints->kept[1] = checkpoints->kept[0];
    checkpoints->kept[0] = step;
    if (checkpoints->kept_count < KEPT)
        checkpoints->kept_count++;
}

static int write_snapshot(struct trainer_checkpoints *checkpoints, struct trainer_checkpoint *ret_checkpoint,
                          struct mst_error *err)
{
    const uint64_t start_ns = mst_now_ns();
    const struct snapshot *snapshot = &checkpoints->snapshot;
    struct save_state state = {
        .config = &snapshot->config, .step = snapshot->step, .parameters = snapshot->parameters};
    const struct save_marks marks = {.job = checkpoints->job,
                                     .run = checkpoints->run,
                                     .extra = snapshot->extra,
                                     .extra_bytes = snapshot->extra_bytes};
    struct trainer_saved saved;

    memcpy(state.states, snapshot->states, sizeof state.states);
    checkpoint_files_name(snapshot->step, ret_checkpoint->name);
    mst_cleanup(mst_freep) char *path = mst_path_join(checkpoints->folder, ret_checkpoint->name);
    int r = path ? save_write(path, &state, &marks, &saved, err)
                 : mst_error_set(err, -ENOMEM, "write a checkpoint: no memory");
    if (r < 0)
        return r;
    keep(checkpoints, snapshot->step);
    r = checkpoint_files_prune(checkpoints->folder, checkpoints->kept, checkpoints->kept_count, err);
    ret_checkpoint->step = snapshot->step;
    ret_checkpoint->bytes = saved.bytes;
    ret_checkpoint->ms = mst_ms_since(start_ns);
    return r < 0 ? r : 1;
}

static void *run_thread(void *argument)
{
    struct trainer_checkpoints *checkpoints = argument;
    struct outcome outcome = {0};

    outcome.code = write_snapshot(checkpoints, &outcome.checkpoint, &outcome.err);
    (void)pthread_mutex_lock(&checkpoints->lock);
    checkpoints->finishing = outcome;
    checkpoints->finished = true;
    (void)pthread_mutex_unlock(&checkpoints->lock);
    return NULL;
}

/* Whether none is being written any more. */
static bool join(struct trainer_checkpoints *checkpoints, bool wait)
{
    if (!checkpoints->running)
        return true;
    (void)pthread_mutex_lock(&checkpoints->lock);
    const bool finished = checkpoints->finished;
    (void)pthread_mutex_unlock(&checkpoints->lock);
    if (!finished && !wait)
        return false;
    (void)pthread_join(checkpoints->thread, NULL);
    checkpoints->running = false;
    checkpoints->outcome = checkpoints->finishing;
    return true;
}

/* The process's signals are for the threads that know what to do with them. */
static int start_thread(struct trainer_checkpoints *checkpoints, struct mst_error *err)
{
    sigset_t all, before;

    checkpoints->finished = false;
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_BLOCK, &all, &before);
    const int code = pthread_create(&checkpoints->thread, NULL, run_thread, checkpoints);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (code != 0)
        return mst_error_errno(err, -code, "start a thread for a checkpoint");
    checkpoints->running = true;
    return 0;
}

static int copy_arena(float **copy, const float *floats, size_t count, struct mst_error *err)
{
    if (!floats) {
        free(*copy);
        *copy = NULL;
        return 0;
    }
    if (!*copy)
        *copy = malloc(count * sizeof **copy);
    if (!*copy)
        return mst_error_set(err, -ENOMEM, "no memory for a copy of %zu floats", count);
    memcpy(*copy, floats, count * sizeof **copy);
    return 0;
}

/* Memory is kept from one write to the next. */
static int take_snapshot(struct snapshot *snapshot, const struct trainer *trainer, const void *extra,
                         size_t extra_bytes, struct mst_error *err)
{
    if (snapshot->floats != trainer->count) {
        mst_freep(&snapshot->parameters);
        for (size_t s = 0; s < TRAINER_MAX_STATES; s++)
            mst_freep(&snapshot->states[s]);
        snapshot->floats = trainer->count;
    }
    int r = copy_arena(&snapshot->parameters, trainer->parameters[trainer->current], trainer->count, err);
    for (size_t s = 0; s < TRAINER_MAX_STATES && r >= 0; s++)
        r = copy_arena(&snapshot->states[s], trainer->states[trainer->current][s], trainer->count, err);
    if (r < 0)
        return r;
    snapshot->config = trainer->config;
    snapshot->step = trainer->step;
    snapshot->extra_bytes = extra_bytes;
    if (extra_bytes > 0)
        memcpy(snapshot->extra, extra, extra_bytes);
    return 0;
}

static int check_extra(size_t extra_bytes, struct mst_error *err)
{
    if (extra_bytes <= TRAINER_MAX_EXTRA_BYTES)
        return 0;
    return mst_error_set(err, -EINVAL, "a checkpoint with %zu bytes besides the state, expected at most %d",
                         extra_bytes, TRAINER_MAX_EXTRA_BYTES);
}

static int tell(struct trainer_checkpoints *checkpoints, struct trainer_checkpoint *ret_checkpoint,
                struct mst_error *err)
{
    const int code = checkpoints->outcome.code;

    if (code == 1 && ret_checkpoint)
        *ret_checkpoint = checkpoints->outcome.checkpoint;
    checkpoints->outcome.code = 0;
    return code < 0 ? mst_error_set(err, code, "%s", checkpoints->outcome.err.text) : code;
}

int trainer_checkpoints_write(struct trainer_checkpoints *checkpoints, const struct trainer *trainer,
                              const void *extra, size_t extra_bytes, struct mst_error *err)
{
    int r = check_extra(extra_bytes, err);
    if (r < 0)
        return r;
    if (!join(checkpoints, false)) {
        checkpoints->skipped++;
        return 1;
    }
    if (checkpoints->outcome.code < 0)
        return tell(checkpoints, NULL, err);
    r = take_snapshot(&checkpoints->snapshot, trainer, extra, extra_bytes, err);
    return r < 0 ? r : start_thread(checkpoints, err);
}

int trainer_checkpoints_result(struct trainer_checkpoints *checkpoints, bool wait,
                               struct trainer_checkpoint *ret_checkpoint, struct mst_error *err)
{
    return join(checkpoints, wait) ? tell(checkpoints, ret_checkpoint, err) : 0;
}

uint64_t trainer_checkpoints_skipped(const struct trainer_checkpoints *checkpoints)
{
    return checkpoints->skipped;
}

/* ---- restoring ----------------------------------------------------------------------------------------- */

/* Into the trainer's other arena and `extra`: 0 when all of it fits. */
static int read_checkpoint(const struct trainer_checkpoints *checkpoints, const struct trainer *trainer,
                           uint64_t step, uint8_t *extra, size_t extra_bytes,
                           struct trainer_checkpoint *ret_checkpoint, struct mst_error *err)
{
    const size_t next = 1 - trainer->current;
    struct save_state state = {.config = &trainer->config, .parameters = trainer->parameters[next]};
    const struct save_marks marks = {
        .job = checkpoints->job, .run = checkpoints->run, .extra_bytes = extra_bytes};
    mst_cleanup(mst_json_deletep) cJSON *metadata = NULL;
    struct stat status;
    bool states;

    memcpy(state.states, trainer->states[next], sizeof state.states);
    *ret_checkpoint = (struct trainer_checkpoint){.step = step};
    checkpoint_files_name(step, ret_checkpoint->name);
    mst_cleanup(mst_freep) char *path = mst_path_join(checkpoints->folder, ret_checkpoint->name);
    if (!path)
        return mst_error_set(err, -ENOMEM, "read a checkpoint: no memory");
    int r = save_read(path, &state, &states, &metadata, err);
    if (r >= 0)
        r = save_check_marks(path, metadata, &marks, extra, err);
    if (r < 0)
        return r;
    if (state.step != step)
        return mst_error_set(err, -EBADMSG, "'%s' holds the state after step %" PRIu64, path, state.step);
    if (trainer->state_count > 0 && !states)
        return mst_error_set(err, -EBADMSG, "'%s' holds no %s", path,
                             trainer_optimizer_state_name(&trainer->config, 0));
    if (stat(path, &status) == 0)
        ret_checkpoint->bytes = (uint64_t)status.st_size;
    return 0;
}

int trainer_checkpoints_any(struct trainer_checkpoints *checkpoints, struct mst_error *err)
{
    uint64_t step;

    (void)join(checkpoints, true);
    return checkpoint_files_newest(checkpoints->folder, UINT64_MAX, &step, err);
}

int trainer_checkpoints_restore(struct trainer_checkpoints *checkpoints, struct trainer *trainer, void *extra,
                                size_t extra_bytes, void (*skipped)(void *context, const char *reason),
                                void *context, struct trainer_checkpoint *ret_checkpoint,
                                struct mst_error *err)
{
    struct trainer_checkpoint checkpoint;
    uint8_t extra_read[TRAINER_MAX_EXTRA_BYTES];
    struct mst_error reason;
    uint64_t step = UINT64_MAX;

    int r = check_extra(extra_bytes, err);
    if (r < 0)
        return r;
    (void)join(checkpoints, true); /* so that the newest is there, and whole */
    for (;;) {
        r = checkpoint_files_newest(checkpoints->folder, step, &step, err);
        if (r <= 0)
            return r;
        r = read_checkpoint(checkpoints, trainer, step, extra_read, extra_bytes, &checkpoint, &reason);
        if (r >= 0)
            break;
        if (r == -ENOMEM)
            return mst_error_set(err, r, "%s", reason.text);
        if (skipped)
            skipped(context, reason.text);
    }
    trainer->current = 1 - trainer->current;
    trainer->step = step;
    if (extra_bytes > 0)
        memcpy(extra, extra_read, extra_bytes);
    keep(checkpoints, step);
    *ret_checkpoint = checkpoint;
    return 1;
}

/* ---- the folder ---------------------------------------------------------------------------------------- */

static bool is_plain_text(const char *text)
{
    while (*text && (unsigned char)*text >= ' ' && *text != 0x7f)
        text++;
    return *text == '\0';
}

/* Better said at the start than after hours, at the first checkpoint. */
static int prepare_folder(const char *folder, struct mst_error *err)
{
    const int r = mst_make_folders(folder, FOLDER_MODE, err);

    if (r < 0)
        return r;
    if (faccessat(AT_FDCWD, folder, R_OK | W_OK | X_OK, AT_EACCESS) < 0)
        return mst_error_errno(err, -errno, "keep checkpoints in '%s'", folder);
    return checkpoint_files_tidy(folder, err);
}

int trainer_checkpoints_open(const char *folder, const uint8_t job[static MST_SHA256_BYTES], const char *run,
                             struct trainer_checkpoints **ret_checkpoints, struct mst_error *err)
{
    if (strlen(run) > TRAINER_RUN_MAX_BYTES || !is_plain_text(run))
        return mst_error_set(err, -EINVAL,
                             "the run's name must have at most %d bytes and no control characters",
                             TRAINER_RUN_MAX_BYTES);
    const int r = prepare_folder(folder, err);
    if (r < 0)
        return r;
    struct trainer_checkpoints *checkpoints = calloc(1, sizeof *checkpoints);
    if (!checkpoints)
        return mst_error_set(err, -ENOMEM, "keep checkpoints: no memory");
    const int code = pthread_mutex_init(&checkpoints->lock, NULL);
    if (code != 0) {
        free(checkpoints);
        return mst_error_errno(err, -code, "keep checkpoints: make a lock");
    }
    memcpy(checkpoints->job, job, sizeof checkpoints->job);
    checkpoints->folder = strdup(folder);
    checkpoints->run = strdup(run);
    if (!checkpoints->folder || !checkpoints->run) {
        trainer_checkpoints_free(checkpoints);
        return mst_error_set(err, -ENOMEM, "keep checkpoints: no memory");
    }
    *ret_checkpoints = checkpoints;
    return 0;
}

int trainer_checkpoints_clear(struct trainer_checkpoints *checkpoints, struct mst_error *err)
{
    (void)join(checkpoints, true);
    checkpoints->kept_count = 0;
    return checkpoint_files_prune(checkpoints->folder, NULL, 0, err);
}

void trainer_checkpoints_free(struct trainer_checkpoints *checkpoints)
{
    if (!checkpoints)
        return;
    (void)join(checkpoints, true);
    (void)pthread_mutex_destroy(&checkpoints->lock);
    free(checkpoints->snapshot.parameters);
    for (size_t s = 0; s < TRAINER_MAX_STATES; s++)
        free(checkpoints->snapshot.states[s]);
    free(checkpoints->folder);
    free(checkpoints->run);
    free(checkpoints);
}
