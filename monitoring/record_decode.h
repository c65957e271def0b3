/* SPDX-License-Identifier: Apache-2.0 */
/* The payload of a block back to passes; the counterpart of record_encode.h. */
#ifndef MONITORING_RECORD_DECODE_H
#define MONITORING_RECORD_DECODE_H

#include "record_format.h"

struct record_seen; /* a container of the block */

struct record_decoder {
    const uint8_t *at, *end;   /* of the payload, borrowed */
    struct record_seen **seen; /* owned */
    size_t seen_count, seen_room;
    struct monitor_pass pass;
    struct monitor_sample *samples, *before;
    size_t room;
    struct monitor_training *trainings;
    size_t training_room;
    bool has_machine;
};

/* A new block. What was known of containers serves for `before` of its first pass. */
void record_decoder_start(struct record_decoder *decoder, const void *payload, size_t bytes);
void record_decoder_release(struct record_decoder *decoder);

/* 1 and decoder->pass; 0 at the end of the payload; -EBADMSG, -ENOMEM. */
int record_decode(struct record_decoder *decoder);

/* Takes a text of at most capacity - 1 bytes, without NUL. */
int record_take_text(const uint8_t **at, const uint8_t *end, char *ret_text, size_t capacity);

#endif
