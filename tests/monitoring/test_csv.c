/* SPDX-License-Identifier: Apache-2.0 */
#include "muster/cleanup.h"
#include "test.h"

#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>

#define HEADER                                                                                               \
    "time,node,stack,service,slot,container,name,cpu_percent,cpu_seconds_total,memory_bytes,"                \
    "memory_limit_bytes,rx_bytes,tx_bytes,rx_packets,tx_packets\n"

static char folder[64], path[128];

static int make_folder(void **state)
{
    (void)state;
    (void)snprintf(folder, sizeof folder, "/tmp/muster-csv-XXXXXX");
    if (!mkdtemp(folder))
        return -1;
    (void)snprintf(path, sizeof path, "%s/stats.csv", folder);
    return 0;
}

static int remove_folder(void **state)
{
    char command[128];
    (void)state;
    (void)snprintf(command, sizeof command, "rm -rf %s", folder);
    return system(command);
}

static void put(const char *text)
{
    FILE *file = fopen(path, "we");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static void expect(const char *text)
{
    mst_cleanup(mst_buf_release) struct mst_buf content = load(path);
    assert_string_equal(mst_buf_text(&content), text);
}

static const struct monitor_container task = {
    .id = CONTAINER_ID, .name = "web_w.2.m8ad", .stack = "web", .service = "web_w", .slot = "web_w.2"};

static struct monitor_sample full_sample(uint64_t read_ns, uint64_t cpu_ns)
{
    return (struct monitor_sample){.container = &task,
                                   .wall_s = 1700000000.25,
                                   .read_ns = read_ns,
                                   .groups =
                                       MONITOR_CPU | MONITOR_MEMORY | MONITOR_MEMORY_LIMIT | MONITOR_NETWORK,
                                   .cpu_ns = cpu_ns,
                                   .memory_usage_bytes = 1000,
                                   .memory_limit_bytes = 2000,
                                   .rx_bytes = 1,
                                   .tx_bytes = 2,
                                   .rx_packets = 3,
                                   .tx_packets = 4};
}

static void write_samples(const struct monitor_sample *samples, size_t count)
{
    struct monitor_csv csv;
    assert_int_equal(monitor_csv_open(&csv, path, "node1", -1, NULL), 0);
    csv.machine_bytes = 8000;
    const struct monitor_output output = monitor_csv_output(&csv);
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(output.sample(output.context, &samples[i], i > 0 ? &samples[i - 1] : NULL, NULL), 0);
        assert_int_equal(output.flush(output.context, NULL), 0);
    }
    monitor_csv_release(&csv);
}

#define ROW_START "1700000000.250,node1,web,web_w,web_w.2," CONTAINER_ID ",web_w.2.m8ad,"

static void the_first_row_has_no_cpu_percent_and_the_second_has(void **state)
{
    const struct monitor_sample samples[] = {full_sample(1000000000, 5500000000),
                                             full_sample(2000000000, 5750000001)};
    (void)state;
    write_samples(samples, 2);
    expect(HEADER ROW_START ",5.500000000,1000,2000,1,2,3,4\n" ROW_START
                            "25.00,5.750000001,1000,2000,1,2,3,4\n");
}

static void counters_that_begin_anew_leave_cpu_percent_empty(void **state)
{
    const struct monitor_sample samples[] = {full_sample(1000000000, 5500000000), full_sample(2000000000, 1)};
    (void)state;
    write_samples(samples, 2);
    expect(HEADER ROW_START ",5.500000000,1000,2000,1,2,3,4\n" ROW_START ",0.000000001,1000,2000,1,2,3,4\n");
}

static void what_was_not_read_is_empty_and_not_zero(void **state)
{
    struct monitor_sample sample = full_sample(1000000000, 5500000000);
    (void)state;
    sample.groups = MONITOR_MEMORY_LIMIT;
    sample.memory_limit_bytes = 0; /* none: the machine's */
    write_samples(&sample, 1);
    expect(HEADER ROW_START ",,,8000,,,,\n");
}

static void names_from_outside_cannot_break_a_row(void **state)
{
    struct monitor_container hostile = task;
    struct monitor_sample sample = full_sample(1000000000, 5500000000);
    (void)state;
    (void)snprintf(hostile.stack, sizeof hostile.stack, "%s", "a,\"b\"\r\nc\x1b[31m");
    sample.container = &hostile;
    write_samples(&sample, 1);
    expect(HEADER "1700000000.250,node1,\"a,\"\"b\"\"  c [31m\",web_w,web_w.2," CONTAINER_ID
                  ",web_w.2.m8ad,,5.500000000,1000,2000,1,2,3,4\n");
}

static void an_older_file_is_carried_on_with_one_header(void **state)
{
    static const struct {
        const char *before, *kept;
    } cases[] = {
        {"", ""},         /* header and row come */
        {HEADER, HEADER}, /* row comes */
        {HEADER "old,row\n", HEADER "old,row\n"},
        {HEADER "old,row\n17000", HEADER "old,row\n"}, /* a row that a crash tore */
        {"time,node,sta", ""},                         /* a header that a crash tore */
    };
    const struct monitor_sample sample = full_sample(1000000000, 5500000000);
    (void)state;
    for (size_t i = 0; i < MST_ARRAY_COUNT(cases); i++) {
        char expected[1024];
        put(cases[i].before);
        write_samples(&sample, 1);
        (void)snprintf(expected, sizeof expected, "%s" ROW_START ",5.500000000,1000,2000,1,2,3,4\n",
                       *cases[i].kept ? cases[i].kept : HEADER);
        expect(expected);
    }
}

static void a_file_of_something_else_is_refused_and_left_alone(void **state)
{
    static const char *const contents[] = {"my notes\n", "time,cpu\n1,2\n", "time,node,sta\n"};
    (void)state;
    for (size_t i = 0; i < MST_ARRAY_COUNT(contents); i++) {
        struct monitor_csv csv;
        struct mst_error err = MST_ERROR_INIT;
        put(contents[i]);
        assert_int_equal(monitor_csv_open(&csv, path, "node1", -1, &err), -EBADMSG);
        assert_non_null(strstr(err.text, path));
        monitor_csv_release(&csv);
        expect(contents[i]);
    }
}

static void two_recorders_do_not_write_to_one_file(void **state)
{
    struct monitor_csv first, second;
    (void)state;
    put("");
    assert_int_equal(monitor_csv_open(&first, path, "node1", -1, NULL), 0);
    assert_int_equal(monitor_csv_open(&second, path, "node1", -1, NULL), -EBUSY);
    monitor_csv_release(&second);
    monitor_csv_release(&first);
}

static void a_folder_that_is_not_there_is_named(void **state)
{
    struct monitor_csv csv;
    struct mst_error err = MST_ERROR_INIT;
    (void)state;
    assert_int_equal(monitor_csv_open(&csv, "/nonexistent/stats.csv", "node1", -1, &err), -ENOENT);
    assert_non_null(strstr(err.text, "/nonexistent/stats.csv"));
    monitor_csv_release(&csv);
}

static void a_full_disk_is_an_error(void **state)
{
    struct monitor_csv csv;
    struct mst_error err = MST_ERROR_INIT;
    const struct monitor_sample sample = full_sample(1000000000, 5500000000);
    (void)state;
    assert_int_equal(monitor_csv_open(&csv, "/dev/full", "node1", -1, &err), 0);
    const struct monitor_output output = monitor_csv_output(&csv);
    assert_int_equal(output.sample(output.context, &sample, NULL, &err), 0);
    assert_int_equal(output.flush(output.context, &err), -ENOSPC);
    monitor_csv_release(&csv);
}

static void a_reader_that_does_not_read_does_not_keep_it_from_ending(void **state)
{
    struct monitor_csv csv;
    struct mst_error err = MST_ERROR_INIT;
    const struct monitor_sample sample = full_sample(1000000000, 5500000000);
    char fifo[160];
    int stop[2];
    (void)state;
    (void)snprintf(fifo, sizeof fifo, "%s/fifo", folder);
    assert_int_equal(mkfifo(fifo, 0600), 0);
    const int reader = open(fifo, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    assert_true(reader >= 0);
    assert_int_equal(pipe2(stop, O_CLOEXEC), 0);
    assert_int_equal(monitor_csv_open(&csv, fifo, "node1", stop[0], &err), 0);
    const struct monitor_output output = monitor_csv_output(&csv);
    for (int i = 0; i < 2000; i++) /* more than a pipe holds */
        assert_int_equal(output.sample(output.context, &sample, NULL, &err), 0);
    assert_int_equal(write(stop[1], "x", 1), 1);
    assert_int_equal(output.flush(output.context, &err), -ECANCELED);
    monitor_csv_release(&csv);
    assert_int_equal(close(reader) + close(stop[0]) + close(stop[1]), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_first_row_has_no_cpu_percent_and_the_second_has, make_folder,
                                        remove_folder),
        cmocka_unit_test_setup_teardown(counters_that_begin_anew_leave_cpu_percent_empty, make_folder,
                                        remove_folder),
        cmocka_unit_test_setup_teardown(what_was_not_read_is_empty_and_not_zero, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(names_from_outside_cannot_break_a_row, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(an_older_file_is_carried_on_with_one_header, make_folder,
                                        remove_folder),
        cmocka_unit_test_setup_teardown(a_file_of_something_else_is_refused_and_left_alone, make_folder,
                                        remove_folder),
        cmocka_unit_test_setup_teardown(two_recorders_do_not_write_to_one_file, make_folder, remove_folder),
        cmocka_unit_test(a_folder_that_is_not_there_is_named),
        cmocka_unit_test(a_full_disk_is_an_error),
        cmocka_unit_test_setup_teardown(a_reader_that_does_not_read_does_not_keep_it_from_ending, make_folder,
                                        remove_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
