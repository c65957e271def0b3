/* SPDX-License-Identifier: Apache-2.0 */
/* Membership: how the workers of a job agree on one numbered view, without a leader and without a store.
 *
 * A view is an ordered list of workers; the index in it is the rank. Each worker proposes (PROPOSE) the list
 * that it can reach; who has received the same proposal from every worker named in it signs it (COMMIT), at
 * most one list per view number; a view holds once the equal COMMITs of all its members are in. Two different
 * lists can therefore never both hold under one number if they share a member. When a number does not come to
 * agreement in time, or somebody who is named in it has gone on to another, the next one is tried.
 *
 * This file is the state machine alone: no sockets, no clock, no threads. Events go in, messages and the
 * committed view come out through callbacks, so that a test can drive it with any network it likes. The
 * number of workers is fixed here; the rule for changing views is added on top of the same messages. */
#ifndef AGENT_MEMBERSHIP_H
#define AGENT_MEMBERSHIP_H

#include "muster/digest.h"
#include "muster/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MEMBERSHIP_MAX_WORKERS 1024
#define MEMBERSHIP_ID_BYTES    16
#define MEMBERSHIP_RETRY_NS                                                                                  \
    1000000000ULL /* a view number without agreement is given up after this, and later ones after more */

struct membership_id {
    uint8_t bytes[MEMBERSHIP_ID_BYTES]; /* random, new at each start of a worker */
};

struct membership_worker {
    struct membership_id id;
    uint32_t ipv4; /* host byte order */
    uint16_t port;
};

enum membership_kind { MEMBERSHIP_PROPOSE = 1, MEMBERSHIP_COMMIT = 2 };

struct membership_message {
    enum membership_kind kind;
    uint64_t view;
    size_t count;                            /* of workers: PROPOSE only */
    const struct membership_worker *workers; /* borrowed for the call, in rank order */
    uint8_t digest[MST_SHA256_BYTES];        /* of number and list */
};

struct membership_callbacks {
    void *context;
    /* Queue `message` for the worker `to`, a peer that is up. */
    void (*send)(void *context, const struct membership_id *to, const struct membership_message *message);
    /* The view holds: `count` workers in rank order (borrowed for the call). Called once a view. */
    void (*committed)(void *context, uint64_t view, const struct membership_worker *workers, size_t count);
};

struct membership; /* opaque */

/* `wanted`: number of workers, 1 to MEMBERSHIP_MAX_WORKERS, this one included. */
int membership_new(const struct membership_worker *self, size_t wanted,
                   const struct membership_callbacks *callbacks, struct membership **ret_membership,
                   struct mst_error *err);
void membership_free(struct membership *membership); /* NULL is fine */

/* Call once at the start: a membership of one needs nobody else. */
int membership_start(struct membership *membership, uint64_t now_ns, struct mst_error *err);

/* A peer has become reachable both ways, or is so no longer. */
int membership_peer_up(struct membership *membership, const struct membership_worker *peer, uint64_t now_ns,
                       struct mst_error *err);
int membership_peer_down(struct membership *membership, const struct membership_id *id, uint64_t now_ns,
                         struct mst_error *err);

/* -EPROTO for a message that no correct peer sends (the text says which); the caller drops the peer. */
int membership_receive(struct membership *membership, const struct membership_id *from,
                       const struct membership_message *message, uint64_t now_ns, struct mst_error *err);

/* Call by this time, with a time of mst_now_ns() kind; UINT64_MAX: nothing is waited for. */
uint64_t membership_deadline_ns(const struct membership *membership);
int membership_tick(struct membership *membership, uint64_t now_ns, struct mst_error *err);

/* The view that holds: its number (0: none yet), and its workers in rank order. */
uint64_t membership_view(const struct membership *membership, const struct membership_worker **ret_workers,
                         size_t *ret_count);
/* Workers that could be in a view now: this one and the peers that are up. */
size_t membership_reachable(const struct membership *membership);

bool membership_id_equal(const struct membership_id *a, const struct membership_id *b);

/* Of number and list, in a byte order that all machines share: what COMMIT signs. */
int membership_digest(uint64_t view, const struct membership_worker *workers, size_t count,
                      uint8_t ret_digest[static MST_SHA256_BYTES], struct mst_error *err);

#endif
