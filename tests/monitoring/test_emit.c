/* SPDX-License-Identifier: Apache-2.0 */
#include "muster/cleanup.h"
#include "muster/json.h"
#include "test.h"

#include <fcntl.h>

struct fixture {
    int fds[2];
    struct mst_event_sink sink;
    struct monitor_emit emit;
    struct monitor_output output;
};

static void begin(struct fixture *f)
{
    assert_int_equal(pipe2(f->fds, O_CLOEXEC | O_NONBLOCK), 0);
    assert_int_equal(mst_event_sink_init(&f->sink, f->fds[1], "web_monitor.1", NULL), 0);
    monitor_emit_init(&f->emit, &f->sink, "node1", -1);
    f->emit.machine_bytes = 8000;
    f->output = monitor_emit_output(&f->emit);
}

/* What came out, parsed; NULL when nothing did. The caller deletes it. */
static cJSON *end(struct fixture *f)
{
    char text[MST_EVENT_MAX_BYTES + 1];
    const ssize_t got = read(f->fds[0], text, sizeof text);
    cJSON *json = NULL;
    if (got > 0) {
        assert_int_equal(text[got - 1], '\n');
        assert_ptr_equal(memchr(text, '\n', (size_t)got), text + got - 1); /* one line */
        assert_int_equal(mst_json_parse(text, (size_t)got, "event", &json, NULL), 0);
    }
    mst_event_sink_release(&f->sink);
    assert_int_equal(close(f->fds[0]) + close(f->fds[1]), 0);
    return json;
}

static void an_event_holds_names_and_raw_counters(void **state)
{
    const struct monitor_container task = {
        .id = CONTAINER_ID, .name = "web_w.2.m8ad", .stack = "web", .service = "web_w", .slot = "web_w.2"};
    const struct monitor_sample sample = {.container = &task,
                                          .wall_s = 1700000000.2504,
                                          .read_ns = 123456789,
                                          .groups = ~0U,
                                          .cpu_ns = 5500000000,
                                          .memory_usage_bytes = 1000,
                                          .memory_inactive_file_bytes = 100,
                                          .rx_bytes = 1,
                                          .tx_packets = 4};
    struct fixture f;
    uint64_t value;
    (void)state;
    begin(&f);
    assert_int_equal(f.output.sample(f.output.context, &sample, NULL, NULL), 0);
    assert_int_equal(f.output.flush(f.output.context, NULL), 0);
    mst_cleanup(mst_json_deletep) cJSON *event = end(&f);
    assert_string_equal(mst_json_string_or(event, "event", ""), "sample");
    assert_string_equal(mst_json_string_or(event, "slot", ""), "web_monitor.1");
    assert_string_equal(mst_json_string_or(event, "node", ""), "node1");
    assert_string_equal(mst_json_string_or(event, "container", ""), CONTAINER_ID);
    assert_string_equal(mst_json_string_or(event, "stack", ""), "web");
    assert_string_equal(mst_json_string_or(event, "service", ""), "web_w");
    assert_string_equal(mst_json_string_or(event, "task_slot", ""), "web_w.2");
    assert_true(mst_json_double_or(event, "t", 0) == 1700000000.25); /* of reading, in whole milliseconds */
    static const struct {
        const char *key;
        uint64_t value;
    } numbers[] = {{"cpu_ns", 5500000000},
                   {"memory_bytes", 900},
                   {"memory_usage_bytes", 1000},
                   {"memory_limit_bytes", 8000},
                   {"rx_bytes", 1},
                   {"tx_bytes", 0},
                   {"tx_packets", 4},
                   {"read_ns", 123456789}};
    for (size_t i = 0; i < MST_ARRAY_COUNT(numbers); i++) {
        assert_int_equal(mst_json_get_u64(event, numbers[i].key, 0, UINT32_MAX * 2ULL, "event", &value, NULL),
                         0);
        assert_true(value == numbers[i].value);
    }
}

static void what_was_not_read_is_not_in_the_event(void **state)
{
    const struct monitor_container task = {.id = CONTAINER_ID};
    const struct monitor_sample sample = {.container = &task, .groups = MONITOR_CPU, .cpu_ns = 1};
    struct fixture f;
    (void)state;
    begin(&f);
    assert_int_equal(f.output.sample(f.output.context, &sample, NULL, NULL), 0);
    mst_cleanup(mst_json_deletep) cJSON *event = end(&f);
    assert_non_null(mst_json_at(event, "cpu_ns", NULL));
    assert_null(mst_json_at(event, "rx_bytes", NULL));
    assert_null(mst_json_at(event, "memory_bytes", NULL));
    assert_null(mst_json_at(event, "memory_limit_bytes", NULL));
    assert_null(mst_json_at(event, "io_read_bytes", NULL));
}

static void large_counters_keep_every_digit(void **state)
{
    const struct monitor_container task = {.id = CONTAINER_ID};
    const struct monitor_sample sample = {
        .container = &task, .groups = MONITOR_CPU, .cpu_ns = 9007199254740993}; /* 2^53 + 1 */
    struct fixture f;
    char text[MST_EVENT_MAX_BYTES + 1] = "";
    (void)state;
    begin(&f);
    assert_int_equal(f.output.sample(f.output.context, &sample, NULL, NULL), 0);
    assert_true(read(f.fds[0], text, sizeof text - 1) > 0);
    assert_non_null(strstr(text, "\"cpu_ns\":9007199254740993"));
    cJSON_Delete(end(&f));
}

static void names_that_make_too_long_a_line_cost_that_sample_only(void **state)
{
    struct monitor_container task = {.id = CONTAINER_ID};
    const struct monitor_sample sample = {.container = &task, .groups = MONITOR_CPU, .cpu_ns = 1};
    struct fixture f;
    (void)state;
    memset(task.stack, 1, sizeof task.stack - 1); /* six bytes each in JSON */
    memset(task.service, 1, sizeof task.service - 1);
    memset(task.slot, 1, sizeof task.slot - 1);
    begin(&f);
    assert_int_equal(f.output.sample(f.output.context, &sample, NULL, NULL), 0);
    assert_true(f.emit.oversized == 1);
    task.stack[0] = task.service[0] = task.slot[0] = '\0';
    assert_int_equal(f.output.sample(f.output.context, &sample, NULL, NULL), 0);
    mst_cleanup(mst_json_deletep) cJSON *event = end(&f);
    assert_non_null(event);
}

static void a_full_pipe_gives_way_to_the_stop_descriptor(void **state)
{
    const struct monitor_container task = {.id = CONTAINER_ID};
    const struct monitor_sample sample = {.container = &task, .groups = MONITOR_CPU, .cpu_ns = 1};
    struct fixture f;
    int stop[2];
    char filler[4096] = {0};
    (void)state;
    begin(&f);
    assert_int_equal(pipe2(stop, O_CLOEXEC), 0);
    assert_int_equal(write(stop[1], "x", 1), 1);
    f.emit.stop_fd = stop[0];
    while (write(f.fds[1], filler, sizeof filler) > 0)
        continue;
    assert_int_equal(f.output.sample(f.output.context, &sample, NULL, NULL), -ECANCELED);
    mst_event_sink_release(&f.sink);
    assert_int_equal(close(f.fds[0]) + close(f.fds[1]) + close(stop[0]) + close(stop[1]), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_event_holds_names_and_raw_counters),
        cmocka_unit_test(what_was_not_read_is_not_in_the_event),
        cmocka_unit_test(large_counters_keep_every_digit),
        cmocka_unit_test(names_that_make_too_long_a_line_cost_that_sample_only),
        cmocka_unit_test(a_full_pipe_gives_way_to_the_stop_descriptor),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
