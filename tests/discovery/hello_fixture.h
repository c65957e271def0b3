/* SPDX-License-Identifier: Apache-2.0 */
/* Two sides of a hello for the tests of this folder. */
#ifndef TESTS_HELLO_FIXTURE_H
#define TESTS_HELLO_FIXTURE_H

#include "muster/hello.h"

#include <stdio.h>
#include <string.h>

/* cmocka.h wants these four before it. */
/* clang-format off */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
/* clang-format on */

/* A worker of cluster "blue" with a key of 32 bytes `key_byte` (0: --insecure) and an incarnation of bytes
 * `id`. */
static inline struct discovery_self make_self(const char *slot, uint8_t id, uint8_t key_byte)
{
    struct discovery_self self = {.key_count = 1};
    (void)snprintf(self.identity.cluster, sizeof self.identity.cluster, "blue");
    (void)snprintf(self.identity.slot, sizeof self.identity.slot, "%s", slot);
    memset(self.identity.incarnation, id, sizeof self.identity.incarnation);
    memset(self.identity.job_key, 0x10 + id, sizeof self.identity.job_key);
    self.identity.role = DISCOVERY_ROLE_WORKER;
    self.identity.ipv4 = 0x0a0a0000U + id;
    self.identity.port = 7070;
    self.identity.state = id;
    self.identity.view = 0x100000000ULL + id;
    self.identity.step = 0x200000000ULL + id;
    self.identity.features = 0x8000000000000001ULL;
    if (key_byte) {
        self.keys[0].count = 32;
        memset(self.keys[0].bytes, key_byte, 32);
    }
    return self;
}

/* Move what one side has to say to the other, `chunk` bytes at a time; counts what was sent and stops when
 * either failed. Returns the receiver's last result. */
static inline int carry(struct discovery_hello *from, struct discovery_hello *to, size_t chunk,
                        size_t *ret_sent, struct mst_error *err)
{
    int r = (int)to->status;
    size_t count, taken;
    for (;;) {
        const void *bytes = discovery_hello_output(from, &count);
        if (count == 0 || r < 0)
            return r;
        uint8_t copy[DISCOVERY_HELLO_MESSAGE_BYTES];
        const size_t part = count < chunk ? count : chunk;
        memcpy(copy, bytes, part);
        discovery_hello_sent(from, part);
        *ret_sent += part;
        r = discovery_hello_feed(to, copy, part, &taken, err);
        if (r >= 0)
            assert_int_equal(taken, part);
    }
}

struct outcome {
    int dialer, listener; /* last results */
    size_t dialer_sent, listener_sent;
    struct mst_error dialer_err, listener_err;
};

/* Run both to their end. */
static inline struct outcome converse(struct discovery_hello *dialer, struct discovery_hello *listener,
                                      size_t chunk)
{
    struct outcome outcome = {0};
    for (int turn = 0; turn < 4; turn++) {
        if (listener->status == DISCOVERY_HELLO_GOING)
            outcome.listener = carry(dialer, listener, chunk, &outcome.dialer_sent, &outcome.listener_err);
        if (dialer->status == DISCOVERY_HELLO_GOING)
            outcome.dialer = carry(listener, dialer, chunk, &outcome.listener_sent, &outcome.dialer_err);
    }
    return outcome;
}

#endif
