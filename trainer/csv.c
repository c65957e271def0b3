/* SPDX-License-Identifier: Apache-2.0 */
#include "csv.h"

#include "muster/cleanup.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define END_OF_FILE (-1)

int csv_open(struct csv_reader *reader, const char *path, char separator, struct mst_error *err)
{
    *reader = (struct csv_reader){
        .path = path, .separator = separator, .next_line = 1, .text = MST_BUF_INIT(CSV_MAX_ROW_BYTES)};
    const int r = packed_open(&reader->file, path, err);
    if (r < 0)
        return r;
    reader->buffer = malloc(CSV_BUFFER_BYTES);
    if (!reader->buffer) {
        csv_release(reader);
        return mst_error_set(err, -ENOMEM, "read '%s': no memory", path);
    }
    return 0;
}

void csv_release(struct csv_reader *reader)
{
    packed_close(&reader->file);
    free(reader->buffer);
    free(reader->fields);
    mst_buf_release(&reader->text);
    *reader = (struct csv_reader){0};
}

/* Have the next byte in *ret_byte, without taking it; END_OF_FILE behind the last. */
static int peek(struct csv_reader *reader, int *ret_byte, struct mst_error *err)
{
    if (reader->at == reader->filled) {
        const bool first = reader->filled == 0;
        const int r = packed_read(&reader->file, reader->buffer, CSV_BUFFER_BYTES, &reader->filled, err);
        if (r < 0)
            return r;
        reader->at = first && reader->filled >= 3 && memcmp(reader->buffer, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
    }
    *ret_byte = reader->at < reader->filled ? (unsigned char)reader->buffer[reader->at] : END_OF_FILE;
    return 0;
}

static int text_error(struct csv_reader *reader, int code, struct mst_error *err)
{
    if (code == -EFBIG)
        return mst_error_set(err, -EBADMSG, "%s:%zu: a row of more than %d bytes", reader->path, reader->line,
                             CSV_MAX_ROW_BYTES);
    return mst_error_set(err, code, "%s:%zu: no memory", reader->path, reader->line);
}

/* Take bytes into the row's text up to, and without, one of the three that end a run here. */
static int take_run(struct csv_reader *reader, char stop1, char stop2, char stop3, struct mst_error *err)
{
    for (;;) {
        int byte;
        int r = peek(reader, &byte, err);
        if (r < 0 || byte == END_OF_FILE)
            return r;
        const char *from = reader->buffer + reader->at;
        const size_t left = reader->filled - reader->at;
        size_t run = 0;
        while (run < left && from[run] != stop1 && from[run] != stop2 && from[run] != stop3 &&
               from[run] != '\0')
            run++;
        r = mst_buf_append(&reader->text, from, run);
        if (r < 0)
            return text_error(reader, r, err);
        reader->at += run;
        if (run < left)
            return *(from + run) == '\0' ? mst_error_set(err, -EBADMSG, "%s:%zu: a NUL byte: not a text file",
                                                         reader->path, reader->next_line)
                                         : 0;
    }
}

/* From behind the opening quote to behind the closing one. */
static int take_quoted(struct csv_reader *reader, struct mst_error *err)
{
    const size_t begun = reader->next_line;

    for (;;) {
        int byte;
        int r = take_run(reader, '"', '\n', '\n', err);
        if (r >= 0)
            r = peek(reader, &byte, err);
        if (r < 0)
            return r;
        if (byte == END_OF_FILE)
            return mst_error_set(err, -EBADMSG, "%s:%zu: a quote is opened and never closed", reader->path,
                                 begun);
        reader->at++;
        if (byte == '\n') {
            reader->next_line++;
        } else {
            r = peek(reader, &byte, err);
            if (r < 0 || byte != '"')
                return r;
            reader->at++;
        }
        r = mst_buf_append(&reader->text, byte == '\n' ? "\n" : "\"", 1);
        if (r < 0)
            return text_error(reader, r, err);
    }
}

static int begin_field(struct csv_reader *reader, struct mst_error *err)
{
    if (reader->field_count == CSV_MAX_FIELDS)
        return mst_error_set(err, -EBADMSG, "%s:%zu: more than %d fields", reader->path, reader->line,
                             CSV_MAX_FIELDS);
    if (reader->field_count == reader->fields_there) {
        const size_t there = reader->fields_there > 0 ? 2 * reader->fields_there : 32;
        size_t *grown = realloc(reader->fields, there * sizeof *grown);
        if (!grown)
            return mst_error_set(err, -ENOMEM, "%s:%zu: no memory", reader->path, reader->line);
        reader->fields = grown;
        reader->fields_there = there;
    }
    reader->fields[reader->field_count++] = reader->text.count;
    return 0;
}

/* One field and what follows it. 1: another field follows; 0: the row ends. */
static int take_field(struct csv_reader *reader, struct mst_error *err)
{
    int byte;
    int r = begin_field(reader, err);

    if (r >= 0)
        r = peek(reader, &byte, err);
    if (r < 0)
        return r;
    const bool quoted = byte == '"';
    if (quoted) {
        reader->at++;
        r = take_quoted(reader, err);
    } else {
        r = take_run(reader, reader->separator, '\n', '"', err);
    }
    if (r >= 0)
        r = peek(reader, &byte, err);
    if (r >= 0 && quoted && byte == '\r') { /* an unquoted field has it in its text */
        reader->at++;
        r = peek(reader, &byte, err);
        if (r >= 0 && byte != '\n' && byte != END_OF_FILE)
            byte = '\r';
    }
    if (r < 0)
        return r;
    if (byte != END_OF_FILE && byte != '\n' && byte != reader->separator)
        return mst_error_set(
            err, -EBADMSG, "%s:%zu: field %zu: %s", reader->path, reader->next_line, reader->field_count,
            quoted ? "text behind the closing quote" : "a quote within a field without quotes");
    const bool ends = byte != reader->separator;
    if (byte != END_OF_FILE)
        reader->at++;
    reader->next_line += byte == '\n';
    if (ends && !quoted && reader->text.count > reader->fields[reader->field_count - 1] &&
        reader->text.bytes[reader->text.count - 1] == '\r')
        reader->text.count--;
    r = mst_buf_append(&reader->text, "", 1);
    return r < 0 ? text_error(reader, r, err) : !ends;
}

int csv_next(struct csv_reader *reader, struct mst_error *err)
{
    for (;;) {
        int byte;
        int r = peek(reader, &byte, err);
        if (r < 0 || byte == END_OF_FILE)
            return r;
        mst_buf_clear(&reader->text);
        reader->field_count = 0;
        reader->line = reader->next_line;
        const bool quoted = byte == '"';
        do
            r = take_field(reader, err);
        while (r == 1);
        if (r < 0)
            return r;
        if (reader->field_count > 1 || quoted || reader->text.bytes[0] != '\0')
            return 1;
    }
}

const char *csv_field(const struct csv_reader *reader, size_t index)
{
    assert(index < reader->field_count);
    return reader->text.bytes + reader->fields[index];
}
