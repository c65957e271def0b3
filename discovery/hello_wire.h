/* SPDX-License-Identifier: Apache-2.0 */
/* The bytes of the hello (docs/protocol.md has the table): fixed sizes, big-endian. Reads and writes memory
 * only. */
#ifndef DISCOVERY_HELLO_WIRE_H
#define DISCOVERY_HELLO_WIRE_H

#include "muster/big_endian.h"
#include "muster/hello.h"

#define WIRE_HEADER_BYTES 8 /* magic, version, type, flags */
#define WIRE_OPENER_BYTES                                                                                    \
    DISCOVERY_HELLO_MESSAGE_BYTES   /* M1; M2 is as long, so that no reply outgrows it                       \
                                     */
#define WIRE_PROOF_BYTES         64 /* M3 and M4 */
#define WIRE_OPENER_SIGNED_BYTES (WIRE_OPENER_BYTES - MST_SHA256_BYTES) /* what stands before the MAC */
#define WIRE_PROOF_SIGNED_BYTES  (WIRE_PROOF_BYTES - MST_SHA256_BYTES)
#define WIRE_MAGIC_FIRST_BYTE    'm' /* no refusal has this value */

enum wire_type { WIRE_OPENER = 1, WIRE_ANSWER = 2, WIRE_PROOF = 3, WIRE_VERDICT = 4 };
enum wire_flag { WIRE_FLAG_INSECURE = 1 };

/* The first bytes of every message. */
struct wire_header {
    bool magic; /* false: somebody else's protocol, and the rest says nothing */
    uint16_t version;
    uint8_t type, flags;
};
struct wire_header wire_header_get(const uint8_t bytes[static WIRE_HEADER_BYTES]);

/* Write M1 or M2 but for its MAC. */
void wire_opener_put(uint8_t message[static WIRE_OPENER_BYTES], enum wire_type type, uint8_t flags,
                     const struct discovery_identity *identity, enum discovery_purpose purpose,
                     const uint8_t nonce[static DISCOVERY_NONCE_BYTES]);
/* Read it; false when a field makes no sense (the header is not looked at). The outputs are then incomplete,
 * but fit for texts. */
bool wire_opener_get(const uint8_t message[static WIRE_OPENER_BYTES], struct discovery_identity *ret_identity,
                     enum discovery_purpose *ret_purpose);
const uint8_t *wire_opener_nonce(const uint8_t message[static WIRE_OPENER_BYTES]);
/* True when the message names this cluster. */
bool wire_opener_names_cluster(const uint8_t message[static WIRE_OPENER_BYTES], const char *cluster);

/* Write M3 or M4 but for its MAC; `code` is M4's verdict, 0 in M3. */
void wire_proof_put(uint8_t message[static WIRE_PROOF_BYTES], enum wire_type type, uint8_t code);
uint8_t wire_proof_code(const uint8_t message[static WIRE_PROOF_BYTES]);

#endif
