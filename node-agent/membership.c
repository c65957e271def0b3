/* SPDX-License-Identifier: Apache-2.0 */
#include "membership.h"

#include "muster/cleanup.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define RETRIES_MAX 3                /* doublings */
#define VIEW_MAX    (UINT64_MAX / 2) /* far beyond what is ever tried, and numbers are added to */

/* What is known of one peer. A proposal or signature counts for the view number that it names and no other.
 */
struct peer {
    struct membership_worker worker;
    bool up;
    uint64_t proposed_view;
    uint8_t proposed_digest[MST_SHA256_BYTES];
    uint64_t signed_view;
    uint8_t signed_digest[MST_SHA256_BYTES];
};

struct membership {
    struct membership_worker self;
    struct membership_callbacks callbacks;
    size_t wanted;

    struct peer *peers; /* owned */
    size_t peer_count, peer_capacity;

    /* The proposal on the table; proposal_view 0: too few workers are reachable to propose. */
    uint64_t proposal_view;
    struct membership_worker *proposal; /* owned, `wanted` entries in rank order */
    uint8_t proposal_digest[MST_SHA256_BYTES];
    uint64_t retry_ns;
    unsigned retries; /* numbers given up in a row while the same workers were reachable */

    uint64_t signed_view;  /* the highest number this worker ever signed: it signs no second list under it */
    uint64_t highest_view; /* the highest number seen anywhere */

    uint64_t committed_view;
    struct membership_worker *committed; /* owned, `wanted` entries */
};

bool membership_id_equal(const struct membership_id *a, const struct membership_id *b)
{
    return memcmp(a->bytes, b->bytes, sizeof a->bytes) == 0;
}

int membership_digest(uint64_t view, const struct membership_worker *workers, size_t count,
                      uint8_t ret_digest[static MST_SHA256_BYTES], struct mst_error *err)
{
    mst_cleanup(mst_sha256_release) struct mst_sha256 sha = {0};
    uint8_t number[8];
    for (size_t i = 0; i < sizeof number; i++)
        number[i] = (uint8_t)(view >> (56 - 8 * i));
    int r = mst_sha256_init(&sha, err);
    if (r == 0)
        r = mst_sha256_update(&sha, number, sizeof number, err);
    for (size_t w = 0; r == 0 && w < count; w++)
        r = mst_sha256_update(&sha, workers[w].id.bytes, sizeof workers[w].id.bytes, err);
    return r < 0 ? r : mst_sha256_finish(&sha, ret_digest, err);
}

int membership_new(const struct membership_worker *self, size_t wanted,
                   const struct membership_callbacks *callbacks, struct membership **ret_membership,
                   struct mst_error *err)
{
    if (wanted < 1 || wanted > MEMBERSHIP_MAX_WORKERS)
        return mst_error_set(err, -EINVAL, "%zu workers: from 1 to %d are possible", wanted,
                             MEMBERSHIP_MAX_WORKERS);
    struct membership *membership = calloc(1, sizeof *membership);
    if (membership) {
        membership->proposal = calloc(wanted, sizeof *membership->proposal);
        membership->committed = calloc(wanted, sizeof *membership->committed);
    }
    if (!membership || !membership->proposal || !membership->committed) {
        membership_free(membership);
        return mst_error_set(err, -ENOMEM, "make a membership of %zu: no memory", wanted);
    }
    membership->self = *self;
    membership->wanted = wanted;
    membership->callbacks = *callbacks;
    *ret_membership = membership;
    return 0;
}

void membership_free(struct membership *membership)
{
    if (!membership)
        return;
    free(membership->peers);
    free(membership->proposal);
    free(membership->committed);
    free(membership);
}

static struct peer *find_peer(const struct membership *membership, const struct membership_id *id)
{
    for (size_t p = 0; p < membership->peer_count; p++)
        if (membership_id_equal(&membership->peers[p].worker.id, id))
            return &membership->peers[p];
    return NULL;
}

static int compare_by_address(const void *left, const void *right)
{
    const struct membership_worker *a = left, *b = right;
    /* Compare, don't subtract: 10.0.0.1 minus 192.168.0.1 does not fit an int. */
    if (a->ipv4 != b->ipv4)
        return (a->ipv4 > b->ipv4) - (a->ipv4 < b->ipv4);
    if (a->port != b->port)
        return (a->port > b->port) - (a->port < b->port);
    return memcmp(a->id.bytes, b->id.bytes, sizeof a->id.bytes);
}

size_t membership_reachable(const struct membership *membership)
{
    size_t count = 1;
    for (size_t p = 0; p < membership->peer_count; p++)
        count += membership->peers[p].up;
    return count;
}

/* The `wanted` lowest addresses of those reachable, in numeric order of the whole address. Every worker that
 * reaches the same set picks the same list. */
static int pick_workers(const struct membership *membership, struct membership_worker *ret_workers)
{
    const size_t count = membership_reachable(membership);
    mst_cleanup(mst_freep) struct membership_worker *all = calloc(count, sizeof *all);
    if (!all)
        return -ENOMEM;
    size_t next = 0;
    all[next++] = membership->self;
    for (size_t p = 0; p < membership->peer_count; p++)
        if (membership->peers[p].up)
            all[next++] = membership->peers[p].worker;
    qsort(all, count, sizeof *all, compare_by_address);
    memcpy(ret_workers, all, membership->wanted * sizeof *all);
    return 0;
}

static bool is_named(const struct membership *membership, const struct membership_id *id)
{
    for (size_t w = 0; w < membership->wanted; w++)
        if (membership_id_equal(&membership->proposal[w].id, id))
            return true;
    return false;
}

/* Named or not: who is not named must learn that those whom it waits for have gone on. */
static void send_to_all_up(const struct membership *membership, const struct membership_message *message)
{
    for (size_t p = 0; p < membership->peer_count; p++)
        if (membership->peers[p].up)
            membership->callbacks.send(membership->callbacks.context, &membership->peers[p].worker.id,
                                       message);
}

static bool has_signed_proposal(const struct membership *membership, const struct peer *peer)
{
    return peer->signed_view == membership->proposal_view &&
           memcmp(peer->signed_digest, membership->proposal_digest, MST_SHA256_BYTES) == 0;
}

static void commit_if_all_signed(struct membership *membership)
{
    if (membership->signed_view != membership->proposal_view || membership->proposal_view == 0 ||
        membership->committed_view >= membership->proposal_view)
        return;
    for (size_t w = 0; w < membership->wanted; w++) {
        if (membership_id_equal(&membership->proposal[w].id, &membership->self.id))
            continue;
        const struct peer *peer = find_peer(membership, &membership->proposal[w].id);
        if (!peer || !has_signed_proposal(membership, peer))
            return;
    }
    membership->committed_view = membership->proposal_view;
    memcpy(membership->committed, membership->proposal, membership->wanted * sizeof *membership->committed);
    membership->callbacks.committed(membership->callbacks.context, membership->committed_view,
                                    membership->committed, membership->wanted);
}

static void sign_if_all_proposed(struct membership *membership)
{
    if (membership->proposal_view == 0 || membership->signed_view >= membership->proposal_view)
        return; /* nothing to sign, or a list already signed under this number */
    if (!is_named(membership, &membership->self.id))
        return; /* one worker too many: a list of others is not this one's to sign */
    for (size_t w = 0; w < membership->wanted; w++) {
        if (membership_id_equal(&membership->proposal[w].id, &membership->self.id))
            continue;
        const struct peer *peer = find_peer(membership, &membership->proposal[w].id);
        if (!peer || !peer->up || peer->proposed_view != membership->proposal_view ||
            memcmp(peer->proposed_digest, membership->proposal_digest, MST_SHA256_BYTES) != 0)
            return;
    }
    membership->signed_view = membership->proposal_view;
    struct membership_message message = {.kind = MEMBERSHIP_COMMIT, .view = membership->proposal_view};
    memcpy(message.digest, membership->proposal_digest, sizeof message.digest);
    send_to_all_up(membership, &message);
}

static void send_proposal(const struct membership *membership, const struct membership_id *only_to)
{
    struct membership_message message = {.kind = MEMBERSHIP_PROPOSE,
                                         .view = membership->proposal_view,
                                         .count = membership->wanted,
                                         .workers = membership->proposal};
    memcpy(message.digest, membership->proposal_digest, sizeof message.digest);
    if (only_to)
        membership->callbacks.send(membership->callbacks.context, only_to, &message);
    else
        send_to_all_up(membership, &message);
}

/* Put the list of those reachable on the table under number `view`, or clear the table when they are too few.
 */
static int propose(struct membership *membership, uint64_t view, uint64_t now_ns, struct mst_error *err)
{
    if (membership->committed_view > 0)
        return 0; /* the number of workers is fixed: the first view is the last */
    if (membership_reachable(membership) < membership->wanted) {
        membership->proposal_view = 0;
        return 0;
    }
    if (view <= membership->signed_view)
        view = membership->signed_view + 1;
    int r = pick_workers(membership, membership->proposal);
    if (r < 0)
        return mst_error_set(err, r, "propose a view: no memory");
    r = membership_digest(view, membership->proposal, membership->wanted, membership->proposal_digest, err);
    if (r < 0)
        return r;
    membership->proposal_view = view;
    if (view > membership->highest_view)
        membership->highest_view = view;
    /* Longer each time: on a network slower than the first wait no number would ever come through. */
    membership->retry_ns = now_ns + (MEMBERSHIP_RETRY_NS << membership->retries);
    send_proposal(membership, NULL);
    sign_if_all_proposed(membership);
    commit_if_all_signed(membership);
    return 0;
}

/* Would the list on the table be picked again? After signing it must not be taken away by a newcomer that it
 * does not name: the others may hold the view already. */
static bool proposal_stands(const struct membership *membership)
{
    if (membership->proposal_view == 0)
        return false;
    for (size_t w = 0; w < membership->wanted; w++) {
        if (membership_id_equal(&membership->proposal[w].id, &membership->self.id))
            continue;
        const struct peer *peer = find_peer(membership, &membership->proposal[w].id);
        if (!peer || !peer->up)
            return false;
    }
    if (membership->signed_view == membership->proposal_view)
        return true;

    mst_cleanup(mst_freep) struct membership_worker *again = calloc(membership->wanted, sizeof *again);
    if (!again || pick_workers(membership, again) < 0)
        return true; /* no memory to compare: stay with what is agreed so far */
    for (size_t w = 0; w < membership->wanted; w++)
        if (!membership_id_equal(&again[w].id, &membership->proposal[w].id))
            return false;
    return true;
}

static uint64_t next_view(const struct membership *membership)
{
    return membership->highest_view > 0 ? membership->highest_view : 1;
}

int membership_start(struct membership *membership, uint64_t now_ns, struct mst_error *err)
{
    return propose(membership, next_view(membership), now_ns, err);
}

int membership_peer_up(struct membership *membership, const struct membership_worker *worker, uint64_t now_ns,
                       struct mst_error *err)
{
    struct peer *peer = find_peer(membership, &worker->id);
    if (!peer) {
        if (membership->peer_count == membership->peer_capacity) {
            const size_t capacity = membership->peer_capacity ? 2 * membership->peer_capacity : 8;
            struct peer *peers = reallocarray(membership->peers, capacity, sizeof *peers);
            if (!peers)
                return mst_error_set(err, -ENOMEM, "remember a peer: no memory");
            membership->peers = peers;
            membership->peer_capacity = capacity;
        }
        peer = &membership->peers[membership->peer_count++];
        *peer = (struct peer){0};
    }
    peer->worker = *worker;
    peer->up = true;
    membership->retries = 0;
    if (!proposal_stands(membership))
        return propose(membership, next_view(membership), now_ns, err);
    send_proposal(membership, &worker->id); /* the newcomer has not heard it */
    return 0;
}

int membership_peer_down(struct membership *membership, const struct membership_id *id, uint64_t now_ns,
                         struct mst_error *err)
{
    struct peer *peer = find_peer(membership, id);
    if (!peer)
        return 0;
    peer->up = false;
    membership->retries = 0;
    if (proposal_stands(membership))
        return 0;
    return propose(membership, next_view(membership), now_ns, err);
}

/* A list that is signed is waited for, as the others may hold it already. It is given up when a worker that
 * it names has signed another one under this number, or has gone on to a higher number without having signed
 * it: neither will ever sign it, so nobody can hold it. */
static bool is_given_up(const struct membership *membership)
{
    for (size_t w = 0; w < membership->wanted; w++) {
        if (membership_id_equal(&membership->proposal[w].id, &membership->self.id))
            continue;
        const struct peer *peer = find_peer(membership, &membership->proposal[w].id);
        if (peer && !has_signed_proposal(membership, peer) &&
            (peer->signed_view >= membership->proposal_view ||
             peer->proposed_view > membership->proposal_view))
            return true;
    }
    return false;
}

/* Meet at the highest number instead of chasing each other, unless what is signed may still be agreed on. */
static int follow(struct membership *membership, uint64_t now_ns, struct mst_error *err)
{
    if (membership->proposal_view == 0 || membership->committed_view > 0)
        return 0;
    const bool is_signed = membership->signed_view == membership->proposal_view;
    if (is_signed ? is_given_up(membership) : membership->highest_view > membership->proposal_view)
        return propose(membership, membership->highest_view, now_ns, err);
    return 0;
}

static int receive_proposal(struct membership *membership, struct peer *peer,
                            const struct membership_message *message, struct mst_error *err)
{
    uint8_t digest[MST_SHA256_BYTES];
    if (message->count < 1 || message->count > MEMBERSHIP_MAX_WORKERS)
        return mst_error_set(err, -EPROTO, "a proposal of %zu workers", message->count);
    const int r = membership_digest(message->view, message->workers, message->count, digest, err);
    if (r < 0)
        return r;
    if (memcmp(digest, message->digest, sizeof digest) != 0)
        return mst_error_set(err, -EPROTO, "a proposal whose digest is not that of its list");

    peer->proposed_view = message->view;
    memcpy(peer->proposed_digest, message->digest, sizeof digest);
    if (message->view > membership->highest_view)
        membership->highest_view = message->view;
    return 0;
}

int membership_receive(struct membership *membership, const struct membership_id *from,
                       const struct membership_message *message, uint64_t now_ns, struct mst_error *err)
{
    struct peer *peer = find_peer(membership, from);
    if (!peer || !peer->up)
        return mst_error_set(err, -EPROTO, "a membership message from a peer that is not up");
    if (message->view == 0 || message->view > VIEW_MAX)
        return mst_error_set(err, -EPROTO, "a membership message for view %" PRIu64, message->view);

    int r = 0;
    switch (message->kind) {
    case MEMBERSHIP_PROPOSE:
        r = receive_proposal(membership, peer, message, err);
        break;
    case MEMBERSHIP_COMMIT:
        peer->signed_view = message->view;
        memcpy(peer->signed_digest, message->digest, sizeof peer->signed_digest);
        break;
    default:
        return mst_error_set(err, -EPROTO, "a membership message of kind %d", (int)message->kind);
    }
    if (r == 0)
        r = follow(membership, now_ns, err);
    if (r == 0) {
        sign_if_all_proposed(membership);
        commit_if_all_signed(membership);
    }
    return r;
}

uint64_t membership_deadline_ns(const struct membership *membership)
{
    const bool waiting = membership->proposal_view != 0 && membership->committed_view == 0;
    return waiting ? membership->retry_ns : UINT64_MAX;
}

int membership_tick(struct membership *membership, uint64_t now_ns, struct mst_error *err)
{
    if (now_ns < membership_deadline_ns(membership))
        return 0;
    if (membership->retries < RETRIES_MAX)
        membership->retries++;
    if (membership->signed_view == membership->proposal_view) {
        /* The others may hold it, so it is waited for. Whoever holds another view answers with a refusal. */
        membership->retry_ns = now_ns + (MEMBERSHIP_RETRY_NS << membership->retries);
        send_proposal(membership, NULL);
        return 0;
    }
    return propose(membership, membership->highest_view + 1, now_ns, err);
}

uint64_t membership_view(const struct membership *membership, const struct membership_worker **ret_workers,
                         size_t *ret_count)
{
    *ret_workers = membership->committed;
    *ret_count = membership->committed_view > 0 ? membership->wanted : 0;
    return membership->committed_view;
}
