/* SPDX-License-Identifier: Apache-2.0 */
/* Sizes and processor counts, as docker reads them. (Durations are mst_parse_duration_ns().) */
#ifndef COMPOSE_QUANTITY_H
#define COMPOSE_QUANTITY_H

#include "muster/error.h"

#include <stdint.h>

/* "64", "64b", "1.5 GB", "100m", "2gib": powers of 1024 up to p (2^50), letters of either case, a fraction is
 * cut to whole bytes. -EINVAL with a text that says what was given; *ret_bytes is then untouched. */
int quantity_parse_bytes(const char *text, int64_t *ret_bytes, struct mst_error *err);

/* "0.5", "2", "1/4", "5e-1" to billionths of a core, exactly: "1/3" is refused, as docker does. */
int quantity_parse_cpus(const char *text, int64_t *ret_nano_cpus, struct mst_error *err);

#endif
