/* SPDX-License-Identifier: Apache-2.0 */
/* The running containers, kept by what the Engine tells: events, lists and inspect replies. No I/O with the
 * Engine in here (follow.c does that): what must be asked is kept as wishes, so all of it can be tested from
 * stored replies.
 *
 * The events stream is opened for a time before the list is asked for, so an event may tell what the list had
 * already: everything here may be told twice, and the order of events decides. */
#ifndef MONITORING_ROSTER_H
#define MONITORING_ROSTER_H

#include "muster/buf.h"
#include "muster/monitor.h"
#include "oom.h"
#include "target.h"

#include <cjson/cJSON.h>

#define ROSTER_MAX                                                                                           \
    4096 /* containers on one node, and ids to be inspected; the rest waits for the next list */

/* A container to be inspected. What an event tells while the answer is on its way is newer than the answer,
 * so each asking has a ticket, and the event makes it void. */
struct roster_wish {
    char id[MONITOR_ID_BYTES];
    uint64_t ticket;
    bool is_asked;
};

struct roster {
    struct monitor_paths paths;   /* borrowed */
    unsigned wanted;              /* groups of values to open files for */
    struct monitor_labels labels; /* borrowed */
    bool is_remote;               /* no files are opened: the Engine's stats are asked */
    uint64_t memory_bytes;   /* of the Engine's machine, which its stats show where there is no limit; 0: not
                                known */
    struct target **targets; /* owned; in the order in which they came */
    size_t count, capacity;
    struct roster_wish *wishes; /* until they are answered */
    size_t wish_count, wish_capacity;
    uint64_t last_ticket;
    bool needs_list;        /* something was missed: ask for the list */
    struct oom oom;         /* kills for want of memory */
    uint64_t faults;        /* of containers that are no more */
    struct mst_buf scratch; /* for reading files */
};

/* Opens the files of MONITOR_GROUPS_BASIC; set `wanted` and `labels` for others. */
void roster_init(struct roster *roster, const struct monitor_paths *paths);
void roster_release(struct roster *roster);

/* One line of GET /events. -EBADMSG for what is not an event. */
int roster_event(struct roster *roster, const char *line, size_t bytes, struct mst_error *err);

/* GET /containers/json: forgets what is not in it and wishes to inspect what is new, or all with `again`,
 * which is for after a time without events. -EBADMSG: nothing changed. */
int roster_list(struct roster *roster, const cJSON *list, bool again, struct mst_error *err);

/* The next wish that is to be asked for; a copy. False when there is none. */
bool roster_next_wish(struct roster *roster, struct roster_wish *ret_wish);

/* The answer to a wish: opens the container's files. One that is void is passed over. -ENOENT when it runs
 * but cannot be seen, -EBADMSG, -ENOMEM, -EMFILE: it is not sampled then. */
int roster_inspected(struct roster *roster, const struct roster_wish *wish, const cJSON *inspect,
                     struct mst_error *err);
/* There is no answer to it. */
void roster_unanswered(struct roster *roster, const struct roster_wish *wish);

/* A container that is known by other means than the Engine; `cgroup_text` as for target_open(). One that is
 * known already is left as it is. */
int roster_add(struct roster *roster, const struct monitor_container *info, const char *cgroup_text,
               struct mst_error *err);

/* It has gone: close its files. Unknown ids are fine. */
void roster_forget(struct roster *roster, const char *id);

/* NULL when it is not sampled. */
struct target *roster_find(const struct roster *roster, const char *id);

#endif
