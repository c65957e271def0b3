/* SPDX-License-Identifier: Apache-2.0 */
/* Two clocks: the monotonic one for every duration and deadline, the wall clock for what people read. */
#ifndef MUSTER_CLOCK_H
#define MUSTER_CLOCK_H

#include <stddef.h>
#include <stdint.h>

#define MST_NS_PER_MS 1000000ULL
#define MST_NS_PER_S  1000000000ULL

uint64_t mst_now_ns(void); /* CLOCK_MONOTONIC */
double mst_wall_s(void);   /* seconds since 1970, UTC */
double mst_ms_since(uint64_t start_ns);

/* Milliseconds until `deadline_ns`, rounded up, 0 when past, at most `cap_ms`: what poll(2) takes. */
int mst_ms_until(uint64_t deadline_ns, int cap_ms);

#define MST_UTC_TEXT_BYTES sizeof "2026-01-31T23:59:59.999Z"
/* ISO 8601 in UTC with milliseconds. */
void mst_utc_text(double wall_s, char text[static MST_UTC_TEXT_BYTES]);

#endif
