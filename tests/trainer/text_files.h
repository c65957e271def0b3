/* SPDX-License-Identifier: Apache-2.0 */
/* Small files with a text of the test's own. */
#ifndef TESTS_TRAINER_TEXT_FILES_H
#define TESTS_TRAINER_TEXT_FILES_H

#include "helpers.h"

/* In the test's folder; its path goes into `path` (bytes of it; NULL: not wanted). */
static inline void text_write(void **state, const char *name, const char *text, size_t count, char *path,
                              size_t bytes)
{
    char own[512];
    const char *full = helper_path(state, name, path ? path : own, path ? bytes : sizeof own);
    FILE *file = fopen(full, "wb");

    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, count, file), count);
    assert_int_equal(fclose(file), 0);
}

static inline void text_put(void **state, const char *name, const char *text)
{
    text_write(state, name, text, strlen(text), NULL, 0);
}

#endif
