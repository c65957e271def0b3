/* SPDX-License-Identifier: Apache-2.0 */
/* Texts that came out of containers, files and engines, made fit for a terminal. */
#ifndef SWARM_PLAIN_H
#define SWARM_PLAIN_H

#include <stddef.h>

/* Copies `bytes` of UTF-8 and ends them with a NUL; `out` has room for bytes + 1, and may be `text`. What
 * moves the cursor, hides or turns text around becomes a blank, each character one: C0 and C1 controls, marks
 * of direction, characters without width, and bytes that are no UTF-8. Returns the length. */
size_t plain_copy(char *out, const char *text, size_t bytes);
void plain_text(char *text); /* the same in place */

#endif
