/* SPDX-License-Identifier: Apache-2.0 */
#include "idx.h"

#include "muster/cleanup.h"
#include "packed.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>

#define IDX_TYPE_U8 0x08
/* By how much the values' memory grows: a short file with a large header does not make us allocate what it
 * never holds. */
#define IDX_PIECE_BYTES 4194304u

static uint32_t big_endian_32(const uint8_t *bytes)
{
    return (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 | bytes[3];
}

static int read_header(struct packed_file *file, size_t dims, struct trainer_idx *idx, struct mst_error *err)
{
    const char *path = file->path;
    uint8_t header[4 + 4 * (TRAINER_MAX_DIMS + 1)] = {0};
    const size_t header_bytes = 4 + 4 * dims;
    size_t got = 0;

    int r = packed_read(file, header, header_bytes, &got, err);
    if (r < 0)
        return r;
    if (got < header_bytes)
        return mst_error_set(err, -EBADMSG, "read '%s': %zu bytes, an IDX header of %zu dims has %zu", path,
                             got, dims, header_bytes);
    const uint32_t magic = big_endian_32(header);
    const uint32_t expected = IDX_TYPE_U8 << 8 | (uint32_t)dims;
    if (magic != expected)
        return mst_error_set(err, -EBADMSG,
                             "read '%s': magic number 0x%08" PRIx32 ", expected 0x%08" PRIx32
                             " (unsigned bytes, %zu dims)",
                             path, magic, expected, dims);

    idx->count = big_endian_32(header + 4);
    if (idx->count == 0 || idx->count > TRAINER_MAX_SAMPLES)
        return mst_error_set(err, -EBADMSG, "read '%s': %zu samples, expected 1 to %d", path, idx->count,
                             TRAINER_MAX_SAMPLES);
    idx->shape.count = dims - 1;
    size_t elements = 1;
    for (size_t d = 0; d < idx->shape.count; d++) {
        const size_t dim = big_endian_32(header + 8 + 4 * d);
        if (dim == 0 || dim > TRAINER_MAX_SAMPLE_SIZE / elements)
            return mst_error_set(err, -EBADMSG,
                                 "read '%s': dim %zu is %zu, expected samples of 1 to %d values", path, d + 1,
                                 dim, TRAINER_MAX_SAMPLE_SIZE);
        idx->shape.dims[d] = dim;
        elements *= dim;
    }
    if (idx->count > TRAINER_IDX_MAX_BYTES / elements)
        return mst_error_set(err, -EBADMSG,
                             "read '%s': %zu samples of %zu values, more than the limit of %zu bytes", path,
                             idx->count, elements, TRAINER_IDX_MAX_BYTES);
    return 0;
}

static int read_values(struct packed_file *file, struct trainer_idx *idx, struct mst_error *err)
{
    const char *path = file->path;
    const size_t wanted = idx->count * trainer_shape_elements(&idx->shape);
    size_t held = 0, got = 0;

    while (held < wanted) {
        const size_t piece = wanted - held < IDX_PIECE_BYTES ? wanted - held : IDX_PIECE_BYTES;
        uint8_t *grown = realloc(idx->values, held + piece);
        if (!grown)
            return mst_error_set(err, -ENOMEM, "read '%s': no memory for %zu bytes", path, held + piece);
        idx->values = grown;
        const int r = packed_read(file, idx->values + held, piece, &got, err);
        if (r < 0)
            return r;
        held += got;
        if (got < piece)
            return mst_error_set(err, -EBADMSG,
                                 "read '%s': truncated: %zu bytes of values, the header says %zu", path, held,
                                 wanted);
    }
    uint8_t trailing;
    const int r = packed_read(file, &trailing, 1, &got, err);
    if (r < 0)
        return r;
    if (got > 0)
        return mst_error_set(err, -EBADMSG, "read '%s': more bytes after the %zu values that the header says",
                             path, wanted);
    return 0;
}

int trainer_idx_read(const char *path, size_t dims, struct trainer_idx *ret_idx, struct mst_error *err)
{
    assert(dims >= 1 && dims <= TRAINER_MAX_DIMS + 1);
    struct trainer_idx idx = {0};
    mst_cleanup(packed_close) struct packed_file file = {0};

    int r = packed_open(&file, path, err);
    if (r < 0)
        return r;
    r = read_header(&file, dims, &idx, err);
    if (r >= 0)
        r = read_values(&file, &idx, err);
    if (r < 0) {
        trainer_idx_release(&idx);
        return r;
    }
    *ret_idx = idx;
    return 0;
}

void trainer_idx_release(struct trainer_idx *idx)
{
    free(idx->values);
    idx->values = NULL;
}
