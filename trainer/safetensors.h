/* SPDX-License-Identifier: Apache-2.0 */
/* safetensors files (https://github.com/huggingface/safetensors, "Format"): the header's length as u64, a
 * JSON object of that length, then the tensors' bytes; all little-endian. The object names each tensor with
 * its dtype, shape and [begin, end) in the data, and may hold strings in "__metadata__". Here all tensors are
 * F32 and lie one behind the other, in the order of the list, without holes. */
#ifndef TRAINER_SAFETENSORS_H
#define TRAINER_SAFETENSORS_H

#include "muster/trainer.h"

#include <cjson/cJSON.h>

#define SAFETENSORS_MAX_HEADER_BYTES 100000000 /* as the format has it */
#define SAFETENSORS_NAME_BYTES       128

struct safetensors_entry {
    char name[SAFETENSORS_NAME_BYTES];
    struct trainer_shape shape;
    float *values; /* the caller's: written to the file, or read from it; NULL when reading: not wanted */
    bool optional; /* when reading: either all of these are there, or none; they are last in the list */
};

/* Write the file whole or not at all. `metadata` is an object of strings (borrowed). */
int safetensors_write(const char *path, const struct safetensors_entry *entries, size_t entry_count,
                      const cJSON *metadata, uint64_t *ret_bytes, struct mst_error *err);

/* Only *ret_metadata, whatever the tensors. */
int safetensors_read_metadata(const char *path, cJSON **ret_metadata, struct mst_error *err);

/* Read a file that must hold exactly these entries, of these shapes, in any order. -EBADMSG says what is not
 * as it should be, and their values are then undefined. *ret_optional (may be NULL) says whether the optional
 * ones are there; the values of those that are not stay as they are. *ret_metadata (may be NULL) is an object
 * for cJSON_Delete(), empty where the file has none. */
int safetensors_read(const char *path, const struct safetensors_entry *entries, size_t entry_count,
                     bool *ret_optional, cJSON **ret_metadata, struct mst_error *err);

#endif
