/* SPDX-License-Identifier: Apache-2.0 */
/* The hello: what tells a worker of this cluster from anything else that listens on the agent's port, and the
 * authenticated control frames that follow it. docs/protocol.md holds the bytes and the reasons.
 *
 * All of it is sans-IO: bytes go in, bytes come out, no descriptor and no clock is touched, so that one poll
 * loop can run many of them and a test can cut the stream anywhere. In order:
 *
 *     discovery_hello_dialer() or discovery_hello_listener()
 *     until DONE or FAILED: send discovery_hello_output(), feed what arrives     (or discovery_hello_io())
 *     discovery_frames_init() with hello.session, then pack, feed, next for as long as the connection lives
 *
 * The caller owns the deadline: close the socket of a hello that is not done in DISCOVERY_HELLO_MS. */
#ifndef MUSTER_HELLO_H
#define MUSTER_HELLO_H

#include "muster/buf.h"
#include "muster/digest.h"
#include "muster/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define DISCOVERY_PROTOCOL_VERSION 1
#define DISCOVERY_HELLO_MS         1000 /* what a hello may take; an unauthenticated socket lives no longer */
#define DISCOVERY_UNAUTHENTICATED                                                                            \
    64 /* such sockets that a listener should hold, beside the expected workers */
#define DISCOVERY_CLUSTER_BYTES     64  /* a cluster's name with its NUL */
#define DISCOVERY_SLOT_BYTES        128 /* a slot's name with its NUL */
#define DISCOVERY_INCARNATION_BYTES 16
#define DISCOVERY_NONCE_BYTES       32
#define DISCOVERY_KEY_MIN_BYTES     32
#define DISCOVERY_KEY_MAX_BYTES     1024
#define DISCOVERY_KEYS_MAX          2 /* while a key is being replaced */

enum discovery_role {
    DISCOVERY_ROLE_WORKER = 1,
    DISCOVERY_ROLE_COLLECTOR = 2,
    DISCOVERY_ROLE_LAUNCH = 3, /* starts another framework's program */
    DISCOVERY_ROLE_PROBE = 4,  /* scan and health: looks, and never becomes a member */
};

/* What an agent is at, as its identity says. */
enum discovery_state {
    DISCOVERY_STATE_UNKNOWN = 0,
    DISCOVERY_STATE_LOOKING = 1,    /* for the network that the others are on */
    DISCOVERY_STATE_FORMING = 2,    /* for the other workers, before the first view */
    DISCOVERY_STATE_RUNNING = 3,    /* in a view */
    DISCOVERY_STATE_CHANGING = 4,   /* from one view to the next */
    DISCOVERY_STATE_PAUSED = 5,     /* too few are left for a view */
    DISCOVERY_STATE_LEAVING = 6,    /* it was told to stop */
    DISCOVERY_STATE_DONE = 7,       /* the job is complete */
    DISCOVERY_STATE_COLLECTING = 8, /* a collector */
};
const char *discovery_state_text(uint8_t state); /* "running" and the like; "unknown" for all others */
const char *discovery_role_text(enum discovery_role role); /* "worker" and the like; "unknown" */

/* What a connection will carry once the hello is done. */
enum discovery_purpose {
    DISCOVERY_PURPOSE_HELLO = 1, /* nothing more: the identities were all that was wanted */
    DISCOVERY_PURPOSE_CONTROL = 2,
    DISCOVERY_PURPOSE_DATA = 3,
};

/* Why a hello failed. The first group goes over the wire as the one-byte refusal, the second inside the
 * authenticated last message, the third is what this side found by itself. */
enum discovery_reason {
    DISCOVERY_REASON_NONE = 0,
    DISCOVERY_REASON_VERSION = 1,  /* another protocol version */
    DISCOVERY_REASON_CLUSTER = 2,  /* another cluster's name */
    DISCOVERY_REASON_KEY = 3,      /* not the same key */
    DISCOVERY_REASON_INSECURE = 4, /* one side has a key, the other runs with --insecure */
    DISCOVERY_REASON_SELF = 5,     /* the connection led back to the dialer */
    DISCOVERY_REASON_FULL = 6,     /* too many unauthenticated connections at the moment: try again */
    DISCOVERY_REASON_FORMAT = 7,   /* a message whose fields make no sense */

    DISCOVERY_REASON_ROLE = 32, /* this role or purpose is not served here */
    DISCOVERY_REASON_JOB = 33,  /* another job key */
    DISCOVERY_REASON_BUSY = 34, /* not now: try again */

    DISCOVERY_REASON_FOREIGN = 64, /* what answers does not speak this protocol */
    DISCOVERY_REASON_CLOSED = 65,  /* closed in the middle */
    DISCOVERY_REASON_TAMPERED = 66 /* a later message's MAC is wrong */
};
/* "it belongs to another cluster" and the like, never NULL: made to stand behind an address and a colon. */
const char *discovery_reason_text(enum discovery_reason reason);
/* Worth another try by itself: FULL, BUSY, CLOSED. */
bool discovery_reason_may_pass(enum discovery_reason reason);

/* What an agent understands beyond the protocol's version. */
#define DISCOVERY_FEATURE_TELLS                                                                              \
    (1ULL << 0) /* control frames of type 0x8000 and above, see docs/protocol.md */

/* Who somebody is. Names are letters, digits, '.', '_' and '-', and do not start with '.' or '-'. */
struct discovery_identity {
    char cluster[DISCOVERY_CLUSTER_BYTES];            /* not empty */
    char slot[DISCOVERY_SLOT_BYTES];                  /* not empty; "w1.1", or a host's name */
    uint8_t incarnation[DISCOVERY_INCARNATION_BYTES]; /* random at each start of a process: the real name */
    enum discovery_role role;
    uint32_t ipv4; /* where its own listener is, host byte order; 0 when it has none (a probe) */
    uint16_t port;
    uint8_t state;                     /* enum discovery_state */
    uint64_t view;                     /* the last view committed, 0: none yet */
    uint64_t step;                     /* state is "after this step" */
    uint64_t features;                 /* DISCOVERY_FEATURE_..., bit by bit; unknown bits are ignored */
    uint8_t job_key[MST_SHA256_BYTES]; /* zero: no job yet */
};

/* -EINVAL with a text unless names, role and addresses are fit to be sent. */
int discovery_identity_check(const struct discovery_identity *identity, struct mst_error *err);

/* A shared key. No bytes at all means --insecure. */
struct discovery_key {
    size_t count; /* 0, or DISCOVERY_KEY_MIN_BYTES to DISCOVERY_KEY_MAX_BYTES */
    uint8_t bytes[DISCOVERY_KEY_MAX_BYTES];
};

/* Read a key file as it is, a newline at its end included. -EINVAL when it is too short or too long. */
int discovery_key_read(const char *path, struct discovery_key *ret_key, struct mst_error *err);
void discovery_key_forget(struct discovery_key *key); /* overwrites; usable with mst_cleanup() */

/* What one side brings to its hellos. Borrowed by them until they are done. */
struct discovery_self {
    struct discovery_identity identity;
    struct discovery_key keys[DISCOVERY_KEYS_MAX]; /* a dialer tries the first, a listener takes any */
    size_t key_count;                              /* at least 1 */
    int segment_bytes; /* discovery_hello_dial(): TCP segments of at most so many; 0: as the MTU allows */
};

/* Read the key, and the one that it replaces (NULL: none; the same bytes count once), into self->keys. */
int discovery_keys_read(struct discovery_self *self, const char *path, const char *old_path,
                        struct mst_error *err);

/* What a finished hello leaves. */
struct discovery_session {
    struct discovery_identity peer;
    enum discovery_purpose purpose;
    bool dialer;                   /* which side this one was */
    bool insecure;                 /* both sides run without a key */
    uint8_t key[MST_SHA256_BYTES]; /* secret: mst_forget() it when the connection ends */
};

enum discovery_hello_status {
    DISCOVERY_HELLO_GOING,  /* wants bytes, or has some to send */
    DISCOVERY_HELLO_DONE,   /* session is set; there may be a last output to send first */
    DISCOVERY_HELLO_FAILED, /* reason is set; there may be a one-byte refusal to send before closing */
};

/* Listener only: asked once the dialer is authenticated; NONE accepts, else a reason of the second group. */
typedef enum discovery_reason discovery_hello_verdict(void *context, const struct discovery_session *session);

#define DISCOVERY_HELLO_MESSAGE_BYTES 512 /* the longest message */

/* Embed it; fields below `session` are private. Holds secrets: release it. */
struct discovery_hello {
    enum discovery_hello_status status;
    enum discovery_reason reason;
    struct discovery_session session; /* complete when DONE; peer is what was claimed before that */

    const struct discovery_self *self;
    discovery_hello_verdict *verdict;
    void *verdict_context;
    int stage;
    size_t key_index;
    uint32_t peer_ipv4; /* for texts */
    uint16_t peer_port;
    uint8_t first[DISCOVERY_HELLO_MESSAGE_BYTES]; /* M1 and M2 as sent: later MACs cover them */
    uint8_t second[DISCOVERY_HELLO_MESSAGE_BYTES];
    uint8_t in[DISCOVERY_HELLO_MESSAGE_BYTES];
    size_t in_count, in_wanted;
    uint8_t out[DISCOVERY_HELLO_MESSAGE_BYTES];
    size_t out_count, out_sent;
};

/* Start one. `peer_ipv4` and `peer_port` are where the connection leads, for error texts only. `self` is
 * borrowed, its view, state and step are read now (dialer) or when the first message is in (listener). */
int discovery_hello_dialer(struct discovery_hello *hello, const struct discovery_self *self,
                           enum discovery_purpose purpose, uint32_t peer_ipv4, uint16_t peer_port,
                           struct mst_error *err);
/* The same with another of self's keys than the first: the next one after a DISCOVERY_REASON_KEY, while a key
 * is being replaced. That reason is a stranger's word, but leads to no more than a key that is good. */
int discovery_hello_dialer_with(struct discovery_hello *hello, const struct discovery_self *self,
                                size_t key_index, enum discovery_purpose purpose, uint32_t peer_ipv4,
                                uint16_t peer_port, struct mst_error *err);
int discovery_hello_listener(struct discovery_hello *hello, const struct discovery_self *self,
                             discovery_hello_verdict *verdict, void *verdict_context, uint32_t peer_ipv4,
                             uint16_t peer_port, struct mst_error *err);
void discovery_hello_release(struct discovery_hello *hello); /* forgets secrets; usable with mst_cleanup() */

/* Feed bytes that arrived. Takes no more than the hello needs: *ret_taken < count means that the rest belongs
 * to what comes after. Returns the new status, or a negative errno with a text that names the peer (status is
 * FAILED and reason set, too). */
int discovery_hello_feed(struct discovery_hello *hello, const void *bytes, size_t count, size_t *ret_taken,
                         struct mst_error *err);
/* The other side closed. Fails unless DONE, with the same results as feed. */
int discovery_hello_closed(struct discovery_hello *hello, struct mst_error *err);
/* How many bytes feed would take now; 0 when nothing is awaited. */
size_t discovery_hello_wanted(const struct discovery_hello *hello);
/* Bytes to be sent (count may be 0), and how many of them were. */
const void *discovery_hello_output(const struct discovery_hello *hello, size_t *ret_count);
void discovery_hello_sent(struct discovery_hello *hello, size_t count);

/* The same over a non-blocking socket. `_io` moves what can be moved, reading never beyond the hello's own
 * bytes; returns as feed does: GOING (poll for discovery_hello_events() and call again), DONE only when all
 * output is out too, or a negative errno after a last try to send the refusal. */
int discovery_hello_io(struct discovery_hello *hello, int fd, struct mst_error *err);
short discovery_hello_events(const struct discovery_hello *hello); /* POLLIN, POLLOUT */

/* Turn a connection away before any hello, for a reason of the first group (DISCOVERY_REASON_FULL): one byte,
 * and to those only who have said something. The caller closes the socket. */
void discovery_hello_turn_away(int fd, enum discovery_reason reason);

/* Blocking: connect, say hello (with the second key where the first is refused), return the non-blocking
 * socket and the session; -ETIMEDOUT at the deadline. *ret_reason (may be NULL) is set on failures too: NONE
 * when the fault lay below the hello (nobody there).
 */
int discovery_hello_dial(uint32_t ipv4, uint16_t port, const struct discovery_self *self,
                         enum discovery_purpose purpose, uint64_t deadline_ns, int *ret_fd,
                         struct discovery_session *ret_session, enum discovery_reason *ret_reason,
                         struct mst_error *err);
/* Blocking: run a prepared hello over `fd` (not closed) until DONE or the deadline. */
int discovery_hello_run(struct discovery_hello *hello, int fd, uint64_t deadline_ns, struct mst_error *err);

/* Control frames: {length, type, counter} payload MAC. Each direction has its own key and counts from 0; a
 * frame that is altered, repeated, reordered, reflected or of another connection ends the connection. */
#define DISCOVERY_FRAME_HEADER_BYTES   16
#define DISCOVERY_FRAME_MAC_BYTES      16
#define DISCOVERY_FRAME_MAX_BYTES      262144 /* of payload */
#define DISCOVERY_FRAME_OVERHEAD_BYTES (DISCOVERY_FRAME_HEADER_BYTES + DISCOVERY_FRAME_MAC_BYTES)

struct discovery_frames {
    uint8_t send_key[MST_SHA256_BYTES], receive_key[MST_SHA256_BYTES]; /* secret */
    uint64_t send_counter, receive_counter;
    struct mst_buf in;
    size_t in_done; /* bytes of `in` that belong to frames handed out already */
    bool broken;
};

int discovery_frames_init(struct discovery_frames *frames, const struct discovery_session *session,
                          struct mst_error *err);
void discovery_frames_release(struct discovery_frames *frames); /* usable with mst_cleanup() */

/* Append one whole frame to `out`, which grows by count + DISCOVERY_FRAME_OVERHEAD_BYTES; it must be sent, in
 * this order. -EMSGSIZE for a payload beyond DISCOVERY_FRAME_MAX_BYTES; after an error nothing was appended.
 */
int discovery_frames_pack(struct discovery_frames *frames, uint16_t type, const void *payload, size_t count,
                          struct mst_buf *out, struct mst_error *err);
/* Bytes that were fed and do not make a whole frame yet, once next() has returned 0. */
size_t discovery_frames_waiting(const struct discovery_frames *frames);
/* How many bytes may be fed now before next() has to be called, at least 1 unless a whole frame waits. */
size_t discovery_frames_room(const struct discovery_frames *frames);
/* Feed bytes that arrived; takes up to room() of them and says how many. */
int discovery_frames_feed(struct discovery_frames *frames, const void *bytes, size_t count, size_t *ret_taken,
                          struct mst_error *err);
/* The next frame: 1 and the outputs set (the payload is borrowed until the next call of feed or next), 0 when
 * more bytes are needed, -EBADMSG when the stream is not to be trusted any more (and so for every later
 * call). */
int discovery_frames_next(struct discovery_frames *frames, uint16_t *ret_type, const uint8_t **ret_payload,
                          size_t *ret_count, struct mst_error *err);

#endif
