/* SPDX-License-Identifier: Apache-2.0 */
/* A list of texts as execve(2) takes it: arguments, or an environment of NAME=value. */
#ifndef EXEC_STRING_LIST_H
#define EXEC_STRING_LIST_H

#include "muster/error.h"

#include <stddef.h>

#define EXEC_STRING_MAX_BYTES ((size_t)131072) /* MAX_ARG_STRLEN of Linux, the NUL included */
#define EXEC_STRINGS_MAX      65536

struct exec_strings {
    char **items; /* owned, with a NULL at the end; NULL while empty */
    size_t count;
};

void exec_strings_release(struct exec_strings *strings); /* usable with mst_cleanup() */

/* Append one. -E2BIG for one that no program can be given. */
int exec_strings_add(struct exec_strings *strings, struct mst_error *err, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* A copy of a list that ends with NULL, appended. */
int exec_strings_add_all(struct exec_strings *strings, char *const *items, struct mst_error *err);

/* An environment: the value of `name`, or NULL. */
const char *exec_strings_value(const struct exec_strings *strings, const char *name);
/* Set NAME=value, in its old place or at the end. */
int exec_strings_set(struct exec_strings *strings, struct mst_error *err, const char *name,
                     const char *format, ...) __attribute__((format(printf, 4, 5)));
/* Every entry of that name. */
void exec_strings_unset(struct exec_strings *strings, const char *name);

#endif
