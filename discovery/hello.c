/* SPDX-License-Identifier: Apache-2.0 */
/* Both sides of the hello as one state machine. K is the shared key, | is concatenation:
 *
 *     dialer                                       listener
 *     M1 = identity, nonce_d, HMAC(K, opener|M1)   refuses with one byte, or
 *                                                  M2 = identity, nonce_l, HMAC(K, listener|M1|M2)
 *     M3 = HMAC(K, dialer|M1|M2|M3)
 *                                                  M4 = verdict, HMAC(S, verdict|M1|M2|M3|M4)
 *     S = HMAC(K, session|M1|M2)
 *
 * M1's own MAC proves nothing about time (it can be replayed); it only keeps strangers from learning more
 * than that one byte, and tells a listener with two keys which of them is meant. Fresh are M2 (for the
 * dialer) and M3 (for the listener), as each covers the other side's nonce. The labels keep a message of one
 * role from being taken for one of another. */
#include "hello_wire.h"
#include "muster/net.h"

#include <assert.h>
#include <string.h>

enum hello_stage {
    STAGE_LISTENER_HEADER, /* M1's first bytes: the version decides how long it is */
    STAGE_LISTENER_OPENER,
    STAGE_LISTENER_PROOF,
    STAGE_DIALER_FIRST, /* one byte: a refusal, or the beginning of M2 */
    STAGE_DIALER_HEADER,
    STAGE_DIALER_ANSWER,
    STAGE_DIALER_VERDICT,
    STAGE_OVER,
};

static const char label_opener[] = "muster hello opener v1";
static const char label_listener[] = "muster hello listener v1";
static const char label_dialer[] = "muster hello dialer v1";
static const char label_verdict[] = "muster hello verdict v1";
static const char label_session[] = "muster session v1";

static bool hello_insecure(const struct discovery_hello *hello)
{
    return hello->self->keys[0].count == 0;
}

static uint8_t hello_flags(const struct discovery_hello *hello)
{
    return hello_insecure(hello) ? WIRE_FLAG_INSECURE : 0;
}

struct piece {
    const void *bytes;
    size_t count;
};

/* HMAC over the label (without its NUL) and the pieces. */
static int hello_mac(const void *key, size_t key_bytes, const char *label, const struct piece *pieces,
                     size_t piece_count, uint8_t ret_mac[static MST_SHA256_BYTES], struct mst_error *err)
{
    uint8_t all[32 + 2 * WIRE_OPENER_BYTES + 2 * WIRE_PROOF_BYTES];
    size_t count = strlen(label);
    memcpy(all, label, count);
    for (size_t i = 0; i < piece_count; i++) {
        assert(count + pieces[i].count <= sizeof all);
        memcpy(all + count, pieces[i].bytes, pieces[i].count);
        count += pieces[i].count;
    }
    return mst_hmac_sha256(key, key_bytes, all, count, ret_mac, err);
}

/* The MACs of M1 to M4, by what each covers. M3 stands in hello->out (dialer) or hello->in (listener). */
static int mac_opener(const struct discovery_key *key, const uint8_t *first, uint8_t *ret_mac,
                      struct mst_error *err)
{
    const struct piece pieces[] = {{first, WIRE_OPENER_SIGNED_BYTES}};
    return hello_mac(key->bytes, key->count, label_opener, pieces, 1, ret_mac, err);
}

static int mac_answer(const struct discovery_hello *hello, uint8_t *ret_mac, struct mst_error *err)
{
    const struct discovery_key *key = &hello->self->keys[hello->key_index];
    const struct piece pieces[] = {{hello->first, WIRE_OPENER_BYTES},
                                   {hello->second, WIRE_OPENER_SIGNED_BYTES}};
    return hello_mac(key->bytes, key->count, label_listener, pieces, 2, ret_mac, err);
}

static int mac_proof(const struct discovery_hello *hello, const uint8_t *third, uint8_t *ret_mac,
                     struct mst_error *err)
{
    const struct discovery_key *key = &hello->self->keys[hello->key_index];
    const struct piece pieces[] = {{hello->first, WIRE_OPENER_BYTES},
                                   {hello->second, WIRE_OPENER_BYTES},
                                   {third, WIRE_PROOF_SIGNED_BYTES}};
    return hello_mac(key->bytes, key->count, label_dialer, pieces, 3, ret_mac, err);
}

static int mac_verdict(const struct discovery_hello *hello, const uint8_t *third, const uint8_t *fourth,
                       uint8_t *ret_mac, struct mst_error *err)
{
    const struct piece pieces[] = {{hello->first, WIRE_OPENER_BYTES},
                                   {hello->second, WIRE_OPENER_BYTES},
                                   {third, WIRE_PROOF_BYTES},
                                   {fourth, WIRE_PROOF_SIGNED_BYTES}};
    return hello_mac(hello->session.key, sizeof hello->session.key, label_verdict, pieces, 4, ret_mac, err);
}

static int session_key(struct discovery_hello *hello, struct mst_error *err)
{
    const struct discovery_key *key = &hello->self->keys[hello->key_index];
    const struct piece pieces[] = {{hello->first, WIRE_OPENER_BYTES}, {hello->second, WIRE_OPENER_BYTES}};
    return hello_mac(key->bytes, key->count, label_session, pieces, 2, hello->session.key, err);
}

static void hello_expect(struct discovery_hello *hello, enum hello_stage stage, size_t wanted)
{
    hello->stage = (int)stage;
    hello->in_wanted = wanted;
}

static void hello_queue(struct discovery_hello *hello, const void *bytes, size_t count)
{
    assert(hello->out_count == hello->out_sent && count <= sizeof hello->out);
    memcpy(hello->out, bytes, count);
    hello->out_count = count;
    hello->out_sent = 0;
}

static int reason_code(enum discovery_reason reason)
{
    switch (reason) {
    case DISCOVERY_REASON_CLOSED:
        return -EPIPE;
    case DISCOVERY_REASON_KEY:
    case DISCOVERY_REASON_INSECURE:
    case DISCOVERY_REASON_TAMPERED:
        return -EACCES;
    default:
        return -EPROTO;
    }
}

static int hello_fail(struct discovery_hello *hello, enum discovery_reason reason, struct mst_error *err)
{
    char address[MST_IPV4_TEXT_BYTES];
    hello->status = DISCOVERY_HELLO_FAILED;
    hello->reason = reason;
    mst_forget(hello->session.key, sizeof hello->session.key);
    hello_expect(hello, STAGE_OVER, 0);
    /* Between one side's two clusters or slots the names are what helps; they are claims, not facts. */
    const char *claimed = reason == DISCOVERY_REASON_CLUSTER ? hello->session.peer.cluster : "";
    return mst_error_set(err, reason_code(reason), "hello %s %s:%u: %s%s%s%s%s%s",
                         hello->session.dialer ? "to" : "from", mst_ipv4_text(hello->peer_ipv4, address),
                         (unsigned)hello->peer_port, discovery_reason_text(reason),
                         claimed[0] ? ": it says '" : "", claimed, claimed[0] ? "', not '" : "",
                         claimed[0] ? hello->self->identity.cluster : "", claimed[0] ? "'" : "");
}

/* A listener's farewell to somebody who is not authenticated: one byte, and no more. */
static int hello_refuse(struct discovery_hello *hello, enum discovery_reason reason, struct mst_error *err)
{
    const uint8_t byte = (uint8_t)reason;
    hello_queue(hello, &byte, sizeof byte);
    return hello_fail(hello, reason, err);
}

/* A fault of our own (no memory, no random bytes): the peer is told nothing. */
static int hello_broken(struct discovery_hello *hello, int r, struct mst_error *err)
{
    char address[MST_IPV4_TEXT_BYTES];
    hello->status = DISCOVERY_HELLO_FAILED;
    mst_forget(hello->session.key, sizeof hello->session.key);
    hello_expect(hello, STAGE_OVER, 0);
    hello->out_count = hello->out_sent = 0;
    return mst_error_wrap(err, r, "hello with %s:%u", mst_ipv4_text(hello->peer_ipv4, address),
                          (unsigned)hello->peer_port);
}

static int hello_start(struct discovery_hello *hello, const struct discovery_self *self, bool dialer,
                       uint32_t peer_ipv4, uint16_t peer_port, struct mst_error *err)
{
    assert(self->key_count >= 1 && self->key_count <= DISCOVERY_KEYS_MAX);
    memset(hello, 0, sizeof *hello);
    hello->self = self;
    hello->session.dialer = dialer;
    hello->session.insecure = self->keys[0].count == 0;
    hello->peer_ipv4 = peer_ipv4;
    hello->peer_port = peer_port;
    for (size_t i = 0; i < self->key_count; i++)
        if ((self->keys[i].count == 0) != hello->session.insecure)
            return mst_error_set(err, -EINVAL, "a key beside --insecure: hello needs one or the other");
    return discovery_identity_check(&self->identity, err);
}

int discovery_hello_dialer_with(struct discovery_hello *hello, const struct discovery_self *self,
                                size_t key_index, enum discovery_purpose purpose, uint32_t peer_ipv4,
                                uint16_t peer_port, struct mst_error *err)
{
    uint8_t nonce[DISCOVERY_NONCE_BYTES];
    assert(key_index < self->key_count);
    int r = hello_start(hello, self, true, peer_ipv4, peer_port, err);
    hello->key_index = key_index;
    if (r == 0)
        r = mst_random(nonce, sizeof nonce, err);
    if (r < 0)
        return hello_broken(hello, r, err);
    hello->session.purpose = purpose;
    wire_opener_put(hello->first, WIRE_OPENER, hello_flags(hello), &self->identity, purpose, nonce);
    r = mac_opener(&self->keys[key_index], hello->first, hello->first + WIRE_OPENER_SIGNED_BYTES, err);
    if (r < 0)
        return hello_broken(hello, r, err);
    hello_queue(hello, hello->first, WIRE_OPENER_BYTES);
    hello_expect(hello, STAGE_DIALER_FIRST, 1);
    return 0;
}

int discovery_hello_dialer(struct discovery_hello *hello, const struct discovery_self *self,
                           enum discovery_purpose purpose, uint32_t peer_ipv4, uint16_t peer_port,
                           struct mst_error *err)
{
    return discovery_hello_dialer_with(hello, self, 0, purpose, peer_ipv4, peer_port, err);
}

int discovery_hello_listener(struct discovery_hello *hello, const struct discovery_self *self,
                             discovery_hello_verdict *verdict, void *verdict_context, uint32_t peer_ipv4,
                             uint16_t peer_port, struct mst_error *err)
{
    const int r = hello_start(hello, self, false, peer_ipv4, peer_port, err);
    if (r < 0)
        return hello_broken(hello, r, err);
    hello->verdict = verdict;
    hello->verdict_context = verdict_context;
    hello_expect(hello, STAGE_LISTENER_HEADER, WIRE_HEADER_BYTES);
    return 0;
}

void discovery_hello_release(struct discovery_hello *hello)
{
    mst_forget(hello, sizeof *hello);
}

static int listener_header(struct discovery_hello *hello, struct mst_error *err)
{
    const struct wire_header header = wire_header_get(hello->in);
    if (!header.magic || header.type != WIRE_OPENER)
        return hello_fail(hello, DISCOVERY_REASON_FOREIGN, err); /* and not a byte in return */
    if (header.version != DISCOVERY_PROTOCOL_VERSION)
        return hello_refuse(hello, DISCOVERY_REASON_VERSION, err);
    hello_expect(hello, STAGE_LISTENER_OPENER, WIRE_OPENER_BYTES);
    return 0;
}

/* Which of our keys made M1's MAC. All are tried, whichever fits: the time taken does not tell. */
static int listener_find_key(struct discovery_hello *hello, bool *ret_found, struct mst_error *err)
{
    uint8_t mac[MST_SHA256_BYTES];
    *ret_found = false;
    for (size_t i = 0; i < hello->self->key_count; i++) {
        const int r = mac_opener(&hello->self->keys[i], hello->first, mac, err);
        if (r < 0)
            return r;
        if (mst_equal_constant_time(mac, hello->first + WIRE_OPENER_SIGNED_BYTES, sizeof mac)) {
            *ret_found = true;
            hello->key_index = i;
        }
    }
    return 0;
}

static int listener_answer(struct discovery_hello *hello, struct mst_error *err)
{
    uint8_t nonce[DISCOVERY_NONCE_BYTES];
    int r = mst_random(nonce, sizeof nonce, err);
    if (r < 0)
        return hello_broken(hello, r, err);
    wire_opener_put(hello->second, WIRE_ANSWER, hello_flags(hello), &hello->self->identity,
                    hello->session.purpose, nonce);
    r = mac_answer(hello, hello->second + WIRE_OPENER_SIGNED_BYTES, err);
    if (r == 0)
        r = session_key(hello, err);
    if (r < 0)
        return hello_broken(hello, r, err);
    hello_queue(hello, hello->second, WIRE_OPENER_BYTES);
    hello_expect(hello, STAGE_LISTENER_PROOF, WIRE_PROOF_BYTES);
    return 0;
}

static bool peer_is_self(const struct discovery_hello *hello)
{
    return memcmp(hello->session.peer.incarnation, hello->self->identity.incarnation,
                  DISCOVERY_INCARNATION_BYTES) == 0;
}

static int listener_opener(struct discovery_hello *hello, struct mst_error *err)
{
    bool known_key;
    memcpy(hello->first, hello->in, WIRE_OPENER_BYTES);
    const bool good = wire_opener_get(hello->first, &hello->session.peer, &hello->session.purpose);
    const bool insecure = wire_header_get(hello->first).flags & WIRE_FLAG_INSECURE;
    if (insecure != hello_insecure(hello))
        return hello_refuse(hello, DISCOVERY_REASON_INSECURE, err);
    if (!wire_opener_names_cluster(hello->first, hello->self->identity.cluster))
        return hello_refuse(hello, DISCOVERY_REASON_CLUSTER, err);
    const int r = listener_find_key(hello, &known_key, err);
    if (r < 0)
        return hello_broken(hello, r, err);
    if (!known_key)
        return hello_refuse(hello, DISCOVERY_REASON_KEY, err);
    if (!good)
        return hello_refuse(hello, DISCOVERY_REASON_FORMAT, err);
    if (peer_is_self(hello))
        return hello_refuse(hello, DISCOVERY_REASON_SELF, err);
    return listener_answer(hello, err);
}

static int listener_proof(struct discovery_hello *hello, struct mst_error *err)
{
    uint8_t mac[MST_SHA256_BYTES], verdict[WIRE_PROOF_BYTES];
    int r = mac_proof(hello, hello->in, mac, err);
    if (r < 0)
        return hello_broken(hello, r, err);
    if (!mst_equal_constant_time(mac, hello->in + WIRE_PROOF_SIGNED_BYTES, sizeof mac))
        return hello_fail(hello, DISCOVERY_REASON_TAMPERED, err);

    enum discovery_reason reason = DISCOVERY_REASON_NONE;
    if (hello->verdict)
        reason = hello->verdict(hello->verdict_context, &hello->session);
    wire_proof_put(verdict, WIRE_VERDICT, (uint8_t)reason);
    r = mac_verdict(hello, hello->in, verdict, verdict + WIRE_PROOF_SIGNED_BYTES, err);
    if (r < 0)
        return hello_broken(hello, r, err);
    hello_queue(hello, verdict, sizeof verdict);
    if (reason != DISCOVERY_REASON_NONE)
        return hello_fail(hello, reason, err);
    hello->status = DISCOVERY_HELLO_DONE;
    hello_expect(hello, STAGE_OVER, 0);
    return 0;
}

static int dialer_first(struct discovery_hello *hello, struct mst_error *err)
{
    const uint8_t byte = hello->in[0];
    if (byte == WIRE_MAGIC_FIRST_BYTE) {
        hello_expect(hello, STAGE_DIALER_HEADER, WIRE_HEADER_BYTES);
        return 0;
    }
    const bool refusal = byte >= DISCOVERY_REASON_VERSION && byte <= DISCOVERY_REASON_FORMAT;
    return hello_fail(hello, refusal ? byte : DISCOVERY_REASON_FOREIGN, err);
}

static int dialer_header(struct discovery_hello *hello, struct mst_error *err)
{
    const struct wire_header header = wire_header_get(hello->in);
    if (!header.magic)
        return hello_fail(hello, DISCOVERY_REASON_FOREIGN, err);
    if (header.version != DISCOVERY_PROTOCOL_VERSION)
        return hello_fail(hello, DISCOVERY_REASON_VERSION, err);
    if (header.type != WIRE_ANSWER)
        return hello_fail(hello, DISCOVERY_REASON_FOREIGN, err);
    hello_expect(hello, STAGE_DIALER_ANSWER, WIRE_OPENER_BYTES);
    return 0;
}

static int dialer_answer(struct discovery_hello *hello, struct mst_error *err)
{
    uint8_t mac[MST_SHA256_BYTES], proof[WIRE_PROOF_BYTES];
    enum discovery_purpose purpose;
    memcpy(hello->second, hello->in, WIRE_OPENER_BYTES);
    const bool good = wire_opener_get(hello->second, &hello->session.peer, &purpose);
    const bool insecure = wire_header_get(hello->second).flags & WIRE_FLAG_INSECURE;
    if (insecure != hello_insecure(hello))
        return hello_fail(hello, DISCOVERY_REASON_INSECURE, err);
    int r = mac_answer(hello, mac, err);
    if (r < 0)
        return hello_broken(hello, r, err);
    if (!mst_equal_constant_time(mac, hello->second + WIRE_OPENER_SIGNED_BYTES, sizeof mac))
        return hello_fail(hello, DISCOVERY_REASON_KEY, err);
    if (!wire_opener_names_cluster(hello->second, hello->self->identity.cluster))
        return hello_fail(hello, DISCOVERY_REASON_CLUSTER, err);
    if (!good || purpose != hello->session.purpose)
        return hello_fail(hello, DISCOVERY_REASON_FORMAT, err);
    if (peer_is_self(hello))
        return hello_fail(hello, DISCOVERY_REASON_SELF, err);

    wire_proof_put(proof, WIRE_PROOF, 0);
    r = mac_proof(hello, proof, proof + WIRE_PROOF_SIGNED_BYTES, err);
    if (r == 0)
        r = session_key(hello, err);
    if (r < 0)
        return hello_broken(hello, r, err);
    hello_queue(hello, proof, sizeof proof);
    hello_expect(hello, STAGE_DIALER_VERDICT, WIRE_PROOF_BYTES);
    return 0;
}

static int dialer_verdict(struct discovery_hello *hello, struct mst_error *err)
{
    uint8_t mac[MST_SHA256_BYTES];
    /* M3 is still in `out`: nothing was queued since. */
    const int r = mac_verdict(hello, hello->out, hello->in, mac, err);
    if (r < 0)
        return hello_broken(hello, r, err);
    if (!mst_equal_constant_time(mac, hello->in + WIRE_PROOF_SIGNED_BYTES, sizeof mac))
        return hello_fail(hello, DISCOVERY_REASON_TAMPERED, err);
    const uint8_t code = wire_proof_code(hello->in);
    if (code != DISCOVERY_REASON_NONE)
        return hello_fail(hello, code, err);
    hello->status = DISCOVERY_HELLO_DONE;
    hello_expect(hello, STAGE_OVER, 0);
    return 0;
}

static int hello_advance(struct discovery_hello *hello, struct mst_error *err)
{
    switch ((enum hello_stage)hello->stage) {
    case STAGE_LISTENER_HEADER:
        return listener_header(hello, err);
    case STAGE_LISTENER_OPENER:
        return listener_opener(hello, err);
    case STAGE_LISTENER_PROOF:
        return listener_proof(hello, err);
    case STAGE_DIALER_FIRST:
        return dialer_first(hello, err);
    case STAGE_DIALER_HEADER:
        return dialer_header(hello, err);
    case STAGE_DIALER_ANSWER:
        return dialer_answer(hello, err);
    case STAGE_DIALER_VERDICT:
        return dialer_verdict(hello, err);
    case STAGE_OVER:
        break;
    }
    return 0;
}

int discovery_hello_feed(struct discovery_hello *hello, const void *bytes, size_t count, size_t *ret_taken,
                         struct mst_error *err)
{
    const uint8_t *next = bytes;
    size_t left = count;
    int r = 0;
    while (r == 0 && left > 0 && hello->in_wanted > 0) {
        const size_t missing = hello->in_wanted - hello->in_count;
        const size_t taken = left < missing ? left : missing;
        memcpy(hello->in + hello->in_count, next, taken);
        hello->in_count += taken;
        next += taken;
        left -= taken;
        if (hello->in_count < hello->in_wanted)
            break;
        const int stage = hello->stage;
        r = hello_advance(hello, err);
        /* The two look-ahead stages leave their bytes: they begin the message that is read next. */
        if (stage != STAGE_LISTENER_HEADER && stage != STAGE_DIALER_FIRST && stage != STAGE_DIALER_HEADER)
            hello->in_count = 0;
    }
    *ret_taken = count - left;
    return r < 0 ? r : (int)hello->status;
}

int discovery_hello_closed(struct discovery_hello *hello, struct mst_error *err)
{
    if (hello->status == DISCOVERY_HELLO_DONE)
        return DISCOVERY_HELLO_DONE;
    const bool failed = hello->status == DISCOVERY_HELLO_FAILED; /* then the first cause stays */
    return hello_fail(hello, failed ? hello->reason : DISCOVERY_REASON_CLOSED, err);
}

size_t discovery_hello_wanted(const struct discovery_hello *hello)
{
    return hello->in_wanted > hello->in_count ? hello->in_wanted - hello->in_count : 0;
}

const void *discovery_hello_output(const struct discovery_hello *hello, size_t *ret_count)
{
    *ret_count = hello->out_count - hello->out_sent;
    return hello->out + hello->out_sent;
}

void discovery_hello_sent(struct discovery_hello *hello, size_t count)
{
    assert(count <= hello->out_count - hello->out_sent);
    hello->out_sent += count;
}
