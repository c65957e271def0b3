/* SPDX-License-Identifier: Apache-2.0 */
/* stats.csv: a row for each `sample` event of the monitors, in the columns of `muster-monitor csv`. */
#ifndef SWARM_STATS_CSV_H
#define SWARM_STATS_CSV_H

#include "muster/buf.h"
#include "muster/file.h"

#include <cjson/cJSON.h>

struct stats_csv;

/* Opens `path` at once, so that a folder that cannot be written is known before anything runs; it appears
 * with stats_csv_commit(). Only samples of `stack` are taken. */
int stats_csv_new(const char *path, const char *stack, struct stats_csv **ret_stats, struct mst_error *err);
void stats_csv_free(struct stats_csv *stats); /* without commit: no file is left */
void stats_csv_freep(struct stats_csv **stats);
/* A sample without time or container is passed over. */
int stats_csv_add(struct stats_csv *stats, const cJSON *sample, struct mst_error *err);
size_t stats_csv_rows(const struct stats_csv *stats);
/* Without a row no file is made. */
int stats_csv_commit(struct stats_csv *stats, struct mst_error *err);

/* One CSV field with its comma, quoted where RFC 4180 asks for it. */
int csv_append_text(struct mst_buf *rows, const char *text, char end);

#endif
