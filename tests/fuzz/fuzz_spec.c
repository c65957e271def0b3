/* SPDX-License-Identifier: Apache-2.0 */
/* Any stack file as bodies for the engine: what compose takes can be converted, and a body is JSON that is
 * read back as what it was. */
#include "compare.h"
#include "muster/cleanup.h"
#include "muster/json.h"
#include "spec.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);

/* A key that ends in "file". Files of the machine that runs this are not for it to read. */
static bool names_a_file(const char *text, size_t count)
{
    const char *end = text + count, *found = text;

    while ((found = memmem(found, (size_t)(end - found), "file", 4))) {
        found += 4;
        if (found < end && strchr(": \t\r\n\"'\\", *found))
            return true;
    }
    return false;
}

static void check_body(cJSON *body, bool is_service)
{
    mst_cleanup(mst_freep) char *text = cJSON_PrintUnformatted(body);
    mst_cleanup(mst_json_deletep) cJSON *again = NULL;

    if (!text || mst_json_parse(text, strlen(text), "body", &again, NULL) < 0)
        abort();
    if (is_service && compare_service(body, again, NULL, NULL) != 0)
        abort();
    cJSON_Delete(body);
}

static void convert(const struct compose_project *project)
{
    mst_cleanup(spec_ids_release) struct spec_ids ids = {0};
    const struct spec_kept kept = {.force_update = 7};
    cJSON *body = NULL;

    for (size_t i = 0; i < project->network_count; i++) {
        if (spec_network(project, &project->networks[i], &body, NULL) < 0)
            abort();
        check_body(body, false);
    }
    for (size_t i = 0; i < project->config_count; i++) {
        const struct compose_content *c = &project->configs[i];
        if (spec_ids_add_version(&ids, ENGINE_CONFIG, c->name, "actual", "id", NULL) < 0)
            return; /* a name that is longer than any of the engine's */
        if (spec_content(project, c, "actual", c->bytes, c->byte_count, &body, NULL) < 0)
            abort();
        check_body(body, false);
    }
    for (size_t i = 0; i < project->service_count; i++) {
        mst_cleanup(mst_freep) char *image = spec_image_with_tag(project->services[i].image);
        const struct spec_image resolved = {.image = image};
        if (spec_service(project, &project->services[i], &ids, &resolved, &kept, &body, NULL) < 0)
            abort();
        check_body(body, true);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    static const char *const given[] = {"A=one", "N=3", "EMPTY=", "HOME=/home", NULL};
    const struct compose_options options = {.given = given, .stack = "stack"};
    mst_cleanup(compose_project_freep) struct compose_project *project = NULL;

    if (names_a_file((const char *)bytes, count) ||
        compose_project_parse((const char *)bytes, count, "fuzz.yml", "/", &options, &project, NULL) < 0)
        return 0;
    convert(project);
    return 0;
}
