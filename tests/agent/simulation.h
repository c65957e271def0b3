/* SPDX-License-Identifier: Apache-2.0 */
/* A network that exists in memory only, with several real membership state machines on it. Time is a number
 * that jumps from event to event, so that a minute passes in a few milliseconds, and everything follows from
 * one seed.
 *
 *   - Machines have a slot, which they keep over restarts, and a disk, which keeps the vow and a checkpoint.
 *     They start late, crash (also in the middle of sending to several others, and before or after their vow
 *     is saved), freeze with everything queued for them coming at once afterwards, come back under a new
 *     incarnation and perhaps another address, leave, and stay away.
 *   - Connections are TCP's: one a pair, bytes in order and never twice, each side learns of the beginning
 *     and of the end at a time of its own, and what was under way at the end is lost from some point on. What
 *     is cut off from somebody for two seconds is given up, by each side for itself.
 *   - The job trains synchronously: a step is made once all members of a view are in it and reach each other,
 *     and states differ by one step at most. On a new view all take the furthest state.
 *
 * What must hold is checked at every event (simulation_rules.c). */
#ifndef TESTS_AGENT_SIMULATION_H
#define TESTS_AGENT_SIMULATION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define SIMULATION_MACHINES_MAX 12
#define SIMULATION_TEXT_BYTES   256

/* Where a machine may die. */
enum simulation_crash {
    SIMULATION_CRASH_BETWEEN, /* two events */
    SIMULATION_CRASH_PROPOSE, /* before one of several is sent, as the next three */
    SIMULATION_CRASH_LEAVE,   /* a PROPOSE that says so */
    SIMULATION_CRASH_COMMIT,
    SIMULATION_CRASH_HOLD,
    SIMULATION_CRASH_BEFORE_SAVE,
    SIMULATION_CRASH_AFTER_SAVE,
    SIMULATION_CRASH_COMMITTED, /* the others, but not this one any more */
    SIMULATION_CRASH_STOP,
    SIMULATION_CRASH_LEFT,
    SIMULATION_CRASH_COUNT
};

struct simulation_scenario; /* opaque */

extern const struct simulation_scenario *const simulation_scenarios[];
extern const size_t simulation_scenario_count;
const char *simulation_name(const struct simulation_scenario *scenario);

struct simulation_outcome {
    bool violated;
    char text[SIMULATION_TEXT_BYTES]; /* which rule was broken, and how */
    bool settled;                     /* whoever shall run is in one view, and trains */
    uint64_t settled_ns;              /* from when nothing broke any more */
    uint64_t view, step;              /* at the end */
    size_t commits, signatures, messages, restarts, refused, left, saves;
    size_t crashes[SIMULATION_CRASH_COUNT];
};

/* `trace`: what happens, a line each; NULL: not wanted. */
void simulation_run(const struct simulation_scenario *scenario, uint64_t seed, FILE *trace,
                    struct simulation_outcome *ret_outcome);

#endif
