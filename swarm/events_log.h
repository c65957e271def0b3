/* SPDX-License-Identifier: Apache-2.0 */
/* events.jsonl: the workers' events of a run as they came, for whoever asks later what the summary does not
 * say. */
#ifndef SWARM_EVENTS_LOG_H
#define SWARM_EVENTS_LOG_H

#include "muster/buf.h"
#include "muster/error.h"
#include "muster/file.h"

#include <stdbool.h>
#include <stddef.h>

struct events_log {
    struct mst_file_writer file;
    struct mst_buf lines; /* not written so far */
    bool is_open;
    size_t count;
};

int events_log_open(struct events_log *log, const char *path, struct mst_error *err);
/* A line of a worker's. What is no event, and those that only tell how far it is (`progress`, `waiting`,
 * `sample`), are passed over. Nothing happens when the log is not open. */
int events_log_add(struct events_log *log, const char *line, size_t count, struct mst_error *err);
/* Without a line no file is made. */
int events_log_commit(struct events_log *log, struct mst_error *err);
void events_log_release(struct events_log *log); /* without commit: no file is left */

#endif
