/* SPDX-License-Identifier: Apache-2.0 */
/* The collector: receives the workers' result files and keeps them until somebody fetches them. */
#ifndef AGENT_COLLECT_H
#define AGENT_COLLECT_H

#include "config.h"

/* Runs the verb `collect` until SIGTERM or SIGINT, and returns the exit status. */
int agent_collect(const struct agent_config *config);

#endif
