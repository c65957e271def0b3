/* SPDX-License-Identifier: Apache-2.0 */
#include "labels.h"

#include "muster/cleanup.h"
#include "muster/json.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#define LABELS_MAX            128 /* of one container; cAdvisor's users have had thousands of series by them */
#define LABEL_NAME_MAX_BYTES  200
#define LABEL_VALUE_MAX_BYTES 1024 /* longer ones are cut */

/* What dashboards and alerts made for Swarm and Compose ask for. */
static const char *const labels_default[] = {
    "com.docker.compose.config-hash",
    "com.docker.compose.container-number",
    "com.docker.compose.image",
    "com.docker.compose.oneoff",
    "com.docker.compose.project",
    "com.docker.compose.project.config_files",
    "com.docker.compose.project.working_dir",
    "com.docker.compose.service",
    "com.docker.compose.version",
    "com.docker.stack.namespace",
    "com.docker.swarm.node.id",
    "com.docker.swarm.service.id",
    "com.docker.swarm.service.name",
    "com.docker.swarm.task.id",
    "com.docker.swarm.task.name",
    "org.label-schema.group",
    NULL,
};

/* The length of the UTF-8 character at `c`, 0 for what is none (RFC 3629: no surrogates, no long forms). */
static size_t character_bytes(const unsigned char *c)
{
    if (c[0] < 0x80)
        return 1;
    size_t bytes = c[0] >= 0xF0 ? 4 : c[0] >= 0xE0 ? 3 : 2;
    if (c[0] < 0xC2 || c[0] > 0xF4)
        return 0;
    for (size_t i = 1; i < bytes; i++) {
        if ((c[i] & 0xC0) != 0x80) /* the NUL at the end, too */
            return 0;
    }
    const bool is_long = (c[0] == 0xE0 && c[1] < 0xA0) || (c[0] == 0xF0 && c[1] < 0x90);
    const bool is_surrogate = (c[0] == 0xED && c[1] >= 0xA0) || (c[0] == 0xF4 && c[1] >= 0x90);
    return is_long || is_surrogate ? 0 : bytes;
}

static int append_value(struct mst_buf *text, const char *value)
{
    int r = 0;
    const unsigned char *c = (const unsigned char *)value;
    for (size_t left = LABEL_VALUE_MAX_BYTES; *c && r == 0;) {
        const size_t bytes = character_bytes(c), taken = bytes ? bytes : 1;
        if (taken > left)
            break;
        if (*c == '\\' || *c == '"')
            r = mst_buf_printf(text, "\\%c", *c);
        else if (*c == '\n')
            r = mst_buf_append(text, "\\n", 2);
        else if (bytes == 0)
            r = mst_buf_append(text, "\xEF\xBF\xBD", 3);
        else
            r = mst_buf_append(text, c, bytes);
        c += taken;
        left -= taken;
    }
    return r;
}

int labels_append(struct mst_buf *text, const char *name, const char *value)
{
    const size_t before = text->count;
    if (*value == '\0')
        return 0;
    int r = mst_buf_append_text(text, name);
    if (r == 0)
        r = mst_buf_append(text, "=\"", 2);
    if (r == 0)
        r = append_value(text, value);
    if (r == 0)
        r = mst_buf_append(text, "\",", 2);
    if (r < 0 && text->bytes) { /* whole or not at all */
        text->count = before;
        text->bytes[before] = '\0';
    }
    return r;
}

struct label {
    char name[LABEL_NAME_MAX_BYTES];
    const char *key, *value; /* borrowed; `key` as it was written, the order of which decides */
};

static int compare_names(const void *a, const void *b)
{
    const struct label *const *left = a, *const *right = b;
    const int by_name = strcmp((*left)->name, (*right)->name);
    return by_name ? by_name : strcmp((*left)->key, (*right)->key);
}

struct collection {
    struct label labels[LABELS_MAX];
    struct label *order[LABELS_MAX];
    size_t count;
};

static void collect(struct collection *found, const char *prefix, const char *key, size_t key_bytes,
                    const char *value, bool is_lower)
{
    const size_t start = strlen(prefix);
    if (found->count == LABELS_MAX || start + key_bytes >= LABEL_NAME_MAX_BYTES || *value == '\0')
        return;
    struct label *label = &found->labels[found->count];
    memcpy(label->name, prefix, start);
    for (size_t i = 0; i < key_bytes; i++) {
        const unsigned char c = (unsigned char)key[i];
        const bool is_plain = c < 0x80 && (isalnum(c) || c == '_');
        label->name[start + i] = (char)(!is_plain ? '_' : is_lower ? tolower(c) : c);
    }
    label->name[start + key_bytes] = '\0';
    label->key = key;
    label->value = value;
    found->order[found->count++] = label;
}

static bool is_named(const char *const *names, const char *key)
{
    for (; *names; names++) {
        if (strcmp(*names, key) == 0)
            return true;
    }
    return false;
}

static void collect_envs(struct collection *found, const cJSON *envs, const char *const *starts)
{
    const cJSON *env;
    cJSON_ArrayForEach(env, envs)
    {
        const char *text = cJSON_GetStringValue(env);
        const char *equals = text ? strchr(text, '=') : NULL;
        for (const char *const *start = starts; equals && *start; start++) {
            if (**start && strncmp(text, *start, strlen(*start)) == 0) {
                collect(found, "container_env_", text, (size_t)(equals - text), equals + 1, true);
                break;
            }
        }
    }
}

void labels_of_container(const cJSON *config, const struct monitor_labels *rules,
                         char ret_text[static MONITOR_LABELS_BYTES])
{
    static const struct monitor_labels no_rules = {0};
    mst_cleanup(mst_freep) struct collection *found = calloc(1, sizeof *found);
    mst_cleanup(mst_buf_release) struct mst_buf text = MST_BUF_INIT(MONITOR_LABELS_BYTES - 1);
    const cJSON *label;
    *ret_text = '\0';
    rules = rules ? rules : &no_rules;
    const char *const *names = rules->labels ? rules->labels : labels_default;
    if (!found)
        return;
    cJSON_ArrayForEach(label, mst_json_at(config, "Labels", NULL))
    {
        const char *value = cJSON_GetStringValue(label);
        if (value && (rules->all || is_named(names, label->string)))
            collect(found, "container_label_", label->string, strlen(label->string), value, false);
    }
    if (rules->envs)
        collect_envs(found, mst_json_at(config, "Env", NULL), rules->envs);
    qsort(found->order, found->count, sizeof *found->order, compare_names);
    for (size_t i = 0; i < found->count; i++) {
        if (i == 0 || strcmp(found->order[i]->name, found->order[i - 1]->name) != 0)
            (void)labels_append(&text, found->order[i]->name, found->order[i]->value);
    }
    memcpy(ret_text, mst_buf_text(&text), text.count + 1);
}
