/* SPDX-License-Identifier: Apache-2.0 */
/* history-<slot>.csv from the epoch events, for stacks without a collector and for runs that failed. */
#ifndef SWARM_HISTORY_CSV_H
#define SWARM_HISTORY_CSV_H

#include "workers.h"

/* Appends header and rows. 0, -EFBIG or -ENOMEM. */
int history_csv_append(struct mst_buf *text, const struct worker *worker);
/* Writes `folder`/history-<slot>.csv for every worker with a finished epoch whose file is not there so far.
 */
int history_csv_write_missing(const char *folder, const struct workers *workers, struct mst_error *err);

#endif
