/* SPDX-License-Identifier: Apache-2.0 */
/* Membership: how the workers of a job agree on numbered views, without a leader and without a store, and go
 * on when some of them are lost (docs/membership.md).
 *
 * A view is an ordered list of workers; the index in it is the rank. Who wants another view than the one that
 * it holds proposes the next number (PROPOSE) to all, and says whom it reaches, what it signed last, and how
 * far its state is. Who has the proposals of all that it reaches computes the view from them, the same
 * everywhere, and signs it (COMMIT). A view holds once the equal signatures of all that it names are in.
 *
 *   - One list a number: a worker signs at most once under a number, and never under one below what it
 *     proposed or signed before. What it signed is saved first (save_vow), so that a restart does not forget.
 *   - Quorum: the signers of a view must be more than half of the slots, or exactly half with the first one's
 *     among them, of the last view that any of them knows to have held, and of each one that was signed since
 *     and may have come to hold (Yeger Lotem, Keidar, Dolev: Dynamic voting for consistent primary
 * components, PODC 1997). So two halves never both go on.
 *   - Leaving: a worker that leaves signs the view that it is not in any more (a witness): it is no loss.
 *   - Clique: workers that cannot reach each other do not get into one view, decided by one rule for all.
 *   - Lineage: two groups that formed their first views apart have different lineages. Where they meet, the
 *     one that is further keeps on, and the others join it.
 *
 * This file is the state machine alone: no sockets, no clock, no threads. Events go in, messages and views
 * come out through callbacks, so that a test can drive it with any network it likes. */
#ifndef AGENT_MEMBERSHIP_H
#define AGENT_MEMBERSHIP_H

#include "muster/digest.h"
#include "muster/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MEMBERSHIP_MAX_WORKERS   1024
#define MEMBERSHIP_MAX_PLACES    2048 /* slots in a ballot: present ones and lost ones */
#define MEMBERSHIP_MAX_ATTEMPTS  8    /* with more in doubt a worker signs nothing */
#define MEMBERSHIP_MAX_VOW       8192 /* places in all ballots of a vow: a frame's limit */
#define MEMBERSHIP_ID_BYTES      16
#define MEMBERSHIP_SLOT_BYTES    16
#define MEMBERSHIP_LINEAGE_BYTES 16
#define MEMBERSHIP_REASON_BYTES  192
#define MEMBERSHIP_RETRY_NS                                                                                  \
    1000000000ULL /* a view number without agreement is given up after this, and later ones after more */
#define MEMBERSHIP_QUIET_NS                                                                                  \
    1000000000ULL /* an unknown number of workers: complete when nobody came for this */

struct membership_id {
    uint8_t bytes[MEMBERSHIP_ID_BYTES]; /* random, new at each start of a worker */
};

/* The place that a worker holds over its restarts: the first bytes of the SHA-256 of the slot's name. */
struct membership_slot {
    uint8_t bytes[MEMBERSHIP_SLOT_BYTES];
};

struct membership_worker {
    struct membership_id id;
    struct membership_slot slot;
    uint32_t ipv4; /* host byte order */
    uint16_t port;
};

enum membership_part {
    MEMBERSHIP_ABSENT,  /* lost before; it may come back to this place */
    MEMBERSHIP_PRESENT, /* in the view */
    MEMBERSHIP_WITNESS, /* leaves with this view, and signs it */
};

struct membership_place {
    struct membership_slot slot;
    enum membership_part part;
};

/* A view as it was signed. */
struct membership_ballot {
    uint64_t view; /* 0: none */
    uint8_t
        lineage[MEMBERSHIP_LINEAGE_BYTES]; /* of the first view's digest; the same in all that follow it */
    uint8_t digest[MST_SHA256_BYTES];
    size_t count;
    const struct membership_place *places; /* in rank order; borrowed */
};

/* What a worker must not forget. */
struct membership_vow {
    struct membership_ballot held; /* the last view that it knows to have held */
    /* What it signed since, as far as that may have come to hold somewhere. */
    size_t count;
    struct membership_ballot attempts[MEMBERSHIP_MAX_ATTEMPTS];
};

enum membership_kind { MEMBERSHIP_PROPOSE = 1, MEMBERSHIP_COMMIT = 2, MEMBERSHIP_HOLD = 3 };

struct membership_message {
    enum membership_kind kind;
    uint64_t view; /* PROPOSE and COMMIT: the number; HOLD: the one that holds at the sender */

    /* PROPOSE; never changed under one number */
    bool leaving;
    uint64_t step;                           /* the sender's state is after this step */
    struct membership_vow vow;               /* the sender's last signature */
    size_t count;                            /* whom it reaches, itself included, in ascending order of ids */
    const struct membership_worker *workers; /* borrowed for the call, as vow.places */

    /* COMMIT: what is signed, membership_digest() */
    uint8_t digest[MST_SHA256_BYTES];

    /* HOLD: a running worker's answer to one that is not in its view. This, view, and step tell which of two
     * views the other yields to. */
    uint8_t lineage[MEMBERSHIP_LINEAGE_BYTES];
    uint64_t size; /* workers in it */
};

struct membership_member {
    struct membership_worker worker;
    uint64_t step; /* that its state was after; 0 where its state is not of the view's lineage */
};

struct membership_view {
    uint64_t view; /* 0: none */
    uint8_t lineage[MEMBERSHIP_LINEAGE_BYTES];
    size_t count;
    const struct membership_member *members; /* in rank order; borrowed until the next call */
};

struct membership_callbacks {
    void *context;
    /* Queue `message` for the worker `to`, a peer that is up. */
    void (*send)(void *context, const struct membership_id *to, const struct membership_message *message);
    /* Keep the vow where a restart finds it, before this returns. An error is handed on to the caller. */
    int (*save_vow)(void *context, const struct membership_vow *vow, struct mst_error *err);
    /* The view that holds is to be left: stop the job, and call membership_stopped(). `at_once`: somebody is
     * lost, nothing will come of the step under way; else finish it together with the others. May come again
     * with at_once after it came without. */
    void (*stop)(void *context, bool at_once, const char *reason);
    /* The view holds. Called once a view; the worker itself is among its members. */
    void (*committed)(void *context, const struct membership_view *view);
    /* The others hold a view that this worker does not belong to any more, after membership_leave(). */
    void (*left)(void *context, uint64_t view);
    /* `peer` cannot be taken in: `full`: all places are held by others; else its slot is held by another
     * worker. Tell it. */
    void (*refuse)(void *context, const struct membership_id *peer, bool full);
};

struct membership_options {
    struct membership_worker self;
    size_t first; /* workers that the first view needs: 1 to MEMBERSHIP_MAX_WORKERS */
    size_t least; /* that later ones need, 1 to first */
    size_t most;  /* that any may have, first to MEMBERSHIP_MAX_WORKERS. With first == most a first view is
                     formed as soon as they are there, else after quiet_ns without a newcomer */
    uint64_t quiet_ns;         /* 0: MEMBERSHIP_QUIET_NS */
    bool allow_minority;       /* the operator answers for it that the others do not go on without us */
    struct membership_vow vow; /* from before a restart; copied */
};

struct membership; /* opaque */

int membership_new(const struct membership_options *options, const struct membership_callbacks *callbacks,
                   struct membership **ret_membership, struct mst_error *err);
void membership_free(struct membership *membership); /* NULL is fine */

/* Call once at the start: `step` is that of a state restored from disk, else 0. */
int membership_start(struct membership *membership, uint64_t step, uint64_t now_ns, struct mst_error *err);

/* A peer has become reachable both ways, or is so no longer. */
int membership_peer_up(struct membership *membership, const struct membership_worker *peer, uint64_t now_ns,
                       struct mst_error *err);
int membership_peer_down(struct membership *membership, const struct membership_id *id, uint64_t now_ns,
                         struct mst_error *err);

/* -EPROTO for a message that no correct peer sends (the text says which); the caller drops the peer. */
int membership_receive(struct membership *membership, const struct membership_id *from,
                       const struct membership_message *message, uint64_t now_ns, struct mst_error *err);

/* The job has stopped, its state is after `step`: as asked by stop(), or because it cannot go on in this view
 * (its connections broke): then a new view is proposed. Without a view it only takes note of the step. */
int membership_stopped(struct membership *membership, uint64_t step, uint64_t now_ns, struct mst_error *err);

/* This worker wants to leave: left() is called once the others have agreed to go on without it. 1: there is
 * nobody to agree, it may go at once; 0; or an error. */
int membership_leave(struct membership *membership, uint64_t now_ns, struct mst_error *err);

/* Call by this time, with a time of mst_now_ns() kind; UINT64_MAX: nothing is waited for. */
uint64_t membership_deadline_ns(const struct membership *membership);
int membership_tick(struct membership *membership, uint64_t now_ns, struct mst_error *err);

/* The view that holds; view 0: none, or it is being left. */
struct membership_view membership_view(const struct membership *membership);

/* For people: what it waits for while no view holds. */
struct membership_wait {
    size_t have, want;  /* workers, or slots of the last view where `quorum` */
    bool quorum;        /* too few of the last view's slots */
    uint64_t last_view; /* the highest number signed, 0: none */
};
struct membership_wait membership_waits_for(const struct membership *membership);

struct membership_slot membership_slot_of(const char *name);
bool membership_id_equal(const struct membership_id *a, const struct membership_id *b);

#endif
