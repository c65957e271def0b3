/* SPDX-License-Identifier: Apache-2.0 */
/* The autoscaler: look at a stack's services and at what the monitors say, decide, write, tell; again and
 * again, or once. Nothing is kept but in memory: what must outlive a restart is the stamp on the service. */
#ifndef SWARM_AUTOSCALE_H
#define SWARM_AUTOSCALE_H

#include "autoscale/tell.h"
#include "muster/peers.h"
#include "session.h"

#define AUTOSCALE_SERVICES_MAX 1024

struct autoscale_options {
    const char *stack;
    struct peers_options peers;
    uint64_t interval_ns;
    const char *slot; /* who speaks, in events */
    bool is_once, is_dry;
    enum output_format format; /* of the table of --once */
};

/* Until a signal comes (-ECANCELED), or once. Then -EBADMSG when the labels of a service made no sense,
 * -ENODATA when there was no value for one, -EREMOTEIO when the manager refused; all services were looked at
 * in any case. In the loop only the first round's troubles with the engine are the end: later ones are told,
 * and tried again. */
int autoscale_run(struct session *session, const struct autoscale_options *options, struct mst_error *err);

#endif
