/* SPDX-License-Identifier: Apache-2.0 */
/* numpy's archive: a zip file with one .npy file for each tensor, stored and not compressed (PKWARE's
 * APPNOTE.TXT for the zip records, numpy.lib.format for the others). */
#include "muster/buf.h"
#include "muster/cleanup.h"
#include "muster/file.h"
#include "save.h"
#include "trainer_state.h"

#include <assert.h>
#include <endian.h>
#include <stdio.h>
#include <string.h>
#include <zlib.h>

#define NPY_ALIGNMENT        64 /* of the values */
#define NPY_HEADER_MAX_BYTES 256
#define NAME_BYTES           160
#define RECORDS_MAX_BYTES    1048576
#define ZIP_VERSION          20
#define ZIP_DATE             0x0021 /* 1980-01-01: equal parameters give equal files */

struct entry {
    char name[NAME_BYTES];
    char header[NPY_HEADER_MAX_BYTES];
    size_t header_bytes;
    const float *values;
    size_t value_bytes;
    uint32_t crc, offset;
};

/* "\x93NUMPY", version 1.0, the length of the rest as u16, and a Python dictionary that ends with a newline.
 */
static void make_header(struct entry *entry, const struct trainer_shape *shape)
{
    char dims[64] = "";
    for (size_t d = 0; d < shape->count; d++)
        (void)snprintf(dims + strlen(dims), sizeof dims - strlen(dims), "%zu%s", shape->dims[d],
                       d + 1 < shape->count ? ", "
                       : shape->count == 1  ? ","
                                            : "");
    char *text = entry->header + 10;
    const int length = snprintf(text, NPY_HEADER_MAX_BYTES - 10,
                                "{'descr': '<f4', 'fortran_order': False, 'shape': (%s), }", dims);
    const size_t padded = (10 + (size_t)length + NPY_ALIGNMENT) / NPY_ALIGNMENT * NPY_ALIGNMENT;
    memset(text + length, ' ', padded - 10 - (size_t)length);
    entry->header[padded - 1] = '\n';
    memcpy(entry->header, "\x93NUMPY\x01", 8); /* and the NUL */
    const uint16_t rest = htole16((uint16_t)(padded - 10));
    memcpy(entry->header + 8, &rest, sizeof rest);
    entry->header_bytes = padded;
}

static uint32_t crc_of(const struct entry *entry)
{
    uLong crc = crc32_z(0, (const Bytef *)entry->header, entry->header_bytes);

    return (uint32_t)crc32_z(crc, (const Bytef *)entry->values, entry->value_bytes);
}

static int append_u16(struct mst_buf *buf, uint32_t value)
{
    const uint16_t wire = htole16((uint16_t)value);

    return mst_buf_append(buf, &wire, sizeof wire);
}

static int append_u32(struct mst_buf *buf, size_t value)
{
    const uint32_t wire = htole32((uint32_t)value);

    return mst_buf_append(buf, &wire, sizeof wire);
}

/* What a local header and an entry of the directory have in common: version to name length and extra. */
static int append_common(struct mst_buf *buf, const struct entry *entry)
{
    const size_t bytes = entry->header_bytes + entry->value_bytes;
    int r = append_u16(buf, ZIP_VERSION);

    r = r < 0 ? r : append_u16(buf, 0); /* flags */
    r = r < 0 ? r : append_u16(buf, 0); /* stored */
    r = r < 0 ? r : append_u16(buf, 0); /* time */
    r = r < 0 ? r : append_u16(buf, ZIP_DATE);
    r = r < 0 ? r : append_u32(buf, entry->crc);
    r = r < 0 ? r : append_u32(buf, bytes);
    r = r < 0 ? r : append_u32(buf, bytes);
    r = r < 0 ? r : append_u16(buf, (uint32_t)strlen(entry->name));
    return r < 0 ? r : append_u16(buf, 0);
}

static int append_directory(struct mst_buf *buf, const struct entry *entry)
{
    int r = mst_buf_append(buf, "PK\x01\x02", 4);

    r = r < 0 ? r : append_u16(buf, ZIP_VERSION);
    r = r < 0 ? r : append_common(buf, entry);
    r = r < 0 ? r : append_u16(buf, 0); /* comment */
    r = r < 0 ? r : append_u16(buf, 0); /* disk */
    r = r < 0 ? r : append_u16(buf, 0); /* attributes */
    r = r < 0 ? r : append_u32(buf, 0);
    r = r < 0 ? r : append_u32(buf, entry->offset);
    return r < 0 ? r : mst_buf_append_text(buf, entry->name);
}

static int append_end(struct mst_buf *buf, size_t count, size_t directory_bytes, size_t offset)
{
    int r = mst_buf_append(buf, "PK\x05\x06\0\0\0\0", 8);

    r = r < 0 ? r : append_u16(buf, (uint32_t)count);
    r = r < 0 ? r : append_u16(buf, (uint32_t)count);
    r = r < 0 ? r : append_u32(buf, directory_bytes);
    r = r < 0 ? r : append_u32(buf, offset);
    return r < 0 ? r : append_u16(buf, 0);
}

/* One tensor's records and values; *at is how far the file is. */
static int write_entry(int fd, struct entry *entry, struct mst_buf *directory, size_t *at)
{
    mst_cleanup(mst_buf_release) struct mst_buf local = MST_BUF_INIT(RECORDS_MAX_BYTES);

    entry->crc = crc_of(entry);
    entry->offset = (uint32_t)*at;
    int r = mst_buf_append(&local, "PK\x03\x04", 4);
    r = r < 0 ? r : append_common(&local, entry);
    r = r < 0 ? r : mst_buf_append_text(&local, entry->name);
    r = r < 0 ? r : mst_write_all(fd, local.bytes, local.count);
    r = r < 0 ? r : mst_write_all(fd, entry->header, entry->header_bytes);
    r = r < 0 ? r : mst_write_all(fd, entry->values, entry->value_bytes);
    *at += local.count + entry->header_bytes + entry->value_bytes;
    return r < 0 ? r : append_directory(directory, entry);
}

static int write_tensors(const struct trainer *trainer, int fd, size_t *ret_bytes)
{
    const struct trainer_model *model = trainer->config.model;
    mst_cleanup(mst_buf_release) struct mst_buf directory = MST_BUF_INIT(RECORDS_MAX_BYTES);
    size_t at = 0, count = 0;
    int r = 0;

    for (size_t i = 0; i < model->layer_count; i++) {
        const struct trainer_layer *layer = &model->layers[i];
        for (size_t t = 0; t < layer->tensor_count && r >= 0; t++, count++) {
            const struct trainer_tensor *tensor = &layer->tensors[t];
            struct entry entry = {.values = trainer->parameters[trainer->current] + tensor->offset,
                                  .value_bytes = trainer_shape_elements(&tensor->shape) * sizeof(float)};
            (void)snprintf(entry.name, sizeof entry.name, "%s.%s.npy", layer->name, tensor->role);
            make_header(&entry, &tensor->shape);
            r = write_entry(fd, &entry, &directory, &at);
        }
    }
    const size_t directory_bytes = directory.count;
    r = r < 0 ? r : append_end(&directory, count, directory_bytes, at);
    r = r < 0 ? r : mst_write_all(fd, directory.bytes, directory.count);
    *ret_bytes = at + directory.count;
    return r;
}

int trainer_save_npz(const struct trainer *trainer, const char *path, uint64_t *ret_bytes,
                     struct mst_error *err)
{
    mst_cleanup(mst_file_writer_discard) struct mst_file_writer writer = {.fd = -1};
    size_t bytes;

    static_assert((uint64_t)TRAINER_MODEL_MAX_PARAMETERS * sizeof(float) < UINT32_MAX / 2,
                  "offsets have 32 bits");
    int r = mst_file_writer_open(&writer, path, 0644, err);
    if (r < 0)
        return r;
    r = write_tensors(trainer, writer.fd, &bytes);
    if (r < 0)
        return mst_error_errno(err, r, "write '%s'", path);
    r = mst_file_writer_commit(&writer, err);
    if (r >= 0 && ret_bytes)
        *ret_bytes = bytes;
    return r;
}
