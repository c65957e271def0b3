/* SPDX-License-Identifier: Apache-2.0 */
#include "../common/test.h"
#include "csvread.h"

#include <math.h>

static int load(void **state, const char *text, struct csvread *csv, struct mst_error *err)
{
    char path[320];

    test_write(test_path(*state, "a.csv", path), text, strlen(text));
    return csvread_load(path, 1 << 16, csv, err);
}

static void fields_and_quotes_are_read(void **state)
{
    mst_cleanup(csvread_release) struct csvread csv = {0};
    size_t column;
    double value = 7;

    assert_int_equal(load(state, "a,\"b,c\",d\r\n1,\"x \"\"y\"\", z\",'=2\n,\"\",'tis", &csv, NULL), 0);
    assert_int_equal(csv.columns, 3);
    assert_int_equal(csv.rows, 2);
    assert_int_equal(csvread_column(&csv, "b,c", &column, NULL), 0);
    assert_int_equal(column, 1);
    assert_string_equal(csvread_text(&csv, 0, 1), "x \"y\", z");
    assert_string_equal(csvread_text(&csv, 0, 2), "=2"); /* the mark against formulas is off again */
    assert_string_equal(csvread_text(&csv, 1, 2), "'tis");
    assert_int_equal(csvread_number(&csv, 0, 0, 0, 10, false, &value, NULL), 0);
    assert_true(value == 1);
    assert_int_equal(csvread_number(&csv, 1, 0, 0, 10, true, &value, NULL), 0);
    assert_true(isnan(value));
}

static void errors_name_file_line_and_column(void **state)
{
    static const struct {
        const char *text, *word;
    } cases[] = {
        {"", "the file is empty"},
        {"a,b\n1\n", "a.csv:2: 1 fields, expected 2"},
        {"a\n1\n1,2\n", "a.csv:3: 2 fields, expected 1"},
        {"a\n\"1\n", "a.csv:2: quotes"},
        {"a\n\"1\"x\n", "a.csv:2: quotes"},
    };
    struct csvread csv = {0};
    struct mst_error err = MST_ERROR_INIT;
    double value = 7;

    for (size_t i = 0; i < MST_ARRAY_COUNT(cases); i++) {
        assert_int_equal(load(state, cases[i].text, &csv, &err), -EBADMSG);
        if (!strstr(err.text, cases[i].word))
            fail_msg("'%s' has not '%s' in it", err.text, cases[i].word);
        assert_null(csv.text);
    }
    assert_int_equal(load(state, "n,m\n1,\nx,9\n", &csv, &err), 0);
    assert_int_equal(csvread_number(&csv, 1, 0, 0, 10, false, &value, &err), -EBADMSG);
    assert_non_null(strstr(err.text, "a.csv:3: n: "));
    assert_int_equal(csvread_number(&csv, 0, 1, 0, 10, false, &value, &err), -EBADMSG);
    assert_int_equal(csvread_number(&csv, 1, 1, 0, 8, false, &value, &err), -EBADMSG);
    assert_true(value == 7);
    size_t column = 7;
    assert_int_equal(csvread_column(&csv, "q", &column, &err), -EBADMSG);
    assert_true(column == 7 && strstr(err.text, "no column 'q'"));
    csvread_release(&csv);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(fields_and_quotes_are_read, test_folder_setup, test_folder_teardown),
        cmocka_unit_test_setup_teardown(errors_name_file_line_and_column, test_folder_setup,
                                        test_folder_teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
