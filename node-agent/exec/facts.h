/* SPDX-License-Identifier: Apache-2.0 */
/* The facts of one view that a program of another framework needs: who its workers are, in rank order. They
 * are found by the network part and used by the supervisor, which checks them again: it runs with the rights
 * of the container's user, and the network part without any. */
#ifndef EXEC_FACTS_H
#define EXEC_FACTS_H

#include "membership.h"
#include "muster/buf.h"
#include "muster/discovery.h"
#include "muster/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define EXEC_MEMBERS_MAX MEMBERSHIP_MAX_WORKERS
/* A list of all of them as one message. */
#define EXEC_FACTS_MAX_BYTES ((size_t)EXEC_MEMBERS_MAX * (DISCOVERY_SLOT_BYTES + 8) + 64)

struct exec_member {
    char slot[DISCOVERY_SLOT_BYTES];
    uint32_t ipv4;       /* host byte order */
    uint16_t agent_port; /* of its agent */
    uint16_t port;       /* that was free at its address, for its program */
};

struct exec_facts {
    uint64_t view;
    uint32_t rank, world;
    char interface[DISCOVERY_INTERFACE_NAME_BYTES]; /* that holds members[rank].ipv4 */
    struct mst_cidr subnet;                         /* of that interface */
    struct exec_member *members;                    /* owned, by rank; world of them */
};

void exec_facts_release(struct exec_facts *facts); /* usable with mst_cleanup() */

/* -EINVAL with a text unless all fields are fit to become variables and lines of files. */
int exec_facts_check(const struct exec_facts *facts, struct mst_error *err);

int exec_facts_pack(struct mst_buf *payload, const struct exec_facts *facts);
/* Checks too; -EBADMSG. */
int exec_facts_unpack(const uint8_t *payload, size_t count, struct exec_facts *ret_facts,
                      struct mst_error *err);

/* Workers at the same address: the place of `rank` among them, and how many they are. */
uint32_t exec_facts_local_rank(const struct exec_facts *facts, uint32_t rank);
uint32_t exec_facts_local_world(const struct exec_facts *facts, uint32_t rank);

#endif
