/* SPDX-License-Identifier: Apache-2.0 */
/* The job behind `muster-agent exec`: in each view the workers tell each other who they are and which port is
 * free, CMD is started with that, and the view's job is done when CMD has ended everywhere. This is the
 * network part's side: CMD itself belongs to the supervisor (supervisor.h), another process.
 *
 * How a view ends:
 *   - CMD ended with 0 at every worker: done, everybody exits 0.
 *   - It ended with another status at one: the others' are ended, too. That worker exits with CMD's status,
 * the others with 1. Before that counts, membership gets EXEC_VERDICT_MS to say that a worker is lost: then
 *     CMD's failure is no more than a consequence.
 *   - Membership changes: as --on-change says. */
#ifndef EXEC_EXEC_H
#define EXEC_EXEC_H

#include "job.h"
#include "muster/discovery.h"
#include "muster/error.h"
#include "muster/event.h"
#include "settings.h"

#include <stdint.h>
#include <sys/types.h>

#define EXEC_VERDICT_MS 3000 /* MESH_SILENCE_NS, and time to agree that somebody is lost */

struct exec;

struct exec_options {
    const struct exec_settings *settings; /* borrowed, as all pointers here */
    /* Who this worker is, no address: alone. View, state and step in it are not read: the agent's thread
     * changes them. */
    const struct discovery_self *self;
    const char *slot;
    const struct discovery_choice *choice; /* the interface that it is at */
    struct mst_event_sink *events;
    int wire_fd; /* to the supervisor */
    uid_t uid;   /* that CMD runs as: whose `rsh` is served */
};

int exec_new(const struct exec_options *options, struct exec **ret_exec, struct mst_error *err);
void exec_free(struct exec *exec); /* NULL is fine */
struct job exec_job(struct exec *exec);

/* Equal in two workers exactly if their CMD and the settings that must agree are equal. */
int exec_key(const struct exec_settings *settings, uint8_t ret_key[static MST_SHA256_BYTES],
             struct mst_error *err);

/* From the agent's thread: a member has dialled to launch a program here. `fd` is taken over. Without a
 * framework that launches it is closed. */
void exec_give_launch(struct exec *exec, const struct discovery_session *session, int fd);

#endif
