/* SPDX-License-Identifier: Apache-2.0 */
#include "muster/buf.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BUF_FIRST_BYTES 256

int mst_buf_reserve(struct mst_buf *buf, size_t count)
{
    if (count > buf->max_bytes || buf->count > buf->max_bytes - count)
        return -EFBIG;
    const size_t needed = buf->count + count + 1; /* the NUL */
    if (needed <= buf->capacity)
        return 0;

    size_t capacity = buf->capacity ? buf->capacity : BUF_FIRST_BYTES;
    while (capacity < needed)
        capacity = capacity > SIZE_MAX / 2 ? needed : capacity * 2;
    char *bytes = realloc(buf->bytes, capacity);
    if (!bytes)
        return -ENOMEM;
    buf->bytes = bytes;
    buf->capacity = capacity;
    buf->bytes[buf->count] = '\0';
    return 0;
}

int mst_buf_append(struct mst_buf *buf, const void *bytes, size_t count)
{
    const int r = mst_buf_reserve(buf, count);
    if (r < 0)
        return r;
    if (count > 0)
        memcpy(buf->bytes + buf->count, bytes, count);
    buf->count += count;
    buf->bytes[buf->count] = '\0';
    return 0;
}

int mst_buf_append_text(struct mst_buf *buf, const char *text)
{
    return mst_buf_append(buf, text, strlen(text));
}

int mst_buf_printf(struct mst_buf *buf, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    const int length = vsnprintf(NULL, 0, format, args);
    va_end(args);
    if (length < 0)
        return -EINVAL;

    const int r = mst_buf_reserve(buf, (size_t)length);
    if (r < 0)
        return r;
    va_start(args, format);
    (void)vsnprintf(buf->bytes + buf->count, (size_t)length + 1, format, args);
    va_end(args);
    buf->count += (size_t)length;
    return 0;
}

char *mst_format(const char *format, ...)
{
    char *text;
    va_list args;
    va_start(args, format);
    const int length = vasprintf(&text, format, args);
    va_end(args);
    return length < 0 ? NULL : text; /* vasprintf leaves it undefined when it fails */
}

void mst_buf_consume(struct mst_buf *buf, size_t count)
{
    if (count > buf->count)
        count = buf->count;
    if (count == 0)
        return;
    memmove(buf->bytes, buf->bytes + count, buf->count - count + 1);
    buf->count -= count;
}

const char *mst_buf_text(const struct mst_buf *buf)
{
    return buf->bytes ? buf->bytes : "";
}

void mst_buf_clear(struct mst_buf *buf)
{
    buf->count = 0;
    if (buf->bytes)
        buf->bytes[0] = '\0';
}

void mst_buf_release(struct mst_buf *buf)
{
    free(buf->bytes);
    buf->bytes = NULL;
    buf->count = 0;
    buf->capacity = 0;
}
