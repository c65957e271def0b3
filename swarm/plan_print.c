/* SPDX-License-Identifier: Apache-2.0 */
#include "muster/cleanup.h"
#include "plan.h"

#include <string.h>

int plan_print(const struct plan *plan, enum output_format format, struct mst_error *err)
{
    static const struct output_column columns[] = {
        {"action", "ACTION"}, {"kind", "KIND"}, {"name", "NAME"}, {"change", "CHANGE"}};
    mst_cleanup(output_release) struct output output;
    int r = output_init(&output, format, columns, MST_ARRAY_COUNT(columns), err);

    for (size_t i = 0; i < plan->count && r >= 0; i++) {
        const struct plan_step *step = &plan->steps[i];
        const char *change = step->changes ? step->changes : "";
        do { /* a row for each field that changes */
            const size_t bytes = strcspn(change, "\n");
            output_text(&output, "%s", plan_action_text(step->action));
            output_text(&output, "%s", engine_kind_text(step->kind));
            output_text(&output, "%s", step->name);
            output_text(&output, "%.*s", (int)bytes, change);
            change += bytes + (change[bytes] == '\n');
        } while (*change != '\0');
    }
    return r < 0 ? r : output_print(&output, err);
}
