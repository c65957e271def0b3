/* SPDX-License-Identifier: Apache-2.0 */
/* Handing result files to the collector, over a control connection of their own. Blocking: for the job's
 * thread. Every wait has DELIVER_SILENCE_MS. */
#ifndef AGENT_DELIVER_H
#define AGENT_DELIVER_H

#include "muster/discovery.h"
#include "muster/error.h"

#include <stdint.h>

#define DELIVER_SILENCE_MS     10000
#define DELIVER_STORED_MS      60000
#define DELIVER_FILE_MAX_BYTES ((uint64_t)8 << 30)

struct deliver;

int deliver_open(const struct discovery_self *self, const struct discovery_identity *collector,
                 struct deliver **ret_deliver, struct mst_error *err);
void deliver_free(struct deliver *deliver); /* NULL is fine */

/* Send the file under a plain name; returns once the collector has it on its disk. */
int deliver_file(struct deliver *deliver, const char *path, const char *name, struct mst_error *err);
/* Tell that all workers have delivered. */
int deliver_complete(struct deliver *deliver, struct mst_error *err);
/* The same where another worker sees to it that this is heard: nothing is awaited. */
void deliver_hint_complete(struct deliver *deliver);

#endif
