/* SPDX-License-Identifier: Apache-2.0 */
#include "muster/file.h"
#include "test.h"

/* What was expected was compared with `docker stack config` of 28.2.2 over the same file: equal, but that
 * muster names capabilities in full, sorts ports, keeps no "\n" as a block and writes '$' as "$$", so that it
 * can be read again. */
#define ALL         MUSTER_TEST_DATA "/all.yml"
#define ALL_PRINTED MUSTER_TEST_DATA "/all.printed.yml"

static void print_file(const char *file, struct mst_buf *text)
{
    const struct compose_options options = {.files = &file, .file_count = 1};
    struct compose_project *project = NULL;
    struct mst_error err = MST_ERROR_INIT;
    if (compose_project_load(&options, &project, &err) < 0)
        fail_msg("%s", err.text);
    assert_int_equal(compose_project_print(project, text), 0);
    compose_project_free(project);
}

static void a_project_is_printed_as_docker_prints_it(void **state)
{
    (void)state;
    mst_cleanup(mst_buf_release) struct mst_buf expected = MST_BUF_INIT(1 << 20),
                                                text = MST_BUF_INIT(1 << 20);
    assert_int_equal(mst_file_read(ALL_PRINTED, &expected, NULL), 0);
    print_file(ALL, &text);
    assert_string_equal(mst_buf_text(&text), mst_buf_text(&expected));
}

static void what_was_printed_is_the_same_project(void **state)
{
    (void)state;
    static const char *const files[] = {ALL_PRINTED, MUSTER_SOURCE_DIR "/compose/stacks/workload1.yml",
                                        MUSTER_TEST_DATA "/base.yml"};
    for (size_t i = 0; i < MST_ARRAY_COUNT(files); i++) {
        mst_cleanup(mst_buf_release) struct mst_buf once = MST_BUF_INIT(1 << 20),
                                                    twice = MST_BUF_INIT(1 << 20);
        print_file(files[i], &once);
        struct compose_project *project = test_project(mst_buf_text(&once));
        assert_int_equal(compose_project_print(project, &twice), 0);
        assert_string_equal(mst_buf_text(&twice), mst_buf_text(&once));
        compose_project_free(project);
    }
}

static void durations_are_printed_in_go_s_form(void **state)
{
    (void)state;
    static const struct {
        const char *given, *printed;
    } durations[] = {{"1h", "1h0m0s"},    {"90s", "1m30s"},
                     {"3600s", "1h0m0s"}, {"61m1s", "1h1m1s"},
                     {"1.5s", "1.5s"},    {"250ms", "250ms"},
                     {"1us", "1\u00b5s"}, {"1500ns", "1.5\u00b5s"},
                     {"7ns", "7ns"},      {"1.000001ms", "1.000001ms"},
                     {"0", "0s"},         {"1m0.5s", "1m0.5s"},
                     {"100h", "100h0m0s"}};
    for (size_t i = 0; i < MST_ARRAY_COUNT(durations); i++) {
        mst_cleanup(mst_buf_release) struct mst_buf text = MST_BUF_INIT(1 << 16);
        char file[256], line[128];
        (void)snprintf(file, sizeof file, TEST_SERVICE("    stop_grace_period: \"%s\"\n"),
                       durations[i].given);
        (void)snprintf(line, sizeof line, "    stop_grace_period: %s\n", durations[i].printed);
        struct compose_project *project = test_project(file);
        assert_int_equal(compose_project_print(project, &text), 0);
        if (!strstr(mst_buf_text(&text), line))
            fail_msg("%s not in %s", line, mst_buf_text(&text));
        compose_project_free(project);
    }
}

static void the_buffer_s_limit_is_kept(void **state)
{
    (void)state;
    for (size_t limit = 1; limit < 200; limit += 7) {
        mst_cleanup(mst_buf_release) struct mst_buf text = MST_BUF_INIT(limit);
        struct compose_project *project =
            test_project(TEST_SERVICE("    networks: {default: {aliases: [x]}}\n"
                                      "    deploy: {resources: {limits: {cpus: 2}}}\n"
                                      "    command: [x, y, $$z]\n    tty: true\n"));
        int r = compose_project_print(project, &text);
        assert_true(r == -EFBIG || (r == 0 && text.count < limit));
        compose_project_free(project);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_project_is_printed_as_docker_prints_it),
        cmocka_unit_test(what_was_printed_is_the_same_project),
        cmocka_unit_test(durations_are_printed_in_go_s_form),
        cmocka_unit_test(the_buffer_s_limit_is_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
