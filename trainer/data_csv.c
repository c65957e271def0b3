/* SPDX-License-Identifier: Apache-2.0 */
/* Data sets from CSV files: rows are read as they are, parted, and only then normalised, so that nothing of
 * the rows for validation and test goes into the inputs. */
#include "data.h"
#include "encoding.h"
#include "muster/cleanup.h"
#include "muster/file.h"

#include <stdlib.h>
#include <string.h>

#define MAX_SET_BYTES ((size_t)8589934592) /* 8 GiB */

struct reading {
    const struct description *description;
    const struct trainer_data_options *options;
    char *train_path, *test_path; /* owned; NULL: none */
    struct table_plan plan;
    struct table train, test;
};

static void release_reading(struct reading *reading)
{
    free(reading->train_path);
    free(reading->test_path);
    table_plan_release(&reading->plan);
    table_release(&reading->train);
    table_release(&reading->test);
}

static int name_files(struct reading *reading, const char *folder, struct mst_error *err)
{
    const struct description *description = reading->description;

    if (description->train)
        reading->train_path = mst_path_join(folder, description->train);
    if (description->test)
        reading->test_path = mst_path_join(folder, description->test);
    if ((description->train && !reading->train_path) || (description->test && !reading->test_path))
        return mst_error_set(err, -ENOMEM, "open '%s': no memory", folder);
    if (!description->train && !reading->options->encoding)
        return mst_error_set(err, -EBADMSG, "%s: key 'train' is missing: there is nothing to train with",
                             description->path);
    return 0;
}

/* What is fitted to the training data of one model cannot be fitted again for another: category 3 would be
 * another word, 0 another mean, and nothing would show it but the accuracy. */
static int check_nothing_fitted(const struct reading *reading, struct mst_error *err)
{
    const struct table_plan *plan = &reading->plan;
    char name[TABLE_COLUMN_TEXT_BYTES];

    for (size_t i = 0; i < plan->count; i++) {
        const struct table_column *column = &plan->columns[i];
        const bool is_number = !column->is_categorical &&
                               (i >= plan->input_count || plan->description->normalise == DESCRIPTION_NONE);
        if (!is_number && !column->categories.closed)
            return mst_error_set(err, -EBADMSG,
                                 "%s: %s: how it becomes a number was fitted to the training data, and the "
                                 "model does not have it: its metadata lacks 'encoding'",
                                 plan->description->path, table_column_text(column, name));
    }
    return 0;
}

/* Categories of a label that are given by an encoding are closed, as those of the training file are once it
 * is read: the test file's must be among them. */
static int read_files(struct reading *reading, struct mst_error *err)
{
    const char *first = reading->train_path ? reading->train_path : reading->test_path;
    const bool optional = reading->options->encoding != NULL;

    int r = table_plan_make(reading->description, first, optional, &reading->plan, err);
    if (r >= 0 && reading->options->encoding)
        r = encoding_take(&reading->plan, reading->options->encoding, err);
    else if (r >= 0 && reading->options->is_trained)
        r = check_nothing_fitted(reading, err);
    if (r >= 0 && reading->train_path)
        r = table_read(&reading->plan, reading->train_path, optional, &reading->train, err);
    if (r >= 0)
        r = table_close_categories(&reading->plan, &reading->train, err);
    if (r >= 0 && reading->test_path)
        r = table_read(&reading->plan, reading->test_path, optional, &reading->test, err);
    return r;
}

/* Rows [first, first + count) of a table as a set; only outputs and raw cells are in it so far: inputs are
 * encoded once it is known which rows train. */
static int make_set(const struct table_plan *plan, const struct table *table, size_t first, size_t count,
                    struct trainer_dataset **ret_set, struct mst_error *err)
{
    const size_t outputs = plan->count - plan->input_count, width = encoding_width(plan);
    const bool has_targets = plan->description->targets && outputs > 0;
    mst_cleanup(dataset_freep) struct trainer_dataset *set = calloc(1, sizeof *set);

    if (!set)
        return mst_error_set(err, -ENOMEM, "no memory for a data set");
    if (width > TRAINER_MAX_SAMPLE_SIZE || count > MAX_SET_BYTES / sizeof(float) / width)
        return mst_error_set(err, -EBADMSG, "%zu samples of %zu values are more than the limit of %zu bytes",
                             count, width, MAX_SET_BYTES);
    set->count = count;
    set->shape = (struct trainer_shape){.count = 1, .dims = {width}};
    set->floats = malloc(count * width * sizeof *set->floats);
    set->target_size = has_targets ? outputs : 0;
    set->unlabelled = outputs == 0 || table->lacks_output;
    if (has_targets)
        set->targets = malloc(count * outputs * sizeof *set->targets);
    else
        set->labels = calloc(count, sizeof *set->labels);
    if (!set->floats || (!set->targets && !set->labels))
        return mst_error_set(err, -ENOMEM, "no memory for %zu samples of %zu values", count, width);
    for (size_t i = 0; i < count; i++) {
        const double *cells = table->cells + (first + i) * plan->count;
        encoding_apply(plan, cells, set->floats + i * width);
        if (has_targets)
            for (size_t t = 0; t < outputs; t++)
                set->targets[i * outputs + t] = (float)cells[plan->input_count + t];
        else if (outputs > 0)
            set->labels[i] = (uint32_t)cells[plan->input_count];
    }
    if (!has_targets && outputs > 0)
        set->classes = plan->columns[plan->input_count].categories.count;
    *ret_set = set;
    set = NULL;
    return 0;
}

/* Mark the rows that neither validate nor test: the same choice as data_take_validation() makes. */
static int mark_training(const struct reading *reading, size_t test_rows, bool **ret_trains,
                         struct mst_error *err)
{
    const size_t rows = reading->train.rows - test_rows;
    bool *trains = calloc(reading->train.rows, sizeof *trains);
    int r = 0;

    if (!trains)
        return mst_error_set(err, -ENOMEM, "no memory for parting %zu rows", rows);
    if (reading->options->validation > 0)
        r = dataset_mark_share(rows, reading->options->validation, reading->options->seed, trains, err);
    for (size_t row = 0; row < rows; row++)
        trains[row] = !trains[row];
    if (r < 0) {
        free(trains);
        return r;
    }
    *ret_trains = trains;
    return 0;
}

static int make_training(struct reading *reading, struct trainer_data *ret_data, struct mst_error *err)
{
    const size_t rows = reading->train.rows, test_rows = (size_t)reading->description->test_last;
    mst_cleanup(mst_freep) bool *trains = NULL;

    if (test_rows >= rows)
        return mst_error_set(err, -EBADMSG, "%s: 'test_last' is %zu, and '%s' has %zu rows",
                             reading->description->path, test_rows, reading->train_path, rows);
    int r = mark_training(reading, test_rows, &trains, err);
    if (r < 0)
        return r;
    if (!reading->options->encoding)
        encoding_fit(&reading->plan, &reading->train, trains);
    r = make_set(&reading->plan, &reading->train, 0, rows - test_rows, &ret_data->train, err);
    if (r >= 0 && test_rows > 0)
        r = make_set(&reading->plan, &reading->train, rows - test_rows, test_rows, &ret_data->test, err);
    if (r >= 0)
        r = data_take_validation(ret_data, reading->options, err);
    return r;
}

/* A sample is flat unless the description says otherwise. */
static int give_shape(const struct description *description, struct trainer_dataset *set,
                      struct mst_error *err)
{
    if (!set || description->shape.count == 0)
        return 0;
    if (trainer_shape_elements(&description->shape) != trainer_shape_elements(&set->shape))
        return mst_error_set(err, -EBADMSG, "%s: key 'shape' says %zu values, the columns give %zu",
                             description->path, trainer_shape_elements(&description->shape),
                             trainer_shape_elements(&set->shape));
    set->shape = description->shape;
    return 0;
}

/* One that is given goes on as it is: it has the classes' names also where the files have no label. */
static int give_encoding(const struct reading *reading, char **ret_text, struct mst_error *err)
{
    const char *given = reading->options->encoding;

    if (!given)
        return encoding_write(&reading->plan, ret_text, err);
    char *copy = strdup(given);
    if (!copy)
        return mst_error_set(err, -ENOMEM, "describe the columns: no memory");
    *ret_text = copy;
    return 0;
}

int data_csv_open(const char *folder, const struct description *description,
                  const struct trainer_data_options *options, struct trainer_data *ret_data,
                  struct mst_error *err)
{
    mst_cleanup(release_reading) struct reading reading = {.description = description, .options = options};

    int r = name_files(&reading, folder, err);
    if (r >= 0)
        r = read_files(&reading, err);
    if (r >= 0 && reading.train_path)
        r = make_training(&reading, ret_data, err);
    if (r >= 0 && reading.test_path)
        r = make_set(&reading.plan, &reading.test, 0, reading.test.rows, &ret_data->test, err);
    if (r >= 0)
        r = give_encoding(&reading, &ret_data->encoding, err);
    struct trainer_dataset *const sets[] = {ret_data->train, ret_data->validation, ret_data->test};
    for (size_t i = 0; i < MST_ARRAY_COUNT(sets) && r >= 0; i++)
        r = give_shape(description, sets[i], err);
    return r;
}
