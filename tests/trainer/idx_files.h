/* SPDX-License-Identifier: Apache-2.0 */
/* Small IDX files, right ones and others. */
#ifndef TESTS_TRAINER_IDX_FILES_H
#define TESTS_TRAINER_IDX_FILES_H

#include "helpers.h"

#include <zlib.h>

static inline void idx_write_bytes(const char *path, const uint8_t *bytes, size_t count)
{
    FILE *file = fopen(path, "wb");

    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, count, file), count);
    assert_int_equal(fclose(file), 0);
}

static inline void idx_write_gz(const char *path, const uint8_t *bytes, size_t count)
{
    gzFile file = gzopen(path, "wb");

    assert_non_null(file);
    assert_int_equal(gzwrite(file, bytes, (unsigned)count), (int)count);
    assert_int_equal(gzclose(file), Z_OK);
}

static inline size_t idx_put_u32(uint8_t *to, uint32_t value)
{
    for (int i = 0; i < 4; i++)
        to[i] = (uint8_t)(value >> (24 - 8 * i));
    return 4;
}

/* `count` images of rows x columns, value i % 251. Returns the length. */
static inline size_t idx_images(uint8_t *to, uint32_t count, uint32_t rows, uint32_t columns)
{
    size_t used = idx_put_u32(to, 0x803);

    used += idx_put_u32(to + used, count);
    used += idx_put_u32(to + used, rows);
    used += idx_put_u32(to + used, columns);
    for (uint32_t i = 0; i < count * rows * columns; i++)
        to[used++] = (uint8_t)(i % 251);
    return used;
}

/* `count` labels 0, 1, ..., classes - 1, 0, ... */
static inline size_t idx_labels(uint8_t *to, uint32_t count, uint32_t classes)
{
    size_t used = idx_put_u32(to, 0x801);

    used += idx_put_u32(to + used, count);
    for (uint32_t i = 0; i < count; i++)
        to[used++] = (uint8_t)(i % classes);
    return used;
}

#endif
