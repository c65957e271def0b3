/* SPDX-License-Identifier: Apache-2.0 */
/* A growing run of bytes with a limit, for whatever comes from outside and for text that is put together.
 * The bytes are always followed by a NUL that is not counted, so that text can be used as a C string. */
#ifndef MUSTER_BUF_H
#define MUSTER_BUF_H

#include <stddef.h>
#include <stdint.h>

struct mst_buf {
    char *bytes; /* owned; NULL while empty: use mst_buf_text() for a string */
    size_t count;
    size_t capacity;
    size_t max_bytes; /* -EFBIG beyond */
};

#define MST_BUF_INIT(max)                                                                                    \
    {                                                                                                        \
        NULL, 0, 0, (max)                                                                                    \
    }

/* All return 0, -EFBIG past the limit, or -ENOMEM; after an error the content is as before. */
int mst_buf_append(struct mst_buf *buf, const void *bytes, size_t count);
int mst_buf_append_text(struct mst_buf *buf, const char *text);
int mst_buf_printf(struct mst_buf *buf, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Make room for `count` more bytes, to be written at bytes + count; the caller then adds to `count` itself.
 */
int mst_buf_reserve(struct mst_buf *buf, size_t count);

/* A new text, owned by the caller; NULL without memory. */
char *mst_format(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Forget the first `count` bytes. */
void mst_buf_consume(struct mst_buf *buf, size_t count);
const char *mst_buf_text(const struct mst_buf *buf); /* never NULL */
void mst_buf_clear(struct mst_buf *buf);             /* keeps the memory */
void mst_buf_release(struct mst_buf *buf);           /* usable with mst_cleanup() */

#endif
