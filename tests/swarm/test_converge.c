/* SPDX-License-Identifier: Apache-2.0 */
#include "../common/test.h"
#include "converge.h"
#include "muster/json.h"
#include "stack.h"

static const char nodes_text[] = "[{\"ID\":\"n1\",\"Spec\":{\"Role\":\"manager\",\"Availability\":\"active\"}"
                                 ",\"Description\":{\"Hostname\":\"a\"},"
                                 "\"Status\":{\"State\":\"ready\"}},{\"ID\":\"n2\",\"Spec\":{\"Role\":"
                                 "\"worker\",\"Availability\":\"active\"},"
                                 "\"Description\":{\"Hostname\":\"b\"},\"Status\":{\"State\":\"ready\"}}]";

#define TASK(desired, state, err)                                                                            \
    "{\"ServiceID\":\"s\",\"CreatedAt\":\"2026-01-01T00:00:10Z\",\"DesiredState\":\"" desired                \
    "\",\"Status\":{\"State\":\"" state "\",\"Err\":\"" err "\"}}"
#define RUNNING "{\"Replicated\":{\"Replicas\":2}}"
#define NEVER   ",\"TaskTemplate\":{\"RestartPolicy\":{\"Condition\":\"none\"}}"

static void services_are_judged_by_their_tasks(void **state)
{
    static const struct {
        const char *name, *mode, *more, *tasks;
        bool is_settled, is_waiting;
        int code;
        const char *service_state;
    } cases[] = {
        {"no task so far", RUNNING, "", "", false, false, 0, "starting"},
        {"one of two", RUNNING, "", TASK("running", "running", ""), false, false, 0, "starting"},
        {"two of two", RUNNING, "", TASK("running", "running", "") "," TASK("running", "running", ""), true,
         false, 0, "running"},
        {"one more than wanted", RUNNING, "",
         TASK("running", "running", "") "," TASK("running", "running", "") "," TASK("running", "running", ""),
         false, false, 0, "starting"},
        {"old ones shut down", RUNNING, "",
         TASK("shutdown", "shutdown", "") "," TASK("running", "running", "") "," TASK("running", "running",
                                                                                      ""),
         true, false, 0, "running"},
        {"a replacement starts", RUNNING, "",
         TASK("running", "running", "") "," TASK("running", "running", "") "," TASK("ready", "preparing", ""),
         false, false, 0, "starting"},
        {"waits for its health", "{\"Replicated\":{\"Replicas\":1}}", "", TASK("running", "starting", ""),
         false, false, 0, "starting"},
        {"no replicas", "{\"Replicated\":{\"Replicas\":0}}", "", "", true, false, 0, "running"},
        {"no node fits", "{\"Replicated\":{\"Replicas\":1}}", "",
         TASK("running", "pending", "no suitable node (x)"), false, true, 0, "starting"},
        {"rejected once", "{\"Replicated\":{\"Replicas\":1}}", "",
         TASK("shutdown", "rejected", "No such image: x") "," TASK("ready", "new", ""), false, false, 0,
         "starting"},
        {"rejected twice", "{\"Replicated\":{\"Replicas\":1}}", "",
         TASK("shutdown", "rejected", "No such image: x") "," TASK("shutdown", "rejected",
                                                                   "No such image: x"),
         false, false, SWARM_NO_CONVERGENCE, "rejected"},
        {"rejected for good", "{\"Replicated\":{\"Replicas\":1}}", NEVER,
         TASK("shutdown", "rejected", "No such image: x"), false, false, SWARM_NO_CONVERGENCE, "rejected"},
        {"failed twice", "{\"Replicated\":{\"Replicas\":1}}", "",
         TASK("shutdown", "failed", "task: non-zero exit (1)") "," TASK("shutdown", "failed",
                                                                        "task: non-zero exit (1)"),
         false, false, 0, "starting"},
        {"crash loop", "{\"Replicated\":{\"Replicas\":1}}", "",
         TASK("shutdown", "failed", "1") "," TASK("shutdown", "failed", "1") "," TASK("shutdown", "failed",
                                                                                      "1"),
         false, false, SWARM_NO_CONVERGENCE, "crash loop"},
        {"a one-shot failed", "{\"Replicated\":{\"Replicas\":1}}", NEVER, TASK("shutdown", "failed", "1"),
         false, false, SWARM_NO_CONVERGENCE, "failed"},
        {"a one-shot completed", "{\"Replicated\":{\"Replicas\":1}}", NEVER, TASK("shutdown", "complete", ""),
         true, false, 0, "complete"},
        {"one-shots, one still runs", RUNNING, NEVER,
         TASK("shutdown", "complete", "") "," TASK("running", "running", ""), true, false, 0, "running"},
        {"one-shots, one is missing", RUNNING, NEVER, TASK("shutdown", "complete", ""), false, false, 0,
         "starting"},
        {"a service that must run completed", "{\"Replicated\":{\"Replicas\":1}}", "",
         TASK("shutdown", "complete", ""), false, false, 0, "starting"},
        {"global on both nodes", "{\"Global\":{}}", "",
         TASK("running", "running", "") "," TASK("running", "running", ""), true, false, 0, "running"},
        {"global on one node", "{\"Global\":{}}", "", TASK("running", "running", ""), false, false, 0,
         "starting"},
        {"global without a node", "{\"Global\":{}}",
         ",\"TaskTemplate\":{\"Placement\":{\"Constraints\":[\"node.labels.x==y\"]}}", "", true, false, 0,
         "running"},
        {"a job half way", "{\"ReplicatedJob\":{\"TotalCompletions\":2}}", "",
         TASK("complete", "complete", "") "," TASK("complete", "running", ""), false, false, 0, "starting"},
        {"a job done", "{\"ReplicatedJob\":{\"TotalCompletions\":2}}", "",
         TASK("complete", "complete", "") "," TASK("complete", "complete", ""), true, false, 0, "complete"},
    };
    mst_cleanup(swarm_nodes_release) struct swarm_nodes nodes = {0};

    (void)state;
    assert_int_equal(swarm_nodes_take(cJSON_Parse(nodes_text), &nodes, NULL), 0);
    for (size_t i = 0; i < MST_ARRAY_COUNT(cases); i++) {
        mst_cleanup(converge_view_release) struct converge_view view = {0};
        mst_cleanup(mst_freep) char *text = NULL, *tasks_text = NULL;
        assert_true(asprintf(&text, "[{\"ID\":\"s\",\"Spec\":{\"Name\":\"st_x\",\"Mode\":%s%s}}]",
                             cases[i].mode, cases[i].more) > 0);
        assert_true(asprintf(&tasks_text, "[%s]", cases[i].tasks) > 0);
        mst_cleanup(mst_json_deletep) cJSON *services = cJSON_Parse(text);
        mst_cleanup(mst_json_deletep) cJSON *tasks = cJSON_Parse(tasks_text);
        assert_true(services && tasks);
        assert_int_equal(converge_judge(services, tasks, &nodes, 0, &view, NULL), 0);
        const struct converge_service *s = &view.items[0];
        if (view.count != 1 || s->is_settled != cases[i].is_settled ||
            s->is_waiting_for_node != cases[i].is_waiting || s->code != cases[i].code ||
            strcmp(s->state, cases[i].service_state) != 0)
            fail_msg("%s: settled %d, waiting %d, code %d, state '%s'", cases[i].name, s->is_settled,
                     s->is_waiting_for_node, s->code, s->state);
    }
}

static void updates_are_judged_by_their_status(void **state)
{
    static const struct {
        const char *update;
        bool is_settled;
        int code;
    } cases[] = {
        {"updating", false, 0},
        {"completed", true, 0},
        {"", true, 0},
        {"paused", true, SWARM_NO_CONVERGENCE},
        {"rollback_paused", true, SWARM_NO_CONVERGENCE},
        {"rollback_started", false, 0},
        {"rollback_completed", true, SWARM_ROLLED_BACK},
    };
    mst_cleanup(swarm_nodes_release) struct swarm_nodes nodes = {0};

    (void)state;
    assert_int_equal(swarm_nodes_take(cJSON_Parse(nodes_text), &nodes, NULL), 0);
    for (size_t i = 0; i < MST_ARRAY_COUNT(cases); i++) {
        mst_cleanup(converge_view_release) struct converge_view view = {0};
        mst_cleanup(mst_freep) char *text = NULL;
        struct mst_error err = MST_ERROR_INIT;
        assert_true(
            asprintf(&text,
                     "[{\"ID\":\"s\",\"Spec\":{\"Name\":\"st_x\",\"Mode\":{\"Replicated\":{\"Replicas\":1}}},"
                     "\"UpdateStatus\":{\"State\":\"%s\",\"Message\":\"why\"}}]",
                     cases[i].update) > 0);
        mst_cleanup(mst_json_deletep) cJSON *services = cJSON_Parse(text);
        mst_cleanup(mst_json_deletep) cJSON *tasks = cJSON_Parse("[" TASK("running", "running", "") "]");
        assert_int_equal(converge_judge(services, tasks, &nodes, 0, &view, NULL), 0);
        assert_int_equal(converge_view_is_settled(&view), cases[i].is_settled && cases[i].code == 0);
        assert_int_equal(converge_verdict(&view, &err), cases[i].code);
        if (cases[i].code != 0)
            assert_non_null(strstr(err.text, cases[i].code == SWARM_ROLLED_BACK
                                                 ? "'st_x' was rolled back"
                                                 : "'st_x' will not converge"));
    }
}

static struct converge_service judge_one(const char *service, const char *tasks_text, double since_s)
{
    mst_cleanup(swarm_nodes_release) struct swarm_nodes nodes = {0};
    mst_cleanup(converge_view_release) struct converge_view view = {0};
    mst_cleanup(mst_json_deletep) cJSON *services = cJSON_Parse(service), *tasks = cJSON_Parse(tasks_text);

    assert_true(services && tasks);
    assert_int_equal(swarm_nodes_take(cJSON_Parse(nodes_text), &nodes, NULL), 0);
    assert_int_equal(converge_judge(services, tasks, &nodes, since_s, &view, NULL), 0);
    return view.items[0];
}

#define SERVICE(more) "[{\"ID\":\"s\",\"Spec\":{\"Name\":\"st_x\",\"Mode\":" RUNNING more "}]"
#define THREE_FAILED                                                                                         \
    "[" TASK("shutdown", "failed", "1") "," TASK("shutdown", "failed", "1") "," TASK("shutdown", "failed",   \
                                                                                     "1") "]"

static void failures_are_the_managers_while_it_updates(void **state)
{
    static const struct {
        const char *service;
        int code;
    } cases[] = {
        {SERVICE("},\"UpdateStatus\":{\"State\":\"updating\"}"), 0},
        {SERVICE(
             ",\"UpdateConfig\":{\"FailureAction\":\"rollback\"}},\"UpdateStatus\":{\"State\":\"updating\"}"),
         0},
        {SERVICE(
             ",\"UpdateConfig\":{\"FailureAction\":\"continue\"}},\"UpdateStatus\":{\"State\":\"updating\"}"),
         SWARM_NO_CONVERGENCE},
        {SERVICE("},\"UpdateStatus\":{\"State\":\"completed\"}"), SWARM_NO_CONVERGENCE},
    };

    (void)state;
    for (size_t i = 0; i < MST_ARRAY_COUNT(cases); i++)
        assert_int_equal(judge_one(cases[i].service, THREE_FAILED, 0).code, cases[i].code);
}

static void a_rollback_of_before_is_not_held_against_a_deployment(void **state)
{
    static const char service[] =
        SERVICE("},\"UpdateStatus\":{\"State\":\"rollback_completed\",\"StartedAt\":"
                "\"2026-01-01T00:00:05Z\"}");
    static const char tasks[] = "[" TASK("running", "running", "") "," TASK("running", "running", "") "]";

    (void)state;
    assert_int_equal(judge_one(service, tasks, 1767225611.0).code, 0);
    assert_true(judge_one(service, tasks, 1767225611.0).is_settled);
    assert_int_equal(judge_one(service, tasks, 1767225602.0).code, SWARM_ROLLED_BACK);
    assert_int_equal(judge_one(service, tasks, 0).code, SWARM_ROLLED_BACK);
}

static void what_never_starts_on_a_lost_node_is_not_waited_for(void **state)
{
    (void)state;
    assert_true(judge_one(SERVICE("}"),
                          "[" TASK("running", "running", "") "," TASK("running", "running", "") "," TASK(
                              "shutdown", "preparing", "") "]",
                          0)
                    .is_settled);
}

static void a_jobs_earlier_runs_do_not_count(void **state)
{
    static const char job[] = "[{\"ID\":\"s\",\"Spec\":{\"Name\":\"st_x\",\"Mode\":{\"ReplicatedJob\":{"
                              "\"TotalCompletions\":1}}},\"JobStatus\":{\"JobIteration\":{\"Index\":12}}}]";
    static const char tasks[] = "[{\"ServiceID\":\"s\",\"JobIteration\":{\"Index\":%d},\"DesiredState\":"
                                "\"complete\",\"Status\":{\"State\":\"complete\"}}]";
    char text[256];

    (void)state;
    (void)snprintf(text, sizeof text, tasks, 11);
    assert_false(judge_one(job, text, 0).is_settled);
    (void)snprintf(text, sizeof text, tasks, 12);
    assert_true(judge_one(job, text, 0).is_settled);
}

static void failures_of_before_do_not_count(void **state)
{
    mst_cleanup(swarm_nodes_release) struct swarm_nodes nodes = {0};
    mst_cleanup(mst_json_deletep) cJSON *services = cJSON_Parse(
        "[{\"ID\":\"s\",\"Spec\":{\"Name\":\"st_x\",\"Mode\":{\"Replicated\":{\"Replicas\":1}}" NEVER
        "},\"PreviousSpec\":{\"TaskTemplate\":{\"ContainerSpec\":{\"Image\":\"x\"}}}}]"); /* its update is to
                                                                                             begin */
    mst_cleanup(mst_json_deletep) cJSON *tasks = cJSON_Parse("[" TASK("shutdown", "failed", "1") "]");
    mst_cleanup(converge_view_release) struct converge_view now = {0}, before = {0};

    (void)state;
    assert_int_equal(swarm_nodes_take(cJSON_Parse(nodes_text), &nodes, NULL), 0);
    assert_int_equal(converge_judge(services, tasks, &nodes, 1767225610.0, &now, NULL),
                     0); /* made just then */
    assert_int_equal(now.items[0].code, SWARM_NO_CONVERGENCE);
    assert_int_equal(converge_judge(services, tasks, &nodes, 1767225611.0, &before, NULL), 0);
    assert_int_equal(before.items[0].code, 0);
    assert_string_equal(before.items[0].reason, "");
}

#define PLACED(slot, node, second, desired, state)                                                           \
    "{\"ServiceID\":\"s\",\"Slot\":" slot ",\"NodeID\":\"" node                                              \
    "\",\"CreatedAt\":\"2026-01-01T00:00:" second "Z\",\"DesiredState\":\"" desired                          \
    "\",\"Status\":{\"State\":\"" state "\",\"Err\":\"its words\"}}"
#define AT_MOST(times)                                                                                       \
    ",\"TaskTemplate\":{\"RestartPolicy\":{\"Condition\":\"on-failure\",\"MaxAttempts\":" times "}}"
#define BEFORE(spec) "},\"PreviousSpec\":{\"Mode\":{\"Replicated\":{\"Replicas\":7}}" spec "}"

static void what_is_told_to_end_is_counted_until_it_has(void **state)
{
    static const struct {
        const char *tasks;
        size_t leaving;
    } cases[] = {
        {PLACED("1", "n1", "10", "running", "running"), 0},
        {PLACED("1", "n1", "10", "remove", "running") "," PLACED("2", "n2", "10", "shutdown", "starting"), 2},
        {PLACED("1", "n1", "10", "remove", "shutdown") "," PLACED("2", "n2", "10", "shutdown", "failed"), 0},
        {PLACED("1", "lost", "10", "remove", "running"), 0},
    };

    (void)state;
    for (size_t i = 0; i < MST_ARRAY_COUNT(cases); i++) {
        mst_cleanup(mst_freep) char *tasks = NULL;
        assert_true(asprintf(&tasks, "[%s]", cases[i].tasks) > 0);
        assert_int_equal(judge_one(SERVICE("}"), tasks, 0).leaving, cases[i].leaving);
    }
}

static void a_failure_that_nothing_follows_stays_one(void **state)
{
    static const struct {
        const char *name, *service, *tasks;
        int code;
        const char *service_state;
    } cases[] = {
        {"never again", SERVICE(NEVER "}"), PLACED("1", "n1", "10", "shutdown", "failed"),
         SWARM_NO_CONVERGENCE, "failed"},
        {"rejected", SERVICE(NEVER "}"), PLACED("1", "n1", "10", "shutdown", "rejected"),
         SWARM_NO_CONVERGENCE, "rejected"},
        {"all attempts are used up", SERVICE(AT_MOST("1") "}"),
         PLACED("1", "n1", "09", "shutdown", "failed") "," PLACED("1", "n2", "10", "shutdown", "failed"),
         SWARM_NO_CONVERGENCE, "failed"},
        {"another one follows", SERVICE(AT_MOST("1") "}"),
         PLACED("1", "n1", "09", "shutdown", "failed") "," PLACED("1", "n2", "10", "running", "preparing"), 0,
         "starting"},
        {"the manager has not looked yet", SERVICE(AT_MOST("1") "}"),
         PLACED("1", "n1", "10", "running", "failed"), 0, "starting"},
        {"restarted for ever", SERVICE("}"), PLACED("1", "n1", "10", "shutdown", "failed"), 0, "starting"},
        {"global, on the other node", SERVICE(NEVER "}"),
         PLACED("0", "n1", "09", "shutdown", "failed") "," PLACED("0", "n2", "10", "running", "running"),
         SWARM_NO_CONVERGENCE, "failed"},
        {"only replicas were written", SERVICE(NEVER BEFORE(NEVER)),
         PLACED("1", "n1", "10", "shutdown", "failed"), SWARM_NO_CONVERGENCE, "failed"},
        {"the tasks' part was written", SERVICE(NEVER BEFORE(AT_MOST("1"))),
         PLACED("1", "n1", "10", "shutdown", "failed"), 0, "starting"},
        {"its update is over",
         SERVICE(NEVER BEFORE(AT_MOST("1") "},\"UpdateStatus\":{\"State\":\"completed\"")),
         PLACED("1", "n1", "10", "shutdown", "failed"), SWARM_NO_CONVERGENCE, "failed"},
        {"its update is under way", SERVICE(NEVER "},\"UpdateStatus\":{\"State\":\"updating\"}"),
         PLACED("1", "n1", "10", "shutdown", "failed"), 0, "updating"},
    };

    (void)state;
    for (size_t i = 0; i < MST_ARRAY_COUNT(cases); i++) {
        mst_cleanup(mst_freep) char *tasks = NULL;
        assert_true(asprintf(&tasks, "[%s]", cases[i].tasks) > 0);
        const struct converge_service s = judge_one(cases[i].service, tasks, 1767225660.0);
        if (s.code != cases[i].code || strcmp(s.state, cases[i].service_state) != 0)
            fail_msg("%s: code %d, state '%s'", cases[i].name, s.code, s.state);
        if (s.code != 0)
            assert_string_equal(s.reason, "its words");
    }
}

static void exit_statuses_tell_the_ends_apart(void **state)
{
    static const struct {
        int code, signal, status;
    } cases[] = {
        {SWARM_NO_CONVERGENCE, 0, 6}, {SWARM_ROLLED_BACK, 0, 5}, {SWARM_WORKER_FAILED, 0, 7},
        {-ECANCELED, 2, 130},         {-ECANCELED, 15, 143},     {-EREMOTEIO, 0, 3},
        {-ETIMEDOUT, 0, 4},           {-ENOENT, 0, 1},           {-ESTALE, 0, 1},
    };

    (void)state;
    for (size_t i = 0; i < MST_ARRAY_COUNT(cases); i++)
        assert_int_equal(swarm_exit_status(cases[i].code, cases[i].signal), cases[i].status);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(services_are_judged_by_their_tasks),
        cmocka_unit_test(updates_are_judged_by_their_status),
        cmocka_unit_test(failures_of_before_do_not_count),
        cmocka_unit_test(what_is_told_to_end_is_counted_until_it_has),
        cmocka_unit_test(a_failure_that_nothing_follows_stays_one),
        cmocka_unit_test(failures_are_the_managers_while_it_updates),
        cmocka_unit_test(a_rollback_of_before_is_not_held_against_a_deployment),
        cmocka_unit_test(what_never_starts_on_a_lost_node_is_not_waited_for),
        cmocka_unit_test(a_jobs_earlier_runs_do_not_count),
        cmocka_unit_test(exit_statuses_tell_the_ends_apart),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
