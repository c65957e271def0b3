/* SPDX-License-Identifier: Apache-2.0 */
#include "muster/cleanup.h"
#include "muster/json.h"
#include "roster.h"
#include "test.h"

static cJSON *parse_file(const char *path)
{
    mst_cleanup(mst_buf_release) struct mst_buf text = load(path);
    cJSON *json = NULL;
    assert_int_equal(mst_json_parse(text.bytes, text.count, path, &json, NULL), 0);
    return json;
}

/* The stored inspect reply, for the container's start number `start`. */
static cJSON *inspect_reply(int start)
{
    char started_at[64];
    cJSON *json = parse_file(DATA("engine/inspect-task.json"));
    (void)snprintf(started_at, sizeof started_at, "2026-11-27T23:06:%02d.5Z", start);
    cJSON_ReplaceItemInObjectCaseSensitive(cJSON_GetObjectItemCaseSensitive(json, "State"), "StartedAt",
                                           cJSON_CreateString(started_at));
    return json;
}

static int tell(struct roster *roster, const char *action, const char *id)
{
    char line[512];
    const int length =
        snprintf(line, sizeof line, "{\"Type\":\"container\",\"Action\":\"%s\",\"Actor\":{\"ID\":\"%s\"}}",
                 action, id);
    return roster_event(roster, line, (size_t)length, NULL);
}

/* The next wish must be for `id`. */
static struct roster_wish next_wish(struct roster *roster, const char *id)
{
    struct roster_wish wish;
    assert_true(roster_next_wish(roster, &wish));
    assert_string_equal(wish.id, id);
    return wish;
}

/* Start number `start` of the container, told and answered. */
static void inspected(struct roster *roster, int start)
{
    mst_cleanup(mst_json_deletep) cJSON *json = inspect_reply(start);
    assert_int_equal(tell(roster, "start", CONTAINER_ID), 0);
    const struct roster_wish wish = next_wish(roster, CONTAINER_ID);
    assert_int_equal(roster_inspected(roster, &wish, json, NULL), 0);
}

static void a_kill_for_want_of_memory_is_counted_once(void **state)
{
    mst_cleanup(roster_release) struct roster roster;
    const struct monitor_container info = {.id = CONTAINER_ID};
    static const char *const lines[] = {
        "{\"Type\":\"container\",\"Action\":\"oom\",\"Actor\":{\"ID\":\"" CONTAINER_ID
        "\"},\"time\":1795867000,\"timeNano\":1795867000123456789}",
        "{\"Type\":\"container\",\"Action\":\"oom\",\"Actor\":{\"ID\":\"" CONTAINER_ID
        "\"},\"time\":1795867001,\"timeNano\":1795867001987654321}",
        "{\"Type\":\"container\",\"Action\":\"oom\",\"Actor\":{\"ID\":\"" CONTAINER_ID "\"}}"};
    (void)state;
    roster_init(&roster, &v1_paths);
    assert_int_equal(roster_event(&roster, lines[0], strlen(lines[0]), NULL), 0);
    assert_true(oom_total(&roster.oom, &info, 0) == 1);
    assert_int_equal(roster_event(&roster, lines[0], strlen(lines[0]), NULL), 0);
    assert_int_equal(roster_event(&roster, lines[2], strlen(lines[2]), NULL), 0); /* when, it does not say */
    assert_true(oom_total(&roster.oom, &info, 0) == 1);
    assert_int_equal(roster_event(&roster, lines[1], strlen(lines[1]), NULL), 0);
    assert_true(oom_total(&roster.oom, &info, 0) == 2);
    assert_int_equal(tell(&roster, "destroy", CONTAINER_ID), 0);
    assert_true(oom_total(&roster.oom, &info, 0) == 0);
}

static void stored_events_of_an_engine_lead_to_the_right_wishes(void **state)
{
    mst_cleanup(roster_release) struct roster roster;
    mst_cleanup(mst_buf_release) struct mst_buf events = load(DATA("engine/events.jsonl"));
    struct roster_wish wish;
    (void)state;
    roster_init(&roster, &v1_paths);
    for (char *line = events.bytes, *end; (end = strchr(line, '\n')); line = end + 1)
        assert_int_equal(roster_event(&roster, line, (size_t)(end - line), NULL), 0);
    /* Of three, one died again and one was only created. */
    (void)next_wish(&roster, CONTAINER_ID);
    assert_false(roster_next_wish(&roster, &wish));
}

static void what_is_no_event_is_refused_and_changes_nothing(void **state)
{
    static const struct {
        const char *line;
        int code;
    } cases[] = {
        {"", -EBADMSG},
        {"{", -EBADMSG},
        {"[]", -EBADMSG},
        {"null", -EBADMSG},
        {"{\"Type\":\"container\"}", -EBADMSG},
        {"{\"Type\":\"container\",\"Action\":\"start\"}", -EBADMSG},
        {"{\"Type\":\"container\",\"Action\":\"start\",\"Actor\":{\"ID\":\"../../../../etc/passwd\"}}",
         -EBADMSG},
        {"{\"Type\":\"container\",\"Action\":\"start\",\"Actor\":{\"ID\":7}}", -EBADMSG},
        {"{\"Type\":\"container\",\"Action\":7,\"Actor\":{\"ID\":\"" CONTAINER_ID "\"}}", -EBADMSG},
        {"{\"Type\":\"network\",\"Action\":\"connect\",\"Actor\":{\"ID\":\"xyz\"}}", 0},
        {"{\"Type\":\"container\",\"Action\":\"exec_start: sh\",\"Actor\":{\"ID\":\"" CONTAINER_ID "\"}}", 0},
    };
    mst_cleanup(roster_release) struct roster roster;
    (void)state;
    roster_init(&roster, &v1_paths);
    inspected(&roster, 11);
    for (size_t i = 0; i < MST_ARRAY_COUNT(cases); i++) {
        assert_int_equal(roster_event(&roster, cases[i].line, strlen(cases[i].line), NULL), cases[i].code);
        assert_int_equal(roster.count, 1);
        assert_int_equal(roster.wish_count, 0);
    }
}

static void a_container_is_sampled_from_start_to_die(void **state)
{
    mst_cleanup(roster_release) struct roster roster;
    (void)state;
    roster_init(&roster, &v1_paths);
    assert_int_equal(tell(&roster, "start", CONTAINER_ID), 0); /* told twice */
    inspected(&roster, 11);
    assert_int_equal(roster.wish_count, 0);
    assert_non_null(roster_find(&roster, CONTAINER_ID));
    assert_int_equal(tell(&roster, "die", OTHER_ID), 0);
    assert_int_equal(roster.count, 1);
    assert_int_equal(tell(&roster, "die", CONTAINER_ID), 0);
    assert_int_equal(roster.count, 0);
    assert_int_equal(tell(&roster, "destroy", CONTAINER_ID), 0);
}

static void a_rename_keeps_the_counters_and_a_restart_begins_anew(void **state)
{
    mst_cleanup(roster_release) struct roster roster;
    struct monitor_sample sample;
    (void)state;
    roster_init(&roster, &v1_paths);
    inspected(&roster, 11);
    struct target *target = roster_find(&roster, CONTAINER_ID);
    assert_int_equal(target_sample(target, MONITOR_GROUPS_BASIC, &roster.scratch, &sample), 0);
    target->last = sample;
    target->has_last = true;

    mst_cleanup(mst_json_deletep) cJSON *renamed = inspect_reply(11);
    cJSON_ReplaceItemInObjectCaseSensitive(renamed, "Name", cJSON_CreateString("/other"));
    assert_int_equal(tell(&roster, "rename", CONTAINER_ID), 0);
    const struct roster_wish wish = next_wish(&roster, CONTAINER_ID);
    assert_int_equal(roster_inspected(&roster, &wish, renamed, NULL), 0);
    assert_ptr_equal(roster_find(&roster, CONTAINER_ID), target);
    assert_string_equal(target->info.name, "other");
    assert_true(target->has_last);

    inspected(&roster, 12); /* a new StartedAt; that it died has been missed */
    assert_int_equal(roster.count, 1);
    assert_false(roster_find(&roster, CONTAINER_ID)->has_last);
}

static void a_list_adds_what_is_missing_and_drops_what_has_gone(void **state)
{
    mst_cleanup(roster_release) struct roster roster;
    mst_cleanup(mst_json_deletep) cJSON *list = parse_file(DATA("engine/list.json"));
    mst_cleanup(mst_json_deletep) cJSON *empty = cJSON_CreateArray();
    struct roster_wish wish;
    (void)state;
    roster_init(&roster, &v1_paths);
    assert_true(roster.needs_list);
    inspected(&roster, 11);
    assert_int_equal(roster_list(&roster, list, false, NULL), 0);
    assert_false(roster.needs_list);
    assert_int_equal(roster.count, 1);
    assert_int_equal(roster.wish_count, 4); /* of five, one is known */
    while (roster_next_wish(&roster, &wish)) {
        assert_string_not_equal(wish.id, CONTAINER_ID);
        roster_unanswered(&roster, &wish);
    }
    assert_int_equal(roster_list(&roster, list, true, NULL), 0);
    assert_int_equal(roster.wish_count, 5); /* after a time without events all are asked about */
    assert_int_equal(roster_list(&roster, empty, false, NULL), 0);
    assert_int_equal(roster.count, 0);
}

static void a_list_that_makes_no_sense_changes_nothing(void **state)
{
    static const char *const lists[] = {"{}", "null", "[{}]", "[{\"Id\":\"short\"}]", "[7]"};
    mst_cleanup(roster_release) struct roster roster;
    (void)state;
    roster_init(&roster, &v1_paths);
    inspected(&roster, 11);
    for (size_t i = 0; i < MST_ARRAY_COUNT(lists); i++) {
        mst_cleanup(mst_json_deletep) cJSON *list = cJSON_Parse(lists[i]);
        assert_int_equal(roster_list(&roster, list, false, NULL), -EBADMSG);
        assert_int_equal(roster.count, 1);
        assert_int_equal(roster.wish_count, 0);
        assert_true(roster.needs_list);
    }
}

static void a_reply_about_something_else_is_refused(void **state)
{
    mst_cleanup(roster_release) struct roster roster;
    mst_cleanup(mst_json_deletep) cJSON *json = inspect_reply(11);
    (void)state;
    roster_init(&roster, &v1_paths);
    assert_int_equal(tell(&roster, "start", OTHER_ID), 0);
    const struct roster_wish wish = next_wish(&roster, OTHER_ID);
    assert_int_equal(roster_inspected(&roster, &wish, json, NULL), -EBADMSG);
    assert_int_equal(roster.count, 0);
}

static void one_that_ended_before_it_was_asked_about_is_not_sampled(void **state)
{
    static const struct {
        int pid, code;
    } cases[] = {{999, -ENOENT}, {0, 0}}; /* its pid has gone; the Engine knows that it ended */
    mst_cleanup(roster_release) struct roster roster;
    mst_cleanup(mst_json_deletep) cJSON *json = inspect_reply(11);
    (void)state;
    roster_init(&roster, &v1_paths);
    for (size_t i = 0; i < MST_ARRAY_COUNT(cases); i++) {
        assert_int_equal(tell(&roster, "start", CONTAINER_ID), 0);
        const struct roster_wish wish = next_wish(&roster, CONTAINER_ID);
        cJSON_ReplaceItemInObjectCaseSensitive(cJSON_GetObjectItemCaseSensitive(json, "State"), "Pid",
                                               cJSON_CreateNumber(cases[i].pid));
        assert_int_equal(roster_inspected(&roster, &wish, json, NULL), cases[i].code);
        assert_int_equal(roster.count, 0);
        assert_int_equal(roster.wish_count, 0);
    }
}

/* The Engine answered before the event, but the answer comes in after it, over another connection. */
static void an_event_makes_answers_that_are_under_way_void(void **state)
{
    mst_cleanup(roster_release) struct roster roster;
    mst_cleanup(mst_json_deletep) cJSON *first = inspect_reply(11);
    mst_cleanup(mst_json_deletep) cJSON *second = inspect_reply(12);
    (void)state;
    roster_init(&roster, &v1_paths);
    assert_int_equal(tell(&roster, "start", CONTAINER_ID), 0);
    const struct roster_wish before = next_wish(&roster, CONTAINER_ID);
    assert_int_equal(tell(&roster, "die", CONTAINER_ID), 0);
    assert_int_equal(roster_inspected(&roster, &before, first, NULL), 0);
    assert_int_equal(roster.count, 0);

    assert_int_equal(tell(&roster, "start", CONTAINER_ID), 0);
    const struct roster_wish after = next_wish(&roster, CONTAINER_ID);
    assert_int_equal(roster_inspected(&roster, &before, first, NULL), 0);
    assert_int_equal(roster.count, 0);
    assert_int_equal(roster_inspected(&roster, &after, second, NULL), 0);
    assert_string_equal(roster_find(&roster, CONTAINER_ID)->info.started_at, "2026-11-27T23:06:12.5Z");
    roster_unanswered(&roster, &after); /* done already: fine */
    assert_int_equal(roster.count, 1);
}

static void wishes_have_a_limit_after_which_the_list_is_asked_for(void **state)
{
    mst_cleanup(roster_release) struct roster roster;
    (void)state;
    roster_init(&roster, &v1_paths);
    roster.needs_list = false;
    for (unsigned i = 0; i < ROSTER_MAX + 10; i++) {
        char id[MONITOR_ID_BYTES];
        (void)snprintf(id, sizeof id, "%064x", i);
        assert_int_equal(tell(&roster, "start", id), 0);
    }
    assert_int_equal(roster.wish_count, ROSTER_MAX);
    assert_true(roster.needs_list);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_kill_for_want_of_memory_is_counted_once),
        cmocka_unit_test(stored_events_of_an_engine_lead_to_the_right_wishes),
        cmocka_unit_test(what_is_no_event_is_refused_and_changes_nothing),
        cmocka_unit_test(a_container_is_sampled_from_start_to_die),
        cmocka_unit_test(a_rename_keeps_the_counters_and_a_restart_begins_anew),
        cmocka_unit_test(a_list_adds_what_is_missing_and_drops_what_has_gone),
        cmocka_unit_test(a_list_that_makes_no_sense_changes_nothing),
        cmocka_unit_test(a_reply_about_something_else_is_refused),
        cmocka_unit_test(one_that_ended_before_it_was_asked_about_is_not_sampled),
        cmocka_unit_test(an_event_makes_answers_that_are_under_way_void),
        cmocka_unit_test(wishes_have_a_limit_after_which_the_list_is_asked_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
