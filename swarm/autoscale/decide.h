/* SPDX-License-Identifier: Apache-2.0 */
/* How many tasks a service should have: a state machine without I/O and without a clock of its own.
 *
 * With `load` = what all tasks do together in units of the metric, tasks are added when the load is more than
 * (1 + tolerance) times what they are to carry, up to ceil(load / target); and taken away down to
 * ceil(load / (target * (1 - tolerance))), so that what is left does not stand at the brink of being added to
 * again. Between the two nothing happens. Adding waits for its cooldown alone; taking away waits for a
 * cooldown after any change, and until the largest need within the window allows it. What is not known
 * changes nothing. */
#ifndef SWARM_AUTOSCALE_DECIDE_H
#define SWARM_AUTOSCALE_DECIDE_H

#include "autoscale/policy.h"

#define AUTOSCALE_BUCKETS 64 /* of the window */

enum autoscale_action { AUTOSCALE_KEEP, AUTOSCALE_HOLD, AUTOSCALE_OUT, AUTOSCALE_IN };

/* Why, so that a change of reasons is told apart from a change of numbers in its text. */
enum autoscale_cause {
    AUTOSCALE_ON_TARGET,
    AUTOSCALE_AT_MAX,
    AUTOSCALE_AT_MIN,
    AUTOSCALE_ABOVE,      /* out */
    AUTOSCALE_BELOW,      /* in */
    AUTOSCALE_BELOW_MIN,  /* out, whatever the metric */
    AUTOSCALE_BEYOND_MAX, /* in, likewise */
    AUTOSCALE_STOPPED,    /* somebody scaled it to 0 */
    AUTOSCALE_ROLLOUT,
    AUTOSCALE_STARTING,
    AUTOSCALE_NO_ROOM, /* tasks that no node takes */
    AUTOSCALE_NO_VALUE,
    AUTOSCALE_COOLDOWN,
    AUTOSCALE_WINDOW,
    AUTOSCALE_BAD_LABELS, /* not of autoscale_decide(), as the next two */
    AUTOSCALE_DISABLED,
    AUTOSCALE_LOST_RACE,
    AUTOSCALE_CAUSES,
};

enum autoscale_change { AUTOSCALE_UNCHANGED, AUTOSCALE_BY_US_OUT, AUTOSCALE_BY_US_IN, AUTOSCALE_BY_OTHERS };

/* What is remembered of a service. All zero is a fresh start. */
struct autoscale_memory {
    enum autoscale_change changed;
    uint64_t changed_ns; /* by the clock of `now_ns` */
    struct {
        uint64_t number; /* now_ns / width; of the time in which `wanted` was the most, 0: never used */
        uint32_t wanted;
    } buckets[AUTOSCALE_BUCKETS];
    uint64_t since_ns, last_ns; /* observed without a gap; 0: never */
};

struct autoscale_input {
    uint64_t now_ns;      /* monotonic, never 0 */
    uint64_t interval_ns; /* between two looks */
    uint32_t replicas;
    uint32_t running;       /* up-to-date tasks that run */
    uint32_t without_room;  /* tasks that no node takes */
    const char *rollout;    /* why nothing may be changed now; NULL: nothing is rolled out */
    const char *missing;    /* why there is no value; NULL: there is one */
    double value;           /* mean over the tasks; of a gauge the sum over all */
    bool is_without_window; /* one look only: there will be no window */
};

struct autoscale_decision {
    enum autoscale_action action;
    enum autoscale_cause cause;
    uint32_t from, to; /* equal when nothing is to be changed */
    bool has_value;
    double value, load; /* load: per task, over the target; 1 is on target */
    char reason[400];
};

void autoscale_decide(const struct autoscale_policy *policy, const struct autoscale_input *input,
                      struct autoscale_memory *memory, struct autoscale_decision *ret_decision);

const char *autoscale_action_text(enum autoscale_action action); /* "keep", "hold", "out", "in" */
const char *autoscale_cause_text(enum autoscale_cause cause);    /* "cooldown", ... */

#endif
