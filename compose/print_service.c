/* SPDX-License-Identifier: Apache-2.0 */
/* A project as YAML again, in the order of keys that `docker stack config` has, so that the two can be
 * compared. */
#include "muster/cleanup.h"
#include "print.h"
#include "scalar.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PRINT_DURATION_BYTES 40

/* Go's form: "1h0m0s", "1m30s", "1.5s", "250ms", "0s". */
static const char *duration_text(uint64_t ns, char text[static PRINT_DURATION_BYTES])
{
    static const struct {
        const char *name;
        uint64_t ns;
        int digits; /* behind the point */
    } small[] = {{"ns", 1, 0}, {"\u00b5s", 1000, 3}, {"ms", 1000000, 6}, {"s", 1000000000, 9}};
    const uint64_t second = 1000000000, minute = 60 * second, hour = 60 * minute;
    if (ns == 0)
        return "0s";
    size_t unit = 3; /* below a second, the largest unit that leaves a whole part */
    if (ns < second)
        for (unit = 0; unit < 2 && ns >= small[unit + 1].ns; unit++)
            ;
    size_t used = 0;
    if (ns >= minute) {
        int length = ns >= hour ? snprintf(text, PRINT_DURATION_BYTES, "%" PRIu64 "h%" PRIu64 "m", ns / hour,
                                           ns % hour / minute)
                                : snprintf(text, PRINT_DURATION_BYTES, "%" PRIu64 "m", ns / minute);
        used = (size_t)length;
        ns %= minute;
    }
    int length = snprintf(text + used, PRINT_DURATION_BYTES - used, "%" PRIu64, ns / small[unit].ns);
    used += (size_t)length;
    uint64_t rest = ns % small[unit].ns;
    if (rest > 0) {
        length = snprintf(text + used, PRINT_DURATION_BYTES - used, ".%0*" PRIu64, small[unit].digits, rest);
        used += (size_t)length;
        while (text[used - 1] == '0')
            used--;
    }
    (void)snprintf(text + used, PRINT_DURATION_BYTES - used, "%s", small[unit].name);
    return text;
}

static void print_duration(struct yaml_out *out, const char *key, uint64_t ns)
{
    char text[PRINT_DURATION_BYTES];
    if (ns > 0)
        yaml_out_text(out, key, duration_text(ns, text));
}

static void print_maybe_duration(struct yaml_out *out, const char *key, const struct compose_maybe_u64 *ns)
{
    char text[PRINT_DURATION_BYTES];
    if (ns->is_set)
        yaml_out_text(out, key, duration_text(ns->value, text));
}

static void print_maybe_u64(struct yaml_out *out, const char *key, const struct compose_maybe_u64 *value)
{
    if (value->is_set)
        yaml_out_raw(out, key, "%" PRIu64, value->value);
}

void print_flag(struct yaml_out *out, const char *key, bool is_set)
{
    if (is_set)
        yaml_out_raw(out, key, "true");
}

static void print_strings(struct yaml_out *out, const char *key, const struct compose_strings *list)
{
    if (list->count == 0)
        return;
    size_t mark = yaml_out_open_list(out, key);
    for (size_t i = 0; i < list->count; i++)
        yaml_out_item_text(out, list->items[i]);
    yaml_out_close_list(out, mark);
}

void print_pairs(struct yaml_out *out, const char *key, const struct compose_pairs *pairs)
{
    if (pairs->count == 0)
        return;
    size_t mark = yaml_out_open(out, key);
    for (size_t i = 0; i < pairs->count; i++)
        yaml_out_text(out, pairs->items[i].key, pairs->items[i].value);
    yaml_out_close(out, mark);
}

/* "K=V" back to a mapping. */
static void print_environment(struct yaml_out *out, const struct compose_strings *environment)
{
    if (environment->count == 0)
        return;
    size_t mark = yaml_out_open(out, "environment");
    for (size_t i = 0; i < environment->count; i++) {
        const char *text = environment->items[i], *equals = strchr(text, '=');
        mst_cleanup(mst_freep) char *name = strndup(text, equals ? (size_t)(equals - text) : strlen(text));
        if (!name)
            out->result = -ENOMEM;
        else if (equals)
            yaml_out_text(out, name, equals + 1);
        else
            yaml_out_raw(out, name, "null");
    }
    yaml_out_close(out, mark);
}

/* --- deploy --- */

static void print_update(struct yaml_out *out, const char *key, const struct compose_update *update)
{
    char ratio[SCALAR_TEXT_BYTES];
    if (!update->is_set)
        return;
    size_t mark = yaml_out_open(out, key);
    print_maybe_u64(out, "parallelism", &update->parallelism);
    print_duration(out, "delay", update->delay_ns);
    yaml_out_text(out, "failure_action", update->failure_action);
    print_duration(out, "monitor", update->monitor_ns);
    scalar_print(&(struct scalar){.kind = SCALAR_FLOAT, .real = update->max_failure_ratio}, ratio);
    if (update->max_failure_ratio > 0)
        yaml_out_raw(out, "max_failure_ratio", "%s", ratio);
    yaml_out_text(out, "order", update->order);
    yaml_out_close(out, mark);
}

static void print_limits(struct yaml_out *out, const char *key, const struct compose_limits *limits)
{
    char text[32];
    if (!limits->is_set)
        return;
    size_t mark = yaml_out_open(out, key);
    if (limits->nano_cpus > 0) {
        int length = snprintf(text, sizeof text, "%" PRId64 ".%09" PRId64, limits->nano_cpus / 1000000000,
                              limits->nano_cpus % 1000000000);
        while (text[length - 1] == '0' && text[length - 2] != '.')
            text[--length] = '\0';
        yaml_out_text(out, "cpus", text);
    }
    if (limits->memory_bytes > 0) {
        (void)snprintf(text, sizeof text, "%" PRId64, limits->memory_bytes);
        yaml_out_text(out, "memory", text);
    }
    if (limits->pids != 0)
        yaml_out_raw(out, "pids", "%" PRId64, limits->pids);
    if (limits->generic_count > 0) {
        size_t list = yaml_out_open_list(out, "generic_resources");
        for (size_t i = 0; i < limits->generic_count; i++) {
            yaml_out_item(out);
            size_t spec = yaml_out_open(out, "discrete_resource_spec");
            yaml_out_text(out, "kind", limits->generic[i].kind);
            yaml_out_raw(out, "value", "%" PRId64, limits->generic[i].value);
            yaml_out_close(out, spec);
            yaml_out_item_end(out);
        }
        yaml_out_close_list(out, list);
    }
    yaml_out_close(out, mark);
}

static void print_restart_policy(struct yaml_out *out, const struct compose_restart_policy *policy)
{
    if (!policy->is_set)
        return;
    size_t mark = yaml_out_open(out, "restart_policy");
    yaml_out_text(out, "condition", policy->condition);
    print_maybe_duration(out, "delay", &policy->delay_ns);
    print_maybe_u64(out, "max_attempts", &policy->max_attempts);
    print_maybe_duration(out, "window", &policy->window_ns);
    yaml_out_close(out, mark);
}

static void print_placement(struct yaml_out *out, const struct compose_deploy *deploy)
{
    size_t mark = yaml_out_open(out, "placement");
    print_strings(out, "constraints", &deploy->constraints);
    if (deploy->spread.count > 0) {
        size_t list = yaml_out_open_list(out, "preferences");
        for (size_t i = 0; i < deploy->spread.count; i++) {
            yaml_out_item(out);
            yaml_out_text(out, "spread", deploy->spread.items[i]);
            yaml_out_item_end(out);
        }
        yaml_out_close_list(out, list);
    }
    if (deploy->max_replicas_per_node > 0)
        yaml_out_raw(out, "max_replicas_per_node", "%" PRIu64, deploy->max_replicas_per_node);
    yaml_out_close_optional(out, mark);
}

static void print_deploy(struct yaml_out *out, const struct compose_deploy *deploy)
{
    static const char *const modes[] = {[COMPOSE_MODE_REPLICATED] = NULL, /* the default */
                                        [COMPOSE_MODE_GLOBAL] = "global",
                                        [COMPOSE_MODE_REPLICATED_JOB] = "replicated-job",
                                        [COMPOSE_MODE_GLOBAL_JOB] = "global-job"};
    size_t mark = yaml_out_open(out, "deploy");
    yaml_out_text(out, "mode", modes[deploy->mode]);
    print_maybe_u64(out, "replicas", &deploy->replicas);
    print_pairs(out, "labels", &deploy->labels);
    print_update(out, "update_config", &deploy->update_config);
    print_update(out, "rollback_config", &deploy->rollback_config);
    size_t resources = yaml_out_open(out, "resources");
    print_limits(out, "limits", &deploy->limits);
    print_limits(out, "reservations", &deploy->reservations);
    yaml_out_close_optional(out, resources);
    print_restart_policy(out, &deploy->restart_policy);
    print_placement(out, deploy);
    yaml_out_text(out, "endpoint_mode", deploy->endpoint_mode);
    yaml_out_close_optional(out, mark);
}

/* --- the parts of a service --- */

static void print_uses(struct yaml_out *out, const char *key, const struct compose_content_use *uses,
                       size_t count)
{
    if (count == 0)
        return;
    size_t list = yaml_out_open_list(out, key);
    for (size_t i = 0; i < count; i++) {
        yaml_out_item(out);
        yaml_out_text(out, "source", uses[i].source);
        if (strcmp(uses[i].target, uses[i].source) != 0)
            yaml_out_text(out, "target", uses[i].target);
        if (strcmp(uses[i].uid, "0") != 0 || strcmp(uses[i].gid, "0") != 0) {
            yaml_out_text(out, "uid", uses[i].uid);
            yaml_out_text(out, "gid", uses[i].gid);
        }
        if (uses[i].mode != 0444)
            yaml_out_raw(out, "mode", "%" PRIu32, uses[i].mode);
        yaml_out_item_end(out);
    }
    yaml_out_close_list(out, list);
}

static void print_credential_spec(struct yaml_out *out, const struct compose_credential_spec *spec)
{
    if (!spec->is_set)
        return;
    size_t mark = yaml_out_open(out, "credential_spec");
    yaml_out_text(out, "config", spec->config);
    yaml_out_text(out, "file", spec->file);
    yaml_out_text(out, "registry", spec->registry);
    yaml_out_close(out, mark);
}

static void print_extra_hosts(struct yaml_out *out, const struct compose_service *service)
{
    if (service->extra_host_count == 0)
        return;
    size_t list = yaml_out_open_list(out, "extra_hosts");
    for (size_t i = 0; i < service->extra_host_count; i++) {
        const struct compose_pair *host = &service->extra_hosts[i];
        mst_cleanup(mst_freep) char *text = NULL;
        if (asprintf(&text, "%s:%s", host->key, host->value) < 0) {
            text = NULL;
            out->result = -ENOMEM;
            break;
        }
        yaml_out_item_text(out, text);
    }
    yaml_out_close_list(out, list);
}

static void print_healthcheck(struct yaml_out *out, const struct compose_healthcheck *check)
{
    if (!check->is_set)
        return;
    size_t mark = yaml_out_open(out, "healthcheck");
    if (!check->disable)
        print_strings(out, "test", &check->test);
    print_duration(out, "timeout", check->timeout_ns);
    print_duration(out, "interval", check->interval_ns);
    if (check->retries > 0)
        yaml_out_raw(out, "retries", "%" PRIu64, check->retries);
    print_duration(out, "start_period", check->start_period_ns);
    print_duration(out, "start_interval", check->start_interval_ns);
    print_flag(out, "disable", check->disable);
    yaml_out_close(out, mark);
}

static void print_logging(struct yaml_out *out, const struct compose_logging *logging)
{
    if (!logging->is_set)
        return;
    size_t mark = yaml_out_open(out, "logging");
    yaml_out_text(out, "driver", logging->driver);
    print_pairs(out, "options", &logging->options);
    yaml_out_close(out, mark);
}

/* A service that is on `default` only, without aliases, says nothing of networks. */
static void print_attachments(struct yaml_out *out, const struct compose_service *service)
{
    const struct compose_attachment *first = service->networks;
    if (service->network_count == 0 || (service->network_count == 1 && first->network->is_default &&
                                        !first->aliases.count && !first->driver_opts.count))
        return;
    size_t mark = yaml_out_open(out, "networks");
    for (size_t i = 0; i < service->network_count; i++) {
        const struct compose_attachment *attachment = &service->networks[i];
        if (attachment->aliases.count == 0 && attachment->driver_opts.count == 0) {
            yaml_out_raw(out, attachment->network_key, "null");
            continue;
        }
        size_t network = yaml_out_open(out, attachment->network_key);
        print_strings(out, "aliases", &attachment->aliases);
        print_pairs(out, "driver_opts", &attachment->driver_opts);
        yaml_out_close(out, network);
    }
    yaml_out_close(out, mark);
}

static void print_ports(struct yaml_out *out, const struct compose_service *service)
{
    if (service->port_count == 0)
        return;
    size_t list = yaml_out_open_list(out, "ports");
    for (size_t i = 0; i < service->port_count; i++) {
        const struct compose_port *port = &service->ports[i];
        yaml_out_item(out);
        yaml_out_text(out, "mode", port->mode);
        yaml_out_raw(out, "target", "%" PRIu32, port->target);
        if (port->published)
            yaml_out_raw(out, "published", "%" PRIu32, port->published);
        yaml_out_text(out, "protocol", port->protocol);
        yaml_out_item_end(out);
    }
    yaml_out_close_list(out, list);
}

static void print_ulimits(struct yaml_out *out, const struct compose_service *service)
{
    size_t mark = yaml_out_open(out, "ulimits");
    for (size_t i = 0; i < service->ulimit_count; i++) {
        const struct compose_ulimit *ulimit = &service->ulimits[i];
        if (ulimit->soft == ulimit->hard) {
            yaml_out_raw(out, ulimit->name, "%" PRId64, ulimit->soft);
            continue;
        }
        size_t pair = yaml_out_open(out, ulimit->name);
        yaml_out_raw(out, "soft", "%" PRId64, ulimit->soft);
        yaml_out_raw(out, "hard", "%" PRId64, ulimit->hard);
        yaml_out_close(out, pair);
    }
    yaml_out_close_optional(out, mark);
}

static void print_mount(struct yaml_out *out, const struct compose_mount *mount)
{
    static const char *const types[] = {[COMPOSE_MOUNT_VOLUME] = "volume",   [COMPOSE_MOUNT_BIND] = "bind",
                                        [COMPOSE_MOUNT_TMPFS] = "tmpfs",     [COMPOSE_MOUNT_NPIPE] = "npipe",
                                        [COMPOSE_MOUNT_CLUSTER] = "cluster", [COMPOSE_MOUNT_IMAGE] = "image"};
    yaml_out_text(out, "type", types[mount->type]);
    yaml_out_text(out, "source", mount->source);
    yaml_out_text(out, "target", mount->target);
    print_flag(out, "read_only", mount->read_only);
    yaml_out_text(out, "consistency", mount->consistency);
    if (mount->has_bind) {
        size_t mark = yaml_out_open(out, "bind");
        yaml_out_text(out, "propagation", mount->bind_propagation);
        yaml_out_close(out, mark);
    }
    if (mount->has_volume) {
        size_t mark = yaml_out_open(out, "volume");
        print_flag(out, "nocopy", mount->volume_nocopy);
        yaml_out_text(out, "subpath", mount->volume_subpath);
        yaml_out_close(out, mark);
    }
    if (mount->has_image) {
        size_t mark = yaml_out_open(out, "image");
        yaml_out_text(out, "subpath", mount->image_subpath);
        yaml_out_close(out, mark);
    }
    if (mount->has_tmpfs) {
        size_t mark = yaml_out_open(out, "tmpfs");
        if (mount->tmpfs_size_bytes > 0)
            yaml_out_raw(out, "size", "%" PRIu64, mount->tmpfs_size_bytes);
        yaml_out_close(out, mark);
    }
}

static void print_mounts(struct yaml_out *out, const struct compose_service *service)
{
    if (service->mount_count == 0)
        return;
    size_t list = yaml_out_open_list(out, "volumes");
    for (size_t i = 0; i < service->mount_count; i++) {
        yaml_out_item(out);
        print_mount(out, &service->mounts[i]);
        yaml_out_item_end(out);
    }
    yaml_out_close_list(out, list);
}

/* The plain ones as docker takes them too. */
static void print_depends_on(struct yaml_out *out, const struct compose_service *service)
{
    static const char *const conditions[] = {[COMPOSE_STARTED] = "service_started",
                                             [COMPOSE_HEALTHY] = "service_healthy",
                                             [COMPOSE_COMPLETED] = "service_completed_successfully"};
    const struct compose_dependency *depends_on = service->depends_on;
    bool is_plain = true;
    for (size_t i = 0; i < service->depends_on_count; i++)
        is_plain = is_plain && depends_on[i].condition == COMPOSE_STARTED && !depends_on[i].is_optional;
    if (service->depends_on_count == 0)
        return;
    const size_t mark = is_plain ? yaml_out_open_list(out, "depends_on") : yaml_out_open(out, "depends_on");
    for (size_t i = 0; i < service->depends_on_count; i++) {
        if (is_plain) {
            yaml_out_item_text(out, depends_on[i].key);
            continue;
        }
        const size_t item = yaml_out_open(out, depends_on[i].key);
        yaml_out_text(out, "condition", conditions[depends_on[i].condition]);
        if (depends_on[i].is_optional)
            yaml_out_raw(out, "required", "false");
        yaml_out_close(out, item);
    }
    if (is_plain)
        yaml_out_close_list(out, mark);
    else
        yaml_out_close(out, mark);
}

void print_service(struct yaml_out *out, const struct compose_service *service)
{
    print_strings(out, "cap_add", &service->cap_add);
    print_strings(out, "cap_drop", &service->cap_drop);
    print_strings(out, "command", &service->command);
    print_uses(out, "configs", service->configs, service->config_count);
    print_credential_spec(out, &service->credential_spec);
    print_depends_on(out, service);
    print_deploy(out, &service->deploy);
    print_strings(out, "dns", &service->dns);
    print_strings(out, "dns_search", &service->dns_search);
    print_strings(out, "entrypoint", &service->entrypoint);
    print_environment(out, &service->environment);
    print_extra_hosts(out, service);
    yaml_out_text(out, "hostname", service->hostname);
    print_healthcheck(out, &service->healthcheck);
    yaml_out_text(out, "image", service->image);
    if (service->init.is_set)
        yaml_out_raw(out, "init", "%s", service->init.value ? "true" : "false");
    yaml_out_text(out, "isolation", service->isolation);
    print_pairs(out, "labels", &service->labels);
    print_logging(out, &service->logging);
    print_attachments(out, service);
    if (service->oom_score_adj.is_set)
        yaml_out_raw(out, "oom_score_adj", "%" PRId64, service->oom_score_adj.value);
    print_ports(out, service);
    print_flag(out, "read_only", service->read_only);
    print_uses(out, "secrets", service->secrets, service->secret_count);
    print_flag(out, "stdin_open", service->stdin_open);
    print_maybe_duration(out, "stop_grace_period", &service->stop_grace_period_ns);
    yaml_out_text(out, "stop_signal", service->stop_signal);
    print_pairs(out, "sysctls", &service->sysctls);
    print_flag(out, "tty", service->tty);
    print_ulimits(out, service);
    yaml_out_text(out, "user", service->user);
    print_mounts(out, service);
    yaml_out_text(out, "working_dir", service->working_dir);
}
