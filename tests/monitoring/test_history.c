/* SPDX-License-Identifier: Apache-2.0 */
#include "history.h"
#include "muster/cleanup.h"
#include "muster/json.h"
#include "passes.h"

#define CAPACITY 8

/* One tick, with `count` samples of which the machine is the first; the container's CPU time moves on by
 * `tick` % of a second. */
static void add(struct history *history, size_t count, uint64_t tick)
{
    static struct made_pass made;
    make_pass(&made, count, tick);
    for (size_t i = 0; i < count; i++) {
        made.samples[i].cpu_ns = 10000000 * (tick * (tick + 1) / 2);
        made.samples[i].read_ns = UINT64_C(1000000000) * (tick + 1);
        made.samples[i].memory_usage_bytes = 1000000 + tick;
        made.samples[i].memory_inactive_file_bytes = 0;
    }
    if (tick % 2)
        made.pass.training_count = 0;
    assert_int_equal(history_add(history, &made.pass, NULL), 0);
}

static cJSON *json_of(const struct history *history)
{
    mst_cleanup(mst_buf_release) struct mst_buf text = MST_BUF_INIT(1 << 22);
    cJSON *json = NULL;
    assert_int_equal(history_json(history, 0, false, &text), 0);
    assert_int_equal(mst_json_parse(mst_buf_text(&text), text.count, "history", &json, NULL), 0);
    return json;
}

/* The values of container `name`, as text; "" when it is not there. */
static void values(const struct history *history, const char *name, const char *key,
                   char ret_text[static 256])
{
    mst_cleanup(mst_json_deletep) cJSON *json = json_of(history);
    const cJSON *item;
    *ret_text = '\0';
    cJSON_ArrayForEach(item, mst_json_at(json, "containers", NULL))
    {
        if (strcmp(mst_json_string_or(item, "name", ""), name) != 0)
            continue;
        mst_cleanup(mst_freep) char *text = cJSON_PrintUnformatted(mst_json_at(item, key, NULL));
        (void)snprintf(ret_text, 256, "%s", text);
    }
}

static void expect(const struct history *history, const char *name, const char *key, const char *wanted)
{
    char text[256];
    values(history, name, key, text);
    assert_string_equal(text, wanted);
}

static void what_has_gone_stays_in_sight_and_may_come_back(void **state)
{
    struct history history;
    (void)state;
    assert_int_equal(history_init(&history, CAPACITY, "node1", "0.1.0", NULL), 0);
    for (uint64_t tick = 0; tick < 3; tick++)
        add(&history, 2, tick);
    expect(&history, "web.1", "cpu", "[null,1,2]");
    for (uint64_t tick = 3; tick < 6; tick++)
        add(&history, 1, tick); /* it has gone */
    expect(&history, "web.1", "cpu", "[null,1,2]");
    expect(&history, "web.1", "memory", "[1000000,1000001,1000002]");
    expect(&history, "web.1", "running", "false");
    expect(&history, "node1", "cpu", "[null,1,2,3,4,5]");
    for (uint64_t tick = 6; tick < 9; tick++)
        add(&history, 2, tick); /* and is back: the first rate is over the time in between */
    expect(&history, "web.1", "cpu", "[1,2,null,null,null,4.5,7,8]");
    for (uint64_t tick = 9; tick < 15; tick++)
        add(&history, 1, tick);
    expect(&history, "web.1", "cpu", "[7,8]");
    add(&history, 1, 15);
    add(&history, 1, 16);
    expect(&history, "web.1", "cpu", ""); /* out of sight */
    expect(&history, "node1", "cpu", "[9,10,11,12,13,14,15,16]");
    history_release(&history);
}

static void a_training_that_comes_and_goes_keeps_its_values(void **state)
{
    struct history history;
    (void)state;
    assert_int_equal(history_init(&history, CAPACITY, "node1", "0.1.0", NULL), 0);
    for (uint64_t tick = 0; tick < 20; tick++)
        add(&history, 1, tick);
    mst_cleanup(mst_json_deletep) cJSON *json = json_of(&history);
    const cJSON *training = cJSON_GetArrayItem(mst_json_at(json, "trainings", NULL), 0);
    const cJSON *losses = mst_json_at(training, "loss", NULL);
    assert_int_equal(cJSON_GetArraySize(losses), CAPACITY - 1);
    for (int i = 0; i < CAPACITY - 1; i++) /* ticks 12 to 18, of which the even ones have one */
        assert_int_equal(cJSON_IsNumber(cJSON_GetArrayItem(losses, i)), i % 2 == 0);
    history_release(&history);
}

/* More containers than there is room for: the newest are shown. */
static void new_ones_push_out_what_has_gone(void **state)
{
    struct history history;
    struct monitor_container info = {.started_s = 1};
    struct monitor_sample sample = {.container = &info, .groups = MONITOR_MEMORY, .memory_usage_bytes = 5};
    struct monitor_pass pass = {.samples = &sample, .before = &sample, .count = 1};
    (void)state;
    assert_int_equal(history_init(&history, 4000, "node1", "0.1.0", NULL), 0);
    for (unsigned i = 0; i < HISTORY_SERIES_MAX + 20; i++) {
        (void)snprintf(info.id, sizeof info.id, "%064x", i);
        (void)snprintf(info.name, sizeof info.name, "job-%u", i);
        pass.wall_s = 1.8e9 + i;
        sample.read_ns = i + 1;
        assert_int_equal(history_add(&history, &pass, NULL), 0);
    }
    assert_int_equal(history.count, HISTORY_SERIES_MAX);
    mst_cleanup(mst_buf_release) struct mst_buf text = MST_BUF_INIT(64 << 20);
    assert_int_equal(history_json(&history, 0, false, &text), 0);
    /* What each was in one tick of thousands, and not what it was in none of the others. */
    assert_true(text.count < HISTORY_SERIES_MAX * 512);
    assert_non_null(strstr(mst_buf_text(&text), "\"job-2067\""));
    assert_non_null(strstr(mst_buf_text(&text), "\"job-20\""));
    assert_null(strstr(mst_buf_text(&text), "\"job-19\""));
    mst_buf_clear(&text);
    assert_int_equal(history_json(&history, pass.wall_s - 1.5, false, &text), 0);
    assert_non_null(strstr(mst_buf_text(&text), "\"job-2066\""));
    assert_null(strstr(mst_buf_text(&text), "\"job-2065\"")); /* gone before: known to who asks so */
    history_release(&history);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_has_gone_stays_in_sight_and_may_come_back),
        cmocka_unit_test(a_training_that_comes_and_goes_keeps_its_values),
        cmocka_unit_test(new_ones_push_out_what_has_gone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
