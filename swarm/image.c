/* SPDX-License-Identifier: Apache-2.0 */
#include "image.h"

#include "auth.h"
#include "live.h"
#include "muster/cleanup.h"
#include "muster/json.h"
#include "stack.h"

#include <stdio.h>
#include <string.h>

#define REGISTRY_TIMEOUT_MS 10000 /* the engine asks the registry meanwhile */
#define PATH_MAX_BYTES      2048

int image_path(const char *head, const char *image, struct mst_buf *path)
{
    mst_cleanup(mst_freep) char *copy = strdup(image);
    char *part = copy;
    int r = mst_buf_append_text(path, head);

    if (!copy)
        return -ENOMEM;
    while (r >= 0 && part) {
        char *slash = strchr(part, '/');
        if (slash)
            *slash = '\0';
        r = engine_path(path, "/", part, NULL);
        part = slash ? slash + 1 : NULL;
    }
    return r < 0 ? r : mst_buf_append_text(path, "/json");
}

static int take_platforms(const cJSON *reply, struct image *image)
{
    const cJSON *platform;

    image->platforms = cJSON_CreateArray();
    if (!image->platforms)
        return -ENOMEM;
    cJSON_ArrayForEach(platform, mst_json_at(reply, "Platforms", NULL))
    {
        const char *architecture = mst_json_string_or(platform, "architecture", "");
        const char *os = mst_json_string_or(platform, "os", "");
        cJSON *item = cJSON_CreateObject();
        if (!item || !cJSON_AddItemToArray(image->platforms, item)) {
            cJSON_Delete(item);
            return -ENOMEM;
        }
        /* "arm" says too little (v6, v7): docker lets any architecture take it. */
        if (architecture[0] != '\0' && strcmp(architecture, "arm") != 0)
            (void)cJSON_AddStringToObject(item, "Architecture", architecture);
        if (os[0] != '\0')
            (void)cJSON_AddStringToObject(item, "OS", os);
    }
    return 0;
}

static int ask_registry(struct engine *engine, const char *tagged, struct image *ret_image,
                        struct mst_error *err)
{
    mst_cleanup(mst_buf_release) struct mst_buf path = MST_BUF_INIT(PATH_MAX_BYTES);
    mst_cleanup(engine_reply_release) struct engine_reply reply = {0};
    const char *const headers[] = {ret_image->auth, NULL};
    struct engine_call call = {
        .method = "GET", .timeout_ms = REGISTRY_TIMEOUT_MS, .headers = ret_image->auth ? headers : NULL};
    const char *digest;
    int r = image_path("/distribution", tagged, &path);

    if (r < 0)
        return mst_error_set(err, r, "image '%.128s': the name is too long", tagged);
    call.path = mst_buf_text(&path);
    r = engine_request(engine, &call, &reply, err);
    if (r < 0)
        return r;
    digest = mst_json_string_or(mst_json_at(reply.json, "Descriptor", NULL), "digest", "");
    if (strncmp(digest, "sha256:", 7) != 0 || strlen(digest) != 7 + 64)
        return mst_error_set(err, -EPROTO, "image '%s': the registry named no digest", tagged);
    if (asprintf(&ret_image->image, "%s%s%s", tagged, strchr(tagged, '@') ? "" : "@",
                 strchr(tagged, '@') ? "" : digest) < 0) {
        ret_image->image = NULL;
        return mst_error_set(err, -ENOMEM, "image '%s': no memory", tagged);
    }
    if (take_platforms(reply.json, ret_image) < 0)
        return mst_error_set(err, -ENOMEM, "image '%s': no memory", tagged);
    return 0;
}

static int copy_image(const char *image, const cJSON *platforms, struct image *ret_image,
                      struct mst_error *err)
{
    ret_image->image = strdup(image);
    ret_image->platforms = platforms ? cJSON_Duplicate(platforms, true) : NULL;
    if (!ret_image->image || (platforms && !ret_image->platforms))
        return mst_error_set(err, -ENOMEM, "image '%s': no memory", image);
    return 0;
}

/* What the live service runs, if the file still names the image by which it was made. */
static const cJSON *same_live_task(const cJSON *live_services, const struct compose_service *service)
{
    const cJSON *live = live_find(live_services, ENGINE_SERVICE, service->name);
    const char *label = mst_json_string_or(mst_json_at(live, "Spec", "Labels", NULL), IMAGE_LABEL, "");
    const cJSON *task = mst_json_at(live, "Spec", "TaskTemplate", NULL);

    if (strcmp(label, service->image) != 0 ||
        mst_json_string_or(mst_json_at(task, "ContainerSpec", NULL), "Image", "")[0] == '\0')
        return NULL;
    return task;
}

static int keep_live(const cJSON *task, struct image *ret_image, struct mst_error *err)
{
    return copy_image(mst_json_string_or(mst_json_at(task, "ContainerSpec", NULL), "Image", ""),
                      mst_json_at(task, "Placement", "Platforms", NULL), ret_image, err);
}

static int resolve_one(struct engine *engine, const struct compose_service *service,
                       const cJSON *live_services, enum image_resolve resolve, struct report *report,
                       struct image *ret_image, struct mst_error *err)
{
    mst_cleanup(mst_freep) char *tagged = spec_image_with_tag(service->image);
    const cJSON *task = same_live_task(live_services, service);
    struct mst_error why = MST_ERROR_INIT;
    int r;

    if (!tagged)
        return mst_error_set(err, -ENOMEM, "image '%s': no memory", service->image);
    if (task && resolve != IMAGE_ALWAYS)
        return keep_live(task, ret_image, err);
    if (resolve == IMAGE_NEVER)
        return copy_image(tagged, NULL, ret_image, err);
    r = ask_registry(engine, tagged, ret_image, &why);
    if (r != -EREMOTEIO && r != -ETIMEDOUT) {
        if (r < 0 && err)
            *err = why;
        return r;
    }
    if (report)
        report_line(report, "warning: image '%s' is not pinned to a digest; each node takes what it has: %s",
                    service->image, why.text);
    /* The live service's digest is as good as any, and keeps its tasks from restarting. */
    return task ? keep_live(task, ret_image, err) : copy_image(tagged, NULL, ret_image, err);
}

static bool is_local(const struct compose_strings *local, const char *image)
{
    for (size_t i = 0; local && i < local->count; i++) {
        if (strcmp(local->items[i], image) == 0)
            return true;
    }
    return false;
}

int images_resolve(struct engine *engine, const struct compose_project *project, const cJSON *live_services,
                   enum image_resolve resolve, bool with_auth, const struct compose_strings *local,
                   struct report *report, struct images *ret_images, struct mst_error *err)
{
    struct images images = {.count = project->service_count};
    int r = 0;

    images.items = calloc(images.count > 0 ? images.count : 1, sizeof *images.items);
    if (!images.items)
        return mst_error_set(err, -ENOMEM, "images: no memory");
    for (size_t i = 0; i < images.count && r >= 0; i++) {
        const struct compose_service *service = &project->services[i];
        size_t same = 0;
        if (with_auth)
            r = auth_header(service->image, &images.items[i].auth, err);
        if (r < 0)
            break;
        while (same < i && strcmp(project->services[same].image, service->image) != 0)
            same++;
        if (same < i && resolve == IMAGE_ALWAYS)
            r = copy_image(images.items[same].image, images.items[same].platforms, &images.items[i], err);
        else
            r = resolve_one(engine, service, live_services,
                            is_local(local, service->image) ? IMAGE_NEVER : resolve, report, &images.items[i],
                            err);
    }
    if (r < 0) {
        images_release(&images);
        return r;
    }
    *ret_images = images;
    return 0;
}

void images_release(struct images *images)
{
    for (size_t i = 0; i < images->count && images->items; i++) {
        free(images->items[i].image);
        cJSON_Delete(images->items[i].platforms);
        auth_free(images->items[i].auth);
    }
    free(images->items);
    *images = (struct images){0};
}

int image_parse_resolve(const char *text, enum image_resolve *ret_resolve, struct mst_error *err)
{
    static const char *const names[] = {
        [IMAGE_ALWAYS] = "always", [IMAGE_CHANGED] = "changed", [IMAGE_NEVER] = "never"};

    for (size_t i = 0; i < MST_ARRAY_COUNT(names); i++) {
        if (strcmp(names[i], text) == 0) {
            *ret_resolve = (enum image_resolve)i;
            return 0;
        }
    }
    return mst_error_set(err, -EINVAL, "'%s' is none of always, changed and never", text);
}
