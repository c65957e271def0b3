/* SPDX-License-Identifier: Apache-2.0 */
#include "endpoint.h"

#include "muster/cleanup.h"
#include "muster/parse.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/un.h>

#define DEFAULT_HOST "unix:///var/run/docker.sock"
#define DEFAULT_PORT 2375

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

static int parse_tcp(struct engine_endpoint *endpoint, const char *rest, struct mst_error *err)
{
    const char *tls = getenv("DOCKER_TLS_VERIFY");
    const char *colon = strrchr(rest, ':');
    const char *bracket = strrchr(rest, ']');
    size_t name_bytes = strcspn(rest, "/");
    uint32_t port = DEFAULT_PORT;
    char port_text[8];

    /* Talking plainly to somebody who asked for TLS would be worse than not talking. */
    if (tls && tls[0] != '\0')
        return mst_error_set(err, -EINVAL,
                             "engine host '%s': DOCKER_TLS_VERIFY is set, and only plain TCP is spoken",
                             endpoint->text);
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
    if (asprintf(&endpoint->base_url, "http://%.*s:%u", (int)name_bytes, rest, (unsigned)port) < 0) {
        endpoint->base_url = NULL;
        return mst_error_set(err, -ENOMEM, "engine host '%s': no memory", endpoint->text);
    }
    return 0;
}

int endpoint_init(struct engine_endpoint *endpoint, const char *host, struct mst_error *err)
{
    int r;

    *endpoint = (struct engine_endpoint){0};
    if (!host || host[0] == '\0')
        host = getenv("DOCKER_HOST");
    if (!host || host[0] == '\0')
        host = DEFAULT_HOST;
    endpoint->text = strdup(host);
    if (!endpoint->text)
        return mst_error_set(err, -ENOMEM, "engine host: no memory");

    if (strncmp(host, "unix://", 7) == 0)
        r = parse_unix(endpoint, endpoint->text + 7, err);
    else if (strncmp(host, "tcp://", 6) == 0)
        r = parse_tcp(endpoint, endpoint->text + 6, err);
    else if (strncmp(host, "http://", 7) == 0)
        r = parse_tcp(endpoint, endpoint->text + 7, err);
    else
        r = mst_error_set(err, -EINVAL, "engine host '%s': expected unix:///path or tcp://host:port", host);
    if (r < 0)
        endpoint_release(endpoint);
    return r;
}

void endpoint_release(struct engine_endpoint *endpoint)
{
    free(endpoint->text);
    free(endpoint->socket_path);
    free(endpoint->base_url);
    *endpoint = (struct engine_endpoint){0};
}
