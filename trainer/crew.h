/* SPDX-License-Identifier: Apache-2.0 */
/* Threads that share the arithmetic of a step. There is one crew a process, for it is the process's CPUs that
 * are shared out: trainers hire it with as many threads as they may use, and the last one to go sends it
 * home.
 *
 * Work is cut into parts that anybody may do, in any order. Whoever brings it takes part, and does all of it
 * when the others are late or work for someone else, so it never waits for a thread that has not begun. What
 * comes out must not depend on who does which part; and bits must not depend on the number of parts, unless
 * that does not depend on the number of threads. */
#ifndef TRAINER_CREW_H
#define TRAINER_CREW_H

#include "muster/error.h"

#include <stdint.h>

#define CREW_MAX_PARTS 65535

/* From now on as many threads, the caller's included, whatever it was before. -EAGAIN when the system gives
 * no thread; then the crew is as it was. */
int crew_hire(uint32_t threads, struct mst_error *err);
/* Once for each crew_hire() that succeeded. */
void crew_dismiss(void);

/* Threads that may work at once, at least 1: the caller's. */
uint32_t crew_size(void);
/* work(context, part) for each part below `parts`, at most CREW_MAX_PARTS; returns when all are done. Work
 * may bring work: that is done by the thread that brings it. */
void crew_share(uint32_t parts, void (*work)(void *context, uint32_t part), void *context);

#endif
