/* SPDX-License-Identifier: Apache-2.0 */
#include "muster/table.h"

#include "muster/buf.h"
#include "muster/cleanup.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define TABLE_MAX_COLUMNS 32
#define COLUMN_GAP        2
#define ROW_MAX_BYTES     ((size_t)1 << 20)

struct mst_table {
    size_t columns;
    bool right[TABLE_MAX_COLUMNS];
    char *headings; /* owned; cut into the names below */
    const char *names[TABLE_MAX_COLUMNS];
    char **cells; /* owned, row after row */
    size_t cell_count, cell_capacity;
};

int mst_table_new(const char *headings, struct mst_table **ret_table, struct mst_error *err)
{
    struct mst_table *table = calloc(1, sizeof *table);
    if (!table || !(table->headings = strdup(headings))) {
        free(table);
        return mst_error_set(err, -ENOMEM, "make a table: no memory");
    }
    char *rest = table->headings;
    for (char *name = strsep(&rest, "|"); name; name = strsep(&rest, "|")) {
        if (table->columns == TABLE_MAX_COLUMNS) {
            mst_table_free(table);
            return mst_error_set(err, -EINVAL, "make a table: more than %d columns", TABLE_MAX_COLUMNS);
        }
        table->right[table->columns] = *name == '>';
        table->names[table->columns++] = name + (*name == '>');
    }
    *ret_table = table;
    return 0;
}

void mst_table_free(struct mst_table *table)
{
    if (!table)
        return;
    for (size_t i = 0; i < table->cell_count; i++)
        free(table->cells[i]);
    free(table->cells);
    free(table->headings);
    free(table);
}

int mst_table_cell(struct mst_table *table, const char *format, ...)
{
    if (table->cell_count == table->cell_capacity) {
        const size_t capacity = table->cell_capacity ? 2 * table->cell_capacity : 64;
        char **cells = reallocarray(table->cells, capacity, sizeof *cells);
        if (!cells)
            return -ENOMEM;
        table->cells = cells;
        table->cell_capacity = capacity;
    }
    va_list args;
    va_start(args, format);
    char *text;
    const int length = vasprintf(&text, format, args);
    va_end(args);
    if (length < 0)
        return -ENOMEM;
    table->cells[table->cell_count++] = text;
    return 0;
}

/* Code points: continuation bytes of UTF-8 do not count. */
static size_t text_width(const char *text)
{
    size_t width = 0;
    for (; *text; text++)
        width += ((unsigned char)*text & 0xc0) != 0x80;
    return width;
}

static int append_cell(struct mst_buf *line, const char *text, size_t width, bool right)
{
    const size_t own = text_width(text);
    const int pad = own < width ? (int)(width - own) : 0;
    const int r =
        right ? mst_buf_printf(line, "%*s%s", pad, "", text) : mst_buf_printf(line, "%s%*s", text, pad, "");
    return r < 0 ? r : mst_buf_printf(line, "%*s", COLUMN_GAP, "");
}

/* One row; no blanks at its end, whatever its last cells hold. */
static int print_row(const struct mst_table *table, const char *const *cells, size_t count,
                     const size_t *widths, FILE *stream)
{
    mst_cleanup(mst_buf_release) struct mst_buf line = MST_BUF_INIT(ROW_MAX_BYTES);
    for (size_t c = 0; c < count; c++) {
        const int r = append_cell(&line, cells[c], widths[c], table->right[c]);
        if (r < 0)
            return r;
    }
    while (line.count > 0 && line.bytes[line.count - 1] == ' ')
        line.count--;
    (void)fprintf(stream, "%.*s\n", (int)line.count,
                  mst_buf_text(&line)); /* the stream remembers its errors */
    return 0;
}

int mst_table_print(const struct mst_table *table, FILE *stream)
{
    size_t widths[TABLE_MAX_COLUMNS];
    for (size_t c = 0; c < table->columns; c++)
        widths[c] = text_width(table->names[c]);
    for (size_t i = 0; i < table->cell_count; i++) {
        const size_t width = text_width(table->cells[i]);
        if (width > widths[i % table->columns])
            widths[i % table->columns] = width;
    }

    int r = print_row(table, table->names, table->columns, widths, stream);
    for (size_t i = 0; r == 0 && i < table->cell_count; i += table->columns) {
        const size_t left = table->cell_count - i;
        r = print_row(table, (const char *const *)&table->cells[i],
                      left < table->columns ? left : table->columns, widths, stream);
    }
    if (r < 0)
        return r;
    return fflush(stream) != 0 || ferror(stream) ? -EIO : 0;
}

size_t mst_table_rows(const struct mst_table *table)
{
    return table->cell_count / table->columns;
}
