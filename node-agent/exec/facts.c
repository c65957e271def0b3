/* SPDX-License-Identifier: Apache-2.0 */
#include "facts.h"

#include "bytes.h"
#include "muster/cleanup.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define SLOT_CHARACTERS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-"

void exec_facts_release(struct exec_facts *facts)
{
    free(facts->members);
    *facts = (struct exec_facts){0};
}

/* It becomes part of variables that shells and other programs take apart: none of what they take for more
 * than a name. */
static bool interface_is_fit(const char *name, size_t size)
{
    static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-@";
    const size_t length = strnlen(name, size);
    return length > 0 && length < size && strspn(name, allowed) == length;
}

int exec_facts_check(const struct exec_facts *facts, struct mst_error *err)
{
    if (facts->world < 1 || facts->world > EXEC_MEMBERS_MAX || facts->rank >= facts->world)
        return mst_error_set(err, -EINVAL, "rank %" PRIu32 " of %" PRIu32 " workers", facts->rank,
                             facts->world);
    if (!interface_is_fit(facts->interface, sizeof facts->interface))
        return mst_error_set(err, -EINVAL, "an interface's name of unfit characters");
    if (facts->subnet.prefix > 32 || !mst_cidr_contains(facts->subnet, facts->members[facts->rank].ipv4))
        return mst_error_set(err, -EINVAL, "a subnet that the own address is not in");
    for (uint32_t m = 0; m < facts->world; m++) {
        const struct exec_member *member = &facts->members[m];
        const size_t length = strnlen(member->slot, sizeof member->slot);
        if (length == 0 || length == sizeof member->slot || strspn(member->slot, SLOT_CHARACTERS) != length)
            return mst_error_set(err, -EINVAL, "worker %" PRIu32 ": an unfit slot's name", m);
        if (member->ipv4 == 0 || member->agent_port == 0 || member->port == 0)
            return mst_error_set(err, -EINVAL, "worker %" PRIu32 " (%s): no address or no port", m,
                                 member->slot);
    }
    return 0;
}

int exec_facts_pack(struct mst_buf *payload, const struct exec_facts *facts)
{
    int r = bytes_put(payload, facts->view, 8);
    if (r == 0)
        r = bytes_put(payload, facts->rank, 4);
    if (r == 0)
        r = bytes_put(payload, facts->world, 4);
    if (r == 0)
        r = bytes_put(payload, facts->subnet.network, 4);
    if (r == 0)
        r = bytes_put(payload, facts->subnet.prefix, 1);
    if (r == 0)
        r = bytes_put_text(payload, facts->interface, strnlen(facts->interface, sizeof facts->interface));
    for (uint32_t m = 0; r == 0 && m < facts->world; m++) {
        const struct exec_member *member = &facts->members[m];
        r = bytes_put(payload,
                      (uint64_t)member->ipv4 << 32 | (uint64_t)member->agent_port << 16 | member->port, 8);
        if (r == 0)
            r = bytes_put_text(payload, member->slot, strnlen(member->slot, sizeof member->slot));
    }
    return r;
}

int exec_facts_unpack(const uint8_t *payload, size_t count, struct exec_facts *ret_facts,
                      struct mst_error *err)
{
    struct bytes_cursor cursor = {payload, count, false};
    mst_cleanup(exec_facts_release) struct exec_facts facts = {0};
    facts.view = bytes_take(&cursor, 8);
    facts.rank = (uint32_t)bytes_take(&cursor, 4);
    facts.world = (uint32_t)bytes_take(&cursor, 4);
    facts.subnet.network = (uint32_t)bytes_take(&cursor, 4);
    facts.subnet.prefix = (uint32_t)bytes_take(&cursor, 1);
    bytes_take_text(&cursor, facts.interface, sizeof facts.interface);
    if (cursor.broken || facts.world < 1 || facts.world > EXEC_MEMBERS_MAX)
        return mst_error_set(err, -EBADMSG, "facts of a view: %zu bytes for %" PRIu32 " workers", count,
                             facts.world);
    facts.members = calloc(facts.world, sizeof *facts.members);
    if (!facts.members)
        return mst_error_set(err, -ENOMEM, "facts of a view: no memory");
    for (uint32_t m = 0; m < facts.world; m++) {
        struct exec_member *member = &facts.members[m];
        const uint64_t place = bytes_take(&cursor, 8);
        member->ipv4 = (uint32_t)(place >> 32);
        member->agent_port = (uint16_t)(place >> 16);
        member->port = (uint16_t)place;
        bytes_take_text(&cursor, member->slot, sizeof member->slot);
    }
    if (cursor.broken || cursor.left > 0)
        return mst_error_set(err, -EBADMSG, "facts of a view: too %s for %" PRIu32 " workers",
                             cursor.broken ? "short" : "long", facts.world);
    if (exec_facts_check(&facts, err) < 0)
        return mst_error_wrap(err, -EBADMSG, "facts of a view");
    *ret_facts = facts;
    facts.members = NULL; /* the caller's now */
    return 0;
}

uint32_t exec_facts_local_rank(const struct exec_facts *facts, uint32_t rank)
{
    uint32_t before = 0;
    for (uint32_t m = 0; m < rank; m++)
        before += facts->members[m].ipv4 == facts->members[rank].ipv4;
    return before;
}

uint32_t exec_facts_local_world(const struct exec_facts *facts, uint32_t rank)
{
    uint32_t together = 0;
    for (uint32_t m = 0; m < facts->world; m++)
        together += facts->members[m].ipv4 == facts->members[rank].ipv4;
    return together;
}
