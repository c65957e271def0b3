/* SPDX-License-Identifier: Apache-2.0 */
/* A program's input and output as streams of frames: a source reads a descriptor and sends what the other
 * side has given credit for; a sink takes frames, writes them out, and gives credit for what it has written.
 * So a slow reader slows its writer down, on another machine as in a pipe, and nothing piles up between. */
#ifndef EXEC_LAUNCH_STREAM_H
#define EXEC_LAUNCH_STREAM_H

#include "launch_channel.h"

struct launch_source {
    int fd; /* owned unless `borrowed`; -1: at its end, which was sent */
    bool borrowed;
    uint8_t stream;
    uint32_t credit;
};

struct launch_sink {
    int fd; /* owned unless `borrowed`; -1: closed, what comes is dropped */
    bool borrowed;
    uint8_t stream;
    bool ended; /* the other side has nothing more */
    struct mst_buf waiting;
    uint32_t owed; /* credit that has not been given yet */
};

void launch_source_init(struct launch_source *source, int fd, uint8_t stream);
void launch_sink_init(struct launch_sink *sink, int fd, uint8_t stream);
void launch_source_release(struct launch_source *source);
void launch_sink_release(struct launch_sink *sink);

/* Worth watching for input: there is a descriptor, and credit, and the channel is not full. */
bool launch_source_wants(const struct launch_source *source, const struct launch_channel *channel);
/* Read once, and queue what came. At its end that is told, and the descriptor closed. */
int launch_source_pump(struct launch_source *source, struct launch_channel *channel, struct mst_error *err);
/* -EBADMSG for more than a window. */
int launch_source_credit(struct launch_source *source, uint32_t bytes, struct mst_error *err);

bool launch_sink_wants(const struct launch_sink *sink);
/* -EBADMSG for bytes without credit, or after the end. */
int launch_sink_take(struct launch_sink *sink, const void *bytes, size_t count, struct mst_error *err);
/* Write what the descriptor takes, `most` bytes at a time, and give credit. A reader that is gone is no
 * error. */
int launch_sink_pump(struct launch_sink *sink, struct launch_channel *channel, size_t most,
                     struct mst_error *err);
/* Everything is written, and no more will come. */
bool launch_sink_done(const struct launch_sink *sink);

#endif
