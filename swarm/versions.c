/* SPDX-License-Identifier: Apache-2.0 */
#include "versions.h"

#include "muster/cleanup.h"
#include "muster/digest.h"
#include "muster/json.h"
#include "stack.h"

#include <stdio.h>
#include <string.h>

#define NAME_MAX_CHARS 64 /* of a secret's or config's name */
#define DIGEST_CHARS   10

bool version_belongs(const cJSON *object, const char *name)
{
    const cJSON *labels = mst_json_at(object, "Spec", "Labels", NULL);

    return strcmp(live_name(object, ENGINE_SECRET), name) == 0 ||
           strcmp(mst_json_string_or(labels, VERSION_LABEL, ""), name) == 0;
}

/* Times of one clock in one form, RFC 3339 in UTC: they order as texts but for the length of the fraction,
 * and versions are seconds apart. */
static bool is_newer(const cJSON *a, const cJSON *b)
{
    return strcmp(mst_json_string_or(a, "CreatedAt", ""), mst_json_string_or(b, "CreatedAt", "")) > 0;
}

static void insert(struct versions *versions, const cJSON *object)
{
    size_t at = versions->count;

    while (at > 0 && is_newer(object, versions->items[at - 1]))
        at--;
    if (at >= VERSIONS_MAX)
        return;
    if (versions->count == VERSIONS_MAX)
        versions->count--;
    memmove(&versions->items[at + 1], &versions->items[at],
            (versions->count - at) * sizeof versions->items[0]);
    versions->items[at] = object;
    versions->count++;
}

void versions_find(const cJSON *list, const cJSON *others, const char *name, struct versions *ret_versions)
{
    const cJSON *object = live_find(others, ENGINE_SECRET, name);

    *ret_versions = (struct versions){0};
    if (object && mst_json_string_or(mst_json_at(object, "Spec", "Labels", NULL), STACK_LABEL, "")[0] == '\0')
        insert(ret_versions, object);
    cJSON_ArrayForEach(object, list)
    {
        if (version_belongs(object, name))
            insert(ret_versions, object);
    }
}

static bool is_free(const char *name, const cJSON *list, const cJSON *others)
{
    return !live_find(list, ENGINE_SECRET, name) && !live_find(others, ENGINE_SECRET, name);
}

/* The base is cut where the whole would be too long: the label tells what it is a version of. */
static void join(const char *name, const char *suffix, char ret_name[static ENGINE_NAME_MAX_BYTES])
{
    const size_t room = NAME_MAX_CHARS - 1 - strlen(suffix);

    (void)snprintf(ret_name, ENGINE_NAME_MAX_BYTES, "%.*s_%s", (int)room, name, suffix);
}

static int digest_text(const struct compose_content *content, char text[static DIGEST_CHARS + 1],
                       struct mst_error *err)
{
    const char *driver = content->template_driver ? content->template_driver : "";
    uint8_t digest[MST_SHA256_BYTES];
    struct mst_sha256 sha = {0};
    int r = mst_sha256_init(&sha, err);

    if (r >= 0)
        r = mst_sha256_update(&sha, driver, strlen(driver) + 1, err);
    if (r >= 0 && content->byte_count > 0)
        r = mst_sha256_update(&sha, content->bytes, content->byte_count, err);
    if (r >= 0)
        r = mst_sha256_finish(&sha, digest, err);
    mst_sha256_release(&sha);
    if (r >= 0)
        mst_hex(digest, DIGEST_CHARS / 2, text);
    return r;
}

int version_name(enum engine_kind kind, const struct compose_content *content, const cJSON *list,
                 const cJSON *others, char ret_name[static ENGINE_NAME_MAX_BYTES], struct mst_error *err)
{
    char suffix[24] = "";
    unsigned next = 2;
    int r = 0;

    (void)snprintf(ret_name, ENGINE_NAME_MAX_BYTES, "%s", content->name);
    if (is_free(ret_name, list, others))
        return 0;
    if (kind == ENGINE_CONFIG) {
        r = digest_text(content, suffix, err);
        if (r < 0)
            return r;
        join(content->name, suffix, ret_name);
    }
    /* A secret is counted, and so is a config whose name somebody else took. */
    while (kind == ENGINE_SECRET || !is_free(ret_name, list, others)) {
        (void)snprintf(suffix, sizeof suffix, "%u", next++);
        join(content->name, suffix, ret_name);
        if (is_free(ret_name, list, others))
            break;
    }
    return 0;
}

bool version_is_referred(const cJSON *service_spec, enum engine_kind kind, const char *id)
{
    const cJSON *container = mst_json_at(service_spec, "TaskTemplate", "ContainerSpec", NULL), *item;
    const char *list_key = kind == ENGINE_SECRET ? "Secrets" : "Configs";
    const char *id_key = kind == ENGINE_SECRET ? "SecretID" : "ConfigID";

    cJSON_ArrayForEach(item, mst_json_at(container, list_key, NULL))
    {
        if (strcmp(mst_json_string_or(item, id_key, ""), id) == 0)
            return true;
    }
    return false;
}
