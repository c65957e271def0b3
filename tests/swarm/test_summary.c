/* SPDX-License-Identifier: Apache-2.0 */
#include "../common/test.h"
#include "history_csv.h"
#include "muster/json.h"
#include "summary.h"

static struct worker_epoch epochs[] = {
    {.epoch = 1,
     .view = 1,
     .rank = 0,
     .steps = 7,
     .seconds = 0.35,
     .ms_per_step = 50,
     .loss = 2.125,
     .accuracy = 0.25,
     .wait_ms = 1,
     .transfer_ms = 2,
     .compute_ms = 3,
     .bytes_sent = 1034505080},
    {.epoch = 2,
     .view = 1,
     .rank = 0,
     .steps = 7,
     .seconds = 0.7,
     .ms_per_step = 100,
     .loss = 1.5,
     .accuracy = 0.5},
};

static struct worker two[] = {
    {.slot = "w1.1",
     .node_id = "n1",
     .state = WORKER_DONE,
     .rank = 0,
     .seconds = 1.05,
     .ms_per_step = 75,
     .loss = 1.5,
     .accuracy = 0.5,
     .digest = "0123456789abcdef",
     .sweep_ms = 40,
     .first_step_ms = 900,
     .view_ms = 800,
     .test_accuracy = 0.75,
     .history = epochs,
     .history_count = 2},
    {.slot = "w2.1",
     .node_id = "n9",
     .state = WORKER_FAILED,
     .starts = 3,
     .rank = -1,
     .reason = "lost \"peer\"",
     .sweep_ms = -1,
     .first_step_ms = -1,
     .view_ms = -1,
     .test_accuracy = -1},
};

static const struct workers workers = {.items = two, .count = 2, .test_accuracy = 0.75};

static void a_history_can_be_rebuilt_from_events(void **state)
{
    mst_cleanup(mst_buf_release) struct mst_buf text = MST_BUF_INIT(4096);

    (void)state;
    assert_int_equal(history_csv_append(&text, &two[0]), 0);
    assert_string_equal(
        mst_buf_text(&text),
        "slot,rank,view,epoch,steps,seconds,ms_per_step,loss,accuracy,wait_ms,transfer_ms,compute_ms,"
        "bytes_sent\n"
        "w1.1,0,1,1,7,0.350000,50.000000,2.125,0.25,1.000,2.000,3.000,1034505080\n"
        "w1.1,0,1,2,7,0.700000,100.000000,1.5,0.5,0.000,0.000,0.000,0\n");
}

static void histories_that_were_collected_stay(void **state)
{
    const struct test_folder *folder = *state;
    struct worker with_evil[] = {two[0], two[0], two[1]};
    const struct workers three = {.items = with_evil, .count = 3};
    mst_cleanup(mst_buf_release) struct mst_buf text = MST_BUF_INIT(4096);
    char path[320];

    (void)snprintf(with_evil[1].slot, sizeof with_evil[1].slot, "../../evil");
    test_write(test_path(folder, "history-w1.1.csv", path), "theirs", 6);
    assert_int_equal(history_csv_write_missing(folder->path, &three, NULL), 0);
    assert_int_equal(test_entries(folder->path),
                     1); /* not the evil one, and none for a worker without epochs */
    assert_int_equal(mst_file_read(path, &text, NULL), 0);
    assert_string_equal(mst_buf_text(&text), "theirs");
    assert_int_equal(unlink(path), 0);
    assert_int_equal(history_csv_write_missing(folder->path, &three, NULL), 0);
    assert_int_equal(access(path, F_OK), 0);
}

static struct summary make_summary(const struct swarm_nodes *nodes, const struct compose_project *project,
                                   const struct engine_info *info)
{
    static const char *const given[] = {"MUSTER_EPOCHS=3", "API_TOKEN=hush", "OTHER=x", NULL};
    static const char *const environment[] = {
        "MUSTER_SEED=5", "MUSTER_EPOCHS=9", "MUSTER_KEY=hush", "HOME=/root", "odd", NULL};
    static const char *const filled[] = {"MUSTER_NODE1=alpha", NULL};

    return (struct summary){
        .stack = "st",
        .result = "failed",
        .reason = "worker 'w2.1' failed",
        .folder = "/runs/x",
        .workers = &workers,
        .nodes = nodes,
        .info = info,
        .project = project,
        .times = {.started_s = 1767225600, .deployed_s = 1767225601.5, .ended_s = 1767225610},
        .given = given,
        .environment = environment,
        .filled = filled,
        .stats_rows = 4,
    };
}

static const char nodes_text[] =
    "[{\"ID\":\"n1\",\"Description\":{\"Hostname\":\"alpha\",\"Resources\":{\"NanoCPUs\":2000000000,"
    "\"MemoryBytes\":4096}},\"Status\":{\"State\":\"ready\",\"Addr\":\"10.1.0.1\"}}]";

static void run_json_says_what_ran_and_no_secrets(void **state)
{
    mst_cleanup(swarm_nodes_release) struct swarm_nodes nodes = {0};
    mst_cleanup(mst_json_deletep) cJSON *json = NULL;
    mst_cleanup(mst_freep) char *text = NULL;
    struct compose_service service = {.key = "w1", .image = "muster:1"};
    const struct compose_project project = {.services = &service, .service_count = 1};
    const struct engine_info info = {.name = "alpha", .server_version = "20.10.24"};
    struct summary summary;
    const cJSON *variables, *worker;

    (void)state;
    assert_int_equal(swarm_nodes_take(cJSON_Parse(nodes_text), &nodes, NULL), 0);
    summary = make_summary(&nodes, &project, &info);
    assert_int_equal(summary_json(&summary, &json, NULL), 0);
    text = cJSON_PrintUnformatted(json);
    assert_null(strstr(text, "hush"));
    assert_null(strstr(text, "/root"));
    variables = mst_json_at(json, "variables", NULL);
    assert_int_equal(cJSON_GetArraySize(variables), 4);
    assert_string_equal(mst_json_string_or(variables, "MUSTER_EPOCHS", ""), "3"); /* what was given wins */
    assert_string_equal(mst_json_string_or(json, "started", ""), "2026-01-01T00:00:00.000Z");
    assert_string_equal(mst_json_string_or(json, "reason", ""), "worker 'w2.1' failed");
    assert_true(mst_json_double_or(mst_json_at(json, "timings", NULL), "deploy_seconds", 0) == 1.5);
    assert_true(cJSON_IsNull(mst_json_at(json, "timings", "collect_seconds", NULL)));
    assert_true(mst_json_double_or(mst_json_at(json, "timings", NULL), "sweep_ms", 0) == 40);
    assert_true(mst_json_bool_or(json, "digests_equal", false));
    worker = cJSON_GetArrayItem(mst_json_at(json, "workers", NULL), 0);
    assert_string_equal(mst_json_string_or(worker, "node", ""), "alpha");
    worker = cJSON_GetArrayItem(mst_json_at(json, "workers", NULL), 1);
    assert_string_equal(mst_json_string_or(worker, "reason", ""), "lost \"peer\"");
    assert_true(cJSON_IsNull(mst_json_at(worker, "rank", NULL)));
    assert_string_equal(mst_json_string_or(mst_json_at(json, "images", NULL), "w1", ""), "muster:1");
}

static void recoveries_are_in_run_json_and_in_the_table(void **state)
{
    mst_cleanup(swarm_nodes_release) struct swarm_nodes nodes = {0};
    mst_cleanup(mst_json_deletep) cJSON *json = NULL, *none = cJSON_CreateArray(),
                                        *lost = cJSON_Parse("[\"w2.1\"]");
    const struct compose_project project = {0};
    const struct engine_info info = {0};
    struct worker_recovery recoveries[] = {{.view = 2,
                                            .world = 2,
                                            .lost = lost,
                                            .joined = none,
                                            .left = none,
                                            .detected_ms = 2000,
                                            .agreed_ms = 11.5,
                                            .ready_ms = 20,
                                            .ms = 61.5,
                                            .steps_repeated = 1},
                                           {.lost = none, .joined = none, .left = none, .ms = 5}};
    struct workers some = workers;
    struct summary summary;
    const cJSON *first;
    char *text = NULL;
    size_t bytes;
    FILE *stream = open_memstream(&text, &bytes);

    (void)state;
    some.recoveries = recoveries;
    some.recovery_count = 2;
    assert_int_equal(swarm_nodes_take(cJSON_Parse(nodes_text), &nodes, NULL), 0);
    summary = make_summary(&nodes, &project, &info);
    summary.workers = &some;
    assert_int_equal(summary_json(&summary, &json, NULL), 0);
    assert_int_equal(cJSON_GetArraySize(mst_json_at(json, "recoveries", NULL)), 2);
    first = cJSON_GetArrayItem(mst_json_at(json, "recoveries", NULL), 0);
    assert_int_equal(mst_json_u64_or(first, "view", 0), 2);
    assert_string_equal(cJSON_GetArrayItem(mst_json_at(first, "lost", NULL), 0)->valuestring, "w2.1");
    assert_true(mst_json_double_or(first, "detected_ms", 0) == 2000);
    assert_true(mst_json_double_or(first, "ms", 0) == 61.5);
    assert_int_equal(mst_json_u64_or(first, "steps_repeated", 0), 1);
    assert_int_equal(mst_json_u64_or(cJSON_GetArrayItem(mst_json_at(json, "workers", NULL), 1), "starts", 0),
                     3);
    assert_int_equal(summary_print(&summary, stream, NULL), 0);
    (void)fclose(stream);
    assert_non_null(strstr(text, "changes of the view:                   2, the longest took 62 ms\n"));
    free(text);
}

static void the_summary_is_a_table_and_a_few_lines(void **state)
{
    mst_cleanup(swarm_nodes_release) struct swarm_nodes nodes = {0};
    const struct compose_project project = {0};
    const struct engine_info info = {0};
    struct summary summary;
    char *text = NULL;
    size_t bytes;
    FILE *stream = open_memstream(&text, &bytes);

    (void)state;
    assert_int_equal(swarm_nodes_take(cJSON_Parse(nodes_text), &nodes, NULL), 0);
    summary = make_summary(&nodes, &project, &info);
    assert_int_equal(summary_print(&summary, stream, NULL), 0);
    (void)fclose(stream);
    assert_non_null(strstr(text, "w1.1    alpha     0     1.05     75.0  1.5000    0.5000  0123456789ab"));
    assert_non_null(strstr(text, "w2.1    n9        -"));
    assert_non_null(strstr(text, "sweep of the subnet:                   40 ms\n"));
    assert_non_null(strstr(text, "last start to first training step:     900 ms\n"));
    assert_non_null(strstr(text, "run folder:                            /runs/x\n"));
    free(text);
}

static void the_first_step_counts_from_the_last_start(void **state)
{
    struct worker three[] = {{.first_step_ms = 2500, .sweep_ms = 10},
                             {.first_step_ms = -1, .sweep_ms = -1},
                             {.first_step_ms = 1200, .sweep_ms = 30}};
    const struct workers some = {.items = three, .count = 3}, none = {0};

    (void)state;
    assert_true(summary_first_step_ms(&some) == 1200);
    assert_true(summary_sweep_ms(&some) == 30);
    assert_true(summary_first_step_ms(&none) == -1 && summary_sweep_ms(&none) == -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_history_can_be_rebuilt_from_events),
        cmocka_unit_test_setup_teardown(histories_that_were_collected_stay, test_folder_setup,
                                        test_folder_teardown),
        cmocka_unit_test(run_json_says_what_ran_and_no_secrets),
        cmocka_unit_test(recoveries_are_in_run_json_and_in_the_table),
        cmocka_unit_test(the_summary_is_a_table_and_a_few_lines),
        cmocka_unit_test(the_first_step_counts_from_the_last_start),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
