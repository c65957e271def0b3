/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers in network order, to a buffer and from a payload whose end is checked. */
#ifndef AGENT_BYTES_H
#define AGENT_BYTES_H

#include "muster/buf.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* What is left of a payload. `broken` remembers that more was asked for than there was: it is asked once, at
 * the end. */
struct bytes_cursor {
    const uint8_t *next;
    size_t left;
    bool broken;
};

static inline int bytes_put(struct mst_buf *buf, uint64_t value, size_t bytes)
{
    uint8_t text[8];
    for (size_t i = 0; i < bytes; i++)
        text[i] = (uint8_t)(value >> (8 * (bytes - 1 - i)));
    return mst_buf_append(buf, text, bytes);
}

static inline uint64_t bytes_take(struct bytes_cursor *cursor, size_t bytes)
{
    uint64_t value = 0;
    if (bytes > cursor->left) {
        cursor->broken = true;
        return 0;
    }
    for (size_t i = 0; i < bytes; i++)
        value = value << 8 | cursor->next[i];
    cursor->next += bytes;
    cursor->left -= bytes;
    return value;
}

/* Raw bytes; zeros where there are too few. */
static inline void bytes_take_raw(struct bytes_cursor *cursor, void *ret_bytes, size_t count)
{
    if (count > cursor->left) {
        cursor->broken = true;
        memset(ret_bytes, 0, count);
        return;
    }
    memcpy(ret_bytes, cursor->next, count);
    cursor->next += count;
    cursor->left -= count;
}

/* A text of up to 255 bytes: its length in one byte, then the bytes. */
static inline int bytes_put_text(struct mst_buf *buf, const char *text, size_t length)
{
    const int r = bytes_put(buf, length, 1);
    return r < 0 ? r : mst_buf_append(buf, text, length);
}

/* Into `ret_text` of `size` bytes, with a NUL; too long for it, or with a NUL inside, is broken. */
static inline void bytes_take_text(struct bytes_cursor *cursor, char *ret_text, size_t size)
{
    const size_t length = (size_t)bytes_take(cursor, 1);
    if (length >= size || length > cursor->left) {
        cursor->broken = true;
        ret_text[0] = '\0';
        return;
    }
    for (size_t i = 0; i < length; i++) {
        ret_text[i] = (char)cursor->next[i];
        cursor->broken |= ret_text[i] == '\0';
    }
    ret_text[length] = '\0';
    cursor->next += length;
    cursor->left -= length;
}

#endif
