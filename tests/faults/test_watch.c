/* SPDX-License-Identifier: Apache-2.0 */
/* What a training comes to, from what its workers say and what became of their tasks. */
#include "../common/test.h"
#include "fake_engine.h"
#include "muster/clock.h"
#include "run.h"
#include "stack.h"

#define LABELS "\"Labels\":{\"com.docker.stack.namespace\":\"st\",\"muster.role\":\"worker\"}"
#define SERVICE(condition)                                                                                   \
    "{\"ID\":\"s\",\"Spec\":{\"Name\":\"st_w\"," LABELS ",\"Mode\":{\"Replicated\":{\"Replicas\":3}},"       \
    "\"TaskTemplate\":{\"RestartPolicy\":{\"Condition\":\"" condition "\"}}}}"
#define EXIT(code) ",\"Err\":\"task: non-zero exit (" code ")\",\"ContainerStatus\":{\"ExitCode\":" code "}"

struct task {
    const char *id, *slot, *second, *state, *more;
};

struct said {
    const char *task, *text;
};

struct story {
    const char *condition; /* of the restart policy */
    struct task tasks[8];
    struct said said[16];
    unsigned deadline_ms;
    int code;
    const char *reason, *told; /* in the error, and in the report */
};

#define START(slot) "{\"event\":\"start\",\"t\":1,\"slot\":\"st_w." slot "\"}"
#define VIEW        "{\"event\":\"view\",\"view\":1,\"rank\":0,\"world\":3}"
#define DONE        "{\"event\":\"done\",\"digest\":\"d\",\"steps\":5}"

static void tell(const struct story *story)
{
    mst_cleanup(mst_buf_release) struct mst_buf log = MST_BUF_INIT(65536);
    struct fake_engine *fake = fake_engine_start(NULL, 0);
    struct mst_error err = MST_ERROR_INIT;
    struct session session;
    char *told = NULL;
    size_t told_bytes;

    fake_engine_add(fake, "services",
                    strcmp(story->condition, "none") == 0 ? SERVICE("none") : SERVICE("on-failure"));
    for (const struct task *task = story->tasks; task->id; task++) {
        char text[512];
        (void)snprintf(
            text, sizeof text,
            "{\"ID\":\"%s\",\"ServiceID\":\"s\",\"Slot\":%s,\"CreatedAt\":\"2026-01-01T00:00:%sZ\","
            "\"DesiredState\":\"x\",\"Labels\":{\"com.docker.stack.namespace\":\"st\"},"
            "\"Status\":{\"State\":\"%s\"%s}}",
            task->id, task->slot, task->second, task->state, task->more);
        fake_engine_add(fake, "tasks", text);
    }
    for (const struct said *said = story->said; said->task; said++) {
        char line[512], second[8];
        (void)snprintf(line, sizeof line, "%s\n", said->text);
        (void)snprintf(second, sizeof second, "%02d", (int)(said - story->said));
        fake_engine_frame(&log, 1, second, said->task, line);
    }
    fake_engine_stream(fake, "/services/s/logs", log.bytes, log.count);
    assert_int_equal(session_open(&session, fake_engine_host(fake), NULL, NULL), 0);
    session.report.stream = open_memstream(&told, &told_bytes);
    session.report.is_terminal = false;
    const int code =
        run_await_workers(&session, "st", mst_now_ns() + story->deadline_ms * MST_NS_PER_MS, &err);
    (void)fclose(session.report.stream);
    session_close(&session);
    fake_engine_stop(fake);
    if (code != story->code || (story->reason && !strstr(err.text, story->reason)) ||
        (story->told && !strstr(told, story->told)))
        fail_msg("%d, '%s'\n%s", code, err.text, told);
    free(told);
}

static void a_training_is_done_when_all_are(void **state)
{
    static const struct story story = {
        "on-failure",
        {{"a", "1", "01", "complete", ""}, {"b", "2", "01", "running", ""}, {"c", "3", "01", "running", ""}},
        {{"a", START("1")}, {"b", START("2")}, {"c", START("3")}, {"a", DONE}, {"b", DONE}, {"c", DONE}},
        15000,
        0,
        NULL,
        NULL};

    (void)state;
    tell(&story);
}

static void a_worker_that_comes_back_is_no_end(void **state)
{
    static const struct story story = {
        "on-failure",
        {{"a", "1", "01", "running", ""},
         {"b", "2", "01", "running", ""},
         {"c", "3", "01", "failed", EXIT("137")},
         {"c2", "3", "02", "ready", ""}},
        {{"a", START("1")},
         {"b", START("2")},
         {"c", START("3")},
         {"a", VIEW},
         {"b", VIEW},
         {"c", VIEW},
         {"a", "{\"event\":\"lost\",\"view\":1,\"lost\":\"st_w.3\",\"reason\":\"closed\",\"step\":4}"},
         {"a", "{\"event\":\"recovered\",\"view\":2,\"world\":2,\"lost\":[\"st_w.3\"],\"ms\":410}"}},
        2000,
        -ETIMEDOUT,
        "0 of 3 workers were done in time",
        "w.3 lost: closed (view 1, after step 4)\nview 2, 2 workers, w.3 lost; training again after 0.41 "
        "s\n"};

    (void)state;
    tell(&story);
}

static void done_without_one_that_nothing_starts_again(void **state)
{
    static const struct story story = {
        "none",
        {{"a", "1", "01", "complete", ""},
         {"b", "2", "01", "complete", ""},
         {"c", "3", "01", "failed", EXIT("137")}},
        {{"a", START("1")},
         {"b", START("2")},
         {"c", START("3")},
         {"a", VIEW},
         {"b", VIEW},
         {"c", VIEW},
         {"a", DONE},
         {"b", DONE}},
        15000,
        0,
        NULL,
        "warning: done without worker 'st_w.3' (lost: its task ended: task: non-zero exit (137))\n"};

    (void)state;
    tell(&story);
}

static void all_that_get_bad_input_end_it_at_once(void **state)
{
    static const struct story story = {"on-failure",
                                       {{"a", "1", "01", "failed", EXIT("2")},
                                        {"b", "2", "01", "failed", EXIT("2")},
                                        {"c", "3", "01", "failed", EXIT("2")}},
                                       {{"a", START("1")},
                                        {"b", START("2")},
                                        {"c", START("3")},
                                        {"b", "{\"event\":\"failed\",\"t\":5,\"reason\":\"no such model\"}"},
                                        {"a", "{\"event\":\"failed\",\"t\":6,\"reason\":\"no such model\"}"},
                                        {"c", "{\"event\":\"failed\",\"t\":7,\"reason\":\"no such model\"}"}},
                                       4000,
                                       SWARM_WORKER_FAILED,
                                       "worker 'st_w.2' failed: no such model",
                                       "w.2 failed: no such model\n"};

    (void)state;
    tell(&story);
}

static void who_never_started_is_named_by_its_service(void **state)
{
    static const struct story story = {
        "none",
        {{"a", "1", "01", "failed", EXIT("127")},
         {"b", "2", "01", "failed", EXIT("127")},
         {"c", "3", "01", "failed", EXIT("127")}},
        {{"a", "muster-agent: not found"}},
        4000,
        SWARM_WORKER_FAILED,
        "a worker never came up: service st_w: task: non-zero exit (127): muster-agent: not found",
        NULL};

    (void)state;
    tell(&story);
}

static void too_few_for_the_first_view_is_the_end(void **state)
{
    static const struct story story = {
        "none",
        {{"a", "1", "01", "running", ""},
         {"b", "2", "01", "running", ""},
         {"c", "3", "01", "failed", EXIT("1")}},
        {{"a", START("1")},
         {"b", START("2")},
         {"c", START("3")},
         {"a", "{\"event\":\"waiting\",\"have\":2,\"want\":3,\"view\":0,\"quorum\":false}"}},
        20000,
        SWARM_WORKER_FAILED,
        "worker 'st_w.3' failed: its task ended: task: non-zero exit (1); 2 of the 3 workers that are needed "
        "are left",
        NULL};

    (void)state;
    tell(&story);
}

static void a_pause_that_cannot_end_is_the_end(void **state)
{
    static const struct story story = {
        "none",
        {{"a", "1", "01", "running", ""},
         {"b", "2", "01", "failed", EXIT("137")},
         {"c", "3", "01", "failed", EXIT("137")}},
        {{"a", START("1")},
         {"b", START("2")},
         {"c", START("3")},
         {"a", VIEW},
         {"b", VIEW},
         {"c", VIEW},
         {"a", "{\"event\":\"waiting\",\"have\":1,\"want\":2,\"view\":1,\"quorum\":true}"}},
        20000,
        SWARM_WORKER_FAILED,
        "; 1 of the 2 workers that are needed are left",
        "paused: 1 of the 2 workers that are needed to go on\n"};

    (void)state;
    tell(&story);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_training_is_done_when_all_are),
        cmocka_unit_test(a_worker_that_comes_back_is_no_end),
        cmocka_unit_test(done_without_one_that_nothing_starts_again),
        cmocka_unit_test(all_that_get_bad_input_end_it_at_once),
        cmocka_unit_test(who_never_started_is_named_by_its_service),
        cmocka_unit_test(too_few_for_the_first_view_is_the_end),
        cmocka_unit_test(a_pause_that_cannot_end_is_the_end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
