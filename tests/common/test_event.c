/* SPDX-License-Identifier: Apache-2.0 */
#include "muster/event.h"
#include "muster/json.h"
#include "test.h"

#include <signal.h>

static void an_event_is_one_line_of_json_with_its_speaker(void **state)
{
    (void)state;
    struct mst_event_sink sink;
    int fds[2];
    char line[MST_EVENT_MAX_BYTES + 1];
    assert_int_equal(pipe(fds), 0);
    assert_int_equal(mst_event_sink_init(&sink, fds[1], "w1.1", NULL), 0);
    cJSON *event = mst_event_new(&sink, "done");
    assert_non_null(cJSON_AddStringToObject(event, "text", "two\nlines \x1b \"quoted\""));
    assert_int_equal(mst_event_emit(&sink, event), 0);
    const ssize_t count = read(fds[0], line, sizeof line - 1);
    assert_true(count > 0);
    line[count] = '\0';
    assert_true(test_is_one_line(line));
    mst_cleanup(mst_json_deletep) cJSON *json = NULL;
    assert_int_equal(mst_json_parse(line, (size_t)count, "event", &json, NULL), 0);
    assert_string_equal(mst_json_string_or(json, "event", ""), "done");
    assert_string_equal(mst_json_string_or(json, "slot", ""), "w1.1");
    assert_string_equal(mst_json_string_or(json, "text", ""), "two\nlines \x1b \"quoted\"");
    assert_true(mst_json_double_or(json, "t", 0) > 1.6e9);
    mst_event_sink_release(&sink);
    (void)close(fds[0]);
    (void)close(fds[1]);
}

/* With `padding` bytes more than the empty text needs. */
static int emit_padded(struct mst_event_sink *sink, size_t padding)
{
    cJSON *event = mst_event_new(sink, "e");
    cJSON_ReplaceItemInObject(event, "t", cJSON_CreateNumber(1)); /* of known length */
    mst_cleanup(mst_freep) char *text = calloc(1, padding + 1);
    memset(text, 'p', padding);
    assert_non_null(cJSON_AddStringToObject(event, "p", text));
    return mst_event_emit(sink, event);
}

static void a_line_that_is_too_long_is_not_written(void **state)
{
    (void)state;
    const size_t rest = strlen("{\"event\":\"e\",\"t\":1,\"slot\":\"s\",\"p\":\"\"}\n");
    struct mst_event_sink sink;
    FILE *file = tmpfile();
    struct stat status;
    assert_non_null(file);
    assert_int_equal(mst_event_sink_init(&sink, fileno(file), "s", NULL), 0);
    assert_int_equal(emit_padded(&sink, MST_EVENT_MAX_BYTES - rest + 1), -EMSGSIZE);
    assert_int_equal(fstat(fileno(file), &status), 0);
    assert_int_equal(status.st_size, 0);
    assert_int_equal(emit_padded(&sink, MST_EVENT_MAX_BYTES - rest), 0);
    assert_int_equal(fstat(fileno(file), &status), 0);
    assert_int_equal(status.st_size, MST_EVENT_MAX_BYTES);
    mst_event_sink_release(&sink);
    (void)fclose(file);
}

static void a_sink_without_reader_or_descriptor_does_not_stop_anybody(void **state)
{
    (void)state;
    struct mst_event_sink sink;
    int fds[2];
    assert_int_equal(mst_event_sink_init(&sink, -1, "s", NULL), 0);
    assert_int_equal(mst_event_emit(&sink, mst_event_new(&sink, "e")), 0);
    assert_int_equal(mst_event_emit(&sink, NULL), -ENOMEM);
    mst_event_sink_release(&sink);

    void (*handler)(int) = signal(SIGPIPE, SIG_IGN);
    assert_int_equal(pipe(fds), 0);
    (void)close(fds[0]);
    assert_int_equal(mst_event_sink_init(&sink, fds[1], "s", NULL), 0);
    assert_int_equal(mst_event_emit(&sink, mst_event_new(&sink, "e")), -EPIPE);
    mst_event_sink_release(&sink);
    (void)close(fds[1]);
    (void)signal(SIGPIPE, handler);
}

static void a_reader_that_takes_nothing_does_not_stop_a_sink_that_has_no_more_patience(void **state)
{
    (void)state;
    struct mst_event_sink sink;
    int fds[2];
    char bytes[4096];
    assert_int_equal(pipe(fds), 0);
    assert_int_equal(fcntl(fds[0], F_SETFL, O_NONBLOCK), 0);
    assert_int_equal(mst_event_sink_init(&sink, fds[1], "s", NULL), 0);
    sink.patience_ms = 20;
    test_fill_pipe(fds[1]);
    for (int round = 0; round < 3; round++)
        assert_int_equal(mst_event_emit(&sink, mst_event_new(&sink, "lost")), -ETIMEDOUT);
    while (read(fds[0], bytes, sizeof bytes) > 0)
        ;
    assert_int_equal(mst_event_emit(&sink, mst_event_new(&sink, "told")), 0);
    const ssize_t got = read(fds[0], bytes, sizeof bytes - 1);
    assert_true(got > 0);
    bytes[got] = '\0';
    assert_non_null(strstr(bytes, "\"told\""));
    mst_event_sink_release(&sink);
    (void)close(fds[0]);
    (void)close(fds[1]);
}

static void a_slot_that_is_too_long_is_refused(void **state)
{
    (void)state;
    struct mst_event_sink sink = {.fd = 7};
    char slot[129];
    memset(slot, 's', sizeof slot);
    slot[128] = '\0';
    assert_int_equal(mst_event_sink_init(&sink, 1, slot, NULL), -EINVAL);
    assert_int_equal(sink.fd, 7);
    slot[127] = '\0';
    assert_int_equal(mst_event_sink_init(&sink, 1, slot, NULL), 0);
    mst_event_sink_release(&sink);
}

struct writer {
    struct mst_event_sink *sink;
    size_t padding;
};

static void *write_events(void *context)
{
    const struct writer *writer = context;
    for (int i = 0; i < 200; i++)
        (void)emit_padded(writer->sink, writer->padding);
    return NULL;
}

static void lines_of_several_threads_do_not_mix(void **state)
{
    (void)state;
    struct mst_event_sink sink;
    FILE *file = tmpfile();
    pthread_t threads[4];
    struct writer writers[4];
    assert_non_null(file);
    assert_int_equal(mst_event_sink_init(&sink, fileno(file), "s", NULL), 0);
    for (size_t t = 0; t < 4; t++) {
        writers[t] = (struct writer){&sink, 1000 * t};
        assert_int_equal(pthread_create(&threads[t], NULL, write_events, &writers[t]), 0);
    }
    for (size_t t = 0; t < 4; t++)
        assert_int_equal(pthread_join(threads[t], NULL), 0);
    rewind(file);
    char line[MST_EVENT_MAX_BYTES + 1];
    size_t lines = 0;
    while (fgets(line, sizeof line, file)) {
        mst_cleanup(mst_json_deletep) cJSON *json = NULL;
        assert_int_equal(mst_json_parse(line, strlen(line), "event", &json, NULL), 0);
        assert_int_equal(strlen(mst_json_string_or(json, "p", "")) % 1000, 0);
        lines++;
    }
    assert_int_equal(lines, 800);
    mst_event_sink_release(&sink);
    (void)fclose(file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_event_is_one_line_of_json_with_its_speaker),
        cmocka_unit_test(a_line_that_is_too_long_is_not_written),
        cmocka_unit_test(a_sink_without_reader_or_descriptor_does_not_stop_anybody),
        cmocka_unit_test(a_reader_that_takes_nothing_does_not_stop_a_sink_that_has_no_more_patience),
        cmocka_unit_test(a_slot_that_is_too_long_is_refused),
        cmocka_unit_test(lines_of_several_threads_do_not_mix),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
