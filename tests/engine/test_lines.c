/* SPDX-License-Identifier: Apache-2.0 */
#include "../common/test.h"
#include "muster/engine.h"

static int take(void *context, const char *line, size_t count, struct mst_error *err)
{
    char *text = context;
    const size_t used = strlen(text);

    (void)err;
    assert_int_equal(strlen(line), count);
    (void)snprintf(text + used, 256 - used, "<%s>", line);
    return strcmp(line, "stop") == 0 ? -EPIPE : 0;
}

static void lines_come_whole_however_they_are_cut(void **state)
{
    static const char input[] = "one\r\n\ntwo words\nrest";

    (void)state;
    for (size_t cut = 0; cut < sizeof input; cut++) {
        mst_cleanup(engine_lines_release) struct engine_lines lines = ENGINE_LINES_INIT;
        char text[256] = "";
        assert_int_equal(engine_lines_feed(&lines, input, cut, take, text, NULL), 0);
        assert_int_equal(engine_lines_feed(&lines, input + cut, sizeof input - 1 - cut, take, text, NULL), 0);
        assert_string_equal(text, "<one><><two words>"); /* a line without an end is none */
    }
}

static void a_line_without_end_has_a_limit(void **state)
{
    mst_cleanup(engine_lines_release) struct engine_lines lines = ENGINE_LINES_INIT;
    static char block[65536];
    struct mst_error err = MST_ERROR_INIT;
    char text[256] = "";
    int r = 0;

    (void)state;
    memset(block, 'x', sizeof block);
    for (size_t i = 0; i <= ENGINE_LINE_MAX_BYTES / sizeof block && r == 0; i++)
        r = engine_lines_feed(&lines, block, sizeof block, take, text, &err);
    assert_int_equal(r, -EFBIG);
    assert_string_equal(text, "");
}

static void a_refusal_of_the_taker_is_passed_on(void **state)
{
    mst_cleanup(engine_lines_release) struct engine_lines lines = ENGINE_LINES_INIT;
    char text[256] = "";

    (void)state;
    assert_int_equal(engine_lines_feed(&lines, "a\nstop\nb\n", 9, take, text, NULL), -EPIPE);
    assert_string_equal(text, "<a><stop>");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_come_whole_however_they_are_cut),
        cmocka_unit_test(a_line_without_end_has_a_limit),
        cmocka_unit_test(a_refusal_of_the_taker_is_passed_on),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
