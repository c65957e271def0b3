/* SPDX-License-Identifier: Apache-2.0 */
#include "endpoint.h"

#include "dial.h"
#include "muster/buf.h"
#include "muster/cleanup.h"
#include "muster/engine.h"
#include "muster/file.h"
#include "muster/parse.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/un.h>

#define DEFAULT_HOST     "unix:///var/run/docker.sock"
#define DEFAULT_PORT     2375
#define DEFAULT_TLS_PORT 2376

static int parse_unix(struct engine_endpoint *endpoint, const char *path, struct mst_error *err)
{
    const size_t max_bytes = sizeof((struct sockaddr_un *)0)->sun_path;

    if (path[0] != '/' || path[1] == '\0')
        return mst_error_set(err, -EINVAL, "engine host '%s': expected unix:///absolute/path",
                             endpoint->text);
    if (strlen(path) >= max_bytes)
        return mst_error_set(err, -EINVAL, "engine host '%s': a socket's path has at most %zu bytes",
                             endpoint->text, max_bytes - 1);
    endpoint->socket_path = strdup(path);
    endpoint->base_url = strdup("http://docker"); /* only the Host header sees this name */
    if (!endpoint->socket_path || !endpoint->base_url)
        return mst_error_set(err, -ENOMEM, "engine host '%s': no memory", endpoint->text);
    return 0;
}

/* Names, IPv4 addresses, and IPv6 addresses in brackets: nothing that means something else in a URL. */
static bool is_host_name(const char *name, size_t count)
{
    const bool is_v6 = count > 2 && name[0] == '[' && name[count - 1] == ']';
    const size_t first = is_v6 ? 1 : 0;
    const size_t end = is_v6 ? count - 1 : count;

    if (end <= first)
        return false;
    for (size_t i = first; i < end; i++) {
        const unsigned char c = (unsigned char)name[i];
        if (is_v6 ? !(isxdigit(c) || c == ':' || c == '.')
                  : !(isalnum(c) || c == '.' || c == '-' || c == '_'))
            return false;
    }
    return true;
}

/* TLS is wanted by a context that has material for it, by DOCKER_TLS_VERIFY (any text but "", as docker reads
 * it) or DOCKER_TLS, and by https://. */
static bool wants_tls(const struct endpoint_source *source, bool is_https, bool *ret_is_verified)
{
    const char *verify = getenv("DOCKER_TLS_VERIFY"), *plain = getenv("DOCKER_TLS");
    const bool is_asked = verify && verify[0] != '\0';

    *ret_is_verified = true;
    if (source->tls_folder || source->skip_verify) {
        *ret_is_verified = !source->skip_verify;
        return true;
    }
    if (is_asked || is_https)
        return true;
    *ret_is_verified = false;
    return plain && plain[0] != '\0';
}

static int find_file(const char *folder, const char *name, char **ret_path)
{
    char *path = mst_path_join(folder, name);

    if (!path)
        return -ENOMEM;
    if (access(path, F_OK) < 0)
        free(path);
    else
        *ret_path = path;
    return 0;
}

/* DOCKER_CERT_PATH, else docker's own folder; for a context its own. */
static int find_tls_files(struct engine_endpoint *endpoint, const struct endpoint_source *source,
                          struct mst_error *err)
{
    const char *asked = getenv("DOCKER_CERT_PATH");
    mst_cleanup(mst_freep) char *folder = source->tls_folder          ? strdup(source->tls_folder)
                                          : asked && asked[0] != '\0' ? strdup(asked)
                                                                      : engine_docker_folder();
    int r;

    if (!folder)
        return 0;
    r = find_file(folder, "ca.pem", &endpoint->ca_file);
    if (r >= 0)
        r = find_file(folder, "cert.pem", &endpoint->cert_file);
    if (r >= 0)
        r = find_file(folder, "key.pem", &endpoint->key_file);
    if (r < 0)
        return mst_error_set(err, r, "engine host '%s': no memory", endpoint->text);
    if (!endpoint->cert_file != !endpoint->key_file)
        return mst_error_set(err, -EINVAL, "engine host '%s': '%s' has %s, but no %s", endpoint->text, folder,
                             endpoint->cert_file ? "cert.pem" : "key.pem",
                             endpoint->cert_file ? "key.pem" : "cert.pem");
    if (!source->tls_folder && asked && asked[0] != '\0' && !endpoint->ca_file && !endpoint->cert_file)
        return mst_error_set(err, -EINVAL,
                             "engine host '%s': DOCKER_CERT_PATH '%s' has neither ca.pem nor cert.pem",
                             endpoint->text, folder);
    return 0;
}

static int parse_tcp(struct engine_endpoint *endpoint, const char *rest, bool is_https,
                     const struct endpoint_source *source, struct mst_error *err)
{
    const char *colon = strrchr(rest, ':');
    const char *bracket = strrchr(rest, ']');
    size_t name_bytes = strcspn(rest, "/");
    uint32_t port;
    char port_text[8];

    endpoint->is_tls = wants_tls(source, is_https, &endpoint->is_verified);
    port = endpoint->is_tls ? DEFAULT_TLS_PORT : DEFAULT_PORT;
    if (rest[name_bytes] == '/' && rest[name_bytes + 1] != '\0')
        return mst_error_set(err, -EINVAL, "engine host '%s': no path can follow the port", endpoint->text);
    if (colon && (!bracket || colon > bracket)) {
        const size_t digits = (size_t)(rest + name_bytes - colon) - 1;
        if (digits >= sizeof port_text)
            return mst_error_set(err, -EINVAL, "engine host '%s': not a port", endpoint->text);
        memcpy(port_text, colon + 1, digits);
        port_text[digits] = '\0';
        if (mst_parse_u32(port_text, 1, UINT16_MAX, &port, err) < 0)
            return mst_error_wrap(err, -EINVAL, "engine host '%s': port", endpoint->text);
        name_bytes = (size_t)(colon - rest);
    }
    if (!is_host_name(rest, name_bytes))
        return mst_error_set(err, -EINVAL, "engine host '%s': expected tcp://host:port", endpoint->text);
    endpoint->base_url = mst_format("%s://%.*s:%u", endpoint->is_tls ? "https" : "http", (int)name_bytes,
                                    rest, (unsigned)port);
    if (!endpoint->base_url)
        return mst_error_set(err, -ENOMEM, "engine host '%s': no memory", endpoint->text);
    return endpoint->is_tls ? find_tls_files(endpoint, source, err) : 0;
}

static int parse_ssh(struct engine_endpoint *endpoint, const char *rest, struct mst_error *err)
{
    endpoint->base_url = strdup("http://docker");
    if (!endpoint->base_url)
        return mst_error_set(err, -ENOMEM, "engine host '%s': no memory", endpoint->text);
    return dialer_new(rest, &endpoint->dialer, err);
}

static int parse(struct engine_endpoint *endpoint, const struct endpoint_source *source,
                 struct mst_error *err)
{
    const char *host = endpoint->text;

    if (strncmp(host, "unix://", 7) == 0)
        return parse_unix(endpoint, host + 7, err);
    if (strncmp(host, "tcp://", 6) == 0)
        return parse_tcp(endpoint, host + 6, false, source, err);
    if (strncmp(host, "http://", 7) == 0)
        return parse_tcp(endpoint, host + 7, false, source, err);
    if (strncmp(host, "https://", 8) == 0)
        return parse_tcp(endpoint, host + 8, true, source, err);
    if (strncmp(host, "ssh://", 6) == 0)
        return parse_ssh(endpoint, host + 6, err);
    return mst_error_set(err, -EINVAL,
                         "engine host '%s': expected unix:///path, tcp://host:port or ssh://user@host", host);
}

/* docker's order: DOCKER_HOST, DOCKER_CONTEXT, the configuration, the socket. */
static int find_source(const char *host, const char *context, struct endpoint_source *ret_source,
                       struct mst_error *err)
{
    mst_cleanup(mst_freep) char *current = NULL;
    const char *docker_host = getenv("DOCKER_HOST");
    int r = 0;

    if ((!host || host[0] == '\0') && context && context[0] != '\0') {
        r = context_load(context, ret_source, err);
    } else if (!host || host[0] == '\0') {
        host = docker_host && docker_host[0] != '\0' ? docker_host : NULL;
        if (!host)
            r = context_current(&current, err);
        if (r >= 0 && current)
            r = context_load(current, ret_source, err);
    }
    if (r < 0 || ret_source->host)
        return r;
    ret_source->host = strdup(host ? host : DEFAULT_HOST);
    return ret_source->host ? 0 : mst_error_set(err, -ENOMEM, "engine host: no memory");
}

int endpoint_init(struct engine_endpoint *endpoint, const char *host, const char *context,
                  struct mst_error *err)
{
    mst_cleanup(endpoint_source_release) struct endpoint_source source = {0};
    int r = find_source(host, context, &source, err);

    *endpoint = (struct engine_endpoint){0};
    if (r < 0)
        return r;
    endpoint->text = source.host; /* ours from here on */
    source.host = NULL;
    r = parse(endpoint, &source, err);
    if (r < 0)
        endpoint_release(endpoint);
    return r;
}

void endpoint_release(struct engine_endpoint *endpoint)
{
    dialer_free(endpoint->dialer);
    free(endpoint->text);
    free(endpoint->socket_path);
    free(endpoint->base_url);
    free(endpoint->ca_file);
    free(endpoint->cert_file);
    free(endpoint->key_file);
    *endpoint = (struct engine_endpoint){0};
}
