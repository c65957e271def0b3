/* SPDX-License-Identifier: Apache-2.0 */
/* muster autoscale on a scripted engine and a scripted monitor: what it writes, and when it does not. */
#include "../common/test.h"
#include "fake_engine.h"
#include "muster/clock.h"
#include "muster/json.h"
#include "muster/net.h"
#include "program.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/socket.h>

#define C1 "1111111111111111111111111111111111111111111111111111111111111111"
#define C2 "2222222222222222222222222222222222222222222222222222222222222222"
#define C3 "3333333333333333333333333333333333333333333333333333333333333333"

#define SERVICE(id, name, replicas, labels, more)                                                            \
    "{\"ID\":\"" id "\",\"Version\":{\"Index\":7},\"Spec\":{\"Name\":\"st_" name "\",\"Labels\":{"           \
    "\"com.docker.stack.namespace\":\"st\"" labels "},\"TaskTemplate\":{\"ForceUpdate\":3},"                 \
    "\"Mode\":{\"Replicated\":{\"Replicas\":" replicas "}}}" more "}"
#define BOUND_TO(max, target)                                                                                \
    ",\"muster.autoscale.max\":\"" max "\",\"muster.autoscale.target\":\"" target                            \
    "\",\"muster.autoscale.average\":\"5s\""
#define SCALED BOUND_TO("10", "50")
#define TASK(id, service, slot, container)                                                                   \
    "{\"ID\":\"" id "\",\"ServiceID\":\"" service "\",\"Slot\":" slot ",\"DesiredState\":\"running\","       \
    "\"Status\":{\"State\":\"running\",\"ContainerStatus\":{\"ContainerID\":\"" container "\"}}}"

static const char web[] = SERVICE("s1", "web", "2", SCALED, "");
static const char other[] = SERVICE("s2", "other", "1", SCALED, "");
static const char task1[] = TASK("t1", "s1", "1", C1), task2[] = TASK("t2", "s1", "2", C2),
                  task3[] = TASK("t3", "s2", "1", C3);

/* ---- a monitor: each container uses `percent` of a core ---- */

struct monitor {
    int listen_fd, stop_fds[2];
    uint16_t port;
    atomic_uint percent;
    pthread_t thread;
    char where[32];
};

static void serve(const struct monitor *monitor, int fd)
{
    static const char *const ids[] = {C1, C2, C3};
    mst_cleanup(mst_buf_release) struct mst_buf page = MST_BUF_INIT(65536), reply = MST_BUF_INIT(65536);
    const double now_s = (double)mst_now_ns() / (double)MST_NS_PER_S;
    char request[4096];
    ssize_t n = recv(fd, request, sizeof request - 1, 0); /* such a short one comes at once */

    if (n <= 0)
        return;
    for (size_t i = 0; i < 3; i++)
        (void)mst_buf_printf(&page,
                             "container_cpu_usage_seconds_total{id=\"/docker/%s\"} %.6f\n"
                             "container_memory_working_set_bytes{id=\"/docker/%s\"} 1\n",
                             ids[i], now_s * monitor->percent / 100, ids[i]);
    (void)mst_buf_printf(&reply, "HTTP/1.1 200 OK\r\nContent-Length: %zu\r\nConnection: close\r\n\r\n%s",
                         page.count, mst_buf_text(&page));
    (void)send(fd, mst_buf_text(&reply), reply.count, MSG_NOSIGNAL);
}

static void *run_monitor(void *context)
{
    struct monitor *monitor = context;

    for (;;) {
        struct pollfd fds[] = {{monitor->stop_fds[0], POLLIN, 0}, {monitor->listen_fd, POLLIN, 0}};
        mst_cleanup(mst_closep) int fd = -1;
        if (poll(fds, 2, -1) < 0 || fds[0].revents != 0)
            return NULL;
        fd = accept4(monitor->listen_fd, NULL, NULL, SOCK_CLOEXEC);
        if (fd >= 0)
            serve(monitor, fd);
    }
}

static int start(void **state)
{
    struct monitor *monitor = calloc(1, sizeof *monitor);

    *state = monitor;
    if (!monitor || pipe2(monitor->stop_fds, O_CLOEXEC) < 0 ||
        mst_tcp_listen(0x7f000001, 0, 16, &monitor->listen_fd, &monitor->port, NULL) < 0)
        return -1;
    monitor->percent = 90; /* of two tasks at a target of 50: four, whatever the reading is off by */
    (void)snprintf(monitor->where, sizeof monitor->where, "127.0.0.1:%u", (unsigned)monitor->port);
    return pthread_create(&monitor->thread, NULL, run_monitor, monitor) == 0 ? 0 : -1;
}

static int end(void **state)
{
    struct monitor *monitor = *state;

    if (write(monitor->stop_fds[1], "x", 1) != 1 || pthread_join(monitor->thread, NULL) != 0)
        return -1;
    (void)close(monitor->listen_fd);
    (void)close(monitor->stop_fds[0]);
    (void)close(monitor->stop_fds[1]);
    free(monitor);
    return 0;
}

static struct fake_engine *start_stack(const char *service)
{
    struct fake_engine *fake = fake_engine_start(NULL, 0);

    fake_engine_add(fake, "services", service);
    fake_engine_add(fake, "tasks", task1);
    fake_engine_add(fake, "tasks", task2);
    return fake;
}

static void expect(const struct fake_engine *fake, const char *const *arguments, int status, const char *out,
                   const char *err)
{
    struct program program;

    program_run(&program, fake, arguments, NULL);
    if (program.status != status || !strstr(mst_buf_text(&program.out), out) ||
        !strstr(mst_buf_text(&program.err), err))
        fail_msg("%d, '%s', '%s' instead of %d, '%s', '%s'", program.status, mst_buf_text(&program.out),
                 mst_buf_text(&program.err), status, out, err);
    program_release(&program);
}

/* One look at the stack `st` with `monitor`. */
#define ONCE(fake, status, out, err, monitor, ...)                                                           \
    expect(fake,                                                                                             \
           (const char *const[]){"autoscale", "--once", "--interval", "1s", "-m", (monitor)->where,          \
                                 __VA_ARGS__, "st", NULL},                                                   \
           status, out, err)

/* ---- once ---- */

static void a_loaded_service_is_scaled_out(void **state)
{
    struct fake_engine *fake = start_stack(web);
    mst_cleanup(mst_json_deletep) cJSON *body = NULL, *before = cJSON_Parse(web);
    cJSON *spec = cJSON_GetObjectItem(before, "Spec"), *labels = cJSON_GetObjectItem(spec, "Labels");
    const char *stamp;

    ONCE(fake, 0, "above-target", "", (struct monitor *)*state, "-v");
    body = fake_engine_body(fake, "POST /services/s1/update");
    assert_non_null(body);
    /* The number and the stamp, and nothing else: no task is restarted. */
    stamp = mst_json_string_or(mst_json_at(body, "Labels", NULL), "muster.autoscale.state", "");
    assert_non_null(strstr(stamp, " out 2->4"));
    assert_non_null(cJSON_AddStringToObject(labels, "muster.autoscale.state", stamp));
    cJSON_SetNumberValue(cJSON_GetObjectItem(mst_json_at(spec, "Mode", "Replicated", NULL), "Replicas"), 4);
    assert_true(cJSON_Compare(body, spec, true));
    fake_engine_stop(fake);
}

static void the_stamp_is_heeded_by_the_next(void **state)
{
    struct fake_engine *fake = start_stack(web);

    ONCE(fake, 0, "out", "", (struct monitor *)*state, "-v");
    fake_engine_add(fake, "tasks", TASK("t4", "s1", "3", C3));
    fake_engine_add(fake, "tasks", TASK("t5", "s1", "4", C3));
    ONCE(fake, 0, "cooldown", "", (struct monitor *)*state, "-v");
    assert_int_equal(fake_engine_count(fake, "POST /services/s1/update"), 1);
    fake_engine_stop(fake);
}

static void a_dry_run_writes_nothing(void **state)
{
    struct fake_engine *fake = start_stack(web);

    ONCE(fake, 0, "\"action\":\t\"out\"", "", (struct monitor *)*state, "--dry-run", "--format", "json");
    ONCE(fake, 0, "4 needed", "", (struct monitor *)*state, "--dry-run");
    assert_int_equal(fake_engine_count(fake, "POST "), 0);
    fake_engine_stop(fake);
}

static void an_idle_service_is_scaled_in(void **state)
{
    struct fake_engine *fake = start_stack(web);
    struct monitor *monitor = *state;
    mst_cleanup(mst_json_deletep) cJSON *body = NULL;

    monitor->percent = 5;
    ONCE(fake, 0, "below-target", "", monitor, "-v");
    body = fake_engine_body(fake, "POST /services/s1/update");
    assert_int_equal(mst_json_u64_or(mst_json_at(body, "Mode", "Replicated", NULL), "Replicas", 0), 1);
    fake_engine_stop(fake);
}

static void a_version_that_moved_is_tried_again(void **state)
{
    struct fake_rule rule = {"POST", "/services/s1/update",    1, 2, FAKE_REFUSE,
                             500,    "update out of sequence", 0};
    struct fake_engine *fake = start_stack(web);

    fake_engine_rules(fake, &rule, 1);
    ONCE(fake, 0, "out", "", (struct monitor *)*state, "-v");
    assert_int_equal(fake_engine_count(fake, "POST /services/s1/update"), 3);
    fake_engine_stop(fake);
}

/* Between the look and the write somebody scaled it, began an update, or took the labels away. */
static void whoever_wrote_last_is_right(void **state)
{
    static const struct {
        const char *text, *why;
    } cases[] = {
        {SERVICE("s1", "web", "7", SCALED, ""), "somebody else scaled it from 2 to 7 meanwhile"},
        {SERVICE("s1", "web", "2", SCALED, ",\"UpdateStatus\":{\"State\":\"updating\"}"),
         "an update is under way now"},
        {SERVICE("s1", "web", "2", "", ""), "its labels were changed meanwhile"},
        /* They make sense, too, and four are too many now; or would not be needed. */
        {SERVICE("s1", "web", "2", BOUND_TO("3", "50"), ""), "its labels were changed meanwhile"},
        {SERVICE("s1", "web", "2", BOUND_TO("10", "90"), ""), "its labels were changed meanwhile"},
        {SERVICE("s1", "web", "2", SCALED ",\"muster.autoscale.state\":\"2026-01-31T23:59:59.000Z out 1->2\"",
                 ""),
         "its labels were changed meanwhile"},
    };

    for (size_t i = 0; i < MST_ARRAY_COUNT(cases); i++) {
        struct fake_rule rule = {"GET", "/services/s1", 1, 0, FAKE_REPLY, 200, cases[i].text, 0};
        struct fake_engine *fake = start_stack(web);
        fake_engine_rules(fake, &rule, 1);
        ONCE(fake, 0, cases[i].why, "", (struct monitor *)*state, "-v");
        assert_int_equal(fake_engine_count(fake, "POST "), 0);
        fake_engine_stop(fake);
    }
}

static void a_rollout_is_waited_for(void **state)
{
    static const char *const services[] = {
        SERVICE("s1", "web", "2", SCALED,
                ",\"UpdateStatus\":{\"State\":\"updating\",\"Message\":\"update in progress\"}"),
        SERVICE("s1", "web", "2", SCALED, ",\"UpdateStatus\":{\"State\":\"rollback_started\"}"),
        SERVICE("s1", "web", "3", SCALED, ""), /* the third task does not run yet */
    };
    static const char *const why[] = {"rollout", "rollout", "starting"};

    for (size_t i = 0; i < MST_ARRAY_COUNT(services); i++) {
        struct fake_engine *fake = start_stack(services[i]);
        ONCE(fake, 0, why[i], "", (struct monitor *)*state, "-v");
        assert_int_equal(fake_engine_count(fake, "POST "), 0);
        fake_engine_stop(fake);
    }
}

static void bad_labels_are_named_and_the_others_go_on(void **state)
{
    struct fake_engine *fake = start_stack(SERVICE(
        "s1", "web", "2", ",\"muster.autoscale.max\":\"10\",\"muster.autoscale.metric\":\"cpus\"", ""));

    fake_engine_add(fake, "services", other);
    fake_engine_add(fake, "tasks", task3);
    ONCE(fake, 2, "st_other", "service 'st_web': label 'muster.autoscale.metric': 'cpus' is none of",
         (struct monitor *)*state, "-v");
    assert_int_equal(fake_engine_count(fake, "POST /services/s1/update"), 0);
    assert_int_equal(fake_engine_count(fake, "POST /services/s2/update"), 1);
    fake_engine_stop(fake);
}

static void a_silent_monitor_changes_nothing(void **state)
{
    struct monitor nobody = {.where = "127.0.0.1:1"};
    struct fake_engine *fake = start_stack(web);

    (void)state;
    ONCE(fake, 1, "no-value", "no value for 1 of 1 services; monitor 127.0.0.1", &nobody, "-v");
    assert_int_equal(fake_engine_count(fake, "POST "), 0);
    fake_engine_stop(fake);
}

static void a_refusal_is_passed_on(void **state)
{
    struct fake_rule rule = {"POST", "/services/s1/update", 1, 0, FAKE_REFUSE, 403, "not today", 0};
    struct fake_engine *fake = start_stack(web);

    fake_engine_rules(fake, &rule, 1);
    ONCE(fake, 3, "", "403 Forbidden: not today", (struct monitor *)*state, "-v");
    fake_engine_stop(fake);
}

#define EXPECT(fake, status, err, ...)                                                                       \
    expect(fake, (const char *const[]){"autoscale", __VA_ARGS__, NULL}, status, "", err)

static void input_that_makes_no_sense_is_refused(void **state)
{
    struct fake_engine *fake = start_stack(SERVICE("s1", "web", "2", "", ""));

    (void)state;
    EXPECT(fake, 2, "where are the monitors?", "st");
    EXPECT(fake, 2, "only http and https", "-m", "ftp://node1", "st");
    EXPECT(fake, 2, "come from a file", "-m", "http://a:b@node1", "st");
    EXPECT(fake, 2, "/nowhere", "--monitors-file", "/nowhere", "st");
    EXPECT(fake, 2, "is not from 1s to 10m", "-m", "node1", "--interval", "500ms", "st");
    EXPECT(fake, 2, "too few arguments", "-m", "node1");
    assert_int_equal(fake_engine_count(fake, ""), 0); /* all before the engine was asked */
    EXPECT(fake, 1, "no service of stack 'st' has a label 'muster.autoscale.max'", "-m", "127.0.0.1:1",
           "--once", "st");
    fake_engine_stop(fake);
}

/* A deployment of the file does not take back what was scaled; the file's new bounds hold. */
static void a_deployment_keeps_the_number(void **state)
{
    static const struct {
        const char *stamp, *max;
        uint64_t replicas;
    } cases[] = {
        {",\"muster.autoscale.state\":\"2026-01-31T23:59:59.000Z out 2->4\"", "10", 4},
        {",\"muster.autoscale.state\":\"2026-01-31T23:59:59.000Z out 2->4\"", "3", 3},
        {",\"muster.autoscale.state\":\"2026-01-31T23:59:59.000Z out 2->4\"", "",
         2},           /* not scaled any more */
        {"", "10", 2}, /* nobody has scaled it so far */
    };

    (void)state;
    for (size_t i = 0; i < MST_ARRAY_COUNT(cases); i++) {
        char service[1024], file[512];
        struct fake_engine *fake = fake_engine_start(NULL, 0);
        mst_cleanup(mst_json_deletep) cJSON *body = NULL;
        struct program program;
        (void)snprintf(
            service, sizeof service,
            "{\"ID\":\"s1\",\"Version\":{\"Index\":7},\"Spec\":{\"Name\":\"st_web\",\"Labels\":{"
            "\"com.docker.stack.namespace\":\"st\",\"muster.autoscale.max\":\"10\"%s},\"TaskTemplate\":{},"
            "\"Mode\":{\"Replicated\":{\"Replicas\":4}}}}",
            cases[i].stamp);
        (void)snprintf(
            file, sizeof file, "services: {web: {image: 'img:2', deploy: {replicas: 2, labels: {%s%s%s}}}}\n",
            cases[i].max[0] ? "muster.autoscale.max: '" : "", cases[i].max, cases[i].max[0] ? "'" : "");
        fake_engine_add(fake, "services", service);
        program_run(&program, fake,
                    (const char *const[]){"deploy", "-d", "--resolve-image", "never", "-c", "-", "st", NULL},
                    file);
        body = fake_engine_body(fake, "POST /services/s1/update");
        if (program.status != 0 || !body ||
            mst_json_u64_or(mst_json_at(body, "Mode", "Replicated", NULL), "Replicas", 0) !=
                cases[i].replicas)
            fail_msg("case %zu: %d, '%s'", i, program.status, mst_buf_text(&program.err));
        assert_int_equal(mst_json_at(mst_json_at(body, "Labels", NULL), "muster.autoscale.state", NULL) !=
                             NULL,
                         cases[i].replicas > 2);
        program_release(&program);
        fake_engine_stop(fake);
    }
}

/* ---- in the loop ---- */

/* Reads until `text` was said on stdout (or stderr), and fails the test when the program ends first. */
static void await_text(struct program *program, bool is_err, const char *text)
{
    const uint64_t deadline_ns = mst_now_ns() + 30 * MST_NS_PER_S;
    struct mst_buf *said = is_err ? &program->err : &program->out;
    bool is_open = true;

    while (!strstr(mst_buf_text(said), text)) {
        if (!is_open || mst_wait_fd(is_err ? program->err_fd : program->out_fd, POLLIN, deadline_ns) < 0)
            fail_msg("never said '%s': '%s' '%s'", text, mst_buf_text(&program->out),
                     mst_buf_text(&program->err));
        is_open = program_take(is_err ? program->err_fd : program->out_fd, said);
    }
}

static void begin(struct program *program, const struct fake_engine *fake, const struct monitor *monitor)
{
    program_start(program, fake,
                  (const char *const[]){"autoscale", "--interval", "1s", "--slot", "me", "-m", monitor->where,
                                        "st", NULL});
}

static void each_decision_is_an_event_and_a_line(void **state)
{
    struct fake_engine *fake = start_stack(web);
    mst_cleanup(mst_json_deletep) cJSON *event = NULL;
    struct program program;
    const char *line;

    begin(&program, fake, *state);
    await_text(&program, false, "\"cause\":\"above-target\"");
    await_text(&program, true, "scaled service st_web out: 2 -> 4: cpu ");
    await_text(&program, false, "\"cause\":\"starting\""); /* two of four run: it waits */
    assert_int_equal(kill(program.pid, SIGTERM), 0);
    program_finish(&program);
    assert_int_equal(program.status, 143);
    /* The first has no rate yet, and says so; the second acts. */
    assert_non_null(strstr(mst_buf_text(&program.out), "\"cause\":\"no-value\""));
    line = strstr(mst_buf_text(&program.out), "\"cause\":\"above-target\"");
    while (line > mst_buf_text(&program.out) && line[-1] != '\n')
        line--;
    event = cJSON_ParseWithOpts(line, NULL, false);
    assert_string_equal(mst_json_string_or(event, "event", ""), "autoscale");
    assert_string_equal(mst_json_string_or(event, "slot", ""), "me");
    assert_string_equal(mst_json_string_or(event, "service", ""), "st_web");
    assert_string_equal(mst_json_string_or(event, "action", ""), "out");
    assert_int_equal(mst_json_u64_or(event, "from", 0), 2);
    assert_int_equal(mst_json_u64_or(event, "to", 0), 4);
    assert_true(mst_json_double_or(event, "load", 0) > 1.5);
    assert_int_equal(fake_engine_count(fake, "POST /services/s1/update"), 1);
    program_release(&program);
    fake_engine_stop(fake);
}

static void trouble_with_the_engine_is_borne(void **state)
{
    struct fake_rule rule = {"GET", "/services", 2, 2, FAKE_REFUSE, 503, "it is being restarted", 0};
    struct fake_engine *fake = start_stack(web);
    struct program program;

    fake_engine_rules(fake, &rule, 1);
    begin(&program, fake, *state);
    await_text(&program, true, "it is being restarted; trying again");
    await_text(&program, true, "all is well again");
    await_text(&program, false, "\"cause\":\"above-target\"");
    assert_int_equal(kill(program.pid, SIGINT), 0);
    program_finish(&program);
    assert_int_equal(program.status, 130);
    program_release(&program);
    fake_engine_stop(fake);
}

static void trouble_at_the_start_ends_it(void **state)
{
    struct fake_rule rule = {"GET", "/services", 1, 0, FAKE_REFUSE, 503, "this node is not a swarm manager",
                             0};
    struct fake_engine *fake = start_stack(web);

    (void)state;
    fake_engine_rules(fake, &rule, 1);
    EXPECT(fake, 3, "this node is not a swarm manager", "-m", "127.0.0.1:1", "st");
    fake_engine_stop(fake);
}

#define SERVED(test) cmocka_unit_test_setup_teardown(test, start, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        SERVED(a_loaded_service_is_scaled_out),
        SERVED(the_stamp_is_heeded_by_the_next),
        SERVED(a_dry_run_writes_nothing),
        SERVED(an_idle_service_is_scaled_in),
        SERVED(a_version_that_moved_is_tried_again),
        SERVED(whoever_wrote_last_is_right),
        SERVED(a_rollout_is_waited_for),
        SERVED(bad_labels_are_named_and_the_others_go_on),
        SERVED(a_silent_monitor_changes_nothing),
        SERVED(a_refusal_is_passed_on),
        cmocka_unit_test(a_deployment_keeps_the_number),
        SERVED(input_that_makes_no_sense_is_refused),
        SERVED(each_decision_is_an_event_and_a_line),
        SERVED(trouble_with_the_engine_is_borne),
        SERVED(trouble_at_the_start_ends_it),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
