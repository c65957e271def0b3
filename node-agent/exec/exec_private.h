/* SPDX-License-Identifier: Apache-2.0 */
/* What the two halves of the job share: exec.c (from one view to the next) and exec_run.c (in one). */
#ifndef EXEC_EXEC_PRIVATE_H
#define EXEC_EXEC_PRIVATE_H

#include "exec.h"
#include "launch.h"
#include "loop.h"
#include "outcomes.h"
#include "round.h"
#include "wire.h"

struct exec {
    struct exec_options options;
    struct loop *loop;          /* owned, as the next two */
    struct exec_launch *launch; /* NULL: no framework of ours launches */
    struct mst_buf packet;      /* the supervisor's last message */

    /* CMD, over the views */
    bool stop_pending; /* the supervisor was told to end all, and has not said that it did */
    bool started;      /* in this process's life */
    uint64_t started_view;
    bool running;
    struct exec_outcome own;
    enum exec_over over; /* the supervisor was told how this ends */
    uint16_t port;       /* free at this worker's address when it was asked for */
    int port_fd;         /* holds it until CMD starts; -1 */

    /* in a view */
    struct exec_round round; /* its descriptors are owned here */
    struct exec_record *records;
    struct exec_outcomes outcomes;
    uint8_t message[EXEC_ROUND_BYTES]; /* the beginning of the next one around the ring */
    size_t message_count;
    struct mst_buf out;
    bool wants_write;
    uint64_t verdict_ns; /* when CMD's failure counts; 0: it has not failed, or it does count */
    uint64_t ends_ns;    /* when all must have told how theirs ended; 0: no failure is known */
    uint64_t torn_ns;    /* the ring is broken: until then membership may say why; 0: it is not */
    bool decided;
    int result; /* of run(), once decided */
    struct mst_error err;
};

/* Send one to the supervisor. -EPROTO when it is gone: then this worker ends. */
int exec_tell(struct exec *exec, const struct exec_wire_message *message, struct mst_error *err);
/* Read what the supervisor says until nothing is left. */
int exec_listen(struct exec *exec, struct mst_error *err);
int exec_stop_all(struct exec *exec, struct mst_error *err);
/* How this worker's exec ends. */
int exec_end(struct exec *exec, int status, enum exec_over over, struct mst_error *err);
bool exec_runs_here(const struct exec *exec);

/* In the view that was entered: as job_kind's run(). */
int exec_run_view(struct exec *exec, const struct job_view *view, struct job_result *ret_result,
                  struct mst_error *err);

#endif
