/* SPDX-License-Identifier: Apache-2.0 */
/* What a service's labels say about its scaling: docs/autoscale.md has them as a table. */
#ifndef SWARM_AUTOSCALE_POLICY_H
#define SWARM_AUTOSCALE_POLICY_H

#include "muster/engine.h"
#include "muster/peers.h"

#define AUTOSCALE_PREFIX       "muster.autoscale."
#define AUTOSCALE_STAMP        "muster.autoscale.state" /* ours: when it was scaled last */
#define AUTOSCALE_REPLICAS_MAX 10000U

enum autoscale_metric {
    AUTOSCALE_CPU,    /* per cent of the limit, of one core where there is none */
    AUTOSCALE_CORES,  /* per cent of one core */
    AUTOSCALE_MEMORY, /* per cent of the limit */
    AUTOSCALE_GAUGE,  /* what workers report under a name: a queue's length */
};

struct autoscale_policy {
    uint32_t min, max;
    enum autoscale_metric metric;
    double target;                      /* per task: per cent, or units of the gauge */
    double tolerance;                   /* 0.1: what is within 10 % of the target is left alone */
    char gauge[PEERS_GAUGE_BYTES];      /* its name */
    char source[ENGINE_NAME_MAX_BYTES]; /* the service (full name) whose tasks report it */
    bool is_largest;                    /* all report the same queue: the largest counts, not the sum */
    uint64_t cooldown_out_ns, cooldown_in_ns;
    uint64_t window_ns;         /* for scaling in: the largest need within it counts */
    uint64_t average_ns;        /* values are means over this time */
    uint32_t step_out, step_in; /* tasks a decision; 0: out as many as there are, in half of them */
};

/* Does the service have any label of ours, but for the stamp? */
bool autoscale_is_wanted(const cJSON *service);
/* Do two states of a service agree in all labels of ours, the stamp too? */
bool autoscale_has_same_labels(const cJSON *a, const cJSON *b);
/* "cpu", "gauge 'queue'": for messages. */
const char *autoscale_metric_text(const struct autoscale_policy *policy, char text[static 96]);

/* -EBADMSG with service, label and what was expected: one line. -ECANCELED: the label `enabled` says false.
 */
int autoscale_policy_read(const cJSON *service, const char *stack, struct autoscale_policy *ret_policy,
                          struct mst_error *err);

#endif
