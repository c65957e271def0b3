/* SPDX-License-Identifier: Apache-2.0 */
/* Docker's contexts: contexts/meta/<SHA-256 of the name>/meta.json in docker's folder, TLS material beside it
 * under contexts/tls (docker/cli, cli/context/store). */
#include "endpoint.h"
#include "muster/buf.h"
#include "muster/cleanup.h"
#include "muster/digest.h"
#include "muster/engine.h"
#include "muster/file.h"
#include "muster/json.h"

#include <string.h>

#define META_MAX_BYTES   ((size_t)64 << 10)
#define CONFIG_MAX_BYTES ((size_t)1 << 20)
#define NAME_MAX_BYTES   256

char *engine_docker_folder(void)
{
    const char *folder = getenv("DOCKER_CONFIG"), *home = getenv("HOME");

    if (folder && folder[0] != '\0')
        return strdup(folder);
    return home && home[0] != '\0' ? mst_path_join(home, ".docker") : NULL;
}

static int read_json(const char *path, size_t max_bytes, cJSON **ret_json, struct mst_error *err)
{
    mst_cleanup(mst_buf_release) struct mst_buf text = MST_BUF_INIT(max_bytes);
    const int r = mst_file_read(path, &text, err);

    return r < 0 ? r : mst_json_parse(mst_buf_text(&text), text.count, path, ret_json, err);
}

static int parse_meta(const cJSON *meta, const char *name, const char *folder, const char *digest,
                      struct endpoint_source *ret_source, struct mst_error *err)
{
    const cJSON *docker = mst_json_at(meta, "Endpoints", "docker", NULL);
    const char *host = mst_json_string_or(docker, "Host", "");
    struct endpoint_source source = {.skip_verify = mst_json_bool_or(docker, "SkipTLSVerify", false)};

    if (host[0] == '\0')
        return mst_error_set(err, -EINVAL, "docker context '%s': it has no endpoint of an engine", name);
    source.host = strdup(host);
    source.tls_folder = mst_format("%s/contexts/tls/%s/docker", folder, digest);
    if (!source.host || !source.tls_folder) {
        endpoint_source_release(&source);
        return mst_error_set(err, -ENOMEM, "docker context '%s': no memory", name);
    }
    if (access(source.tls_folder, F_OK) < 0)
        mst_freep(&source.tls_folder);
    *ret_source = source;
    return 0;
}

int context_load(const char *name, struct endpoint_source *ret_source, struct mst_error *err)
{
    mst_cleanup(mst_freep) char *folder = engine_docker_folder();
    mst_cleanup(mst_freep) char *path = NULL;
    mst_cleanup(mst_json_deletep) cJSON *meta = NULL;
    uint8_t digest[MST_SHA256_BYTES];
    char hex[MST_SHA256_HEX_BYTES];
    int r;

    *ret_source = (struct endpoint_source){0};
    if (strcmp(name, "default") == 0)
        return 0;
    if (!folder)
        return mst_error_set(err, -ENOENT, "docker context '%s': neither DOCKER_CONFIG nor HOME is set",
                             name);
    r = mst_sha256(name, strlen(name), digest, err);
    if (r < 0)
        return r;
    mst_hex(digest, sizeof digest, hex);
    path = mst_format("%s/contexts/meta/%s/meta.json", folder, hex);
    if (!path)
        return mst_error_set(err, -ENOMEM, "docker context '%s': no memory", name);
    if (access(path, F_OK) < 0)
        return mst_error_set(err, -ENOENT, "docker context '%s': there is none in '%s' (docker context ls)",
                             name, folder);
    r = read_json(path, META_MAX_BYTES, &meta, err);
    if (r < 0)
        return mst_error_wrap(err, r == -EBADMSG ? -EINVAL : r, "docker context '%s'", name);
    return parse_meta(meta, name, folder, hex, ret_source, err);
}

int context_current(char **ret_name, struct mst_error *err)
{
    mst_cleanup(mst_freep) char *folder = engine_docker_folder();
    mst_cleanup(mst_freep) char *path = folder ? mst_path_join(folder, "config.json") : NULL;
    mst_cleanup(mst_json_deletep) cJSON *config = NULL;
    const char *name = getenv("DOCKER_CONTEXT");
    int r;

    *ret_name = NULL;
    if (!name || name[0] == '\0') {
        if (!path || access(path, R_OK) < 0)
            return 0;
        r = read_json(path, CONFIG_MAX_BYTES, &config, err);
        if (r < 0)
            return mst_error_wrap(err, r == -EBADMSG ? -EINVAL : r, "docker's configuration");
        name = mst_json_string_or(config, "currentContext", "");
    }
    if (name[0] == '\0')
        return 0;
    if (strlen(name) > NAME_MAX_BYTES)
        return mst_error_set(err, -EINVAL, "docker context '%.32s...': the name is too long", name);
    *ret_name = strdup(name);
    return *ret_name ? 0 : mst_error_set(err, -ENOMEM, "docker context '%s': no memory", name);
}

void endpoint_source_release(struct endpoint_source *source)
{
    free(source->host);
    free(source->tls_folder);
    *source = (struct endpoint_source){0};
}
