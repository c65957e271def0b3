/* SPDX-License-Identifier: Apache-2.0 */
/* Any text with variables to be replaced, and as a file of variables. A failure leaves nothing and says why
 * in one line, without a variable's value; what came out, with its dollar signs doubled, comes out again. */
#include "dotenv.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);

#define SECRET "hunter2-of-nobody"

static const char *const given[] = {"A=one", "EMPTY=", "S=" SECRET, "D=$A", NULL};
static const struct compose_options options = {.given = given};

static int ignore_unset(void *context, const char *name)
{
    (void)context;
    return *name ? 0 : -EINVAL;
}

static void check_error(const struct mst_error *err, int code, const char *input)
{
    if (code != err->code || !*err->text || strchr(err->text, '\n'))
        abort();
    if (strstr(err->text, SECRET) && !strstr(input, SECRET))
        abort();
}

/* NULL without memory. */
static char *double_dollars(struct compose_arena *arena, const char *text)
{
    char *doubled = compose_arena_alloc(arena, 2 * strlen(text) + 1);
    for (char *out = doubled; out && *text; text++) {
        *out++ = *text;
        if (*text == '$')
            *out++ = '$';
    }
    return doubled;
}

static void replace(struct compose_arena *arena, const char *input, const struct interpolate_source *source)
{
    static const char untouched[] = "untouched";
    struct mst_error err = MST_ERROR_INIT;
    const char *once = untouched, *twice = untouched;
    const int r = interpolate_text(arena, input, source, ignore_unset, NULL, &once, &err);
    if (r < 0) {
        if (once != untouched)
            abort();
        check_error(&err, r, input);
        return;
    }
    if (!strchr(input, '$') && once != input)
        abort();
    const char *doubled = double_dollars(arena, once);
    if (!doubled)
        return;
    if (interpolate_text(arena, doubled, source, NULL, NULL, &twice, &err) < 0) {
        if (strlen(doubled) <= INTERPOLATE_MAX_BYTES)
            abort();
    } else if (strcmp(once, twice) != 0) {
        abort();
    }
}

static void read_file(struct compose_project *project, const uint8_t *bytes, size_t count, const char *input)
{
    struct mst_error err = MST_ERROR_INIT;
    struct schema_load load = {.project = project,
                               .arena = project->arena,
                               .options = &options,
                               .source = {.options = &options},
                               .err = &err};
    const int r = dotenv_parse(&load, (const char *)bytes, count, "fuzz.env");
    const struct compose_pairs *files = &load.source.files;
    if (r < 0)
        check_error(&err, r, input);
    for (size_t i = 0; i < files->count; i++)
        if (!*files->items[i].key || !files->items[i].value ||
            (i > 0 && strcmp(files->items[i - 1].key, files->items[i].key) >= 0))
            abort();
    replace(project->arena, input, &load.source); /* now with the variables of the file */
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    struct compose_arena *arena = compose_arena_new();
    struct compose_project *project = arena ? compose_arena_alloc(arena, sizeof *project) : NULL;
    const char *input = project ? compose_arena_text_n(arena, (const char *)bytes, count) : NULL;
    if (!input) {
        compose_arena_free(arena);
        return 0;
    }
    project->arena = arena;
    replace(arena, input, &(struct interpolate_source){.options = &options});
    read_file(project, bytes, count, input);
    compose_project_free(project);
    return 0;
}
