/* SPDX-License-Identifier: Apache-2.0 */
#include "auth.h"

#include "build.h"
#include "muster/buf.h"
#include "muster/cleanup.h"
#include "muster/clock.h"
#include "muster/digest.h"
#include "muster/engine.h"
#include "muster/file.h"
#include "muster/json.h"
#include "muster/signals.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#define CONFIG_MAX_BYTES  ((size_t)1 << 20)
#define HELPER_MAX_BYTES  ((size_t)64 << 10)
#define HELPER_TIMEOUT_MS 20000
#define SIGNAL_LOOK_MS    100 /* a signal may come just before the wait */
#define DOCKER_REGISTRY   "https://index.docker.io/v1/"
#define TOKEN_USER        "<token>" /* a helper's name for "the secret is a token" */

struct credentials {
    char *user, *secret; /* owned; user NULL: `secret` is an identity token */
};

static void forget(char **text)
{
    if (*text)
        mst_forget(*text, strlen(*text));
    mst_freep(text);
}

static void credentials_release(struct credentials *credentials)
{
    forget(&credentials->user);
    forget(&credentials->secret);
}

void auth_registry(const char *image, char *text, size_t capacity)
{
    const size_t bytes = strcspn(image, "/");
    const bool is_host = image[bytes] == '/' && (memchr(image, '.', bytes) || memchr(image, ':', bytes) ||
                                                 (bytes == 9 && strncmp(image, "localhost", 9) == 0));

    if (!is_host || (bytes == 9 && strncmp(image, "docker.io", 9) == 0))
        (void)snprintf(text, capacity, "%s", DOCKER_REGISTRY);
    else
        (void)snprintf(text, capacity, "%.*s", (int)bytes, image);
}

/* Keys of `auths` are host names, or what `docker login` was given: "https://host/v1/". */
static bool is_key_of(const char *key, const char *registry)
{
    size_t bytes;

    if (strcmp(key, registry) == 0)
        return true;
    if (strncmp(key, "https://", 8) == 0)
        key += 8;
    else if (strncmp(key, "http://", 7) == 0)
        key += 7;
    bytes = strcspn(key, "/");
    return strlen(registry) == bytes && strncmp(key, registry, bytes) == 0;
}

static int decode_base64(const char *text, struct mst_buf *bytes)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    unsigned group = 0, bits = 0;

    for (; *text != '\0' && *text != '='; text++) {
        const char *digit = strchr(digits, *text);
        if (!digit)
            return -EBADMSG;
        group = group << 6 | (unsigned)(digit - digits);
        bits += 6;
        if (bits >= 8) {
            const char byte = (char)(group >> (bits - 8) & 0xff);
            const int r = mst_buf_append(bytes, &byte, 1);
            if (r < 0)
                return r;
            bits -= 8;
        }
    }
    return 0;
}

static int set(struct credentials *credentials, const char *user, const char *secret)
{
    credentials->user = user ? strdup(user) : NULL;
    credentials->secret = strdup(secret);
    return credentials->secret && (!user || credentials->user) ? 0 : -ENOMEM;
}

/* auths.HOST: {"auth": base64("user:password")}, or {"identitytoken": ...}. */
static int from_auths(const cJSON *config, const char *registry, struct credentials *credentials,
                      struct mst_error *err)
{
    const cJSON *entry;

    cJSON_ArrayForEach(entry, mst_json_at(config, "auths", NULL))
    {
        const char *token = mst_json_string_or(entry, "identitytoken", "");
        const char *packed = mst_json_string_or(entry, "auth", "");
        mst_cleanup(mst_buf_release) struct mst_buf pair = MST_BUF_INIT(CONFIG_MAX_BYTES);
        char *colon;
        int r;
        if (!is_key_of(entry->string, registry))
            continue;
        if (token[0] != '\0')
            return set(credentials, NULL, token) < 0 ? mst_error_set(err, -ENOMEM, "registry: no memory") : 0;
        if (packed[0] == '\0')
            continue;
        r = decode_base64(packed, &pair);
        colon = r == 0 && pair.count > 0 ? memchr(pair.bytes, ':', pair.count) : NULL;
        if (r == -ENOMEM)
            return mst_error_set(err, r, "registry: no memory");
        if (!colon)
            return mst_error_set(err, -EINVAL,
                                 "docker's configuration: auths.%.128s.auth is not base64 of user:password",
                                 entry->string);
        *colon = '\0';
        r = set(credentials, pair.bytes, colon + 1);
        mst_forget(pair.bytes, pair.count);
        return r < 0 ? mst_error_set(err, r, "registry: no memory") : 0;
    }
    return 0;
}

/* ---- docker-credential-NAME get: the registry on stdin, JSON on stdout ---- */

static int start_helper(const char *program, int in_fd, int out_fd, pid_t *ret_pid)
{
    mst_cleanup(mst_freep) char *name = strdup(program);
    char get[] = "get", *arguments[] = {name, get, NULL};
    posix_spawn_file_actions_t actions;
    int r = name ? posix_spawn_file_actions_init(&actions) : ENOMEM;

    if (r != 0)
        return -r;
    r = posix_spawn_file_actions_adddup2(&actions, in_fd, STDIN_FILENO);
    if (r == 0)
        r = posix_spawn_file_actions_adddup2(&actions, out_fd, STDOUT_FILENO);
    if (r == 0)
        r = posix_spawnp(ret_pid, program, &actions, NULL, arguments, environ);
    (void)posix_spawn_file_actions_destroy(&actions);
    return -r;
}

/* Until the end of `fd`, within the helper's time. */
static int read_helper(int fd, struct mst_buf *text)
{
    const uint64_t deadline_ns = mst_now_ns() + HELPER_TIMEOUT_MS * MST_NS_PER_MS;

    for (;;) {
        struct pollfd waiting = {fd, POLLIN, 0};
        char bytes[4096];
        ssize_t got;
        int r = poll(&waiting, 1, mst_ms_until(deadline_ns, SIGNAL_LOOK_MS));
        if (mst_signals_newest() != 0)
            return -ECANCELED;
        if (r < 0 && errno != EINTR)
            return -errno;
        if (r <= 0 && mst_now_ns() >= deadline_ns)
            return -ETIMEDOUT;
        if (r <= 0)
            continue;
        got = read(fd, bytes, sizeof bytes);
        if (got <= 0)
            return got < 0 ? -errno : 0;
        r = mst_buf_append(text, bytes, (size_t)got);
        mst_forget(bytes, (size_t)got);
        if (r < 0)
            return r;
    }
}

static int run_helper(const char *program, const char *registry, struct mst_buf *text, int *ret_status)
{
    mst_cleanup(mst_closep) int in_read = -1, in_write = -1, out_read = -1, out_write = -1;
    int in[2], out[2], status = 0, r;
    pid_t pid;

    if (pipe2(in, O_CLOEXEC) < 0)
        return -errno;
    in_read = in[0];
    in_write = in[1];
    if (pipe2(out, O_CLOEXEC) < 0)
        return -errno;
    out_read = out[0];
    out_write = out[1];
    r = start_helper(program, in_read, out_write, &pid);
    if (r < 0)
        return r;
    mst_closep(&in_read);
    mst_closep(&out_write);
    r = mst_write_all(in_write, registry, strlen(registry));
    mst_closep(&in_write);
    if (r >= 0 || r == -EPIPE)
        r = read_helper(out_read, text);
    if (r < 0)
        (void)kill(pid, SIGKILL);
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    *ret_status = WIFEXITED(status) ? WEXITSTATUS(status) : 128;
    return r;
}

static int from_helper(const char *helper, const char *registry, struct credentials *credentials,
                       struct mst_error *err)
{
    mst_cleanup(mst_freep) char *program = mst_format("docker-credential-%s", helper);
    mst_cleanup(mst_buf_release) struct mst_buf text = MST_BUF_INIT(HELPER_MAX_BYTES);
    mst_cleanup(mst_json_deletep) cJSON *json = NULL;
    const char *user;
    int status = 0, r;

    if (!program)
        return mst_error_set(err, -ENOMEM, "registry: no memory");
    if (strchr(helper, '/'))
        return mst_error_set(err, -EINVAL, "docker's configuration: '%.64s' is no name of a helper", helper);
    r = run_helper(program, registry, &text, &status);
    if (r < 0)
        return mst_error_errno(err, r, "ask %s for '%s'", program, registry);
    if (status != 0) /* it has nothing for this one: that is how they say so */
        return 0;
    r = mst_json_parse(mst_buf_text(&text), text.count, program, &json, err);
    mst_forget(text.bytes, text.count);
    if (r < 0)
        return r == -EBADMSG ? mst_error_wrap(err, -EPROTO, "ask %s for '%s'", program, registry) : r;
    user = mst_json_string_or(json, "Username", "");
    r = set(credentials, strcmp(user, TOKEN_USER) == 0 ? NULL : user, mst_json_string_or(json, "Secret", ""));
    return r < 0 ? mst_error_set(err, r, "registry: no memory") : 0;
}

static int find(const cJSON *config, const char *registry, struct credentials *credentials,
                struct mst_error *err)
{
    const char *helper = mst_json_string_or(mst_json_at(config, "credHelpers", NULL), registry,
                                            mst_json_string_or(config, "credsStore", ""));
    int r = helper[0] != '\0' ? from_helper(helper, registry, credentials, err) : 0;

    if (r < 0 || credentials->secret)
        return r;
    return from_auths(config, registry, credentials, err);
}

/* Base64 with - and _ (RFC 4648, section 5), padded, as docker sends it. */
static int pack(const struct credentials *credentials, const char *registry, char **ret_line)
{
    struct build build = {0};
    mst_cleanup(mst_json_deletep) cJSON *json = build_object(&build, NULL, NULL),
                                        *packed = build_object(&build, NULL, NULL);
    char *text, *line;

    if (credentials->user) {
        build_text(&build, json, "username", credentials->user);
        build_text(&build, json, "password", credentials->secret);
    } else {
        build_text(&build, json, "identitytoken", credentials->secret);
    }
    build_text(&build, json, "serveraddress", registry);
    text = build.no_memory ? NULL : cJSON_PrintUnformatted(json);
    if (!text)
        return -ENOMEM;
    build_base64(&build, packed, "text", text, strlen(text));
    mst_forget(text, strlen(text));
    free(text);
    line = build.no_memory ? NULL : mst_format("X-Registry-Auth: %s", mst_json_string_or(packed, "text", ""));
    if (!line)
        return -ENOMEM;
    for (char *c = line + sizeof "X-Registry-Auth: " - 1; *c != '\0'; c++)
        *c = *c == '+' ? '-' : *c == '/' ? '_' : *c;
    *ret_line = line;
    return 0;
}

int auth_header(const char *image, char **ret_line, struct mst_error *err)
{
    mst_cleanup(mst_freep) char *folder = engine_docker_folder();
    mst_cleanup(mst_freep) char *path = folder ? mst_path_join(folder, "config.json") : NULL;
    mst_cleanup(mst_buf_release) struct mst_buf text = MST_BUF_INIT(CONFIG_MAX_BYTES);
    mst_cleanup(mst_json_deletep) cJSON *config = NULL;
    mst_cleanup(credentials_release) struct credentials credentials = {0};
    char registry[256];
    int r;

    *ret_line = NULL;
    if (!path || access(path, R_OK) < 0)
        return 0;
    auth_registry(image, registry, sizeof registry);
    r = mst_file_read(path, &text, err);
    if (r >= 0)
        r = mst_json_parse(mst_buf_text(&text), text.count, path, &config, err);
    if (text.bytes)
        mst_forget(text.bytes, text.count);
    if (r < 0)
        return mst_error_wrap(err, r == -EBADMSG ? -EINVAL : r, "docker's configuration");
    r = find(config, registry, &credentials, err);
    if (r < 0 || !credentials.secret)
        return r;
    r = pack(&credentials, registry, ret_line);
    return r < 0 ? mst_error_set(err, r, "registry: no memory") : 0;
}

void auth_free(char *line)
{
    forget(&line);
}

void auth_freep(char **line)
{
    forget(line);
}
