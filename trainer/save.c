/* SPDX-License-Identifier: Apache-2.0 */
#include "save.h"

#include "muster/cleanup.h"
#include "muster/json.h"
#include "muster/parse.h"
#include "safetensors.h"
#include "trainer_state.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* For readers in other languages, where the order of dims differs. */
#define LAYOUT                                                                                               \
    "channels last: conv2d weight (row, column, in, out), dense weight (in, out), flatten (row, column, "    \
    "channel)"

#define ENCODING_KEY "encoding"

#define EXTRA_HEX_BYTES (2 * TRAINER_MAX_EXTRA_BYTES + 1)

/* The tensors of one copy of the model's floats, named as they are, with `suffix` behind. */
static size_t list_arena(const struct trainer_model *model, float *arena, const char *suffix, bool optional,
                         struct safetensors_entry *entries)
{
    size_t count = 0;

    for (size_t i = 0; i < model->layer_count; i++) {
        const struct trainer_layer *layer = &model->layers[i];
        for (size_t t = 0; t < layer->tensor_count; t++, count++) {
            const struct trainer_tensor *tensor = &layer->tensors[t];
            (void)snprintf(entries[count].name, sizeof entries[count].name, "%s.%s%s", layer->name,
                           tensor->role, suffix);
            entries[count].shape = tensor->shape;
            entries[count].values = arena ? arena + tensor->offset : NULL;
            entries[count].optional = optional;
        }
    }
    return count;
}

/* What files may have behind the parameters: arrays of one kind of optimizer. The first is none. */
static const struct kind {
    const char *names[TRAINER_MAX_STATES];
    size_t count;
} kinds[] = {{{NULL}, 0}, {{"momentum"}, 1}, {{"adam_m", "adam_v"}, 2}};

static const struct kind *own_kind(const struct trainer_config *config)
{
    return &kinds[trainer_optimizer_states(config)];
}

/* With the arrays of a kind behind the parameters. Of a kind that is not the state's own they are not wanted.
 */
static int list_tensors(const struct save_state *state, const struct kind *kind,
                        struct safetensors_entry **ret_entries, size_t *ret_count, struct mst_error *err)
{
    const struct trainer_model *model = state->config->model;
    const size_t most = (1 + TRAINER_MAX_STATES) * model->layer_count * TRAINER_LAYER_MAX_TENSORS;
    const bool own = kind == own_kind(state->config);
    struct safetensors_entry *entries = calloc(most, sizeof *entries);

    if (!entries)
        return mst_error_set(err, -ENOMEM, "no memory for the list of tensors");
    size_t count = list_arena(model, state->parameters, "", false, entries);
    for (size_t s = 0; s < kind->count; s++) {
        char suffix[32];
        (void)snprintf(suffix, sizeof suffix, ".%s", kind->names[s]);
        count += list_arena(model, own ? state->states[s] : NULL, suffix, true, entries + count);
    }
    *ret_entries = entries;
    *ret_count = count;
    return 0;
}

/* ---- metadata ------------------------------------------------------------------------------------------ */

__attribute__((format(printf, 3, 4))) static bool add_text(cJSON *json, const char *key, const char *format,
                                                           ...)
{
    char text[256];
    va_list arguments;

    va_start(arguments, format);
    (void)vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    return cJSON_AddStringToObject(json, key, text) != NULL;
}

static int describe(const struct save_state *state, const char *digest, cJSON **ret_metadata,
                    struct mst_error *err)
{
    const struct trainer_config *config = state->config;
    cJSON *json = cJSON_CreateObject();

    /* "format": "pt" is what loaders of other frameworks look for; it says nothing about the layout. */
    if (!json || !add_text(json, "format", "pt") || !add_text(json, "model", "%s", config->model->name) ||
        !add_text(json, "layout", "%s", LAYOUT) || !add_text(json, "step", "%" PRIu64, state->step) ||
        !add_text(json, "epoch", "%" PRIu64, state->step / config->steps_per_epoch) ||
        !add_text(json, "steps_per_epoch", "%" PRIu32, config->steps_per_epoch) ||
        !add_text(json, "seed", "%" PRIu64, config->seed) ||
        !add_text(json, "shards", "%" PRIu32, config->shards) ||
        !add_text(json, "batch", "%" PRIu32, config->batch) || !add_text(json, "lr", "%.17g", config->lr) ||
        !add_text(json, "momentum", "%.17g", config->momentum) || !add_text(json, "digest", "%s", digest)) {
        cJSON_Delete(json);
        return mst_error_set(err, -ENOMEM, "no memory for the metadata");
    }
    if (config->encoding && !cJSON_AddStringToObject(json, ENCODING_KEY, config->encoding)) {
        cJSON_Delete(json);
        return mst_error_set(err, -ENOMEM, "no memory for the metadata");
    }
    *ret_metadata = json;
    return 0;
}

/* SHA-256 over what a checkpoint depends on: these texts, each with a newline, then the floats. The header of
 * a file is not in the digest of its data. */
static int seal(const cJSON *metadata, const struct save_state *state,
                char ret_hex[static MST_SHA256_HEX_BYTES], struct mst_error *err)
{
    static const char *const keys[] = {"model", "step", "job", "run", "extra"};
    const size_t bytes = state->config->model->parameters * sizeof(float);
    mst_cleanup(mst_sha256_release) struct mst_sha256 sha = {0};
    uint8_t digest[MST_SHA256_BYTES];

    int r = mst_sha256_init(&sha, err);
    for (size_t i = 0; i < MST_ARRAY_COUNT(keys) && r >= 0; i++) {
        const char *text = mst_json_string_or(metadata, keys[i], "");
        r = mst_sha256_update(&sha, text, strlen(text), err);
        if (r >= 0)
            r = mst_sha256_update(&sha, "\n", 1, err);
    }
    if (r >= 0)
        r = mst_sha256_update(&sha, state->parameters, bytes, err);
    for (size_t s = 0; s < TRAINER_MAX_STATES && r >= 0; s++) {
        if (state->states[s])
            r = mst_sha256_update(&sha, state->states[s], bytes, err);
    }
    if (r >= 0)
        r = mst_sha256_finish(&sha, digest, err);
    if (r >= 0)
        mst_hex(digest, sizeof digest, ret_hex);
    return r;
}

static int add_marks(cJSON *json, const struct save_state *state, const struct save_marks *marks,
                     struct mst_error *err)
{
    mst_cleanup(mst_freep) char *extra = malloc(EXTRA_HEX_BYTES);
    char job[MST_SHA256_HEX_BYTES], sealed[MST_SHA256_HEX_BYTES];

    if (!extra)
        return mst_error_set(err, -ENOMEM, "no memory for the metadata");
    mst_hex(marks->job, MST_SHA256_BYTES, job);
    mst_hex(marks->extra, marks->extra_bytes, extra);
    /* add_text() would cut the last one. */
    if (!add_text(json, "job", "%s", job) || !add_text(json, "run", "%s", marks->run) ||
        !cJSON_AddStringToObject(json, "extra", extra))
        return mst_error_set(err, -ENOMEM, "no memory for the metadata");
    const int r = seal(json, state, sealed, err);
    if (r < 0)
        return r;
    return add_text(json, "seal", "%s", sealed) ? 0
                                                : mst_error_set(err, -ENOMEM, "no memory for the metadata");
}

/* ---- writing ------------------------------------------------------------------------------------------- */

int save_write(const char *path, const struct save_state *state, const struct save_marks *marks,
               struct trainer_saved *ret_saved, struct mst_error *err)
{
    mst_cleanup(mst_freep) struct safetensors_entry *entries = NULL;
    mst_cleanup(mst_json_deletep) cJSON *metadata = NULL;
    uint8_t digest[MST_SHA256_BYTES];
    struct trainer_saved saved;
    size_t count;

    int r = mst_sha256(state->parameters, state->config->model->parameters * sizeof(float), digest, err);
    if (r < 0)
        return mst_error_wrap(err, r, "save '%s'", path);
    mst_hex(digest, sizeof digest, saved.digest);
    r = list_tensors(state, &kinds[marks && state->states[0] ? trainer_optimizer_states(state->config) : 0],
                     &entries, &count, err);
    if (r >= 0)
        r = describe(state, saved.digest, &metadata, err);
    if (r >= 0 && marks)
        r = add_marks(metadata, state, marks, err);
    if (r >= 0)
        r = safetensors_write(path, entries, count, metadata, &saved.bytes, err);
    if (r >= 0 && ret_saved)
        *ret_saved = saved;
    return r;
}

int trainer_save(const struct trainer *trainer, const char *path, struct trainer_saved *ret_saved,
                 struct mst_error *err)
{
    const struct save_state state = {.config = &trainer->config,
                                     .step = trainer->step,
                                     .parameters = trainer->parameters[trainer->current]};

    /* A gradient may have been too large in the last step of all, where no loss after it tells. */
    for (size_t i = 0; i < trainer->count; i++) {
        if (!isfinite(state.parameters[i]))
            return mst_error_set(err, -ERANGE,
                                 "save '%s': after step %" PRIu64
                                 " parameter %zu is not a finite number: not written",
                                 path, trainer->step, i);
    }
    return save_write(path, &state, NULL, ret_saved, err);
}

/* ---- reading ------------------------------------------------------------------------------------------- */

/* The data part is what was hashed: a flipped bit anywhere in it shows. */
static int check_digest(const char *path, const struct save_state *state, const cJSON *metadata,
                        struct mst_error *err)
{
    const char *expected = mst_json_string_or(metadata, "digest", NULL);
    uint8_t digest[MST_SHA256_BYTES];
    char text[MST_SHA256_HEX_BYTES];

    if (!expected) /* a file from elsewhere */
        return 0;
    const int r =
        mst_sha256(state->parameters, state->config->model->parameters * sizeof(float), digest, err);
    if (r < 0)
        return r;
    mst_hex(digest, sizeof digest, text);
    if (strcmp(text, expected) != 0)
        return mst_error_set(
            err, -EBADMSG, "read '%s': damaged: its parameters do not have the digest in its metadata", path);
    return 0;
}

static int check_seal(const char *path, const struct save_state *state, const cJSON *metadata,
                      struct mst_error *err)
{
    const char *expected = mst_json_string_or(metadata, "seal", NULL);
    char text[MST_SHA256_HEX_BYTES];

    if (!expected)
        return 0;
    const int r = seal(metadata, state, text, err);
    if (r < 0)
        return r;
    if (strcmp(text, expected) != 0)
        return mst_error_set(err, -EBADMSG,
                             "read '%s': damaged: its content does not have the seal in its "
                             "metadata",
                             path);
    return 0;
}

/* Of one kind; *ret_there: the file has its arrays. */
static int read_kind(const char *path, const struct save_state *state, const struct kind *kind,
                     bool *ret_there, cJSON **ret_metadata, struct mst_error *err)
{
    mst_cleanup(mst_freep) struct safetensors_entry *entries = NULL;
    size_t count;

    const int r = list_tensors(state, kind, &entries, &count, err);
    return r < 0 ? r : safetensors_read(path, entries, count, ret_there, ret_metadata, err);
}

/* A file may come from a run with another optimizer: its arrays are passed over. The error is that of the
 * own kind. */
static int read_arrays(const char *path, const struct save_state *state, bool *ret_own, bool *ret_foreign,
                       cJSON **ret_metadata, struct mst_error *err)
{
    const struct kind *own = own_kind(state->config);
    bool there = false;

    const int r = read_kind(path, state, own, &there, ret_metadata, err);
    *ret_own = r >= 0 && there;
    *ret_foreign = false;
    for (size_t k = 0; r == -EBADMSG && k < MST_ARRAY_COUNT(kinds); k++) {
        if (&kinds[k] != own && kinds[k].count > 0 &&
            read_kind(path, state, &kinds[k], ret_foreign, ret_metadata, NULL) >= 0)
            return 0;
    }
    return r;
}

int save_read(const char *path, struct save_state *state, bool *ret_states, cJSON **ret_metadata,
              struct mst_error *err)
{
    mst_cleanup(mst_json_deletep) cJSON *metadata = NULL;
    bool own, foreign;
    uint64_t step = 0;

    int r = read_arrays(path, state, &own, &foreign, &metadata, err);
    if (r >= 0)
        r = check_digest(path, state, metadata, err);
    /* A seal is over arrays that were not read, too, and cannot be checked then. */
    if (r >= 0 && !foreign && (!own || state->states[0]))
        r = check_seal(path, state, metadata, err);
    if (r < 0)
        return r;
    const char *step_text = mst_json_string_or(metadata, "step", NULL);
    if (step_text) {
        r = mst_parse_u64(step_text, 0, UINT64_MAX >> 8, &step, err);
        if (r < 0)
            return mst_error_wrap(err, -EBADMSG, "read '%s': metadata 'step'", path);
    }
    for (size_t s = 0; s < TRAINER_MAX_STATES; s++) {
        if (state->states[s] && !own)
            memset(state->states[s], 0, state->config->model->parameters * sizeof(float));
    }
    state->step = step;
    *ret_states = own;
    *ret_metadata = metadata;
    metadata = NULL;
    return 0;
}

static int from_hex(char digit)
{
    return digit >= '0' && digit <= '9' ? digit - '0' : digit >= 'a' && digit <= 'f' ? digit - 'a' + 10 : -1;
}

static bool read_hex(const char *text, uint8_t *bytes, size_t count)
{
    bool fits = strlen(text) == 2 * count;

    for (size_t i = 0; i < count && fits; i++) {
        const int high = from_hex(text[2 * i]), low = from_hex(text[2 * i + 1]);
        fits = high >= 0 && low >= 0;
        bytes[i] = (uint8_t)(fits ? high << 4 | low : 0);
    }
    return fits;
}

int save_check_marks(const char *path, const cJSON *metadata, const struct save_marks *marks,
                     uint8_t *ret_extra, struct mst_error *err)
{
    const char *run = mst_json_string_or(metadata, "run", "");
    uint8_t extra[TRAINER_MAX_EXTRA_BYTES];
    char job[MST_SHA256_HEX_BYTES];

    if (!mst_json_string_or(metadata, "seal", NULL))
        return mst_error_set(err, -EBADMSG, "'%s' is no checkpoint: it has no seal", path);
    mst_hex(marks->job, MST_SHA256_BYTES, job);
    if (strcmp(mst_json_string_or(metadata, "job", ""), job) != 0)
        return mst_error_set(err, -EBADMSG, "'%s' is of another job", path);
    if (strcmp(run, marks->run) != 0)
        return mst_error_set(err, -EBADMSG, "'%s' is of run '%s', this is run '%s'", path, run, marks->run);
    if (!read_hex(mst_json_string_or(metadata, "extra", ""), extra, marks->extra_bytes))
        return mst_error_set(err, -EBADMSG, "'%s' does not have the %zu bytes besides the state", path,
                             marks->extra_bytes);
    if (marks->extra_bytes > 0)
        memcpy(ret_extra, extra, marks->extra_bytes);
    return 0;
}

int trainer_load(struct trainer *trainer, const char *path, struct mst_error *err)
{
    const size_t next = 1 - trainer->current;
    mst_cleanup(mst_json_deletep) cJSON *metadata = NULL;
    struct save_state state = {.config = &trainer->config, .parameters = trainer->parameters[next]};
    bool states;

    memcpy(state.states, trainer->states[next], sizeof state.states);
    const int r = save_read(path, &state, &states, &metadata, err);
    if (r < 0)
        return r;
    trainer->current = next;
    trainer->step = state.step;
    return 0;
}

int trainer_load_parameters(struct trainer *trainer, const char *path, struct mst_error *err)
{
    const size_t next = 1 - trainer->current;
    mst_cleanup(mst_json_deletep) cJSON *metadata = NULL;
    struct save_state state = {.config = &trainer->config, .parameters = trainer->parameters[next]};
    bool states;

    memcpy(state.states, trainer->states[next], sizeof state.states);
    const int r = save_read(path, &state, &states, &metadata, err);
    if (r < 0)
        return r;
    for (size_t i = 0; i < trainer->count; i++) {
        if (!isfinite(state.parameters[i]))
            return mst_error_set(err, -EBADMSG, "read '%s': parameter %zu is not a finite number", path, i);
    }
    for (size_t s = 0; s < TRAINER_MAX_STATES; s++) {
        if (trainer->states[next][s])
            memset(trainer->states[next][s], 0, trainer->count * sizeof(float));
    }
    trainer->current = next;
    trainer->step = 0;
    return 0;
}

int trainer_saved_encoding(const char *path, char **ret_encoding, struct mst_error *err)
{
    mst_cleanup(mst_json_deletep) cJSON *metadata = NULL;

    const int r = safetensors_read_metadata(path, &metadata, err);
    if (r < 0)
        return r;
    const char *text = mst_json_string_or(metadata, ENCODING_KEY, NULL);
    char *copy = text ? strdup(text) : NULL;
    if (text && !copy)
        return mst_error_set(err, -ENOMEM, "read '%s': no memory", path);
    *ret_encoding = copy;
    return 0;
}
