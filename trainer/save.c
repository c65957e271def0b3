/* SPDX-License-Identifier: Apache-2.0 */
#include "muster/cleanup.h"
#include "muster/json.h"
#include "muster/parse.h"
#include "safetensors.h"
#include "trainer_state.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* For readers in other languages, where the order of dims differs. */
#define LAYOUT                                                                                               \
    "channels last: conv2d weight (row, column, in, out), dense weight (in, out), flatten (row, column, "    \
    "channel)"

static int list_tensors(const struct trainer_model *model, struct safetensors_entry **ret_entries,
                        size_t *ret_count, struct mst_error *err)
{
    const size_t most = model->layer_count * TRAINER_LAYER_MAX_TENSORS;
    struct safetensors_entry *entries = calloc(most, sizeof *entries);
    size_t count = 0;

    if (!entries)
        return mst_error_set(err, -ENOMEM, "no memory for the list of tensors");
    for (size_t i = 0; i < model->layer_count; i++) {
        const struct trainer_layer *layer = &model->layers[i];
        for (size_t t = 0; t < layer->tensor_count; t++, count++) {
            (void)snprintf(entries[count].name, sizeof entries[count].name, "%s.%s", layer->name,
                           layer->tensors[t].role);
            entries[count].shape = layer->tensors[t].shape;
        }
    }
    *ret_entries = entries;
    *ret_count = count;
    return 0;
}

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

static int describe(const struct trainer *trainer, const char *digest, cJSON **ret_metadata,
                    struct mst_error *err)
{
    const struct trainer_config *config = &trainer->config;
    cJSON *json = cJSON_CreateObject();

    /* "format": "pt" is what loaders of other frameworks look for; it says nothing about the layout. */
    if (!json || !add_text(json, "format", "pt") || !add_text(json, "model", "%s", config->model->name) ||
        !add_text(json, "layout", "%s", LAYOUT) || !add_text(json, "step", "%" PRIu64, trainer->step) ||
        !add_text(json, "epoch", "%" PRIu64, trainer->step / config->steps_per_epoch) ||
        !add_text(json, "steps_per_epoch", "%" PRIu32, config->steps_per_epoch) ||
        !add_text(json, "seed", "%" PRIu64, config->seed) ||
        !add_text(json, "shards", "%" PRIu32, config->shards) ||
        !add_text(json, "batch", "%" PRIu32, config->batch) || !add_text(json, "lr", "%.17g", config->lr) ||
        !add_text(json, "momentum", "%.17g", config->momentum) || !add_text(json, "digest", "%s", digest)) {
        cJSON_Delete(json);
        return mst_error_set(err, -ENOMEM, "no memory for the metadata");
    }
    *ret_metadata = json;
    return 0;
}

int trainer_save(const struct trainer *trainer, const char *path, struct trainer_saved *ret_saved,
                 struct mst_error *err)
{
    mst_cleanup(mst_freep) struct safetensors_entry *entries = NULL;
    mst_cleanup(mst_json_deletep) cJSON *metadata = NULL;
    uint8_t digest[MST_SHA256_BYTES];
    struct trainer_saved saved;
    size_t count;

    int r = trainer_digest(trainer, digest, err);
    if (r < 0)
        return mst_error_wrap(err, r, "save '%s'", path);
    mst_hex(digest, sizeof digest, saved.digest);
    r = list_tensors(trainer->config.model, &entries, &count, err);
    if (r >= 0)
        r = describe(trainer, saved.digest, &metadata, err);
    if (r >= 0)
        r = safetensors_write(path, entries, count, trainer->parameters[trainer->current], metadata,
                              &saved.bytes, err);
    if (r >= 0 && ret_saved)
        *ret_saved = saved;
    return r;
}

/* The data part is what was hashed: a flipped bit anywhere in it shows. */
static int check_digest(const struct trainer *trainer, const char *path, const float *values,
                        const cJSON *metadata, struct mst_error *err)
{
    const char *expected = mst_json_string_or(metadata, "digest", NULL);
    uint8_t digest[MST_SHA256_BYTES];
    char text[MST_SHA256_HEX_BYTES];

    if (!expected) /* a file from elsewhere */
        return 0;
    const int r = mst_sha256(values, trainer->count * sizeof *values, digest, err);
    if (r < 0)
        return r;
    mst_hex(digest, sizeof digest, text);
    if (strcmp(text, expected) != 0)
        return mst_error_set(
            err, -EBADMSG, "read '%s': damaged: its parameters do not have the digest in its metadata", path);
    return 0;
}

int trainer_load(struct trainer *trainer, const char *path, struct mst_error *err)
{
    const size_t next = 1 - trainer->current;
    mst_cleanup(mst_freep) struct safetensors_entry *entries = NULL;
    mst_cleanup(mst_json_deletep) cJSON *metadata = NULL;
    uint64_t step = 0;
    size_t count;

    int r = list_tensors(trainer->config.model, &entries, &count, err);
    if (r >= 0)
        r = safetensors_read(path, entries, count, trainer->parameters[next], &metadata, err);
    if (r >= 0)
        r = check_digest(trainer, path, trainer->parameters[next], metadata, err);
    if (r < 0)
        return r;
    const char *step_text = mst_json_string_or(metadata, "step", NULL);
    if (step_text) {
        r = mst_parse_u64(step_text, 0, UINT64_MAX >> 8, &step, err);
        if (r < 0)
            return mst_error_wrap(err, -EBADMSG, "read '%s': metadata 'step'", path);
    }
    if (trainer->velocity[next])
        memset(trainer->velocity[next], 0, trainer->count * sizeof(float));
    trainer->current = next;
    trainer->step = step;
    return 0;
}
