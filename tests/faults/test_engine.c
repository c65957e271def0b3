/* SPDX-License-Identifier: Apache-2.0 */
/* The engine client against an engine that misbehaves. */
#include "../common/test.h"
#include "fake_engine.h"
#include "muster/clock.h"
#include "muster/engine.h"

static struct engine *connect_to(const char *host, uint32_t timeout_ms)
{
    const struct engine_options options = {.host = host, .request_timeout_ms = timeout_ms};
    struct engine *engine = NULL;

    assert_int_equal(engine_new(&options, &engine, NULL), 0);
    return engine;
}

static void one_fault_each(void **state)
{
    static const struct {
        const char *name;
        struct fake_rule rule;
        int code;
        const char *text;
    } cases[] = {
        {"refused",
         {"GET", "/services", 0, 0, FAKE_REFUSE, 503, "not a manager", 0},
         -EREMOTEIO,
         "GET /v1.43/services: 503 Service Unavailable: not a manager"},
        {"control characters",
         {"GET", "/services", 0, 0, FAKE_REFUSE, 500, "two\nlines\x1b[31m ", 0},
         -EREMOTEIO,
         "500 Internal Server Error: two lines [31m"},
        {"malformed",
         {"GET", "/services", 0, 0, FAKE_REPLY, 200, "[{\"a\":", 0},
         -EPROTO,
         "GET /v1.43/services"},
        {"not a list", {"GET", "/services", 0, 0, FAKE_REPLY, 200, "{}", 0}, -EPROTO, "not a list"},
        {"refused without a reason",
         {"GET", "/services", 0, 0, FAKE_REPLY, 500, "oops", 0},
         -EREMOTEIO,
         "500 Internal Server Error: the engine gave no reason"},
        {"cut", {"GET", "/services", 0, 0, FAKE_CUT, 0, NULL, 0}, -EPROTO, "was cut"},
        {"closed", {"GET", "/services", 0, 0, FAKE_CLOSE, 0, NULL, 0}, -EPROTO, "was cut"},
        {"silent", {"GET", "/services", 0, 0, FAKE_SILENCE, 0, NULL, 0}, -ETIMEDOUT, "no complete answer"},
        {"huge", {"GET", "/services", 0, 0, FAKE_HUGE, 0, NULL, 0}, -EFBIG, "more than"},
        {"redirected",
         {"GET", "/services", 0, 0, FAKE_REDIRECT, 0, "http://127.0.0.1:1/", 0},
         -EPROTO,
         "302"},
    };

    (void)state;
    for (size_t i = 0; i < MST_ARRAY_COUNT(cases); i++) {
        struct fake_rule rule = cases[i].rule;
        struct fake_engine *fake = fake_engine_start(&rule, 1);
        mst_cleanup(engine_freep) struct engine *engine = connect_to(fake_engine_host(fake), 5000);
        struct engine_call call = {.method = "GET", .path = "/services", .max_reply_bytes = 1 << 20};
        struct engine_reply reply = {.status = 7};
        struct mst_error err = MST_ERROR_INIT;
        cJSON *list = NULL;
        int r;

        if (cases[i].code == -ETIMEDOUT)
            call.timeout_ms = 200;
        /* "not a list" is the helper's to see. */
        r = strcmp(cases[i].name, "not a list") == 0
                ? engine_list(engine, ENGINE_SERVICE, NULL, NULL, &list, &err)
                : engine_request(engine, &call, &reply, &err);
        if (r != cases[i].code || !strstr(err.text, cases[i].text))
            fail_msg("%s: %d, '%s'", cases[i].name, r, err.text);
        assert_int_equal(err.code, r);
        assert_null(strchr(err.text, '\n'));
        assert_int_equal(reply.status, 7); /* outputs are untouched */
        assert_null(list);
        engine_freep(&engine);
        fake_engine_stop(fake);
    }
}

static void no_engine_at_all(void **state)
{
    static const struct {
        const char *host;
        int code;
    } cases[] = {
        {"unix:///nowhere/docker.sock", -ENOENT},
        {"unix:///dev/null", -ECONNREFUSED},
        {"tcp://127.0.0.1:1", -ECONNREFUSED},
    };

    (void)state;
    for (size_t i = 0; i < MST_ARRAY_COUNT(cases); i++) {
        mst_cleanup(engine_freep) struct engine *engine = connect_to(cases[i].host, 2000);
        struct mst_error err = MST_ERROR_INIT;
        struct engine_info info;

        assert_int_equal(engine_info(engine, &info, &err), cases[i].code);
        assert_non_null(strstr(err.text, cases[i].host));
        assert_int_equal(mst_exit_status(err.code), MST_EXIT_FAILED);
    }
}

static void proxies_of_the_environment_are_not_used(void **state)
{
    struct fake_engine *fake = fake_engine_start(NULL, 0);
    mst_cleanup(engine_freep) struct engine *engine = connect_to(fake_engine_host(fake), 5000);
    struct engine_info info;

    (void)state;
    assert_int_equal(setenv("http_proxy", "http://127.0.0.1:1", 1), 0);
    assert_int_equal(setenv("ALL_PROXY", "http://127.0.0.1:1", 1), 0);
    assert_int_equal(engine_info(engine, &info, NULL), 0);
    assert_string_equal(info.name, "fake1");
    assert_true(info.is_manager);
    (void)unsetenv("http_proxy");
    (void)unsetenv("ALL_PROXY");
    engine_freep(&engine);
    fake_engine_stop(fake);
}

static void the_version_is_the_smaller_one(void **state)
{
    struct fake_engine *fake = fake_engine_start(NULL, 0);
    mst_cleanup(engine_freep) struct engine *engine = connect_to(fake_engine_host(fake), 5000);
    unsigned minor = 0;

    (void)state;
    assert_int_equal(engine_api_minor(engine, &minor, NULL), 0);
    assert_int_equal(minor, 43);
    assert_int_equal(engine_api_minor(engine, &minor, NULL), 0);
    assert_int_equal(fake_engine_count(fake, "GET /_ping"), 1);
    engine_freep(&engine);
    fake_engine_stop(fake);
}

static void an_absent_object_is_no_error(void **state)
{
    struct fake_engine *fake = fake_engine_start(NULL, 0);
    mst_cleanup(engine_freep) struct engine *engine = connect_to(fake_engine_host(fake), 5000);
    cJSON *object = (cJSON *)fake; /* must become NULL */

    (void)state;
    assert_int_equal(engine_find(engine, ENGINE_SECRET, "none of/that", &object, NULL), 0);
    assert_null(object);
    assert_int_equal(fake_engine_count(fake, "GET /secrets/none%20of%2Fthat"), 1);
    assert_int_equal(engine_remove(engine, ENGINE_SECRET, "gone", "gone", NULL), 0);
    engine_freep(&engine);
    fake_engine_stop(fake);
}

static void a_version_out_of_sequence_has_its_own_code(void **state)
{
    struct fake_rule rule = {"POST",
                             "/services/x/update",
                             0,
                             0,
                             FAKE_REFUSE,
                             500,
                             "rpc error: code = Unknown desc = update out of sequence",
                             0};
    struct fake_engine *fake = fake_engine_start(&rule, 1);
    mst_cleanup(engine_freep) struct engine *engine = connect_to(fake_engine_host(fake), 5000);
    struct mst_error err = MST_ERROR_INIT;
    cJSON *body = cJSON_CreateObject();

    (void)state;
    assert_int_equal(engine_update(engine, ENGINE_SERVICE, "x", "st_x", 3, body, NULL, NULL, &err), -ESTALE);
    assert_non_null(strstr(err.text, "(service 'st_x')"));
    cJSON_Delete(body);
    engine_freep(&engine);
    fake_engine_stop(fake);
}

static void a_cancel_descriptor_ends_a_wait(void **state)
{
    struct fake_rule rule = {"GET", "/services", 0, 0, FAKE_SILENCE, 0, NULL, 0};
    struct fake_engine *fake = fake_engine_start(&rule, 1);
    mst_cleanup(engine_freep) struct engine *engine = connect_to(fake_engine_host(fake), 60000);
    const uint64_t start_ns = mst_now_ns();
    struct mst_error err = MST_ERROR_INIT;
    cJSON *list = NULL;
    int fds[2];

    (void)state;
    assert_int_equal(pipe(fds), 0);
    assert_int_equal(write(fds[1], "x", 1), 1);
    engine_set_cancel_fd(engine, fds[0]);
    assert_int_equal(engine_list(engine, ENGINE_SERVICE, NULL, NULL, &list, &err), -ECANCELED);
    assert_true(mst_ms_since(start_ns) < 10000);
    (void)close(fds[0]);
    (void)close(fds[1]);
    engine_freep(&engine);
    fake_engine_stop(fake);
}

static void no_write_is_begun_after_a_cancel(void **state)
{
    struct fake_engine *fake = fake_engine_start(NULL, 0);
    mst_cleanup(engine_freep) struct engine *engine = connect_to(fake_engine_host(fake), 60000);
    cJSON *body = cJSON_CreateObject();
    struct mst_error err = MST_ERROR_INIT;
    char id[ENGINE_NAME_MAX_BYTES] = "untouched";
    unsigned minor;
    int fds[2];

    (void)state;
    assert_int_equal(engine_api_minor(engine, &minor, &err), 0);
    assert_int_equal(pipe(fds), 0);
    assert_int_equal(write(fds[1], "x", 1), 1);
    engine_set_cancel_fd(engine, fds[0]);
    assert_int_equal(engine_create(engine, ENGINE_SERVICE, "st_x", body, NULL, id, &err), -ECANCELED);
    assert_string_equal(id, "untouched");
    assert_int_equal(fake_engine_count(fake, "POST"), 0);
    cJSON_Delete(body);
    (void)close(fds[0]);
    (void)close(fds[1]);
    engine_freep(&engine);
    fake_engine_stop(fake);
}

struct taken {
    char text[4096];
    size_t count;
    int end_code, status;
    bool has_ended;
    int stop_with;
};

static int take_bytes(void *context, const void *bytes, size_t count, struct mst_error *err)
{
    struct taken *taken = context;

    if (taken->stop_with < 0)
        return mst_error_set(err, taken->stop_with, "enough");
    assert_true(taken->count + count < sizeof taken->text);
    memcpy(taken->text + taken->count, bytes, count);
    taken->count += count;
    return 0;
}

static void take_end(void *context, int code, int status, const struct mst_error *err)
{
    struct taken *taken = context;

    (void)err;
    taken->end_code = code;
    taken->status = status;
    taken->has_ended = true;
}

static void run_to_the_end(struct engine_streams *streams)
{
    const uint64_t deadline_ns = mst_now_ns() + 10 * MST_NS_PER_S;
    size_t open = 1;

    while (open > 0) {
        assert_int_equal(engine_streams_run(streams, 100, &open, NULL), 0);
        assert_true(mst_now_ns() < deadline_ns);
    }
}

static void several_streams_run_in_one_thread(void **state)
{
    struct fake_engine *fake = fake_engine_start(NULL, 0);
    mst_cleanup(engine_freep) struct engine *engine = connect_to(fake_engine_host(fake), 5000);
    struct engine_streams *streams = NULL;
    struct taken a = {0}, b = {0}, missing = {0}, stopped = {.stop_with = -ENOSPC};
    const struct engine_call calls[] = {
        {.method = "GET", .path = "/services/a/logs"},
        {.method = "GET", .path = "/services/b/logs"},
        {.method = "GET", .path = "/events2"},
    };

    (void)state;
    fake_engine_stream(fake, "/services/a/logs", "hello", 5);
    fake_engine_stream(fake, "/services/b/logs", "you", 3);
    assert_int_equal(engine_streams_new(engine, &streams, NULL), 0);
    assert_int_equal(engine_stream_open(streams, &calls[0], take_bytes, take_end, &a, NULL, NULL), 0);
    assert_int_equal(engine_stream_open(streams, &calls[1], take_bytes, take_end, &b, NULL, NULL), 0);
    assert_int_equal(engine_stream_open(streams, &calls[2], take_bytes, take_end, &missing, NULL, NULL), 0);
    assert_int_equal(engine_stream_open(streams, &calls[0], take_bytes, take_end, &stopped, NULL, NULL), 0);
    run_to_the_end(streams);
    assert_true(a.has_ended && b.has_ended && missing.has_ended && stopped.has_ended);
    assert_int_equal(a.end_code, 0);
    assert_memory_equal(a.text, "hello", 5);
    assert_memory_equal(b.text, "you", 3);
    assert_int_equal(missing.end_code, -EREMOTEIO);
    assert_int_equal(missing.status, 404);
    assert_int_equal(b.status, 200);
    assert_int_equal(missing.count, 0);
    assert_int_equal(stopped.end_code, -ENOSPC);
    engine_streams_free(streams);
    engine_freep(&engine);
    fake_engine_stop(fake);
}

static void a_download_has_a_limit(void **state)
{
    struct fake_engine *fake = fake_engine_start(NULL, 0);
    mst_cleanup(engine_freep) struct engine *engine = connect_to(fake_engine_host(fake), 5000);
    struct engine_call call = {.method = "GET", .path = "/containers/c/archive", .max_reply_bytes = 4};
    struct taken taken = {0};

    (void)state;
    fake_engine_stream(fake, "/containers/c/archive", "12345", 5);
    assert_int_equal(engine_download(engine, &call, take_bytes, &taken, NULL), -EFBIG);
    call.max_reply_bytes = 5;
    taken = (struct taken){0};
    assert_int_equal(engine_download(engine, &call, take_bytes, &taken, NULL), 0);
    assert_int_equal(taken.count, 5);
    engine_freep(&engine);
    fake_engine_stop(fake);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_fault_each),
        cmocka_unit_test(no_engine_at_all),
        cmocka_unit_test(proxies_of_the_environment_are_not_used),
        cmocka_unit_test(the_version_is_the_smaller_one),
        cmocka_unit_test(an_absent_object_is_no_error),
        cmocka_unit_test(a_version_out_of_sequence_has_its_own_code),
        cmocka_unit_test(a_cancel_descriptor_ends_a_wait),
        cmocka_unit_test(no_write_is_begun_after_a_cancel),
        cmocka_unit_test(several_streams_run_in_one_thread),
        cmocka_unit_test(a_download_has_a_limit),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
