/* SPDX-License-Identifier: Apache-2.0 */
/* The training's results: histories, step logs and the model, in the folder of `--out`. */
#include "muster/cleanup.h"
#include "muster/file.h"
#include "muster/log.h"
#include "train_private.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define STEP_LOG_FILE_NAME "steps"
#define FILE_MODE          0644
#define FOLDER_MODE        0755

/* "OUT/KIND-SLOT.SUFFIX", the caller's to free; NULL without memory. */
static char *result_path(const struct train *train, const char *kind, const char *suffix)
{
    return mst_format("%s/%s-%s.%s", train->site.config->out, kind, train->slot, suffix);
}

/* What cannot be written at the end is told before the work. */
static int check_outputs(const struct train *train, struct mst_error *err)
{
    static const char *const names[] = {TRAIN_MODEL_FILE_NAME, TRAIN_BEST_FILE_NAME, TRAIN_NPZ_FILE_NAME,
                                        TRAIN_ONNX_FILE_NAME};
    int r = 0;
    for (size_t i = 0; i < MST_ARRAY_COUNT(names) && r == 0; i++) {
        mst_cleanup(mst_freep) char *path = mst_path_join(train->site.config->out, names[i]);
        r = path ? mst_file_check_output(path, err)
                 : mst_error_set(err, -ENOMEM, "name the model files: no memory");
    }
    return r;
}

int train_make_history(struct train *train, struct mst_error *err)
{
    mst_cleanup(mst_freep) char *path = result_path(train, "history", "csv");
    if (!path)
        return mst_error_set(err, -ENOMEM, "name the history file: no memory");
    int r = mst_make_folders(train->site.config->out, FOLDER_MODE, err);
    if (r == 0)
        r = check_outputs(train, err);
    return r < 0 ? r : trainer_history_new(path, train->slot, &train->history, err);
}

/* Whatever `--save-formats` asks for besides. */
static int save_others(struct train *train, struct mst_error *err)
{
    const struct agent_config *config = train->site.config;
    mst_cleanup(mst_freep) char *npz = mst_path_join(config->out, TRAIN_NPZ_FILE_NAME);
    mst_cleanup(mst_freep) char *onnx = mst_path_join(config->out, TRAIN_ONNX_FILE_NAME);
    if (!npz || !onnx)
        return mst_error_set(err, -ENOMEM, "name the model files: no memory");
    const int r = config->npz ? trainer_save_npz(train->trainer, npz, NULL, err) : 0;
    return r == 0 && config->onnx ? trainer_save_onnx(train->trainer, onnx, NULL, err) : r;
}

/* What an earlier training left in the folder and this one does not write would be taken for this one's. */
static int warn_of_others(const struct train *train, struct mst_error *err)
{
    const struct agent_config *config = train->site.config;
    const struct {
        bool written;
        const char *name;
    } files[] = {
        {train->data.validation != NULL, TRAIN_BEST_FILE_NAME},
        {config->npz, TRAIN_NPZ_FILE_NAME},
        {config->onnx, TRAIN_ONNX_FILE_NAME},
    };
    for (size_t i = 0; i < MST_ARRAY_COUNT(files); i++) {
        mst_cleanup(mst_freep) char *path =
            files[i].written ? NULL : mst_path_join(config->out, files[i].name);
        if (!files[i].written && !path)
            return mst_error_set(err, -ENOMEM, "name the model files: no memory");
        if (path && access(path, F_OK) == 0)
            mst_log_warn("train", "'%s' is not of this training: it was there before", path);
    }
    return 0;
}

int train_save(void *state, struct mst_error *err)
{
    struct train *train = state;
    struct trainer_saved saved;
    /* First, so that parameters with which the loss is no number take no model's place. */
    (void)profile_enter(&train->profile, TRAIN_TEST);
    int r = train->data.test ? trainer_evaluate(train->trainer, &train->test, err) : 0;
    if (r < 0)
        return mst_error_wrap(err, r, "test");
    (void)profile_enter(&train->profile, TRAIN_SAVING);
    mst_cleanup(mst_freep) char *path = mst_path_join(train->site.config->out, TRAIN_MODEL_FILE_NAME);
    if (!path)
        return mst_error_set(err, -ENOMEM, "name the model file: no memory");
    r = trainer_save(train->trainer, path, &saved, err);
    if (r == 0)
        r = save_others(train, err);
    if (r == 0)
        r = warn_of_others(train, err);
    if (r < 0)
        return r;
    train_report_saved(train, path, &saved);
    if (!train->site.config->step_log)
        return 0;

    mst_cleanup(mst_freep) char *log_path = result_path(train, STEP_LOG_FILE_NAME, "csv");
    if (!log_path)
        return mst_error_set(err, -ENOMEM, "name the step log: no memory");
    return mst_file_write_atomic(log_path, mst_buf_text(&train->step_log), train->step_log.count, FILE_MODE,
                                 err);
}

/* Every worker hands on its history and its list of hosts; the models are equal, so one is enough. */
int train_file(void *state, size_t index, struct job_file *ret_file, struct mst_error *err)
{
    const struct train *train = state;
    mst_cleanup(mst_freep) char *ips = result_path(train, "ips", "xml");
    mst_cleanup(mst_freep) char *best =
        train->data.validation ? mst_path_join(train->site.config->out, TRAIN_BEST_FILE_NAME) : NULL;
    const struct {
        bool wanted;
        const char *kind, *suffix;
    } files[] = {
        {true, "history", "csv"},
        {train->site.config->step_log, STEP_LOG_FILE_NAME, "csv"},
        {train->rank == 0, TRAIN_MODEL_FILE_NAME, NULL},
        {train->rank == 0 && train->site.config->npz, TRAIN_NPZ_FILE_NAME, NULL},
        {train->rank == 0 && train->site.config->onnx, TRAIN_ONNX_FILE_NAME, NULL},
        {train->rank == 0 && best && access(best, R_OK) == 0, TRAIN_BEST_FILE_NAME, NULL},
        /* Last, for it may come late: the agent writes it when its first sweep is complete, and a training of
         * a few steps may be over before that. */
        {ips && access(ips, R_OK) == 0, "ips", "xml"},
    };
    mst_cleanup(job_file_release) struct job_file file = {0};
    size_t next = 0;
    for (size_t f = 0; f < MST_ARRAY_COUNT(files); f++) {
        if (!files[f].wanted || next++ != index)
            continue;
        file.name = files[f].suffix ? mst_format("%s-%s.%s", files[f].kind, train->slot, files[f].suffix)
                                    : strdup(files[f].kind);
        file.path = file.name ? mst_path_join(train->site.config->out, file.name) : NULL;
        if (!file.path)
            return mst_error_set(err, -ENOMEM, "name a result file: no memory");
        *ret_file = file;
        file = (struct job_file){0};
        return 1;
    }
    return 0;
}
