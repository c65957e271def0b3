/* SPDX-License-Identifier: Apache-2.0 */
/* Labels of metrics: text that is anybody's, made safe for Prometheus' text format. */
#ifndef MONITORING_LABELS_H
#define MONITORING_LABELS_H

#include "muster/buf.h"
#include "muster/monitor.h"

#include <cjson/cJSON.h>

/* Append `name="value",`; backslash, quote and line end escaped, and what is not UTF-8 as U+FFFD. Nothing for
 * an empty value, which means the same as no label. */
int labels_append(struct mst_buf *text, const char *name, const char *value);

/* `container_label_...="...",` for each of the inspect reply's labels and variables that the rules let
 * through, in the order of their names. Of two keys that become one name the first that is not empty in the
 * order of raw keys wins. What does not fit is left out, whole. */
void labels_of_container(const cJSON *config, const struct monitor_labels *rules,
                         char ret_text[static MONITOR_LABELS_BYTES]);

#endif
