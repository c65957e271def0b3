/* SPDX-License-Identifier: Apache-2.0 */
/* Prometheus' text format, version 0.0.4, as its Go client writes it: families with HELP and TYPE, then lines
 * of `name{labels} value [timestamp]`. An error sticks: later calls do nothing, and exposition_end() tells.
 */
#ifndef MONITORING_EXPOSITION_H
#define MONITORING_EXPOSITION_H

#include "muster/buf.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define EXPOSITION_TYPE      "text/plain; version=0.0.4; charset=utf-8"
#define EXPOSITION_MAX_BYTES ((size_t)256 << 20) /* 4096 containers with long labels are about 100 MiB */

enum exposition_kind { EXPOSITION_COUNTER, EXPOSITION_GAUGE };

struct exposition {
    struct mst_buf *text; /* borrowed */
    const char *name;     /* of the current family */
    size_t name_bytes;
    const char *help;
    enum exposition_kind kind;
    bool has_head; /* HELP and TYPE are written, with the first line */
    int code;
};

/* A whole number divided by 10^scale; exact, whatever its size. */
struct exposition_number {
    uint64_t value;
    unsigned scale;
};

/* Label text without braces; each piece is empty or ends in a comma. */
#define EXPOSITION_PIECES 6
struct exposition_labels {
    const char *pieces[EXPOSITION_PIECES]; /* NULL: none, and the others may still be there */
};

/* The lines that follow belong to `name` (borrowed until the next family). A family without lines leaves no
 * trace. */
void exposition_family(struct exposition *out, const char *name, enum exposition_kind kind, const char *help);
void exposition_line(struct exposition *out, const struct exposition_labels *labels,
                     struct exposition_number number);
/* With a time of day in milliseconds behind it. */
void exposition_line_at(struct exposition *out, const struct exposition_labels *labels,
                        struct exposition_number number, uint64_t ms);
void exposition_line_double(struct exposition *out, const struct exposition_labels *labels, double value);
int exposition_end(const struct exposition *out); /* 0, -EFBIG or -ENOMEM */

#define EXPOSITION_NUMBER_BYTES 40
/* "524288", "2.097152e+06", "7e-09": what Go's shortest form is. The length. */
size_t exposition_format(struct exposition_number number, char text[static EXPOSITION_NUMBER_BYTES]);
size_t exposition_format_double(double value, char text[static EXPOSITION_NUMBER_BYTES]);

#endif
