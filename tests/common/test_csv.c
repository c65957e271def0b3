/* SPDX-License-Identifier: Apache-2.0 */
#include "muster/csv.h"
#include "test.h"

static void fields_are_quoted_where_they_must_be(void **state)
{
    static const struct {
        const char *text, *field;
    } cases[] = {
        {"", ","},
        {"plain text", "plain text,"},
        {"a,b", "\"a,b\","},
        {"say \"x\"", "\"say \"\"x\"\"\","},
        {"two\r\nlines", "\"two  lines\","},
        {"tab\there\x7f", "tab here ,"},
        {"=1+2", "\"'=1+2\","},
        {"+1", "\"'+1\","},
        {"-a\"", "\"'-a\"\"\","},
        {"@x", "\"'@x\","},
        {"a=b", "a=b,"},
    };

    (void)state;
    for (size_t i = 0; i < MST_ARRAY_COUNT(cases); i++) {
        mst_cleanup(mst_buf_release) struct mst_buf row = MST_BUF_INIT(64);
        assert_int_equal(mst_csv_append(&row, cases[i].text, ','), 0);
        assert_string_equal(mst_buf_text(&row), cases[i].field);
    }
}

static void a_row_has_its_limit(void **state)
{
    mst_cleanup(mst_buf_release) struct mst_buf row = MST_BUF_INIT(4);

    (void)state;
    assert_int_equal(mst_csv_append(&row, "abc", '\n'), 0);
    assert_string_equal(mst_buf_text(&row), "abc\n");
    assert_int_equal(mst_csv_append(&row, "", ','), -EFBIG);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fields_are_quoted_where_they_must_be),
        cmocka_unit_test(a_row_has_its_limit),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
