/* SPDX-License-Identifier: Apache-2.0 */
/* The columns of CSV files, and their rows as numbers: what stands in a column that holds numbers, the
 * category's number elsewhere. */
#ifndef TRAINER_TABLE_H
#define TRAINER_TABLE_H

#include "categories.h"
#include "csv.h"
#include "description.h"

struct table_column {
    char *name;   /* owned; NULL without a header */
    size_t place; /* in the first file's rows */
    bool is_categorical;
    struct categories categories;
    double shift, scale; /* of numbers: (x - shift) * scale */
};

/* Which columns are taken, and how. Inputs come first, then the label or the targets. */
struct table_plan {
    const struct description *description; /* borrowed */
    struct table_column *columns;          /* owned */
    size_t count, input_count;
    size_t field_count; /* in a row of the first file */
};

/* The rows of one file; columns as in the plan. */
struct table {
    /* rows x plan->count, row order, owned. Not floats: of times in seconds, and whatever else is large for
     * its differences, normalisation would find those rounded away. */
    double *cells;
    size_t rows, there; /* there: rows that there is room for */
    bool lacks_output;  /* the file has no label or target: those cells are zeros */
};

/* Find the description's columns in the first row of the file at `path`. `outputs_optional`: without a
 * header that names them, there is no label and no target. */
int table_plan_make(const struct description *description, const char *path, bool outputs_optional,
                    struct table_plan *ret_plan, struct mst_error *err);
void table_plan_release(struct table_plan *plan);

/* Read a file's rows. A category that is new is added, or, once they are closed, an error. Errors name
 * "path:line: column 'x': ". */
int table_read(struct table_plan *plan, const char *path, bool outputs_optional, struct table *ret_table,
               struct mst_error *err);
/* Close all categories that are not closed yet, and give the cells of `table` their numbers anew. */
int table_close_categories(struct table_plan *plan, struct table *table, struct mst_error *err);
void table_release(struct table *table);

/* "column 'x'" or "column 3". */
#define TABLE_COLUMN_TEXT_BYTES 96
const char *table_column_text(const struct table_column *column, char text[static TABLE_COLUMN_TEXT_BYTES]);

#endif
