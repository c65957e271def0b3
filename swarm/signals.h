/* SPDX-License-Identifier: Apache-2.0 */
/* SIGINT and SIGTERM as a readable descriptor, so that every wait can end on them. Once per process. */
#ifndef SWARM_SIGNALS_H
#define SWARM_SIGNALS_H

#include "muster/error.h"

/* *ret_fd becomes readable when a signal came, and stays so. SIGPIPE is ignored from now on. */
int signals_install(int *ret_fd, struct mst_error *err);
int signals_caught(void); /* SIGINT, SIGTERM or 0 */
/* Cleaning up after the first signal: the next one ends the process at once. */
void signals_restore(void);

#endif
