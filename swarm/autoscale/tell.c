/* SPDX-License-Identifier: Apache-2.0 */
#include "autoscale/tell.h"

#include "muster/cleanup.h"
#include "muster/log.h"
#include "plain.h"
#include "stack.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static bool is_change(const struct autoscale_decision *decision)
{
    return decision->action == AUTOSCALE_OUT || decision->action == AUTOSCALE_IN;
}

/* Numbers in the reason change all the time. */
static bool is_news(const struct autoscale_known *known, const struct autoscale_decision *decision,
                    bool is_dry)
{
    const struct autoscale_decision *said = &known->said;

    if (!known->has_said || (is_change(decision) && !is_dry))
        return true;
    return said->action != decision->action || said->cause != decision->cause ||
           said->from != decision->from || said->to != decision->to;
}

static void log_row(const struct autoscale_row *row)
{
    const struct autoscale_decision *decision = &row->decision;
    char reason[sizeof decision->reason];

    memcpy(reason, decision->reason, sizeof reason);
    plain_text(reason);
    if (is_change(decision))
        mst_log_info("autoscale", "%s service %s %s: %u -> %u: %s", row->is_done ? "scaled" : "would scale",
                     row->subject->name, autoscale_action_text(decision->action), (unsigned)decision->from,
                     (unsigned)decision->to, reason);
    else if (decision->cause == AUTOSCALE_BAD_LABELS)
        mst_log_error("autoscale", "%s", reason);
    else if (decision->cause == AUTOSCALE_NO_VALUE || decision->cause == AUTOSCALE_NO_ROOM ||
             decision->cause == AUTOSCALE_AT_MAX)
        mst_log_warn("autoscale", "service %s stays at %u: %s", row->subject->name, (unsigned)decision->from,
                     reason);
    else
        mst_log_info("autoscale", "service %s stays at %u: %s", row->subject->name, (unsigned)decision->from,
                     reason);
}

static bool add_number(cJSON *event, const char *key, double value)
{
    return cJSON_AddNumberToObject(event, key, value) != NULL;
}

static int emit_row(struct mst_event_sink *sink, const struct autoscale_row *row, bool is_dry)
{
    const struct autoscale_decision *decision = &row->decision;
    cJSON *event = mst_event_new(sink, "autoscale");
    bool is_whole = event && cJSON_AddStringToObject(event, "service", row->subject->name) &&
                    cJSON_AddStringToObject(event, "action", autoscale_action_text(decision->action)) &&
                    cJSON_AddStringToObject(event, "cause", autoscale_cause_text(decision->cause)) &&
                    add_number(event, "from", decision->from) && add_number(event, "to", decision->to) &&
                    cJSON_AddStringToObject(event, "reason", decision->reason);

    if (is_whole && decision->has_value)
        is_whole = add_number(event, "value", decision->value) &&
                   add_number(event, "load", isfinite(decision->load) ? decision->load : -1);
    if (is_whole && is_dry)
        is_whole = cJSON_AddTrueToObject(event, "dry_run") != NULL;
    if (!is_whole) {
        cJSON_Delete(event);
        return -ENOMEM;
    }
    return mst_event_emit(sink, event);
}

int autoscale_tell(struct mst_event_sink *sink, struct autoscale_known *known,
                   const struct autoscale_row *row, bool is_dry, struct mst_error *err)
{
    int r;

    if (!is_news(known, &row->decision, is_dry)) {
        mst_log_debug("autoscale", "service %s: %s: %s", row->subject->name,
                      autoscale_action_text(row->decision.action), row->decision.reason);
        return 0;
    }
    known->said = row->decision;
    known->has_said = true;
    log_row(row);
    r = emit_row(sink, row, is_dry);
    return r < 0 ? output_failed(r, err) : 0;
}

static const struct output_column columns[] = {
    {"service", "SERVICE"}, {"replicas", ">REPLICAS"}, {"to", ">TO"},      {"value", ">VALUE"},
    {"target", ">TARGET"},  {"action", "ACTION"},      {"cause", "CAUSE"}, {"reason", "REASON"},
};

int autoscale_print(const struct autoscale_row *rows, size_t count, enum output_format format,
                    struct mst_error *err)
{
    mst_cleanup(output_release) struct output output = {0};
    int r = output_init(&output, format, columns, MST_ARRAY_COUNT(columns), err);

    for (size_t i = 0; r >= 0 && i < count; i++) {
        const struct autoscale_decision *decision = &rows[i].decision;
        output_text(&output, "%s", rows[i].subject->name);
        output_number(&output, decision->from, 0);
        output_number(&output, decision->to, 0);
        if (decision->has_value)
            output_number(&output, decision->value, 1);
        else
            output_nothing(&output);
        if (rows[i].subject->code >= 0)
            output_number(&output, rows[i].subject->policy.target, 1);
        else
            output_nothing(&output);
        output_text(&output, "%s", autoscale_action_text(decision->action));
        output_text(&output, "%s", autoscale_cause_text(decision->cause));
        output_text(&output, "%s", decision->reason);
    }
    return r < 0 ? r : output_print(&output, err);
}
