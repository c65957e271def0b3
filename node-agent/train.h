/* SPDX-License-Identifier: Apache-2.0 */
/* The training job: a model and a data set driven by trainer/, with events, histories and files. */
#ifndef AGENT_TRAIN_H
#define AGENT_TRAIN_H

#include "config.h"
#include "job.h"
#include "muster/digest.h"
#include "muster/event.h"

#include <stdint.h>

struct train_options {
    const struct agent_config *config; /* borrowed */
    const char *slot;                  /* borrowed */
    struct mst_event_sink *events;     /* borrowed */
    uint64_t start_ns;                 /* of the agent, for "since start" */
};

struct train;

/* Read model and data and lay out the arenas; no network. Errors are about the user's files and settings, but
 * for -ENOMEM. */
int train_new(const struct train_options *options, struct train **ret_train, struct mst_error *err);
void train_free(struct train *train); /* NULL is fine */

/* Equal in two workers exactly if they run the same job. */
int train_key(const struct train *train, uint8_t ret_key[static MST_SHA256_BYTES], struct mst_error *err);
/* The job over `train`, which it borrows. */
struct job train_job(struct train *train);

#endif
