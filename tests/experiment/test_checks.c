/* SPDX-License-Identifier: Apache-2.0 */
#include "../common/test.h"
#include "experiment/checks.h"
#include "muster/cleanup.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

static const char *const hosts[] = {"a", "b"};
static const struct limits limits = {.nano_cpus = 1000000000, .memory_bytes = 1 << 30};

static void healthy(struct checks_look looks[2])
{
    for (size_t i = 0; i < 2; i++) {
        looks[i] = (struct checks_look){
            .muster = "0.1.0", .agent = "muster-agent 0.1.0", .cpus = 4, .memory_bytes = (uint64_t)8 << 30};
        (void)snprintf(looks[i].boot_id, sizeof looks[i].boot_id, "boot-%zu", i);
    }
}

static int judge(const struct checks_look looks[2], bool has_encrypted, struct checks_warnings *warnings,
                 struct mst_error *err)
{
    const struct checks_needs needs = {.limits = &limits,
                                       .workers_a_host = 1,
                                       .has_bare = true,
                                       .has_encrypted = has_encrypted,
                                       .muster = "0.1.0"};

    *warnings = (struct checks_warnings){0};
    return checks_judge(looks, hosts, 2, &needs, warnings, err);
}

static void idle_equals_pass_without_a_word(void **state)
{
    struct checks_look looks[2];
    struct checks_warnings warnings;

    (void)state;
    healthy(looks);
    assert_int_equal(judge(looks, true, &warnings, NULL), 0);
    assert_int_equal(warnings.count, 0);
    checks_warnings_release(&warnings);
}

static void spoil(struct checks_look *look, size_t which)
{
    switch (which) {
    case 0:
        (void)snprintf(look->muster, sizeof look->muster, "0.0.9");
        break;
    case 1:
        (void)snprintf(look->agent, sizeof look->agent, "muster-agent 0.0.9");
        break;
    case 2:
        look->clock_offset_ms = -3600000;
        break;
    case 3:
        (void)snprintf(look->limits_reason, sizeof look->limits_reason, "no root");
        break;
    case 4:
        (void)snprintf(look->encryption_reason, sizeof look->encryption_reason, "no ESP");
        break;
    case 5:
        (void)snprintf(look->agent_digest, sizeof look->agent_digest, "bbbb");
        break;
    }
}

static void what_spoils_the_numbers_is_refused_with_the_hosts_name(void **state)
{
    static const char *const texts[] = {
        "muster 0.0.9", "'muster-agent 0.0.9'", "1.0 h behind", "no root", "no ESP", "bbbb"};

    (void)state;
    for (size_t i = 0; i < MST_ARRAY_COUNT(texts); i++) {
        struct checks_look looks[2];
        struct checks_warnings warnings;
        struct mst_error err = MST_ERROR_INIT;
        healthy(looks);
        (void)snprintf(looks[0].agent_digest, sizeof looks[0].agent_digest, "%s", i == 5 ? "aaaa" : "");
        spoil(&looks[1], i);
        assert_int_equal(judge(looks, true, &warnings, &err), -EHOSTDOWN);
        assert_non_null(strstr(err.text, texts[i]));
        assert_non_null(strstr(err.text, "'b'"));
        checks_warnings_release(&warnings);
    }
}

static void what_makes_them_doubtful_is_a_warning(void **state)
{
    struct checks_look looks[2];
    struct checks_warnings warnings;

    (void)state;
    healthy(looks);
    looks[1].busy_percent = 40;
    looks[1].steal_percent = 3;
    looks[1].containers = 2;
    looks[1].cpus = 2;
    looks[1].clock_offset_ms = 2000;
    (void)snprintf(looks[1].kernel, sizeof looks[1].kernel, "6.1");
    (void)snprintf(looks[1].congestion, sizeof looks[1].congestion, "bbr");
    (void)snprintf(looks[1].boot_id, sizeof looks[1].boot_id, "boot-0");
    assert_int_equal(judge(looks, false, &warnings, NULL), 0);
    assert_int_equal(warnings.count, 8);
    checks_warnings_release(&warnings);
}

static void a_look_survives_its_way_as_json(void **state)
{
    struct checks_look before, after;
    cJSON *json;

    (void)state;
    memset(&before, 0, sizeof before);
    before.cpus = 3;
    before.memory_bytes = (uint64_t)24 << 30;
    before.steal_percent = 1.5;
    (void)snprintf(before.hostname, sizeof before.hostname, "node\"1");
    (void)snprintf(before.limits_reason, sizeof before.limits_reason, "why not");
    json = checks_look_json(&before);
    assert_non_null(json);
    checks_look_parse(json, &after);
    cJSON_Delete(json);
    assert_string_equal(after.hostname, before.hostname);
    assert_string_equal(after.limits_reason, before.limits_reason);
    assert_true(after.cpus == 3 && after.memory_bytes == before.memory_bytes && after.steal_percent == 1.5);
}

static void ticks_are_summed_as_the_kernel_counts_them(void **state)
{
    struct checks_ticks ticks = {7, 7, 7};

    (void)state;
    assert_int_equal(checks_parse_stat("cpu  10 1 5 100 20 2 3 4 9 9\ncpu0 1 1 1 1\n", &ticks), 0);
    assert_int_equal(ticks.total, 145);
    assert_int_equal(ticks.busy, 25);
    assert_int_equal(ticks.steal, 4);
    assert_int_equal(checks_parse_stat("intr 1 2 3", &ticks), -EBADMSG);
    assert_int_equal(ticks.total, 145); /* untouched */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(idle_equals_pass_without_a_word),
        cmocka_unit_test(what_spoils_the_numbers_is_refused_with_the_hosts_name),
        cmocka_unit_test(what_makes_them_doubtful_is_a_warning),
        cmocka_unit_test(a_look_survives_its_way_as_json),
        cmocka_unit_test(ticks_are_summed_as_the_kernel_counts_them),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
