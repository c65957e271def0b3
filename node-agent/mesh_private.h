/* SPDX-License-Identifier: Apache-2.0 */
/* What the mesh's files share: mesh.c (hosts, clock, sending), mesh_link.c (one connection from its hello to
 * its end), mesh_listener.c (who is let in) and mesh_tell.c (addresses that peers tell each other). */
#ifndef AGENT_MESH_PRIVATE_H
#define AGENT_MESH_PRIVATE_H

#include "hosts.h"
#include "mesh.h"

enum link_stage { LINK_CONNECTING, LINK_HELLO, LINK_CONTROL, LINK_CLOSED };

/* One connection. Closed ones stay in the list until mesh_tick(), with their buffers, so that a callback
 * further up the stack may still hold a pointer to the link or into a frame. */
struct link {
    struct mesh *mesh;
    struct link *next; /* older ones */
    int fd;
    enum link_stage stage;
    bool dialer;
    enum discovery_purpose purpose;
    size_t key_index; /* of self's keys, where this side dialled */
    uint32_t ipv4;
    uint16_t port;
    uint64_t deadline_ns; /* of the hello */
    struct discovery_hello hello;

    struct discovery_identity peer; /* from here on: LINK_CONTROL */
    struct discovery_frames frames;
    struct mst_buf out;
    size_t out_done; /* bytes of `out` that are written */
    bool wants_write;
    uint64_t heard_ns;
    uint64_t frame_since_ns;        /* when the frame began that is not whole yet; 0: none */
    uint64_t number;                /* the mesh's count of control connections when this one came up */
    uint64_t told;                  /* the same count when the peer was told of others last */
    char fault[HOSTS_REASON_BYTES]; /* sending failed: it ends with the next tick; empty: all is well */
};

struct mesh {
    struct mesh_options options;
    struct mesh_callbacks callbacks;
    struct listener {
        struct mesh *mesh;
        int fd;
    } listeners[1 + MESH_ALSO_MAX]; /* the first one is at self's address */
    size_t listener_count;
    bool dialling;
    struct hosts hosts;
    struct link *links;   /* owned, newest first */
    uint64_t control_ups; /* control connections that ever came up */
    uint64_t tell_ns;     /* when peers are told of those that are new; 0: of nobody */
    size_t hosts_told;    /* hosts that are known from peers only */
};

/* ---- mesh.c ---- */

void mesh_host_failed(struct mesh *mesh, uint32_t ipv4, uint16_t port, const char *reason);
/* Who it is, is known now: take it down, and dial a control connection if that is ours to do. */
void mesh_meet(struct mesh *mesh, const struct discovery_identity *who);

/* ---- mesh_link.c ---- */

/* Takes `fd` over on success. NULL without memory. */
struct link *link_new(struct mesh *mesh, int fd, uint32_t ipv4, uint16_t port);
/* Let go of the socket and the secrets; the rest goes with link_free(). */
void link_close(struct link *link);
void link_free(struct link *link);
/* Close, and tell those whom it concerns. */
void link_lost(struct link *link, const char *reason);
void link_dial(struct mesh *mesh, uint32_t ipv4, uint16_t port, enum discovery_purpose purpose);
/* The loop's callback. */
void link_ready(void *context, uint32_t events);
/* What is due by the clock: a hello that takes too long, a peer that is silent, a fault. */
void link_tick(struct link *link, uint64_t now_ns);
uint64_t link_deadline_ns(const struct link *link);
/* Queue a frame, and write what the socket takes. An error means that the link is about to end. */
int link_send(struct link *link, uint16_t type, const void *payload, size_t count, struct mst_error *err);
/* NULL when there is none that is well. */
struct link *link_find_control(const struct mesh *mesh, const uint8_t *incarnation);

/* ---- mesh_listener.c ---- */

int listener_open(struct mesh *mesh, struct mst_error *err);
void listener_close(struct mesh *mesh);

/* ---- mesh_tell.c ---- */

/* A control connection came up: peers are to be told. */
void tell_later(struct mesh *mesh, uint64_t now_ns);
void tell_tick(struct mesh *mesh, uint64_t now_ns);
/* A frame of the mesh's own. A negative errno drops the peer. */
int tell_receive(struct mesh *mesh, uint16_t type, const uint8_t *payload, size_t count,
                 struct mst_error *err);

#endif
