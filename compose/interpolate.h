/* SPDX-License-Identifier: Apache-2.0 */
/* Variables in values, by the Compose specification:
 *
 *     $NAME  ${NAME}     the value, or nothing (and a note) when unset
 *     ${NAME:-word}      word when unset or empty          ${NAME-word}  when unset
 *     ${NAME:?word}      an error that says word, likewise ${NAME?word}
 *     ${NAME:+word}      word when set and not empty       ${NAME+word}  when set, else nothing
 *     $$                 a dollar sign
 *
 * A word may hold variables again; it ends at the first '}' that closes none of them, and counts only when it
 * is used. (docker loses an error when a later variable of the same text is set, and does not nest; muster
 * does as the specification says.) */
#ifndef COMPOSE_INTERPOLATE_H
#define COMPOSE_INTERPOLATE_H

#include "arena.h"
#include "muster/compose.h"

#define INTERPOLATE_MAX_DEPTH 16U
#define INTERPOLATE_MAX_BYTES ((size_t)1 << 20)

/* Told of each variable that is unset and has no default. Returns 0, or a negative errno that ends the work.
 */
typedef int interpolate_unset(void *context, const char *name);

/* Where variables come from: the options' lists, with the env files' between `environment` and `fallback`. */
struct interpolate_source {
    const struct compose_options *options;
    struct compose_pairs files;
};

/* The value of NAME; NULL: not set. */
const char *interpolate_lookup(const struct interpolate_source *source, const char *name, size_t name_bytes);

/* *ret_text is `text` itself when it holds no '$', else new text in the arena. The error text says what is
 * wrong without its place; it names variables and never their values. -EBADMSG, -ENOMEM. */
int interpolate_text(struct compose_arena *arena, const char *text, const struct interpolate_source *source,
                     interpolate_unset *unset, void *context, const char **ret_text, struct mst_error *err);

#endif
