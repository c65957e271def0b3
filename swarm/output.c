/* SPDX-License-Identifier: Apache-2.0 */
#include "output.h"

#include "muster/buf.h"
#include "muster/cleanup.h"
#include "plain.h"
#include "stack.h"

#include <poll.h>
#include <stdarg.h>
#include <string.h>

#define CELL_MAX_BYTES 1024

int output_parse_format(const char *text, enum output_format *ret_format, struct mst_error *err)
{
    if (strcmp(text, "table") == 0)
        *ret_format = OUTPUT_TABLE;
    else if (strcmp(text, "json") == 0)
        *ret_format = OUTPUT_JSON;
    else
        return mst_error_set(err, -EINVAL, "'%s' is neither table nor json", text);
    return 0;
}

int output_init(struct output *output, enum output_format format, const struct output_column *columns,
                size_t count, struct mst_error *err)
{
    mst_cleanup(mst_buf_release) struct mst_buf headings = MST_BUF_INIT(4096);

    *output = (struct output){.format = format, .columns = columns, .column_count = count};
    if (format == OUTPUT_JSON) {
        output->rows = cJSON_CreateArray();
        return output->rows ? 0 : mst_error_set(err, -ENOMEM, "list: no memory");
    }
    for (size_t i = 0; i < count; i++) {
        if (mst_buf_printf(&headings, "%s%s", i > 0 ? "|" : "", columns[i].heading) < 0)
            return mst_error_set(err, -ENOMEM, "list: no memory");
    }
    return mst_table_new(mst_buf_text(&headings), &output->table, err);
}

static void put(struct output *output, const char *text, cJSON *item)
{
    const struct output_column *column = &output->columns[output->next];

    if (output->format == OUTPUT_TABLE) {
        cJSON_Delete(item);
        if (mst_table_cell(output->table, "%s", text) < 0)
            output->no_memory = true;
    } else {
        if (output->next == 0) {
            output->row = cJSON_CreateObject();
            if (!cJSON_AddItemToArray(output->rows, output->row))
                output->no_memory = true;
        }
        if (!item || output->no_memory || !cJSON_AddItemToObject(output->row, column->key, item)) {
            output->no_memory = true;
            cJSON_Delete(item);
        }
    }
    output->next = (output->next + 1) % output->column_count;
}

void output_text(struct output *output, const char *format, ...)
{
    char text[CELL_MAX_BYTES];
    va_list arguments;

    va_start(arguments, format);
    (void)vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (output->format == OUTPUT_TABLE)
        plain_text(text);
    put(output, text, output->format == OUTPUT_JSON ? cJSON_CreateString(text) : NULL);
}

void output_number(struct output *output, double value, int decimals)
{
    char text[64];

    (void)snprintf(text, sizeof text, "%.*f", decimals, value);
    put(output, text, output->format == OUTPUT_JSON ? cJSON_CreateNumber(value) : NULL);
}

void output_nothing(struct output *output)
{
    put(output, "-", output->format == OUTPUT_JSON ? cJSON_CreateNull() : NULL);
}

int output_failed(int code, struct mst_error *err)
{
    struct pollfd out = {.fd = STDOUT_FILENO};

    /* A stream remembers that a write failed, and forgets why: a pipe without a reader tells. */
    if (code == -EPIPE || (poll(&out, 1, 0) == 1 && (out.revents & POLLERR)))
        return mst_error_errno(err, SWARM_READER_LEFT, "write to stdout");
    return mst_error_errno(err, code, "write to stdout");
}

int output_print(struct output *output, struct mst_error *err)
{
    int r = output->no_memory ? -ENOMEM : 0;

    if (r == 0 && output->format == OUTPUT_TABLE) {
        r = mst_table_print(output->table, stdout);
    } else if (r == 0) {
        mst_cleanup(mst_freep) char *text = cJSON_Print(output->rows);
        r = !text ? -ENOMEM : printf("%s\n", text) < 0 ? -EIO : 0;
    }
    if (r == 0 && fflush(stdout) != 0)
        r = -errno;
    return r < 0 ? output_failed(r, err) : 0;
}

void output_release(struct output *output)
{
    mst_table_free(output->table);
    cJSON_Delete(output->rows);
    *output = (struct output){0};
}
