/* SPDX-License-Identifier: Apache-2.0 */
/* What the launch's files share: launch.c (who may ask, and for what), launch_relay.c (from `rsh` to another
 * agent), launch_serve.c (from another agent to a program here). */
#ifndef EXEC_LAUNCH_PRIVATE_H
#define EXEC_LAUNCH_PRIVATE_H

#include "launch.h"
#include "launch_channel.h"
#include "launch_stream.h"

#include <pthread.h>

#define LAUNCH_OPEN_MS   5000 /* for a request to be made, and for the agent that it names to answer */
#define LAUNCH_END_MS    5000 /* for the last words to be taken */
#define LAUNCH_GIVEN_MAX 128  /* connections of peers that wait for a view, or for this thread */
#define LAUNCH_RELAYS    1024

/* A descriptor in the loop while something is awaited of it. One whose other end is closed is always ready:
 * with nothing awaited it must not be in there. */
struct launch_watch {
    int fd; /* borrowed, the one that is in the loop; -1: none */
    uint32_t events;
};

struct launch_given {
    struct discovery_session session; /* secret */
    int fd;
    uint64_t deadline_ns; /* to be known as a member */
};

struct exec_launch {
    struct exec_launch_options options;
    int listen_fd, given_fd;
    struct discovery_self self; /* secret; as it dials: role and view differ from the agent's */
    struct exec_record *members;
    uint32_t world;
    struct relay *relays; /* owned */
    struct serve *serves; /* owned */
    size_t relay_count;
    uint32_t last_id;

    pthread_mutex_t lock; /* guards the next two */
    struct launch_given given[LAUNCH_GIVEN_MAX];
    size_t given_count;
};

/* Watch `fd` for `events` (0: not at all). */
int launch_watch_set(struct exec_launch *launch, struct launch_watch *watch, int fd, uint32_t events,
                     loop_callback *callback, void *context, struct mst_error *err);
void launch_watch_end(struct exec_launch *launch, struct launch_watch *watch);

/* The worker at an address or of a slot: not this one. -ENOENT with a text for whoever asked. */
int launch_find_host(const struct exec_launch *launch, const char *host,
                     const struct exec_record **ret_member, struct mst_error *err);
bool launch_is_member(const struct exec_launch *launch, const uint8_t *incarnation);

/* ---- launch_relay.c ---- */

/* Takes `fd`, a program of CMD's user, over. */
void relay_begin(struct exec_launch *launch, int fd);
/* Hang up on those whose other side is no member; `all`: on everybody. */
void relay_hang_up(struct exec_launch *launch, bool all);
void relay_tick(struct exec_launch *launch, uint64_t now_ns);
uint64_t relay_deadline_ns(const struct exec_launch *launch);

/* ---- launch_serve.c ---- */

/* Takes `fd` over. */
void serve_begin(struct exec_launch *launch, const struct discovery_session *session, int fd);
void serve_exited(struct exec_launch *launch, uint32_t id, int status);
void serve_hang_up(struct exec_launch *launch, bool all);
void serve_tick(struct exec_launch *launch, uint64_t now_ns);
uint64_t serve_deadline_ns(const struct exec_launch *launch);
void serve_free_all(struct exec_launch *launch);

#endif
