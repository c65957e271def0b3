/* SPDX-License-Identifier: Apache-2.0 */
/* CSV files (RFC 4180), row by row: fields may stand in quotes, with "" for a quote, and then hold separators
 * and line ends. Lines end with LF or CRLF; empty lines are passed over, and so is a byte order mark. Text is
 * taken as it is, but must not hold NUL. */
#ifndef TRAINER_CSV_H
#define TRAINER_CSV_H

#include "muster/buf.h"
#include "packed.h"

#include <stdbool.h>

#define CSV_MAX_FIELDS    65536   /* in a row */
#define CSV_MAX_ROW_BYTES 4194304 /* of one row's text */
#define CSV_BUFFER_BYTES  65536

struct csv_reader {
    const char *path; /* borrowed */
    char separator;
    struct packed_file file;
    char *buffer; /* CSV_BUFFER_BYTES, owned */
    size_t at, filled;
    size_t next_line;

    size_t line;         /* where the row begins, from 1 */
    size_t field_count;  /* in the row */
    size_t *fields;      /* where each begins in `text`, owned */
    size_t fields_there; /* that there is room for */
    struct mst_buf text; /* each field with a NUL */
};

int csv_open(struct csv_reader *reader, const char *path, char separator, struct mst_error *err);
void csv_release(struct csv_reader *reader); /* for mst_cleanup(); zeros are fine */
/* The next row: 1; 0 at the end; -EBADMSG, with "path:line: ", where the file is not CSV or beyond the
 * limits. */
int csv_next(struct csv_reader *reader, struct mst_error *err);
/* Valid until the next row is read. */
const char *csv_field(const struct csv_reader *reader, size_t index);

#endif
