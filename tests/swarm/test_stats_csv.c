/* SPDX-License-Identifier: Apache-2.0 */
#include "../common/test.h"
#include "stats_csv.h"

static int add(struct stats_csv *stats, const char *text)
{
    cJSON *sample = cJSON_Parse(text);
    const int r = stats_csv_add(stats, sample, NULL);

    assert_non_null(sample);
    cJSON_Delete(sample);
    return r;
}

#define HEADER                                                                                               \
    "time,node,stack,service,slot,container,name,cpu_percent,cpu_seconds_total,memory_bytes,memory_limit_"   \
    "bytes,rx_bytes,"                                                                                        \
    "tx_bytes,rx_packets,tx_packets\n"

static void samples_become_rows_with_rates(void **state)
{
    mst_cleanup(stats_csv_freep) struct stats_csv *stats = NULL;
    mst_cleanup(mst_buf_release) struct mst_buf text = MST_BUF_INIT(65536);
    char path[320];

    test_path(*state, "stats.csv", path);
    assert_int_equal(stats_csv_new(path, "st", &stats, NULL), 0);
    assert_int_equal(access(path, F_OK), -1); /* it appears whole */
    assert_int_equal(
        add(stats,
            "{\"t\":10.5,\"stack\":\"st\",\"node\":\"n,1\",\"service\":\"st_w\",\"task_slot\":\"1\","
            "\"container\":\"c1\",\"name\":\"=x\\\"y\",\"cpu_ns\":1000000000,\"memory_bytes\":5,"
            "\"memory_limit_bytes\":6,\"rx_bytes\":1,\"tx_bytes\":2,\"rx_packets\":3,\"tx_packets\":4}"),
        0);
    assert_int_equal(add(stats, "{\"t\":11.5,\"stack\":\"st\",\"container\":\"c1\",\"cpu_ns\":1500000000}"),
                     0);
    assert_int_equal(add(stats, "{\"t\":12.5,\"stack\":\"st\",\"container\":\"c1\",\"cpu_ns\":100}"),
                     0); /* started again */
    assert_int_equal(add(stats, "{\"t\":12.5,\"stack\":\"st\",\"container\":\"c2\",\"cpu_ns\":7}"), 0);
    assert_int_equal(add(stats, "{\"t\":13,\"stack\":\"other\",\"container\":\"c3\",\"cpu_ns\":7}"), 0);
    assert_int_equal(add(stats, "{\"stack\":\"st\",\"container\":\"c1\"}"), 0);
    assert_int_equal(add(stats, "{\"t\":14,\"stack\":\"st\"}"), 0);
    assert_int_equal(stats_csv_rows(stats), 4);
    assert_int_equal(stats_csv_commit(stats, NULL), 0);
    assert_int_equal(mst_file_read(path, &text, NULL), 0);
    assert_string_equal(mst_buf_text(&text),
                        HEADER "10.500,\"n,1\",st,st_w,1,c1,\"'=x\"\"y\",,1.000000000,5,6,1,2,3,4\n"
                               "11.500,,st,,,c1,,50.00,1.500000000,,,,,,\n"
                               "12.500,,st,,,c1,,,0.000000100,,,,,,\n"
                               "12.500,,st,,,c2,,,0.000000007,,,,,,\n");
}

static void without_samples_there_is_no_file(void **state)
{
    const struct test_folder *folder = *state;
    struct stats_csv *stats = NULL;
    char path[320];

    test_path(folder, "stats.csv", path);
    assert_int_equal(stats_csv_new(path, "st", &stats, NULL), 0);
    assert_int_equal(stats_csv_commit(stats, NULL), 0);
    stats_csv_free(stats);
    assert_int_equal(test_entries(folder->path), 0);
}

static void without_commit_nothing_is_left(void **state)
{
    const struct test_folder *folder = *state;
    struct stats_csv *stats = NULL;
    char path[320];

    test_path(folder, "stats.csv", path);
    assert_int_equal(stats_csv_new(path, "st", &stats, NULL), 0);
    assert_int_equal(add(stats, "{\"t\":10.5,\"stack\":\"st\",\"container\":\"c1\"}"), 0);
    assert_int_equal(test_entries(folder->path), 0); /* nor when we are killed */
    stats_csv_free(stats);
    assert_int_equal(test_entries(folder->path), 0);
}

static void a_folder_that_cannot_be_written_is_known_at_once(void **state)
{
    struct stats_csv *stats = NULL;
    struct mst_error err = MST_ERROR_INIT;

    (void)state;
    assert_true(stats_csv_new("/nowhere/at/all/stats.csv", "st", &stats, &err) < 0);
    assert_null(stats);
    assert_non_null(strstr(err.text, "/nowhere/at/all"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(samples_become_rows_with_rates, test_folder_setup,
                                        test_folder_teardown),
        cmocka_unit_test_setup_teardown(without_samples_there_is_no_file, test_folder_setup,
                                        test_folder_teardown),
        cmocka_unit_test_setup_teardown(without_commit_nothing_is_left, test_folder_setup,
                                        test_folder_teardown),
        cmocka_unit_test(a_folder_that_cannot_be_written_is_known_at_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
