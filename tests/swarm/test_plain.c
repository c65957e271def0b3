/* SPDX-License-Identifier: Apache-2.0 */
#include "../common/test.h"
#include "plain.h"
#include "report.h"

static void what_moves_the_cursor_or_turns_text_becomes_a_blank(void **state)
{
    static const struct {
        const char *text, *plain;
    } cases[] = {
        {"", ""},
        {"plain", "plain"},
        {"na\xc3\xafve \xe2\x82\xac \xf0\x9f\x90\x8b", "na\xc3\xafve \xe2\x82\xac \xf0\x9f\x90\x8b"},
        {"a\033[2Jb\tc\nd\x7f", "a [2Jb c d "},
        {"\xc2\x9b"
         "2Ja",
         " 2Ja"},                                    /* C1: CSI */
        {"\x9b[2J", " [2J"},                         /* the same to a terminal that is not in UTF-8 */
        {"user\xe2\x80\xaetxt.exe", "user txt.exe"}, /* right-to-left override */
        {"a\xe2\x81\xa6"                             /* isolate */
         "b\xd8\x9c"                                 /* Arabic letter mark */
         "c\xe2\x80\x8b"                             /* zero width space */
         "d\xef\xbb\xbf",                            /* byte order mark */
         "a b c d "},
        {"a\xe2\x80", "a  "},                           /* cut in the middle */
        {"\xc0\x9b\xe0\x80\x9b", "     "},              /* long forms */
        {"\xed\xa0\x80\xf8\x88\x80\x80\x80", "      "}, /* a surrogate, five bytes */
        {"\xf3\xa0\x81\x81", " "},                      /* a tag */
    };
    char text[64];

    (void)state;
    for (size_t i = 0; i < MST_ARRAY_COUNT(cases); i++) {
        (void)snprintf(text, sizeof text, "%s", cases[i].text);
        plain_text(text);
        if (strcmp(text, cases[i].plain) != 0)
            fail_msg("case %zu: '%s'", i, text);
    }
}

static void a_report_leaves_the_terminal_alone(void **state)
{
    char *text = NULL;
    size_t bytes;
    struct report report = {.stream = open_memstream(&text, &bytes),
                            .is_terminal = true,
                            .columns = 40,
                            .drawn = MST_BUF_INIT(65536)};

    (void)state;
    report_line(&report, "warning: %s",
                "\xc2\x9b"
                "2J\xe2\x80\xae");
    report_block(&report, "  a  failed: \xc2\x9b\x33[2K\xe2\x80\xae\n");
    (void)fclose(report.stream);
    report_release(&report);
    assert_string_equal(text, "warning:  2J \n  a  failed:  3[2K \n");
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_moves_the_cursor_or_turns_text_becomes_a_blank),
        cmocka_unit_test(a_report_leaves_the_terminal_alone),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
