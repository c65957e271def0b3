/* SPDX-License-Identifier: Apache-2.0 */
#include "../common/test.h"
#include "muster/json.h"
#include "workers.h"

static int say(struct workers *workers, const char *task, unsigned stream, const char *text,
               cJSON **ret_sample)
{
    const struct log_message message = {
        .service = "st_w1",
        .task_id = task,
        .node_id = "n1",
        .timestamp = "2026-01-01T00:00:00.000000000Z",
        .text = text,
        .count = strlen(text),
        .stream = stream,
    };

    return workers_take(workers, &message, ret_sample, NULL);
}

static void tell(struct workers *workers, const char *task, const char *text)
{
    cJSON *sample = NULL;

    assert_int_equal(say(workers, task, 1, text, &sample), 0);
    assert_null(sample);
}

static void a_run_is_put_together_from_its_events(void **state)
{
    static const char *const lines[] = {
        "{\"event\":\"start\",\"t\":1,\"slot\":\"w1.1\",\"version\":\"1.2\",\"address\":\"10.1.0.2\"}",
        "{\"event\":\"sweep\",\"t\":1,\"slot\":\"w1.1\",\"ms\":12.5,\"addresses\":253,\"answered\":9,"
        "\"complete\":true,"
        "\"method\":\"arp\"}",
        "{\"event\":\"waiting\",\"t\":1,\"slot\":\"w1.1\",\"have\":1,\"want\":3,\"missing\":[]}",
        "{\"event\":\"view\",\"t\":1,\"slot\":\"w1.1\",\"view\":1,\"rank\":2,\"world\":3,\"since_start_ms\":"
        "400,"
        "\"members\":[{\"slot\":\"w1.1\",\"address\":\"10.1.0.2\"}]}",
        "{\"event\":\"first_step\",\"t\":1,\"slot\":\"w1.1\",\"since_start_ms\":512}",
        "{\"event\":\"progress\",\"t\":1,\"slot\":\"w1.1\",\"epoch\":1,\"epochs\":2,\"step\":3,\"steps\":7,"
        "\"loss\":2.2,"
        "\"accuracy\":0.1,\"ms_per_step\":50}",
        "{\"event\":\"epoch\",\"t\":2,\"slot\":\"w1.1\",\"epoch\":1,\"epochs\":2,\"steps\":7,\"seconds\":0."
        "35,\"ms_per_step\":50,"
        "\"loss\":2.1,\"accuracy\":0.2,\"wait_ms\":1,\"transfer_ms\":2,\"compute_ms\":3,\"bytes_sent\":"
        "1034505080}",
        "{\"event\":\"test\",\"t\":3,\"slot\":\"w1.1\",\"accuracy\":0.7,\"loss\":1,\"images\":10000}",
        "{\"event\":\"an event of a newer agent\",\"t\":3,\"slot\":\"w1.1\"}",
        "{\"event\":\"done\",\"t\":3,\"slot\":\"w1.1\",\"seconds\":0.7,\"epochs\":2,\"steps\":14,\"digest\":"
        "\"abc\",\"loss\":1.9,"
        "\"accuracy\":0.3,\"test_accuracy\":0.7}",
    };
    struct workers workers;

    (void)state;
    workers_init(&workers);
    for (size_t i = 0; i < MST_ARRAY_COUNT(lines); i++)
        tell(&workers, "t1", lines[i]);
    assert_int_equal(workers.count, 1);
    const struct worker *w = &workers.items[0];
    assert_int_equal(w->state, WORKER_DONE);
    assert_string_equal(w->slot, "w1.1");
    assert_int_equal(w->rank, 2);
    assert_true(w->sweep_ms == 12.5 && w->sweep_is_complete && w->first_step_ms == 512);
    assert_int_equal(w->history_count, 1);
    assert_int_equal(w->history[0].bytes_sent, 1034505080);
    assert_int_equal(w->history[0].rank, 2);
    assert_true(w->ms_per_step == 50 && w->loss == 1.9 && workers.test_accuracy == 0.7);
    assert_string_equal(w->digest, "abc");
    assert_int_equal(cJSON_GetArraySize(workers.members), 1);
    assert_int_equal(workers_common_epoch(&workers), 1);
    assert_true(workers_digests_are_equal(&workers));
    workers_release(&workers);
}

static void workers_stay_in_the_order_of_their_slots(void **state)
{
    struct workers workers;

    (void)state;
    workers_init(&workers);
    tell(&workers, "t3", "{\"event\":\"start\",\"slot\":\"c\"}");
    tell(&workers, "t1", "{\"event\":\"start\",\"slot\":\"a\"}");
    tell(&workers, "t2", "{\"event\":\"start\",\"slot\":\"b\"}");
    assert_int_equal(workers.count, 3);
    assert_string_equal(workers.items[0].slot, "a");
    assert_string_equal(workers.items[2].slot, "c");
    assert_string_equal(workers_by_task(&workers, "t2")->slot, "b");
    assert_null(workers_by_task(&workers, "t9"));
    assert_false(workers_digests_are_equal(&workers));
    tell(&workers, "t1", "{\"event\":\"done\",\"digest\":\"x\"}");
    tell(&workers, "t2", "{\"event\":\"done\",\"digest\":\"x\"}");
    assert_true(workers_digests_are_equal(&workers));
    tell(&workers, "t3", "{\"event\":\"done\",\"digest\":\"y\"}");
    assert_false(workers_digests_are_equal(&workers));
    workers_release(&workers);
}

static void a_slots_next_task_begins_anew(void **state)
{
    struct workers workers;

    (void)state;
    workers_init(&workers);
    tell(&workers, "t1", "{\"event\":\"start\",\"slot\":\"a\"}");
    tell(&workers, "t1", "{\"event\":\"failed\",\"t\":5,\"slot\":\"a\",\"reason\":\"lost\\npeer\"}");
    assert_int_equal(workers.items[0].state, WORKER_FAILED);
    assert_string_equal(workers.items[0].reason, "lost peer");
    tell(&workers, "t2", "{\"event\":\"start\",\"slot\":\"a\"}");
    assert_int_equal(workers.count, 1);
    assert_int_equal(workers.items[0].state, WORKER_FORMING);
    assert_string_equal(workers.items[0].reason, "");
    workers_release(&workers);
}

static void a_restarted_worker_keeps_its_history(void **state)
{
    struct workers workers;

    (void)state;
    workers_init(&workers);
    tell(&workers, "t1", "{\"event\":\"start\",\"t\":1,\"slot\":\"a\"}");
    tell(&workers, "t1", "{\"event\":\"view\",\"view\":1,\"rank\":0,\"world\":2}");
    for (int epoch = 1; epoch <= 3; epoch++) {
        char line[128];
        (void)snprintf(line, sizeof line,
                       "{\"event\":\"epoch\",\"epoch\":%d,\"epochs\":5,\"steps\":10,\"seconds\":1}", epoch);
        tell(&workers, "t1", line);
    }
    tell(&workers, "t2", "{\"event\":\"start\",\"t\":9,\"slot\":\"a\"}");
    assert_int_equal(workers.items[0].state, WORKER_FORMING);
    assert_int_equal(workers.items[0].view, 0);
    assert_int_equal(workers.items[0].starts, 2);
    assert_int_equal(workers.items[0].history_count, 3);
    /* All were killed: a checkpoint of epoch 2 was taken up, and the third is gone through again. */
    tell(&workers, "t2", "{\"event\":\"view\",\"view\":2,\"rank\":0,\"world\":2}");
    tell(&workers, "t2",
         "{\"event\":\"epoch\",\"epoch\":3,\"epochs\":5,\"steps\":4,\"seconds\":0.4,\"loss\":7}");
    assert_int_equal(workers.items[0].history_count, 3);
    assert_true(workers.items[0].history[2].loss == 7);
    assert_int_equal(workers.items[0].history[2].view, 2);
    tell(&workers, "t2", "{\"event\":\"done\",\"seconds\":0.4,\"steps\":24}");
    assert_true(workers.items[0].ms_per_step == 100); /* of the steps that it made: 2.4 s for 24 */
    /* What the dead task said comes late, or a second time. */
    tell(&workers, "t1", "{\"event\":\"start\",\"t\":1,\"slot\":\"a\"}");
    assert_string_equal(workers.items[0].task_id, "t2");
    tell(&workers, "t1", "{\"event\":\"failed\",\"reason\":\"old\"}");
    assert_int_equal(workers.items[0].state, WORKER_DONE);
    workers_release(&workers);
}

static void states_follow_what_a_worker_says(void **state)
{
    static const struct {
        const char *line;
        enum worker_state state;
    } said[] = {
        {"{\"event\":\"start\",\"t\":1,\"slot\":\"a\"}", WORKER_FORMING},
        {"{\"event\":\"waiting\",\"have\":1,\"want\":3,\"view\":0,\"quorum\":false}", WORKER_FORMING},
        {"{\"event\":\"view\",\"view\":1,\"rank\":1,\"world\":3,\"cause\":\"first\"}", WORKER_TRAINING},
        {"{\"event\":\"progress\",\"view\":1,\"rank\":1,\"world\":3,\"epoch\":1,\"step\":2}",
         WORKER_TRAINING},
        {"{\"event\":\"lost\",\"view\":1,\"lost\":\"b\",\"reason\":\"closed\"}", WORKER_CHANGING},
        {"{\"event\":\"waiting\",\"have\":2,\"want\":2,\"view\":1,\"quorum\":false}", WORKER_CHANGING},
        {"{\"event\":\"waiting\",\"have\":1,\"want\":2,\"view\":1,\"quorum\":true}", WORKER_PAUSED},
        {"{\"event\":\"view\",\"view\":3,\"rank\":0,\"world\":2,\"cause\":\"lost\"}", WORKER_TRAINING},
        {"{\"event\":\"recovered\",\"view\":3,\"world\":2,\"ms\":4}", WORKER_TRAINING},
        {"{\"event\":\"waiting\",\"have\":1,\"want\":2,\"view\":3,\"quorum\":false}", WORKER_PAUSED},
        {"{\"event\":\"progress\",\"view\":4,\"rank\":5,\"world\":6,\"epoch\":1,\"step\":3}",
         WORKER_TRAINING},
        {"{\"event\":\"leaving\",\"view\":4,\"reason\":\"SIGTERM\"}", WORKER_LEAVING},
        {"{\"event\":\"progress\",\"view\":4,\"rank\":5,\"world\":6,\"epoch\":1,\"step\":4}", WORKER_LEAVING},
        {"{\"event\":\"waiting\",\"have\":1,\"want\":2,\"view\":4,\"quorum\":true}", WORKER_LEAVING},
    };
    struct workers workers;

    (void)state;
    workers_init(&workers);
    for (size_t i = 0; i < MST_ARRAY_COUNT(said); i++) {
        tell(&workers, "t", said[i].line);
        if (workers.items[0].state != said[i].state)
            fail_msg("%s: %s", said[i].line, worker_state_text(workers.items[0].state));
    }
    assert_int_equal(workers.items[0].view, 4);
    assert_int_equal(workers.items[0].rank, 5);
    assert_int_equal(workers.items[0].world, 6);
    workers_release(&workers);
}

static void a_loss_and_a_recovery_are_one_whoever_tells_of_them(void **state)
{
    struct workers workers;

    (void)state;
    workers_init(&workers);
    for (int i = 0; i < 3; i++) {
        char line[128];
        const char task[] = {(char)('1' + i), '\0'};
        (void)snprintf(line, sizeof line, "{\"event\":\"start\",\"t\":1,\"slot\":\"%c\"}", 'a' + i);
        tell(&workers, task, line);
        tell(&workers, task, "{\"event\":\"view\",\"view\":1,\"rank\":0,\"world\":3}");
    }
    tell(&workers, "1", "{\"event\":\"lost\",\"view\":1,\"lost\":\"c\",\"reason\":\"closed\",\"step\":41}");
    tell(&workers, "2", "{\"event\":\"lost\",\"view\":1,\"lost\":\"c\",\"reason\":\"reset\",\"step\":41}");
    assert_int_equal(workers.loss_count, 1);
    assert_string_equal(workers.losses[0].reason, "closed");
    assert_int_equal(workers.losses[0].step, 41);
    assert_int_equal(workers.items[2].state, WORKER_LOST);
    tell(&workers, "1",
         "{\"event\":\"recovered\",\"view\":2,\"world\":2,\"lost\":[\"c\"],\"joined\":[],\"left\":[],"
         "\"detected_ms\":0,\"agreed_ms\":10,\"ready_ms\":20,\"ms\":50,\"steps_repeated\":1}");
    tell(&workers, "2", "{\"event\":\"recovered\",\"view\":2,\"world\":2,\"lost\":[\"c\"],\"ms\":70}");
    tell(&workers, "1", "{\"event\":\"recovered\",\"view\":2,\"world\":2,\"lost\":[\"c\"],\"ms\":60}");
    assert_int_equal(workers.recovery_count, 1);
    assert_true(workers.recoveries[0].ms == 70);
    assert_true(workers_slowest_recovery_ms(&workers) == 70);
    assert_int_equal(cJSON_GetArraySize(workers.recoveries[0].lost), 1);
    assert_int_equal(cJSON_GetArraySize(workers.recoveries[0].joined), 0);
    /* It comes back; and what the others said of its loss, once more and late, is not about this one. */
    tell(&workers, "3b", "{\"event\":\"start\",\"t\":2,\"slot\":\"c\"}");
    tell(&workers, "2", "{\"event\":\"lost\",\"view\":1,\"lost\":\"c\"}");
    assert_int_equal(workers.items[2].state, WORKER_FORMING);
    tell(&workers, "3b", "{\"event\":\"view\",\"view\":3,\"rank\":2,\"world\":3}");
    tell(&workers, "1", "{\"event\":\"recovered\",\"view\":3,\"world\":3,\"joined\":[\"c\"],\"ms\":5}");
    assert_int_equal(workers.recovery_count, 2);
    /* One leaves. */
    tell(&workers, "2", "{\"event\":\"leaving\",\"view\":3,\"reason\":\"SIGTERM\"}");
    tell(&workers, "1", "{\"event\":\"recovered\",\"view\":4,\"world\":2,\"left\":[\"b\"],\"ms\":5}");
    assert_int_equal(workers.items[1].state, WORKER_LEFT);
    assert_int_equal(workers.loss_count, 1);
    assert_int_equal(workers.newest_view, 3);
    workers_release(&workers);
}

static void an_epoch_is_common_when_all_of_the_view_had_it(void **state)
{
    static struct worker_epoch rows[] = {{.epoch = 1}, {.epoch = 2}, {.epoch = 3}};
    static const struct {
        enum worker_state states[3];
        size_t finished[3];
        uint32_t common;
    } cases[] = {
        {{WORKER_TRAINING, WORKER_TRAINING, WORKER_TRAINING}, {0, 0, 0}, 0},
        {{WORKER_TRAINING, WORKER_TRAINING, WORKER_TRAINING}, {1, 1, 0}, 0},
        {{WORKER_TRAINING, WORKER_TRAINING, WORKER_TRAINING}, {1, 1, 1}, 1},
        {{WORKER_TRAINING, WORKER_TRAINING, WORKER_LOST}, {2, 2, 1}, 2},
        {{WORKER_TRAINING, WORKER_TRAINING, WORKER_FORMING}, {2, 2, 0}, 2},
        {{WORKER_TRAINING, WORKER_TRAINING, WORKER_TRAINING}, {2, 2, 0}, 1}, /* joined in the third */
        {{WORKER_TRAINING, WORKER_TRAINING, WORKER_TRAINING}, {3, 3, 0}, 2},
        {{WORKER_DONE, WORKER_DONE, WORKER_LEFT}, {3, 3, 1}, 3},
        {{WORKER_LOST, WORKER_LOST, WORKER_LOST}, {2, 1, 0}, 2},
    };

    (void)state;
    for (size_t i = 0; i < MST_ARRAY_COUNT(cases); i++) {
        struct worker items[3];
        const struct workers workers = {.items = items, .count = 3};
        for (size_t w = 0; w < 3; w++)
            items[w] = (struct worker){
                .state = cases[i].states[w], .history = rows, .history_count = cases[i].finished[w]};
        if (workers_common_epoch(&workers) != cases[i].common)
            fail_msg("case %zu: %u", i, workers_common_epoch(&workers));
    }
}

static void what_is_no_event_is_kept_as_text(void **state)
{
    static const char *const lines[] = {
        "plain text",
        "{",
        "{\"event\":5}",
        "{\"no\":\"event\"}",
        "[]",
        "",
        "{\"event\":\"start\"}", /* no slot */
        "{\"event\":\"done\",\"slot\":\"nobody started\"}",
        "the ninth",
    };
    struct workers workers;
    cJSON *sample = NULL;

    (void)state;
    workers_init(&workers);
    for (size_t i = 0; i < MST_ARRAY_COUNT(lines); i++)
        tell(&workers, "t1", lines[i]);
    assert_int_equal(say(&workers, "t2", 2, "{\"event\":\"start\",\"slot\":\"on stderr\"}", &sample), 0);
    assert_int_equal(workers.count, 0);
    const struct worker_tail *tail = workers_tail(&workers, "t1");
    assert_int_equal(tail->count, 9);
    assert_string_equal(tail->lines[8 % WORKERS_TAIL], "the ninth");
    assert_string_equal(tail->lines[1], "{");
    assert_null(workers_tail(&workers, "t9"));
    workers_release(&workers);
}

static void samples_and_collections_are_handed_on(void **state)
{
    struct workers workers;
    cJSON *sample = NULL;

    (void)state;
    workers_init(&workers);
    assert_int_equal(say(&workers, "m", 1, "{\"event\":\"sample\",\"t\":1,\"container\":\"c\"}", &sample), 0);
    assert_string_equal(mst_json_string_or(sample, "container", ""), "c");
    cJSON_Delete(sample);
    tell(&workers, "c1", "{\"event\":\"collected\",\"files\":7,\"bytes\":99,\"folder\":\"/runs/st\"}");
    assert_true(workers.is_collected);
    assert_string_equal(workers.collected_folder, "/runs/st");
    assert_string_equal(workers.collector_task_id, "c1");
    workers_release(&workers);
}

static void numbers_of_others_are_not_trusted(void **state)
{
    struct workers workers;

    (void)state;
    workers_init(&workers);
    tell(&workers, "t", "{\"event\":\"start\",\"slot\":\"a\"}");
    tell(&workers, "t", "{\"event\":\"view\",\"rank\":1e300,\"view\":-5,\"world\":\"many\",\"members\":{}}");
    tell(&workers, "t", "{\"event\":\"lost\",\"lost\":5,\"view\":-1}");
    tell(&workers, "t",
         "{\"event\":\"recovered\",\"view\":2,\"lost\":\"x\",\"joined\":[5,{},\"\\u009b2J\"],\"ms\":-1e999}");
    assert_int_equal(workers.loss_count, 0);
    assert_int_equal(workers.recovery_count, 1);
    assert_true(workers.recoveries[0].ms == 0);
    assert_int_equal(cJSON_GetArraySize(workers.recoveries[0].joined), 1);
    assert_string_equal(cJSON_GetArrayItem(workers.recoveries[0].joined, 0)->valuestring, " 2J");
    tell(&workers, "t",
         "{\"event\":\"epoch\",\"epoch\":1e30,\"epochs\":-1,\"steps\":1e999,\"loss\":1e999,\"seconds\":"
         "\"x\"}");
    assert_int_equal(workers.items[0].history_count, 1);
    assert_true(workers.items[0].loss == 0);
    assert_null(workers.members);
    workers_release(&workers);
}

static void log_lines_are_taken_apart(void **state)
{
    static const struct {
        const char *line;
        int code;
        const char *task, *node, *text;
    } cases[] = {
        {"2026-01-01T00:00:00.000000001Z com.docker.swarm.node.id=n,com.docker.swarm.service.id=s,"
         "com.docker.swarm.task.id=t hello  world",
         0, "t", "n", "hello  world"},
        {"2026-01-01T00:00:00.000000001Z com.docker.swarm.task.id=t,com.docker.swarm.node.id=n ", 0, "t", "n",
         ""},
        {"2026-01-01T00:00:00.000000001Z com.docker.swarm.other=x y", 0, "", "", "y"},
        {"2026-01-01T00:00:00.000000001Z no details", -EPROTO, NULL, NULL, NULL},
        {"2026-01-01T00:00:00.000000001Z com.docker.swarm.task.id=t", -EPROTO, NULL, NULL, NULL},
        {"error from daemon in stream: x", -EPROTO, NULL, NULL, NULL},
        {"", -EPROTO, NULL, NULL, NULL},
        {" ", -EPROTO, NULL, NULL, NULL},
    };

    (void)state;
    for (size_t i = 0; i < MST_ARRAY_COUNT(cases); i++) {
        mst_cleanup(mst_freep) char *line = strdup(cases[i].line);
        struct log_message message = {.stream = 7};
        assert_int_equal(log_message_parse(line, strlen(line), &message, NULL), cases[i].code);
        if (cases[i].code < 0) {
            assert_int_equal(message.stream, 7);
            continue;
        }
        assert_string_equal(message.task_id, cases[i].task);
        assert_string_equal(message.node_id, cases[i].node);
        assert_string_equal(message.text, cases[i].text);
        assert_int_equal(message.count, strlen(cases[i].text));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_run_is_put_together_from_its_events),
        cmocka_unit_test(workers_stay_in_the_order_of_their_slots),
        cmocka_unit_test(a_slots_next_task_begins_anew),
        cmocka_unit_test(a_restarted_worker_keeps_its_history),
        cmocka_unit_test(states_follow_what_a_worker_says),
        cmocka_unit_test(a_loss_and_a_recovery_are_one_whoever_tells_of_them),
        cmocka_unit_test(an_epoch_is_common_when_all_of_the_view_had_it),
        cmocka_unit_test(what_is_no_event_is_kept_as_text),
        cmocka_unit_test(samples_and_collections_are_handed_on),
        cmocka_unit_test(numbers_of_others_are_not_trusted),
        cmocka_unit_test(log_lines_are_taken_apart),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
