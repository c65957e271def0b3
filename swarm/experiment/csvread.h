/* SPDX-License-Identifier: Apache-2.0 */
/* CSV files as muster writes them (docs/run-folder.md), read whole: a header, and rows that have as many
 * fields. Errors name file and line, and are -EBADMSG when it is the content that is wrong. */
#ifndef EXPERIMENT_CSVREAD_H
#define EXPERIMENT_CSVREAD_H

#include "muster/error.h"

#include <stdbool.h>
#include <stddef.h>

struct csvread {
    char *path, *text;  /* owned */
    const char **cells; /* the header, then the rows; owned */
    size_t columns, rows;
};

int csvread_load(const char *path, size_t max_bytes, struct csvread *ret_csv, struct mst_error *err);
void csvread_release(struct csvread *csv);

/* The column's place; -EBADMSG when there is none of the name. */
int csvread_column(const struct csvread *csv, const char *name, size_t *ret_column, struct mst_error *err);
const char *csvread_text(const struct csvread *csv, size_t row, size_t column);
/* A finite number from min to max. An empty cell is an error, or with `may_be_empty` a NAN. */
int csvread_number(const struct csvread *csv, size_t row, size_t column, double min, double max,
                   bool may_be_empty, double *ret_value, struct mst_error *err);

#endif
