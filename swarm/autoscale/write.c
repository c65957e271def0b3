/* SPDX-License-Identifier: Apache-2.0 */
#include "autoscale/write.h"

#include "build.h"
#include "live.h"
#include "muster/cleanup.h"
#include "muster/clock.h"
#include "muster/json.h"

#include <string.h>

#define UPDATE_TRIES 4

/* The live specification with another number and another stamp in it; the tasks' part stays as it is. */
static int make_body(const cJSON *live, const struct autoscale_decision *decision, cJSON **ret_body,
                     struct mst_error *err)
{
    struct build build = {0};
    mst_cleanup(mst_json_deletep) cJSON *body =
        cJSON_Duplicate(cJSON_GetObjectItemCaseSensitive(live, "Spec"), true);
    cJSON *replicated =
              cJSON_GetObjectItemCaseSensitive(cJSON_GetObjectItemCaseSensitive(body, "Mode"), "Replicated"),
          *labels = cJSON_GetObjectItemCaseSensitive(body, "Labels");
    const struct autoscale_stamp stamp = {mst_wall_s(), decision->action == AUTOSCALE_OUT, decision->from,
                                          decision->to};
    char text[AUTOSCALE_STAMP_BYTES];

    if (!body || !replicated || !labels)
        return mst_error_set(err, body ? -ESTALE : -ENOMEM,
                             "service '%s' is not replicated or has no labels any more",
                             live_name(live, ENGINE_SERVICE));
    autoscale_stamp_text(&stamp, text);
    cJSON_DeleteItemFromObjectCaseSensitive(replicated, "Replicas");
    build_int(&build, replicated, "Replicas", (int64_t)decision->to);
    cJSON_DeleteItemFromObjectCaseSensitive(labels, AUTOSCALE_STAMP);
    build_text(&build, labels, AUTOSCALE_STAMP, text);
    build_whole_numbers(&build, body);
    if (build.no_memory)
        return mst_error_set(err, -ENOMEM, "service '%s': no memory", live_name(live, ENGINE_SERVICE));
    *ret_body = body;
    body = NULL;
    return 0;
}

/* Is it still what was decided on? */
static int check(const cJSON *live, const struct autoscale_subject *subject,
                 const struct autoscale_decision *decision, struct mst_error *err)
{
    mst_cleanup(autoscale_view_release) struct autoscale_view view = {0};
    mst_cleanup(mst_json_deletep) cJSON *list = cJSON_CreateArray();
    int r;

    if (!live)
        return mst_error_set(err, -ESTALE, "it was removed meanwhile");
    if (!list || !cJSON_AddItemReferenceToArray(list, (cJSON *)(uintptr_t)live))
        return mst_error_set(err, -ENOMEM, "service '%s': no memory", subject->name);
    r = autoscale_view_make(list, NULL, "", &view, err);
    if (r < 0)
        return r;
    if (view.items[0].replicas != decision->from)
        return mst_error_set(err, -ESTALE, "somebody else scaled it from %u to %u meanwhile",
                             (unsigned)decision->from, (unsigned)view.items[0].replicas);
    if (view.items[0].rollout[0] != '\0')
        return mst_error_set(err, -ESTALE, "%s now", view.items[0].rollout);
    if (!view.items[0].is_wanted || view.items[0].code < 0 || !autoscale_has_same_labels(live, subject->json))
        return mst_error_set(err, -ESTALE, "its labels were changed meanwhile");
    return 0;
}

int autoscale_write(struct session *session, const struct autoscale_subject *subject,
                    const struct autoscale_decision *decision, struct mst_error *err)
{
    int r = -ESTALE;

    for (int try = 0; r == -ESTALE && try < UPDATE_TRIES; try++) {
        mst_cleanup(mst_json_deletep) cJSON *live = NULL, *body = NULL;
        r = engine_find(session->engine, ENGINE_SERVICE, subject->id, &live, err);
        if (r >= 0) {
            r = check(live, subject, decision, err);
            if (r == -ESTALE)
                return r;
        }
        if (r >= 0)
            r = make_body(live, decision, &body, err);
        if (r >= 0)
            r = engine_update(session->engine, ENGINE_SERVICE, subject->id, subject->name, live_version(live),
                              body, NULL, NULL, err);
    }
    return r == -ESTALE ? mst_error_wrap(err, r, "%d tries", UPDATE_TRIES) : r;
}
