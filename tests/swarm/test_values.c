/* SPDX-License-Identifier: Apache-2.0 */
#include "../common/test.h"
#include "values.h"

static void workers_are_a_number_or_a_range(void **state)
{
    static const struct {
        const char *text;
        int code;
        uint32_t min, max;
    } cases[] = {
        {"1", 0, 1, 1},
        {"3", 0, 3, 3},
        {"2:8", 0, 2, 8},
        {"1024", 0, 1024, 1024},
        {"5:5", 0, 5, 5},
        {"1:1024", 0, 1, 1024},
        {"", -EINVAL, 7, 7},
        {"0", -EINVAL, 7, 7},
        {"1025", -EINVAL, 7, 7},
        {"3:2", -EINVAL, 7, 7},
        {":3", -EINVAL, 7, 7},
        {"2:", -EINVAL, 7, 7},
        {"2:3:4", -EINVAL, 7, 7},
        {"2-3", -EINVAL, 7, 7},
        {"0:3", -EINVAL, 7, 7},
        {"2:1025", -EINVAL, 7, 7},
        {"11111111111111111111:2", -EINVAL, 7, 7},
    };

    (void)state;
    for (size_t i = 0; i < MST_ARRAY_COUNT(cases); i++) {
        struct mst_error err = MST_ERROR_INIT;
        uint32_t min = 7, max = 7;
        const int r = values_parse_workers(cases[i].text, &min, &max, &err);
        if (r != cases[i].code || min != cases[i].min || max != cases[i].max || (r < 0 && !err.text[0]))
            fail_msg("%s: %d, %u, %u, '%s'", cases[i].text, r, min, max, err.text);
    }
}

static void each_kind_of_value_has_its_rule(void **state)
{
    static const struct {
        const char *name, *value;
        int code;
    } cases[] = {
        {"MUSTER_EPOCHS", "12", 0},
        {"MUSTER_EPOCHS", "abc", -EINVAL},
        {"MUSTER_EPOCHS", "0", -EINVAL},
        {"MUSTER_EPOCHS", "1.5", -EINVAL},
        {"MUSTER_EPOCHS", "", 0}, /* as not set */
        {"MUSTER_EPOCHS", "{{.Task.Slot}}", 0},
        {"MUSTER_SEED", "0", 0},
        {"MUSTER_SEED", "-1", -EINVAL},
        {"MUSTER_CHECKPOINT_STEPS", "all", -EINVAL},
        {"MUSTER_LR", "1e-3", 0},
        {"MUSTER_LR", "nan", -EINVAL},
        {"MUSTER_MOMENTUM", "-0.1", -EINVAL},
        {"MUSTER_WAIT", "120s", 0},
        {"MUSTER_WAIT", "120", -EINVAL},
        {"MUSTER_SUBNET", "10.0.0.0/24", 0},
        {"MUSTER_SUBNET", "10.0.0.0", -EINVAL},
        {"MUSTER_WORKERS", "2:8", 0},
        {"MUSTER_WORKERS", "many", -EINVAL},
        {"MUSTER_EXCHANGE", "direct", 0},
        {"MUSTER_EXCHANGE", "sharded", 0},
        {"MUSTER_EXCHANGE", "rings", -EINVAL},
        {"MUSTER_WIRE", "bf16", 0},
        {"MUSTER_WIRE", "f16", -EINVAL},
        {"MUSTER_COLLECT", "true", 0},
        {"MUSTER_COLLECT", "maybe", -EINVAL},
        {"MUSTER_LOG_FORMAT", "xml", -EINVAL},
        {"MUSTER_OF_SOMEBODY", "abc", 0},
    };

    (void)state;
    for (size_t i = 0; i < MST_ARRAY_COUNT(cases); i++) {
        struct mst_error err = MST_ERROR_INIT;
        const int r = values_check(cases[i].name, cases[i].value, &err);
        if (r != cases[i].code || (r < 0 && !err.text[0]))
            fail_msg("%s=%s: %d, '%s'", cases[i].name, cases[i].value, r, err.text);
    }
}

static void only_our_own_programs_variables_are_looked_at(void **state)
{
    static const struct {
        const char *service;
        const char *text; /* NULL: fine */
    } cases[] = {
        {"command: [muster-agent, train]", "st.yml:2:3: services.w.environment.MUSTER_BATCH: 'big' is not"},
        {"command: [/usr/bin/muster-monitor, emit]", "services.w.environment.MUSTER_BATCH"},
        {"entrypoint: [muster-agent], command: [train]", "services.w.environment.MUSTER_BATCH"},
        {"deploy: {labels: {muster.role: worker}}", "services.w.environment.MUSTER_BATCH"},
        {"command: [python3, train.py]", NULL},
        {"hostname: x", NULL},
    };

    (void)state;
    for (size_t i = 0; i < MST_ARRAY_COUNT(cases); i++) {
        const struct compose_options options = {.stack = "st"};
        mst_cleanup(compose_project_freep) struct compose_project *project = NULL;
        struct mst_error err = MST_ERROR_INIT;
        char text[512];
        (void)snprintf(text, sizeof text,
                       "services:\n  w: {image: 'i:1', environment: {MUSTER_BATCH: big}, %s}\n",
                       cases[i].service);
        if (compose_project_parse(text, strlen(text), "st.yml", "/", &options, &project, &err) < 0)
            fail_msg("%s", err.text);
        const int r = values_check_project(project, &err);
        if (r != (cases[i].text ? -EBADMSG : 0) || (cases[i].text && !strstr(err.text, cases[i].text)))
            fail_msg("%s: %d, '%s'", cases[i].service, r, err.text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(workers_are_a_number_or_a_range),
        cmocka_unit_test(each_kind_of_value_has_its_rule),
        cmocka_unit_test(only_our_own_programs_variables_are_looked_at),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
