/* SPDX-License-Identifier: Apache-2.0 */
/* A program and whatever it starts: a process group of its own, begun, signalled and ended as a whole.
 *
 *     exec_group_start()
 *     exec_group_reaped() with what waitid(2) says of its first process
 *     exec_group_tick() until it returns true: nothing of it is left
 *
 * A group ends when its first process has ended: what that leaves behind is told to end, and killed when it
 * does not. One thread; the owner waits for children and keeps the clock. */
#ifndef EXEC_GROUP_H
#define EXEC_GROUP_H

#include "muster/error.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum exec_group_state {
    EXEC_GROUP_NONE,
    EXEC_GROUP_RUNNING,
    EXEC_GROUP_ENDED, /* its first process has; others of it may be left */
};

struct exec_group {
    enum exec_group_state state;
    pid_t pid;        /* of the first process, and the group's number */
    int status;       /* exit status as a shell has it, once ENDED */
    bool asked;       /* somebody told it to end */
    bool killed;      /* SIGKILL has been sent to all of it */
    bool foreground;  /* holds the terminal */
    uint64_t kill_ns; /* when that is due; 0: not asked to end */
};

struct exec_start {
    char *const *argv, *const *environment;
    const int *fds;  /* input, output, errors; NULL: this process's own */
    bool foreground; /* give it the terminal, where input is one and this process has it */
};

/* 0, or a negative errno of fork(2) or execve(2): exec_group_start_status() makes a shell's status of it. */
int exec_group_start(struct exec_group *group, const struct exec_start *start, struct mst_error *err);
int exec_group_start_status(int code); /* 127: not found, 126: cannot be executed, 125: anything else */

/* To every process of it; nothing when there is none. */
void exec_group_signal(const struct exec_group *group, int number);
/* SIGTERM to all now, unless it has been asked to end; SIGKILL after `grace_ns`. A second call may shorten
 * the grace. */
void exec_group_end(struct exec_group *group, uint64_t grace_ns, uint64_t now_ns);
/* Its first process has ended, and is still there for waitid(2): `status` as a shell has it. */
void exec_group_reaped(struct exec_group *group, int status, uint64_t now_ns);
/* True when nothing of it is left, or when SIGKILL did not help for EXEC_GROUP_GIVE_UP_MS: then it is
 * NONE again. False for a group that is not there. */
#define EXEC_GROUP_GIVE_UP_MS 5000
bool exec_group_tick(struct exec_group *group, uint64_t now_ns);
/* When the next tick is due; UINT64_MAX: not by the clock. */
uint64_t exec_group_deadline_ns(const struct exec_group *group, uint64_t now_ns);

/* A status of wait(2) as a shell has it: 0 to 255, 128 + n for signal n. */
int exec_shell_status(int wait_status);

#endif
