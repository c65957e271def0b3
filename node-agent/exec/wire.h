/* SPDX-License-Identifier: Apache-2.0 */
/* What the supervisor and the network part say to each other, over a pair of SOCK_SEQPACKET sockets: one
 * message a packet, with descriptors where a program's input and output go along. The supervisor has the
 * rights of the container's user and trusts nothing that it reads here: every field is checked. */
#ifndef EXEC_WIRE_H
#define EXEC_WIRE_H

#include "facts.h"
#include "muster/buf.h"
#include "muster/error.h"

#include <stdbool.h>
#include <stdint.h>

enum exec_wire_type {
    /* by the network part */
    EXEC_WIRE_FACTS = 1,  /* facts of a view: variables of what is started from now on */
    EXEC_WIRE_START = 2,  /* CMD, with the facts that were told */
    EXEC_WIRE_STOP = 3,   /* CMD, and everything else: answered by STOPPED, also when nothing runs */
    EXEC_WIRE_SPAWN = 4,  /* id, command: a shell with three descriptors, for another worker */
    EXEC_WIRE_SIGNAL = 5, /* id, number: to one that was spawned; SIGKILL included */
    EXEC_WIRE_END = 6,    /* status: how this worker's exec ends */

    /* by the supervisor */
    EXEC_WIRE_STARTED = 16, /* number: the process */
    EXEC_WIRE_EXITED = 17,  /* status; number: 1 when it had been asked to end, by whomever */
    EXEC_WIRE_STOPPED = 18,
    EXEC_WIRE_SPAWN_EXITED = 19, /* id, status */
};

#define EXEC_COMMAND_MAX_BYTES ((size_t)65536) /* that another worker may ask for */
#define EXEC_WIRE_MAX_BYTES    (EXEC_FACTS_MAX_BYTES + EXEC_COMMAND_MAX_BYTES + 64)
#define EXEC_WIRE_FDS          3

/* Which fields count depends on the type; the others are 0. */
struct exec_wire_message {
    enum exec_wire_type type;
    uint32_t id;      /* of a spawned program; never 0 there */
    uint32_t number;  /* see the types */
    uint32_t status;  /* an exit status, 0 to 255 */
    const char *text; /* SPAWN: the command, with a NUL; borrowed from the buffer it was read to */
    const uint8_t *facts;
    size_t facts_bytes;
    int fds[EXEC_WIRE_FDS]; /* SPAWN: input, output, errors. Received ones are owned by the receiver; else -1
                             */
};

/* Both ends: close-on-exec, and non-blocking for reading only (a send waits: packets are few). */
int exec_wire_pair(int ret_fds[static 2], struct mst_error *err);

/* Sends one, its descriptors are borrowed. -EPIPE when the other side is gone; -ETIMEDOUT when it does not
 * read for EXEC_WIRE_SEND_MS. */
#define EXEC_WIRE_SEND_MS 10000
int exec_wire_send(int fd, const struct exec_wire_message *message, struct mst_error *err);

/* 1: one message (texts lie in `buffer`, until its next use), 0: none is waiting; -EPIPE when the other side
 * closed, -EBADMSG for one that nobody sends: then nothing is to be trusted any more. */
int exec_wire_receive(int fd, struct mst_buf *buffer, struct exec_wire_message *ret_message,
                      struct mst_error *err);

#endif
