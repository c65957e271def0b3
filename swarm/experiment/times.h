/* SPDX-License-Identifier: Apache-2.0 */
/* "2026-11-28T10:00:00Z" to Unix seconds; a fraction of the second may follow the seconds. */
#ifndef EXPERIMENT_TIMES_H
#define EXPERIMENT_TIMES_H

#include "muster/error.h"

/* `what` names the file in the error, -EBADMSG. */
int times_parse(const char *text, const char *what, double *ret_seconds, struct mst_error *err);

#endif
