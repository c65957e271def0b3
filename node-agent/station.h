/* SPDX-License-Identifier: Apache-2.0 */
/* What every agent verb that talks to others sets up in the same order: list the networks that it may be on,
 * open the captures as root, give root up, read the keys, and say who this is. Where there are several
 * networks, station_settle() finds out on which of them the others are. */
#ifndef AGENT_STATION_H
#define AGENT_STATION_H

#include "config.h"
#include "muster/discovery.h"
#include "muster/event.h"
#include "muster/sweep.h"

#define STATION_HINTS_MAX 4096
/* For whoever reads events and logs: well below MESH_SILENCE_NS, as no heartbeat leaves meanwhile. */
#define STATION_PATIENCE_MS 1000

/* A network that the agent is attached to, and may search. */
struct station_network {
    struct discovery_choice choice;
    struct discovery_arp *arp; /* owned; NULL: no right to capture, or not wanted */
};

struct station {
    char slot[DISCOVERY_SLOT_BYTES];
    struct station_network *networks; /* owned; best first */
    size_t network_count;
    struct discovery_choice choice; /* the network in use: the best one, until station_settle() */
    struct discovery_arp *arp;      /* its capture; borrowed */
    const char *dns;                /* a name whose addresses are hints, NULL: none; borrowed */
    uint32_t *hints;                /* owned: addresses from --from-xml */
    struct discovery_host *hinted;  /* owned: what its file says of them, in the same order */
    size_t hint_count;
    uint32_t workers; /* that are wanted, for texts */
    struct discovery_self self;
    struct mst_event_sink events;
};

enum station_needs { STATION_LISTENS, STATION_SWEEPS };

/* Lists the networks (with --peers only the one that one of those addresses is on), opens the captures for
 * STATION_SWEEPS, gives root up, reads keys and hints. Errors are about options and input files, but for
 * -EACCES, -EPERM and -ENOMEM. After an error nothing has to be released. */
int station_open(struct station *station, const struct agent_config *config, enum discovery_role role,
                 enum station_needs needs, struct mst_error *err);
/* The slot and the event sink alone, for agents without a network; gives root up too. */
int station_open_alone(struct station *station, const struct agent_config *config, struct mst_error *err);
/* The exit status for a failed open or settle: what the user gave, but for no memory, missing rights, time
 * and signals. */
int station_exit_status(int code);
void station_close(struct station *station);

/* Decide for one of several networks: that on which an agent of the cluster proves to be; `choice`, `arp` and
 * `self` are its from then on. Blocks: for no time where there is one network only, else until somebody is
 * met, `deadline_ns` has come (-ETIMEDOUT with a text that names the networks), or a signal tells to stop:
 * -EINTR for SIGINT, else -ECANCELED; `signal_fd` is process_signals_open()'s, which is read, or -1.
 * `alone_ns`: when nobody was met on any network for so long, be content with the best one (0: never). A
 * collector does not search, but follows the first worker that has decided. */
int station_settle(struct station *station, uint64_t deadline_ns, uint64_t alone_ns, int signal_fd,
                   struct mst_error *err);

/* This agent's addresses on the networks that were not chosen, up to DISCOVERY_CHOICES_MAX: those of mesh's
 * `also`. Returns how many. */
size_t station_others(const struct station *station, uint32_t *ret_ipv4);

#endif
