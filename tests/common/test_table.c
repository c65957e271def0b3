/* SPDX-License-Identifier: Apache-2.0 */
#include "muster/table.h"
#include "test.h"

static void columns_line_up_by_code_points(void **state)
{
    (void)state;
    struct mst_table *table = NULL;
    char *text = NULL;
    size_t bytes = 0;
    assert_int_equal(mst_table_new("NODE|>CPU %|NOTE", &table, NULL), 0);
    assert_int_equal(mst_table_rows(table), 0);
    static const char *const cells[] = {"n1", "3.5", "first", "caf\u00e9-noir", "100.0", "", "x"};
    for (size_t c = 0; c < MST_ARRAY_COUNT(cells); c++)
        assert_int_equal(mst_table_cell(table, "%s", cells[c]), 0);
    assert_int_equal(mst_table_rows(table), 2); /* the third is not full */

    FILE *stream = open_memstream(&text, &bytes);
    assert_int_equal(mst_table_print(table, stream), 0);
    (void)fclose(stream);
    assert_string_equal(text, "NODE       CPU %  NOTE\n"
                              "n1           3.5  first\n"
                              "caf\u00e9-noir  100.0\n"
                              "x\n");
    free(text);
    mst_table_free(table);
}

static void headings_alone_make_a_table(void **state)
{
    (void)state;
    struct mst_table *table = NULL;
    char *text = NULL;
    size_t bytes = 0;
    assert_int_equal(mst_table_new("A|B", &table, NULL), 0);
    FILE *stream = open_memstream(&text, &bytes);
    assert_int_equal(mst_table_print(table, stream), 0);
    (void)fclose(stream);
    assert_string_equal(text, "A  B\n");
    free(text);
    mst_table_free(table);
    mst_table_free(NULL);
}

static void too_many_columns_are_refused(void **state)
{
    (void)state;
    struct mst_table *table = NULL;
    char headings[80];
    for (size_t columns = 32; columns <= 33; columns++) {
        memset(headings, '|', columns - 1);
        headings[columns - 1] = '\0';
        const int r = mst_table_new(headings, &table, NULL);
        assert_int_equal(r, columns > 32 ? -EINVAL : 0);
        if (r == 0) {
            mst_table_free(table);
            table = NULL;
        }
        assert_null(table);
    }
}

static void many_rows_are_kept_and_a_full_disk_is_told(void **state)
{
    (void)state;
    struct mst_table *table = NULL;
    assert_int_equal(mst_table_new("A|>B", &table, NULL), 0);
    for (int row = 0; row < 1000; row++) {
        assert_int_equal(mst_table_cell(table, "row %d", row), 0);
        assert_int_equal(mst_table_cell(table, "%d", row * row), 0);
    }
    assert_int_equal(mst_table_rows(table), 1000);
    FILE *full = fopen("/dev/full", "w");
    assert_non_null(full);
    assert_int_equal(mst_table_print(table, full), -EIO);
    (void)fclose(full);
    mst_table_free(table);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(columns_line_up_by_code_points),
        cmocka_unit_test(headings_alone_make_a_table),
        cmocka_unit_test(too_many_columns_are_refused),
        cmocka_unit_test(many_rows_are_kept_and_a_full_disk_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
