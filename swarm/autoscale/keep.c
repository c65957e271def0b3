/* SPDX-License-Identifier: Apache-2.0 */
#include "autoscale/keep.h"

#include "autoscale/view.h"
#include "build.h"
#include "muster/cleanup.h"
#include "muster/json.h"

static cJSON *replicated_of(cJSON *body)
{
    return cJSON_GetObjectItemCaseSensitive(cJSON_GetObjectItemCaseSensitive(body, "Mode"), "Replicated");
}

/* The bounds that the new labels set. False: they set none that make sense. */
static bool read_bounds(cJSON *body, struct autoscale_policy *policy)
{
    mst_cleanup(mst_json_deletep) cJSON *service = cJSON_CreateObject();

    return service && cJSON_AddItemReferenceToObject(service, "Spec", body) && autoscale_is_wanted(service) &&
           autoscale_policy_read(service, "", policy, NULL) >= 0;
}

int autoscale_keep(cJSON *body, const cJSON *live, struct mst_error *err)
{
    const cJSON *its = mst_json_at(live, "Spec", "Mode", "Replicated", NULL);
    const char *stamp = autoscale_stamp_of(live);
    cJSON *replicated = replicated_of(body), *labels = cJSON_GetObjectItemCaseSensitive(body, "Labels");
    struct autoscale_policy policy;
    struct build build = {0};
    uint64_t count;

    if (stamp[0] == '\0' || !its || !replicated || !labels || !read_bounds(body, &policy))
        return 0;
    count = mst_json_u64_or(its, "Replicas", 1);
    if (count > 0) /* 0: somebody has stopped it, and it stays so */
        count = count < policy.min ? policy.min : count > policy.max ? policy.max : count;
    cJSON_DeleteItemFromObjectCaseSensitive(replicated, "Replicas");
    build_int(&build, replicated, "Replicas", (int64_t)count);
    cJSON_DeleteItemFromObjectCaseSensitive(labels, AUTOSCALE_STAMP);
    build_text(&build, labels, AUTOSCALE_STAMP, stamp);
    return build.no_memory ? mst_error_set(err, -ENOMEM, "what an autoscaler did: no memory") : 0;
}
