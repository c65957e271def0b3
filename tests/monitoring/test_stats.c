/* SPDX-License-Identifier: Apache-2.0 */
#include "passes.h"
#include "stats.h"

static struct mst_buf print(const struct stats_row *rows, size_t count, const struct stats_options *options)
{
    struct mst_buf text = MST_BUF_INIT(1 << 16);
    assert_int_equal(stats_print(rows, count, options, &text, NULL), 0);
    return text;
}

static const struct stats_row row = {.id = CONTAINER_ID,
                                     .name = "web.1",
                                     .has_cpu = true,
                                     .has_memory = true,
                                     .has_limit = true,
                                     .has_net = true,
                                     .has_block = true,
                                     .has_pids = true,
                                     .cpu_percent = 12.345,
                                     .memory_bytes = 1572864,
                                     .limit_bytes = 67108864,
                                     .rx_bytes = 1500,
                                     .tx_bytes = 999600,
                                     .read_bytes = 0,
                                     .write_bytes = 123456789,
                                     .pids = 3};

static void the_table_is_dockers(void **state)
{
    struct mst_buf text = print(&row, 1, &(struct stats_options){0});
    (void)state;
    assert_string_equal(
        text.bytes,
        "CONTAINER ID   NAME    CPU %    MEM USAGE / LIMIT   MEM %   NET I/O           BLOCK I/O    PIDS\n"
        "26f91112ae3e   web.1   12.35%   1.5MiB / 64MiB      2.34%   1.5kB / 1e+03kB   0B / 123MB   3\n");
    mst_buf_release(&text);
}

static void json_has_dockers_keys_in_their_order(void **state)
{
    struct mst_buf text = print(&row, 1, &(struct stats_options){.format = "json"});
    (void)state;
    assert_string_equal(text.bytes,
                        "{\"BlockIO\":\"0B / 123MB\",\"CPUPerc\":\"12.35%\",\"Container\":\"26f91112ae3e\","
                        "\"ID\":\"26f91112ae3e\",\"MemPerc\":\"2.34%\",\"MemUsage\":\"1.5MiB / 64MiB\","
                        "\"Name\":\"web.1\",\"NetIO\":\"1.5kB / 1e+03kB\",\"PIDs\":\"3\"}\n");
    mst_buf_release(&text);
}

static void templates_are_filled_in(void **state)
{
    (void)state;
    struct mst_buf text =
        print(&row, 1, &(struct stats_options){.format = "{{.Name}}: {{ .CPUPerc }}\\t{{.PIDs}}"});
    assert_string_equal(text.bytes, "web.1: 12.35%\t3\n");
    mst_buf_release(&text);
    text = print(
        &row, 1,
        &(struct stats_options){.format = "table {{.Container}}\\t{{.MemPerc}}", .with_full_ids = true});
    assert_non_null(strstr(text.bytes, "CONTAINER  "));
    assert_non_null(strstr(text.bytes, CONTAINER_ID "   2.34%\n"));
    mst_buf_release(&text);
}

static void wrong_templates_are_refused(void **state)
{
    static const char *const cases[] = {"{{.Nme}}", "{{.Name", "{{Name}}", "table {{.}}", "{{}}"};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct mst_buf text = MST_BUF_INIT(1 << 16);
        struct mst_error err = MST_ERROR_INIT;
        assert_int_equal(stats_print(&row, 1, &(struct stats_options){.format = cases[i]}, &text, &err),
                         -EINVAL);
        assert_non_null(strstr(err.text, "{{.CPUPerc}}"));
        mst_buf_release(&text);
    }
}

static void what_is_not_known_is_two_dashes(void **state)
{
    const struct stats_row unknown = {.id = CONTAINER_ID};
    struct mst_buf text = print(&unknown, 1,
                                &(struct stats_options){.format = "{{.Name}} {{.CPUPerc}} {{.MemUsage}} "
                                                                  "{{.MemPerc}} {{.NetIO}} {{.PIDs}}"});
    (void)state;
    assert_string_equal(text.bytes, "-- -- -- / -- -- -- --\n");
    mst_buf_release(&text);
}

static void units_are_dockers(void **state)
{
    static const struct {
        double bytes;
        const char *binary, *decimal;
    } cases[] = {{0, "0B", "0B"},          {999, "999B", "999B"},       {1024, "1KiB", "1.02kB"},
                 {1e9, "953.7MiB", "1GB"}, {1048576, "1MiB", "1.05MB"}, {25276510208, "23.54GiB", "25.3GB"}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[32];
        stats_binary(cases[i].bytes, text);
        assert_string_equal(text, cases[i].binary);
        stats_decimal(cases[i].bytes, text);
        assert_string_equal(text, cases[i].decimal);
    }
}

static void rows_are_sorted_and_summed_by_service(void **state)
{
    static struct made_pass made;
    struct stats_row *rows = NULL;
    size_t count = 0;
    (void)state;
    make_pass(&made, 4, 1);
    make_pass(&made, 4, 1);
    for (size_t i = 1; i < 4; i++) {
        made.before[i] = made.samples[i];
        made.before[i].read_ns -= 1000000000;
        made.before[i].cpu_ns -= i * 100000000 > made.samples[i].cpu_ns ? made.samples[i].cpu_ns : i * 1000;
        made.samples[i].memory_inactive_file_bytes = 0;
    }
    assert_int_equal(stats_rows(&made.pass, &(struct stats_options){.is_sorted = true, .sort = STATS_NAME},
                                &rows, &count, NULL),
                     0);
    assert_int_equal(count, 3); /* without the machine */
    assert_string_equal(rows[0].name, "web.1");
    assert_true(rows[0].has_cpu);
    const uint64_t memory = rows[0].memory_bytes + rows[1].memory_bytes + rows[2].memory_bytes;
    free(rows);
    assert_int_equal(stats_rows(&made.pass, &(struct stats_options){.by_service = true}, &rows, &count, NULL),
                     0);
    assert_int_equal(count, 1);
    assert_string_equal(rows[0].name, "shop_web");
    assert_int_equal(rows[0].containers, 3);
    assert_true(rows[0].memory_bytes == memory);
    free(rows);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_table_is_dockers),
        cmocka_unit_test(json_has_dockers_keys_in_their_order),
        cmocka_unit_test(templates_are_filled_in),
        cmocka_unit_test(wrong_templates_are_refused),
        cmocka_unit_test(what_is_not_known_is_two_dashes),
        cmocka_unit_test(units_are_dockers),
        cmocka_unit_test(rows_are_sorted_and_summed_by_service),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
