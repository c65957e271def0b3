/* SPDX-License-Identifier: Apache-2.0 */
#include "window.h"

#include "layer.h"

#include <string.h>

#define MAX_STRIDE 65536

int trainer_window_describe(const struct trainer_window *window, struct mst_buf *text)
{
    return mst_buf_printf(text, " window %zu %zu stride %zu %zu padding %zu %zu %zu %zu", window->size[0],
                          window->size[1], window->stride[0], window->stride[1], window->before[0],
                          window->before[1], window->after[0], window->after[1]);
}

static int read_pair(const cJSON *json, const char *key, size_t min, const size_t max[static 2],
                     const char *where, size_t ret_pair[static 2], struct mst_error *err)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(json, key);
    size_t pair[2];

    if (!cJSON_IsNumber(item) && !(cJSON_IsArray(item) && cJSON_GetArraySize(item) == 2))
        return mst_error_set(err, -EBADMSG, "%s: key '%s' must be [rows, columns], or one number for both",
                             where, key);
    for (int d = 0; d < 2; d++) {
        /* NaN when it is no number */
        const double value = cJSON_GetNumberValue(cJSON_IsArray(item) ? cJSON_GetArrayItem(item, d) : item);
        if (!(value >= (double)min && value <= (double)max[d]) || value != (double)(size_t)value)
            return mst_error_set(err, -EBADMSG, "%s: %s[%d] must be a whole number from %zu to %zu", where,
                                 key, d, min, max[d]);
        pair[d] = (size_t)value;
    }
    memcpy(ret_pair, pair, sizeof pair);
    return 0;
}

static int read_padding(const cJSON *json, const struct trainer_shape *in, const char *where,
                        struct trainer_window *window, struct mst_error *err)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(json, "padding");
    const char *text = cJSON_GetStringValue(item);
    const size_t most[2] = {window->size[0] - 1, window->size[1] - 1};

    if (!item || (text && strcmp(text, "valid") == 0))
        return 0;
    if (text && strcmp(text, "same") == 0) {
        for (int d = 0; d < 2; d++) {
            const size_t places = (in->dims[d] + window->stride[d] - 1) / window->stride[d];
            const size_t reach = (places - 1) * window->stride[d] + window->size[d];
            const size_t padding = reach > in->dims[d] ? reach - in->dims[d] : 0;
            window->before[d] = padding / 2;
            window->after[d] = padding - padding / 2;
        }
        return 0;
    }
    if (text)
        return mst_error_set(err, -EBADMSG,
                             "%s: padding '%.32s', expected 'valid', 'same', a number or [rows, columns]",
                             where, text);
    const int r = read_pair(json, "padding", 0, most, where, window->before, err);
    memcpy(window->after, window->before, sizeof window->after);
    return r;
}

int trainer_window_read(const cJSON *json, const char *size_key, bool stride_is_size,
                        const struct trainer_shape *in, const char *where, struct trainer_window *ret_window,
                        size_t ret_out[static 2], struct mst_error *err)
{
    static const size_t max_stride[2] = {MAX_STRIDE, MAX_STRIDE};
    char text[TRAINER_SHAPE_TEXT_BYTES];
    struct trainer_window window = {.stride = {1, 1}};

    if (in->count != 3)
        return mst_error_set(err, -EBADMSG, "%s: takes rows x columns x channels, but its input is %s", where,
                             trainer_shape_text(in, text));
    /* A window may be larger than the image only by its padding, and that is less than the window. */
    const size_t max_size[2] = {2 * in->dims[0], 2 * in->dims[1]};
    int r = read_pair(json, size_key, 1, max_size, where, window.size, err);
    if (r < 0)
        return r;
    if (stride_is_size)
        memcpy(window.stride, window.size, sizeof window.stride);
    if (cJSON_GetObjectItemCaseSensitive(json, "stride"))
        r = read_pair(json, "stride", 1, max_stride, where, window.stride, err);
    if (r >= 0)
        r = read_padding(json, in, where, &window, err);
    for (int d = 0; d < 2 && r >= 0; d++) {
        const size_t padded = in->dims[d] + window.before[d] + window.after[d];
        if (window.size[d] > padded)
            r = mst_error_set(err, -EBADMSG, "%s: %s[%d] must be a whole number from 1 to the input's %zu%s",
                              where, size_key, d, padded, padded > in->dims[d] ? " with its padding" : "");
        else
            ret_out[d] = (padded - window.size[d]) / window.stride[d] + 1;
    }
    if (r >= 0)
        *ret_window = window;
    return r;
}
