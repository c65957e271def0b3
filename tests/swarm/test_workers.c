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
    assert_int_equal(workers.items[0].state, WORKER_STARTED);
    assert_string_equal(workers.items[0].reason, "");
    workers_release(&workers);
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
        cmocka_unit_test(what_is_no_event_is_kept_as_text),
        cmocka_unit_test(samples_and_collections_are_handed_on),
        cmocka_unit_test(numbers_of_others_are_not_trusted),
        cmocka_unit_test(log_lines_are_taken_apart),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
