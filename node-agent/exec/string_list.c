/* SPDX-License-Identifier: Apache-2.0 */
#include "string_list.h"

#include "muster/cleanup.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GROW 64

void exec_strings_release(struct exec_strings *strings)
{
    for (size_t i = 0; i < strings->count; i++)
        free(strings->items[i]);
    free(strings->items);
    *strings = (struct exec_strings){0};
}

/* Takes `text` over, also after an error. */
static int append(struct exec_strings *strings, char *text, struct mst_error *err)
{
    int r = 0;
    if (!text)
        return mst_error_set(err, -ENOMEM, "no memory");
    if (strlen(text) >= EXEC_STRING_MAX_BYTES)
        r = mst_error_set(err, -E2BIG, "'%.32s...' is longer than the %zu bytes that a program can be given",
                          text, EXEC_STRING_MAX_BYTES);
    else if (strings->count >= EXEC_STRINGS_MAX)
        r = mst_error_set(err, -E2BIG, "more than %d texts for a program", EXEC_STRINGS_MAX);
    if (r == 0 && strings->count % GROW == 0) {
        char **items = reallocarray(strings->items, strings->count + GROW + 1, sizeof *items);
        if (items)
            strings->items = items;
        else
            r = mst_error_set(err, -ENOMEM, "no memory");
    }
    if (r < 0) {
        free(text);
        return r;
    }
    strings->items[strings->count++] = text;
    strings->items[strings->count] = NULL;
    return 0;
}

int exec_strings_add(struct exec_strings *strings, struct mst_error *err, const char *format, ...)
{
    char *text = NULL;
    va_list args;
    va_start(args, format);
    if (vasprintf(&text, format, args) < 0)
        text = NULL;
    va_end(args);
    return append(strings, text, err);
}

int exec_strings_add_all(struct exec_strings *strings, char *const *items, struct mst_error *err)
{
    int r = 0;
    for (; r == 0 && *items; items++)
        r = append(strings, strdup(*items), err);
    return r;
}

static bool is_named(const char *entry, const char *name)
{
    const size_t length = strlen(name);
    return strncmp(entry, name, length) == 0 && entry[length] == '=';
}

const char *exec_strings_value(const struct exec_strings *strings, const char *name)
{
    for (size_t i = 0; i < strings->count; i++)
        if (is_named(strings->items[i], name))
            return strings->items[i] + strlen(name) + 1;
    return NULL;
}

int exec_strings_set(struct exec_strings *strings, struct mst_error *err, const char *name,
                     const char *format, ...)
{
    mst_cleanup(mst_freep) char *value = NULL;
    char *entry = NULL;
    va_list args;
    va_start(args, format);
    const int made = vasprintf(&value, format, args);
    va_end(args);
    if (made < 0 || asprintf(&entry, "%s=%s", name, value) < 0) {
        value = made < 0 ? NULL : value;
        return mst_error_set(err, -ENOMEM, "no memory");
    }
    const size_t before = strings->count;
    const int r = append(strings, entry, err);
    if (r < 0)
        return mst_error_wrap(err, r, "variable %s", name);
    for (size_t i = 0; i < before; i++) {
        if (is_named(strings->items[i], name)) {
            free(strings->items[i]);
            strings->items[i] = entry;
            strings->items[--strings->count] = NULL;
            break;
        }
    }
    return 0;
}

void exec_strings_unset(struct exec_strings *strings, const char *name)
{
    size_t kept = 0;
    for (size_t i = 0; i < strings->count; i++) {
        if (is_named(strings->items[i], name))
            free(strings->items[i]);
        else
            strings->items[kept++] = strings->items[i];
    }
    if (strings->items)
        strings->items[kept] = NULL;
    strings->count = kept;
}
