/* SPDX-License-Identifier: Apache-2.0 */
#include "role.h"

#include "muster/cleanup.h"
#include "muster/json.h"
#include "stack.h"

#include <string.h>

static bool has_word(const cJSON *list, int index, const char *word)
{
    const cJSON *item = cJSON_GetArrayItem(list, index);

    return cJSON_IsString(item) && strcmp(item->valuestring, word) == 0;
}

enum service_role service_role(const cJSON *spec)
{
    static const struct {
        const char *label, *program, *verb;
        enum service_role role;
    } roles[] = {{"worker", "muster-agent", "train", ROLE_WORKER},
                 {"worker", "muster-agent", "exec", ROLE_WORKER},
                 {"collector", "muster-agent", "collect", ROLE_COLLECTOR},
                 {"monitor", "muster-monitor", "emit", ROLE_MONITOR}};
    const char *label = mst_json_string_or(mst_json_at(spec, "Labels", NULL), ROLE_LABEL, NULL);
    const cJSON *container = mst_json_at(spec, "TaskTemplate", "ContainerSpec", NULL);
    const cJSON *command = mst_json_at(container, "Command", NULL),
                *arguments = mst_json_at(container, "Args", NULL);

    for (size_t i = 0; i < MST_ARRAY_COUNT(roles); i++) {
        const bool is_meant =
            label ? strcmp(label, roles[i].label) == 0
                  : (has_word(command, 0, roles[i].program) &&
                     (has_word(command, 1, roles[i].verb) || has_word(arguments, 0, roles[i].verb))) ||
                        (!command && has_word(arguments, 0, roles[i].program) &&
                         has_word(arguments, 1, roles[i].verb));
        if (is_meant)
            return roles[i].role;
    }
    return ROLE_OTHER;
}
