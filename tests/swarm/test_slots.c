/* SPDX-License-Identifier: Apache-2.0 */
#include "../common/test.h"
#include "muster/clock.h"
#include "muster/json.h"
#include "slots.h"

#define SERVICE(condition, mode)                                                                             \
    "{\"ID\":\"s\",\"Spec\":{\"Name\":\"st_w\",\"Mode\":{" mode                                              \
    "},\"TaskTemplate\":{\"RestartPolicy\":{\"Condition\":\"" condition "\"}}}}"
#define TASK(id, slot, second, state, desired, more)                                                         \
    "{\"ID\":\"" id "\",\"ServiceID\":\"s\",\"Slot\":" slot ",\"CreatedAt\":\"2026-01-01T00:00:" second      \
    "Z\",\"DesiredState\":\"" desired "\",\"Spec\":{\"Image\":\"i\"},\"Status\":{\"State\":\"" state         \
    "\"" more "}}"
#define EXIT(code) ",\"Err\":\"task: non-zero exit (" code ")\",\"ContainerStatus\":{\"ExitCode\":" code "}"

static const char replicas3[] = SERVICE("on-failure", "\"Replicated\":{\"Replicas\":3}");

struct judged {
    cJSON *service, *tasks;
    struct slots slots;
};

static void judge(struct judged *judged, const char *service, const char *tasks, uint64_t now_ns,
                  struct slot_memory *memory)
{
    *judged = (struct judged){.service = cJSON_Parse(service), .tasks = cJSON_Parse(tasks)};
    assert_non_null(judged->service);
    if (!judged->tasks)
        fail_msg("%s", tasks);
    const cJSON *services[] = {judged->service};
    assert_int_equal(slots_judge(services, 1, judged->tasks, 2, now_ns, memory, &judged->slots, NULL), 0);
}

static void release(struct judged *judged)
{
    slots_release(&judged->slots);
    cJSON_Delete(judged->service);
    cJSON_Delete(judged->tasks);
}

static void the_newest_task_speaks_for_its_place(void **state)
{
    static const char tasks[] = "[" TASK("a1", "1", "01", "failed", "shutdown", EXIT("137")) "," TASK(
        "a2", "1", "03", "running", "running",
        "") "," TASK("b1", "2", "01", "complete", "shutdown",
                     "") "," TASK("c2", "3", "05", "failed", "shutdown",
                                  EXIT("1")) "," TASK("c1", "3", "01", "failed", "shutdown",
                                                      EXIT(
                                                          "1")) "," TASK("d1", "4", "01", "failed", "remove",
                                                                         EXIT(
                                                                             "143")) "," /* scaled down */
                                                                                     "{\"ID\":\"x\","
                                                                                     "\"ServiceID\":"
                                                                                     "\"other\",\"Slot\":1}]";
    struct slot_memory memory = {0};
    struct judged judged;

    (void)state;
    judge(&judged, replicas3, tasks, MST_NS_PER_S, &memory);
    assert_int_equal(judged.slots.count, 3);
    assert_int_equal(judged.slots.wanted, 3);
    assert_int_equal(slots_count(&judged.slots, SLOT_LIVE), 1);
    assert_int_equal(slots_count(&judged.slots, SLOT_COMPLETE), 1);
    assert_int_equal(slots_count(&judged.slots, SLOT_BETWEEN), 1);
    assert_string_equal(mst_json_string_or(judged.slots.items[0].task, "ID", ""), "a2");
    assert_string_equal(mst_json_string_or(judged.slots.items[0].ended, "ID", ""), "a1");
    assert_string_equal(mst_json_string_or(judged.slots.items[2].task, "ID", ""), "c2");
    assert_string_equal(slot_task_error(judged.slots.items[0].ended), "task: non-zero exit (137)");
    release(&judged);
    slot_memory_release(&memory);
}

static void a_task_that_nothing_follows_is_dead_after_some_time(void **state)
{
    static const char alone[] = "[" TASK("a1", "1", "01", "failed", "shutdown", EXIT("137")) "]";
    static const char followed[] = "[" TASK("a1", "1", "01", "failed", "shutdown",
                                            EXIT("137")) "," TASK("a2", "1", "02", "ready", "ready", "") "]";
    static const struct {
        const char *tasks;
        unsigned second;
        enum slot_state state;
    } looks[] = {
        {alone, 10, SLOT_BETWEEN},
        {alone, 14, SLOT_BETWEEN},
        {followed, 15, SLOT_LIVE},
        {alone, 16, SLOT_DEAD},
    };
    struct slot_memory memory = {0};

    (void)state;
    for (size_t i = 0; i < MST_ARRAY_COUNT(looks); i++) {
        struct judged judged;
        judge(&judged, replicas3, looks[i].tasks, looks[i].second * MST_NS_PER_S, &memory);
        assert_int_equal(judged.slots.items[0].state, looks[i].state);
        release(&judged);
    }
    slot_memory_release(&memory);
}

static void some_are_dead_at_once(void **state)
{
    static const struct {
        const char *service, *tasks;
        enum slot_state state;
    } cases[] = {
        /* Nothing starts them again. */
        {SERVICE("none", "\"Replicated\":{\"Replicas\":1}"),
         "[" TASK("a", "1", "01", "failed", "shutdown", EXIT("1")) "]", SLOT_DEAD},
        {SERVICE("none", "\"Replicated\":{\"Replicas\":1}"),
         "[" TASK("a", "1", "01", "rejected", "shutdown", "") "]", SLOT_DEAD},
        {SERVICE("none", "\"Replicated\":{\"Replicas\":1}"),
         "[" TASK("a", "1", "01", "complete", "shutdown", "") "]", SLOT_COMPLETE},
        /* The next would end with 2 as well. */
        {replicas3, "[" TASK("a", "1", "01", "failed", "shutdown", EXIT("2")) "]", SLOT_DEAD},
        {replicas3,
         "[" TASK("a", "1", "01", "failed", "shutdown", EXIT("2")) "," TASK("b", "1", "02", "ready", "ready",
                                                                            "") "]",
         SLOT_DEAD},
        /* But not one of another specification. */
        {replicas3,
         "[{\"ID\":\"a\",\"ServiceID\":\"s\",\"Slot\":1,\"CreatedAt\":\"2026-01-01T00:00:01Z\",\"Spec\":{"
         "\"Image\":\"old\"},\"Status\":{\"State\":\"failed\"" EXIT("2") "}}," TASK("b", "1", "02", "ready",
                                                                                    "ready", "") "]",
         SLOT_LIVE},
    };

    (void)state;
    for (size_t i = 0; i < MST_ARRAY_COUNT(cases); i++) {
        struct slot_memory memory = {0};
        struct judged judged;
        judge(&judged, cases[i].service, cases[i].tasks, MST_NS_PER_S, &memory);
        if (judged.slots.count != 1 || judged.slots.items[0].state != cases[i].state)
            fail_msg("case %zu: %d", i, judged.slots.items[0].state);
        release(&judged);
        slot_memory_release(&memory);
    }
}

static void a_global_services_places_are_nodes(void **state)
{
    static const char tasks[] = "[{\"ID\":\"a\",\"ServiceID\":\"s\",\"NodeID\":\"n1\",\"CreatedAt\":\"2026-"
                                "01-01T00:00:01Z\",\"Status\":"
                                "{\"State\":\"failed\"}},"
                                "{\"ID\":\"b\",\"ServiceID\":\"s\",\"NodeID\":\"n1\",\"CreatedAt\":\"2026-01-"
                                "01T00:00:02Z\",\"Status\":"
                                "{\"State\":\"running\"}},"
                                "{\"ID\":\"c\",\"ServiceID\":\"s\",\"NodeID\":\"n2\",\"CreatedAt\":\"2026-01-"
                                "01T00:00:01Z\",\"Status\":"
                                "{\"State\":\"pending\"}}]";
    struct slot_memory memory = {0};
    struct judged judged;

    (void)state;
    judge(&judged, SERVICE("any", "\"Global\":{}"), tasks, MST_NS_PER_S, &memory);
    assert_int_equal(judged.slots.count, 2);
    assert_int_equal(judged.slots.wanted, 2);
    assert_int_equal(slots_count(&judged.slots, SLOT_LIVE), 2);
    release(&judged);
    slot_memory_release(&memory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_newest_task_speaks_for_its_place),
        cmocka_unit_test(a_task_that_nothing_follows_is_dead_after_some_time),
        cmocka_unit_test(some_are_dead_at_once),
        cmocka_unit_test(a_global_services_places_are_nodes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
