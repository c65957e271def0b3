/* SPDX-License-Identifier: Apache-2.0 */
#include "autoscale/policy.h"

#include "live.h"
#include "muster/cleanup.h"
#include "muster/clock.h"
#include "muster/json.h"
#include "muster/parse.h"

#include <stdio.h>
#include <string.h>

#define COOLDOWN_OUT_NS (15 * MST_NS_PER_S)
#define COOLDOWN_IN_NS  (60 * MST_NS_PER_S)
#define WINDOW_NS       (180 * MST_NS_PER_S)
#define AVERAGE_NS      (15 * MST_NS_PER_S)
#define DAY_NS          (86400 * MST_NS_PER_S)
#define AVERAGE_MAX_NS  (600 * MST_NS_PER_S)
#define TARGET_PERCENT  70.0
#define TOLERANCE       0.10

/* What was given; NULL: nothing. */
struct given {
    const char *enabled, *min, *max, *metric, *target, *tolerance, *source, *combine;
    const char *cooldown, *cooldown_out, *cooldown_in, *window, *average, *step, *step_out, *step_in;
};

#define LABEL(name, member)                                                                                  \
    {                                                                                                        \
        name, offsetof(struct given, member)                                                                 \
    }
static const struct {
    const char *name;
    size_t offset;
} labels[] = {
    LABEL("enabled", enabled),   LABEL("min", min),
    LABEL("max", max),           LABEL("metric", metric),
    LABEL("target", target),     LABEL("tolerance", tolerance),
    LABEL("source", source),     LABEL("combine", combine),
    LABEL("cooldown", cooldown), LABEL("cooldown-out", cooldown_out),
    LABEL("window", window),     LABEL("cooldown-in", cooldown_in),
    LABEL("average", average),   LABEL("step", step),
    LABEL("step-in", step_in),   LABEL("step-out", step_out),
};

static const cJSON *labels_of(const cJSON *service)
{
    return mst_json_at(service, "Spec", "Labels", NULL);
}

static bool is_ours(const cJSON *label)
{
    return label->string && strncmp(label->string, AUTOSCALE_PREFIX, sizeof AUTOSCALE_PREFIX - 1) == 0 &&
           strcmp(label->string, AUTOSCALE_STAMP) != 0;
}

static bool has_labels(const cJSON *service, const cJSON *of)
{
    const cJSON *label;

    cJSON_ArrayForEach(label, labels_of(of))
    {
        const bool counts =
            label->string && strncmp(label->string, AUTOSCALE_PREFIX, sizeof AUTOSCALE_PREFIX - 1) == 0;
        if (counts &&
            !cJSON_Compare(cJSON_GetObjectItemCaseSensitive(labels_of(service), label->string), label, true))
            return false;
    }
    return true;
}

bool autoscale_has_same_labels(const cJSON *a, const cJSON *b)
{
    return has_labels(a, b) && has_labels(b, a);
}

static const cJSON *first_of(const cJSON *list)
{
    const cJSON *label;

    cJSON_ArrayForEach(label, list)
    {
        if (is_ours(label))
            return label;
    }
    return NULL;
}

/* Labels of the containers, where people put them by mistake. */
static const cJSON *misplaced(const cJSON *service)
{
    return first_of(mst_json_at(service, "Spec", "TaskTemplate", "ContainerSpec", "Labels", NULL));
}

bool autoscale_is_wanted(const cJSON *service)
{
    return first_of(labels_of(service)) || misplaced(service);
}

const char *autoscale_metric_text(const struct autoscale_policy *policy, char text[static 96])
{
    static const char *const names[] = {"cpu", "cores", "memory"};

    if (policy->metric == AUTOSCALE_GAUGE)
        (void)snprintf(text, 96, "gauge '%s'", policy->gauge);
    else
        (void)snprintf(text, 96, "%s", names[policy->metric]);
    return text;
}

static int wrong(const cJSON *service, const char *name, struct mst_error *err, const char *expected)
{
    return mst_error_set(err, -EBADMSG, "service '%s': label '%s%s': %s", live_name(service, ENGINE_SERVICE),
                         AUTOSCALE_PREFIX, name, expected);
}

static int take_labels(const cJSON *service, struct given *given, struct mst_error *err)
{
    const char *names[MST_ARRAY_COUNT(labels)];
    const cJSON *label;

    for (size_t i = 0; i < MST_ARRAY_COUNT(labels); i++)
        names[i] = labels[i].name;
    cJSON_ArrayForEach(label, labels_of(service))
    {
        const char *name = is_ours(label) ? label->string + sizeof AUTOSCALE_PREFIX - 1 : NULL, *nearest;
        size_t i = 0;
        if (!name)
            continue;
        while (i < MST_ARRAY_COUNT(labels) && strcmp(labels[i].name, name) != 0)
            i++;
        if (i < MST_ARRAY_COUNT(labels)) {
            const char *text = cJSON_GetStringValue(label);
            memcpy((char *)given + labels[i].offset, &text, sizeof text);
            continue;
        }
        nearest = mst_nearest(name, names, MST_ARRAY_COUNT(names));
        return mst_error_set(err, -EBADMSG, "service '%s': label '%.100s' is not known%s%s%s",
                             live_name(service, ENGINE_SERVICE), label->string,
                             nearest ? "; did you mean '" AUTOSCALE_PREFIX : "", nearest ? nearest : "",
                             nearest ? "'?" : "");
    }
    return 0;
}

/* ---- single values; what is not given stays as it is ---- */

static int take_u32(const cJSON *service, const char *name, const char *text, uint32_t min, uint32_t *value,
                    struct mst_error *err)
{
    struct mst_error why = MST_ERROR_INIT;

    if (text && mst_parse_u32(text, min, AUTOSCALE_REPLICAS_MAX, value, &why) < 0)
        return wrong(service, name, err, why.text);
    return 0;
}

static int take_duration(const cJSON *service, const char *name, const char *text, uint64_t max_ns,
                         uint64_t *value, struct mst_error *err)
{
    struct mst_error why = MST_ERROR_INIT;

    if (text && mst_parse_duration_ns(text, value, &why) < 0)
        return wrong(service, name, err, why.text);
    if (*value > max_ns) {
        (void)snprintf(why.text, sizeof why.text, "'%.32s' is more than %us", text,
                       (unsigned)(max_ns / MST_NS_PER_S));
        return wrong(service, name, err, why.text);
    }
    return 0;
}

/* "70", "70%". */
static int take_number(const cJSON *service, const char *name, const char *text, double min, double max,
                       bool is_percent, double *value, struct mst_error *err)
{
    struct mst_error why = MST_ERROR_INIT;
    char digits[32];

    if (!text)
        return 0;
    (void)snprintf(digits, sizeof digits, "%s", text);
    if (is_percent && strlen(text) < sizeof digits && digits[0] && digits[strlen(digits) - 1] == '%')
        digits[strlen(digits) - 1] = '\0';
    if (strlen(text) >= sizeof digits || mst_parse_double(digits, min, max, value, &why) < 0) {
        if (why.text[0] == '\0')
            (void)snprintf(why.text, sizeof why.text, "'%.32s...' is no number", text);
        return wrong(service, name, err, why.text);
    }
    return 0;
}

static int take_metric(const cJSON *service, const char *text, struct autoscale_policy *policy,
                       struct mst_error *err)
{
    static const char *const names[] = {"cpu", "cores", "memory"};
    const char *gauge = text && strncmp(text, "gauge:", 6) == 0 ? text + 6 : NULL;
    size_t i = 0;

    if (gauge && peers_is_gauge_name(gauge)) {
        policy->metric = AUTOSCALE_GAUGE;
        (void)snprintf(policy->gauge, sizeof policy->gauge, "%s", gauge);
        return 0;
    }
    while (text && i < MST_ARRAY_COUNT(names) && strcmp(names[i], text) != 0)
        i++;
    if (i == MST_ARRAY_COUNT(names)) {
        struct mst_error why = MST_ERROR_INIT;
        (void)snprintf(why.text, sizeof why.text,
                       gauge ? "'%.80s': expected a name of 1 to 63 letters, digits, '_', '.' and '-'"
                             : "'%.80s' is none of cpu, cores, memory and gauge:NAME",
                       gauge ? gauge : text);
        return wrong(service, "metric", err, why.text);
    }
    policy->metric = (enum autoscale_metric)i;
    return 0;
}

/* What only a gauge has. */
static int take_gauge(const cJSON *service, const char *stack, const struct given *given,
                      struct autoscale_policy *policy, struct mst_error *err)
{
    const bool is_gauge = policy->metric == AUTOSCALE_GAUGE;
    const char *own = live_name(service, ENGINE_SERVICE);

    (void)snprintf(policy->source, sizeof policy->source, "%s", own);
    if (!is_gauge && given->source)
        return wrong(service, "source", err, "only a metric gauge:NAME has a source");
    if (!is_gauge && given->combine)
        return wrong(service, "combine", err, "only a metric gauge:NAME has several values to combine");
    if (is_gauge && !given->target)
        return wrong(service, "target", err, "is missing: how much of the gauge is one task's share?");
    if (given->source &&
        (given->source[0] == '\0' || snprintf(policy->source, sizeof policy->source, "%s_%s", stack,
                                              given->source) >= (int)sizeof policy->source))
        return wrong(service, "source", err, "expected the name of a service of this stack");
    if (given->combine && strcmp(given->combine, "sum") != 0 && strcmp(given->combine, "max") != 0)
        return wrong(service, "combine", err, "expected sum or max");
    policy->is_largest = given->combine && strcmp(given->combine, "max") == 0;
    return 0;
}

static int take_times(const cJSON *service, const struct given *given, struct autoscale_policy *policy,
                      struct mst_error *err)
{
    int r = take_duration(service, "cooldown", given->cooldown, DAY_NS, &policy->cooldown_out_ns, err);

    if (r >= 0)
        r = take_duration(service, "cooldown", given->cooldown, DAY_NS, &policy->cooldown_in_ns, err);
    if (r >= 0)
        r = take_duration(service, "cooldown-out", given->cooldown_out, DAY_NS, &policy->cooldown_out_ns,
                          err);
    if (r >= 0)
        r = take_duration(service, "cooldown-in", given->cooldown_in, DAY_NS, &policy->cooldown_in_ns, err);
    if (r >= 0)
        r = take_duration(service, "window", given->window, DAY_NS, &policy->window_ns, err);
    if (r >= 0)
        r = take_duration(service, "average", given->average, AVERAGE_MAX_NS, &policy->average_ns, err);
    return r;
}

static int take_numbers(const cJSON *service, const struct given *given, struct autoscale_policy *policy,
                        struct mst_error *err)
{
    const bool is_gauge = policy->metric == AUTOSCALE_GAUGE;
    double tolerance = 100 * TOLERANCE;
    int r = take_u32(service, "max", given->max, 1, &policy->max, err);

    if (r >= 0)
        r = take_u32(service, "min", given->min, 0, &policy->min, err);
    if (r >= 0)
        r = take_number(service, "target", given->target, is_gauge ? 1e-9 : 1, is_gauge ? 1e15 : 10000,
                        !is_gauge, &policy->target, err);
    if (r >= 0)
        r = take_number(service, "tolerance", given->tolerance, 0, 50, true, &tolerance, err);
    policy->tolerance = tolerance / 100;
    if (r >= 0)
        r = take_u32(service, "step", given->step, 1, &policy->step_out, err);
    policy->step_in = policy->step_out;
    if (r >= 0)
        r = take_u32(service, "step-out", given->step_out, 1, &policy->step_out, err);
    return r < 0 ? r : take_u32(service, "step-in", given->step_in, 1, &policy->step_in, err);
}

static int check_bounds(const cJSON *service, const struct given *given,
                        const struct autoscale_policy *policy, struct mst_error *err)
{
    const bool is_elsewhere = strcmp(policy->source, live_name(service, ENGINE_SERVICE)) != 0;
    char text[96];

    if (!given->max)
        return wrong(service, "max", err, "is missing: how many tasks may there be?");
    if (policy->min > policy->max) {
        (void)snprintf(text, sizeof text, "%u is more than the maximum of %u", (unsigned)policy->min,
                       (unsigned)policy->max);
        return wrong(service, "min", err, text);
    }
    /* Nobody would be left to say that there is work again. */
    if (policy->min == 0 && !is_elsewhere)
        return wrong(service, "min", err,
                     "0 needs a gauge whose source is another service; expected 1 or more");
    return 0;
}

static int check_mode(const cJSON *service, struct mst_error *err)
{
    const cJSON *label = misplaced(service);

    if (label)
        return mst_error_set(
            err, -EBADMSG,
            "service '%s': label '%.100s' is on the containers: it belongs under deploy.labels",
            live_name(service, ENGINE_SERVICE), label->string);
    if (!mst_json_at(service, "Spec", "Mode", "Replicated", NULL))
        return mst_error_set(
            err, -EBADMSG,
            "service '%s': label '%.100s': the service is not replicated: only such can be scaled",
            live_name(service, ENGINE_SERVICE), first_of(labels_of(service))->string);
    return 0;
}

/* A percentage of the limit, where there is none. */
static int check_limit(const cJSON *service, const struct autoscale_policy *policy, struct mst_error *err)
{
    const cJSON *limits = mst_json_at(service, "Spec", "TaskTemplate", "Resources", "Limits", NULL);

    if (policy->metric == AUTOSCALE_MEMORY && mst_json_u64_or(limits, "MemoryBytes", 0) == 0)
        return wrong(service, "metric", err,
                     "memory is a share of the limit, and the service has none "
                     "(deploy.resources.limits.memory)");
    return 0;
}

int autoscale_policy_read(const cJSON *service, const char *stack, struct autoscale_policy *ret_policy,
                          struct mst_error *err)
{
    struct autoscale_policy policy = {
        .min = 1,
        .metric = AUTOSCALE_CPU,
        .target = TARGET_PERCENT,
        .cooldown_out_ns = COOLDOWN_OUT_NS,
        .cooldown_in_ns = COOLDOWN_IN_NS,
        .window_ns = WINDOW_NS,
        .average_ns = AVERAGE_NS,
    };
    struct given given = {0};
    bool is_enabled = true;
    struct mst_error why = MST_ERROR_INIT;
    int r = check_mode(service, err);

    if (r >= 0)
        r = take_labels(service, &given, err);
    if (r >= 0 && given.enabled && mst_parse_bool(given.enabled, &is_enabled, &why) < 0)
        r = wrong(service, "enabled", err, why.text);
    if (r >= 0 && given.metric)
        r = take_metric(service, given.metric, &policy, err);
    if (r >= 0)
        r = take_gauge(service, stack, &given, &policy, err);
    if (r >= 0)
        r = take_numbers(service, &given, &policy, err);
    if (r >= 0)
        r = take_times(service, &given, &policy, err);
    if (r >= 0)
        r = check_bounds(service, &given, &policy, err);
    if (r >= 0)
        r = check_limit(service, &policy, err);
    if (r >= 0 && !is_enabled)
        r = mst_error_set(err, -ECANCELED, "label '%senabled' says false", AUTOSCALE_PREFIX);
    if (r < 0)
        return r;
    *ret_policy = policy;
    return 0;
}
