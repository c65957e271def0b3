/* SPDX-License-Identifier: Apache-2.0 */
/* The stack files of data/stacks mean the same to docker and to muster: what `docker stack config` made of
 * each (stored with docker's version by record_configs.py) is read as the project that the file itself is. */
#include "muster/file.h"
#include "test.h"

#include <stdlib.h>

#define STACKS          MUSTER_TEST_DATA "/stacks/"
#define PRINT_MAX_BYTES ((size_t)1 << 20)

static const struct {
    const char *name;
    const char *files[2];
} stacks[] = {
    {"every-key", {STACKS "every-key.yml"}},
    {"short-forms", {STACKS "short-forms.yml"}},
    {"modes", {STACKS "modes.yml"}},
    {"objects", {STACKS "objects.yml"}},
    {"scalars", {STACKS "scalars.yml"}},
    {"variables", {STACKS "variables.yml"}},
    {"merge", {STACKS "merge-1.yml", STACKS "merge-2.yml"}},
};

static void print(const char *const *files, size_t count, struct mst_buf *text)
{
    static const char *const env_files[] = {STACKS "variables.env"};
    const struct compose_options options = {
        .files = files, .file_count = count, .env_files = env_files, .env_file_count = 1, .stack = "st"};
    struct compose_project *project = NULL;
    struct mst_error err = MST_ERROR_INIT;
    if (compose_project_load(&options, &project, &err) < 0)
        fail_msg("%s", err.text);
    assert_int_equal(compose_project_print(project, text), 0);
    compose_project_free(project);
}

/* The first line of `a` that `b` has not there. */
static void fail_difference(const char *name, const char *a, const char *b)
{
    size_t line = 1;
    while (*a && strcspn(a, "\n") == strcspn(b, "\n") && strncmp(a, b, strcspn(a, "\n")) == 0) {
        a += strcspn(a, "\n");
        b += strcspn(b, "\n");
        a += *a == '\n';
        b += *b == '\n';
        line++;
    }
    fail_msg("%s: line %zu as printed:\n%.*s\nbut for docker:\n%.*s", name, line, (int)strcspn(a, "\n"), a,
             (int)strcspn(b, "\n"), b);
}

static void docker_understands_each_file_as_muster_does(void **state)
{
    (void)state;
    for (size_t i = 0; i < MST_ARRAY_COUNT(stacks); i++) {
        char path[512];
        const char *const recorded[] = {path};
        struct mst_buf ours = MST_BUF_INIT(PRINT_MAX_BYTES), theirs = MST_BUF_INIT(PRINT_MAX_BYTES);
        (void)snprintf(path, sizeof path, STACKS "%s.docker.yml", stacks[i].name);
        print(stacks[i].files, stacks[i].files[1] ? 2 : 1, &ours);
        print(recorded, 1, &theirs);
        if (strcmp(mst_buf_text(&ours), mst_buf_text(&theirs)) != 0)
            fail_difference(stacks[i].name, mst_buf_text(&ours), mst_buf_text(&theirs));
        mst_buf_release(&ours);
        mst_buf_release(&theirs);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(docker_understands_each_file_as_muster_does),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
