/* SPDX-License-Identifier: Apache-2.0 */
/* What follows from a set of proposals: the view that all who have the same proposals compute alike. Pure. */
#ifndef AGENT_MEMBERSHIP_OUTCOME_H
#define AGENT_MEMBERSHIP_OUTCOME_H

#include "membership.h"

struct outcome_proposal {
    struct membership_worker worker;
    bool leaving;
    uint64_t step;
    const struct membership_vow *vow;      /* borrowed, as `reach` */
    const struct membership_worker *reach; /* in ascending order of ids */
    size_t reach_count;
};

struct outcome_rules {
    size_t first, least, most; /* as in struct membership_options */
    bool allow_minority;
};

enum outcome_verdict {
    OUTCOME_VIEW,
    OUTCOME_FEW,       /* workers: `have` of `want` */
    OUTCOME_NO_QUORUM, /* slots of view `last_view`: `have` of `want` */
    OUTCOME_ALL_LEAVE, /* nobody is left to be in a view */
};

struct outcome {
    enum outcome_verdict verdict;
    size_t have, want;
    uint64_t last_view; /* that the chosen ones follow; 0: none */
    /* The same, with what may have come to hold since; places are borrowed from the proposals. */
    struct membership_ballot base, doubts[MEMBERSHIP_MAX_ATTEMPTS];
    size_t doubt_count;

    /* OUTCOME_VIEW only */
    uint8_t lineage[MEMBERSHIP_LINEAGE_BYTES];
    struct membership_member *members; /* owned, in rank order */
    size_t count;
    struct membership_id *signers; /* owned: the members, then the witnesses */
    size_t signer_count;
    struct membership_place *places; /* owned: the next vow's */
    size_t place_count;
    uint8_t digest[MST_SHA256_BYTES]; /* of all this and the number */
};

/* `proposals` in ascending order of their workers' ids. On success the caller releases *ret_outcome. -ENOMEM,
 * or what libcrypto says. */
int outcome_compute(uint64_t view, const struct outcome_proposal *proposals, size_t count,
                    const struct outcome_rules *rules, struct outcome *ret_outcome, struct mst_error *err);
void outcome_release(struct outcome *outcome); /* usable with mst_cleanup(); fine on a zeroed one */

#endif
