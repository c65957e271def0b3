/* SPDX-License-Identifier: Apache-2.0 */
/* One worker's life: find the others, agree on a view, run the job, end together. All state hangs off struct
 * agent, so that a program may run several. */
#ifndef AGENT_AGENT_H
#define AGENT_AGENT_H

#include "config.h"

/* Runs the verb `train` to its end and returns the exit status. Everything that has to be said has been said.
 */
int agent_train(const struct agent_config *config);

#endif
