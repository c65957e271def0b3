/* SPDX-License-Identifier: Apache-2.0 */
/* Whatever a stranger can send to an agent: hello messages, control frames and ARP replies. The first byte of
 * the input chooses the parser, the second how large the pieces are in which the rest arrives. */
#include "arp_packet.h"
#include "muster/hello.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);

static struct discovery_self make_self(void)
{
    struct discovery_self self = {.key_count = 1};
    memcpy(self.identity.cluster, "blue", 5);
    memcpy(self.identity.slot, "w1.1", 5);
    self.identity.role = DISCOVERY_ROLE_WORKER;
    self.identity.ipv4 = 1;
    self.identity.port = 1;
    self.keys[0].count = DISCOVERY_KEY_MIN_BYTES;
    return self;
}

static void feed_hello(bool dialer, const uint8_t *bytes, size_t count, size_t piece)
{
    const struct discovery_self self = make_self();
    struct discovery_hello hello;
    int r = dialer ? discovery_hello_dialer(&hello, &self, DISCOVERY_PURPOSE_CONTROL, 1, 1, NULL)
                   : discovery_hello_listener(&hello, &self, NULL, NULL, 1, 1, NULL);
    while (r >= 0 && count > 0 && discovery_hello_wanted(&hello) > 0) {
        size_t taken, out;
        (void)discovery_hello_output(&hello, &out);
        discovery_hello_sent(&hello, out);
        r = discovery_hello_feed(&hello, bytes, count < piece ? count : piece, &taken, NULL);
        bytes += taken;
        count -= taken;
    }
    if (hello.status == DISCOVERY_HELLO_DONE)
        abort(); /* nobody guesses the key */
    discovery_hello_release(&hello);
}

/* A real first message with the input added to it byte by byte, so that what is checked behind the magic is
 * reached. */
static void feed_altered_opener(const uint8_t *bytes, size_t count, size_t piece)
{
    const struct discovery_self self = make_self();
    struct discovery_hello dialer;
    uint8_t opener[DISCOVERY_HELLO_MESSAGE_BYTES];
    size_t opener_bytes;
    if (discovery_hello_dialer(&dialer, &self, DISCOVERY_PURPOSE_CONTROL, 1, 1, NULL) == 0) {
        memcpy(opener, discovery_hello_output(&dialer, &opener_bytes), sizeof opener);
        for (size_t i = 0; i < sizeof opener && i < count; i++)
            opener[i] = (uint8_t)(opener[i] + bytes[i]);
        feed_hello(false, opener, sizeof opener, piece);
    }
    discovery_hello_release(&dialer);
}

/* As it is, or laid over good frames: byte by byte, the input is what is added to them. */
static void feed_frames(bool over_good_ones, const uint8_t *bytes, size_t count, size_t piece)
{
    struct discovery_session session = {.dialer = true};
    struct discovery_frames sender, receiver;
    struct mst_buf stream = MST_BUF_INIT(1 << 16);
    int r = discovery_frames_init(&sender, &session, NULL);
    session.dialer = false;
    if (r == 0)
        r = discovery_frames_init(&receiver, &session, NULL);
    for (uint16_t i = 0; r == 0 && over_good_ones && i < 4; i++)
        r = discovery_frames_pack(&sender, i, "0123456789", i * 3U, &stream, NULL);
    if (r == 0 && !over_good_ones)
        r = mst_buf_append(&stream, bytes, count);
    size_t altered_at = SIZE_MAX;
    for (size_t i = 0; over_good_ones && i < stream.count && i < count; i++) {
        stream.bytes[i] = (char)(stream.bytes[i] + (char)bytes[i]);
        if (bytes[i] && altered_at == SIZE_MAX)
            altered_at = i;
    }
    size_t at = 0, good_bytes = 0;
    while (r >= 0 && at < stream.count) {
        uint16_t type;
        const uint8_t *payload;
        size_t taken, payload_bytes;
        const size_t left = stream.count - at;
        r = discovery_frames_feed(&receiver, stream.bytes + at, left < piece ? left : piece, &taken, NULL);
        at += taken;
        while (r >= 0 && (r = discovery_frames_next(&receiver, &type, &payload, &payload_bytes, NULL)) == 1)
            good_bytes += payload_bytes + DISCOVERY_FRAME_OVERHEAD_BYTES;
    }
    if (over_good_ones ? good_bytes > altered_at : good_bytes > 0)
        abort(); /* an altered frame was taken */
    mst_buf_release(&stream);
    discovery_frames_release(&sender);
    discovery_frames_release(&receiver);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    static const uint8_t mac[DISCOVERY_MAC_BYTES] = {2};
    struct arp_reply reply;
    if (count < 2)
        return 0;
    const size_t piece = bytes[1] == 0 ? count : bytes[1];
    switch (bytes[0] % 6) {
    case 0:
        feed_hello(false, bytes + 2, count - 2, piece);
        break;
    case 1:
        feed_hello(true, bytes + 2, count - 2, piece);
        break;
    case 2:
        feed_frames(false, bytes + 2, count - 2, piece);
        break;
    case 3:
        feed_frames(true, bytes + 2, count - 2, piece);
        break;
    case 4:
        (void)arp_reply_get(bytes + 2, count - 2, mac, 1, &reply);
        break;
    case 5:
        feed_altered_opener(bytes + 2, count - 2, piece);
        break;
    }
    return 0;
}
