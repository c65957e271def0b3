/* SPDX-License-Identifier: Apache-2.0 */
/* Secrets and configs: at the top, and as services use them. */
#include "interpolate.h"
#include "schema.h"
#include "show.h"

#include <string.h>

#define GENERATE_MIN_BYTES 16
#define GENERATE_MAX_BYTES 1024

/* --- at the top --- */

struct content_draft {
    struct compose_content content;
    struct schema_external external;
    const char *text;     /* `content:` */
    const char *variable; /* `environment:` */
};

static int set_file(struct schema_load *load, const struct node *node, void *member,
                    const struct schema_field *f)
{
    (void)f;
    const char *text;
    int r = schema_text(load, node, &text);
    if (r == 0 && !*text)
        r = schema_fail(load, &node->place, "an empty path");
    return r < 0 ? r : schema_path_resolve(load, node, text, member);
}

static int set_generate(struct schema_load *load, const struct node *node, void *member,
                        const struct schema_field *f)
{
    (void)f;
    int64_t bytes;
    int r = schema_i64(load, node, GENERATE_MIN_BYTES, GENERATE_MAX_BYTES, &bytes);
    if (r == 0)
        *(uint32_t *)member = (uint32_t)bytes;
    return r;
}

#define CONTENT_FIELDS                                                                                       \
    SCHEMA_FIELD("file", set_file, offsetof(struct content_draft, content.path)),                            \
        SCHEMA_FIELD("environment", schema_set_text, offsetof(struct content_draft, variable)),              \
        SCHEMA_FIELD("external", schema_set_external, offsetof(struct content_draft, external)),             \
        SCHEMA_FIELD("name", schema_set_text, offsetof(struct content_draft, content.name)),                 \
        SCHEMA_FIELD("labels", schema_set_pairs, offsetof(struct content_draft, content.labels),             \
                     .may_be_null = true),                                                                   \
        SCHEMA_FIELD("template_driver", schema_set_text,                                                     \
                     offsetof(struct content_draft, content.template_driver))

static const struct schema_field secret_fields[] = {
    CONTENT_FIELDS,
    SCHEMA_FIELD("driver", schema_set_text, offsetof(struct content_draft, content.driver)),
    SCHEMA_FIELD("driver_opts", schema_set_pairs, offsetof(struct content_draft, content.driver_opts),
                 .may_be_null = true),
    SCHEMA_FIELD("x-muster-generate", set_generate, offsetof(struct content_draft, content.generate_bytes)),
};

static const struct schema_field config_fields[] = {
    CONTENT_FIELDS,
    SCHEMA_FIELD("content", schema_set_text, offsetof(struct content_draft, text)),
};

/* Which of the two lists at the top, with what differs. */
struct content_kind {
    const struct schema_field *fields;
    size_t field_count;
    size_t list_offset, count_offset; /* in struct compose_project */
    size_t max_bytes;
};

static const struct content_kind secret_kind = {
    secret_fields, MST_ARRAY_COUNT(secret_fields), offsetof(struct compose_project, secrets),
    offsetof(struct compose_project, secret_count), COMPOSE_SECRET_MAX_BYTES};
static const struct content_kind config_kind = {
    config_fields, MST_ARRAY_COUNT(config_fields), offsetof(struct compose_project, configs),
    offsetof(struct compose_project, config_count), COMPOSE_CONFIG_MAX_BYTES};

/* `content:` and `environment:` give the bytes here; files are read when all stack files are. */
static int take_bytes(struct schema_load *load, const struct node_entry *entry, struct content_draft *draft,
                      size_t max_bytes)
{
    const char *text = draft->text;
    if (draft->variable) {
        text = interpolate_lookup(&load->source, draft->variable, strlen(draft->variable));
        if (!text)
            return schema_fail(load, &entry->key_place, "the variable '%.128s' is not set", draft->variable);
    }
    if (!text)
        return 0;
    if (!*text || strlen(text) > max_bytes)
        return schema_fail(load, &entry->key_place, "its content must have 1 to %zu bytes", max_bytes);
    text = compose_arena_text(load->arena, text);
    if (!text)
        return schema_fail_memory(load);
    draft->content.bytes = (const unsigned char *)text;
    draft->content.byte_count = strlen(text);
    return 0;
}

static int settle_content(struct schema_load *load, const struct node_entry *entry,
                          struct content_draft *draft, size_t max_bytes)
{
    struct compose_content *content = &draft->content;
    int r = schema_settle_name(load, &draft->external, entry->key, &content->name, &content->external);
    if (r == 0)
        r = take_bytes(load, entry, draft, max_bytes);
    if (r < 0)
        return r;
    const int sources = !!content->path + !!content->bytes + !!content->driver;
    if (content->external && sources)
        return schema_fail(load, &entry->key_place,
                           "external and file (or another source) can't stand together");
    if (sources > 1)
        return schema_fail(load, &entry->key_place,
                           "more than one source: file, content, environment or driver");
    if (!content->external && !sources && !content->generate_bytes)
        return schema_fail(load, &entry->key_place, "file or external: true is missing");
    if (sources && content->generate_bytes)
        return schema_fail(load, &entry->key_place, "x-muster-generate and a source can't stand together");
    return 0;
}

static int read_content(struct schema_load *load, const struct node_entry *entry, const void *context)
{
    const struct content_kind *kind = context;
    struct compose_content **list = (void *)((char *)load->project + kind->list_offset);
    size_t *count = (void *)((char *)load->project + kind->count_offset);
    struct compose_content *known = NULL;
    for (size_t i = 0; i < *count; i++)
        if (strcmp((*list)[i].key, entry->key) == 0)
            known = &(*list)[i];
    struct content_draft draft = {0};
    if (known)
        draft.content = *known;
    draft.content.key = entry->key;
    draft.content.place = entry->key_place;
    int r = schema_map(load, entry->value, kind->fields, kind->field_count, true, &draft);
    if (r == 0)
        r = settle_content(load, entry, &draft, kind->max_bytes);
    if (r < 0)
        return r;
    if (known) {
        *known = draft.content;
        return 0;
    }
    return schema_append(load, list, count, &draft.content, sizeof draft.content);
}

int schema_set_secrets(struct schema_load *load, const struct node *node, void *member,
                       const struct schema_field *f)
{
    (void)member;
    (void)f;
    return schema_each(load, node, read_content, &secret_kind);
}

int schema_set_configs(struct schema_load *load, const struct node *node, void *member,
                       const struct schema_field *f)
{
    (void)member;
    (void)f;
    return schema_each(load, node, read_content, &config_kind);
}

/* --- in a service --- */

/* 0440 in YAML is octal. A text must say that it is octal by its leading 0; docker would read it as decimal.
 */
static int set_file_mode(struct schema_load *load, const struct node *node, void *member,
                         const struct schema_field *f)
{
    (void)f;
    static const char *const slips[] = {"400", "440", "444", "600", "640", "644", "700", "755"};
    struct scalar scalar = node->scalar;
    if (node->kind == NODE_SCALAR && scalar.kind == SCALAR_TEXT && (*node->text == '0' || node->substituted))
        scalar = scalar_resolve(node->text);
    if (node->kind != NODE_SCALAR || scalar.kind != SCALAR_INT || scalar.negative || scalar.magnitude > 07777)
        return schema_fail_type(load, node, "a file mode such as 0444");
    *(uint32_t *)member = (uint32_t)scalar.magnitude;
    for (size_t i = 0; i < MST_ARRAY_COUNT(slips); i++)
        if (strcmp(slips[i], node->text) == 0)
            return schema_warn(load, &node->place,
                               "'%s' is a decimal number, mode %04o: octal is written 0%s", node->text,
                               (unsigned)scalar.magnitude, node->text);
    return 0;
}

static const struct schema_field use_fields[] = {
    SCHEMA_FIELD("source", schema_set_text, offsetof(struct compose_content_use, source)),
    SCHEMA_FIELD("target", schema_set_text, offsetof(struct compose_content_use, target)),
    SCHEMA_FIELD("uid", schema_set_text, offsetof(struct compose_content_use, uid)),
    SCHEMA_FIELD("gid", schema_set_text, offsetof(struct compose_content_use, gid)),
    SCHEMA_FIELD("mode", set_file_mode, offsetof(struct compose_content_use, mode)),
};

/* Two may not have one target, except that a later file's replaces the earlier's. */
static int add_use(struct schema_load *load, struct compose_content_use **list, size_t *count, size_t earlier,
                   const struct compose_content_use *use)
{
    char shown[SHOW_BYTES];
    for (size_t i = 0; i < *count; i++) {
        if (strcmp((*list)[i].target, use->target) != 0)
            continue;
        if (i >= earlier)
            return schema_fail(load, &use->place, "the target %s is taken already", show(use->target, shown));
        (*list)[i] = *use;
        return 0;
    }
    return schema_append(load, list, count, use, sizeof *use);
}

static int read_uses(struct schema_load *load, const struct node *node, struct compose_content_use **list,
                     size_t *count)
{
    const size_t earlier = *count;
    int r = schema_expect(load, node, NODE_LIST);
    for (size_t i = 0; r == 0 && i < node->count; i++) {
        const struct node *item = node->entries[i].value;
        struct compose_content_use use = {.place = item->place, .uid = "0", .gid = "0", .mode = 0444};
        schema_enter_item(load, i);
        r = item->kind == NODE_MAP
                ? schema_map_open(load, item, use_fields, MST_ARRAY_COUNT(use_fields), &use)
                : schema_text(load, item, &use.source);
        if (r == 0 && (!use.source || !*use.source))
            r = schema_fail(load, &item->place, "source is missing");
        if (r == 0 && (!use.target || !*use.target))
            use.target = use.source;
        if (r == 0)
            r = add_use(load, list, count, earlier, &use);
        schema_leave(load);
    }
    return r;
}

int schema_set_secret_uses(struct schema_load *load, const struct node *node, void *member,
                           const struct schema_field *f)
{
    (void)f;
    struct compose_service *service = member;
    return read_uses(load, node, &service->secrets, &service->secret_count);
}

int schema_set_config_uses(struct schema_load *load, const struct node *node, void *member,
                           const struct schema_field *f)
{
    (void)f;
    struct compose_service *service = member;
    return read_uses(load, node, &service->configs, &service->config_count);
}
