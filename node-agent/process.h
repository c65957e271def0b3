/* SPDX-License-Identifier: Apache-2.0 */
/* What a process that may be PID 1 owes: signals as events in its loop, orphans reaped. */
#ifndef AGENT_PROCESS_H
#define AGENT_PROCESS_H

#include "muster/error.h"

/* Catch SIGTERM, SIGINT, SIGHUP and SIGCHLD, ignore SIGPIPE, and give a descriptor (the caller's to close)
 * that is readable when one came. Handlers are the process's: of several calls the newest one hears. */
int process_signals_open(int *ret_fd, struct mst_error *err);
/* Read what came: reaps children; returns SIGTERM or SIGINT (SIGHUP counts as SIGTERM) when asked to stop,
 * else 0. */
int process_signals_read(int fd);

/* Milliseconds from this process's start, as the kernel has it, to now; 0 when /proc does not tell. */
double process_age_ms(void);

#endif
