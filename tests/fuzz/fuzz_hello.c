/* SPDX-License-Identifier: Apache-2.0 */
/* The hello, both sides, in every state. The first byte of the input says who is at the other end:
 *
 *     0, 1   a stranger: its bytes are what the listener, or the dialer, gets
 *     2, 3   somebody who knows the key: the input is laid over good messages, and their MACs are made anew,
 *            so that what is behind the MAC is reached (2: as dialer, 3: as listener)
 *     4      somebody on the way: the input is added to what two honest sides say to each other
 *
 * the second how large the pieces are in which bytes arrive. */
#include "hello_wire.h"
#include "muster/digest.h"
#include "muster/hello.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);

struct input {
    const uint8_t *next;
    size_t left;
    size_t piece;
};

static struct discovery_self make_self(uint8_t id, size_t key_count)
{
    struct discovery_self self = {.key_count = key_count};
    memcpy(self.identity.cluster, "blue", 5);
    memcpy(self.identity.slot, "w1.1", 5);
    memset(self.identity.incarnation, id, sizeof self.identity.incarnation);
    self.identity.role = DISCOVERY_ROLE_WORKER;
    self.identity.ipv4 = id;
    self.identity.port = 1;
    for (size_t k = 0; k < key_count; k++) {
        self.keys[k].count = DISCOVERY_KEY_MIN_BYTES;
        memset(self.keys[k].bytes, (int)k + 1, DISCOVERY_KEY_MIN_BYTES);
    }
    return self;
}

/* What holds of any hello at any time. */
static void check(const struct discovery_hello *hello, int r)
{
    if ((r < 0) != (hello->status == DISCOVERY_HELLO_FAILED))
        abort();
    for (const char *c = hello->session.peer.slot; *c; c++)
        if (*c <= ' ' || *c >= 127)
            abort(); /* it goes into texts */
    if (hello->status == DISCOVERY_HELLO_DONE && discovery_identity_check(&hello->session.peer, NULL) < 0)
        abort();
}

/* Feed in pieces; returns the last result. */
static int feed(struct discovery_hello *hello, const uint8_t *bytes, size_t count, size_t piece)
{
    int r = hello->status == DISCOVERY_HELLO_FAILED ? -1 : 0;
    while (r >= 0 && count > 0 && discovery_hello_wanted(hello) > 0) {
        struct mst_error err = MST_ERROR_INIT;
        size_t taken = 0;
        r = discovery_hello_feed(hello, bytes, count < piece ? count : piece, &taken, &err);
        if (taken > count || (r < 0 && !err.text[0]))
            abort();
        bytes += taken;
        count -= taken;
        check(hello, r);
    }
    return r;
}

/* Take what is to be sent; at most `most` bytes, which is what the other side has said. */
static size_t take(struct discovery_hello *hello, uint8_t *message, size_t most)
{
    size_t count;
    const void *bytes = discovery_hello_output(hello, &count);
    if (count > most)
        abort(); /* a reply that is larger than what it answers */
    memcpy(message, bytes, count);
    discovery_hello_sent(hello, count);
    return count;
}

static void feed_stranger(bool to_dialer, struct input input)
{
    const struct discovery_self self = make_self(1, 2);
    struct discovery_hello hello;
    uint8_t message[DISCOVERY_HELLO_MESSAGE_BYTES];
    if (to_dialer ? discovery_hello_dialer_with(&hello, &self, 1, DISCOVERY_PURPOSE_CONTROL, 1, 1, NULL) < 0
                  : discovery_hello_listener(&hello, &self, NULL, NULL, 1, 1, NULL) < 0)
        abort();
    if (to_dialer)
        (void)take(&hello, message, sizeof message);
    (void)feed(&hello, input.next, input.left, input.piece);
    (void)take(&hello, message, to_dialer ? 0 : input.left > 0);
    if (hello.status == DISCOVERY_HELLO_DONE)
        abort(); /* nobody guesses the key */
    discovery_hello_release(&hello);
}

/* ---- somebody who knows the key ---- */

static void overlay(uint8_t *message, size_t count, struct input *input)
{
    for (size_t i = 0; i < count && input->left > 0; i++, input->left--)
        message[i] = (uint8_t)(message[i] + *input->next++);
}

static void sign(const uint8_t *key, const char *label, const uint8_t *before, size_t before_count,
                 uint8_t *message, size_t signed_bytes)
{
    uint8_t all[32 + 2 * WIRE_OPENER_BYTES + 2 * WIRE_PROOF_BYTES];
    size_t count = strlen(label);
    memcpy(all, label, count);
    memcpy(all + count, before, before_count);
    count += before_count;
    memcpy(all + count, message, signed_bytes);
    count += signed_bytes;
    if (mst_hmac_sha256(key, MST_SHA256_BYTES, all, count, message + signed_bytes, NULL) < 0)
        abort();
}

static void insider_dials(struct input input)
{
    const struct discovery_self self = make_self(1, 2), insider = make_self(2, 1);
    const uint8_t *key = insider.keys[0].bytes;
    struct discovery_hello hello, real;
    uint8_t talk[2 * WIRE_OPENER_BYTES + 2 * WIRE_PROOF_BYTES], nothing[WIRE_PROOF_BYTES];
    if (discovery_hello_listener(&hello, &self, NULL, NULL, 1, 1, NULL) < 0 ||
        discovery_hello_dialer(&real, &insider, DISCOVERY_PURPOSE_CONTROL, 1, 1, NULL) < 0)
        abort();
    (void)take(&real, talk, WIRE_OPENER_BYTES);
    overlay(talk, WIRE_OPENER_SIGNED_BYTES, &input);
    sign(key, "muster hello opener v1", talk, 0, talk, WIRE_OPENER_SIGNED_BYTES);
    if (feed(&hello, talk, WIRE_OPENER_BYTES, input.piece) >= 0) {
        if (take(&hello, talk + WIRE_OPENER_BYTES, WIRE_OPENER_BYTES) != WIRE_OPENER_BYTES)
            abort();
        uint8_t *proof = talk + 2 * WIRE_OPENER_BYTES;
        wire_proof_put(proof, WIRE_PROOF, 0);
        overlay(proof, WIRE_PROOF_SIGNED_BYTES, &input);
        sign(key, "muster hello dialer v1", talk, 2 * WIRE_OPENER_BYTES, proof, WIRE_PROOF_SIGNED_BYTES);
        if (feed(&hello, proof, WIRE_PROOF_BYTES, input.piece) != DISCOVERY_HELLO_DONE)
            abort(); /* the MAC was right, and nothing else in it counts */
    }
    (void)take(&hello, nothing, WIRE_PROOF_BYTES);
    discovery_hello_release(&hello);
    discovery_hello_release(&real);
}

static void insider_listens(struct input input)
{
    const struct discovery_self self = make_self(1, 1), insider = make_self(2, 1);
    const uint8_t *key = insider.keys[0].bytes;
    struct discovery_hello hello, real;
    uint8_t talk[2 * WIRE_OPENER_BYTES + 2 * WIRE_PROOF_BYTES];
    size_t taken;
    if (discovery_hello_dialer(&hello, &self, DISCOVERY_PURPOSE_DATA, 1, 1, NULL) < 0 ||
        discovery_hello_listener(&real, &insider, NULL, NULL, 1, 1, NULL) < 0)
        abort();
    (void)take(&hello, talk, WIRE_OPENER_BYTES);
    if (discovery_hello_feed(&real, talk, WIRE_OPENER_BYTES, &taken, NULL) < 0)
        abort();
    uint8_t *answer = talk + WIRE_OPENER_BYTES;
    (void)take(&real, answer, WIRE_OPENER_BYTES);
    overlay(answer, WIRE_OPENER_SIGNED_BYTES, &input);
    sign(key, "muster hello listener v1", talk, WIRE_OPENER_BYTES, answer, WIRE_OPENER_SIGNED_BYTES);
    if (feed(&hello, answer, WIRE_OPENER_BYTES, input.piece) >= 0) {
        uint8_t *verdict = talk + 2 * WIRE_OPENER_BYTES + WIRE_PROOF_BYTES;
        (void)take(&hello, talk + 2 * WIRE_OPENER_BYTES, WIRE_PROOF_BYTES);
        wire_proof_put(verdict, WIRE_VERDICT, 0);
        overlay(verdict, WIRE_PROOF_SIGNED_BYTES, &input);
        sign(hello.session.key, "muster hello verdict v1", talk, 2 * WIRE_OPENER_BYTES + WIRE_PROOF_BYTES,
             verdict, WIRE_PROOF_SIGNED_BYTES);
        const uint8_t code = wire_proof_code(verdict);
        const int r = feed(&hello, verdict, WIRE_PROOF_BYTES, input.piece);
        if ((r == DISCOVERY_HELLO_DONE) != (code == 0) || (r < 0 && hello.reason != code))
            abort();
    }
    discovery_hello_release(&hello);
    discovery_hello_release(&real);
}

/* ---- somebody on the way ---- */

static void carry(struct discovery_hello *from, struct discovery_hello *to, struct input *input,
                  bool *altered)
{
    uint8_t message[DISCOVERY_HELLO_MESSAGE_BYTES], original[sizeof message];
    const size_t count = take(from, message, sizeof message);
    memcpy(original, message, count);
    overlay(message, count, input);
    const bool differs = memcmp(original, message, count) != 0;
    *altered |= differs;
    if (from->status != DISCOVERY_HELLO_FAILED || count > 0)
        (void)feed(to, message, count, input->piece);
    /* Noticed at once, not only when something else does not fit. (A refusal's one byte can become a
     * message's first.) */
    if (differs && (count > 1 ? to->status != DISCOVERY_HELLO_FAILED : to->status == DISCOVERY_HELLO_DONE))
        abort();
}

static void meddle(struct input input)
{
    const struct discovery_self a = make_self(1, 1), b = make_self(2, 2);
    struct discovery_hello dialer, listener;
    bool altered = false;
    if (discovery_hello_dialer(&dialer, &a, DISCOVERY_PURPOSE_CONTROL, 1, 1, NULL) < 0 ||
        discovery_hello_listener(&listener, &b, NULL, NULL, 1, 1, NULL) < 0)
        abort();
    for (int turn = 0; turn < 2; turn++) {
        carry(&dialer, &listener, &input, &altered);
        carry(&listener, &dialer, &input, &altered);
    }
    const bool both = dialer.status == DISCOVERY_HELLO_DONE && listener.status == DISCOVERY_HELLO_DONE;
    if (both == altered)
        abort();
    if (both && memcmp(dialer.session.key, listener.session.key, sizeof dialer.session.key) != 0)
        abort();
    discovery_hello_release(&dialer);
    discovery_hello_release(&listener);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    if (count < 2)
        return 0;
    const struct input input = {.next = bytes + 2, .left = count - 2, .piece = bytes[1] ? bytes[1] : 512};
    switch (bytes[0] % 5) {
    case 0:
    case 1:
        feed_stranger(bytes[0] % 5 == 1, input);
        break;
    case 2:
        insider_dials(input);
        break;
    case 3:
        insider_listens(input);
        break;
    default:
        meddle(input);
    }
    return 0;
}
