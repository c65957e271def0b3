/* SPDX-License-Identifier: Apache-2.0 */
#include "safetensors.h"

#include "muster/buf.h"
#include "muster/cleanup.h"
#include "muster/file.h"
#include "muster/json.h"

#include <endian.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "floats are written as they lie in memory, which must be little-endian"
#endif

#define METADATA_KEY "__metadata__"

static size_t bytes_of(const struct safetensors_entry *entry)
{
    return trainer_shape_elements(&entry->shape) * sizeof(float);
}

/* ---- writing ------------------------------------------------------------------------------------------- */

static int add_entry(cJSON *header, const struct safetensors_entry *entry, size_t begin)
{
    cJSON *json = cJSON_AddObjectToObject(header, entry->name);
    cJSON *shape, *offsets;

    if (!json || !cJSON_AddStringToObject(json, "dtype", "F32") ||
        !(shape = cJSON_AddArrayToObject(json, "shape")))
        return -ENOMEM;
    for (size_t d = 0; d < entry->shape.count; d++) {
        if (!cJSON_AddItemToArray(shape, cJSON_CreateNumber((double)entry->shape.dims[d])))
            return -ENOMEM;
    }
    offsets = cJSON_AddArrayToObject(json, "data_offsets");
    if (!offsets || !cJSON_AddItemToArray(offsets, cJSON_CreateNumber((double)begin)) ||
        !cJSON_AddItemToArray(offsets, cJSON_CreateNumber((double)(begin + bytes_of(entry)))))
        return -ENOMEM;
    return 0;
}

/* Length and JSON, padded with spaces so that the data begins at a multiple of 8. */
static int make_header(const struct safetensors_entry *entries, size_t entry_count, const cJSON *metadata,
                       struct mst_buf *ret_header)
{
    mst_cleanup(mst_json_deletep) cJSON *json = cJSON_CreateObject();
    cJSON *copy = cJSON_Duplicate(metadata, true);
    size_t begin = 0;

    if (!json || !copy || !cJSON_AddItemToObject(json, METADATA_KEY, copy)) {
        cJSON_Delete(copy);
        return -ENOMEM;
    }
    for (size_t i = 0; i < entry_count; i++) {
        if (add_entry(json, &entries[i], begin) < 0)
            return -ENOMEM;
        begin += bytes_of(&entries[i]);
    }
    mst_cleanup(mst_freep) char *text = cJSON_PrintUnformatted(json);
    if (!text)
        return -ENOMEM;
    const size_t length = strlen(text), padded = (length + 7) / 8 * 8;
    const uint64_t wire_length = htole64(padded);
    int r = mst_buf_append(ret_header, &wire_length, sizeof wire_length);
    if (r >= 0)
        r = mst_buf_append(ret_header, text, length);
    if (r >= 0)
        r = mst_buf_append(ret_header, "       ", padded - length);
    return r;
}

int safetensors_write(const char *path, const struct safetensors_entry *entries, size_t entry_count,
                      const cJSON *metadata, uint64_t *ret_bytes, struct mst_error *err)
{
    mst_cleanup(mst_buf_release) struct mst_buf header = MST_BUF_INIT(SAFETENSORS_MAX_HEADER_BYTES);
    mst_cleanup(mst_file_writer_discard) struct mst_file_writer writer = {.fd = -1};
    size_t data_bytes = 0;

    for (size_t i = 0; i < entry_count; i++)
        data_bytes += bytes_of(&entries[i]);
    int r = make_header(entries, entry_count, metadata, &header);
    if (r < 0)
        return mst_error_errno(err, r, "write '%s': header", path);
    r = mst_file_writer_open(&writer, path, 0644, err);
    if (r < 0)
        return r;
    r = mst_write_all(writer.fd, header.bytes, header.count);
    for (size_t i = 0; i < entry_count && r >= 0; i++)
        r = mst_write_all(writer.fd, entries[i].values, bytes_of(&entries[i]));
    if (r < 0)
        return mst_error_errno(err, r, "write '%s'", path);
    r = mst_file_writer_commit(&writer, err);
    if (r >= 0 && ret_bytes)
        *ret_bytes = header.count + data_bytes;
    return r;
}

/* ---- reading ------------------------------------------------------------------------------------------- */

/* What has been found out about the file being read. */
struct reader {
    const char *path;
    int fd;
    uint64_t header_bytes, data_bytes;
};

static int read_at(const struct reader *reader, void *bytes, size_t count, uint64_t offset,
                   struct mst_error *err)
{
    for (size_t done = 0; done < count;) {
        const ssize_t n = pread(reader->fd, (uint8_t *)bytes + done, count - done, (off_t)(offset + done));
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return mst_error_errno(err, -errno, "read '%s'", reader->path);
        if (n == 0)
            return mst_error_set(err, -EBADMSG, "read '%s': it became shorter while being read",
                                 reader->path);
        done += (size_t)n;
    }
    return 0;
}

static int read_header(struct reader *reader, cJSON **ret_header, struct mst_error *err)
{
    struct stat status;
    uint64_t length;

    if (fstat(reader->fd, &status) < 0)
        return mst_error_errno(err, -errno, "read '%s'", reader->path);
    if (!S_ISREG(status.st_mode) || status.st_size < (off_t)sizeof length)
        return mst_error_set(err, -EBADMSG, "read '%s': not a safetensors file: too short", reader->path);
    const uint64_t file_bytes = (uint64_t)status.st_size;
    int r = read_at(reader, &length, sizeof length, 0, err);
    if (r < 0)
        return r;
    length = le64toh(length);
    /* What begins with text says a header of some 10^18 bytes: the number alone would tell nobody why. */
    if (length < 2 || length > file_bytes - sizeof length)
        return mst_error_set(err, -EBADMSG,
                             "read '%s': not a safetensors file: of its %" PRIu64
                             " bytes the first 8 say a header of %" PRIu64,
                             reader->path, file_bytes, length);
    if (length > SAFETENSORS_MAX_HEADER_BYTES)
        return mst_error_set(err, -EBADMSG, "read '%s': header of %" PRIu64 " bytes, the limit is %d",
                             reader->path, length, SAFETENSORS_MAX_HEADER_BYTES);
    mst_cleanup(mst_freep) char *text = malloc(length);
    if (!text)
        return mst_error_set(err, -ENOMEM, "read '%s': no memory", reader->path);
    r = read_at(reader, text, length, sizeof length, err);
    if (r < 0)
        return r;
    if (text[0] != '{')
        return mst_error_set(err, -EBADMSG, "read '%s': not a safetensors file: the header is no JSON object",
                             reader->path);
    reader->header_bytes = sizeof length + length;
    reader->data_bytes = file_bytes - reader->header_bytes;
    return mst_json_parse(text, length, reader->path, ret_header, err);
}

/* An array of exactly `count` whole numbers up to 2^53. */
static bool read_numbers(const cJSON *array, size_t count, uint64_t *ret_numbers)
{
    size_t i = 0;

    if (!cJSON_IsArray(array) || (size_t)cJSON_GetArraySize(array) != count)
        return false;
    for (const cJSON *item = array->child; item; item = item->next, i++) {
        const double value = cJSON_IsNumber(item) ? item->valuedouble : -1;
        if (!(value >= 0 && value <= 0x1p53) || value != (double)(uint64_t)value)
            return false;
        ret_numbers[i] = (uint64_t)value;
    }
    return true;
}

/* Check one tensor of the header against what is expected: dtype, shape, place. */
static int check_entry(const struct reader *reader, const cJSON *header,
                       const struct safetensors_entry *entry, uint64_t *ret_begin, struct mst_error *err)
{
    const cJSON *json = cJSON_GetObjectItemCaseSensitive(header, entry->name);
    uint64_t dims[TRAINER_MAX_DIMS] = {0}, offsets[2] = {0};

    if (!cJSON_IsObject(json))
        return mst_error_set(err, -EBADMSG, "read '%s': tensor '%s' is missing", reader->path, entry->name);
    if (strcmp(mst_json_string_or(json, "dtype", ""), "F32") != 0)
        return mst_error_set(err, -EBADMSG, "read '%s': tensor '%s': dtype '%.16s', expected 'F32'",
                             reader->path, entry->name, mst_json_string_or(json, "dtype", ""));
    bool fits = read_numbers(cJSON_GetObjectItemCaseSensitive(json, "shape"), entry->shape.count, dims);
    for (size_t d = 0; fits && d < entry->shape.count; d++)
        fits = dims[d] == entry->shape.dims[d];
    if (!fits)
        return mst_error_set(err, -EBADMSG, "read '%s': tensor '%s': its shape is not the model's",
                             reader->path, entry->name);
    if (!read_numbers(cJSON_GetObjectItemCaseSensitive(json, "data_offsets"), 2, offsets) ||
        offsets[1] > reader->data_bytes || offsets[0] > offsets[1] ||
        offsets[1] - offsets[0] != bytes_of(entry))
        return mst_error_set(
            err, -EBADMSG,
            "read '%s': tensor '%s': data_offsets do not give its %zu bytes within the file's %" PRIu64,
            reader->path, entry->name, bytes_of(entry), reader->data_bytes);
    *ret_begin = offsets[0];
    return 0;
}

/* No tensor but the expected ones, and none twice: cJSON keeps both of two equal keys. */
static int check_names(const struct reader *reader, const cJSON *header,
                       const struct safetensors_entry *entries, size_t entry_count, struct mst_error *err)
{
    for (const cJSON *item = header->child; item; item = item->next) {
        bool known = strcmp(item->string, METADATA_KEY) == 0;
        for (size_t i = 0; !known && i < entry_count; i++)
            known = strcmp(item->string, entries[i].name) == 0;
        if (!known)
            return mst_error_set(err, -EBADMSG, "read '%s': the model has no tensor '%.64s'", reader->path,
                                 item->string);
        if (cJSON_GetObjectItemCaseSensitive(header, item->string) != item)
            return mst_error_set(err, -EBADMSG, "read '%s': '%.64s' is there twice", reader->path,
                                 item->string);
    }
    return 0;
}

/* All bytes of the data belong to exactly one tensor: the format forbids holes and overlaps, and hostile
 * files use both. Sizes are known to be right, so it is enough that they add up and that each begins where
 * another ends. */
static int check_cover(const struct reader *reader, const uint64_t *begins,
                       const struct safetensors_entry *entries, size_t entry_count, struct mst_error *err)
{
    uint64_t at = 0;
    size_t placed = 0;

    while (placed < entry_count) {
        size_t i = 0;
        while (i < entry_count && begins[i] != at)
            i++;
        if (i == entry_count)
            break;
        at += bytes_of(&entries[i]);
        placed++;
    }
    if (placed < entry_count || at != reader->data_bytes)
        return mst_error_set(err, -EBADMSG, "read '%s': the tensors leave holes in the data, or overlap",
                             reader->path);
    return 0;
}

static int take_metadata(const struct reader *reader, cJSON *header, cJSON **ret_metadata,
                         struct mst_error *err)
{
    cJSON *metadata = cJSON_DetachItemFromObjectCaseSensitive(header, METADATA_KEY);

    if (!metadata)
        metadata = cJSON_CreateObject();
    if (!metadata)
        return mst_error_set(err, -ENOMEM, "read '%s': no memory", reader->path);
    bool strings = cJSON_IsObject(metadata);
    for (const cJSON *item = metadata->child; item && strings; item = item->next)
        strings = cJSON_IsString(item);
    if (!strings) {
        cJSON_Delete(metadata);
        return mst_error_set(err, -EBADMSG, "read '%s': " METADATA_KEY " must be an object of strings",
                             reader->path);
    }
    *ret_metadata = metadata;
    return 0;
}

/* Those that the file may have: without the optional ones when it has none of them. */
static size_t count_entries(const cJSON *header, const struct safetensors_entry *entries, size_t entry_count)
{
    size_t required = 0, there = 0;

    for (size_t i = 0; i < entry_count; i++) {
        required += !entries[i].optional;
        there += entries[i].optional && cJSON_GetObjectItemCaseSensitive(header, entries[i].name);
    }
    return there > 0 ? entry_count : required;
}

static int read_values(const struct reader *reader, const struct safetensors_entry *entries,
                       const uint64_t *begins, size_t entry_count, struct mst_error *err)
{
    int r = 0;

    for (size_t i = 0; i < entry_count && r >= 0; i++) {
        if (entries[i].values)
            r = read_at(reader, entries[i].values, bytes_of(&entries[i]), reader->header_bytes + begins[i],
                        err);
    }
    return r;
}

int safetensors_read_metadata(const char *path, cJSON **ret_metadata, struct mst_error *err)
{
    mst_cleanup(mst_closep) int fd = -1;
    mst_cleanup(mst_json_deletep) cJSON *header = NULL;
    struct reader reader = {.path = path};

    int r = mst_file_open(path, &fd, err);
    if (r < 0)
        return r;
    reader.fd = fd;
    r = read_header(&reader, &header, err);
    return r < 0 ? r : take_metadata(&reader, header, ret_metadata, err);
}

int safetensors_read(const char *path, const struct safetensors_entry *entries, size_t entry_count,
                     bool *ret_optional, cJSON **ret_metadata, struct mst_error *err)
{
    mst_cleanup(mst_closep) int fd = -1;
    mst_cleanup(mst_json_deletep) cJSON *header = NULL;
    mst_cleanup(mst_json_deletep) cJSON *metadata = NULL;
    mst_cleanup(mst_freep) uint64_t *begins = calloc(entry_count, sizeof *begins);
    struct reader reader = {.path = path};
    size_t count = entry_count;

    if (!begins)
        return mst_error_set(err, -ENOMEM, "read '%s': no memory", path);
    int r = mst_file_open(path, &fd, err);
    if (r < 0)
        return r;
    reader.fd = fd;
    r = read_header(&reader, &header, err);
    if (r >= 0)
        count = count_entries(header, entries, entry_count);
    if (r >= 0)
        r = check_names(&reader, header, entries, count, err);
    for (size_t i = 0; r >= 0 && i < count; i++)
        r = check_entry(&reader, header, &entries[i], &begins[i], err);
    if (r >= 0)
        r = check_cover(&reader, begins, entries, count, err);
    if (r >= 0)
        r = take_metadata(&reader, header, &metadata, err);
    if (r >= 0)
        r = read_values(&reader, entries, begins, count, err);
    if (r < 0)
        return r;
    if (ret_optional)
        *ret_optional = count > 0 && entries[count - 1].optional;
    if (ret_metadata) {
        *ret_metadata = metadata;
        metadata = NULL;
    }
    return 0;
}
