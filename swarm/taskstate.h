/* SPDX-License-Identifier: Apache-2.0 */
/* States and times of tasks as the manager writes them. */
#ifndef SWARM_TASKSTATE_H
#define SWARM_TASKSTATE_H

#include <stdbool.h>

/* new, allocated, pending, assigned, accepted, preparing, ready, starting */
bool taskstate_is_before_running(const char *state);
/* complete, shutdown, failed, rejected, orphaned, remove */
bool taskstate_is_end(const char *state);
/* "2026-01-31T23:59:59.123456789Z" (RFC 3339) to unix seconds; 0 when it is none. */
double taskstate_time_s(const char *text);

#endif
