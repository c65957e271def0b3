/* SPDX-License-Identifier: Apache-2.0 */
/* A mode of a stack as a second stack file, `muster run -c STACK -c THIS`: it lies in the run's folder, so
 * that anybody can see what was run, and repeat it by hand. */
#include "experiment/conduct.h"
#include "muster/cleanup.h"

#include <stdio.h>
#include <string.h>

/* Texts of YAML in double quotes; JSON's escapes are YAML's. */
static int add_quoted(struct mst_buf *text, const char *value)
{
    cJSON *string = cJSON_CreateString(value);
    mst_cleanup(mst_freep) char *quoted = string ? cJSON_PrintUnformatted(string) : NULL;
    int r = quoted ? 0 : -ENOMEM;

    cJSON_Delete(string);
    /* A dollar sign would be a variable's. */
    for (const char *at = quoted; r >= 0 && *at != '\0'; at++)
        r = *at == '$' ? mst_buf_append_text(text, "$$") : mst_buf_append(text, at, 1);
    return r;
}

static int add_variable(struct mst_buf *text, const char *name, const char *value)
{
    int r = mst_buf_printf(text, "      %s: ", name);

    if (r >= 0)
        r = add_quoted(text, value);
    return r < 0 ? r : mst_buf_append_text(text, "\n");
}

/* The mount under which the worker's --out lies. */
static const char *out_mount(const struct compose_service *service)
{
    const char *out = job_variable(service, "MUSTER_OUT"), *nearest = NULL;

    for (size_t i = 0; out && i < service->mount_count; i++) {
        const char *target = service->mounts[i].target;
        const size_t bytes = strlen(target);
        if (strncmp(out, target, bytes) == 0 && (out[bytes] == '/' || out[bytes] == '\0') &&
            (!nearest || bytes > strlen(nearest)))
            nearest = target;
    }
    return nearest;
}

static int add_host_network(const struct turn *turn, unsigned workload, const struct compose_service *service,
                            struct mst_buf *text, struct mst_error *err)
{
    const struct conduct *conduct = turn->conduct;
    const char *mount = out_mount(service);
    char name[128], port[16];
    int r = 0;

    if (!mount)
        return mst_error_set(
            err, -EBADMSG,
            "services.%s: MUSTER_OUT is on no volume: with the host's network its files are fetched from "
            "a folder in that place",
            service->key);
    turn_host_name(turn, workload, "{{.Node.Hostname}}", name, sizeof name);
    (void)snprintf(port, sizeof port, "%u", conduct->options->port + workload);
    r = add_variable(text, "MUSTER_SUBNET", conduct->options->subnet);
    if (r >= 0)
        r = add_variable(text, "MUSTER_PORT", port);
    if (r >= 0)
        r = add_variable(text, "MUSTER_COLLECT", "false");
    if (r >= 0)
        r = mst_buf_printf(
            text,
            "    networks: !override\n      muster-host: {}\n    volumes:\n      - type: bind\n"
            "        source: %s/%s\n        target: %s\n",
            conduct->host_folder, name, mount);
    return r;
}

static int add_worker(const struct turn *turn, unsigned workload, const struct compose_service *service,
                      struct mst_buf *text, struct mst_error *err)
{
    int r = mst_buf_printf(text, "  %s:\n    environment:\n      MUSTER_STEP_LOG: \"true\"\n", service->key);

    if (r >= 0 && turn->conduct->options->exchange_count > 0)
        r = add_variable(text, "MUSTER_EXCHANGE", turn->cell->exchange);
    if (r >= 0 && turn->mode->network == CONDUCT_NETWORK_HOST)
        r = add_host_network(turn, workload, service, text, err);
    return r;
}

static int add_networks(const struct turn *turn, const struct compose_project *project, struct mst_buf *text)
{
    int r = 0;

    if (turn->mode->network == CONDUCT_NETWORK_HOST)
        return mst_buf_append_text(text, "networks:\n  muster-host:\n    external: true\n    name: host\n");
    if (turn->mode->network != CONDUCT_NETWORK_ENCRYPTED)
        return 0;
    r = mst_buf_append_text(text, "networks:\n");
    for (size_t i = 0; i < project->network_count && r >= 0; i++) {
        const struct compose_network *network = &project->networks[i];
        if (!network->external && network->is_used &&
            (!network->driver || strcmp(network->driver, "overlay") == 0))
            r = mst_buf_printf(text, "  %s:\n    driver_opts:\n      encrypted: \"true\"\n", network->key);
    }
    return r;
}

int conduct_override(const struct turn *turn, unsigned workload, struct mst_buf *text, struct mst_error *err)
{
    const struct compose_project *project = turn->conduct->jobs[workload].project;
    int r = mst_buf_printf(text, "# %s, written by muster compare\nservices:\n", turn->mode->label);

    for (size_t i = 0; i < project->service_count && r >= 0; i++) {
        const struct compose_service *service = &project->services[i];
        /* On the host's network the collector's port would be the worker's beside it. */
        const bool goes = (job_is_role(service, "monitor") && !turn->mode->monitor) ||
                          (job_is_role(service, "collector") && turn->mode->network == CONDUCT_NETWORK_HOST);
        if (job_is_worker(service))
            r = add_worker(turn, workload, service, text, err);
        else if (goes)
            r = mst_buf_printf(text, "  %s: !reset null\n", service->key);
    }
    if (r >= 0)
        r = add_networks(turn, project, text);
    return r == -ENOMEM || r == -EFBIG
               ? mst_error_errno(err, r, "the stack file of mode '%s'", turn->mode->name)
               : r;
}
