/* SPDX-License-Identifier: Apache-2.0 */
#include "hello_wire.h"

#include <string.h>

/* Offsets in M1 and M2. Gaps are zero when sent, ignored when read, and covered by the MACs: later fields of
 * the same protocol version may stand there. */
enum opener_offset {
    AT_MAGIC = 0,
    AT_VERSION = 4,
    AT_TYPE = 6,
    AT_FLAGS = 7,
    AT_PURPOSE = 8,
    AT_ROLE = 9,
    AT_STATE = 10,
    AT_PORT = 12,
    AT_IPV4 = 16,
    AT_VIEW = 24,
    AT_STEP = 32,
    AT_FEATURES = 40,
    AT_INCARNATION = 48,
    AT_JOB_KEY = 64,
    AT_NONCE = 96,
    AT_CLUSTER = 128,
    AT_SLOT = 192,
    AT_GAP = 320,
};
#define AT_CODE 8 /* in M4 */

static const uint8_t wire_magic[4] = {WIRE_MAGIC_FIRST_BYTE, 's', 't', 'r'};

static void header_put(uint8_t *message, enum wire_type type, uint8_t flags)
{
    memcpy(message + AT_MAGIC, wire_magic, sizeof wire_magic);
    mst_be_put_u16(message + AT_VERSION, DISCOVERY_PROTOCOL_VERSION);
    message[AT_TYPE] = (uint8_t)type;
    message[AT_FLAGS] = flags;
}

struct wire_header wire_header_get(const uint8_t bytes[static WIRE_HEADER_BYTES])
{
    return (struct wire_header){
        .magic = memcmp(bytes + AT_MAGIC, wire_magic, sizeof wire_magic) == 0,
        .version = mst_be_get_u16(bytes + AT_VERSION),
        .type = bytes[AT_TYPE],
        .flags = bytes[AT_FLAGS],
    };
}

/* NUL-padded to the field's end. The name was checked to fit. */
static void name_put(uint8_t *field, size_t field_bytes, const char *name)
{
    const size_t count = strnlen(name, field_bytes - 1);
    memcpy(field, name, count);
    memset(field + count, 0, field_bytes - count);
}

/* False unless the field is a name followed by nothing but NULs; what cannot be shown becomes '?'. */
static bool name_get(const uint8_t *field, size_t field_bytes, char *ret_name)
{
    bool good = field[field_bytes - 1] == 0;
    const size_t count = strnlen((const char *)field, field_bytes - 1);
    for (size_t i = 0; i < count; i++)
        ret_name[i] = field[i] > ' ' && field[i] < 127 ? (char)field[i] : '?';
    memset(ret_name + count, 0, field_bytes - count);
    for (size_t i = count; i < field_bytes; i++)
        good &= field[i] == 0;
    return good;
}

void wire_opener_put(uint8_t message[static WIRE_OPENER_BYTES], enum wire_type type, uint8_t flags,
                     const struct discovery_identity *identity, enum discovery_purpose purpose,
                     const uint8_t nonce[static DISCOVERY_NONCE_BYTES])
{
    memset(message, 0, WIRE_OPENER_BYTES);
    header_put(message, type, flags);
    message[AT_PURPOSE] = (uint8_t)purpose;
    message[AT_ROLE] = (uint8_t)identity->role;
    message[AT_STATE] = identity->state;
    mst_be_put_u16(message + AT_PORT, identity->port);
    mst_be_put_u32(message + AT_IPV4, identity->ipv4);
    mst_be_put_u64(message + AT_VIEW, identity->view);
    mst_be_put_u64(message + AT_STEP, identity->step);
    mst_be_put_u64(message + AT_FEATURES, identity->features);
    memcpy(message + AT_INCARNATION, identity->incarnation, sizeof identity->incarnation);
    memcpy(message + AT_JOB_KEY, identity->job_key, sizeof identity->job_key);
    memcpy(message + AT_NONCE, nonce, DISCOVERY_NONCE_BYTES);
    name_put(message + AT_CLUSTER, sizeof identity->cluster, identity->cluster);
    name_put(message + AT_SLOT, sizeof identity->slot, identity->slot);
}

bool wire_opener_get(const uint8_t message[static WIRE_OPENER_BYTES], struct discovery_identity *ret_identity,
                     enum discovery_purpose *ret_purpose)
{
    struct discovery_identity identity = {
        .role = message[AT_ROLE],
        .state = message[AT_STATE],
        .port = mst_be_get_u16(message + AT_PORT),
        .ipv4 = mst_be_get_u32(message + AT_IPV4),
        .view = mst_be_get_u64(message + AT_VIEW),
        .step = mst_be_get_u64(message + AT_STEP),
        .features = mst_be_get_u64(message + AT_FEATURES),
    };
    memcpy(identity.incarnation, message + AT_INCARNATION, sizeof identity.incarnation);
    memcpy(identity.job_key, message + AT_JOB_KEY, sizeof identity.job_key);
    bool good = name_get(message + AT_CLUSTER, sizeof identity.cluster, identity.cluster);
    good &= name_get(message + AT_SLOT, sizeof identity.slot, identity.slot);
    good = good && discovery_identity_check(&identity, NULL) == 0;
    const uint8_t purpose = message[AT_PURPOSE];
    good = good && purpose >= DISCOVERY_PURPOSE_HELLO && purpose <= DISCOVERY_PURPOSE_DATA;
    *ret_identity = identity;
    *ret_purpose = purpose;
    return good;
}

const uint8_t *wire_opener_nonce(const uint8_t message[static WIRE_OPENER_BYTES])
{
    return message + AT_NONCE;
}

bool wire_opener_names_cluster(const uint8_t message[static WIRE_OPENER_BYTES], const char *cluster)
{
    uint8_t expected[DISCOVERY_CLUSTER_BYTES];
    name_put(expected, sizeof expected, cluster);
    return memcmp(message + AT_CLUSTER, expected, sizeof expected) == 0;
}

void wire_proof_put(uint8_t message[static WIRE_PROOF_BYTES], enum wire_type type, uint8_t code)
{
    memset(message, 0, WIRE_PROOF_BYTES);
    header_put(message, type, 0);
    message[AT_CODE] = code;
}

uint8_t wire_proof_code(const uint8_t message[static WIRE_PROOF_BYTES])
{
    return message[AT_CODE];
}
