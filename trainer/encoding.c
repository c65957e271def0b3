/* SPDX-License-Identifier: Apache-2.0 */
#include "encoding.h"

#include "muster/cleanup.h"
#include "muster/json.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- numbers ------------------------------------------------------------------------------------------- */

/* Two passes: the sum of squares less the square of the sum loses everything for a small spread around a
 * large mean. A column of one value becomes zeros. */
static void fit_standard(struct table_column *column, const double *cells, size_t stride, size_t rows,
                         const bool *trains)
{
    double sum = 0, squares = 0;
    size_t count = 0;

    for (size_t row = 0; row < rows; row++) {
        sum += trains[row] ? cells[row * stride] : 0;
        count += trains[row];
    }
    column->shift = sum / (double)count;
    for (size_t row = 0; row < rows; row++) {
        const double off = trains[row] ? cells[row * stride] - column->shift : 0;
        squares += off * off;
    }
    column->scale = squares > 0 ? 1 / sqrt(squares / (double)count) : 1;
}

static void fit_range(struct table_column *column, const double *cells, size_t stride, size_t rows,
                      const bool *trains)
{
    double least = DBL_MAX, most = -DBL_MAX;

    for (size_t row = 0; row < rows; row++) {
        const double value = cells[row * stride];
        least = trains[row] && value < least ? value : least;
        most = trains[row] && value > most ? value : most;
    }
    column->shift = least;
    column->scale = most > least ? 1 / (most - least) : 1;
}

void encoding_fit(struct table_plan *plan, const struct table *table, const bool *trains)
{
    const enum description_normalise way = plan->description->normalise;

    for (size_t i = 0; i < plan->input_count && way != DESCRIPTION_NONE; i++) {
        struct table_column *column = &plan->columns[i];
        if (column->is_categorical)
            continue;
        if (way == DESCRIPTION_STANDARD)
            fit_standard(column, table->cells + i, plan->count, table->rows, trains);
        else
            fit_range(column, table->cells + i, plan->count, table->rows, trains);
    }
}

/* ---- samples ------------------------------------------------------------------------------------------- */

static bool is_one_hot(const struct table_plan *plan, const struct table_column *column)
{
    return column->is_categorical && !plan->description->as_index;
}

size_t encoding_width(const struct table_plan *plan)
{
    size_t width = 0;

    for (size_t i = 0; i < plan->input_count; i++)
        width += is_one_hot(plan, &plan->columns[i]) ? plan->columns[i].categories.count : 1;
    return width;
}

void encoding_apply(const struct table_plan *plan, const double *cells, float *x)
{
    for (size_t i = 0; i < plan->input_count; i++) {
        const struct table_column *column = &plan->columns[i];
        if (is_one_hot(plan, column)) {
            memset(x, 0, column->categories.count * sizeof *x);
            x[(size_t)cells[i]] = 1;
            x += column->categories.count;
        } else {
            *x++ = (float)(column->is_categorical ? cells[i] : (cells[i] - column->shift) * column->scale);
        }
    }
}

/* ---- as JSON ------------------------------------------------------------------------------------------- */

static cJSON *list_names(const struct categories *set)
{
    cJSON *list = cJSON_CreateArray();

    for (size_t i = 0; list && i < set->count; i++) {
        if (!cJSON_AddItemToArray(list, cJSON_CreateString(set->names[i]))) {
            cJSON_Delete(list);
            return NULL;
        }
    }
    return list;
}

static bool add_item(cJSON *object, const char *key, cJSON *item)
{
    if (item && cJSON_AddItemToObject(object, key, item))
        return true;
    cJSON_Delete(item);
    return false;
}

static cJSON *write_column(const struct table_column *column)
{
    cJSON *json = cJSON_CreateObject();
    bool good = json && add_item(json, "column",
                                 column->name ? cJSON_CreateString(column->name)
                                              : cJSON_CreateNumber((double)column->place));

    if (good && column->is_categorical)
        good = add_item(json, "categories", list_names(&column->categories));
    else if (good)
        good = add_item(json, "shift", cJSON_CreateNumber(column->shift)) &&
               add_item(json, "scale", cJSON_CreateNumber(column->scale));
    if (good)
        return json;
    cJSON_Delete(json);
    return NULL;
}

static bool add_columns(cJSON *json, const char *key, const struct table_plan *plan, size_t first, size_t end)
{
    cJSON *list = cJSON_AddArrayToObject(json, key);

    for (size_t i = first; list && i < end; i++) {
        cJSON *column = write_column(&plan->columns[i]);
        if (!column || !cJSON_AddItemToArray(list, column)) {
            cJSON_Delete(column);
            return false;
        }
    }
    return list != NULL;
}

int encoding_write(const struct table_plan *plan, char **ret_text, struct mst_error *err)
{
    mst_cleanup(mst_json_deletep) cJSON *json = cJSON_CreateObject();
    char *text = NULL;

    if (json && add_columns(json, "inputs", plan, 0, plan->input_count) &&
        add_columns(json, "outputs", plan, plan->input_count, plan->count))
        text = cJSON_PrintUnformatted(json);
    if (!text)
        return mst_error_set(err, -ENOMEM, "describe the columns: no memory");
    *ret_text = text;
    return 0;
}

/* ---- and back ------------------------------------------------------------------------------------------ */

static int different(const struct table_column *column, struct mst_error *err)
{
    char name[TABLE_COLUMN_TEXT_BYTES];

    return mst_error_set(err, -EBADMSG, "%s is not what the model was trained with",
                         table_column_text(column, name));
}

static int take_categories(struct table_column *column, const cJSON *list, struct mst_error *err)
{
    mst_cleanup(mst_freep) uint32_t *moved = NULL;
    uint32_t number, expected = 0;
    int r = 0;

    if (!cJSON_IsArray(list))
        return different(column, err);
    categories_release(&column->categories);
    for (const cJSON *item = list->child; item && r >= 0; item = item->next) {
        r = cJSON_IsString(item) ? categories_find(&column->categories, item->valuestring, &number) : -EINVAL;
        if (r >= 0 && number != expected++)
            r = -EINVAL;
    }
    if (r >= 0)
        r = categories_close(&column->categories, true, &moved);
    return r == -ENOMEM ? mst_error_set(err, r, "take a column's categories: no memory")
           : r < 0      ? different(column, err)
                        : 0;
}

static int take_column(struct table_column *column, const cJSON *json, struct mst_error *err)
{
    const double shift = mst_json_double_or(json, "shift", NAN);
    const double scale = mst_json_double_or(json, "scale", NAN);
    const cJSON *categories = cJSON_GetObjectItemCaseSensitive(json, "categories");

    column->is_categorical = categories != NULL;
    if (categories)
        return take_categories(column, categories, err);
    if (!isfinite(shift) || !isfinite(scale))
        return different(column, err);
    column->shift = shift;
    column->scale = scale;
    return 0;
}

static bool is_named(const struct table_column *column, const cJSON *json)
{
    const cJSON *name = cJSON_GetObjectItemCaseSensitive(json, "column");

    return column->name ? cJSON_IsString(name) && strcmp(name->valuestring, column->name) == 0
                        : cJSON_IsNumber(name) && name->valuedouble == (double)column->place;
}

/* Columns [first, end) become those of the list, in its order, and stand first among them. */
static int take_columns(struct table_plan *plan, const cJSON *list, size_t first, size_t end,
                        struct mst_error *err)
{
    int r = 0;

    for (const cJSON *item = list ? list->child : NULL; item && r >= 0; item = item->next, first++) {
        size_t at = first;
        while (at < end && !is_named(&plan->columns[at], item))
            at++;
        if (at == end)
            return mst_error_set(err, -EBADMSG,
                                 "there is no column '%.64s', which the model was trained with",
                                 mst_json_string_or(item, "column", "of that place"));
        const struct table_column found = plan->columns[at];
        plan->columns[at] = plan->columns[first];
        plan->columns[first] = found;
        r = take_column(&plan->columns[first], item, err);
    }
    return r;
}

/* Columns that the model knows nothing of, a row's name or number for one, are left out. */
static void drop_inputs(struct table_plan *plan, size_t first)
{
    for (size_t i = first; i < plan->input_count; i++) {
        free(plan->columns[i].name);
        categories_release(&plan->columns[i].categories);
    }
    memmove(plan->columns + first, plan->columns + plan->input_count,
            (plan->count - plan->input_count) * sizeof *plan->columns);
    plan->count -= plan->input_count - first;
    plan->input_count = first;
}

int encoding_take(struct table_plan *plan, const char *text, struct mst_error *err)
{
    mst_cleanup(mst_json_deletep) cJSON *json = NULL;

    int r = mst_json_parse(text, strlen(text), "encoding of the model's data", &json, err);
    if (r < 0)
        return r;
    const cJSON *inputs = cJSON_GetObjectItemCaseSensitive(json, "inputs");
    const size_t count = (size_t)cJSON_GetArraySize(inputs);
    if (count == 0)
        return mst_error_set(err, -EBADMSG, "the model was not trained with columns");
    r = take_columns(plan, inputs, 0, plan->input_count, err);
    if (r < 0)
        return r;
    drop_inputs(plan, count);
    r = take_columns(plan, plan->count > count ? cJSON_GetObjectItemCaseSensitive(json, "outputs") : NULL,
                     count, plan->count, err);
    /* Classes have names, and what is predicted as a number has none. */
    for (size_t i = count; i < plan->count && r >= 0; i++) {
        if (plan->columns[i].is_categorical == (plan->description->targets != NULL))
            r = different(&plan->columns[i], err);
    }
    return r;
}
