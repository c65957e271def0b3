/* SPDX-License-Identifier: Apache-2.0 */
/* Passes to the payload of a block: each container is described once, and then only what has changed. */
#ifndef MONITORING_RECORD_ENCODE_H
#define MONITORING_RECORD_ENCODE_H

#include "record_format.h"

struct record_known; /* a container, and its newest sample in the block */

struct record_encoder {
    struct mst_buf text;
    struct record_known **known; /* owned */
    size_t known_count, known_room;
    struct monitor_machine machine;
    struct monitor_self self;
    uint64_t read_ns;
    bool has_machine;
};

void record_encoder_init(struct record_encoder *encoder);
void record_encoder_reset(struct record_encoder *encoder); /* a new block */
void record_encoder_release(struct record_encoder *encoder);

/* Appends; after an error the block is only good for a reset. */
int record_encode(struct record_encoder *encoder, const struct monitor_pass *pass);

int record_put_text(struct mst_buf *text, const char *value);

#endif
