/* SPDX-License-Identifier: Apache-2.0 */
#include "values.h"

#include "muster/cleanup.h"
#include "muster/net.h"
#include "muster/parse.h"
#include "stack.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define WORKERS_MAX 1024

int values_parse_workers(const char *text, uint32_t *ret_min, uint32_t *ret_max, struct mst_error *err)
{
    const char *colon = strchr(text, ':');
    char first[16];
    uint32_t min, max;
    int r;

    if (!colon) {
        r = mst_parse_u32(text, 1, WORKERS_MAX, &min, err);
        max = min;
    } else if (colon - text >= (ptrdiff_t)sizeof first) {
        r = -EINVAL;
    } else {
        (void)snprintf(first, sizeof first, "%.*s", (int)(colon - text), text);
        r = mst_parse_u32(first, 1, WORKERS_MAX, &min, err);
        if (r >= 0)
            r = mst_parse_u32(colon + 1, min, WORKERS_MAX, &max, err);
    }
    if (r < 0 && colon)
        return mst_error_set(err, -EINVAL, "'%.64s' is not MIN:MAX, two numbers from 1 to %d", text,
                             WORKERS_MAX);
    if (r < 0)
        return r;
    *ret_min = min;
    *ret_max = max;
    return 0;
}

enum value_kind {
    VALUE_WORKERS, /* N or MIN:MAX */
    VALUE_COUNT,   /* whole, 1 or more */
    VALUE_WHOLE,   /* whole, 0 or more */
    VALUE_NUMBER,  /* not negative */
    VALUE_BOOL,
    VALUE_DURATION,
    VALUE_SUBNET,
    VALUE_EXCHANGE,
    VALUE_WIRE,
    VALUE_LOG_FORMAT,
};

/* Kinds only: what a number may be at most is the program's to say. */
static const struct {
    const char *name;
    enum value_kind kind;
} known[] = {
    {"MUSTER_WORKERS", VALUE_WORKERS}, {"MUSTER_EPOCHS", VALUE_COUNT},
    {"MUSTER_STEPS", VALUE_COUNT},     {"MUSTER_BATCH", VALUE_COUNT},
    {"MUSTER_PORT", VALUE_COUNT},      {"MUSTER_CHECKPOINT_STEPS", VALUE_WHOLE},
    {"MUSTER_THREADS", VALUE_WHOLE},   {"MUSTER_SEED", VALUE_WHOLE},
    {"MUSTER_LR", VALUE_NUMBER},       {"MUSTER_MOMENTUM", VALUE_NUMBER},
    {"MUSTER_WAIT", VALUE_DURATION},   {"MUSTER_INTERVAL", VALUE_DURATION},
    {"MUSTER_SUBNET", VALUE_SUBNET},   {"MUSTER_EXCHANGE", VALUE_EXCHANGE},
    {"MUSTER_WIRE", VALUE_WIRE},       {"MUSTER_LOG_FORMAT", VALUE_LOG_FORMAT},
    {"MUSTER_COLLECT", VALUE_BOOL},    {"MUSTER_STEP_LOG", VALUE_BOOL},
    {"MUSTER_VERBOSE", VALUE_BOOL},    {"MUSTER_INSECURE", VALUE_BOOL},
    {"MUSTER_STANDALONE", VALUE_BOOL}, {"MUSTER_ALLOW_MINORITY", VALUE_BOOL},
};

/* `all` names the words in a message. */
static int check_word(const char *value, const char *const *words, size_t count, const char *all,
                      struct mst_error *err)
{
    for (size_t i = 0; i < count; i++) {
        if (strcmp(value, words[i]) == 0)
            return 0;
    }
    return mst_error_set(err, -EINVAL, "'%.64s' is none of %s", value, all);
}

static int check_kind(enum value_kind kind, const char *value, struct mst_error *err)
{
    static const char *const exchanges[] = {"auto", "direct", "ring", "factors", "sharded"};
    static const char *const wires[] = {"f32", "bf16"}, *const formats[] = {"text", "json"};
    struct mst_cidr cidr;
    uint32_t min, max;
    uint64_t whole;
    double number;
    bool flag;

    switch (kind) {
    case VALUE_WORKERS:
        return values_parse_workers(value, &min, &max, err);
    case VALUE_COUNT:
        return mst_parse_u64(value, 1, UINT64_MAX, &whole, err);
    case VALUE_WHOLE:
        return mst_parse_u64(value, 0, UINT64_MAX, &whole, err);
    case VALUE_NUMBER:
        return mst_parse_double(value, 0, 1e300, &number, err);
    case VALUE_BOOL:
        return mst_parse_bool(value, &flag, err);
    case VALUE_DURATION:
        return mst_parse_duration_ns(value, &whole, err);
    case VALUE_SUBNET:
        return mst_parse_cidr(value, &cidr, err);
    case VALUE_EXCHANGE:
        return check_word(value, exchanges, MST_ARRAY_COUNT(exchanges),
                          "auto, direct, ring, factors and sharded", err);
    case VALUE_WIRE:
        return check_word(value, wires, MST_ARRAY_COUNT(wires), "f32 and bf16", err);
    case VALUE_LOG_FORMAT:
        return check_word(value, formats, MST_ARRAY_COUNT(formats), "text and json", err);
    }
    return 0;
}

int values_check(const char *name, const char *value, struct mst_error *err)
{
    if (value[0] == '\0' || strstr(value, "{{"))
        return 0;
    for (size_t i = 0; i < MST_ARRAY_COUNT(known); i++) {
        if (strcmp(name, known[i].name) == 0)
            return check_kind(known[i].kind, value, err);
    }
    return 0;
}

static bool is_ours(const struct compose_service *service)
{
    const struct compose_strings *words =
        service->entrypoint.count > 0 ? &service->entrypoint : &service->command;
    const char *program = words->count > 0 ? words->items[0] : "";
    const char *slash = strrchr(program, '/');

    program = slash ? slash + 1 : program;
    return strcmp(program, "muster-agent") == 0 || strcmp(program, "muster-monitor") == 0 ||
           compose_pairs_find(&service->deploy.labels, ROLE_LABEL);
}

int values_check_project(const struct compose_project *project, struct mst_error *err)
{
    for (size_t s = 0; s < project->service_count; s++) {
        const struct compose_service *service = &project->services[s];
        for (size_t i = 0; i < service->environment.count && is_ours(service); i++) {
            const char *text = service->environment.items[i], *equal = strchr(text, '=');
            struct mst_error why = MST_ERROR_INIT;
            char name[64];
            if (!equal)
                continue;
            (void)snprintf(name, sizeof name, "%.*s", (int)(equal - text), text);
            if (values_check(name, equal + 1, &why) < 0)
                return mst_error_set(err, -EBADMSG,
                                     "%s:%" PRIu32 ":%" PRIu32 ": services.%s.environment.%s: %s",
                                     service->place.file ? service->place.file : "", service->place.line,
                                     service->place.column, service->key, name, why.text);
        }
    }
    return 0;
}
