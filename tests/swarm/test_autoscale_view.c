/* SPDX-License-Identifier: Apache-2.0 */
#include "../common/test.h"
#include "autoscale/view.h"
#include "muster/clock.h"
#include "muster/json.h"

#define S MST_NS_PER_S

static const char services[] =
    "[{\"ID\":\"s1\",\"Spec\":{\"Name\":\"st_web\",\"Labels\":{\"muster.autoscale.max\":\"9\"},"
    "\"Mode\":{\"Replicated\":{\"Replicas\":5}}},"
    "\"UpdateStatus\":{\"State\":\"updating\",\"Message\":\"update in progress\"}},"
    "{\"ID\":\"s2\",\"Spec\":{\"Name\":\"st_plain\",\"Labels\":{},\"Mode\":{\"Replicated\":{}}},"
    "\"UpdateStatus\":{\"State\":\"completed\",\"Message\":\"update completed\"}},"
    "{\"ID\":\"s3\",\"Spec\":{\"Name\":\"st_bad\",\"Labels\":{\"muster.autoscale.max\":\"no\"},"
    "\"Mode\":{\"Replicated\":{\"Replicas\":1}}}}]";

static const char tasks[] =
    "[{\"ID\":\"t1\",\"ServiceID\":\"s1\",\"Slot\":1,\"DesiredState\":\"running\","
    "\"Status\":{\"State\":\"running\",\"ContainerStatus\":{\"ContainerID\":\"c1\"}}},"
    "{\"ID\":\"t2\",\"ServiceID\":\"s1\",\"Slot\":2,\"DesiredState\":\"running\",\"Status\":{\"State\":"
    "\"preparing\"}},"
    "{\"ID\":\"t3\",\"ServiceID\":\"s1\",\"Slot\":3,\"DesiredState\":\"running\","
    "\"Status\":{\"State\":\"pending\",\"Err\":\"no suitable node (insufficient resources on 3 nodes)\"}},"
    "{\"ID\":\"t4\",\"ServiceID\":\"s1\",\"Slot\":4,\"DesiredState\":\"shutdown\",\"Status\":{\"State\":"
    "\"running\"}},"
    "{\"ID\":\"t5\",\"ServiceID\":\"s1\",\"Slot\":5,\"DesiredState\":\"ready\",\"Status\":{\"State\":"
    "\"ready\"}},"
    "{\"ID\":\"t6\",\"ServiceID\":\"s2\",\"Slot\":1,\"DesiredState\":\"running\",\"Status\":{\"State\":"
    "\"running\"}}]";

static void tasks_are_counted_by_what_they_do(void **state)
{
    mst_cleanup(mst_json_deletep) cJSON *services_json = cJSON_Parse(services),
                                        *tasks_json = cJSON_Parse(tasks);
    mst_cleanup(autoscale_view_release) struct autoscale_view view = {0};
    const struct autoscale_subject *web;

    (void)state;
    assert_int_equal(autoscale_view_make(services_json, tasks_json, "st", &view, NULL), 0);
    assert_int_equal(view.count, 3);
    web = autoscale_view_find(&view, "st_web");
    assert_non_null(web);
    assert_int_equal(web->replicas, 5);
    assert_int_equal(web->task_count, 1); /* not the one that is to end */
    assert_string_equal(web->tasks[0].container, "c1");
    assert_int_equal(web->starting, 2);
    assert_int_equal(web->without_room, 1);
    assert_string_equal(web->rollout, "an update is under way: update in progress");
    assert_true(web->is_wanted);
    assert_int_equal(web->code, 0);
    assert_false(view.items[1].is_wanted);
    assert_int_equal(view.items[1].replicas, 1); /* as the engine counts what is not said */
    assert_string_equal(view.items[1].rollout, "");
    assert_int_equal(view.items[2].code, -EBADMSG);
    assert_null(autoscale_view_find(&view, "st_other"));
}

static void every_state_of_an_update_is_told(void **state)
{
    static const struct {
        const char *state, *text;
    } cases[] = {
        {"updating", "an update is under way"},
        {"paused", "an update is paused"},
        {"rollback_started", "an update is being rolled back"},
        {"rollback_paused", "the rollback of an update is paused"},
        {"rollback_completed", ""},
        {"completed", ""},
        {"", ""},
    };

    (void)state;
    for (size_t i = 0; i < MST_ARRAY_COUNT(cases); i++) {
        char text[256];
        mst_cleanup(autoscale_view_release) struct autoscale_view view = {0};
        mst_cleanup(mst_json_deletep) cJSON *json = NULL;
        (void)snprintf(text, sizeof text,
                       "[{\"ID\":\"s\",\"Spec\":{\"Name\":\"a\"},\"UpdateStatus\":{\"State\":\"%s\"}}]",
                       cases[i].state);
        json = cJSON_Parse(text);
        assert_int_equal(autoscale_view_make(json, NULL, "st", &view, NULL), 0);
        assert_string_equal(view.items[0].rollout, cases[i].text);
    }
}

static void a_stamp_is_read_as_it_was_written(void **state)
{
    static const char *const bad[] = {"",
                                      "2026-01-31T23:59:59.000Z out 2",
                                      "2026-01-31T23:59:59.000Z up 2->4",
                                      "yesterday out 2->4",
                                      "2026-01-31T23:59:59.000Z out 2->4 x",
                                      "2026-01-31T23:59:59.000Z out 99999999999->4"};
    const struct autoscale_stamp stamp = {1795823218.25, true, 2, 4};
    struct autoscale_stamp read = {.to = 77};
    char text[AUTOSCALE_STAMP_BYTES];

    (void)state;
    for (size_t i = 0; i < MST_ARRAY_COUNT(bad); i++) {
        assert_false(autoscale_stamp_parse(bad[i], &read));
        assert_int_equal(read.to, 77);
    }
    autoscale_stamp_text(&stamp, text);
    assert_true(autoscale_stamp_parse(text, &read));
    assert_true(read.is_out && read.from == 2 && read.to == 4);
    assert_true(read.wall_s > 1795823218.24 && read.wall_s < 1795823218.26);
}

/* One look at a service with `replicas` and a stamp ("": none). */
static void look(struct autoscale_known *known, uint32_t replicas, const char *stamp, uint64_t now_ns,
                 double wall_s)
{
    char text[256];
    mst_cleanup(mst_json_deletep) cJSON *json = NULL;
    struct autoscale_subject subject = {.replicas = replicas};

    (void)snprintf(text, sizeof text, "{\"Spec\":{\"Labels\":{%s%s%s}}}",
                   stamp[0] ? "\"muster.autoscale.state\":\"" : "", stamp, stamp[0] ? "\"" : "");
    json = cJSON_Parse(text);
    assert_non_null(json);
    subject.json = json;
    autoscale_known_update(known, &subject, now_ns, wall_s);
}

#define WALL 1769903999.0 /* 2026-01-31T23:59:59Z */

static void who_scaled_it_last_is_known(void **state)
{
    static const char out[] = "2026-01-31T23:59:59.000Z out 2->4", in[] = "2026-01-31T23:59:59.000Z in 4->2";
    static const struct {
        uint32_t first, second; /* replicas; 0: no second look */
        const char *first_stamp, *second_stamp;
        double wall_s;
        enum autoscale_change changed;
        uint64_t at_s; /* the first look is at 1000 s, the second at 1010 */
    } cases[] = {
        {2, 0, "", "", WALL, AUTOSCALE_UNCHANGED, 0},         /* a fresh service */
        {4, 0, out, "", WALL + 40, AUTOSCALE_BY_US_OUT, 960}, /* after a restart */
        {2, 0, in, "", WALL + 40, AUTOSCALE_BY_US_IN, 960},
        {4, 0, out, "", WALL - 500, AUTOSCALE_BY_US_OUT, 1000}, /* another machine's clock is ahead */
        {4, 0, out, "", WALL + 1e9, AUTOSCALE_BY_US_OUT, 0},    /* long ago */
        {3, 0, out, "", WALL + 40, AUTOSCALE_BY_OTHERS, 1000},  /* somebody, while we were away */
        {4, 0, "rubbish", "", WALL + 40, AUTOSCALE_BY_OTHERS, 1000},
        {2, 4, "", out, WALL, AUTOSCALE_BY_US_OUT, 1010}, /* our own write, seen */
        {2, 5, "", "", WALL, AUTOSCALE_BY_OTHERS, 1010},  /* muster scale */
        {4, 7, out, out, WALL + 40, AUTOSCALE_BY_OTHERS, 1010},
        {4, 4, out, out, WALL + 40, AUTOSCALE_BY_US_OUT, 960}, /* nothing new */
        {2, 2, "", "", WALL, AUTOSCALE_UNCHANGED, 0},
    };

    (void)state;
    for (size_t i = 0; i < MST_ARRAY_COUNT(cases); i++) {
        struct autoscale_known known = {.replicas = 0};
        look(&known, cases[i].first, cases[i].first_stamp, 1000 * S, cases[i].wall_s);
        if (cases[i].second > 0)
            look(&known, cases[i].second, cases[i].second_stamp, 1010 * S, cases[i].wall_s);
        if (known.memory.changed != cases[i].changed ||
            (known.memory.changed_ns + S / 2) / S != cases[i].at_s)
            fail_msg("case %zu: %d at %llu s", i, (int)known.memory.changed,
                     (unsigned long long)(known.memory.changed_ns / S));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tasks_are_counted_by_what_they_do),
        cmocka_unit_test(every_state_of_an_update_is_told),
        cmocka_unit_test(a_stamp_is_read_as_it_was_written),
        cmocka_unit_test(who_scaled_it_last_is_known),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
