/* SPDX-License-Identifier: Apache-2.0 */
/* One connection to another worker: a frame on its way out, and one on its way in. Nothing here waits. */
#ifndef TRAINER_EXCHANGE_LINK_H
#define TRAINER_EXCHANGE_LINK_H

#include "frame.h"

#include <stdbool.h>
#include <stddef.h>

struct exchange_link {
    int fd;            /* owned by the exchange */
    uint32_t peer;     /* its rank */
    uint64_t received; /* bytes of what is under way */
    bool readable,
        writable; /* worth a try: false once the socket had nothing, true again when poll(2) says so */
    struct {
        bool busy; /* a frame is under way */
        uint8_t wire[EXCHANGE_FRAME_BYTES];
        const void *payload;
        size_t payload_bytes;
        size_t done; /* bytes of both that went */
    } out;
    struct {
        uint8_t wire[EXCHANGE_FRAME_BYTES];
        struct exchange_frame frame; /* valid once all of wire is here */
        void *payload;               /* where it goes, see EXCHANGE_LINK_FRAME */
        void *floats;                /* where it is unpacked to, if it has to be */
        size_t done;
        size_t drop_bytes; /* of an older view's payload, still to be read and thrown away */
    } in;
};

enum exchange_link_result {
    EXCHANGE_LINK_BLOCKED, /* nothing there, or no room */
    EXCHANGE_LINK_MOVED,
    EXCHANGE_LINK_FRAME, /* in.frame is here: set in.payload before the next call, in.frame.bytes of it */
    EXCHANGE_LINK_WHOLE, /* frame and payload went through */
};

void exchange_link_load(struct exchange_link *link, const struct exchange_frame *frame, const void *payload);
/* Move what the socket takes of the loaded frame, or gives; *bytes grows by it. Frames of views before that
 * of `own` are dropped. One of the above, or a negative errno with a text that names the peer. */
int exchange_link_send(struct exchange_link *link, uint64_t *bytes, struct mst_error *err);
int exchange_link_receive(struct exchange_link *link, const struct exchange_frame *own, uint64_t *bytes,
                          struct mst_error *err);

#endif
