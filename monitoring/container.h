/* SPDX-License-Identifier: Apache-2.0 */
/* What the Engine knows about a container, out of its inspect reply. */
#ifndef MONITORING_CONTAINER_H
#define MONITORING_CONTAINER_H

#include "muster/monitor.h"

#include <cjson/cJSON.h>

/* 64 lower-case hex digits: what becomes part of a path must look like one. */
bool container_id_is_valid(const char *id);

/* -EBADMSG when a field is missing that every engine gives. pid 0 says that the container does not run.
 * `labels` NULL: the default ones. */
int container_from_inspect(const cJSON *inspect, const struct monitor_labels *labels,
                           struct monitor_container *ret_container, struct mst_error *err);

/* "2026-11-27T23:06:11.123456789Z" or with an offset, in Unix seconds; 0 for what is none, and for the year 1
 * that the Engine writes for "never". */
double container_time_s(const char *rfc3339);

#endif
