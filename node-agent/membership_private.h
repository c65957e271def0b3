/* SPDX-License-Identifier: Apache-2.0 */
/* What the parts of the state machine share: membership.c (events, messages, time), membership_talk.c (from a
 * proposal to a view), membership_hold.c (while a view holds), membership_peers.c and membership_vow.c.
 *
 * It is in one of four conditions:
 *
 *     silent     no view, nothing proposed: too few workers are known, or they may still be coming
 *     talking    a number is on the table: proposals for it are sent and awaited, then signatures
 *     holding    a view holds, the job runs
 *     stopping   a view holds, but the job was told to stop; talking follows
 */
#ifndef AGENT_MEMBERSHIP_PRIVATE_H
#define AGENT_MEMBERSHIP_PRIVATE_H

#include "membership.h"
#include "membership_fault.h"
#include "membership_outcome.h"

#define MEMBERSHIP_VIEW_MAX (UINT64_MAX / 2) /* far beyond what is ever tried, and numbers are added to */

/* A vow with its own places. */
struct kept_vow {
    struct membership_vow vow;
    struct membership_place *places; /* owned: vow.places */
};

/* What a peer says of itself, kept as long as the connection stands. */
struct peer {
    struct membership_worker worker;
    bool up;
    bool muted;

    uint64_t proposed_view; /* 0: nothing */
    bool leaving;
    uint64_t step;
    struct kept_vow kept;
    struct membership_worker *reach; /* owned */
    size_t reach_count;

    uint64_t signed_view; /* a signature counts for the number that it names and no other */
    uint8_t signed_digest[MST_SHA256_BYTES];

    struct membership_message held; /* its HOLD, view 0: none that stands; no pointers in use */
    struct membership_message told; /* ours to it: both sides compare the same two */
};

enum condition { SILENT, TALKING, HOLDING, STOPPING };

struct membership {
    struct membership_options options;
    struct membership_callbacks callbacks;
    enum condition condition;
    bool leaving;
    bool live; /* was in a view since the start */
    uint64_t step;

    struct peer **peers; /* owned, in ascending order of ids */
    size_t peer_count, peer_capacity;

    /* TALKING */
    uint64_t number;
    struct membership_worker
        *table; /* owned: whom this number's proposal names as reached, itself included */
    size_t table_count;
    struct outcome outcome; /* verdict is what it came to, once `concluded` */
    bool concluded, is_signed;
    uint64_t talk_began; /* the first number of these talks */
    uint64_t retry_ns;
    unsigned retries;

    uint64_t quiet_ns;    /* SILENT: when nobody new has come for long enough */
    uint64_t hurry_ns;    /* STOPPING: when to insist; 0: insisted already */
    uint64_t highest;     /* number seen anywhere */
    uint64_t last_number; /* proposed here: never one below it is signed */

    struct kept_vow kept; /* signed last */
    /* What was said with the number on the table, which stands. */
    struct kept_vow proposed;
    uint64_t proposed_step;
    bool proposed_leaving;

    struct membership_view view;
    struct membership_member *members; /* owned: view.members */
};

/* ---- membership_vow.c ---- */

/* `vow` may point into what is kept already. 0 or -ENOMEM. */
int membership_keep_vow(struct kept_vow *kept, const struct membership_vow *vow);
/* The highest number in it; 0: nothing was ever signed. */
uint64_t membership_last_signed(const struct membership_vow *vow);
/* Is it within the limits? */
bool membership_vow_fits(const struct membership_vow *vow);

/* ---- membership_peers.c ---- */

/* NULL when unknown. */
struct peer *membership_find_peer(const struct membership *membership, const struct membership_id *id);
/* A new one in its place; NULL without memory. */
struct peer *membership_add_peer(struct membership *membership, const struct membership_worker *worker);
void membership_remove_peer(struct membership *membership, const struct membership_id *id);
void membership_peer_free(struct peer *peer);
bool membership_is_self(const struct membership *membership, const struct membership_id *id);
/* Of the view that holds, or held last; NULL for anybody else. */
const struct membership_member *membership_find_member(const struct membership *membership,
                                                       const struct membership_id *id);
bool membership_holds(const struct membership *membership);
/* Workers that could be in a view now, this one included. */
size_t membership_reachable(const struct membership *membership);
void membership_send_to_all(const struct membership *membership, const struct membership_message *message);

/* ---- membership_hold.c ---- */

void membership_tell_hold(struct membership *membership, struct peer *peer);
/* Is the view told in `a` further than the one in `b`? Never true both ways round. */
bool membership_hold_is_further(const struct membership_message *a, const struct membership_message *b);
/* Ask the job to stop; `at_once` insists. A pause has no limit: the others may be in the middle of a long
 * step. */
void membership_ask_to_stop(struct membership *membership, bool at_once, const char *reason, uint64_t now_ns);
void membership_ask_to_pause(struct membership *membership, const char *reason, uint64_t now_ns);
/* Somebody who is not in the view has proposed a number; or any of them may have. */
void membership_consider_joining(struct membership *membership, struct peer *peer, uint64_t now_ns);
void membership_consider_all(struct membership *membership, uint64_t now_ns);

/* ---- membership_talk.c ---- */

/* Put a number on the table: `number`, or the lowest that may still be signed. */
int membership_propose(struct membership *membership, uint64_t number, uint64_t now_ns,
                       struct mst_error *err);
void membership_send_proposal(const struct membership *membership, const struct membership_id *only_to);
/* Go on as far as what has come in allows: compute and sign; hold. */
int membership_conclude(struct membership *membership, uint64_t now_ns, struct mst_error *err);
int membership_take_view_if_all_signed(struct membership *membership, uint64_t now_ns, struct mst_error *err);
/* The list on the table. */
bool membership_has_signed(const struct membership *membership, const struct peer *peer);
/* Is there a view at somebody else's? Do others count on this worker's slot? Is it time to propose? */
bool membership_any_holds(const struct membership *membership);
bool membership_has_a_part(const struct membership *membership);
bool membership_may_speak(const struct membership *membership, uint64_t now_ns);
/* Propose if it is time; propose again with whom is reached now, or go back to silence. */
int membership_speak_if_due(struct membership *membership, uint64_t now_ns, struct mst_error *err);
int membership_speak_again(struct membership *membership, uint64_t now_ns, struct mst_error *err);

#endif
