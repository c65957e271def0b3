/* SPDX-License-Identifier: Apache-2.0 */
#include "muster/clock.h"
#include "test.h"
#include "train_profile.h"

static void make_members(struct discovery_identity *members, size_t count, const char *const *slots)
{
    for (size_t i = 0; i < count; i++) {
        members[i] = (struct discovery_identity){0};
        (void)snprintf(members[i].slot, sizeof members[i].slot, "%s", slots[i]);
    }
}

static void add(struct train_profile *profile, double compute_ms, double exchange_ms, double wait_ms,
                uint32_t waited_for)
{
    const struct trainer_step_stats stats = {.total_ms = compute_ms + exchange_ms + wait_ms,
                                             .compute_ms = compute_ms,
                                             .transfer_ms = exchange_ms,
                                             .wait_ms = wait_ms,
                                             .samples = 12,
                                             .bytes_sent = 100,
                                             .waited_for = waited_for};
    (void)profile_enter(profile, TRAIN_STEP);
    assert_int_equal(profile_add(profile, &stats, NULL), 0);
}

static cJSON *told(struct train_profile *profile)
{
    struct mst_event_sink sink = {.fd = -1};
    struct report report = report_begin(&sink, "profile");
    assert_int_equal(profile_tell(profile, &report, NULL), 0);
    assert_false(report.incomplete);
    return report.event; /* not sent: the caller's */
}

static void near(double value, double expected, double tolerance)
{
    if (!(value >= expected - tolerance && value <= expected + tolerance))
        fail_msg("%.9g is not %.9g", value, expected);
}

static double number(const cJSON *event, const char *key)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(event, key);
    if (!cJSON_IsNumber(item))
        fail_msg("no number '%s'", key);
    return item->valuedouble;
}

static void every_moment_belongs_to_one_phase_and_they_sum_up_to_the_whole(void **state)
{
    (void)state;
    static const char *const keys[] = {
        "start_ms",   "load_ms",   "discovery_ms",  "connect_ms", "compute_ms", "exchange_ms", "wait_ms",
        "between_ms", "verify_ms", "validation_ms", "saving_ms",  "test_ms",    "recovery_ms"};
    struct train_profile profile;
    const uint64_t start_ns = mst_now_ns() - 1000 * MST_NS_PER_MS;
    profile_begin(&profile, start_ns, false);
    (void)profile_enter_at(&profile, TRAIN_LOAD, start_ns + 10 * MST_NS_PER_MS);
    (void)profile_enter_at(&profile, TRAIN_DISCOVERY, start_ns + 30 * MST_NS_PER_MS);
    (void)profile_enter_at(&profile, TRAIN_CONNECT, start_ns + 70 * MST_NS_PER_MS);
    /* A time before the phase began takes nothing away from the one before. */
    assert_int_equal(profile_enter_at(&profile, TRAIN_BETWEEN, start_ns), TRAIN_CONNECT);
    add(&profile, 0.5, 0.25, 0.125, 0);
    add(&profile, 0.5, 0.25, 0.125, 2);
    assert_int_equal(profile_enter(&profile, TRAIN_SAVING), TRAIN_BETWEEN);
    cJSON *event = told(&profile);
    double sum = 0;
    for (size_t k = 0; k < MST_ARRAY_COUNT(keys); k++)
        sum += number(event, keys[k]);
    near(sum, number(event, "total_ms"), 1e-4);
    assert_true(number(event, "total_ms") >= 1000);
    near(number(event, "start_ms"), 10, 1e-6);
    near(number(event, "load_ms"), 20, 1e-6);
    near(number(event, "discovery_ms"), 40, 1e-6);
    near(number(event, "compute_ms"), 1, 1e-6);
    near(number(event, "wait_ms"), 0.25, 1e-6);
    near(number(event, "steps"), 2, 0);
    near(number(event, "bytes_sent"), 200, 0);
    near(number(event, "samples_per_s"), 24 * 1000 / 1.75, 0.01);
    assert_null(cJSON_GetObjectItemCaseSensitive(event, "step_ms")); /* only with details */
    cJSON_Delete(event);
    profile_release(&profile);
}

static void a_step_that_was_cut_short_is_the_recoverys(void **state)
{
    (void)state;
    struct train_profile profile;
    const uint64_t start_ns = mst_now_ns();
    profile_begin(&profile, start_ns, false);
    (void)profile_enter_at(&profile, TRAIN_STEP, start_ns);
    profile_lost_step(&profile);
    (void)profile_enter_at(&profile, TRAIN_CONNECT, start_ns + 5 * MST_NS_PER_MS);
    near(profile_phase_ms(&profile, TRAIN_RECOVERY), 5, 1e-9);
    near(profile_phase_ms(&profile, TRAIN_STEP), 0, 1e-9);
    profile_release(&profile);
}

static void quantiles_are_values_that_were_measured(void **state)
{
    (void)state;
    struct profile_step steps[100];
    float scratch[100];
    for (size_t i = 0; i < 100; i++)
        steps[i].ms[PROFILE_WAIT] = (float)((i * 37) % 100 + 1); /* 1 to 100, shuffled */
    struct profile_quantiles q = profile_quantiles(steps, 100, PROFILE_WAIT, scratch);
    assert_true(q.mean == 50.5 && q.p50 == 50 && q.p90 == 90 && q.p99 == 99 && q.max == 100);
    q = profile_quantiles(steps, 1, PROFILE_WAIT, scratch);
    assert_true(q.mean == 1 && q.p50 == 1 && q.p90 == 1 && q.p99 == 1 && q.max == 1);
    q = profile_quantiles(steps, 0, PROFILE_WAIT, scratch);
    assert_true(q.mean == 0 && q.max == 0);
}

static void waits_are_for_slots_whatever_rank_they_have(void **state)
{
    (void)state;
    static const char *const first[] = {"a", "b", "c"}, *const second[] = {"b", "c"};
    struct discovery_identity members[3];
    struct train_profile profile;
    profile_begin(&profile, mst_now_ns(), true);
    make_members(members, 3, first);
    const struct job_view view = {.view = 1, .rank = 0, .world = 3, .members = members};
    assert_int_equal(profile_view(&profile, &view, NULL), 0);
    add(&profile, 1, 1, 5, 3);
    add(&profile, 1, 1, 2, 2);
    add(&profile, 1, 1, 0, 0);
    const struct trainer_history_row row = {.epoch = 1, .steps = 3, .seconds = 1};
    const struct profile_epoch *epoch = NULL;
    assert_int_equal(profile_close_epoch(&profile, &row, &epoch, NULL), 0);
    assert_non_null(epoch);
    assert_string_equal(profile.peers[epoch->slowest].slot, "c");
    assert_true(epoch->parts[PROFILE_STEP].max == 7 && epoch->parts[PROFILE_COMPUTE].p50 == 1);

    make_members(members, 2, second); /* "a" is gone: c has another rank now */
    const struct job_view next = {.view = 2, .rank = 0, .world = 2, .members = members};
    assert_int_equal(profile_view(&profile, &next, NULL), 0);
    const struct trainer_step_stats stats = {.waited_for = 2};
    assert_string_equal(profile_waited_for(&profile, &stats), "c");
    assert_null(profile_waited_for(&profile, &(struct trainer_step_stats){.waited_for = 3}));
    assert_null(profile_waited_for(&profile, &(struct trainer_step_stats){0}));
    add(&profile, 1, 1, 9, 1);
    assert_int_equal(profile_close_epoch(&profile, &row, &epoch, NULL), 0);
    assert_string_equal(profile.peers[epoch->slowest].slot, "b"); /* of this epoch alone */
    assert_int_equal(profile_close_epoch(&profile, &row, &epoch, NULL), 0);
    assert_null(epoch); /* without steps */

    cJSON *event = told(&profile);
    const cJSON *slowest = cJSON_GetObjectItemCaseSensitive(event, "slowest");
    assert_int_equal(cJSON_GetArraySize(slowest), 2);
    const cJSON *most = cJSON_GetArrayItem(slowest, 0);
    assert_string_equal(cJSON_GetStringValue(cJSON_GetObjectItem(most, "slot")), "b");
    assert_true(number(most, "ms") == 11 && number(most, "steps") == 2);
    assert_true(number(cJSON_GetObjectItem(event, "step_wait_ms"), "max") == 9);
    cJSON_Delete(event);
    profile_release(&profile);
}

static void tables_have_a_row_for_each_epoch_and_the_shares_of_a_step(void **state)
{
    (void)state;
    struct train_profile profile;
    char *text = NULL;
    size_t bytes = 0;
    profile_begin(&profile, mst_now_ns(), true);
    for (uint32_t e = 1; e <= 2; e++) {
        const struct trainer_history_row row = {.epoch = e, .steps = 1, .seconds = 2, .bytes_sent = 3000000};
        const struct profile_epoch *epoch = NULL;
        add(&profile, 6, 3, 1, 0);
        assert_int_equal(profile_close_epoch(&profile, &row, &epoch, NULL), 0);
    }
    FILE *stream = open_memstream(&text, &bytes);
    assert_non_null(stream);
    assert_int_equal(profile_print(&profile, stream, NULL), 0);
    assert_int_equal(fclose(stream), 0);
    assert_non_null(strstr(text, "\n2 "));
    assert_non_null(strstr(text, "3.00")); /* MB */
    assert_non_null(strstr(text, "1200")); /* samples a second: 12 in 10 ms */
    const char *line = strstr(text, "\ncompute ");
    assert_non_null(line);
    assert_non_null(strstr(line, "60.0"));
    assert_non_null(strstr(text, "\nbetween steps "));
    assert_null(strstr(text, "WAITED FOR  ")); /* nobody to wait for: no such table */
    free(text);
    profile_release(&profile);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_moment_belongs_to_one_phase_and_they_sum_up_to_the_whole),
        cmocka_unit_test(a_step_that_was_cut_short_is_the_recoverys),
        cmocka_unit_test(quantiles_are_values_that_were_measured),
        cmocka_unit_test(waits_are_for_slots_whatever_rank_they_have),
        cmocka_unit_test(tables_have_a_row_for_each_epoch_and_the_shares_of_a_step),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
