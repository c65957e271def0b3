/* SPDX-License-Identifier: Apache-2.0 */
#include "container.h"
#include "muster/cleanup.h"
#include "muster/json.h"
#include "test.h"

static cJSON *inspect_reply(void)
{
    mst_cleanup(mst_buf_release) struct mst_buf text = load(DATA("engine/inspect-task.json"));
    cJSON *json = NULL;
    assert_int_equal(mst_json_parse(text.bytes, text.count, "inspect", &json, NULL), 0);
    return json;
}

static cJSON *at(cJSON *json, const char *outer, const char *inner)
{
    cJSON *found = cJSON_GetObjectItemCaseSensitive(json, outer);
    return inner ? cJSON_GetObjectItemCaseSensitive(found, inner) : found;
}

static void a_task_of_swarm_has_stack_service_and_slot(void **state)
{
    mst_cleanup(mst_json_deletep) cJSON *json = inspect_reply();
    struct monitor_container c;
    (void)state;
    assert_int_equal(container_from_inspect(json, NULL, &c, NULL), 0);
    assert_string_equal(c.id, CONTAINER_ID);
    assert_string_equal(c.name, "web_w.2.m8adw1f21fgpvi8xvn2ckf10h");
    assert_string_equal(c.stack, "web");
    assert_string_equal(c.service, "web_w");
    assert_string_equal(c.slot, "web_w.2");
    assert_string_equal(c.started_at, "2026-11-27T23:06:11.784814134Z");
    assert_int_equal(c.pid, 1234);
    assert_int_equal(c.network, MONITOR_NETWORK_OWN);
}

static void a_container_without_labels_belongs_to_nothing(void **state)
{
    mst_cleanup(mst_json_deletep) cJSON *json = inspect_reply();
    struct monitor_container c;
    (void)state;
    cJSON_DeleteItemFromObjectCaseSensitive(at(json, "Config", NULL), "Labels");
    assert_int_equal(container_from_inspect(json, NULL, &c, NULL), 0);
    assert_string_equal(c.stack, "");
    assert_string_equal(c.service, "");
    assert_string_equal(c.slot, "");
}

static void whose_network_it_is_comes_from_the_mode(void **state)
{
    static const struct {
        const char *mode;
        enum monitor_network network;
    } cases[] = {
        {"default", MONITOR_NETWORK_OWN}, {"bridge", MONITOR_NETWORK_OWN},
        {"none", MONITOR_NETWORK_OWN},    {"host", MONITOR_NETWORK_HOST},
        {"hosts", MONITOR_NETWORK_OWN},   {"container:" OTHER_ID, MONITOR_NETWORK_SHARED},
    };
    (void)state;
    for (size_t i = 0; i < MST_ARRAY_COUNT(cases); i++) {
        mst_cleanup(mst_json_deletep) cJSON *json = inspect_reply();
        struct monitor_container c;
        cJSON_ReplaceItemInObjectCaseSensitive(at(json, "HostConfig", NULL), "NetworkMode",
                                               cJSON_CreateString(cases[i].mode));
        assert_int_equal(container_from_inspect(json, NULL, &c, NULL), 0);
        assert_int_equal(c.network, cases[i].network);
    }
}

static void one_that_does_not_run_has_no_pid(void **state)
{
    mst_cleanup(mst_json_deletep) cJSON *json = inspect_reply();
    struct monitor_container c;
    (void)state;
    cJSON_ReplaceItemInObjectCaseSensitive(at(json, "State", NULL), "Running", cJSON_CreateFalse());
    assert_int_equal(container_from_inspect(json, NULL, &c, NULL), 0);
    assert_int_equal(c.pid, 0);
}

static void long_text_is_cut_between_characters(void **state)
{
    mst_cleanup(mst_json_deletep) cJSON *json = inspect_reply();
    struct monitor_container c;
    char text[400];
    (void)state;
    for (size_t i = 0; i + 2 < sizeof text; i += 2)
        memcpy(text + i, "ä", 2);
    text[sizeof text - 2] = '\0';
    cJSON_ReplaceItemInObjectCaseSensitive(at(json, "Config", "Labels"), "com.docker.stack.namespace",
                                           cJSON_CreateString(text));
    assert_int_equal(container_from_inspect(json, NULL, &c, NULL), 0);
    assert_int_equal(strlen(c.stack), MONITOR_NAME_BYTES - 2); /* 127 whole characters */
}

static void what_every_engine_says_must_be_there_and_make_sense(void **state)
{
    static const struct {
        const char *outer, *inner, *replacement; /* NULL: taken out */
    } cases[] = {
        {"Id", NULL, NULL},
        {"Id", NULL, "\"../../etc\""},
        {"Id", NULL, "\"26F91112AE3E4255A7947B0ADE05533CD63A0651FB68EC92B13D44BF834CE41F\""},
        {"Id", NULL, "5"},
        {"Name", NULL, NULL},
        {"State", NULL, NULL},
        {"State", NULL, "[]"},
        {"State", "Pid", "-1"},
        {"State", "Pid", "1.5"},
        {"State", "Pid", "99999999999"},
        {"State", "Pid", "\"1234\""},
        {"State", "StartedAt", NULL},
    };
    (void)state;
    for (size_t i = 0; i < MST_ARRAY_COUNT(cases); i++) {
        mst_cleanup(mst_json_deletep) cJSON *json = inspect_reply();
        cJSON *object = cases[i].inner ? at(json, cases[i].outer, NULL) : json;
        const char *key = cases[i].inner ? cases[i].inner : cases[i].outer;
        if (cases[i].replacement)
            cJSON_ReplaceItemInObjectCaseSensitive(object, key, cJSON_Parse(cases[i].replacement));
        else
            cJSON_DeleteItemFromObjectCaseSensitive(object, key);
        struct monitor_container c = {.pid = 7777};
        struct mst_error err = MST_ERROR_INIT;
        assert_int_equal(container_from_inspect(json, NULL, &c, &err), -EBADMSG);
        assert_int_equal(c.pid, 7777);
        assert_true(strlen(err.text) > 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_task_of_swarm_has_stack_service_and_slot),
        cmocka_unit_test(a_container_without_labels_belongs_to_nothing),
        cmocka_unit_test(whose_network_it_is_comes_from_the_mode),
        cmocka_unit_test(one_that_does_not_run_has_no_pid),
        cmocka_unit_test(long_text_is_cut_between_characters),
        cmocka_unit_test(what_every_engine_says_must_be_there_and_make_sense),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
