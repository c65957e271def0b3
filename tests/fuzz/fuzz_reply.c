/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as what an engine replies: a list of services, tasks, nodes or networks, or a stream of log
 * frames. Nothing of it is to be trusted: not the types, nor the depth, nor that a key is there. */
#include "compare.h"
#include "converge.h"
#include "live.h"
#include "logfollow.h"
#include "muster/cleanup.h"
#include "muster/json.h"
#include "nodecheck.h"
#include "subnets.h"
#include "tasks.h"
#include "versions.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);

/* A list as each of the kinds that there are. */
static void as_lists(const cJSON *list)
{
    mst_cleanup(swarm_nodes_release) struct swarm_nodes nodes = {0};
    mst_cleanup(findings_release) struct findings findings = {0};
    mst_cleanup(converge_view_release) struct converge_view view = {0};
    mst_cleanup(subnets_release) struct subnets subnets = {0};
    mst_cleanup(mst_freep) struct task_row *rows = NULL;
    struct versions versions;
    size_t row_count = 0;

    if (swarm_nodes_take(cJSON_Duplicate(list, true), &nodes, NULL) < 0)
        abort();
    nodecheck_nodes(&nodes, &findings);
    if (converge_judge(list, list, &nodes, 1, &view, NULL) < 0)
        abort();
    (void)converge_verdict(&view, NULL);
    (void)tasks_rows(list, list, &rows, &row_count, NULL);
    (void)subnets_add_networks(&subnets, list, NULL);
    versions_find(list, list, "st_key", &versions);
    (void)live_find(list, ENGINE_NETWORK, "st_inner");
}

static void as_objects(const cJSON *json)
{
    if (compare_service(json, json, NULL, NULL) > 0 && cJSON_IsObject(json)) {
        /* A body equals itself; where it does not, printing and reading it changes it (a number beyond
         * double). */
        mst_cleanup(mst_freep) char *once = cJSON_PrintUnformatted(json);
        mst_cleanup(mst_json_deletep) cJSON *again = once ? cJSON_Parse(once) : NULL;
        if (again && cJSON_Compare(json, again, true))
            abort();
    }
    (void)compare_network(json, json, NULL, NULL);
    (void)version_is_referred(json, ENGINE_SECRET, "id");
    (void)live_belongs(json, ENGINE_SERVICE, "st");
    (void)live_version(json);
}

static int on_frame(void *context, unsigned stream, const char *bytes, size_t count, struct mst_error *err)
{
    struct log_message message;
    mst_cleanup(mst_freep) char *line = malloc(count + 1);

    (void)context;
    (void)stream;
    if (!line)
        return mst_error_set(err, -ENOMEM, "no memory");
    memcpy(line, bytes, count);
    line[count] = '\0';
    if (log_message_parse(line, count, &message, NULL) == 0 &&
        (!message.text || message.text[message.count] != '\0'))
        abort();
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    struct engine_frames frames = ENGINE_FRAMES_INIT;
    mst_cleanup(mst_json_deletep) cJSON *json = NULL;
    struct mst_error err = MST_ERROR_INIT;

    (void)engine_frames_feed(&frames, bytes, count, on_frame, NULL, NULL);
    engine_frames_release(&frames);
    if (mst_json_parse((const char *)bytes, count, "reply", &json, &err) < 0) {
        if (json || err.text[0] == '\0')
            abort();
        return 0;
    }
    as_objects(json);
    if (cJSON_IsArray(json)) {
        const cJSON *item;
        cJSON_ArrayForEach(item, json) as_objects(item);
        as_lists(json);
    }
    return 0;
}
