/* SPDX-License-Identifier: Apache-2.0 */
#include "report.h"

#include "muster/log.h"

#include <math.h>
#include <string.h>

#define DECIMALS 1e6

struct report report_begin(struct mst_event_sink *sink, const char *name)
{
    return (struct report){.sink = sink, .event = mst_event_new(sink, name)};
}

static void note(struct report *report, const cJSON *added)
{
    if (!added)
        report->incomplete = true;
}

void report_text(struct report *report, const char *key, const char *text)
{
    report_put_text(report, report->event, key, text);
}

void report_number(struct report *report, const char *key, double value)
{
    report_put_number(report, report->event, key, value);
}

void report_bool(struct report *report, const char *key, bool value)
{
    note(report, cJSON_AddBoolToObject(report->event, key, value));
}

cJSON *report_array(struct report *report, const char *key)
{
    cJSON *array = cJSON_AddArrayToObject(report->event, key);
    note(report, array);
    return array;
}

/* Takes `item` over; NULL stands for no memory, as a missing array does. */
static void append(struct report *report, cJSON *array, cJSON *item)
{
    if (item && cJSON_AddItemToArray(array, item))
        return;
    cJSON_Delete(item);
    report->incomplete = true;
}

void report_append_text(struct report *report, cJSON *array, const char *text)
{
    append(report, array, cJSON_CreateString(text));
}

void report_append_pair(struct report *report, cJSON *array, const char *key, const char *text,
                        const char *other_key, const char *other_text)
{
    cJSON *pair = cJSON_CreateObject();
    note(report, cJSON_AddStringToObject(pair, key, text));
    note(report, cJSON_AddStringToObject(pair, other_key, other_text));
    append(report, array, pair);
}

cJSON *report_object(struct report *report, const char *key)
{
    cJSON *object = cJSON_AddObjectToObject(report->event, key);
    note(report, object);
    return object;
}

cJSON *report_append_object(struct report *report, cJSON *array)
{
    cJSON *object = cJSON_CreateObject();
    append(report, array, object);
    return report->incomplete ? NULL : object;
}

void report_put_text(struct report *report, cJSON *object, const char *key, const char *text)
{
    note(report, cJSON_AddStringToObject(object, key, text));
}

void report_put_number(struct report *report, cJSON *object, const char *key, double value)
{
    note(report, cJSON_AddNumberToObject(object, key, round(value * DECIMALS) / DECIMALS));
}

void report_send(struct report *report)
{
    int r = -ENOMEM;
    if (report->incomplete)
        cJSON_Delete(report->event);
    else
        r = mst_event_emit(report->sink, report->event);
    report->event = NULL;
    if (r < 0 && !atomic_exchange(&report->sink->failed, true))
        mst_log_warn("report", "cannot write events to stdout: %s", strerrordesc_np(-r));
}
