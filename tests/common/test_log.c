/* SPDX-License-Identifier: Apache-2.0 */
#include "muster/json.h"
#include "muster/log.h"
#include "test.h"

#define OUTPUT_BYTES 65536

static void levels_choose_what_is_written(void **state)
{
    (void)state;
    static const enum mst_log_level levels[] = {MST_LOG_ERROR, MST_LOG_WARN, MST_LOG_INFO, MST_LOG_DEBUG};
    static const char *const names[] = {"error", "warn", "info", "debug"};
    for (size_t l = 0; l < MST_ARRAY_COUNT(levels); l++) {
        char text[OUTPUT_BYTES];
        struct test_capture capture;
        mst_log_init("prog", levels[l], MST_LOG_TEXT);
        test_capture_begin(&capture, STDERR_FILENO);
        for (size_t w = 0; w < MST_ARRAY_COUNT(levels); w++)
            mst_log(levels[w], "mod", "level %zu", w);
        (void)test_capture_end(&capture, text, sizeof text);
        for (size_t w = 0; w < MST_ARRAY_COUNT(levels); w++) {
            char part[64];
            (void)snprintf(part, sizeof part, "level=%s program=prog module=mod msg=\"level %zu\"\n",
                           names[w], w);
            assert_int_equal(strstr(text, part) != NULL, w <= l);
        }
    }
}

static void a_message_is_one_line_whatever_is_in_it(void **state)
{
    (void)state;
    static const enum mst_log_format formats[] = {MST_LOG_TEXT, MST_LOG_JSON};
    char worst[4000];
    memset(worst, 0x01, sizeof worst - 1);
    worst[sizeof worst - 1] = '\0';
    const char *const messages[] = {
        "", "a \"quoted\" \\ thing", "two\nlines\r", "\x1b[31mred\x7f", worst, "\xff\xfe"};
    for (size_t f = 0; f < MST_ARRAY_COUNT(formats); f++) {
        for (size_t m = 0; m < MST_ARRAY_COUNT(messages); m++) {
            char text[OUTPUT_BYTES];
            struct test_capture capture;
            mst_log_init("prog", MST_LOG_INFO, formats[f]);
            test_capture_begin(&capture, STDERR_FILENO);
            mst_log(MST_LOG_INFO, "mod", "%s", messages[m]);
            const size_t count = test_capture_end(&capture, text, sizeof text);
            assert_true(count > 20); /* not lost */
            assert_true(test_is_one_line(text));
            for (size_t i = 0; i + 1 < count; i++)
                assert_true((unsigned char)text[i] >= 0x20);
            if (formats[f] == MST_LOG_JSON && messages[m][0] != '\xff') {
                mst_cleanup(mst_json_deletep) cJSON *json = NULL;
                assert_int_equal(mst_json_parse(text, count, "line", &json, NULL), 0);
                assert_int_equal(strncmp(mst_json_string_or(json, "msg", "?"), messages[m], 2047), 0);
            }
        }
    }
}

static void a_failure_is_logged_at_any_level_and_keeps_its_code(void **state)
{
    (void)state;
    char text[OUTPUT_BYTES];
    struct test_capture capture;
    mst_log_init("prog", MST_LOG_ERROR, MST_LOG_TEXT);
    test_capture_begin(&capture, STDERR_FILENO);
    const int r = mst_log_failure("mod", -EIO, "went %s", "wrong");
    (void)test_capture_end(&capture, text, sizeof text);
    assert_int_equal(r, -EIO);
    assert_non_null(strstr(text, "level=error program=prog module=mod msg=\"went wrong\"\n"));
}

static void the_last_word_is_one_line(void **state)
{
    (void)state;
    char text[OUTPUT_BYTES];
    struct test_capture capture;
    struct mst_error err = MST_ERROR_INIT;
    (void)mst_error_set(&err, -EINVAL, "bad '%s'", "a\nb\x1b");
    mst_log_init("prog", MST_LOG_ERROR, MST_LOG_TEXT);
    test_capture_begin(&capture, STDERR_FILENO);
    assert_int_equal(mst_fail(MST_EXIT_USAGE, &err), MST_EXIT_USAGE);
    (void)test_capture_end(&capture, text, sizeof text);
    assert_string_equal(text, "prog: bad 'a?b?'\n");

    mst_log_init("prog", MST_LOG_ERROR, MST_LOG_JSON);
    test_capture_begin(&capture, STDERR_FILENO);
    assert_int_equal(mst_fail(MST_EXIT_FAILED, &err), MST_EXIT_FAILED);
    const size_t count = test_capture_end(&capture, text, sizeof text);
    mst_cleanup(mst_json_deletep) cJSON *json = NULL;
    assert_int_equal(mst_json_parse(text, count, "line", &json, NULL), 0);
    assert_string_equal(mst_json_string_or(json, "msg", ""), "bad 'a\nb\x1b'");
}

static void a_reader_that_takes_nothing_does_not_stop_the_program(void **state)
{
    (void)state;
    char text[OUTPUT_BYTES];
    int fds[2];
    const int before = dup(STDERR_FILENO);
    assert_true(before >= 0);
    assert_int_equal(pipe(fds), 0);
    assert_int_equal(fcntl(fds[0], F_SETFL, O_NONBLOCK), 0);
    test_fill_pipe(fds[1]);
    assert_true(dup2(fds[1], STDERR_FILENO) >= 0);
    mst_log_init("prog", MST_LOG_INFO, MST_LOG_TEXT);
    mst_log_set_patience(20);
    for (int line = 0; line < 3; line++)
        mst_log_info("mod", "lost");
    while (read(fds[0], text, sizeof text) > 0)
        ;
    mst_log_info("mod", "told");
    assert_true(dup2(before, STDERR_FILENO) >= 0);
    mst_log_set_patience(0);
    const ssize_t got = read(fds[0], text, sizeof text - 1);
    assert_true(got > 0);
    text[got] = '\0';
    assert_non_null(strstr(text, "told"));
    assert_null(strstr(text, "lost"));
    (void)close(before);
    (void)close(fds[0]);
    (void)close(fds[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(levels_choose_what_is_written),
        cmocka_unit_test(a_message_is_one_line_whatever_is_in_it),
        cmocka_unit_test(a_failure_is_logged_at_any_level_and_keeps_its_code),
        cmocka_unit_test(the_last_word_is_one_line),
        cmocka_unit_test(a_reader_that_takes_nothing_does_not_stop_the_program),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
