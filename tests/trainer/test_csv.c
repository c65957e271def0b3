/* SPDX-License-Identifier: Apache-2.0 */
#include "csv.h"
#include "helpers.h"
#include "muster/cleanup.h"
#include "text_files.h"

/* Rows with '|' between fields and '/' behind each row, as read. */
static int read_all(void **state, const char *text, size_t bytes, char *ret_rows, struct mst_error *err)
{
    mst_cleanup(csv_release) struct csv_reader reader = {0};
    char path[512];

    text_write(state, "rows.csv", text, bytes, path, sizeof path);
    int r = csv_open(&reader, path, ',', err);
    ret_rows[0] = '\0';
    while (r >= 0 && (r = csv_next(&reader, err)) == 1) {
        for (size_t i = 0; i < reader.field_count; i++) {
            strcat(ret_rows, csv_field(&reader, i));
            strcat(ret_rows, i + 1 < reader.field_count ? "|" : "/");
        }
    }
    return r;
}

static void rows_and_fields_are_as_in_rfc_4180(void **state)
{
    static const struct {
        const char *text, *rows;
    } cases[] = {
        {"", ""},
        {"\n\r\n\n", ""},
        {"a,b\nc,d\n", "a|b/c|d/"},
        {"a,b\r\nc,d", "a|b/c|d/"},
        {"\xef\xbb\xbf"
         "a,b\n",
         "a|b/"},
        {"a\n\nb\n", "a/b/"},
        {",\n", "|/"},
        {"\"\"\n", "/"},
        {"\"a\",\"b\"\r\n\"c\"", "a|b/c/"},
        {"\"a,b\",\"c\"\"d\"\"\"\n", "a,b|c\"d\"/"},
        {"\"two\nlines\",x\n", "two\nlines|x/"},
        {" a , b \n", " a | b /"},
        {"a,\r\n", "a|/"},
        {"a\rb,c\n", "a\rb|c/"},
    };
    struct mst_error err = MST_ERROR_INIT;
    char rows[256];

    for (size_t i = 0; i < MST_ARRAY_COUNT(cases); i++) {
        if (read_all(state, cases[i].text, strlen(cases[i].text), rows, &err) < 0)
            fail_msg("case %zu: %s", i, err.text);
        assert_string_equal(rows, cases[i].rows);
    }
}

static void what_is_not_csv_is_refused_with_its_line(void **state)
{
    static const struct {
        const char *text, *says;
    } cases[] = {
        {"a,b\nc,\"d", "rows.csv:2: a quote is opened and never closed"},
        {"a\n\"b\nc\nd", "rows.csv:2: a quote is opened"},
        {"a,\"b\"c\n", "rows.csv:1: field 2: text behind the closing quote"},
        {"\"b\"\r,c\n", "rows.csv:1: field 1: text behind the closing quote"},
        {"x\n\ny,b\"c\n", "rows.csv:3: field 2: a quote within a field without quotes"},
    };
    struct mst_error err = MST_ERROR_INIT;
    char rows[256];

    for (size_t i = 0; i < MST_ARRAY_COUNT(cases); i++) {
        assert_int_equal(read_all(state, cases[i].text, strlen(cases[i].text), rows, &err), -EBADMSG);
        if (!strstr(err.text, cases[i].says))
            fail_msg("'%s' has no '%s'", err.text, cases[i].says);
    }
    assert_int_equal(read_all(state, "a,b\nc\0d\n", 8, rows, &err), -EBADMSG);
    assert_non_null(strstr(err.text, "rows.csv:2: a NUL byte: not a text file"));
}

static void rows_may_be_longer_than_what_is_read_at_once_but_not_without_end(void **state)
{
    const size_t longest = CSV_MAX_ROW_BYTES + 10;
    mst_cleanup(csv_release) struct csv_reader reader = {0};
    mst_cleanup(mst_freep) char *text = malloc(longest);
    struct mst_error err = MST_ERROR_INIT;
    char path[512], rows[16];

    assert_non_null(text);
    memset(text, 'x', longest);
    assert_int_equal(read_all(state, text, longest, rows, &err), -EBADMSG);
    assert_non_null(strstr(err.text, "rows.csv:1: a row of more than 4194304 bytes"));
    for (size_t i = 0; i < 200000; i++)
        text[i] = i % 20 == 19 ? '\n' : i % 4 == 3 ? ',' : 'y'; /* fields across the ends of what is read */
    text_write(state, "rows.csv", text, 200000, path, sizeof path);
    assert_int_equal(csv_open(&reader, path, ',', &err), 0);
    size_t count = 0;
    for (int r = csv_next(&reader, &err); r != 0; r = csv_next(&reader, &err), count++) {
        assert_int_equal(r, 1);
        assert_int_equal(reader.field_count, 5);
        assert_int_equal(reader.line, count + 1);
        assert_string_equal(csv_field(&reader, 4), "yyy");
    }
    assert_int_equal(count, 10000);
}

static void a_row_has_only_so_many_fields(void **state)
{
    mst_cleanup(mst_freep) char *text = malloc(CSV_MAX_FIELDS);
    mst_cleanup(csv_release) struct csv_reader reader = {0};
    struct mst_error err = MST_ERROR_INIT;
    char path[512];

    assert_non_null(text);
    memset(text, ',', CSV_MAX_FIELDS);
    text_write(state, "rows.csv", text, CSV_MAX_FIELDS - 1, path, sizeof path);
    assert_int_equal(csv_open(&reader, path, ',', &err), 0);
    assert_int_equal(csv_next(&reader, &err), 1);
    assert_int_equal(reader.field_count, CSV_MAX_FIELDS);
    csv_release(&reader);
    text_write(state, "rows.csv", text, CSV_MAX_FIELDS, path, sizeof path);
    assert_int_equal(csv_open(&reader, path, ',', &err), 0);
    assert_int_equal(csv_next(&reader, &err), -EBADMSG);
    assert_non_null(strstr(err.text, "more than 65536 fields"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(rows_and_fields_are_as_in_rfc_4180, helper_make_folder,
                                        helper_remove_folder),
        cmocka_unit_test_setup_teardown(what_is_not_csv_is_refused_with_its_line, helper_make_folder,
                                        helper_remove_folder),
        cmocka_unit_test_setup_teardown(rows_may_be_longer_than_what_is_read_at_once_but_not_without_end,
                                        helper_make_folder, helper_remove_folder),
        cmocka_unit_test_setup_teardown(a_row_has_only_so_many_fields, helper_make_folder,
                                        helper_remove_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
