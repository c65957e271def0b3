/* SPDX-License-Identifier: Apache-2.0 */
/* Limits of lists, mappings and warnings, and how errors show what stands in a file. */
#include "test.h"

static void refused_with(const struct mst_buf *text, const char *error_part)
{
    struct compose_project *project = NULL;
    struct mst_error err = MST_ERROR_INIT;
    assert_int_equal(test_parse(mst_buf_text(text), &project, &err), -EBADMSG);
    if (!strstr(err.text, error_part))
        fail_msg("'%s' not in: %s", error_part, err.text);
    assert_null(project);
}

static void lists_have_a_limit(void **state)
{
    (void)state;
    static const struct {
        const char *head, *item;
    } lists[] = {
        {"    dns:\n", "    - d%d\n"},
        {"    environment:\n", "      K%d: v\n"},
        {"    labels:\n", "    - k%d=v\n"},
        {"    ports:\n", "    - %d:80\n"},
    };
    for (size_t i = 0; i < MST_ARRAY_COUNT(lists); i++) {
        mst_cleanup(mst_buf_release) struct mst_buf text = MST_BUF_INIT(1 << 20);
        assert_int_equal(mst_buf_append_text(&text, TEST_SERVICE("")), 0);
        assert_int_equal(mst_buf_append_text(&text, lists[i].head), 0);
        for (int n = 1; n <= 4097; n++) {
            char line[64];
            const char *mark = strstr(lists[i].item, "%d");
            (void)snprintf(line, sizeof line, "%.*s%d%s", (int)(mark - lists[i].item), lists[i].item, n,
                           mark + 2);
            assert_int_equal(mst_buf_append_text(&text, line), 0);
        }
        refused_with(&text, "more than 4096 ");
    }
}

static void services_have_a_limit(void **state)
{
    (void)state;
    mst_cleanup(mst_buf_release) struct mst_buf text = MST_BUF_INIT(1 << 20);
    assert_int_equal(mst_buf_append_text(&text, "services:\n"), 0);
    for (int n = 1; n <= 1025; n++)
        assert_int_equal(mst_buf_printf(&text, "  s%d: {image: x}\n", n), 0);
    refused_with(&text, "stack.yml:1026:3: services.s1025: more than 1024 services");
}

static void warnings_have_a_limit(void **state)
{
    (void)state;
    mst_cleanup(mst_buf_release) struct mst_buf text = MST_BUF_INIT(1 << 20);
    assert_int_equal(mst_buf_append_text(&text, TEST_SERVICE("    dns:\n")), 0);
    for (int n = 1; n <= 1001; n++)
        assert_int_equal(mst_buf_printf(&text, "    - d%d$NOPE\n", n), 0);
    refused_with(&text, "more than 1000 warnings: this is no stack file");
}

/* Some 0.3 s: quadratic work on what the limits let through would run into the test's own time limit. */
static void a_file_at_the_limits_is_read(void **state)
{
    (void)state;
    mst_cleanup(mst_buf_release) struct mst_buf text = MST_BUF_INIT(4 << 20);
    assert_int_equal(mst_buf_append_text(&text, "services:\n"), 0);
    for (int n = 0; n < 8; n++) {
        assert_int_equal(mst_buf_printf(&text, "  s%d:\n    image: x\n    environment:\n", n), 0);
        for (int k = 4096; k > 0; k--)
            assert_int_equal(mst_buf_printf(&text, "      K%d: v\n", k), 0);
        assert_int_equal(mst_buf_append_text(&text, "    dns:\n"), 0);
        for (int k = 0; k < 4000; k++)
            assert_int_equal(mst_buf_printf(&text, "    - d%d\n", k), 0);
    }
    struct compose_project *project = test_project(mst_buf_text(&text));
    assert_int_equal(project->services[7].environment.count, 4096);
    compose_project_free(project);
}

static void what_is_shown_stays_on_one_line(void **state)
{
    (void)state;
    test_refused(TEST_SERVICE("    deploy: {replicas: \"a\\nb\\x1b[31m\"}\n"),
                 "stack.yml:4:24: services.a.deploy.replicas: 'a?b?[31m' is not a whole number");
    test_refused(
        TEST_SERVICE("    deploy: {replicas: "
                     "aaaaaaaaaabbbbbbbbbbccccccccccddddddddddeeeeeeeeeeffffffffffgggggggggg}\n"),
        "stack.yml:4:24: services.a.deploy.replicas: "
        "'aaaaaaaaaabbbbbbbbbbccccccccccddddddddddeeeeeeeeeeffffffffffgggggg'... is not a whole number");
    /* A character of several bytes is not cut. */
    test_refused(
        TEST_SERVICE("    deploy: {replicas: "
                     "aaaaaaaaaabbbbbbbbbbccccccccccddddddddddeeeeeeeeeefffffff\u00e9\u00e9\u00e9"
                     "\u00e9\u00e9\u00e9\u00e9}\n"),
        "stack.yml:4:24: services.a.deploy.replicas: "
        "'aaaaaaaaaabbbbbbbbbbccccccccccddddddddddeeeeeeeeeefffffff\u00e9\u00e9\u00e9\u00e9'... is not a "
        "whole number");
}

static void whole_numbers_are_written_in_any_of_go_s_ways(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint64_t value;
    } numbers[] = {{"3", 3},   {"+3", 3},     {"0x10", 16}, {"010", 8},   {"1_000", 1000},
                   {"2.0", 2}, {"1e3", 1000}, {"'7'", 7},   {"'007'", 7}, {"!!int '7'", 7}};
    for (size_t i = 0; i < MST_ARRAY_COUNT(numbers); i++) {
        char text[256];
        (void)snprintf(text, sizeof text, TEST_SERVICE("    deploy: {replicas: %s}\n"), numbers[i].text);
        struct compose_project *project = test_project(text);
        assert_int_equal(project->services[0].deploy.replicas.value, numbers[i].value);
        compose_project_free(project);
    }
    static const char *const bad[] = {"1.5",  "'0x10'", "''",   "'1 '", "18446744073709551615",
                                      "1e30", ".inf",   ".nan", "'-'"};
    for (size_t i = 0; i < MST_ARRAY_COUNT(bad); i++) {
        char text[256];
        struct compose_project *project = NULL;
        struct mst_error err;
        (void)snprintf(text, sizeof text, TEST_SERVICE("    deploy: {replicas: %s}\n"), bad[i]);
        if (test_parse(text, &project, &err) != -EBADMSG || !strstr(err.text, "is not a whole number"))
            fail_msg("%s: %s", bad[i], err.text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lists_have_a_limit),
        cmocka_unit_test(services_have_a_limit),
        cmocka_unit_test(warnings_have_a_limit),
        cmocka_unit_test(a_file_at_the_limits_is_read),
        cmocka_unit_test(what_is_shown_stays_on_one_line),
        cmocka_unit_test(whole_numbers_are_written_in_any_of_go_s_ways),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
