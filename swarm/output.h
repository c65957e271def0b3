/* SPDX-License-Identifier: Apache-2.0 */
/* A list on stdout, as a table for people or as JSON for programs, from the same cells. */
#ifndef SWARM_OUTPUT_H
#define SWARM_OUTPUT_H

#include "muster/table.h"

#include <cjson/cJSON.h>
#include <stdbool.h>

enum output_format { OUTPUT_TABLE, OUTPUT_JSON };

struct output_column {
    const char *key;     /* in JSON */
    const char *heading; /* of the table, as in table.h: '>' in front aligns right */
};

struct output {
    enum output_format format;
    const struct output_column *columns; /* borrowed */
    size_t column_count, next;
    struct mst_table *table;
    cJSON *rows, *row;
    bool no_memory;
};

int output_parse_format(const char *text, enum output_format *ret_format, struct mst_error *err);
int output_init(struct output *output, enum output_format format, const struct output_column *columns,
                size_t count, struct mst_error *err);
/* The next cell; a row begins by itself. Texts from outside lose their control characters in the table. */
void output_text(struct output *output, const char *format, ...) __attribute__((format(printf, 2, 3)));
void output_number(struct output *output, double value, int decimals);
void output_nothing(struct output *output); /* "-" in the table, null in JSON */
int output_print(struct output *output, struct mst_error *err);
/* The error for a write to stdout that failed with `code`: SWARM_READER_LEFT when it was closed at the other
 * end ("| head"), which is no failure of ours. */
int output_failed(int code, struct mst_error *err);
void output_release(struct output *output);

#endif
