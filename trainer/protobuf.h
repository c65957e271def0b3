/* SPDX-License-Identifier: Apache-2.0 */
/* The little of protocol buffers' wire format that a writer needs: varints, fixed 32 bits, and runs of bytes.
 * Errors stick: the first is kept in `code`, and what comes after it is left out. */
#ifndef TRAINER_PROTOBUF_H
#define TRAINER_PROTOBUF_H

#include "muster/buf.h"

#include <stddef.h>
#include <stdint.h>

struct protobuf {
    struct mst_buf bytes;
    int code; /* 0, or the first error */
};

#define PROTOBUF_INIT(max)                                                                                   \
    {                                                                                                        \
        .bytes = MST_BUF_INIT(max)                                                                           \
    }
void protobuf_release(struct protobuf *message); /* for mst_cleanup() */

void protobuf_number(struct protobuf *message, uint32_t field, uint64_t value);
void protobuf_float(struct protobuf *message, uint32_t field, float value);
void protobuf_text(struct protobuf *message, uint32_t field, const char *text);
/* Tag and length alone: the bytes follow by other means. */
void protobuf_begin(struct protobuf *message, uint32_t field, size_t count);
void protobuf_bytes(struct protobuf *message, uint32_t field, const void *bytes, size_t count);
/* A message in the message; releases it. */
void protobuf_take(struct protobuf *message, uint32_t field, struct protobuf *inner);

#endif
