/* SPDX-License-Identifier: Apache-2.0 */
/* One event of the agent, from its name to its line on stdout:
 *
 *     struct report report = report_begin(sink, "sweep");
 *     report_number(&report, "ms", result->ms);
 *     report_send(&report);
 *
 * An event that cannot be made or written (no memory, nobody reads stdout) never stops the work:
 * report_send() says so in the log, once. */
#ifndef AGENT_REPORT_H
#define AGENT_REPORT_H

#include "muster/event.h"

#include <stdbool.h>

struct report {
    struct mst_event_sink *sink; /* borrowed */
    cJSON *event;                /* owned until sent */
    bool incomplete;
};

struct report report_begin(struct mst_event_sink *sink, const char *name);
void report_text(struct report *report, const char *key, const char *text);
/* Whole numbers as they are, others to six decimals: what a clock or a float can tell. */
void report_number(struct report *report, const char *key, double value);
void report_bool(struct report *report, const char *key, bool value);
/* An array to which the next calls append; texts, or objects of two texts. */
cJSON *report_array(struct report *report, const char *key);
void report_append_text(struct report *report, cJSON *array, const char *text);
void report_append_pair(struct report *report, cJSON *array, const char *key, const char *text,
                        const char *other_key, const char *other_text);
/* An object in the event, or one more in an array of it, and what is in the object. */
cJSON *report_object(struct report *report, const char *key);
cJSON *report_append_object(struct report *report, cJSON *array);
void report_put_text(struct report *report, cJSON *object, const char *key, const char *text);
void report_put_number(struct report *report, cJSON *object, const char *key, double value);
void report_send(struct report *report);

#endif
