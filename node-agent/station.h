/* SPDX-License-Identifier: Apache-2.0 */
/* What every agent verb that talks to others sets up in the same order: choose the interface, open the
 * capture as root, give root up, read the key, and say who this is. */
#ifndef AGENT_STATION_H
#define AGENT_STATION_H

#include "config.h"
#include "muster/discovery.h"
#include "muster/event.h"
#include "muster/sweep.h"

struct station {
    char slot[DISCOVERY_SLOT_BYTES];
    struct discovery_choice choice;
    struct discovery_arp *arp; /* owned; NULL: no right to capture, or not wanted */
    struct discovery_self self;
    struct mst_event_sink events;
};

enum station_needs { STATION_LISTENS, STATION_SWEEPS };

/* Chooses the interface (by --peers when given: the one whose address is among them), opens the capture for
 * STATION_SWEEPS, gives root up, reads the key. Errors are about options and input files, but for -EACCES,
 * -EPERM and -ENOMEM. After an error nothing has to be released. */
int station_open(struct station *station, const struct agent_config *config, enum discovery_role role,
                 enum station_needs needs, struct mst_error *err);
/* The slot and the event sink alone, for agents without a network; gives root up too. */
int station_open_alone(struct station *station, const struct agent_config *config, struct mst_error *err);
/* The exit status for a failed open: what the user gave, but for no memory and missing rights. */
int station_exit_status(int code);
void station_close(struct station *station);

#endif
