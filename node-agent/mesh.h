/* SPDX-License-Identifier: Apache-2.0 */
/* The mesh: this agent's listener and its connections to others. It says hello to every address that the
 * sweep finds, keeps one authenticated control connection to each worker of the same job, hands out the
 * frames that come over them, and passes on data connections. Of two workers the one with the lower
 * incarnation dials, so that there is one connection a pair; the other only says hello, so that it is known.
 * Peers tell each other the addresses of those that they have met. A worker that is lost is dialled again for
 * a while, by both sides, whatever mesh_set_dialling() says: it may only have been frozen or cut off.
 *
 * One thread; everything is driven by the loop and by mesh_tick(). */
#ifndef AGENT_MESH_H
#define AGENT_MESH_H

#include "loop.h"
#include "muster/buf.h"
#include "muster/discovery.h"
#include "muster/error.h"

#include <stdbool.h>
#include <stdint.h>

/* Each worker sends one to each other so often; with many of them less often, so that what all send grows
 * with their number and not with its square. Four must fit into the silence. */
#define MESH_HEARTBEAT_NS          (200 * 1000000ULL)
#define MESH_HEARTBEAT_PER_PEER_NS (8 * 1000000ULL)
#define MESH_HEARTBEAT_LONGEST_NS  (500 * 1000000ULL)
#define MESH_SILENCE_NS                                                                                      \
    (2000 * 1000000ULL) /* without a sign of life a peer is lost; CFS quotas stall for 100 ms */
#define MESH_ALSO_MAX    16
#define MESH_OWN_FRAMES  0x8000U /* control frames from this type on are the mesh's own */
#define MESH_FRAME_HOSTS 0x8000U /* addresses of workers that the sender has met */

struct mesh;

struct mesh_callbacks {
    void *context;
    /* Somebody proved to know the key (any role); called each time. */
    void (*seen)(void *context, const struct discovery_identity *who);
    /* A control connection stands, or does no longer; `reason` reads after "NAME at ADDRESS: ". */
    void (*peer_up)(void *context, const struct discovery_identity *peer);
    void (*peer_down)(void *context, const struct discovery_identity *peer, const char *reason);
    /* A control frame; the payload is good for the call. A negative errno drops the peer, with err->text as
     * the reason. */
    int (*frame)(void *context, const struct discovery_identity *from, uint16_t type, const uint8_t *payload,
                 size_t count, struct mst_error *err);
    /* A data connection that a peer dialled: the callee owns `fd` (non-blocking). NULL: none is accepted. */
    void (*data)(void *context, const struct discovery_identity *from, int fd);
    /* A connection by which a peer, in the role `launch`, wants to start a program here: the callee owns `fd`
     * (non-blocking), and the session is good for the call. NULL: none is accepted. */
    void (*launch)(void *context, const struct discovery_session *session, int fd);
};

struct mesh_options {
    struct loop *loop; /* borrowed */
    const struct discovery_self
        *self;              /* borrowed; the owner may change view, state and step in it at any time */
    size_t expected;        /* workers, for the limit on sockets */
    uint64_t silence_ns;    /* after which a peer is lost; 0: MESH_SILENCE_NS */
    struct mst_cidr subnet; /* addresses that peers tell are dialled when they lie in it; prefix 0: all are */
    bool only_hello;        /* say hello and answer it, and keep no connection */
    const uint32_t *also;   /* further addresses of this machine to listen on; borrowed for mesh_new() */
    size_t also_count;      /* up to MESH_ALSO_MAX */
};

/* Listens on self's address and port, and on those of `also` where the port is free. */
int mesh_new(const struct mesh_options *options, const struct mesh_callbacks *callbacks,
             struct mesh **ret_mesh, struct mst_error *err);
void mesh_free(struct mesh *mesh); /* NULL is fine; closes all without calling back */

/* An address worth a hello (found by the sweep). Known ones are left alone; beyond MESH_HOSTS_MAX it is
 * dropped. */
#define MESH_HOSTS_MAX 4096
int mesh_learn(struct mesh *mesh, uint32_t ipv4, uint16_t port, struct mst_error *err);
/* Whoever is known to be there may not be any more: say hello once more, and to whoever is there now. */
void mesh_ask_again(struct mesh *mesh, uint32_t ipv4, uint16_t port);
/* While off (at start it is on), only workers that were lost less than HOSTS_KEEP_NS ago are dialled. */
void mesh_set_dialling(struct mesh *mesh, bool on);

/* Queue a frame for a peer that is up. -ENOTCONN when it is not, -ENOBUFS when it does not take what is
 * queued. After an error the peer is dropped by the next mesh_tick(): peer_down() is never called from here.
 */
int mesh_send(struct mesh *mesh, const uint8_t incarnation[static DISCOVERY_INCARNATION_BYTES], uint16_t type,
              const struct mst_buf *payload, struct mst_error *err);
/* The same to all peers that are up; one that does not take it is dropped. */
void mesh_send_all(struct mesh *mesh, uint16_t type, const struct mst_buf *payload);
/* True when nothing is left to be written to any peer. */
bool mesh_flushed(const struct mesh *mesh);

/* Time of the next thing to do, and doing it: retries, deadlines of hellos, silence of peers, freeing. */
uint64_t mesh_deadline_ns(const struct mesh *mesh);
void mesh_tick(struct mesh *mesh, uint64_t now_ns);

/* Hosts that answered the sweep but are no known agent, by index from 0: "10.0.0.5:7070: Connection refused",
 * for people. Returns `text`, or NULL past the last. */
#define MESH_STRANGER_BYTES 256
const char *mesh_stranger(const struct mesh *mesh, size_t index, char text[static MESH_STRANGER_BYTES]);

#endif
