/* SPDX-License-Identifier: Apache-2.0 */
/* The payloads of control frames. The first byte of the input chooses the type. What is taken must come out
 * the same when it is packed again. Those of the mesh itself are read into a mesh without a network. */
#include "control.h"
#include "mesh_private.h"
#include "muster/cleanup.h"

#include <stdlib.h>
#include <string.h>

#define PROPOSAL_FLAGS_AT 8 /* behind the view's number */

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);

static void same_again(const struct mst_buf *packed, int r, const uint8_t *payload, size_t count)
{
    if (r < 0 || packed->count != count || memcmp(mst_buf_text(packed), payload, count) != 0)
        abort();
}

static int unpack_membership(enum control_type type, const uint8_t *payload, size_t count,
                             struct mst_buf *again, struct mst_error *err)
{
    mst_cleanup(control_membership_release) struct control_membership membership = {0};
    const int r = control_unpack_membership(type, payload, count, &membership, err);
    if (r < 0)
        return r;
    const int packed = control_pack_membership(again, &membership.message);
    /* Of a proposal's flags, unknown ones are passed over. */
    if (packed == 0 && type == CONTROL_PROPOSE && again->count > PROPOSAL_FLAGS_AT)
        again->bytes[PROPOSAL_FLAGS_AT] = (char)payload[PROPOSAL_FLAGS_AT];
    same_again(again, packed, payload, count);
    return 0;
}

static int unpack_text(const uint8_t *payload, size_t count, struct mst_error *err)
{
    uint64_t view;
    char text[CONTROL_TEXT_BYTES];
    const int r = control_unpack_text(payload, count, &view, text, err);
    if (r == 0 && strlen(text) > count - sizeof view)
        abort();
    for (const char *c = text; r == 0 && *c; c++)
        if ((*c >= 0 && *c < ' ') || *c == 127)
            abort();
    return r;
}

static int unpack_told(uint16_t type, const uint8_t *payload, size_t count, struct mst_error *err)
{
    const struct discovery_self self = {.identity = {.ipv4 = 0x0a000001, .port = 7070}};
    struct mesh mesh = {.options = {.self = &self, .subnet = {0x0a000000, 16}}};
    const int r = tell_receive(&mesh, type, payload, count, err);
    for (size_t h = 0; h < mesh.hosts.count; h++)
        if (mesh.hosts.items[h].ipv4 >> 16 != 0x0a00 || mesh.hosts.items[h].port == 0)
            abort();
    hosts_release(&mesh.hosts);
    return r;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    mst_cleanup(mst_buf_release) struct mst_buf again = MST_BUF_INIT(1 << 20);
    struct mst_error err = MST_ERROR_INIT;
    struct control_heartbeat heartbeat;
    struct control_done done;
    struct control_file file;
    int r = 0;
    if (count < 1)
        return 0;
    const uint8_t *payload = bytes + 1;
    count--;
    switch (bytes[0] % 8) {
    case 0:
        if ((r = control_unpack_heartbeat(payload, count, &heartbeat, &err)) == 0)
            same_again(&again, control_pack_heartbeat(&again, &heartbeat), payload, count);
        break;
    case 1:
        r = unpack_membership(CONTROL_PROPOSE, payload, count, &again, &err);
        break;
    case 2:
        r = unpack_membership(CONTROL_COMMIT, payload, count, &again, &err);
        break;
    case 3:
        r = unpack_membership(CONTROL_HOLD, payload, count, &again, &err);
        break;
    case 4:
        r = unpack_text(payload, count, &err);
        break;
    case 5:
        if ((r = control_unpack_done(payload, count, &done, &err)) == 0)
            same_again(&again, control_pack_done(&again, &done), payload, count);
        break;
    case 6:
        if ((r = control_unpack_file(payload, count, &file, &err)) == 0)
            same_again(&again, control_pack_file(&again, &file), payload, count);
        break;
    default:
        r = unpack_told((uint16_t)(MESH_OWN_FRAMES + bytes[0] / 128U), payload, count, &err);
    }
    if (r > 0 || (r < 0 && !err.text[0]))
        abort(); /* a failure says why */
    return 0;
}
