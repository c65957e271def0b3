/* SPDX-License-Identifier: Apache-2.0 */
/* Workers in one program with a socket between any two: what a direct exchange runs over. */
#ifndef TESTS_TRAINER_MESHES_H
#define TESTS_TRAINER_MESHES_H

#include "rings.h"

#define MESHES_MAX_WORLD 64

/* fds[r][p] is rank r's socket to p, -1 for itself. */
struct meshes_sockets {
    int fds[MESHES_MAX_WORLD][MESHES_MAX_WORLD];
};

static inline void meshes_connect(struct meshes_sockets *sockets, uint32_t world,
                                  enum rings_transport transport)
{
    memset(sockets, 0xff, sizeof *sockets); /* all -1 */
    for (uint32_t rank = 0; rank < world; rank++) {
        for (uint32_t peer = rank + 1; peer < world; peer++) {
            int fds[2];
            rings_pair(transport, fds);
            sockets->fds[rank][peer] = fds[0];
            sockets->fds[peer][rank] = fds[1];
        }
    }
}

static inline struct trainer_direct_options meshes_options(const struct meshes_sockets *sockets,
                                                           uint32_t rank, uint32_t world, uint32_t shards)
{
    return (struct trainer_direct_options){
        .fds = sockets->fds[rank],
        .cancel_fd = -1,
        .rank = rank,
        .world = world,
        .shards = shards,
        .timeout_ms = 20000,
        .view = RINGS_VIEW,
        .job_key = RINGS_JOB_KEY,
    };
}

static inline struct trainer_exchange *meshes_new(const struct trainer_direct_options *options)
{
    struct mst_error err = MST_ERROR_INIT;
    struct trainer_exchange *exchange = NULL;

    if (trainer_direct_new(options, &exchange, &err) < 0)
        fail_msg("%s", err.text);
    return exchange;
}

#endif
