/* SPDX-License-Identifier: Apache-2.0 */
/* The Engine's stats (GET /containers/ID/stats) as the source of counters, for where neither the control
 * groups nor /proc are within reach. It knows less: no swap, no errors of interfaces, no pressure; what it
 * does not know is left out. */
#ifndef MONITORING_API_H
#define MONITORING_API_H

#include "muster/engine.h"
#include "roster.h"

/* One reply to values and their groups; clocks are the caller's. -EBADMSG for what is none; all zeros for a
 * container that does not run is -ENODEV. `sample->devices` and `sample->interfaces` (room for their maxima)
 * are the caller's. */
int api_sample(const char *json, size_t bytes, struct monitor_sample *sample, struct mst_error *err);

/* Asks about all at once and waits for the answers, two seconds at most; without waiting for two readings as
 * `docker stats` does. What is not answered has no sample this time. */
int api_ask(struct roster *roster, struct engine_streams *streams, struct mst_error *err);

/* What was answered last, as target_sample(). */
int api_take(struct target *target, struct monitor_sample *ret_sample);

#endif
