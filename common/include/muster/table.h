/* SPDX-License-Identifier: Apache-2.0 */
/* Tables that line up, for lists on stdout. UTF-8 is counted by code point. Cells are copied. */
#ifndef MUSTER_TABLE_H
#define MUSTER_TABLE_H

#include "muster/error.h"

#include <stddef.h>
#include <stdio.h>

struct mst_table;

/* `headings` is "NODE|CPU %|MEMORY"; a heading that starts with '>' makes its column right-aligned. */
int mst_table_new(const char *headings, struct mst_table **ret_table, struct mst_error *err);
void mst_table_free(struct mst_table *table); /* NULL is fine */

/* Add the next cell of the current row; a row is full after as many cells as there are headings. */
int mst_table_cell(struct mst_table *table, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Returns 0 or a negative errno of the stream. */
int mst_table_print(const struct mst_table *table, FILE *stream);
size_t mst_table_rows(const struct mst_table *table);

#endif
