/* SPDX-License-Identifier: Apache-2.0 */
#include "csvread.h"

#include "muster/buf.h"
#include "muster/cleanup.h"
#include "muster/file.h"
#include "muster/parse.h"

#include <math.h>
#include <string.h>

#define COLUMNS_MAX 64

/* Cells that grow with the file. */
struct cells {
    const char **items;
    size_t count, capacity;
};

static int add_cell(struct cells *cells, const char *text)
{
    if (cells->count == cells->capacity) {
        const size_t capacity = cells->capacity > 0 ? 2 * cells->capacity : 256;
        const char **items = reallocarray(cells->items, capacity, sizeof *items);
        if (!items)
            return -ENOMEM;
        cells->items = items;
        cells->capacity = capacity;
    }
    cells->items[cells->count++] = text;
    return 0;
}

/* Takes the quotes off in place. *ret_end is the character behind the field. NULL: quotes do not match. */
static char *take_field(char *at, char **ret_end)
{
    char *write = at, *begin = at;

    if (*at != '"') {
        *ret_end = at + strcspn(at, ",\r\n");
        return begin;
    }
    for (at++; *at != '"' || at[1] == '"'; at++) {
        if (*at == '\0')
            return NULL;
        at += *at == '"';
        *write++ = *at;
    }
    at++;
    if (*at != ',' && *at != '\r' && *at != '\n' && *at != '\0')
        return NULL;
    *ret_end = at;
    if (write < at)
        *write = '\0';
    return begin;
}

/* The writer's mark that keeps a text from being a formula. */
static const char *without_mark(const char *field)
{
    return field[0] == '\'' && field[1] != '\0' && strchr("=+-@", field[1]) ? field + 1 : field;
}

/* One line into cells. *ret_at is the next line's begin. */
static int take_line(char **ret_at, struct cells *cells, size_t *ret_fields)
{
    char *at = *ret_at, *end;
    size_t fields = 0;
    bool goes_on = true;

    while (goes_on) {
        char *const field = take_field(at, &end);
        if (!field)
            return -EBADMSG;
        if (add_cell(cells, field) < 0)
            return -ENOMEM;
        fields++;
        goes_on = *end == ',';
        at = end + (*end != '\0');
        if (*end == '\r' && *at == '\n')
            at++;
        *end = '\0';
    }
    *ret_fields = fields;
    *ret_at = at;
    return 0;
}

static int parse(struct csvread *csv, struct mst_error *err)
{
    struct cells cells = {0};
    char *at = csv->text;
    size_t line = 0, fields = 0;
    int r = *at != '\0' ? 0 : mst_error_set(err, -EBADMSG, "%s: the file is empty", csv->path);

    while (r >= 0 && *at != '\0') {
        line++;
        r = take_line(&at, &cells, &fields);
        if (r == -EBADMSG)
            (void)mst_error_set(err, r, "%s:%zu: quotes that do not match", csv->path, line);
        else if (r < 0)
            (void)mst_error_set(err, r, "%s: no memory", csv->path);
        else if (line == 1)
            csv->columns = fields;
        else if (fields != csv->columns)
            r = mst_error_set(err, -EBADMSG, "%s:%zu: %zu fields, expected %zu as in the header", csv->path,
                              line, fields, csv->columns);
        if (r >= 0 && csv->columns > COLUMNS_MAX)
            r = mst_error_set(err, -EBADMSG, "%s: %zu columns, at most %d are read", csv->path, csv->columns,
                              COLUMNS_MAX);
    }
    csv->cells = cells.items;
    csv->rows = line > 0 ? line - 1 : 0;
    return r;
}

int csvread_load(const char *path, size_t max_bytes, struct csvread *ret_csv, struct mst_error *err)
{
    mst_cleanup(csvread_release) struct csvread csv = {.path = strdup(path)};
    struct mst_buf content = MST_BUF_INIT(max_bytes);
    int r =
        csv.path ? mst_file_read(path, &content, err) : mst_error_set(err, -ENOMEM, "%s: no memory", path);

    if (r >= 0 && memchr(mst_buf_text(&content), '\0', content.count))
        r = mst_error_set(err, -EBADMSG, "%s: a byte 0 in a text", path);
    if (r < 0 || content.count == 0) {
        mst_buf_release(&content);
        return r < 0 ? r : mst_error_set(err, -EBADMSG, "%s: the file is empty", path);
    }
    csv.text = content.bytes;
    r = parse(&csv, err);
    if (r < 0)
        return r;
    *ret_csv = csv;
    csv = (struct csvread){0};
    return 0;
}

void csvread_release(struct csvread *csv)
{
    free(csv->path);
    free(csv->text);
    free(csv->cells);
    *csv = (struct csvread){0};
}

int csvread_column(const struct csvread *csv, const char *name, size_t *ret_column, struct mst_error *err)
{
    for (size_t i = 0; i < csv->columns; i++) {
        if (strcmp(csv->cells[i], name) == 0) {
            *ret_column = i;
            return 0;
        }
    }
    return mst_error_set(err, -EBADMSG, "%s: no column '%s' in the header", csv->path, name);
}

const char *csvread_text(const struct csvread *csv, size_t row, size_t column)
{
    return without_mark(csv->cells[(row + 1) * csv->columns + column]);
}

int csvread_number(const struct csvread *csv, size_t row, size_t column, double min, double max,
                   bool may_be_empty, double *ret_value, struct mst_error *err)
{
    const char *text = csv->cells[(row + 1) * csv->columns + column];
    int r;

    if (text[0] == '\0' && may_be_empty) {
        *ret_value = NAN;
        return 0;
    }
    r = mst_parse_double(text, min, max, ret_value, err);
    return r < 0 ? mst_error_wrap(err, -EBADMSG, "%s:%zu: %s", csv->path, row + 2, csv->cells[column]) : 0;
}
