/* SPDX-License-Identifier: Apache-2.0 */
#include "../common/test.h"
#include "autoscale/policy.h"
#include "muster/clock.h"
#include "muster/json.h"

#define S MST_NS_PER_S

/* A service with `labels` ("\"muster.autoscale.max\":\"3\"") and anything more in its Spec. */
static cJSON *service_of(const char *labels, const char *more)
{
    char text[4096];
    cJSON *service;

    (void)snprintf(text, sizeof text,
                   "{\"ID\":\"s1\",\"Spec\":{\"Name\":\"st_web\",\"Labels\":{\"other\":\"x\"%s%s}%s%s}}",
                   labels[0] ? "," : "", labels, more[0] ? "," : "", more);
    service = cJSON_Parse(text);
    assert_non_null(service);
    return service;
}

#define REPLICATED         "\"Mode\":{\"Replicated\":{\"Replicas\":2}}"
#define LABEL(name, value) "\"muster.autoscale." name "\":\"" value "\""
#define MAX                LABEL("max", "9")

static void labels_that_make_no_sense_are_named(void **state)
{
    static const struct {
        const char *labels, *more, *text;
    } cases[] = {
        {LABEL("min", "2"), REPLICATED, "service 'st_web': label 'muster.autoscale.max': is missing"},
        {LABEL("max", "x"), REPLICATED, "label 'muster.autoscale.max': 'x'"},
        {LABEL("max", "0"), REPLICATED, "label 'muster.autoscale.max': '0'"},
        {LABEL("max", "10001"), REPLICATED, "label 'muster.autoscale.max': '10001'"},
        {LABEL("max", "3") "," LABEL("min", "4"), REPLICATED,
         "'muster.autoscale.min': 4 is more than the maximum of 3"},
        {MAX "," LABEL("min", "0"), REPLICATED, "'muster.autoscale.min': 0 needs a gauge"},
        {MAX "," LABEL("min", "-1"), REPLICATED, "'muster.autoscale.min': '-1'"},
        {MAX "," LABEL("metric", "cpus"), REPLICATED,
         "'muster.autoscale.metric': 'cpus' is none of cpu, cores, memory"},
        {MAX "," LABEL("metric", "gauge:"), REPLICATED, "expected a name of 1 to 63"},
        {MAX "," LABEL("metric", "gauge:a b"), REPLICATED, "expected a name of 1 to 63"},
        {MAX "," LABEL("metric", "gauge:q"), REPLICATED, "'muster.autoscale.target': is missing"},
        {MAX "," LABEL("metric", "memory"), REPLICATED,
         "'muster.autoscale.metric': memory is a share of the limit"},
        {MAX "," LABEL("target", "0"), REPLICATED, "'muster.autoscale.target': '0'"},
        {MAX "," LABEL("target", "nan"), REPLICATED, "'muster.autoscale.target': 'nan'"},
        {MAX "," LABEL("target", ""), REPLICATED, "'muster.autoscale.target': ''"},
        {MAX "," LABEL("target", "%"), REPLICATED, "'muster.autoscale.target': ''"},
        {MAX "," LABEL("target", "111111111111111111111111111111111111"), REPLICATED, "is no number"},
        {MAX "," LABEL("tolerance", "51"), REPLICATED, "'muster.autoscale.tolerance': '51'"},
        {MAX "," LABEL("cooldown", "30"), REPLICATED, "'muster.autoscale.cooldown': '30'"},
        {MAX "," LABEL("cooldown-in", "25h"), REPLICATED,
         "'muster.autoscale.cooldown-in': '25h' is more than 86400s"},
        {MAX "," LABEL("average", "11m"), REPLICATED, "'muster.autoscale.average': '11m' is more than 600s"},
        {MAX "," LABEL("step", "0"), REPLICATED, "'muster.autoscale.step': '0'"},
        {MAX "," LABEL("source", "queue"), REPLICATED, "only a metric gauge:NAME has a source"},
        {MAX "," LABEL("combine", "max"), REPLICATED, "only a metric gauge:NAME"},
        {MAX "," LABEL("metric", "gauge:q") "," LABEL("target", "1") "," LABEL("combine", "mean"), REPLICATED,
         "'muster.autoscale.combine': expected sum or max"},
        {MAX "," LABEL("metric", "gauge:q") "," LABEL("target", "1") "," LABEL("source", ""), REPLICATED,
         "'muster.autoscale.source': expected the name"},
        {MAX "," LABEL("enabled", "perhaps"), REPLICATED, "'muster.autoscale.enabled': 'perhaps'"},
        {MAX "," LABEL("maxx", "3"), REPLICATED,
         "label 'muster.autoscale.maxx' is not known; did you mean 'muster.autoscale.max'?"},
        {MAX "," LABEL("surprise", "3"), REPLICATED, "label 'muster.autoscale.surprise' is not known"},
        {MAX, "\"Mode\":{\"Global\":{}}", "the service is not replicated"},
        {"", REPLICATED ",\"TaskTemplate\":{\"ContainerSpec\":{\"Labels\":{" MAX "}}}",
         "label 'muster.autoscale.max' is on the containers: it belongs under deploy.labels"},
    };

    (void)state;
    for (size_t i = 0; i < MST_ARRAY_COUNT(cases); i++) {
        mst_cleanup(mst_json_deletep) cJSON *service = service_of(cases[i].labels, cases[i].more);
        struct autoscale_policy policy = {.max = 77};
        struct mst_error err = MST_ERROR_INIT;
        const int r = autoscale_policy_read(service, "st", &policy, &err);
        assert_true(autoscale_is_wanted(service));
        if (r != -EBADMSG || !strstr(err.text, cases[i].text) || !strstr(err.text, "service 'st_web'") ||
            policy.max != 77)
            fail_msg("case %zu: %d, '%s' instead of '%s'", i, r, err.text, cases[i].text);
    }
}

static void what_is_not_said_has_a_default(void **state)
{
    mst_cleanup(mst_json_deletep) cJSON *service = service_of(MAX, REPLICATED);
    struct autoscale_policy policy;
    char text[96];

    (void)state;
    assert_int_equal(autoscale_policy_read(service, "st", &policy, NULL), 0);
    assert_int_equal(policy.min, 1);
    assert_int_equal(policy.max, 9);
    assert_int_equal(policy.metric, AUTOSCALE_CPU);
    assert_true(policy.target > 69.9 && policy.target < 70.1);
    assert_true(policy.tolerance > 0.099 && policy.tolerance < 0.101);
    assert_true(policy.cooldown_out_ns == 15 * S && policy.cooldown_in_ns == 60 * S);
    assert_true(policy.window_ns == 180 * S && policy.average_ns == 15 * S);
    assert_int_equal(policy.step_out, 0);
    assert_string_equal(policy.source, "st_web");
    assert_string_equal(autoscale_metric_text(&policy, text), "cpu");
}

static void what_is_said_counts(void **state)
{
    mst_cleanup(mst_json_deletep) cJSON *service = service_of(
        MAX "," LABEL("min", "0") "," LABEL("metric", "gauge:jobs.open") "," LABEL("target", "2.5") "," LABEL("source", "broker") "," LABEL("combine", "max") "," LABEL(
            "cooldown",
            "40s") "," LABEL("cooldown-in",
                             "2m") "," LABEL("window",
                                             "0") "," LABEL("average",
                                                            "1m") "," LABEL("step",
                                                                            "3") "," LABEL("step-in",
                                                                                           "1") "," LABEL("to"
                                                                                                          "le"
                                                                                                          "ra"
                                                                                                          "nc"
                                                                                                          "e",
                                                                                                          "20"
                                                                                                          "%") "," LABEL("enabled",
                                                                                                                         "true") "," LABEL("state",
                                                                                                                                           "anything"),
        REPLICATED);
    struct autoscale_policy policy;
    char text[96];

    (void)state;
    assert_int_equal(autoscale_policy_read(service, "st", &policy, NULL), 0);
    assert_int_equal(policy.min, 0);
    assert_int_equal(policy.metric, AUTOSCALE_GAUGE);
    assert_string_equal(policy.gauge, "jobs.open");
    assert_string_equal(policy.source, "st_broker");
    assert_true(policy.is_largest);
    assert_true(policy.target > 2.49 && policy.target < 2.51);
    assert_true(policy.tolerance > 0.199 && policy.tolerance < 0.201);
    assert_true(policy.cooldown_out_ns == 40 * S && policy.cooldown_in_ns == 120 * S);
    assert_true(policy.window_ns == 0 && policy.average_ns == 60 * S);
    assert_int_equal(policy.step_out, 3);
    assert_int_equal(policy.step_in, 1);
    assert_string_equal(autoscale_metric_text(&policy, text), "gauge 'jobs.open'");
}

static void a_service_without_labels_is_left_alone(void **state)
{
    mst_cleanup(mst_json_deletep) cJSON *none = service_of("", REPLICATED),
                                        *stamp = service_of(LABEL("state", "x"), REPLICATED),
                                        *off = service_of(MAX "," LABEL("enabled", "no"), REPLICATED);
    struct autoscale_policy policy;
    struct mst_error err = MST_ERROR_INIT;

    (void)state;
    assert_false(autoscale_is_wanted(none));
    assert_false(autoscale_is_wanted(stamp)); /* ours alone, left over */
    assert_true(autoscale_is_wanted(off));
    assert_int_equal(autoscale_policy_read(off, "st", &policy, &err), -ECANCELED);
    assert_non_null(strstr(err.text, "enabled"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(labels_that_make_no_sense_are_named),
        cmocka_unit_test(what_is_not_said_has_a_default),
        cmocka_unit_test(what_is_said_counts),
        cmocka_unit_test(a_service_without_labels_is_left_alone),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
