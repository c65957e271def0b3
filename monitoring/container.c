/* SPDX-License-Identifier: Apache-2.0 */
#include "container.h"

#include "labels.h"
#include "muster/json.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#define PID_MAX_LIMIT (1U << 22) /* the kernel's own, on 64 bits */

bool container_id_is_valid(const char *id)
{
    return strlen(id) == MONITOR_ID_BYTES - 1 && strspn(id, "0123456789abcdef") == MONITOR_ID_BYTES - 1;
}

/* Labels and names are anybody's text: what is too long is cut, but never in the middle of a UTF-8 character.
 */
static void copy_cut(char *ret_text, size_t capacity, const char *text)
{
    size_t bytes = strlen(text);
    if (bytes >= capacity) {
        bytes = capacity - 1;
        while (bytes > 0 && ((unsigned char)text[bytes] & 0xC0) == 0x80)
            bytes--;
    }
    memcpy(ret_text, text, bytes);
    ret_text[bytes] = '\0';
}

/* "web_api.2.k3jx..." without the task's id is the slot. */
static void copy_slot(char *ret_text, size_t capacity, const char *task_name)
{
    copy_cut(ret_text, capacity, task_name);
    char *dot = strrchr(ret_text, '.');
    if (dot && strchr(ret_text, '.') != dot)
        *dot = '\0';
}

static enum monitor_network network_of(const cJSON *inspect)
{
    const char *mode = mst_json_string_or(mst_json_at(inspect, "HostConfig", NULL), "NetworkMode", "");
    if (strcmp(mode, "host") == 0)
        return MONITOR_NETWORK_HOST;
    return strncmp(mode, "container:", 10) == 0 ? MONITOR_NETWORK_SHARED : MONITOR_NETWORK_OWN;
}

double container_time_s(const char *rfc3339)
{
    struct tm parts = {0};
    const char *rest = strptime(rfc3339, "%Y-%m-%dT%H:%M:%S", &parts);
    double fraction = 0, unit = 0.1;
    if (!rest || parts.tm_year < 70)
        return 0;
    if (*rest == '.') {
        for (rest++; *rest >= '0' && *rest <= '9'; rest++, unit /= 10)
            fraction += unit * (*rest - '0');
    }
    time_t seconds = timegm(&parts);
    unsigned hours, minutes;
    char sign;
    if (sscanf(rest, "%c%2u:%2u", &sign, &hours, &minutes) == 3 && (sign == '+' || sign == '-'))
        seconds += (sign == '+' ? -1 : 1) * (time_t)(hours * 3600 + minutes * 60);
    return (double)seconds + fraction;
}

static int health_of(const cJSON *state)
{
    const char *status = mst_json_string_or(mst_json_at(state, "Health", NULL), "Status", "none");
    if (strcmp(status, "none") == 0)
        return MONITOR_HEALTH_NONE;
    return strcmp(status, "healthy") == 0 ? MONITOR_HEALTH_GOOD : MONITOR_HEALTH_BAD;
}

/* A worker says so by how it was started: "muster-agent train ...". */
static bool is_agent(const cJSON *inspect)
{
    const char *path = mst_json_string_or(inspect, "Path", ""), *slash = strrchr(path, '/');
    const char *verb = cJSON_GetStringValue(cJSON_GetArrayItem(mst_json_at(inspect, "Args", NULL), 0));
    return strcmp(slash ? slash + 1 : path, "muster-agent") == 0 && verb &&
           (strcmp(verb, "train") == 0 || strcmp(verb, "exec") == 0);
}

static bool has_events(const cJSON *labels)
{
    return strcmp(mst_json_string_or(labels, "muster.events", ""), "true") == 0;
}

int container_from_inspect(const cJSON *inspect, const struct monitor_labels *rules,
                           struct monitor_container *ret_container, struct mst_error *err)
{
    const char *id, *name, *started_at;
    uint64_t pid;
    const cJSON *state = mst_json_at(inspect, "State", NULL);
    int r = mst_json_get_string(inspect, "Id", "container", &id, err);
    if (r == 0 && !container_id_is_valid(id))
        r = mst_error_set(err, -EBADMSG, "container: '%.80s' is not an id", id);
    if (r == 0)
        r = mst_json_get_string(inspect, "Name", "container", &name, err);
    if (r == 0)
        r = mst_json_get_string(state, "StartedAt", "container.State", &started_at, err);
    if (r == 0)
        r = mst_json_get_u64(state, "Pid", 0, PID_MAX_LIMIT, "container.State", &pid, err);
    if (r < 0)
        return r;

    const cJSON *config = mst_json_at(inspect, "Config", NULL), *labels = mst_json_at(config, "Labels", NULL);
    struct monitor_container container = {.network = network_of(inspect)};
    copy_cut(container.id, sizeof container.id, id);
    copy_cut(container.name, sizeof container.name, *name == '/' ? name + 1 : name);
    copy_cut(container.image, sizeof container.image, mst_json_string_or(config, "Image", ""));
    copy_cut(container.stack, sizeof container.stack,
             mst_json_string_or(labels, "com.docker.stack.namespace", ""));
    copy_cut(container.service, sizeof container.service,
             mst_json_string_or(labels, "com.docker.swarm.service.name", ""));
    copy_slot(container.slot, sizeof container.slot,
              mst_json_string_or(labels, "com.docker.swarm.task.name", ""));
    copy_cut(container.started_at, sizeof container.started_at, started_at);
    container.started_s = container_time_s(started_at);
    container.created_s = container_time_s(mst_json_string_or(inspect, "Created", ""));
    container.health = health_of(state);
    container.is_agent = is_agent(inspect);
    container.has_events = has_events(labels);
    labels_of_container(config, rules, container.labels);
    container.pid = mst_json_bool_or(state, "Running", false) ? (pid_t)pid : 0;
    *ret_container = container;
    return 0;
}
