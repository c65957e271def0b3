/* SPDX-License-Identifier: Apache-2.0 */
#include "description.h"

#include "data.h"
#include "keys.h"
#include "muster/buf.h"
#include "muster/cleanup.h"
#include "muster/file.h"
#include "muster/json.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define DEFAULT_TRAIN "train.csv"
#define DEFAULT_TEST  "test.csv"
#define DEFAULT_LABEL "label"

static const char *const formats[] = {
    [DESCRIPTION_IDX] = "idx", [DESCRIPTION_CSV] = "csv", [DESCRIPTION_IMAGES] = "images", NULL};
static const char *const idx_keys[] = {"format", NULL};
static const char *const images_keys[] = {"format", "channels", NULL};
static const char *const csv_keys[] = {"format",   "train",   "test",      "test_last", "header",
                                       "label",    "targets", "separator", "inputs",    "categorical",
                                       "encoding", "classes", "normalise", "shape",     NULL};
static const char *const *const keys_of[] = {
    [DESCRIPTION_IDX] = idx_keys, [DESCRIPTION_CSV] = csv_keys, [DESCRIPTION_IMAGES] = images_keys};

void description_release(struct description *description)
{
    free(description->path);
    cJSON_Delete(description->json);
    *description = (struct description){0};
}

static const cJSON *member(const struct description *description, const char *key)
{
    return cJSON_GetObjectItemCaseSensitive(description->json, key);
}

static int wrong(const struct description *description, const char *key, const char *expected,
                 struct mst_error *err)
{
    return mst_error_set(err, -EBADMSG, "%s: key '%s' must be %s", description->path, key, expected);
}

/* One of `names`; `fallback` when it is not there. */
static int read_choice(const struct description *description, const char *key, const char *const *names,
                       size_t fallback, size_t *ret_index, struct mst_error *err)
{
    const cJSON *json = member(description, key);

    *ret_index = fallback;
    if (!json)
        return 0;
    if (!cJSON_IsString(json))
        return wrong(description, key, "a text", err);
    for (size_t i = 0; names[i]; i++) {
        if (strcmp(names[i], json->valuestring) == 0) {
            *ret_index = i;
            return 0;
        }
    }
    char expected[TRAINER_NAMES_TEXT_BYTES];
    return mst_error_set(err, -EBADMSG, "%s: %s '%.64s', expected %s", description->path, key,
                         json->valuestring, trainer_names_text(names, expected));
}

/* A column is named by a text or by a whole number. */
static bool is_column(const cJSON *json)
{
    return cJSON_IsString(json) || (cJSON_IsNumber(json) && json->valuedouble == (double)json->valueint);
}

static int read_columns(const struct description *description, const char *key, const cJSON **ret_list,
                        struct mst_error *err)
{
    const cJSON *json = member(description, key);

    *ret_list = json;
    if (!json)
        return 0;
    bool good = cJSON_IsArray(json) && json->child;
    for (const cJSON *item = good ? json->child : NULL; item && good; item = item->next)
        good = is_column(item);
    return good ? 0 : wrong(description, key, "a list of columns (names, or places from 0)", err);
}

static int read_file_name(const struct description *description, const char *key, const char **ret_name,
                          struct mst_error *err)
{
    const cJSON *json = member(description, key);

    if (!json || cJSON_IsNull(json))
        return 0;
    if (!cJSON_IsString(json) || !mst_name_is_plain(json->valuestring))
        return wrong(description, key, "the plain name of a file in the folder", err);
    *ret_name = json->valuestring;
    return 0;
}

static int read_classes(struct description *description, struct mst_error *err)
{
    const cJSON *json = member(description, "classes");

    if (!json)
        return 0;
    if (cJSON_IsNumber(json))
        return mst_json_get_u64(description->json, "classes", 1, TRAINER_MAX_CLASSES, description->path,
                                &description->class_count, err);
    bool good = cJSON_IsArray(json) && json->child;
    for (const cJSON *item = good ? json->child : NULL; item && good; item = item->next)
        good = cJSON_IsString(item);
    description->classes = json;
    return good ? 0 : wrong(description, "classes", "a number, or a list of names", err);
}

static int read_shape(struct description *description, struct mst_error *err)
{
    const cJSON *json = member(description, "shape");
    const int count = cJSON_GetArraySize(json);
    size_t elements = 1;

    if (!json)
        return 0;
    bool good = cJSON_IsArray(json) && count >= 1 && count <= TRAINER_MAX_DIMS;
    for (const cJSON *item = good ? json->child : NULL; item && good; item = item->next) {
        const double dim = cJSON_IsNumber(item) ? item->valuedouble : 0;
        good = dim >= 1 && dim <= (double)(TRAINER_MAX_SAMPLE_SIZE / elements) && dim == (double)(size_t)dim;
        if (!good)
            break;
        description->shape.dims[description->shape.count++] = (size_t)dim;
        elements *= (size_t)dim;
    }
    return good ? 0 : wrong(description, "shape", "a list of 1 to 4 sizes", err);
}

/* One byte; the default is a comma. */
static int read_separator(struct description *description, struct mst_error *err)
{
    const cJSON *json = member(description, "separator");
    const char *text = cJSON_IsString(json) ? json->valuestring : json ? "" : ",";

    if (strlen(text) != 1 || strchr("\"\r\n", *text))
        return wrong(description, "separator", "one character that is neither a quote nor a line's end", err);
    description->separator = *text;
    return 0;
}

static int check_csv(const struct description *description, struct mst_error *err)
{
    if (!description->train && !description->test)
        return wrong(description, "train", "there: the name of a file", err);
    if (!description->label == !description->targets)
        return mst_error_set(err, -EBADMSG, "%s: exactly one of the keys 'label' and 'targets' must be there",
                             description->path);
    if (description->label && !is_column(description->label))
        return wrong(description, "label", "a column (its name, or its place from 0)", err);
    if (description->test && description->test_last > 0)
        return mst_error_set(err, -EBADMSG, "%s: keys 'test' and 'test_last' exclude each other",
                             description->path);
    return 0;
}

static int read_csv(struct description *description, struct mst_error *err)
{
    static const char *const encodings[] = {"one_hot", "index", NULL};
    static const char *const ways[] = {[DESCRIPTION_STANDARD] = "standard",
                                       [DESCRIPTION_RANGE] = "range",
                                       [DESCRIPTION_NONE] = "none",
                                       NULL};
    const cJSON *header = member(description, "header");
    size_t encoding = 0, way = 0;

    if (header && !cJSON_IsBool(header))
        return wrong(description, "header", "true or false", err);
    description->header = !cJSON_IsFalse(header);
    description->label = member(description, "label");
    int r = read_file_name(description, "train", &description->train, err);
    if (r >= 0)
        r = read_file_name(description, "test", &description->test, err);
    if (r >= 0 && member(description, "test_last"))
        r = mst_json_get_u64(description->json, "test_last", 1, TRAINER_MAX_SAMPLES, description->path,
                             &description->test_last, err);
    if (r >= 0)
        r = read_columns(description, "targets", &description->targets, err);
    if (r >= 0)
        r = read_columns(description, "inputs", &description->inputs, err);
    if (r >= 0)
        r = read_columns(description, "categorical", &description->categorical, err);
    if (r >= 0)
        r = read_choice(description, "encoding", encodings, 0, &encoding, err);
    if (r >= 0)
        r = read_choice(description, "normalise", ways, DESCRIPTION_STANDARD, &way, err);
    if (r >= 0)
        r = read_classes(description, err);
    if (r >= 0)
        r = read_shape(description, err);
    if (r >= 0)
        r = read_separator(description, err);
    description->as_index = encoding == 1;
    description->normalise = (enum description_normalise)way;
    return r < 0 ? r : check_csv(description, err);
}

static int read_images(struct description *description, struct mst_error *err)
{
    int r = 0;

    if (member(description, "channels"))
        r = mst_json_get_u64(description->json, "channels", 1, 3, description->path, &description->channels,
                             err);
    return r >= 0 && description->channels == 2 ? wrong(description, "channels", "1 or 3", err) : r;
}

/* Whatever has the name of a file is taken for it, so that one which cannot be read is told, not passed over.
 */
static bool is_there(const char *folder, const char *name, bool as_folder)
{
    mst_cleanup(mst_freep) char *path = mst_path_join(folder, name);
    struct stat status;

    if (!path)
        return false;
    if (stat(path, &status) == 0)
        return !as_folder || S_ISDIR(status.st_mode);
    /* A link to nothing is there: what it was to lead to is missed when it is opened. */
    return lstat(path, &status) == 0 ? !as_folder || S_ISLNK(status.st_mode) : errno != ENOENT && !as_folder;
}

/* What a description would say of this folder. */
static const char *look_at(const char *folder)
{
    if (data_idx_is_there(folder))
        return "{\"format\": \"idx\"}";
    if (is_there(folder, DEFAULT_TRAIN, false) && is_there(folder, DEFAULT_TEST, false))
        return "{\"format\": \"csv\", \"train\": \"" DEFAULT_TRAIN "\", \"test\": \"" DEFAULT_TEST
               "\", \"label\": \"" DEFAULT_LABEL "\"}";
    if (is_there(folder, DEFAULT_TRAIN, false))
        return "{\"format\": \"csv\", \"train\": \"" DEFAULT_TRAIN "\", \"label\": \"" DEFAULT_LABEL "\"}";
    if (is_there(folder, "train", true) || is_there(folder, "test", true))
        return "{\"format\": \"images\"}";
    return NULL;
}

/* Its text, or the one that the folder's look suggests. */
static int load(const char *folder, struct description *description, struct mst_buf *text,
                struct mst_error *err)
{
    struct stat status;

    if (stat(folder, &status) < 0)
        return mst_error_errno(err, -errno, "open data folder '%s'", folder);
    if (!S_ISDIR(status.st_mode))
        return mst_error_set(err, -ENOTDIR, "open data folder '%s': it is not a folder", folder);
    if (is_there(folder, DESCRIPTION_NAME, false))
        return mst_file_read(description->path, text, err);
    const char *guess = look_at(folder);
    if (!guess)
        return mst_error_set(err, -ENOENT,
                             "data folder '%s' holds neither " DESCRIPTION_NAME
                             " nor IDX files (train-images-idx3-ubyte, ...), " DEFAULT_TRAIN
                             " or a folder 'train' of images",
                             folder);
    return mst_buf_append_text(text, guess) < 0 ? mst_error_set(err, -ENOMEM, "open '%s': no memory", folder)
                                                : 0;
}

int description_read(const char *folder, struct description *ret_description, struct mst_error *err)
{
    mst_cleanup(description_release) struct description description = {0};
    mst_cleanup(mst_buf_release) struct mst_buf text = MST_BUF_INIT(DESCRIPTION_MAX_BYTES);
    size_t format;

    description.path = mst_path_join(folder, DESCRIPTION_NAME);
    if (!description.path)
        return mst_error_set(err, -ENOMEM, "open '%s': no memory", folder);
    int r = load(folder, &description, &text, err);
    if (r >= 0)
        r = mst_json_parse(mst_buf_text(&text), text.count, description.path, &description.json, err);
    if (r < 0)
        return r;
    if (!cJSON_IsObject(description.json))
        return mst_error_set(err, -EBADMSG, "%s: not a JSON object", description.path);
    if (!member(&description, "format"))
        return mst_error_set(err, -EBADMSG, "%s: key 'format' is missing", description.path);
    r = read_choice(&description, "format", formats, 0, &format, err);
    if (r >= 0)
        r = trainer_check_keys(description.json, keys_of[format], NULL, description.path, err);
    if (r < 0)
        return r;
    description.format = (enum description_format)format;
    if (description.format == DESCRIPTION_CSV)
        r = read_csv(&description, err);
    else if (description.format == DESCRIPTION_IMAGES)
        r = read_images(&description, err);
    if (r < 0)
        return r;
    *ret_description = description;
    description = (struct description){0};
    return 0;
}
