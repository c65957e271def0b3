/* SPDX-License-Identifier: Apache-2.0 */
#include "../common/test.h"
#include "muster/json.h"
#include "progress.h"
#include "tasks.h"
#include "taskstate.h"

static struct worker_epoch epochs[] = {
    {.epoch = 1, .steps = 10, .seconds = 1, .ms_per_step = 100, .loss = 2, .accuracy = 0.5},
    {.epoch = 2, .steps = 10, .seconds = 2, .ms_per_step = 200, .loss = 1, .accuracy = 0.6}};

static char *shown(bool is_terminal, struct progress *progress, const struct workers *workers)
{
    char *text = NULL;
    size_t bytes;
    struct report report = {.stream = open_memstream(&text, &bytes),
                            .is_terminal = is_terminal,
                            .columns = 200,
                            .drawn = MST_BUF_INIT(65536)};

    progress_show(progress, &report, workers);
    progress_show(progress, &report, workers); /* nothing new, nothing shown */
    (void)fclose(report.stream);
    report_release(&report);
    return text;
}

static void a_pipe_gets_one_line_an_epoch(void **state)
{
    struct worker two[] = {{.slot = "a",
                            .state = WORKER_TRAINING,
                            .world = 2,
                            .epochs = 3,
                            .history = epochs,
                            .history_count = 2},
                           {.slot = "b",
                            .state = WORKER_TRAINING,
                            .world = 2,
                            .epochs = 3,
                            .history = epochs,
                            .history_count = 1}};
    const struct workers workers = {.items = two, .count = 2};
    const struct swarm_nodes nodes = {0};
    struct progress progress = {.nodes = &nodes, .expected = 2};
    char *text = shown(false, &progress, &workers);

    (void)state;
    assert_string_equal(
        text, "2 workers have found each other\n"
              "epoch 1/3: 2 workers, 10 steps in 1.0 s, 100.0 ms/step, loss 2.0000, accuracy 0.5000\n");
    free(text);
    two[1].history_count = 2;
    text = shown(false, &progress, &workers);
    assert_string_equal(
        text, "epoch 2/3: 2 workers, 10 steps in 2.0 s, 200.0 ms/step, loss 1.0000, accuracy 0.6000\n");
    free(text);
}

static void what_happens_to_the_view_is_told_once(void **state)
{
    mst_cleanup(mst_json_deletep) cJSON *none = cJSON_CreateArray(), *one = cJSON_Parse("[\"st_w2.1\"]"),
                                        *two = cJSON_Parse("[\"st_w2.1\",\"st_w3.1\"]");
    struct worker_loss losses[] = {
        {.slot = "st_w2.1", .reason = "the connection closed", .view = 3, .step = 412},
        {.slot = "st_w2.1", .reason = "no data", .said_itself = true}};
    struct worker_recovery recoveries[] = {
        {.view = 4, .world = 2, .lost = one, .joined = none, .left = none, .ms = 412},
        {.view = 5, .world = 4, .lost = none, .joined = two, .left = none, .ms = 20},
        {.view = 6, .world = 3, .lost = none, .joined = none, .left = one, .ms = 30}};
    struct worker paused[] = {{.slot = "st_w1.1", .state = WORKER_PAUSED, .have = 1, .want = 2}};
    struct workers workers = {.items = paused, .count = 1, .losses = losses, .loss_count = 1};
    const struct swarm_nodes nodes = {0};
    struct progress progress = {.nodes = &nodes, .stack = "st", .expected = 1};
    char *text = shown(false, &progress, &workers);

    (void)state;
    assert_string_equal(text, "w2.1 lost: the connection closed (view 3, after step 412)\n"
                              "paused: 1 of the 2 workers that are needed to go on\n");
    free(text);
    paused[0].state = WORKER_CHANGING;
    workers.loss_count = 2;
    workers.recoveries = recoveries;
    workers.recovery_count = 3;
    text = shown(false, &progress, &workers);
    assert_string_equal(text, "w2.1 failed: no data\n"
                              "view 4, 2 workers, w2.1 lost; training again after 0.41 s\n"
                              "view 5, 4 workers, w2.1 and w3.1 joined; training again after 0.02 s\n"
                              "view 6, 3 workers, w2.1 left; training again after 0.03 s\n");
    free(text);
    paused[0].state = WORKER_PAUSED;
    text = shown(true, &progress, &workers);
    assert_non_null(strstr(text, "paused: 1 of the 2 workers that are needed to go on\n  w1.1       ?"));
    free(text);
}

static void a_terminal_gets_a_block_that_is_redrawn(void **state)
{
    struct worker one[] = {{.slot = "a",
                            .state = WORKER_TRAINING,
                            .epochs = 2,
                            .epoch = 2,
                            .step = 5,
                            .steps = 10,
                            .ms_per_step = 1000,
                            .loss = 1.5,
                            .accuracy = 0.25}};
    const struct workers workers = {.items = one, .count = 1};
    const struct swarm_nodes nodes = {0};
    struct progress progress = {.nodes = &nodes, .expected = 3};
    char *text = shown(true, &progress, &workers);

    (void)state;
    assert_non_null(strstr(
        text,
        "  a          ?        [########--]   2/2   loss  1.500 acc 0.250  1000 ms/step  0:05  5/10\n"));
    assert_non_null(strstr(text, "  1 of 3 workers have started\n"));
    assert_null(strstr(text, "\033["));
    free(text);
}

static void each_state_has_its_line(void **state)
{
    static const struct {
        struct worker worker;
        const char *text;
    } cases[] = {
        {{.slot = "a", .state = WORKER_FORMING}, "looking for the others"},
        {{.slot = "a", .state = WORKER_FORMING, .have = 1, .want = 3}, "waiting: 1 of 3 workers"},
        {{.slot = "a", .state = WORKER_PAUSED, .have = 1, .want = 2},
         "paused: 1 of the 2 workers that are needed"},
        {{.slot = "a", .state = WORKER_CHANGING, .view = 3}, "changing: view 3 is over"},
        {{.slot = "a", .state = WORKER_LEAVING, .reason = "SIGTERM"}, "leaving: SIGTERM"},
        {{.slot = "a", .state = WORKER_LOST, .reason = "its task ended: x"}, "lost: its task ended: x"},
        {{.slot = "a", .state = WORKER_FAILED, .reason = "lost peer"}, "failed: lost peer"},
        {{.slot = "a", .state = WORKER_DONE, .epochs = 2, .epoch = 2}, "[##########]"},
        {{.slot = "a", .state = WORKER_TRAINING}, "[----------]"},
    };
    const struct swarm_nodes nodes = {0};
    const struct progress progress = {.nodes = &nodes};

    (void)state;
    for (size_t i = 0; i < MST_ARRAY_COUNT(cases); i++) {
        char text[768];
        progress_worker_line(&progress, &cases[i].worker, text, sizeof text);
        if (!strstr(text, cases[i].text))
            fail_msg("'%s' lacks '%s'", text, cases[i].text);
    }
}

static void lines_are_cut_to_the_terminal(void **state)
{
    char *text = NULL;
    size_t bytes;
    struct report report = {.stream = open_memstream(&text, &bytes),
                            .is_terminal = true,
                            .columns = 6,
                            .drawn = MST_BUF_INIT(65536)};

    (void)state;
    report_block(&report, "\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\nab\n");
    report_block(&report, "cd\n"); /* two lines up for the next drawing */
    report_line(&report, "done");
    (void)fclose(report.stream);
    report_release(&report);
    assert_string_equal(text,
                        "\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\nab\n\033[2A\033[Jcd\n\033[1A\033[Jdone\n");
    free(text);
}

static void times_of_tasks_are_read(void **state)
{
    static const struct {
        const char *text;
        double seconds;
    } cases[] = {
        {"1970-01-01T00:00:01Z", 1},
        {"2026-01-01T00:00:10.5Z", 1767225610.5},
        {"2026-01-01T01:00:10.000000000+01:00", 1767225610},
        {"2025-12-31T22:30:10-01:30", 1767225610},
        {"0001-01-01T00:00:00Z", -62135596800},
        {"", 0},
        {"yesterday", 0},
        {"2026-13-01T00:00:00Z", 0},
        {"2026-01-01T00:00:nanZ", 0},
    };
    char text[32];

    (void)state;
    for (size_t i = 0; i < MST_ARRAY_COUNT(cases); i++) {
        if (taskstate_time_s(cases[i].text) != cases[i].seconds)
            fail_msg("%s: %f", cases[i].text, taskstate_time_s(cases[i].text));
    }
    tasks_age_text(0.2, text, sizeof text);
    assert_string_equal(text, "now");
    tasks_age_text(61, text, sizeof text);
    assert_string_equal(text, "1 minute ago");
    tasks_age_text(7300, text, sizeof text);
    assert_string_equal(text, "2 hours ago");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_pipe_gets_one_line_an_epoch),
        cmocka_unit_test(what_happens_to_the_view_is_told_once),
        cmocka_unit_test(a_terminal_gets_a_block_that_is_redrawn),
        cmocka_unit_test(each_state_has_its_line),
        cmocka_unit_test(lines_are_cut_to_the_terminal),
        cmocka_unit_test(times_of_tasks_are_read),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
