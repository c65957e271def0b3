/* SPDX-License-Identifier: Apache-2.0 */
/* YAML, written in block style as Go's writer lays it out. The first error sticks, so that a printer need not
 * look at each line's. */
#ifndef COMPOSE_YAML_OUT_H
#define COMPOSE_YAML_OUT_H

#include "muster/buf.h"

#include <stdbool.h>

struct yaml_out {
    struct mst_buf *text; /* borrowed */
    size_t start;         /* of ours in it */
    unsigned indent;      /* of the next line, in columns */
    bool is_item;         /* the next line starts a list's item: "- " stands in the two columns before it */
    int result;           /* 0, or the first error of mst_buf_...() */
};

void yaml_out_init(struct yaml_out *out, struct mst_buf *text);
int yaml_out_finish(struct yaml_out *out); /* the last newline; the result */

/* "key: value", quoted where a reader would take it for something else, and '$' doubled, since a stack file's
 * reader replaces variables. A NULL value: nothing is written. */
void yaml_out_text(struct yaml_out *out, const char *key, const char *value);
/* "key: ..." as it is: numbers, true, null. */
void yaml_out_raw(struct yaml_out *out, const char *key, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* A mapping under `key`. What is empty when closed is written as {}, or, by _close_optional, is not there. */
size_t yaml_out_open(struct yaml_out *out, const char *key); /* returns the mark for closing */
void yaml_out_close(struct yaml_out *out, size_t mark);
void yaml_out_close_optional(struct yaml_out *out, size_t mark);

/* A list under `key`: between open and close, items by _item_text, or _item and the lines of a mapping up to
 * _item_end. */
size_t yaml_out_open_list(struct yaml_out *out, const char *key);
void yaml_out_close_list(struct yaml_out *out, size_t mark);
void yaml_out_item_text(struct yaml_out *out, const char *value);
void yaml_out_item(struct yaml_out *out);
void yaml_out_item_end(struct yaml_out *out);

#endif
