/* SPDX-License-Identifier: Apache-2.0 */
/* TaskTemplate.ContainerSpec. */
#include "build.h"
#include "muster/buf.h"
#include "muster/cleanup.h"
#include "spec.h"
#include "stack.h"

#include <string.h>

static void add_hosts(struct build *build, const struct compose_service *service, cJSON *container)
{
    cJSON *hosts;

    if (service->extra_host_count == 0)
        return;
    hosts = build_array(build, container, "Hosts");
    for (size_t i = 0; i < service->extra_host_count; i++) {
        mst_cleanup(mst_freep) char *text =
            mst_format("%s %s", service->extra_hosts[i].value, service->extra_hosts[i].key);
        if (text)
            build_item(build, hosts, text);
        else
            build->no_memory = true;
    }
}

static void add_dns(struct build *build, const struct compose_service *service, cJSON *container)
{
    cJSON *dns;

    if (service->dns.count == 0 && service->dns_search.count == 0)
        return;
    dns = build_object(build, container, "DNSConfig");
    build_strings_if(build, dns, "Nameservers", service->dns);
    build_strings_if(build, dns, "Search", service->dns_search);
}

static void add_healthcheck(struct build *build, const struct compose_healthcheck *check, cJSON *container)
{
    cJSON *object;

    if (!check->is_set)
        return;
    object = build_object(build, container, "Healthcheck");
    build_strings_if(build, object, "Test", check->test);
    build_int_if(build, object, "Interval", (int64_t)check->interval_ns);
    build_int_if(build, object, "Timeout", (int64_t)check->timeout_ns);
    build_int_if(build, object, "StartPeriod", (int64_t)check->start_period_ns);
    build_int_if(build, object, "StartInterval", (int64_t)check->start_interval_ns);
    build_int_if(build, object, "Retries", (int64_t)check->retries);
}

static void add_volume_options(struct build *build, const struct compose_project *project,
                               const struct compose_mount *mount, cJSON *object)
{
    const struct compose_volume *volume = mount->volume;
    cJSON *options, *driver;

    if (!volume) /* anonymous */
        return;
    options = build_object(build, object, "VolumeOptions");
    build_bool_if(build, options, "NoCopy", mount->volume_nocopy);
    build_text_if(build, options, "Subpath", mount->volume_subpath);
    if (volume->external)
        return;
    (void)build_labels(build, options, "Labels", &volume->labels, project->stack);
    if (volume->driver || volume->driver_opts.count > 0) {
        driver = build_object(build, options, "DriverConfig");
        build_text_if(build, driver, "Name", volume->driver);
        (void)build_pairs_if(build, driver, "Options", &volume->driver_opts);
    }
}

/* A cluster volume is a stack's own by its key, unless a group of them is meant. */
static const char *cluster_source(const struct compose_project *project, const char *source)
{
    for (size_t i = 0; source && strncmp(source, "group:", 6) != 0 && i < project->volume_count; i++) {
        if (strcmp(project->volumes[i].key, source) == 0)
            return project->volumes[i].name;
    }
    return source;
}

static void add_mount(struct build *build, const struct compose_project *project,
                      const struct compose_mount *mount, cJSON *mounts)
{
    static const char *const types[] = {
        [COMPOSE_MOUNT_VOLUME] = "volume",   [COMPOSE_MOUNT_BIND] = "bind",
        [COMPOSE_MOUNT_TMPFS] = "tmpfs",     [COMPOSE_MOUNT_NPIPE] = "npipe",
        [COMPOSE_MOUNT_CLUSTER] = "cluster", [COMPOSE_MOUNT_IMAGE] = "image",
    };
    cJSON *object = build_append(build, mounts);

    build_text(build, object, "Type", types[mount->type]);
    build_text_if(build, object, "Source",
                  mount->volume                          ? mount->volume->name
                  : mount->type == COMPOSE_MOUNT_CLUSTER ? cluster_source(project, mount->source)
                                                         : mount->source);
    build_text_if(build, object, "Target", mount->target);
    build_bool_if(build, object, "ReadOnly", mount->read_only);
    build_text_if(build, object, "Consistency", mount->consistency);
    if (mount->type == COMPOSE_MOUNT_VOLUME)
        add_volume_options(build, project, mount, object);
    if (mount->type == COMPOSE_MOUNT_BIND && mount->has_bind)
        build_text_if(build, build_object(build, object, "BindOptions"), "Propagation",
                      mount->bind_propagation);
    if (mount->type == COMPOSE_MOUNT_TMPFS && mount->has_tmpfs)
        build_int_if(build, build_object(build, object, "TmpfsOptions"), "SizeBytes",
                     (int64_t)mount->tmpfs_size_bytes);
    if (mount->type == COMPOSE_MOUNT_IMAGE && mount->has_image)
        build_text_if(build, build_object(build, object, "ImageOptions"), "Subpath", mount->image_subpath);
    if (mount->type == COMPOSE_MOUNT_CLUSTER)
        (void)build_object(build, object, "ClusterOptions");
}

/* One reference to a secret or config; `id_key` and `name_key` are SecretID, SecretName, ... */
static void add_reference(struct build *build, const struct spec_ids *ids, enum engine_kind kind,
                          const struct compose_content_use *use, cJSON *array)
{
    const bool is_secret = kind == ENGINE_SECRET;
    const char *id = spec_ids_find(ids, kind, use->content->name);
    cJSON *object = build_append(build, array), *file;

    file = build_object(build, object, "File");
    build_text(build, file, "Name", use->target);
    build_text(build, file, "UID", use->uid);
    build_text(build, file, "GID", use->gid);
    build_int(build, file, "Mode", (int64_t)use->mode);
    build_text(build, object, is_secret ? "SecretID" : "ConfigID", id ? id : "");
    build_text(build, object, is_secret ? "SecretName" : "ConfigName",
               spec_ids_actual(ids, kind, use->content->name));
}

/* A config for the engine itself, not a file in the container; docker sorts it in with the others. */
static void add_runtime(struct build *build, const struct spec_ids *ids,
                        const struct compose_content *content, cJSON *array)
{
    const char *id = spec_ids_find(ids, ENGINE_CONFIG, content->name);
    cJSON *object = build_append(build, array);

    (void)build_object(build, object, "Runtime");
    build_text(build, object, "ConfigID", id ? id : "");
    build_text(build, object, "ConfigName", spec_ids_actual(ids, ENGINE_CONFIG, content->name));
}

static void add_references(struct build *build, const struct compose_service *service,
                           const struct spec_ids *ids, cJSON *container)
{
    const struct compose_credential_spec *credential = &service->credential_spec;
    bool has_credential = false;
    cJSON *array;

    if (service->secret_count > 0) {
        array = build_array(build, container, "Secrets");
        for (size_t i = 0; array && i < service->secret_count; i++)
            add_reference(build, ids, ENGINE_SECRET, &service->secrets[i], array);
    }
    if (service->config_count == 0 && !credential->content)
        return;
    array = build_array(build, container, "Configs");
    for (size_t i = 0; array && i < service->config_count; i++) {
        if (!has_credential && credential->content &&
            strcmp(credential->content->name, service->configs[i].content->name) < 0) {
            add_runtime(build, ids, credential->content, array);
            has_credential = true;
        }
        add_reference(build, ids, ENGINE_CONFIG, &service->configs[i], array);
    }
    if (array && credential->content && !has_credential)
        add_runtime(build, ids, credential->content, array);
}

static void add_null(struct build *build, cJSON *object, const char *key)
{
    if (object && !cJSON_AddNullToObject(object, key))
        build->no_memory = true;
}

/* Always sent, with its nulls. */
static void add_privileges(struct build *build, const struct compose_credential_spec *credential,
                           const struct spec_ids *ids, cJSON *container)
{
    cJSON *privileges = build_object(build, container, "Privileges"), *object;

    if (credential->is_set) {
        const char *id =
            credential->content ? spec_ids_find(ids, ENGINE_CONFIG, credential->content->name) : NULL;
        object = build_object(build, privileges, "CredentialSpec");
        build_text(build, object, "Config", id ? id : credential->content ? credential->content->name : "");
        build_text(build, object, "File", credential->file ? credential->file : "");
        build_text(build, object, "Registry", credential->registry ? credential->registry : "");
    } else {
        add_null(build, privileges, "CredentialSpec");
    }
    add_null(build, privileges, "SELinuxContext");
    if (privileges && !cJSON_AddBoolToObject(privileges, "NoNewPrivileges", false))
        build->no_memory = true;
}

static void add_ulimits(struct build *build, const struct compose_service *service, cJSON *container)
{
    cJSON *array;

    if (service->ulimit_count == 0)
        return;
    array = build_array(build, container, "Ulimits");
    for (size_t i = 0; array && i < service->ulimit_count; i++) {
        cJSON *object = build_append(build, array);

        build_text(build, object, "Name", service->ulimits[i].name);
        build_int(build, object, "Hard", service->ulimits[i].hard);
        build_int(build, object, "Soft", service->ulimits[i].soft);
    }
}

void spec_container(struct build *build, const struct compose_project *project,
                    const struct compose_service *service, const struct spec_ids *ids, const char *image,
                    cJSON *parent)
{
    cJSON *container = build_object(build, parent, "ContainerSpec");

    build_text_if(build, container, "Image", image);
    (void)build_labels(build, container, "Labels", &service->labels, project->stack);
    build_strings_if(build, container, "Command", service->entrypoint);
    build_strings_if(build, container, "Args", service->command);
    build_text_if(build, container, "Hostname", service->hostname);
    build_strings_if(build, container, "Env", service->environment);
    build_text_if(build, container, "Dir", service->working_dir);
    build_text_if(build, container, "User", service->user);
    add_privileges(build, &service->credential_spec, ids, container);
    if (service->init.is_set && container && !cJSON_AddBoolToObject(container, "Init", service->init.value))
        build->no_memory = true;
    build_text_if(build, container, "StopSignal", service->stop_signal);
    build_bool_if(build, container, "TTY", service->tty);
    build_bool_if(build, container, "OpenStdin", service->stdin_open);
    build_bool_if(build, container, "ReadOnly", service->read_only);
    if (service->mount_count > 0) {
        cJSON *mounts = build_array(build, container, "Mounts");
        for (size_t i = 0; mounts && i < service->mount_count; i++)
            add_mount(build, project, &service->mounts[i], mounts);
    }
    build_maybe(build, container, "StopGracePeriod", service->stop_grace_period_ns);
    add_healthcheck(build, &service->healthcheck, container);
    add_hosts(build, service, container);
    add_dns(build, service, container);
    add_references(build, service, ids, container);
    build_text_if(build, container, "Isolation", service->isolation);
    (void)build_pairs_if(build, container, "Sysctls", &service->sysctls);
    build_strings_if(build, container, "CapabilityAdd", service->cap_add);
    build_strings_if(build, container, "CapabilityDrop", service->cap_drop);
    add_ulimits(build, service, container);
    if (service->oom_score_adj.is_set)
        build_int_if(build, container, "OomScoreAdj", service->oom_score_adj.value);
}
