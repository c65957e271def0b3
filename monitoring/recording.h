/* SPDX-License-Identifier: Apache-2.0 */
/* Reads what record.h wrote, of unknown origin: everything is checked before it is believed. A tail that a
 * crash has torn off is passed over; damage before it is -EBADMSG with its place.
 *
 *     recording_open(path, &recording, err);
 *     recording_seek(recording, from_s, err);
 *     while ((r = recording_next(recording, &pass, err)) > 0) ...
 *     recording_free(recording); */
#ifndef MONITORING_RECORDING_H
#define MONITORING_RECORDING_H

#include "muster/monitor.h"
#include "record_format.h"

struct recording;

struct recording_block {
    struct record_block head;
    uint64_t offset;
};

int recording_open(const char *path, struct recording **ret_recording, struct mst_error *err);
void recording_free(struct recording *recording); /* NULL is fine */

const char *recording_version(const struct recording *recording);
const char *recording_node(const struct recording *recording);
size_t recording_blocks(const struct recording *recording);
const struct recording_block *recording_block(const struct recording *recording, size_t i); /* or NULL */
uint64_t recording_passes(const struct recording *recording);
/* Where the whole blocks end: a writer goes on there. */
uint64_t recording_end(const struct recording *recording);
/* Bytes behind it that are neither a block nor an index: what a crash left. */
uint64_t recording_torn(const struct recording *recording);
/* Wall clock of the first and the last pass; both 0 in a recording without passes. */
void recording_span(const struct recording *recording, double *ret_first_s, double *ret_last_s);

/* The next pass will be the first at or after this time; -INFINITY for the first of all. */
int recording_seek(struct recording *recording, double from_s, struct mst_error *err);
/* 1 and a pass, borrowed until the next call; 0 at the end; -EBADMSG. */
int recording_next(struct recording *recording, const struct monitor_pass **ret_pass, struct mst_error *err);

#endif
