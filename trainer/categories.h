/* SPDX-License-Identifier: Apache-2.0 */
/* The different texts of a column, numbered. While a set is open, a text that is new takes the next number;
 * closing it puts the texts in order (as numbers if all are whole numbers, else by their bytes), which is
 * what makes their numbers those of every file with the same texts. */
#ifndef TRAINER_CATEGORIES_H
#define TRAINER_CATEGORIES_H

#include "muster/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CATEGORIES_MAX 65536

struct category {
    char *text; /* owned */
    uint32_t number;
};

struct categories {
    struct category *sorted; /* by bytes, owned */
    size_t count, there;
    bool closed;
    char **names; /* closed: by number; the texts are those of `sorted` */
};

void categories_release(struct categories *set); /* zeros are fine */
/* The number of a text: 0; -ENOENT when the set is closed and does not have it; -EFBIG beyond CATEGORIES_MAX;
 * -ENOMEM. */
int categories_find(struct categories *set, const char *text, uint32_t *ret_number);
/* Close it in the order as added (`keep_order`) or sorted. *ret_moved, owned by the caller, says which number
 * each had before becomes. */
int categories_close(struct categories *set, bool keep_order, uint32_t **ret_moved);

#endif
