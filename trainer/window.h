/* SPDX-License-Identifier: Apache-2.0 */
/* A window that slides over an image's rows and columns: what convolutions and pools have in common. */
#ifndef TRAINER_WINDOW_H
#define TRAINER_WINDOW_H

#include "muster/error.h"

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stddef.h>

struct trainer_shape;

/* [0] rows, [1] columns. The window's first place is `before` outside of the image; `after` is how far its
 * last one may reach beyond the end (out = (in + before + after - size) / stride + 1, rounded down). */
struct trainer_window {
    size_t size[2], stride[2], before[2], after[2];
};

/* Read `size_key` ([rows, columns] or one number for both; required), "stride" (the same; when it is not
 * there, 1, or the window's size with `stride_is_size`) and "padding" ("valid", the default: none; "same":
 * as much as takes ceil(in / stride) places, the odd one behind; or numbers, less than the size). `in` is
 * rows x columns x channels; the places on it go to ret_out. */
int trainer_window_read(const cJSON *json, const char *size_key, bool stride_is_size,
                        const struct trainer_shape *in, const char *where, struct trainer_window *ret_window,
                        size_t ret_out[static 2], struct mst_error *err);

/* The part of a window that lies on the image, for output place `at` along dim `d` of `in` places: its places
 * are [*ret_first, *ret_end) of the window, and place p of them is image place start + p, where start is
 * returned, which may be negative. */
static inline ptrdiff_t trainer_window_clip(const struct trainer_window *window, int d, size_t at, size_t in,
                                            size_t *ret_first, size_t *ret_end)
{
    const ptrdiff_t start = (ptrdiff_t)(at * window->stride[d]) - (ptrdiff_t)window->before[d];
    const ptrdiff_t left = (ptrdiff_t)in - start;

    *ret_first = start < 0 ? (size_t)-start : 0;
    *ret_end = left < (ptrdiff_t)window->size[d] ? (size_t)left : window->size[d];
    return start;
}

#endif
