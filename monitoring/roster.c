/* SPDX-License-Identifier: Apache-2.0 */
#include "roster.h"

#include "container.h"
#include "muster/cleanup.h"
#include "muster/json.h"
#include "source.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

void roster_init(struct roster *roster, const struct monitor_paths *paths)
{
    *roster = (struct roster){
        .paths = *paths,
        .wanted = MONITOR_GROUPS_BASIC,
        .needs_list = true,
        .scratch = MST_BUF_INIT(SOURCE_MAX_BYTES),
    };
}

void roster_release(struct roster *roster)
{
    for (size_t i = 0; i < roster->count; i++)
        target_free(roster->targets[i]);
    free(roster->targets);
    free(roster->wishes);
    mst_buf_release(&roster->scratch);
    oom_release(&roster->oom);
    roster->targets = NULL;
    roster->wishes = NULL;
    roster->count = roster->wish_count = 0;
}

/* `array` with room for one more than `count` items, moved if need be; NULL, and errno, when there is none.
 */
static void *grow(void *array, size_t item_bytes, size_t count, size_t *capacity)
{
    if (count < *capacity)
        return array;
    const size_t wanted = *capacity ? *capacity * 2 : 32;
    if (wanted > ROSTER_MAX) {
        errno = ENOBUFS;
        return NULL;
    }
    void *larger = reallocarray(array, wanted, item_bytes);
    if (larger)
        *capacity = wanted;
    return larger;
}

static size_t position(const struct roster *roster, const char *id)
{
    size_t i = 0;
    while (i < roster->count && strcmp(roster->targets[i]->info.id, id) != 0)
        i++;
    return i;
}

struct target *roster_find(const struct roster *roster, const char *id)
{
    const size_t i = position(roster, id);
    return i < roster->count ? roster->targets[i] : NULL;
}

void roster_forget(struct roster *roster, const char *id)
{
    const size_t i = position(roster, id);
    if (i == roster->count)
        return;
    roster->faults += roster->targets[i]->faults;
    target_free(roster->targets[i]);
    roster->count--;
    memmove(roster->targets + i, roster->targets + i + 1, (roster->count - i) * sizeof *roster->targets);
}

static size_t wish_position(const struct roster *roster, const char *id)
{
    size_t i = 0;
    while (i < roster->wish_count && strcmp(roster->wishes[i].id, id) != 0)
        i++;
    return i;
}

static void withdraw(struct roster *roster, size_t i)
{
    if (i >= roster->wish_count)
        return;
    roster->wish_count--;
    memmove(roster->wishes + i, roster->wishes + i + 1, (roster->wish_count - i) * sizeof *roster->wishes);
}

static void wish(struct roster *roster, const char *id)
{
    if (wish_position(roster, id) < roster->wish_count)
        return;
    void *wishes = grow(roster->wishes, sizeof *roster->wishes, roster->wish_count, &roster->wish_capacity);
    if (!wishes) {
        roster->needs_list = true; /* which will name it again */
        return;
    }
    roster->wishes = wishes;
    struct roster_wish *added = &roster->wishes[roster->wish_count++];
    *added = (struct roster_wish){.ticket = ++roster->last_ticket};
    memcpy(added->id, id, sizeof added->id);
}

bool roster_next_wish(struct roster *roster, struct roster_wish *ret_wish)
{
    for (size_t i = 0; i < roster->wish_count; i++) {
        if (roster->wishes[i].is_asked)
            continue;
        roster->wishes[i].is_asked = true;
        *ret_wish = roster->wishes[i];
        return true;
    }
    return false;
}

/* False when the wish is void. */
static bool answered(struct roster *roster, const struct roster_wish *asked)
{
    const size_t i = wish_position(roster, asked->id);
    if (i == roster->wish_count || roster->wishes[i].ticket != asked->ticket)
        return false;
    withdraw(roster, i);
    return true;
}

void roster_unanswered(struct roster *roster, const struct roster_wish *asked)
{
    (void)answered(roster, asked);
}

int roster_event(struct roster *roster, const char *line, size_t bytes, struct mst_error *err)
{
    mst_cleanup(mst_json_deletep) cJSON *event = NULL;
    int r = mst_json_parse(line, bytes, "event", &event, err);
    if (r < 0)
        return r;
    const char *type, *action, *id;
    r = mst_json_get_string(event, "Type", "event", &type, err);
    if (r == 0)
        r = mst_json_get_string(event, "Action", "event", &action, err);
    if (r == 0 && strcmp(type, "container") != 0)
        return 0;
    if (r == 0)
        r = mst_json_get_string(mst_json_at(event, "Actor", NULL), "ID", "event.Actor", &id, err);
    if (r == 0 && !container_id_is_valid(id))
        r = mst_error_set(err, -EBADMSG, "event.Actor.ID: '%.80s' is not an id", id);
    if (r < 0)
        return r;

    const bool is_new = strcmp(action, "start") == 0 || strcmp(action, "rename") == 0 ||
                        strncmp(action, "health_status", strlen("health_status")) == 0;
    const bool has_ended = strcmp(action, "die") == 0 || strcmp(action, "destroy") == 0;
    if (is_new || has_ended)
        withdraw(roster, wish_position(roster, id));
    if (is_new)
        wish(roster, id);
    if (has_ended)
        roster_forget(roster, id);
    /* Nanoseconds since 1970 are more than a double holds to the last digit, but tell two events apart. */
    const double time_ns = mst_json_double_or(event, "timeNano", 0);
    if (strcmp(action, "oom") == 0 && time_ns > 0 && time_ns < 1e19)
        oom_event(&roster->oom, id, (uint64_t)time_ns);
    else if (strcmp(action, "destroy") == 0)
        oom_forget(&roster->oom, id);
    return 0;
}

static const char *listed_id(const cJSON *item)
{
    const char *id = mst_json_string_or(item, "Id", "");
    return container_id_is_valid(id) ? id : NULL;
}

static bool is_listed(const cJSON *list, const char *id)
{
    for (const cJSON *item = list->child; item; item = item->next) {
        if (strcmp(listed_id(item), id) == 0)
            return true;
    }
    return false;
}

int roster_list(struct roster *roster, const cJSON *list, bool again, struct mst_error *err)
{
    if (!cJSON_IsArray(list))
        return mst_error_set(err, -EBADMSG, "list of containers: not an array");
    for (const cJSON *item = list->child; item; item = item->next) {
        if (!listed_id(item))
            return mst_error_set(err, -EBADMSG, "list of containers: an entry without an id");
    }
    roster->needs_list = false;
    for (size_t i = roster->count; i-- > 0;) {
        if (!is_listed(list, roster->targets[i]->info.id))
            roster_forget(roster, roster->targets[i]->info.id);
    }
    for (const cJSON *item = list->child; item; item = item->next) {
        if (again || !roster_find(roster, listed_id(item)))
            wish(roster, listed_id(item));
    }
    return 0;
}

int roster_inspected(struct roster *roster, const struct roster_wish *asked, const cJSON *inspect,
                     struct mst_error *err)
{
    const char *id = asked->id;
    struct monitor_container info;
    if (!answered(roster, asked))
        return 0;
    int r = container_from_inspect(inspect, &roster->labels, &info, err);
    if (r == 0 && strcmp(info.id, id) != 0)
        r = mst_error_set(err, -EBADMSG, "asked for container %.12s, got %.12s", id, info.id);
    if (r < 0)
        return r;

    struct target *known = roster_find(roster, id);
    if (known && info.pid == known->info.pid && strcmp(info.started_at, known->info.started_at) == 0) {
        memcpy(info.cgroup, known->info.cgroup, sizeof info.cgroup);
        known->info = info; /* renamed, of other health, or told twice */
        return 0;
    }
    roster_forget(roster, id);
    return info.pid == 0 ? 0 /* ended before it was asked about */ : roster_add(roster, &info, NULL, err);
}

int roster_add(struct roster *roster, const struct monitor_container *info, const char *cgroup_text,
               struct mst_error *err)
{
    struct target *target = NULL;
    if (roster_find(roster, info->id))
        return 0;
    void *targets = grow(roster->targets, sizeof *roster->targets, roster->count, &roster->capacity);
    if (!targets)
        return mst_error_errno(err, -errno, "container '%s' beside %zu others", info->name, roster->count);
    roster->targets = targets;
    const int r = roster->is_remote ? target_new_remote(info, &target, err)
                                    : target_open(&roster->paths, info, roster->wanted, cgroup_text,
                                                  &roster->scratch, &target, err);
    if (r < 0)
        return r;
    roster->targets[roster->count++] = target;
    return 0;
}
