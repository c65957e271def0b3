/* SPDX-License-Identifier: Apache-2.0 */
/* Typed helpers: list, find, create, update and remove for every kind of object, and GET /info. */
#include "muster/cleanup.h"
#include "muster/engine.h"
#include "muster/json.h"

#include <stdio.h>
#include <string.h>

static const struct {
    const char *text, *list, *create, *head, *inspect_tail, *id_key;
} kinds[] = {
    [ENGINE_SERVICE] = {"service", "/services", "/services/create", "/services/", NULL, "ID"},
    [ENGINE_TASK] = {"task", "/tasks", NULL, "/tasks/", NULL, "ID"},
    [ENGINE_NODE] = {"node", "/nodes", NULL, "/nodes/", NULL, "ID"},
    [ENGINE_NETWORK] = {"network", "/networks", "/networks/create", "/networks/", NULL, "Id"},
    [ENGINE_SECRET] = {"secret", "/secrets", "/secrets/create", "/secrets/", NULL, "ID"},
    [ENGINE_CONFIG] = {"config", "/configs", "/configs/create", "/configs/", NULL, "ID"},
    [ENGINE_VOLUME] = {"volume", "/volumes", "/volumes/create", "/volumes/", NULL, "Name"},
    [ENGINE_CONTAINER] = {"container", "/containers/json", "/containers/create", "/containers/", "/json",
                          "Id"},
};

#define PATH_MAX_BYTES  4096
#define QUERY_MAX_BYTES 16384

const char *engine_kind_text(enum engine_kind kind)
{
    return kinds[kind].text;
}

static const char *about(enum engine_kind kind, const char *name,
                         char text[static ENGINE_NAME_MAX_BYTES + 16])
{
    (void)snprintf(text, ENGINE_NAME_MAX_BYTES + 16, "%s '%s'", kinds[kind].text, name);
    return text;
}

static int list_query(enum engine_kind kind, const char *filter_key, const char *filter_value,
                      struct mst_buf *query, struct mst_error *err)
{
    int r = 0;

    if (kind == ENGINE_SERVICE)
        r = engine_query_add(query, "status", "true");
    if (r >= 0 && filter_key)
        r = engine_query_filter(query, filter_key, filter_value);
    return r < 0
               ? mst_error_set(err, r, "GET %s: the filter '%s' is too long", kinds[kind].list, filter_value)
               : 0;
}

int engine_list(struct engine *engine, enum engine_kind kind, const char *filter_key,
                const char *filter_value, cJSON **ret_list, struct mst_error *err)
{
    mst_cleanup(mst_buf_release) struct mst_buf query = MST_BUF_INIT(QUERY_MAX_BYTES);
    mst_cleanup(engine_reply_release) struct engine_reply reply = {0};
    struct engine_call call = {.method = "GET", .path = kinds[kind].list};
    cJSON *list;
    int r = list_query(kind, filter_key, filter_value, &query, err);

    if (r < 0)
        return r;
    call.query = query.count > 0 ? mst_buf_text(&query) : NULL;
    r = engine_request(engine, &call, &reply, err);
    if (r < 0)
        return r;
    if (kind == ENGINE_VOLUME) {
        list = cJSON_DetachItemFromObjectCaseSensitive(reply.json, "Volumes");
        if (cJSON_IsNull(list)) {
            cJSON_Delete(list);
            list = cJSON_CreateArray();
        }
    } else {
        list = reply.json;
        reply.json = NULL;
    }
    if (!cJSON_IsArray(list)) {
        cJSON_Delete(list);
        return mst_error_set(err, -EPROTO, "GET %s: the reply of %s is not a list", kinds[kind].list,
                             engine_host(engine));
    }
    *ret_list = list;
    return 0;
}

int engine_find(struct engine *engine, enum engine_kind kind, const char *id_or_name, cJSON **ret_object,
                struct mst_error *err)
{
    mst_cleanup(mst_buf_release) struct mst_buf path = MST_BUF_INIT(PATH_MAX_BYTES);
    mst_cleanup(engine_reply_release) struct engine_reply reply = {0};
    char text[ENGINE_NAME_MAX_BYTES + 16];
    struct engine_call call = {.method = "GET", .any_status = true, .about = about(kind, id_or_name, text)};
    int r = engine_path(&path, kinds[kind].head, id_or_name, kinds[kind].inspect_tail);

    if (r < 0)
        return mst_error_set(err, r, "%s '%.64s...': the name is too long", kinds[kind].text, id_or_name);
    call.path = mst_buf_text(&path);
    r = engine_request(engine, &call, &reply, err);
    if (r < 0)
        return r;
    if (reply.status == 404) {
        *ret_object = NULL;
        return 0;
    }
    if (reply.status >= 400)
        return engine_refused(engine, &call, &reply, err);
    if (!cJSON_IsObject(reply.json))
        return mst_error_set(err, -EPROTO, "GET %s: the reply of %s is not an object", call.path,
                             engine_host(engine));
    *ret_object = reply.json;
    reply.json = NULL;
    return 0;
}

int engine_create(struct engine *engine, enum engine_kind kind, const char *name, const cJSON *body,
                  const char *const *headers, char ret_id[ENGINE_NAME_MAX_BYTES], struct mst_error *err)
{
    mst_cleanup(engine_reply_release) struct engine_reply reply = {0};
    char text[ENGINE_NAME_MAX_BYTES + 16];
    const struct engine_call call = {
        .method = "POST",
        .path = kinds[kind].create,
        .body = body,
        .headers = headers,
        .about = about(kind, name, text),
        .any_status = true,
    };
    const char *id = NULL;
    int r = engine_request(engine, &call, &reply, err);

    if (r < 0)
        return r;
    if (reply.status >= 400) {
        r = engine_refused(engine, &call, &reply, err);
        if (reply.status == 409) {
            r = -EEXIST;
            if (err)
                err->code = r;
        }
        return r;
    }
    r = mst_json_get_string(reply.json, kinds[kind].id_key, "reply", &id, err);
    if (r < 0 || strlen(id) >= ENGINE_NAME_MAX_BYTES)
        return mst_error_set(err, -EPROTO, "POST %s (%s): the reply of %s names no id", call.path, call.about,
                             engine_host(engine));
    if (ret_id)
        memcpy(ret_id, id, strlen(id) + 1);
    return 0;
}

int engine_update(struct engine *engine, enum engine_kind kind, const char *id, const char *name,
                  uint64_t version, const cJSON *body, const char *const *headers, cJSON **ret_warnings,
                  struct mst_error *err)
{
    mst_cleanup(mst_buf_release) struct mst_buf path = MST_BUF_INIT(PATH_MAX_BYTES);
    mst_cleanup(engine_reply_release) struct engine_reply reply = {0};
    char text[ENGINE_NAME_MAX_BYTES + 16], query[48];
    struct engine_call call = {
        .method = "POST",
        .query = query,
        .body = body,
        .headers = headers,
        .about = about(kind, name, text),
        .any_status = true,
    };
    int r = engine_path(&path, kinds[kind].head, id, "/update");

    if (r < 0)
        return mst_error_set(err, r, "update %s '%s': the id is too long", kinds[kind].text, name);
    call.path = mst_buf_text(&path);
    (void)snprintf(query, sizeof query, "version=%llu", (unsigned long long)version);
    r = engine_request(engine, &call, &reply, err);
    if (r < 0)
        return r;
    if (reply.status >= 400) {
        r = engine_refused(engine, &call, &reply, err);
        if (strstr(engine_reply_message(&reply), "update out of sequence")) {
            r = -ESTALE;
            if (err)
                err->code = r;
        }
        return r;
    }
    if (ret_warnings) {
        cJSON *warnings = cJSON_DetachItemFromObjectCaseSensitive(reply.json, "Warnings");
        if (warnings && !cJSON_IsArray(warnings)) {
            cJSON_Delete(warnings);
            warnings = NULL;
        }
        *ret_warnings = warnings;
    }
    return 0;
}

int engine_remove(struct engine *engine, enum engine_kind kind, const char *id, const char *name,
                  struct mst_error *err)
{
    mst_cleanup(mst_buf_release) struct mst_buf path = MST_BUF_INIT(PATH_MAX_BYTES);
    mst_cleanup(engine_reply_release) struct engine_reply reply = {0};
    char text[ENGINE_NAME_MAX_BYTES + 16];
    struct engine_call call = {.method = "DELETE", .any_status = true, .about = about(kind, name, text)};
    int r = engine_path(&path, kinds[kind].head, id, NULL);

    if (r < 0)
        return mst_error_set(err, r, "remove %s '%s': the id is too long", kinds[kind].text, name);
    call.path = mst_buf_text(&path);
    r = engine_request(engine, &call, &reply, err);
    if (r >= 0 && reply.status >= 400 && reply.status != 404)
        r = engine_refused(engine, &call, &reply, err);
    return r;
}

static void copy_text(char text[static ENGINE_NAME_MAX_BYTES], const cJSON *json, const char *key)
{
    (void)snprintf(text, ENGINE_NAME_MAX_BYTES, "%s", mst_json_string_or(json, key, ""));
}

int engine_info(struct engine *engine, struct engine_info *ret_info, struct mst_error *err)
{
    mst_cleanup(engine_reply_release) struct engine_reply reply = {0};
    const struct engine_call call = {.method = "GET", .path = "/info"};
    const cJSON *swarm;
    int r = engine_request(engine, &call, &reply, err);

    if (r < 0)
        return r;
    if (!cJSON_IsObject(reply.json))
        return mst_error_set(err, -EPROTO, "GET /info: the reply of %s is not an object",
                             engine_host(engine));
    swarm = mst_json_at(reply.json, "Swarm", NULL);
    *ret_info = (struct engine_info){
        .memory_bytes = mst_json_u64_or(reply.json, "MemTotal", 0),
        .cpus = (uint32_t)mst_json_u64_or(reply.json, "NCPU", 0),
        .is_manager = mst_json_bool_or(swarm, "ControlAvailable", false),
    };
    copy_text(ret_info->name, reply.json, "Name");
    copy_text(ret_info->server_version, reply.json, "ServerVersion");
    copy_text(ret_info->kernel, reply.json, "KernelVersion");
    copy_text(ret_info->os, reply.json, "OperatingSystem");
    copy_text(ret_info->architecture, reply.json, "Architecture");
    copy_text(ret_info->node_id, swarm, "NodeID");
    copy_text(ret_info->node_address, swarm, "NodeAddr");
    copy_text(ret_info->local_state, swarm, "LocalNodeState");
    return 0;
}
