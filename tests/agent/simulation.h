/* SPDX-License-Identifier: Apache-2.0 */
/* A network that exists in memory only, with several real membership state machines on it. Time is a number
 * that jumps from event to event, so that a minute passes in a millisecond, and everything follows from one
 * seed.
 *
 * Connections behave as TCP's do: one a pair, bytes in order and never twice, each side learns of the
 * beginning and of the end at a time of its own, and what was under way at the end is lost from some point
 * on. Machines start late, crash (also in the middle of sending to several others) and come back under a new
 * incarnation. A machine with a committed view that loses one of its members ends and starts anew, as the
 * agent does. */
#ifndef TESTS_AGENT_SIMULATION_H
#define TESTS_AGENT_SIMULATION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SIMULATION_MACHINES_MAX 8

struct simulation_options {
    uint64_t seed;
    size_t machines, wanted;
    uint64_t start_spread_ns;   /* machines start within this */
    uint64_t delay_ns;          /* of a message, at most */
    uint64_t quiet_ns;          /* from then on nothing breaks any more */
    uint32_t losses, crashes;   /* before that, at times of the seed's choice */
    uint32_t crashes_in_a_send; /* of these, each at a message of the seed's choice */
};

struct simulation_outcome {
    bool agreed;          /* as many machines as wanted hold one view that names exactly them */
    uint64_t agreed_ns;   /* when */
    uint64_t view;        /* its number */
    const char *violated; /* a rule that was broken, NULL: none */
    size_t commits, signatures, messages, restarts, refused;
    size_t stalls; /* committed, but not by all of its members */
};

/* Run until agreed, or until `end_ns`. */
void simulation_run(const struct simulation_options *options, uint64_t end_ns,
                    struct simulation_outcome *ret_outcome);

#endif
