/* SPDX-License-Identifier: Apache-2.0 */
/* IDX files: two zero bytes, the element type (0x08: unsigned byte), the number of dims, each dim as 32 bits
 * big endian, then the values in row order. Only unsigned bytes are read. */
#ifndef TRAINER_IDX_H
#define TRAINER_IDX_H

#include "muster/error.h"
#include "muster/trainer.h"

#include <stddef.h>
#include <stdint.h>

struct trainer_idx {
    size_t count;               /* the first dim */
    struct trainer_shape shape; /* the others; count 0 for labels */
    uint8_t *values;            /* count * elements(shape) of them, owned */
};

/* Read a plain or gzip-compressed file of `dims` dims in all. Never allocates more than the header asks for,
 * and no more than TRAINER_MAX_SAMPLES samples of TRAINER_MAX_SAMPLE_SIZE values and TRAINER_IDX_MAX_BYTES in
 * all. */
#define TRAINER_IDX_MAX_BYTES ((size_t)8589934592) /* 8 GiB */
int trainer_idx_read(const char *path, size_t dims, struct trainer_idx *ret_idx, struct mst_error *err);
void trainer_idx_release(struct trainer_idx *idx);

#endif
