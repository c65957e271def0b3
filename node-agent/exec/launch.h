/* SPDX-License-Identifier: Apache-2.0 */
/* Programs on other workers, in place of ssh. One worker's CMD (mpirun, horovodrun) calls `muster-agent rsh
 * HOST CMD`; that asks its own worker's agent over a Unix socket; the agent dials the agent at HOST, and the
 * two pass input, output, signals and the exit status through. All connections are between members of one
 * view, authenticated by the hello, and their frames by the session's keys (docs/exec.md).
 *
 * It lives in the job's thread, on that one's loop, but for exec_launch_give(). */
#ifndef EXEC_LAUNCH_H
#define EXEC_LAUNCH_H

#include "loop.h"
#include "muster/error.h"
#include "muster/hello.h"
#include "round.h"

#include <stdint.h>
#include <sys/types.h>

struct exec_launch;

struct exec_launch_options {
    struct loop *loop;                 /* borrowed, as all pointers here */
    const struct discovery_self *self; /* whom dialled agents meet, but for view, state and step, which the
                                          owner's other thread may write at any time */
    uid_t uid;                         /* whose programs may ask */
    void *context;
    /* Start `command` with these descriptors (borrowed); the end is told by exec_launch_exited(). */
    int (*spawn)(void *context, uint32_t id, const char *command, const int fds[static 3],
                 struct mst_error *err);
    void (*signal)(void *context, uint32_t id, int number);
};

/* Listens for `rsh` at the agent's port's name. */
int exec_launch_new(const struct exec_launch_options *options, struct exec_launch **ret_launch,
                    struct mst_error *err);
void exec_launch_free(struct exec_launch *launch); /* NULL is fine; hangs up on everybody */

/* A view begins: its members, by rank (copied). Connections with others are closed. */
int exec_launch_set_members(struct exec_launch *launch, const struct exec_record *records, uint32_t world,
                            struct mst_error *err);
/* A program that was started by spawn() is gone. */
void exec_launch_exited(struct exec_launch *launch, uint32_t id, int status);
/* Hang up on everybody: CMD and what it launched are being ended. */
void exec_launch_hang_up(struct exec_launch *launch);

/* From any thread: a connection that a peer has dialled for this; `fd` is owned by the launch from now on,
 * the session is copied. */
void exec_launch_give(struct exec_launch *launch, const struct discovery_session *session, int fd);

uint64_t exec_launch_deadline_ns(const struct exec_launch *launch);
void exec_launch_tick(struct exec_launch *launch, uint64_t now_ns);

#endif
