/* SPDX-License-Identifier: Apache-2.0 */
/* Any text as a stack file. What is taken must also be printed, and what was printed must be read as the same
 * project. */
#include "muster/compose.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);

#define MAX_PRINTED_BYTES ((size_t)64 << 20)

static const char *const given[] = {"A=one", "N=3", "EMPTY=", "HOME=/home", NULL};

static struct compose_project *parse(const char *text, size_t count, const char *stack)
{
    const struct compose_options options = {.given = given, .stack = stack};
    struct compose_project *project = NULL;
    struct mst_error err = MST_ERROR_INIT;
    const int r = compose_project_parse(text, count, "fuzz.yml", "/", &options, &project, &err);
    if (r < 0 && (project || r != err.code || !*err.text || strchr(err.text, '\n')))
        abort(); /* a failure leaves nothing, and says why in one line */
    return project;
}

/* Contents that stand in the file itself are not printed. */
static bool can_be_read_again(const struct compose_project *project)
{
    for (size_t i = 0; i < project->secret_count; i++)
        if (project->secrets[i].bytes && !project->secrets[i].path)
            return false;
    for (size_t i = 0; i < project->config_count; i++)
        if (project->configs[i].bytes && !project->configs[i].path)
            return false;
    return true;
}

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

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    if (names_a_file((const char *)bytes, count))
        return 0;
    compose_project_free(parse((const char *)bytes, count, "stack"));
    struct compose_project *project = parse((const char *)bytes, count, NULL);
    if (!project)
        return 0;
    struct mst_buf once = MST_BUF_INIT(MAX_PRINTED_BYTES), twice = MST_BUF_INIT(MAX_PRINTED_BYTES);
    const int r = compose_project_print(project, &once);
    if (r < 0)
        abort();
    if (can_be_read_again(project) && once.count <= COMPOSE_FILE_MAX_BYTES) {
        struct compose_project *again = parse(mst_buf_text(&once), once.count, NULL);
        if (!again || compose_project_print(again, &twice) < 0 || once.count != twice.count ||
            memcmp(once.bytes, twice.bytes, once.count) != 0)
            abort();
        compose_project_free(again);
    }
    mst_buf_release(&once);
    mst_buf_release(&twice);
    compose_project_free(project);
    return 0;
}
