/* SPDX-License-Identifier: Apache-2.0 */
#include "scale.h"

#include "build.h"
#include "live.h"
#include "muster/cleanup.h"
#include "muster/json.h"
#include "muster/parse.h"
#include "stack.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define UPDATE_TRIES 4

int scale_parse(const char *text, struct scale_request *ret_request, struct mst_error *err)
{
    const char *equal = strrchr(text, '=');
    struct scale_request request = {0};

    if (!equal || equal == text || (size_t)(equal - text) >= sizeof request.service)
        return mst_error_set(err, -EINVAL, "'%.64s': expected SERVICE=REPLICAS", text);
    if (mst_parse_u32(equal + 1, 0, SCALE_REPLICAS_MAX, &request.replicas, err) < 0)
        return mst_error_wrap(err, -EINVAL, "'%.64s'", text);
    (void)snprintf(request.service, sizeof request.service, "%.*s", (int)(equal - text), text);
    *ret_request = request;
    return 0;
}

static const cJSON *find(const cJSON *services, const char *stack, const char *name)
{
    char full[2 * ENGINE_NAME_MAX_BYTES];
    const cJSON *service;

    (void)snprintf(full, sizeof full, "%s_%s", stack, name);
    service = live_find(services, ENGINE_SERVICE, full);
    return service ? service : live_find(services, ENGINE_SERVICE, name);
}

static int not_found(const cJSON *services, const char *stack, const char *name, struct mst_error *err)
{
    mst_cleanup(mst_buf_release) struct mst_buf names = MST_BUF_INIT(512);
    const size_t prefix = strlen(stack) + 1;
    const cJSON *service;

    cJSON_ArrayForEach(service, services)
    {
        const char *its = live_name(service, ENGINE_SERVICE);
        (void)mst_buf_printf(&names, "%s%s", names.count > 0 ? ", " : "",
                             strlen(its) > prefix ? its + prefix : its);
    }
    return mst_error_set(err, -ENOENT, "stack '%s' has no service '%.64s' (%s)", stack, name,
                         mst_buf_text(&names));
}

int scale_check(const cJSON *services, const char *stack, struct scale_request *requests, size_t count,
                struct mst_error *err)
{
    for (size_t i = 0; i < count; i++) {
        struct scale_request *request = &requests[i];
        const cJSON *service = find(services, stack, request->service);
        const cJSON *replicated = mst_json_at(service, "Spec", "Mode", "Replicated", NULL);
        if (!service)
            return not_found(services, stack, request->service, err);
        if (!replicated)
            return mst_error_set(err, -EINVAL,
                                 "service '%s' is not replicated: only such services can be scaled",
                                 live_name(service, ENGINE_SERVICE));
        (void)snprintf(request->id, sizeof request->id, "%s", live_id(service, ENGINE_SERVICE));
        (void)snprintf(request->name, sizeof request->name, "%s", live_name(service, ENGINE_SERVICE));
        request->before = mst_json_u64_or(replicated, "Replicas", 1);
        for (size_t other = 0; other < i; other++) {
            if (strcmp(requests[other].id, request->id) == 0)
                return mst_error_set(err, -EINVAL, "service '%s' is named twice", request->name);
        }
    }
    return 0;
}

/* The live specification with another number in it. */
static int scale_body(const cJSON *live, uint32_t replicas, cJSON **ret_body, struct mst_error *err)
{
    struct build build = {0};
    mst_cleanup(mst_json_deletep) cJSON *body =
        cJSON_Duplicate(cJSON_GetObjectItemCaseSensitive(live, "Spec"), true);
    cJSON *replicated =
        cJSON_GetObjectItemCaseSensitive(cJSON_GetObjectItemCaseSensitive(body, "Mode"), "Replicated");

    if (!body || !replicated)
        return mst_error_set(err, body ? -EREMOTEIO : -ENOMEM, "service '%s' is not replicated any more",
                             live_name(live, ENGINE_SERVICE));
    cJSON_DeleteItemFromObjectCaseSensitive(replicated, "Replicas");
    build_int(&build, replicated, "Replicas", (int64_t)replicas);
    build_whole_numbers(&build, body);
    if (build.no_memory)
        return mst_error_set(err, -ENOMEM, "service '%s': no memory", live_name(live, ENGINE_SERVICE));
    *ret_body = body;
    body = NULL;
    return 0;
}

static int scale_one(struct engine *engine, const struct scale_request *request, struct mst_error *err)
{
    int r = -ESTALE;

    for (int try = 0; r == -ESTALE && try < UPDATE_TRIES; try++) {
        mst_cleanup(mst_json_deletep) cJSON *live = NULL, *body = NULL;
        r = engine_find(engine, ENGINE_SERVICE, request->id, &live, err);
        if (r >= 0 && !live)
            r = mst_error_set(err, -EREMOTEIO, "service '%s' was removed by somebody else meanwhile",
                              request->name);
        if (r >= 0)
            r = scale_body(live, request->replicas, &body, err);
        if (r >= 0)
            r = engine_update(engine, ENGINE_SERVICE, request->id, request->name, live_version(live), body,
                              NULL, NULL, err);
    }
    return r == -ESTALE ? mst_error_wrap(err, -EREMOTEIO, "%d tries", UPDATE_TRIES) : r;
}

int scale_apply(struct session *session, const struct scale_request *requests, size_t count,
                size_t *ret_written, struct mst_error *err)
{
    *ret_written = 0;
    for (size_t i = 0; i < count; i++) {
        int r;
        if (requests[i].before == requests[i].replicas)
            continue;
        r = scale_one(session->engine, &requests[i], err);
        if (r < 0)
            return r;
        (*ret_written)++;
        report_line(&session->report, "scaled service %s: %" PRIu64 " -> %" PRIu32, requests[i].name,
                    requests[i].before, requests[i].replicas);
    }
    return 0;
}
