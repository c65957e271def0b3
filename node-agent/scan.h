/* SPDX-License-Identifier: Apache-2.0 */
/* One discovery round for people: who answers, and who of them is an agent of this cluster. */
#ifndef AGENT_SCAN_H
#define AGENT_SCAN_H

#include "config.h"

/* Runs the verb `scan` and returns the exit status. */
int agent_scan(const struct agent_config *config);

#endif
