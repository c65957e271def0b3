/* SPDX-License-Identifier: Apache-2.0 */
#include "table.h"

#include "muster/cleanup.h"
#include "muster/parse.h"

#include <assert.h>
#include <float.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ABSENT SIZE_MAX

const char *table_column_text(const struct table_column *column, char text[static TABLE_COLUMN_TEXT_BYTES])
{
    if (column->name)
        (void)snprintf(text, TABLE_COLUMN_TEXT_BYTES, "column '%.64s'", column->name);
    else
        (void)snprintf(text, TABLE_COLUMN_TEXT_BYTES, "column %zu", column->place);
    return text;
}

/* ---- the plan ------------------------------------------------------------------------------------------ */

static size_t find_header(const struct csv_reader *reader, const char *name)
{
    for (size_t i = 0; i < reader->field_count; i++) {
        if (strcmp(csv_field(reader, i), name) == 0)
            return i;
    }
    return ABSENT;
}

static int resolve(const struct table_plan *plan, const struct csv_reader *reader, const cJSON *column,
                   size_t *ret_place, struct mst_error *err)
{
    const struct description *description = plan->description;
    const size_t count = reader->field_count;

    if (cJSON_IsNumber(column)) {
        const long place = column->valueint < 0 ? (long)count + column->valueint : column->valueint;
        if (place < 0 || (size_t)place >= count)
            return mst_error_set(err, -EBADMSG, "%s: there is no column %d: '%s' has %zu", description->path,
                                 column->valueint, reader->path, count);
        *ret_place = (size_t)place;
        return 0;
    }
    if (!description->header)
        return mst_error_set(err, -EBADMSG,
                             "%s: column '%.64s': without a header columns are told by their place, from 0",
                             description->path, column->valuestring);
    *ret_place = find_header(reader, column->valuestring);
    if (*ret_place == ABSENT)
        return mst_error_set(err, -EBADMSG, "%s:%zu: there is no column '%.64s'", reader->path, reader->line,
                             column->valuestring);
    return 0;
}

static int add_column(struct table_plan *plan, const struct csv_reader *reader, size_t place,
                      struct mst_error *err)
{
    struct table_column *column = &plan->columns[plan->count];

    for (size_t i = 0; i < plan->count; i++) {
        if (plan->columns[i].place == place)
            return mst_error_set(err, -EBADMSG, "%s: column %zu of '%s' is named twice",
                                 plan->description->path, place, reader->path);
    }
    *column = (struct table_column){.place = place, .scale = 1};
    if (plan->description->header) {
        column->name = strdup(csv_field(reader, place));
        if (!column->name)
            return mst_error_set(err, -ENOMEM, "%s: no memory", reader->path);
    }
    plan->count++;
    return 0;
}

/* For `list` NULL: none. */
static int add_list(struct table_plan *plan, const struct csv_reader *reader, const cJSON *list,
                    struct mst_error *err)
{
    int r = 0;

    for (const cJSON *item = list ? list->child : NULL; item && r >= 0; item = item->next) {
        size_t place;
        r = resolve(plan, reader, item, &place, err);
        if (r >= 0)
            r = add_column(plan, reader, place, err);
    }
    return r;
}

/* All columns but those that are outputs. */
static int add_other_columns(struct table_plan *plan, const struct csv_reader *reader, const bool *is_output,
                             struct mst_error *err)
{
    int r = 0;

    for (size_t place = 0; place < reader->field_count && r >= 0; place++) {
        if (!is_output[place])
            r = add_column(plan, reader, place, err);
    }
    return r;
}

static int mark_outputs(const struct table_plan *plan, const struct csv_reader *reader, bool optional,
                        bool *is_output, bool *ret_some, struct mst_error *err)
{
    const struct description *description = plan->description;
    const cJSON *item = description->label ? description->label : description->targets->child;

    *ret_some = true;
    for (; item; item = description->label ? NULL : item->next) {
        size_t place;
        if (optional && description->header && cJSON_IsString(item) &&
            find_header(reader, item->valuestring) == ABSENT) {
            *ret_some = false;
            return 0;
        }
        const int r = resolve(plan, reader, item, &place, err);
        if (r < 0)
            return r;
        is_output[place] = true;
    }
    return 0;
}

static int mark_categorical(struct table_plan *plan, const struct csv_reader *reader, struct mst_error *err)
{
    const cJSON *list = plan->description->categorical;

    for (const cJSON *item = list ? list->child : NULL; item; item = item->next) {
        size_t place, i = 0;
        const int r = resolve(plan, reader, item, &place, err);
        if (r < 0)
            return r;
        while (i < plan->input_count && plan->columns[i].place != place)
            i++;
        if (i == plan->input_count)
            return mst_error_set(err, -EBADMSG, "%s: categorical column %zu is not among the inputs",
                                 plan->description->path, place);
        plan->columns[i].is_categorical = true;
    }
    return 0;
}

/* Labels that are numbers below a limit, or names in an order that is given, are closed from the start. */
static int prepare_label(struct table_plan *plan, struct mst_error *err)
{
    const struct description *description = plan->description;
    struct table_column *label = &plan->columns[plan->input_count];
    mst_cleanup(mst_freep) uint32_t *moved = NULL;

    label->is_categorical = true;
    if (!description->classes && description->class_count == 0)
        return 0;
    int r = 0;
    const cJSON *item = description->classes ? description->classes->child : NULL;
    for (uint32_t i = 0; r >= 0 && (description->classes ? item != NULL : i < description->class_count);
         i++) {
        char digits[16];
        uint32_t number;
        (void)snprintf(digits, sizeof digits, "%" PRIu32, i);
        r = categories_find(&label->categories, item ? item->valuestring : digits, &number);
        if (r >= 0 && number != i)
            return mst_error_set(err, -EBADMSG, "%s: class '%.64s' is named twice", description->path,
                                 item->valuestring);
        item = item ? item->next : NULL;
    }
    if (r >= 0)
        r = categories_close(&label->categories, true, &moved);
    return r < 0 ? mst_error_errno(err, r, "%s: classes", description->path) : 0;
}

static int find_columns(struct table_plan *plan, const struct csv_reader *reader, bool outputs_optional,
                        struct mst_error *err)
{
    const struct description *description = plan->description;
    mst_cleanup(mst_freep) bool *is_output = calloc(reader->field_count, sizeof *is_output);
    bool some;

    plan->field_count = reader->field_count;
    plan->columns = calloc(2 * reader->field_count, sizeof *plan->columns);
    if (!is_output || !plan->columns)
        return mst_error_set(err, -ENOMEM, "%s: no memory", reader->path);
    int r = mark_outputs(plan, reader, outputs_optional, is_output, &some, err);
    if (r >= 0)
        r = description->inputs ? add_list(plan, reader, description->inputs, err)
                                : add_other_columns(plan, reader, is_output, err);
    plan->input_count = plan->count;
    if (r >= 0)
        r = mark_categorical(plan, reader, err);
    if (r >= 0 && plan->input_count == 0)
        return mst_error_set(err, -EBADMSG, "%s: no column is left to be an input", reader->path);
    if (r < 0 || !some)
        return r;
    if (description->targets)
        return add_list(plan, reader, description->targets, err);
    size_t place;
    r = resolve(plan, reader, description->label, &place, err);
    if (r >= 0)
        r = add_column(plan, reader, place, err);
    return r < 0 ? r : prepare_label(plan, err);
}

static int read_first_row(struct csv_reader *reader, struct mst_error *err)
{
    const int r = csv_next(reader, err);

    return r == 0 ? mst_error_set(err, -EBADMSG, "read '%s': there are no rows", reader->path) : r;
}

int table_plan_make(const struct description *description, const char *path, bool outputs_optional,
                    struct table_plan *ret_plan, struct mst_error *err)
{
    mst_cleanup(csv_release) struct csv_reader reader = {0};
    mst_cleanup(table_plan_release) struct table_plan plan = {.description = description};

    int r = csv_open(&reader, path, description->separator, err);
    if (r >= 0)
        r = read_first_row(&reader, err);
    if (r >= 0)
        r = find_columns(&plan, &reader, outputs_optional, err);
    if (r < 0)
        return r;
    *ret_plan = plan;
    plan = (struct table_plan){0};
    return 0;
}

void table_plan_release(struct table_plan *plan)
{
    for (size_t i = 0; i < plan->count; i++) {
        free(plan->columns[i].name);
        categories_release(&plan->columns[i].categories);
    }
    free(plan->columns);
    *plan = (struct table_plan){0};
}

/* ---- rows ---------------------------------------------------------------------------------------------- */

/* A file being read: where in its rows each column stands. */
struct table_reading {
    struct table_plan *plan;
    struct csv_reader reader;
    size_t field_count;
    size_t *places; /* owned */
};

static void release_reading(struct table_reading *reading)
{
    csv_release(&reading->reader);
    free(reading->places);
}

static int compare_texts(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* A name that stands in the header twice names no column: whichever is taken may be the wrong one. */
static int check_header(const struct table_plan *plan, const struct csv_reader *reader, struct mst_error *err)
{
    const size_t count = reader->field_count;
    mst_cleanup(mst_freep) const char **names = calloc(count, sizeof *names);

    if (!names)
        return mst_error_set(err, -ENOMEM, "read '%s': no memory", reader->path);
    for (size_t i = 0; i < count; i++)
        names[i] = csv_field(reader, i);
    qsort(names, count, sizeof *names, compare_texts);
    for (size_t i = 0; i < plan->count; i++) {
        const char *name = plan->columns[i].name;
        const char **found = bsearch(&name, names, count, sizeof *names, compare_texts);
        const bool twice = found && ((found > names && strcmp(found[-1], name) == 0) ||
                                     (found + 1 < names + count && strcmp(found[1], name) == 0));
        if (twice)
            return mst_error_set(err, -EBADMSG, "%s:%zu: column '%.64s' is there twice", reader->path,
                                 reader->line, name);
    }
    return 0;
}

/* By name in a file with a header: its columns may stand in another order. */
static int find_places(struct table_reading *reading, bool outputs_optional, bool *ret_lacks_output,
                       struct mst_error *err)
{
    const struct table_plan *plan = reading->plan;
    const struct csv_reader *reader = &reading->reader;

    for (size_t i = 0; i < plan->count; i++) {
        const struct table_column *column = &plan->columns[i];
        const size_t place = column->name ? find_header(reader, column->name) : column->place;
        const bool may_lack = outputs_optional && column->name && i >= plan->input_count;
        if (place == ABSENT && !may_lack)
            return mst_error_set(err, -EBADMSG, "%s:%zu: there is no column '%.64s'", reader->path,
                                 reader->line, column->name);
        *ret_lacks_output = *ret_lacks_output || place == ABSENT;
        reading->places[i] = place;
    }
    return 0;
}

/* Spaces around a number mean nothing. */
static int read_number(const char *text, double *ret_value)
{
    char number[64];
    double value;
    size_t length;

    text += strspn(text, " \t");
    length = strlen(text);
    while (length > 0 && (text[length - 1] == ' ' || text[length - 1] == '\t'))
        length--;
    if (length >= sizeof number)
        return -EINVAL;
    memcpy(number, text, length);
    number[length] = '\0';
    if (mst_parse_double(number, -FLT_MAX, FLT_MAX, &value, NULL) < 0)
        return -EINVAL;
    *ret_value = value;
    return 0;
}

static int cell_error(const struct table_reading *reading, const struct table_column *column, int code,
                      const char *text, struct mst_error *err)
{
    const struct csv_reader *reader = &reading->reader;
    char name[TABLE_COLUMN_TEXT_BYTES];

    (void)table_column_text(column, name);
    if (code == -EINVAL && !*text)
        return mst_error_set(err, -EBADMSG, "%s:%zu: %s: the field is empty", reader->path, reader->line,
                             name);
    if (code == -EINVAL)
        return mst_error_set(err, -EBADMSG, "%s:%zu: %s: '%.64s' is not a finite number", reader->path,
                             reader->line, name, text);
    if (code == -ENOENT && reading->plan->description->class_count > 0)
        return mst_error_set(err, -EBADMSG, "%s:%zu: %s: label '%.64s', expected 0 to %" PRIu64, reader->path,
                             reader->line, name, text, reading->plan->description->class_count - 1);
    if (code == -ENOENT)
        return mst_error_set(err, -EBADMSG, "%s:%zu: %s: '%.64s' is not among the training set's %zu",
                             reader->path, reader->line, name, text, column->categories.count);
    if (code == -EFBIG)
        return mst_error_set(err, -EBADMSG, "%s:%zu: %s: more than %d different texts", reader->path,
                             reader->line, name, CATEGORIES_MAX);
    return mst_error_errno(err, code, "%s:%zu: %s", reader->path, reader->line, name);
}

static int read_row(struct table_reading *reading, double *cells, struct mst_error *err)
{
    struct table_plan *plan = reading->plan;
    const struct csv_reader *reader = &reading->reader;

    if (reader->field_count != reading->field_count)
        return mst_error_set(err, -EBADMSG, "%s:%zu: %zu fields, the first row has %zu", reader->path,
                             reader->line, reader->field_count, reading->field_count);
    for (size_t i = 0; i < plan->count; i++) {
        struct table_column *column = &plan->columns[i];
        uint32_t number = 0;
        cells[i] = 0;
        if (reading->places[i] == ABSENT)
            continue;
        const char *text = csv_field(reader, reading->places[i]);
        /* An empty label would be a class of its own; an empty category may well be one. */
        const bool is_label = column->is_categorical && i >= plan->input_count;
        const int r = is_label && !*text       ? -EINVAL
                      : column->is_categorical ? categories_find(&column->categories, text, &number)
                                               : read_number(text, &cells[i]);
        if (r < 0)
            return cell_error(reading, column, r, text, err);
        if (column->is_categorical)
            cells[i] = number;
    }
    return 0;
}

static int have_room(struct table *table, size_t columns, const struct csv_reader *reader,
                     struct mst_error *err)
{
    if (table->rows < table->there)
        return 0;
    if (table->rows >= TRAINER_MAX_SAMPLES)
        return mst_error_set(err, -EBADMSG, "%s:%zu: more than %d rows", reader->path, reader->line,
                             TRAINER_MAX_SAMPLES);
    const size_t there = table->there > 0 ? 2 * table->there : 256;
    double *grown = realloc(table->cells, there * columns * sizeof *grown);
    if (!grown)
        return mst_error_set(err, -ENOMEM, "%s:%zu: no memory for more rows", reader->path, reader->line);
    table->cells = grown;
    table->there = there;
    return 0;
}

/* From the row that the reader stands at to the last. */
static int read_rows(struct table_reading *reading, struct table *table, struct mst_error *err)
{
    const size_t columns = reading->plan->count;
    int r = 1;

    while (r == 1) {
        r = have_room(table, columns, &reading->reader, err);
        if (r >= 0)
            r = read_row(reading, table->cells + table->rows * columns, err);
        if (r < 0)
            return r;
        table->rows++;
        r = csv_next(&reading->reader, err);
    }
    return r;
}

int table_read(struct table_plan *plan, const char *path, bool outputs_optional, struct table *ret_table,
               struct mst_error *err)
{
    mst_cleanup(release_reading) struct table_reading reading = {.plan = plan};
    mst_cleanup(table_release) struct table table = {0};

    int r = csv_open(&reading.reader, path, plan->description->separator, err);
    if (r >= 0)
        r = read_first_row(&reading.reader, err);
    if (r < 0)
        return r;
    reading.field_count = reading.reader.field_count;
    if (!plan->description->header && reading.field_count != plan->field_count)
        return mst_error_set(err, -EBADMSG, "%s:%zu: %zu fields, the training file has %zu", path,
                             reading.reader.line, reading.field_count, plan->field_count);
    reading.places = calloc(plan->count, sizeof *reading.places);
    if (!reading.places)
        return mst_error_set(err, -ENOMEM, "read '%s': no memory", path);
    r = plan->description->header ? check_header(plan, &reading.reader, err) : 0;
    if (r >= 0)
        r = find_places(&reading, outputs_optional, &table.lacks_output, err);
    if (r >= 0 && plan->description->header) {
        r = csv_next(&reading.reader, err);
        if (r == 0)
            return mst_error_set(err, -EBADMSG, "read '%s': no rows behind the header", path);
    }
    if (r >= 0)
        r = read_rows(&reading, &table, err);
    if (r < 0)
        return r;
    *ret_table = table;
    table = (struct table){0};
    return 0;
}

int table_close_categories(struct table_plan *plan, struct table *table, struct mst_error *err)
{
    for (size_t i = 0; i < plan->count; i++) {
        struct table_column *column = &plan->columns[i];
        mst_cleanup(mst_freep) uint32_t *moved = NULL;
        if (!column->is_categorical || column->categories.closed)
            continue;
        const int r = categories_close(&column->categories, false, &moved);
        if (r < 0)
            return mst_error_errno(err, r, "number the categories of a column");
        for (size_t row = 0; row < table->rows; row++) {
            double *cell = &table->cells[row * plan->count + i];
            *cell = moved[(size_t)*cell];
        }
    }
    return 0;
}

void table_release(struct table *table)
{
    free(table->cells);
    *table = (struct table){0};
}
