/* SPDX-License-Identifier: Apache-2.0 */
/* Data sets from folders of images: PART/CLASS/FILE, where PART is train or test. All images have one size.
 */
#include "data.h"
#include "image.h"
#include "muster/buf.h"
#include "muster/cleanup.h"
#include "muster/file.h"
#include "muster/json.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#define MAX_SET_BYTES ((size_t)8589934592) /* 8 GiB */

/* Plain texts; their order is that of bytes, the same on all machines. */
struct names {
    char **texts; /* owned, as the array */
    size_t count, there;
};

static void names_release(struct names *names)
{
    for (size_t i = 0; i < names->count; i++)
        free(names->texts[i]);
    free(names->texts);
    *names = (struct names){0};
}

/* Takes the text over, also when it fails; NULL is -ENOMEM. */
static int names_add(struct names *names, char *text)
{
    if (text && names->count == names->there) {
        const size_t there = names->there > 0 ? 2 * names->there : 64;
        char **grown = realloc(names->texts, there * sizeof *grown);
        if (grown) {
            names->texts = grown;
            names->there = there;
        }
    }
    if (!text || names->count == names->there) {
        free(text);
        return -ENOMEM;
    }
    names->texts[names->count++] = text;
    return 0;
}

static int by_bytes(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static bool is_image_name(const char *name)
{
    const char *dot = strrchr(name, '.');

    return dot &&
           (strcasecmp(dot, ".png") == 0 || strcasecmp(dot, ".jpg") == 0 || strcasecmp(dot, ".jpeg") == 0);
}

/* Whether an entry of a folder is wanted: 1, or 0. One that can only be meant to be is an error where it is
 * not: samples would be missing, and nobody told. */
static int is_wanted(int dir_fd, const char *folder, const char *name, bool subfolders, struct mst_error *err)
{
    struct stat status;

    if (name[0] == '.' || (!subfolders && !is_image_name(name)))
        return 0;
    if (fstatat(dir_fd, name, &status, 0) < 0) {
        const bool leads_nowhere =
            errno == ENOENT && fstatat(dir_fd, name, &status, AT_SYMLINK_NOFOLLOW) == 0;
        return leads_nowhere
                   ? mst_error_set(err, -EBADMSG, "open '%s/%s': it is a link to something that is not there",
                                   folder, name)
                   : mst_error_errno(err, -errno, "open '%s/%s'", folder, name);
    }
    if (subfolders)
        return S_ISDIR(status.st_mode);
    return S_ISREG(status.st_mode) ? 1
                                   : mst_error_set(err, -EBADMSG,
                                                   "open '%s/%s': expected an image, and it "
                                                   "is no file",
                                                   folder, name);
}

static int add_wanted(DIR *dir, const char *folder, bool subfolders, struct names *names,
                      struct mst_error *err)
{
    for (;;) {
        errno = 0;
        const struct dirent *entry = readdir(dir);
        if (!entry)
            return errno == 0 ? 0 : mst_error_errno(err, -errno, "list folder '%s'", folder);
        int r = is_wanted(dirfd(dir), folder, entry->d_name, subfolders, err);
        if (r < 0)
            return r;
        if (r == 1 && names->count == TRAINER_MAX_SAMPLES)
            return mst_error_errno(err, -EFBIG, "list folder '%s'", folder);
        r = r == 1 ? names_add(names, strdup(entry->d_name)) : 0;
        if (r < 0)
            return mst_error_errno(err, r, "list folder '%s'", folder);
    }
}

/* The folder's subfolders, or its images. What begins with a dot is nobody's business. */
static int list_folder(const char *folder, bool subfolders, struct names *ret_names, struct mst_error *err)
{
    DIR *dir = opendir(folder);

    if (!dir)
        return mst_error_errno(err, -errno, "open folder '%s'", folder);
    const int r = add_wanted(dir, folder, subfolders, ret_names, err);
    (void)closedir(dir);
    if (r < 0)
        return r;
    if (ret_names->count > 0)
        qsort(ret_names->texts, ret_names->count, sizeof *ret_names->texts, by_bytes);
    return 0;
}

/* The images of one part, with their classes' numbers. */
struct listing {
    struct names paths;
    uint32_t *labels; /* owned */
    bool unlabelled;
};

static void listing_release(struct listing *listing)
{
    names_release(&listing->paths);
    free(listing->labels);
}

static int add_class(const char *folder, uint32_t label, struct listing *listing, struct mst_error *err)
{
    mst_cleanup(names_release) struct names names = {0};

    int r = list_folder(folder, false, &names, err);
    if (r < 0)
        return r;
    if (names.count == 0)
        return mst_error_set(err, -EBADMSG, "folder '%s' holds no image (.png, .jpg or .jpeg)", folder);
    uint32_t *grown = realloc(listing->labels, (listing->paths.count + names.count) * sizeof *grown);
    if (!grown)
        return mst_error_set(err, -ENOMEM, "list folder '%s': no memory", folder);
    listing->labels = grown;
    for (size_t i = 0; i < names.count && r >= 0; i++) {
        grown[listing->paths.count] = label;
        r = names_add(&listing->paths, mst_path_join(folder, names.texts[i]));
    }
    if (r < 0)
        return mst_error_set(err, r, "list folder '%s': no memory", folder);
    if (listing->paths.count > TRAINER_MAX_SAMPLES)
        return mst_error_set(err, -EBADMSG, "folder '%s': more than %d images", folder, TRAINER_MAX_SAMPLES);
    return 0;
}

/* `classes` empty: they are what is found here. */
static int list_part(const char *folder, struct names *classes, bool labels_optional,
                     struct listing *ret_listing, struct mst_error *err)
{
    mst_cleanup(names_release) struct names found = {0};

    int r = list_folder(folder, true, &found, err);
    if (r < 0)
        return r;
    if (found.count == 0 && labels_optional) {
        ret_listing->unlabelled = true;
        return add_class(folder, 0, ret_listing, err);
    }
    if (found.count == 0 || found.count > TRAINER_MAX_CLASSES)
        return mst_error_set(err, -EBADMSG, "folder '%s' holds %zu folders, expected one for each class",
                             folder, found.count);
    if (classes->count == 0) {
        *classes = found;
        found = (struct names){0};
    }
    const struct names *present = found.count > 0 ? &found : classes;
    for (size_t i = 0; i < present->count && r >= 0; i++) {
        char *const *class =
            bsearch(&present->texts[i], classes->texts, classes->count, sizeof *classes->texts, by_bytes);
        if (!class)
            return mst_error_set(err, -EBADMSG, "folder '%s': class '%.64s' is not among the training set's",
                                 folder, present->texts[i]);
        mst_cleanup(mst_freep) char *path = mst_path_join(folder, present->texts[i]);
        r = path ? add_class(path, (uint32_t)(class - classes->texts), ret_listing, err)
                 : mst_error_set(err, -ENOMEM, "list folder '%s': no memory", folder);
    }
    return r;
}

/* ---- pixels -------------------------------------------------------------------------------------------- */

static int read_image(const char *path, size_t channels, struct image *ret_image, struct mst_error *err)
{
    mst_cleanup(mst_buf_release) struct mst_buf bytes = MST_BUF_INIT(IMAGE_MAX_FILE_BYTES);

    const int r = mst_file_read(path, &bytes, err);
    return r < 0 ? r
                 : image_decode((const uint8_t *)mst_buf_text(&bytes), bytes.count, channels, path, ret_image,
                                err);
}

/* The first image of all, in *shape, says what all others must be like. */
static int read_pixels(const struct listing *listing, struct trainer_shape *shape, uint8_t **ret_values,
                       struct mst_error *err)
{
    mst_cleanup(mst_freep) uint8_t *values = NULL;
    size_t elements = 0;

    for (size_t i = 0; i < listing->paths.count; i++) {
        mst_cleanup(image_release) struct image image = {0};
        const char *path = listing->paths.texts[i];
        const int r = read_image(path, shape->dims[2], &image, err);
        if (r < 0)
            return r;
        if (shape->count == 0)
            *shape = (struct trainer_shape){.count = 3, .dims = {image.rows, image.columns, image.channels}};
        if (image.rows != shape->dims[0] || image.columns != shape->dims[1])
            return mst_error_set(err, -EBADMSG,
                                 "read '%s': %zu x %zu, the first image is %zu x %zu: all must "
                                 "have one size",
                                 path, image.rows, image.columns, shape->dims[0], shape->dims[1]);
        if (!values) {
            elements = trainer_shape_elements(shape);
            if (elements > TRAINER_MAX_SAMPLE_SIZE || listing->paths.count > MAX_SET_BYTES / elements)
                return mst_error_set(err, -EBADMSG,
                                     "%zu images of %zu values are more than the limit of %zu "
                                     "bytes",
                                     listing->paths.count, elements, MAX_SET_BYTES);
            values = malloc(listing->paths.count * elements);
        }
        if (!values)
            return mst_error_set(err, -ENOMEM, "no memory for %zu images", listing->paths.count);
        memcpy(values + i * elements, image.pixels, elements);
    }
    *ret_values = values;
    values = NULL;
    return 0;
}

static int make_set(struct listing *listing, const struct names *classes, struct trainer_shape *shape,
                    struct trainer_dataset **ret_set, struct mst_error *err)
{
    mst_cleanup(dataset_freep) struct trainer_dataset *set = calloc(1, sizeof *set);

    if (!set)
        return mst_error_set(err, -ENOMEM, "no memory for a data set");
    const int r = read_pixels(listing, shape, &set->values, err);
    if (r < 0)
        return r;
    set->shape = *shape;
    set->count = listing->paths.count;
    set->classes = classes->count;
    set->unlabelled = listing->unlabelled;
    set->labels = listing->labels;
    listing->labels = NULL;
    *ret_set = set;
    set = NULL;
    return 0;
}

/* ---- the folder ---------------------------------------------------------------------------------------- */

/* Class names, in the form that CSV has them (encoding.h). */
static int write_encoding(const struct names *classes, char **ret_text, struct mst_error *err)
{
    mst_cleanup(mst_json_deletep) cJSON *json = cJSON_CreateObject();
    cJSON *outputs = cJSON_AddArrayToObject(json, "outputs"), *output = cJSON_CreateObject();

    if (!cJSON_AddItemToArray(outputs, output)) {
        cJSON_Delete(output);
        return mst_error_set(err, -ENOMEM, "describe the classes: no memory");
    }
    cJSON *list = cJSON_AddStringToObject(output, "column", "folder")
                      ? cJSON_AddItemToObject(
                            output, "categories",
                            cJSON_CreateStringArray((const char *const *)classes->texts, (int)classes->count))
                            ? output
                            : NULL
                      : NULL;
    char *text = list ? cJSON_PrintUnformatted(json) : NULL;
    if (!text)
        return mst_error_set(err, -ENOMEM, "describe the classes: no memory");
    *ret_text = text;
    return 0;
}

static int take_encoding(const char *text, struct names *classes, struct mst_error *err)
{
    mst_cleanup(mst_json_deletep) cJSON *json = NULL;

    int r = mst_json_parse(text, strlen(text), "encoding of the model's data", &json, err);
    if (r < 0)
        return r;
    const cJSON *output = cJSON_GetArrayItem(cJSON_GetObjectItemCaseSensitive(json, "outputs"), 0);
    const cJSON *list = cJSON_GetObjectItemCaseSensitive(output, "categories");
    for (const cJSON *item = list ? list->child : NULL; item && r >= 0; item = item->next)
        r = cJSON_IsString(item) ? names_add(classes, strdup(item->valuestring)) : -EBADMSG;
    if (r < 0 || classes->count == 0)
        return mst_error_set(err, r == -ENOMEM ? r : -EBADMSG, "the model was not trained with images");
    qsort(classes->texts, classes->count, sizeof *classes->texts, by_bytes);
    return 0;
}

static int open_part(const char *folder, const char *part, struct names *classes, bool required,
                     bool labels_optional, struct trainer_shape *shape, struct trainer_dataset **ret_set,
                     struct mst_error *err)
{
    mst_cleanup(listing_release) struct listing listing = {0};
    mst_cleanup(mst_freep) char *path = mst_path_join(folder, part);
    struct stat status;

    if (!path)
        return mst_error_set(err, -ENOMEM, "open '%s': no memory", folder);
    if (!required && lstat(path, &status) < 0 && errno == ENOENT)
        return 0;
    int r = list_part(path, classes, labels_optional, &listing, err);
    if (r >= 0)
        r = make_set(&listing, classes, shape, ret_set, err);
    return r;
}

int data_images_open(const char *folder, const struct description *description,
                     const struct trainer_data_options *options, struct trainer_data *ret_data,
                     struct mst_error *err)
{
    mst_cleanup(names_release) struct names classes = {0};
    struct trainer_shape shape = {.dims = {0, 0, (size_t)description->channels}};
    const bool known = options->encoding != NULL;

    int r = known ? take_encoding(options->encoding, &classes, err) : 0;
    if (r >= 0)
        r = open_part(folder, "train", &classes, !known, false, &shape, &ret_data->train, err);
    if (r >= 0)
        r = open_part(folder, "test", &classes, false, known, &shape, &ret_data->test, err);
    if (r >= 0)
        r = write_encoding(&classes, &ret_data->encoding, err);
    return r >= 0 && ret_data->train ? data_take_validation(ret_data, options, err) : r;
}
