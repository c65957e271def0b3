/* SPDX-License-Identifier: Apache-2.0 */
/* services: the table of a service's keys, and what stands at the top of the file beside them. */
#include "schema.h"
#include "show.h"

#include <string.h>

#define SERVICES_MAX 1024U

static int set_restart(struct schema_load *load, const struct node *node, void *member,
                       const struct schema_field *f)
{
    (void)member;
    (void)f;
    struct schema_draft *draft = &load->drafts[load->service_index];
    const char *text;
    char shown[SHOW_BYTES];
    int r = schema_text(load, node, &text);
    if (r < 0)
        return r;
    static const char on_failure[] = "on-failure";
    const bool has_count =
        strncmp(text, on_failure, strlen(on_failure)) == 0 && text[strlen(on_failure)] == ':';
    const char *digits = has_count ? text + sizeof on_failure : "";
    if (strcmp(text, "no") != 0 && strcmp(text, "always") != 0 && strcmp(text, "unless-stopped") != 0 &&
        strcmp(text, on_failure) != 0 &&
        (!has_count || !*digits || strspn(digits, "0123456789") != strlen(digits) || strlen(digits) > 9))
        return schema_fail(load, &node->place, "%s is none of: no, always, unless-stopped, on-failure[:N]",
                           show(text, shown));
    draft->restart = text;
    draft->restart_place = node->place;
    return 0;
}

static int set_scale(struct schema_load *load, const struct node *node, void *member,
                     const struct schema_field *f)
{
    (void)member;
    struct schema_draft *draft = &load->drafts[load->service_index];
    draft->scale_place = node->place;
    return schema_set_maybe_u64(load, node, &draft->scale, f);
}

#define S(name) offsetof(struct compose_service, name)
#define IGNORED(k, text)                                                                                     \
    {                                                                                                        \
        k, schema_set_ignored, 0, .advice = text                                                             \
    }
#define REFUSED(k, text)                                                                                     \
    {                                                                                                        \
        k, schema_set_refused, 0, .advice = text                                                             \
    }

#define NOT_IN_SWARM  "swarm does not do it"
#define USE_RESOURCES "use deploy.resources"
#define USE_VOLUMES   "use volumes with type tmpfs"
#define USE_PLACEMENT "use deploy.placement"
#define NO_NAMESPACES "swarm's containers have namespaces of their own"

static const struct schema_field service_fields[] = {
    SCHEMA_FIELD("image", schema_set_text, S(image)),
    SCHEMA_FIELD("command", schema_set_words, S(command), .may_be_null = true),
    SCHEMA_FIELD("entrypoint", schema_set_words, S(entrypoint), .may_be_null = true),
    SCHEMA_FIELD("environment", schema_set_environment, 0, .may_be_null = true),
    SCHEMA_FIELD("env_file", schema_set_env_file, 0, .may_be_null = true),
    SCHEMA_FIELD("hostname", schema_set_text, S(hostname)),
    SCHEMA_FIELD("user", schema_set_text, S(user)),
    SCHEMA_FIELD("working_dir", schema_set_text, S(working_dir)),
    SCHEMA_FIELD("labels", schema_set_pairs, S(labels), .may_be_null = true),
    SCHEMA_FIELD("label_file", schema_set_label_file, 0, .may_be_null = true),
    SCHEMA_FIELD("volumes", schema_set_mounts, 0, .may_be_null = true),
    SCHEMA_FIELD("secrets", schema_set_secret_uses, 0, .may_be_null = true),
    SCHEMA_FIELD("configs", schema_set_config_uses, 0, .may_be_null = true),
    SCHEMA_FIELD("networks", schema_set_attachments, 0, .may_be_null = true),
    SCHEMA_FIELD("ports", schema_set_ports, 0, .may_be_null = true),
    SCHEMA_FIELD("healthcheck", schema_set_healthcheck, 0, .may_be_null = true),
    SCHEMA_FIELD("cap_add", schema_set_strings, S(cap_add), .may_be_null = true),
    SCHEMA_FIELD("cap_drop", schema_set_strings, S(cap_drop), .may_be_null = true),
    SCHEMA_FIELD("ulimits", schema_set_ulimits, 0, .may_be_null = true),
    SCHEMA_FIELD("sysctls", schema_set_pairs, S(sysctls), .may_be_null = true),
    SCHEMA_FIELD("init", schema_set_maybe_bool, S(init)),
    SCHEMA_FIELD("tty", schema_set_bool, S(tty)),
    SCHEMA_FIELD("stdin_open", schema_set_bool, S(stdin_open)),
    SCHEMA_FIELD("read_only", schema_set_bool, S(read_only)),
    SCHEMA_FIELD("stop_grace_period", schema_set_maybe_duration, S(stop_grace_period_ns)),
    SCHEMA_FIELD("stop_signal", schema_set_text, S(stop_signal)),
    SCHEMA_FIELD("dns", schema_set_string_or_strings, S(dns), .may_be_null = true),
    SCHEMA_FIELD("dns_search", schema_set_string_or_strings, S(dns_search), .may_be_null = true),
    SCHEMA_FIELD("extra_hosts", schema_set_extra_hosts, 0, .may_be_null = true),
    SCHEMA_FIELD("logging", schema_set_logging, 0, .may_be_null = true),
    SCHEMA_FIELD("oom_score_adj", schema_set_maybe_i64, S(oom_score_adj)),
    SCHEMA_FIELD("isolation", schema_set_text, S(isolation)),
    SCHEMA_FIELD("credential_spec", schema_set_credential_spec, 0),
    SCHEMA_FIELD("deploy", schema_set_deploy, S(deploy), .may_be_null = true),
    SCHEMA_FIELD("restart", set_restart, 0),
    SCHEMA_FIELD("scale", set_scale, 0),
    SCHEMA_FIELD("depends_on", schema_set_depends_on, 0, .may_be_null = true),

    REFUSED("extends", "write the service out, or share its parts by a YAML anchor"),
    REFUSED("volume_driver", "give the volume at the top of the file a driver"),
    REFUSED("volumes_from", "share a named volume at the top of the file"),
    REFUSED("cpu_quota", USE_RESOURCES ".limits.cpus"),
    REFUSED("cpu_shares", USE_RESOURCES ".limits.cpus"),
    REFUSED("cpuset", USE_RESOURCES ".limits.cpus"),
    REFUSED("mem_limit", USE_RESOURCES ".limits.memory"),
    REFUSED("memswap_limit", USE_RESOURCES ".limits.memory"),

    IGNORED("annotations", NOT_IN_SWARM),
    IGNORED("attach", "it is for compose up"),
    IGNORED("blkio_config", NOT_IN_SWARM),
    IGNORED("build", "a stack does not build images"),
    IGNORED("cgroup", NO_NAMESPACES),
    IGNORED("cgroup_parent", NOT_IN_SWARM),
    IGNORED("cgroupns_mode", NO_NAMESPACES),
    IGNORED("container_name", "swarm names the containers of tasks"),
    IGNORED("cpu_count", USE_RESOURCES ".limits.cpus"),
    IGNORED("cpu_percent", USE_RESOURCES ".limits.cpus"),
    IGNORED("cpu_period", USE_RESOURCES ".limits.cpus"),
    IGNORED("cpu_rt_period", NOT_IN_SWARM),
    IGNORED("cpu_rt_runtime", NOT_IN_SWARM),
    IGNORED("cpus", USE_RESOURCES ".limits.cpus"),
    IGNORED("develop", "it is for compose watch"),
    IGNORED("device_cgroup_rules", NOT_IN_SWARM),
    IGNORED("devices", "swarm gives no devices to services"),
    IGNORED("dns_opt", "docker's stacks do not send it"),
    IGNORED("domainname", "docker's stacks do not send it"),
    IGNORED("expose", "services on one network reach each other's ports anyway"),
    IGNORED("external_links", "use a shared network"),
    IGNORED("gpus", "swarm gives no devices to services"),
    IGNORED("group_add", "docker's stacks do not send it"),
    IGNORED("ipc", NO_NAMESPACES),
    IGNORED("links", "services on one network find each other by name"),
    IGNORED("mac_address", "swarm chooses the addresses of tasks"),
    IGNORED("mem_reservation", USE_RESOURCES ".reservations.memory"),
    IGNORED("mem_swappiness", NOT_IN_SWARM),
    IGNORED("models", NOT_IN_SWARM),
    IGNORED("network_mode", "use networks"),
    IGNORED("oom_kill_disable", NOT_IN_SWARM),
    IGNORED("pid", NO_NAMESPACES),
    IGNORED("pids_limit", USE_RESOURCES ".limits.pids"),
    IGNORED("platform", USE_PLACEMENT ".constraints, node.platform.arch"),
    IGNORED("post_start", NOT_IN_SWARM),
    IGNORED("pre_stop", NOT_IN_SWARM),
    IGNORED("privileged", "swarm has no privileged services: use cap_add"),
    IGNORED("profiles", "a stack has no profiles: all services are deployed"),
    IGNORED("provider", NOT_IN_SWARM),
    IGNORED("pull_policy", "each node pulls what it lacks"),
    IGNORED("runtime", NOT_IN_SWARM),
    IGNORED("security_opt", "docker's stacks do not send it"),
    IGNORED("shm_size", USE_VOLUMES " at /dev/shm"),
    IGNORED("storage_opt", NOT_IN_SWARM),
    IGNORED("tmpfs", USE_VOLUMES),
    IGNORED("use_api_socket", NOT_IN_SWARM),
    IGNORED("userns_mode", NO_NAMESPACES),
    IGNORED("uts", NO_NAMESPACES),
};

/* The service of this key, made when it is new; its draft has the same index. */
static int take_service(struct schema_load *load, const struct node_entry *entry)
{
    struct compose_project *project = load->project;
    for (size_t i = 0; i < project->service_count; i++) {
        if (strcmp(project->services[i].key, entry->key) == 0) {
            load->service_index = i;
            return 0;
        }
    }
    if (project->service_count >= SERVICES_MAX)
        return schema_fail(load, &entry->key_place, "more than %u services", SERVICES_MAX);
    struct compose_service *services =
        compose_arena_grow(load->arena, project->services, project->service_count, sizeof *services);
    struct schema_draft *drafts =
        compose_arena_grow(load->arena, load->drafts, project->service_count, sizeof *drafts);
    if (!services || !drafts)
        return schema_fail_memory(load);
    project->services = services;
    load->drafts = drafts;
    load->service_index = project->service_count++;
    services[load->service_index] = (struct compose_service){.key = entry->key, .place = entry->key_place};
    drafts[load->service_index] = (struct schema_draft){0};
    return 0;
}

static int read_service(struct schema_load *load, const struct node_entry *entry, const void *context)
{
    (void)context;
    const int r = take_service(load, entry);
    return r < 0 ? r
                 : schema_map(load, entry->value, service_fields, MST_ARRAY_COUNT(service_fields), true,
                              &load->project->services[load->service_index]);
}

int schema_set_services(struct schema_load *load, const struct node *node, void *member,
                        const struct schema_field *f)
{
    (void)member;
    (void)f;
    return schema_each(load, node, read_service, NULL);
}
