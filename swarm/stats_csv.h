/* SPDX-License-Identifier: Apache-2.0 */
/* stats.csv: a row for each `sample` event of the monitors, in the columns of `muster-monitor csv`. */
#ifndef SWARM_STATS_CSV_H
#define SWARM_STATS_CSV_H

#include "muster/error.h"

#include <cjson/cJSON.h>
#include <stddef.h>

struct stats_csv;

/* Opens a file in the folder of `path` at once, so that one that cannot be written is known before anything
 * runs; it gets its name with stats_csv_commit(), and until then has none (nothing is left when we are
 * killed), if the file system can do that. Only samples of `stack` are taken. */
int stats_csv_new(const char *path, const char *stack, struct stats_csv **ret_stats, struct mst_error *err);
void stats_csv_free(struct stats_csv *stats); /* without commit: no file is left */
void stats_csv_freep(struct stats_csv **stats);
/* A sample without time or container is passed over. */
int stats_csv_add(struct stats_csv *stats, const cJSON *sample, struct mst_error *err);
size_t stats_csv_rows(const struct stats_csv *stats);
/* Without a row no file is made. */
int stats_csv_commit(struct stats_csv *stats, struct mst_error *err);

#endif
