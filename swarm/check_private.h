/* SPDX-License-Identifier: Apache-2.0 */
/* What the checks' own files share. */
#ifndef SWARM_CHECK_PRIVATE_H
#define SWARM_CHECK_PRIVATE_H

#include "muster/compose.h"

/* "stack.yml:14:5: " in front of the text, where there is a place. Returns `code`. */
int check_fail_at(struct mst_error *err, struct compose_place place, int code, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

#endif
