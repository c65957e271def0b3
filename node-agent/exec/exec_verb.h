/* SPDX-License-Identifier: Apache-2.0 */
#ifndef EXEC_EXEC_VERB_H
#define EXEC_EXEC_VERB_H

#include "../config.h"

/* Runs the verb `exec` to its end and returns the exit status (supervisor.h). What there is to say has been
 * said. Call it before there are threads. */
int agent_exec(const struct agent_config *config);

#endif
