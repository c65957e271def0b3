/* SPDX-License-Identifier: Apache-2.0 */
/* The control frames between agents: what stands in the payload of each type (docs/protocol.md). Packing and
 * unpacking only; the frames around them are authenticated and counted by discovery's frame layer. Numbers
 * are big-endian. Unpacking checks every length against the payload and fails with -EBADMSG. */
#ifndef AGENT_CONTROL_H
#define AGENT_CONTROL_H

#include "membership.h"
#include "muster/buf.h"
#include "muster/error.h"

#include <stddef.h>
#include <stdint.h>

enum control_type {
    CONTROL_HEARTBEAT = 1,
    CONTROL_PROPOSE = 2,
    CONTROL_COMMIT = 3,
    CONTROL_ABORT = 4,   /* the sender ends: why, for the close that follows */
    CONTROL_DONE = 5,    /* all steps made and files delivered */
    CONTROL_BYE = 6,     /* everybody is done: the close that follows is no loss */
    CONTROL_REFUSED = 7, /* the view is full: there is no place for the receiver */
    CONTROL_HOLD = 8,
    CONTROL_NOTICE = 9, /* for people: why the receiver has to wait */
    CONTROL_FILE_BEGIN = 16,
    CONTROL_FILE_DATA = 17, /* the next bytes of the file begun last */
    CONTROL_FILE_END = 18,
    CONTROL_COMPLETE = 19, /* to the collector: all workers have delivered */
    CONTROL_STORED = 20,   /* by the collector: what was sent before is on its disk */
};

#define CONTROL_TEXT_BYTES  256 /* a reason with its NUL */
#define CONTROL_NAME_BYTES  256 /* a file name with its NUL */
#define CONTROL_CHUNK_BYTES ((size_t)128 * 1024)

struct control_heartbeat {
    uint64_t view, step;
};

struct control_done {
    uint64_t view, step;
    uint8_t digest[MST_SHA256_BYTES]; /* of the parameters: must be equal in all workers */
};

struct control_file {
    char name[CONTROL_NAME_BYTES]; /* plain, see mst_name_is_plain() */
    uint64_t bytes;
    uint8_t sha256[MST_SHA256_BYTES];
};

/* Packing appends to `payload` and returns 0, or what mst_buf_append() says; texts are cut to fit. */
int control_pack_heartbeat(struct mst_buf *payload, const struct control_heartbeat *heartbeat);
int control_pack_membership(struct mst_buf *payload, const struct membership_message *message);
int control_pack_text(struct mst_buf *payload, uint64_t view, const char *text);
int control_pack_done(struct mst_buf *payload, const struct control_done *done);
int control_pack_file(struct mst_buf *payload, const struct control_file *file);

int control_unpack_heartbeat(const uint8_t *payload, size_t count, struct control_heartbeat *ret_heartbeat,
                             struct mst_error *err);
/* A membership message with what its pointers lead to. */
struct control_membership {
    struct membership_message message;
    struct membership_worker *workers; /* owned, as the next; NULL but for a PROPOSE */
    struct membership_place *places;
};
void control_membership_release(struct control_membership *membership); /* usable with mst_cleanup() */
/* `type` is CONTROL_PROPOSE, CONTROL_COMMIT or CONTROL_HOLD. The caller releases *ret_membership. */
int control_unpack_membership(enum control_type type, const uint8_t *payload, size_t count,
                              struct control_membership *ret_membership, struct mst_error *err);
/* Control characters become '?'; a text of CONTROL_TEXT_BYTES or more is -EBADMSG. */
int control_unpack_text(const uint8_t *payload, size_t count, uint64_t *ret_view,
                        char ret_text[static CONTROL_TEXT_BYTES], struct mst_error *err);
int control_unpack_done(const uint8_t *payload, size_t count, struct control_done *ret_done,
                        struct mst_error *err);
int control_unpack_file(const uint8_t *payload, size_t count, struct control_file *ret_file,
                        struct mst_error *err);

#endif
