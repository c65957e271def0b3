/* SPDX-License-Identifier: Apache-2.0 */
/* The training job: a model and a data set driven by trainer/, with events, histories, checkpoints and
 * files. */
#ifndef AGENT_TRAIN_H
#define AGENT_TRAIN_H

#include "agent.h"

struct train;

/* No files are read yet. NULL without memory. */
struct train *train_new(void);
void train_free(struct train *train); /* NULL is fine */
/* The work over `train`, which it borrows. */
struct agent_work train_work(struct train *train);

#endif
