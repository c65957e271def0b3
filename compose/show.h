/* SPDX-License-Identifier: Apache-2.0 */
/* Texts from outside inside of error texts: quoted, cut, and without anything that would break the line or
 * the terminal. */
#ifndef COMPOSE_SHOW_H
#define COMPOSE_SHOW_H

#include "muster/compose.h"

#define SHOW_BYTES 72

/* 'text' in quotes, its tail cut, control characters as '?'; returns `shown`. */
const char *show(const char *text, char shown[static SHOW_BYTES]);

/* "file:line:column: path: text" (path NULL or empty: left out); returns `code`. */
int show_error(struct mst_error *err, int code, const struct compose_place *place, const char *path,
               const char *format, ...) __attribute__((format(printf, 5, 6)));

#endif
