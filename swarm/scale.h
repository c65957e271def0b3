/* SPDX-License-Identifier: Apache-2.0 */
/* Change how many replicas services have, and nothing else of them. */
#ifndef SWARM_SCALE_H
#define SWARM_SCALE_H

#include "session.h"

#define SCALE_REPLICAS_MAX 100000U

struct scale_request {
    char service[ENGINE_NAME_MAX_BYTES]; /* as the file names it, or with the stack in front */
    uint32_t replicas;
    /* Filled in by scale_check(). */
    char id[ENGINE_NAME_MAX_BYTES], name[ENGINE_NAME_MAX_BYTES];
    uint64_t before;
};

/* "web=3". -EINVAL with what was expected. */
int scale_parse(const char *text, struct scale_request *ret_request, struct mst_error *err);
/* All are replicated services of the stack, each named once: before the first write. -ENOENT, -EINVAL. */
int scale_check(const cJSON *services, const char *stack, struct scale_request *requests, size_t count,
                struct mst_error *err);
/* One write for each that has not as many already; versions that moved are tried again. *ret_written is how
 * many were. */
int scale_apply(struct session *session, const struct scale_request *requests, size_t count,
                size_t *ret_written, struct mst_error *err);

#endif
