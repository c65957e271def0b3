/* SPDX-License-Identifier: Apache-2.0 */
/* Text to values, strictly: the whole text must be the value, within its bounds. On an error *ret_value is
 * untouched, -EINVAL is returned, and the text says what was given and what was expected. */
#ifndef MUSTER_PARSE_H
#define MUSTER_PARSE_H

#include "muster/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

int mst_parse_u32(const char *text, uint32_t min, uint32_t max, uint32_t *ret_value, struct mst_error *err);
int mst_parse_u64(const char *text, uint64_t min, uint64_t max, uint64_t *ret_value, struct mst_error *err);
/* Finite decimal numbers only: no hex, no inf, no nan. */
int mst_parse_double(const char *text, double min, double max, double *ret_value, struct mst_error *err);
/* true, false, yes, no, on, off, 1, 0. */
int mst_parse_bool(const char *text, bool *ret_value, struct mst_error *err);
/* Go's duration syntax, "1h2m3.5s", "250ms", "0"; nanoseconds. */
int mst_parse_duration_ns(const char *text, uint64_t *ret_ns, struct mst_error *err);

/* The entry of `names` that `text` was probably meant to be (edit distance <= 2), or NULL. */
const char *mst_nearest(const char *text, const char *const *names, size_t count);

#endif
