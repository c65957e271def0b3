/* SPDX-License-Identifier: Apache-2.0 */
#include "predict_result.h"

#include "muster/cleanup.h"
#include "muster/csv.h"
#include "muster/file.h"
#include "muster/json.h"
#include "muster/table.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define ROWS_MAX_BYTES ((size_t)4 << 30)
#define FILE_MODE      0644
#define NUMBER_BYTES   24
#define SHOWN_BYTES    128 /* of a name in the table; whole in JSON and in the rows */

void predict_result_release(struct predict_result *result)
{
    free(result->outputs);
    free(result->classes);
    free(result->names);
    cJSON_Delete(result->encoding);
    *result = (struct predict_result){0};
}

static bool is_labelled(const struct predict_result *result)
{
    return trainer_dataset_is_labelled(result->set);
}

static size_t largest(const float *outputs, size_t width)
{
    size_t best = 0;
    for (size_t c = 1; c < width; c++)
        best = outputs[c] > outputs[best] ? c : best;
    return best;
}

/* exp(x[c]) / sum over exp(x), with the largest in front so that nothing overflows. Outputs that are
 * probabilities already are what a softmax layer gives. */
static double probability(const float *outputs, size_t width, size_t c)
{
    const float most = outputs[largest(outputs, width)];
    double sum = 0;
    for (size_t i = 0; i < width; i++)
        sum += exp((double)outputs[i] - (double)most);
    return exp((double)outputs[c] - (double)most) / sum;
}

static void count_errors(struct predict_result *result)
{
    const size_t values = result->count * result->width;
    for (size_t i = 0; i < values; i++) {
        const float *target = trainer_dataset_target(result->set, i / result->width);
        const double off = (double)result->outputs[i] - (double)target[i % result->width];
        result->absolute += fabs(off) / (double)values;
        result->square += off * off / (double)values;
    }
}

/* Where the encoding has names, and for as many outputs as it has. */
static int find_names(struct predict_result *result, struct mst_error *err)
{
    const cJSON *output =
        cJSON_GetArrayItem(cJSON_GetObjectItemCaseSensitive(result->encoding, "outputs"), 0);
    const cJSON *list = cJSON_GetObjectItemCaseSensitive(output, "categories");
    if (!cJSON_IsArray(list))
        return 0;
    result->names = calloc(result->width, sizeof *result->names);
    if (!result->names)
        return mst_error_set(err, -ENOMEM, "name %zu classes: no memory", result->width);
    size_t c = 0;
    for (const cJSON *name = list->child; name && c < result->width; name = name->next)
        result->names[c++] = cJSON_IsString(name) ? name->valuestring : NULL;
    return 0;
}

int predict_result_count(struct predict_result *result, struct mst_error *err)
{
    if (trainer_dataset_target_size(result->set) > 0) {
        count_errors(result);
        return 0;
    }
    result->classes = calloc(result->width, sizeof *result->classes);
    if (!result->classes)
        return mst_error_set(err, -ENOMEM, "count %zu classes: no memory", result->width);
    for (size_t i = 0; i < result->count; i++) {
        const size_t predicted = largest(result->outputs + i * result->width, result->width);
        const size_t label = trainer_dataset_label(result->set, i);
        result->classes[predicted].predicted++;
        if (!is_labelled(result))
            continue;
        result->classes[label].labelled++;
        result->classes[label].right += label == predicted;
        result->right += label == predicted;
    }
    return find_names(result, err);
}

/* The name that output `c` has in the data, or its number in `text`. */
static const char *class_name(const struct predict_result *result, size_t c, char text[static NUMBER_BYTES])
{
    if (result->names && result->names[c])
        return result->names[c];
    (void)snprintf(text, NUMBER_BYTES, "%zu", c);
    return text;
}

/* For a terminal: control characters as \xNN, so that a name stays in its line and commands nothing, and the
 * end of a long one as "...". */
static const char *show_name(const char *name, char shown[static SHOWN_BYTES])
{
    const size_t most = SHOWN_BYTES - sizeof "\\xNN...";
    size_t used = 0;
    for (; *name && used < most; name++) {
        const unsigned char byte = (unsigned char)*name;
        if (byte < ' ' || byte == 0x7f)
            used += (size_t)snprintf(shown + used, SHOWN_BYTES - used, "\\x%02x", byte);
        else
            shown[used++] = *name;
    }
    (void)snprintf(shown + used, SHOWN_BYTES - used, "%s", *name ? "..." : "");
    return shown;
}

static double share(uint64_t part, uint64_t whole)
{
    return whole > 0 ? (double)part / (double)whole : 0;
}

static int add_class(struct mst_table *table, const struct predict_result *result, size_t c)
{
    const struct predict_class *class = &result->classes[c];
    char name[NUMBER_BYTES], shown[SHOWN_BYTES];
    int r = mst_table_cell(table, "%s", show_name(class_name(result, c, name), shown));
    if (r == 0)
        r = mst_table_cell(table, "%" PRIu64, class->predicted);
    if (r < 0 || !is_labelled(result))
        return r;
    r = mst_table_cell(table, "%" PRIu64, class->labelled);
    if (r == 0)
        r = mst_table_cell(table, "%.4f", share(class->right, class->labelled));
    return r == 0 ? mst_table_cell(table, "%.4f", share(class->right, class->predicted)) : r;
}

static int print_classes(const struct predict_result *result, struct mst_error *err)
{
    struct mst_table *table = NULL;
    int r = mst_table_new(is_labelled(result) ? "CLASS|>PREDICTED|>SAMPLES|>RECALL|>PRECISION"
                                              : "CLASS|>PREDICTED",
                          &table, err);
    if (r < 0)
        return r;
    for (size_t c = 0; r == 0 && c < result->width; c++)
        r = add_class(table, result, c);
    if (r == 0)
        r = mst_table_print(table, stdout);
    mst_table_free(table);
    return r < 0 ? mst_error_errno(err, r, "print the table") : 0;
}

int predict_print_table(const struct predict_result *result, struct mst_error *err)
{
    const bool has_targets = result->classes == NULL;
    int r = has_targets ? 0 : print_classes(result, err);
    if (r < 0)
        return r;
    (void)printf("%ssamples: %zu\n", has_targets ? "" : "\n", result->count);
    if (!has_targets && is_labelled(result))
        (void)printf("accuracy: %.4f (%" PRIu64 " right)\n", share(result->right, result->count),
                     result->right);
    if (has_targets && is_labelled(result))
        (void)printf("mean absolute error: %.6g\nmean squared error: %.6g\n", result->absolute,
                     result->square);
    if (result->has_loss)
        (void)printf("loss: %.6f\n", result->loss);
    return fflush(stdout) != 0 ? mst_error_errno(err, -errno, "print the result") : 0;
}

static int add_class_json(cJSON *list, const struct predict_result *result, size_t c)
{
    const struct predict_class *class = &result->classes[c];
    char name[NUMBER_BYTES];
    cJSON *item = cJSON_CreateObject();
    if (!item || !cJSON_AddItemToArray(list, item)) {
        cJSON_Delete(item);
        return -ENOMEM;
    }
    bool good = cJSON_AddStringToObject(item, "class", class_name(result, c, name)) &&
                cJSON_AddNumberToObject(item, "predicted", (double)class->predicted);
    if (is_labelled(result))
        good = good && cJSON_AddNumberToObject(item, "samples", (double)class->labelled) &&
               cJSON_AddNumberToObject(item, "right", (double)class->right);
    return good ? 0 : -ENOMEM;
}

static int build_json(const struct predict_result *result, cJSON *json)
{
    bool good = cJSON_AddNumberToObject(json, "samples", (double)result->count) != NULL;
    if (is_labelled(result) && result->classes)
        good = good && cJSON_AddNumberToObject(json, "accuracy", share(result->right, result->count));
    if (is_labelled(result) && !result->classes)
        good = good && cJSON_AddNumberToObject(json, "mean_absolute_error", result->absolute) &&
               cJSON_AddNumberToObject(json, "mean_squared_error", result->square);
    if (result->has_loss)
        good = good && cJSON_AddNumberToObject(json, "loss", result->loss);
    cJSON *list = result->classes ? cJSON_AddArrayToObject(json, "classes") : NULL;
    int r = good && (list || !result->classes) ? 0 : -ENOMEM;
    for (size_t c = 0; r == 0 && list && c < result->width; c++)
        r = add_class_json(list, result, c);
    return r;
}

int predict_print_json(const struct predict_result *result, struct mst_error *err)
{
    mst_cleanup(mst_json_deletep) cJSON *json = cJSON_CreateObject();
    const int r = json ? build_json(result, json) : -ENOMEM;
    mst_cleanup(mst_freep) char *text = r == 0 ? cJSON_PrintUnformatted(json) : NULL;
    if (!text)
        return mst_error_set(err, -ENOMEM, "print the result: no memory");
    return puts(text) < 0 || fflush(stdout) != 0 ? mst_error_errno(err, -errno, "print the result") : 0;
}

/* ---- rows ---------------------------------------------------------------------------------------------- */

static int add_label_row(struct mst_buf *rows, const struct predict_result *result, size_t i)
{
    const float *outputs = result->outputs + i * result->width;
    const size_t predicted = largest(outputs, result->width);
    char name[NUMBER_BYTES];
    int r = mst_buf_printf(rows, "%zu,", i);
    if (r == 0)
        r = mst_csv_append(
            rows, is_labelled(result) ? class_name(result, trainer_dataset_label(result->set, i), name) : "",
            ',');
    if (r == 0)
        r = mst_csv_append(rows, class_name(result, predicted, name), ',');
    return r == 0 ? mst_buf_printf(rows, "%.6f\n", probability(outputs, result->width, predicted)) : r;
}

static int add_target_row(struct mst_buf *rows, const struct predict_result *result, size_t i)
{
    const float *outputs = result->outputs + i * result->width;
    const float *targets = trainer_dataset_target(result->set, i);
    int r = mst_buf_printf(rows, "%zu", i);
    for (size_t t = 0; r == 0 && t < result->width; t++)
        r = mst_buf_printf(rows, ",%.9g", (double)targets[t]);
    for (size_t t = 0; r == 0 && t < result->width; t++)
        r = mst_buf_printf(rows, ",%.9g", (double)outputs[t]);
    return r == 0 ? mst_buf_append(rows, "\n", 1) : r;
}

static int add_header(struct mst_buf *rows, const struct predict_result *result)
{
    if (result->classes)
        return mst_buf_append_text(rows, "sample,label,predicted,probability\n");
    int r = mst_buf_append_text(rows, "sample");
    for (size_t t = 0; r == 0 && t < result->width; t++)
        r = mst_buf_printf(rows, ",target_%zu", t);
    for (size_t t = 0; r == 0 && t < result->width; t++)
        r = mst_buf_printf(rows, ",predicted_%zu", t);
    return r == 0 ? mst_buf_append(rows, "\n", 1) : r;
}

int predict_write_rows(const struct predict_result *result, const char *path, struct mst_error *err)
{
    mst_cleanup(mst_buf_release) struct mst_buf rows = MST_BUF_INIT(ROWS_MAX_BYTES);
    int r = add_header(&rows, result);
    for (size_t i = 0; r == 0 && i < result->count; i++)
        r = result->classes ? add_label_row(&rows, result, i) : add_target_row(&rows, result, i);
    if (r < 0)
        return mst_error_errno(err, r, "write '%s'", path);
    return mst_file_write_atomic(path, mst_buf_text(&rows), rows.count, FILE_MODE, err);
}
