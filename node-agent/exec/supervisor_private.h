/* SPDX-License-Identifier: Apache-2.0 */
/* What the supervisor's files share: supervisor.c (signals, processes, the end) and supervisor_requests.c
 * (what the network part asks for). */
#ifndef EXEC_SUPERVISOR_PRIVATE_H
#define EXEC_SUPERVISOR_PRIVATE_H

#include "group.h"
#include "muster/buf.h"
#include "muster/clock.h"
#include "string_list.h"
#include "supervisor.h"
#include "wire.h"
#include "workspace.h"

/* For the network part, once it has said how this ends, and from one SIGKILL to the next. */
#define SUPERVISOR_FAREWELL_NS (60 * MST_NS_PER_S)
/* For the network part to take its leave, once it is told to: longer than AGENT_LEAVE_NS and the four seconds
 * that its last words and its thread may take. One that is frozen would never do so. */
#define SUPERVISOR_LEAVE_NS (12 * MST_NS_PER_S)
#define SUPERVISOR_SPAWNS   64 /* programs of other workers at a time */

struct spawn {
    uint32_t id;
    struct exec_group group;
};

struct supervisor {
    const struct exec_supervision *options;
    int signal_fd, wire_fd; /* wire_fd: -1 once the network part is not listened to any more */
    pid_t network;          /* 0: it has ended */
    uint64_t network_kill_ns;
    struct mst_buf packet;

    bool has_facts;
    struct exec_strings environment;
    struct exec_workspace workspace;

    struct exec_group command;
    bool command_ended; /* in this attempt, with command_status */
    int command_status;
    struct spawn spawns[SUPERVISOR_SPAWNS];

    bool stopping; /* everything is to end: orphans, too */
    uint64_t grace_ns, orphan_kill_ns;
    bool answer_stop; /* the network part awaits STOPPED */

    int leaving; /* the signal that told this worker to go; 0: none */
    bool ended;  /* the network part has said how this ends */
    int end_status;
    bool broken; /* the network part cannot be trusted: 125 */
    bool over;   /* nothing is left, and nothing can be asked for */
};

/* ---- supervisor.c ---- */

void supervisor_tell(struct supervisor *supervisor, const struct exec_wire_message *message);
void supervisor_stop_listening(struct supervisor *supervisor);
/* What it says makes no sense: it may have been taken over. */
void supervisor_distrust(struct supervisor *supervisor, const char *why);
/* End everything that runs; check_stopped() sees when that is done. */
void supervisor_stop_all(struct supervisor *supervisor);
void supervisor_command_gone(struct supervisor *supervisor, int status, bool asked);
void supervisor_spawn_gone(struct supervisor *supervisor, uint32_t id, int status);

/* ---- supervisor_requests.c ---- */

/* Do all that the network part has asked for. */
void supervisor_listen(struct supervisor *supervisor);

#endif
