/* SPDX-License-Identifier: Apache-2.0 */
/* The process that was started, PID 1 in a container: it keeps the user and the rights that it was given, and
 * has nothing to do with the network. It starts the network part as a child, and CMD, and for launchers of
 * MPI's kind the programs that other workers ask for; passes signals on; waits for whatever ends; and makes
 * sure that nothing is left behind. What it may be asked by the network part is in wire.h.
 *
 * The exit status is that of CMD, unless CMD was ended because of others (1) or muster itself failed (125).
 */
#ifndef EXEC_SUPERVISOR_H
#define EXEC_SUPERVISOR_H

#include "settings.h"

#define EXEC_STATUS_STOPPED 1   /* CMD was ended because another worker's failed, or membership changed */
#define EXEC_STATUS_FAULT   125 /* of muster's own */

struct exec_supervision {
    const struct exec_settings *settings;
    char *const *environment; /* that CMD's is made from; ends with NULL */
    /* The network part: called in a new process, the result is that one's exit status. */
    int (*network)(void *context, int wire_fd);
    void *context;
};

/* To the end of everything; says what goes wrong. Returns the exit status. Call it before there are threads.
 */
int exec_supervise(const struct exec_supervision *supervision);

#endif
