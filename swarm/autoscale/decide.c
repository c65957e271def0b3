/* SPDX-License-Identifier: Apache-2.0 */
#include "autoscale/decide.h"

#include "muster/clock.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define ROUNDING 1e-9 /* 3 * 0.1 / 0.3 is a little more than 1 in binary */

const char *autoscale_action_text(enum autoscale_action action)
{
    static const char *const texts[] = {"keep", "hold", "out", "in"};

    return texts[action];
}

const char *autoscale_cause_text(enum autoscale_cause cause)
{
    static const char *const texts[AUTOSCALE_CAUSES] = {
        [AUTOSCALE_ON_TARGET] = "on-target",   [AUTOSCALE_AT_MAX] = "at-max",
        [AUTOSCALE_AT_MIN] = "at-min",         [AUTOSCALE_ABOVE] = "above-target",
        [AUTOSCALE_BELOW] = "below-target",    [AUTOSCALE_BELOW_MIN] = "below-min",
        [AUTOSCALE_BEYOND_MAX] = "beyond-max", [AUTOSCALE_STOPPED] = "stopped",
        [AUTOSCALE_ROLLOUT] = "rollout",       [AUTOSCALE_STARTING] = "starting",
        [AUTOSCALE_NO_ROOM] = "no-room",       [AUTOSCALE_NO_VALUE] = "no-value",
        [AUTOSCALE_COOLDOWN] = "cooldown",     [AUTOSCALE_WINDOW] = "window",
        [AUTOSCALE_BAD_LABELS] = "bad-labels", [AUTOSCALE_DISABLED] = "disabled",
        [AUTOSCALE_LOST_RACE] = "lost-race",
    };

    return texts[cause];
}

static void decide(struct autoscale_decision *decision, enum autoscale_action action,
                   enum autoscale_cause cause, uint32_t to, const char *format, ...)
    __attribute__((format(printf, 5, 6)));

static void decide(struct autoscale_decision *decision, enum autoscale_action action,
                   enum autoscale_cause cause, uint32_t to, const char *format, ...)
{
    va_list arguments;

    decision->action = action;
    decision->cause = cause;
    decision->to = to;
    va_start(arguments, format);
    (void)vsnprintf(decision->reason, sizeof decision->reason, format, arguments);
    va_end(arguments);
}

/* ---- the window: the largest need in each of some slices of time ---- */

static uint64_t bucket_ns(const struct autoscale_policy *policy)
{
    const uint64_t width = policy->window_ns / (AUTOSCALE_BUCKETS - 2);

    return width > 0 ? width : 1;
}

/* A monitor that was away for a moment is no gap; after one, what was needed meanwhile is not known. */
static uint64_t gap_ns(const struct autoscale_policy *policy, const struct autoscale_input *input)
{
    const uint64_t moment_ns = policy->average_ns + policy->window_ns / 4, looks_ns = 3 * input->interval_ns;

    return moment_ns > looks_ns ? moment_ns : looks_ns;
}

static void remember(const struct autoscale_policy *policy, const struct autoscale_input *input,
                     uint32_t wanted, struct autoscale_memory *memory)
{
    const uint64_t number = input->now_ns / bucket_ns(policy);
    const size_t at = (size_t)(number % AUTOSCALE_BUCKETS);

    if (memory->since_ns == 0 || input->now_ns - memory->last_ns > gap_ns(policy, input))
        memory->since_ns = input->now_ns;
    memory->last_ns = input->now_ns;
    if (memory->buckets[at].number != number || memory->buckets[at].wanted < wanted)
        memory->buckets[at].wanted = wanted;
    memory->buckets[at].number = number;
}

static uint32_t largest_need(const struct autoscale_policy *policy, uint64_t now_ns,
                             const struct autoscale_memory *memory)
{
    const uint64_t number = now_ns / bucket_ns(policy),
                   reach = policy->window_ns == 0 ? 0 : AUTOSCALE_BUCKETS - 1; /* one more than the window */
    uint32_t wanted = 0;

    for (size_t i = 0; i < AUTOSCALE_BUCKETS; i++) {
        const uint64_t its = memory->buckets[i].number;
        if (its > 0 && its <= number && number - its <= reach && memory->buckets[i].wanted > wanted)
            wanted = memory->buckets[i].wanted;
    }
    return wanted;
}

/* ---- how many are needed ---- */

static uint32_t tasks_for(double load, double each)
{
    const double count = ceil(load / each - ROUNDING);

    return count < 0 ? 0 : count > AUTOSCALE_REPLICAS_MAX ? AUTOSCALE_REPLICAS_MAX : (uint32_t)count;
}

static uint32_t clamp(const struct autoscale_policy *policy, uint32_t count)
{
    return count < policy->min ? policy->min : count > policy->max ? policy->max : count;
}

static const char *unit(const struct autoscale_policy *policy)
{
    return policy->metric == AUTOSCALE_GAUGE ? "" : " %";
}

/* "cpu 93 % a task, target 70 %". */
static void say_value(const struct autoscale_policy *policy, const struct autoscale_input *input,
                      char text[static 200])
{
    char metric[96];

    (void)autoscale_metric_text(policy, metric);
    if (policy->metric == AUTOSCALE_GAUGE)
        (void)snprintf(text, 200, "%s %.4g, target %.4g a task", metric, input->value, policy->target);
    else
        (void)snprintf(text, 200, "%s %.1f%s a task, target %.4g%s", metric, input->value, unit(policy),
                       policy->target, unit(policy));
}

static uint32_t step_out(const struct autoscale_policy *policy, uint32_t replicas)
{
    return policy->step_out > 0 ? policy->step_out : replicas > 1 ? replicas : 1;
}

static uint32_t step_in(const struct autoscale_policy *policy, uint32_t replicas)
{
    return policy->step_in > 0 ? policy->step_in : replicas > 3 ? replicas / 2 : 1;
}

/* In seconds, rounded up; 0: over. */
static uint64_t left_s(uint64_t since_ns, uint64_t wait_ns, uint64_t now_ns)
{
    const uint64_t passed_ns = now_ns > since_ns ? now_ns - since_ns : 0;

    return passed_ns >= wait_ns ? 0 : (wait_ns - passed_ns + MST_NS_PER_S - 1) / MST_NS_PER_S;
}

static const char *change_text(enum autoscale_change change)
{
    return change == AUTOSCALE_BY_US_OUT  ? "it was scaled out"
           : change == AUTOSCALE_BY_US_IN ? "it was scaled in"
                                          : "somebody else scaled it";
}

static void go_out(const struct autoscale_policy *policy, const struct autoscale_input *input,
                   const struct autoscale_memory *memory, uint32_t wanted, const char *value,
                   struct autoscale_decision *decision)
{
    const uint32_t step = step_out(policy, input->replicas);
    const uint32_t to = wanted - input->replicas > step ? input->replicas + step : wanted;
    const bool is_cooling = memory->changed == AUTOSCALE_BY_US_OUT || memory->changed == AUTOSCALE_BY_OTHERS;
    const uint64_t wait_s =
        is_cooling ? left_s(memory->changed_ns, policy->cooldown_out_ns, input->now_ns) : 0;

    if (input->without_room > 0)
        decide(decision, AUTOSCALE_HOLD, AUTOSCALE_NO_ROOM, input->replicas,
               "%s: %u needed, but no node takes %u of its tasks", value, (unsigned)wanted,
               (unsigned)input->without_room);
    else if (wait_s > 0)
        decide(decision, AUTOSCALE_HOLD, AUTOSCALE_COOLDOWN, input->replicas,
               "%s: %u needed, but %s less than %g s ago, %llu s left", value, (unsigned)wanted,
               change_text(memory->changed), (double)policy->cooldown_out_ns / (double)MST_NS_PER_S,
               (unsigned long long)wait_s);
    else
        decide(decision, AUTOSCALE_OUT, AUTOSCALE_ABOVE, to, "%s: %u needed%s", value, (unsigned)wanted,
               to < wanted ? ", one step at a time" : "");
}

static void go_in(const struct autoscale_policy *policy, const struct autoscale_input *input,
                  const struct autoscale_memory *memory, uint32_t wanted, const char *value,
                  struct autoscale_decision *decision)
{
    const uint32_t step = step_in(policy, input->replicas),
                   largest = largest_need(policy, input->now_ns, memory);
    const uint32_t need = input->is_without_window ? wanted : largest;
    const uint32_t to =
        need < input->replicas && input->replicas - need > step ? input->replicas - step : need;
    const uint64_t wait_s = memory->changed == AUTOSCALE_UNCHANGED
                                ? 0
                                : left_s(memory->changed_ns, policy->cooldown_in_ns, input->now_ns),
                   unseen_s = input->is_without_window
                                  ? 0
                                  : left_s(memory->since_ns, policy->window_ns, input->now_ns);

    if (wait_s > 0)
        decide(decision, AUTOSCALE_HOLD, AUTOSCALE_COOLDOWN, input->replicas,
               "%s: %u would do, but %s less than %g s ago, %llu s left", value, (unsigned)wanted,
               change_text(memory->changed), (double)policy->cooldown_in_ns / (double)MST_NS_PER_S,
               (unsigned long long)wait_s);
    else if (unseen_s > 0)
        decide(decision, AUTOSCALE_HOLD, AUTOSCALE_WINDOW, input->replicas,
               "%s: %u would do, but it has not been watched for %g s yet, %llu s left", value,
               (unsigned)wanted, (double)policy->window_ns / (double)MST_NS_PER_S,
               (unsigned long long)unseen_s);
    else if (need >= input->replicas)
        decide(decision, AUTOSCALE_HOLD, AUTOSCALE_WINDOW, input->replicas,
               "%s: %u would do, but %u were needed within the last %g s", value, (unsigned)wanted,
               (unsigned)need, (double)policy->window_ns / (double)MST_NS_PER_S);
    else
        decide(decision, AUTOSCALE_IN, AUTOSCALE_BELOW, to, "%s: %u will do%s", value, (unsigned)need,
               to > need ? ", one step at a time" : "");
}

/* What needs no value. False: a value is needed. */
static bool decide_without_value(const struct autoscale_policy *policy, const struct autoscale_input *input,
                                 struct autoscale_decision *decision)
{
    const uint32_t missing = input->running + input->without_room < input->replicas
                                 ? input->replicas - input->running - input->without_room
                                 : 0;

    if (input->rollout)
        decide(decision, AUTOSCALE_HOLD, AUTOSCALE_ROLLOUT, input->replicas, "%s", input->rollout);
    else if (input->replicas == 0 && policy->min > 0)
        decide(decision, AUTOSCALE_HOLD, AUTOSCALE_STOPPED, input->replicas,
               "somebody scaled it to 0: it stays so until it is scaled to 1 or more");
    else if (input->replicas < policy->min)
        decide(decision, AUTOSCALE_OUT, AUTOSCALE_BELOW_MIN, policy->min, "the minimum is %u",
               (unsigned)policy->min);
    else if (input->replicas > policy->max)
        decide(decision, AUTOSCALE_IN, AUTOSCALE_BEYOND_MAX, policy->max, "the maximum is %u",
               (unsigned)policy->max);
    else if (missing > 0)
        decide(decision, AUTOSCALE_HOLD, AUTOSCALE_STARTING, input->replicas,
               "%u of its %u tasks run: the others are waited for", (unsigned)input->running,
               (unsigned)input->replicas);
    else if (input->missing)
        decide(decision, AUTOSCALE_HOLD, AUTOSCALE_NO_VALUE, input->replicas, "%s", input->missing);
    else
        return false;
    return true;
}

void autoscale_decide(const struct autoscale_policy *policy, const struct autoscale_input *input,
                      struct autoscale_memory *memory, struct autoscale_decision *ret_decision)
{
    const bool is_gauge = policy->metric == AUTOSCALE_GAUGE;
    const double total = is_gauge ? input->value : input->value * (double)input->running;
    const double carried = policy->target * (double)input->replicas;
    const uint32_t more = tasks_for(total, policy->target),
                   less = tasks_for(total, policy->target * (1 - policy->tolerance));
    uint32_t wanted = input->replicas;
    char value[200];

    *ret_decision = (struct autoscale_decision){.from = input->replicas, .to = input->replicas};
    if (decide_without_value(policy, input, ret_decision))
        return;
    ret_decision->has_value = true;
    ret_decision->value = input->value;
    ret_decision->load = carried > 0 ? total / carried : total > 0 ? HUGE_VAL : 0;
    say_value(policy, input, value);
    if (total > carried * (1 + policy->tolerance))
        wanted = clamp(policy, more > input->replicas ? more : input->replicas);
    else if (less < input->replicas)
        wanted = clamp(policy, less);
    remember(policy, input, wanted, memory);
    if (wanted > input->replicas)
        go_out(policy, input, memory, wanted, value, ret_decision);
    else if (wanted < input->replicas)
        go_in(policy, input, memory, wanted, value, ret_decision);
    else if (total > carried * (1 + policy->tolerance))
        decide(ret_decision, AUTOSCALE_KEEP, AUTOSCALE_AT_MAX, input->replicas,
               "%s: %u needed, and the maximum is %u", value, (unsigned)more, (unsigned)policy->max);
    else if (less < input->replicas)
        decide(ret_decision, AUTOSCALE_KEEP, AUTOSCALE_AT_MIN, input->replicas, "%s: the minimum is %u",
               value, (unsigned)policy->min);
    else
        decide(ret_decision, AUTOSCALE_KEEP, AUTOSCALE_ON_TARGET, input->replicas, "%s", value);
}
