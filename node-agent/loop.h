/* SPDX-License-Identifier: Apache-2.0 */
/* The agent's one event loop, on epoll(7): descriptors with callbacks, run by one thread. Deadlines stay with
 * those who have them; the owner passes the nearest one to loop_run_once(). */
#ifndef AGENT_LOOP_H
#define AGENT_LOOP_H

#include "muster/error.h"

#include <stdint.h>

struct loop;

/* `events` are epoll's: EPOLLIN, EPOLLOUT, EPOLLHUP, EPOLLERR. A callback may add, change and remove any
 * descriptor, its own included. */
typedef void loop_callback(void *context, uint32_t events);

int loop_new(struct loop **ret_loop, struct mst_error *err);
void loop_free(struct loop *loop); /* NULL is fine; descriptors stay open */

/* `fd` and `context` are borrowed until removed. */
int loop_add(struct loop *loop, int fd, uint32_t events, loop_callback *callback, void *context,
             struct mst_error *err);
int loop_change(struct loop *loop, int fd, uint32_t events, struct mst_error *err);
/* Leave a descriptor unwatched for `pause_ns`, or until loop_change(): for a listener that cannot accept what
 * keeps it readable, and would turn the loop, and the log, at full speed. What waits in its backlog waits on.
 * Failing, it goes on being watched. */
void loop_rest(struct loop *loop, int fd, uint64_t pause_ns);
#define LOOP_REST_NS 250000000ULL            /* for a descriptor to become free */
void loop_remove(struct loop *loop, int fd); /* before close(2); one that was never added is fine */

/* Wait for events until `deadline_ns` (mst_now_ns() kind) and call back for each. 0, also when nothing came.
 */
int loop_run_once(struct loop *loop, uint64_t deadline_ns, struct mst_error *err);

/* The earlier of two times for what is due next. */
static inline void loop_sooner(uint64_t *deadline_ns, uint64_t other_ns)
{
    if (other_ns < *deadline_ns)
        *deadline_ns = other_ns;
}

#endif
