/* SPDX-License-Identifier: Apache-2.0 */
/* One text to words, as docker splits a command: blanks separate; '...' holds everything; in "..." and
 * outside of quotes a backslash takes the next character as it is; '#' at the start of a word opens a comment
 * up to the line's end. No variables, no globs. */
#ifndef COMPOSE_WORDS_H
#define COMPOSE_WORDS_H

#include "arena.h"
#include "muster/compose.h"

/* Adds to *words. -EINVAL for a quote that is not closed or a backslash at the end, -ENOMEM. */
int words_split(struct compose_arena *arena, const char *text, struct compose_strings *words,
                struct mst_error *err);

#endif
