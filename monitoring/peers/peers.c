/* SPDX-License-Identifier: Apache-2.0 */
/* Where the monitors are. */
#include "muster/cleanup.h"
#include "muster/clock.h"
#include "muster/discovery.h"
#include "muster/file.h"
#include "muster/net.h"
#include "peers_private.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FILE_MAX_BYTES        ((size_t)1 << 20)
#define CREDENTIALS_MAX_BYTES ((size_t)1024)
#define LOOKUP_MS             2000
#define BLANKS                " \t\r"

/* ---- one place ---- */

static void free_url(CURLU **url)
{
    curl_url_cleanup(*url);
}

static bool get(CURLU *url, CURLUPart part, char *text, size_t capacity)
{
    char *value = NULL;
    const bool is_there = curl_url_get(url, part, &value, 0) == CURLUE_OK;
    const int n = is_there ? snprintf(text, capacity, "%s", value) : 0;

    curl_free(value);
    if (!is_there)
        text[0] = '\0';
    return is_there && n >= 0 && (size_t)n < capacity;
}

static bool has(CURLU *url, CURLUPart part)
{
    char text[8];
    (void)get(url, part, text, sizeof text);
    return text[0] != '\0';
}

int peers_place_parse(const char *text, struct peers_place *ret_place, struct mst_error *err)
{
    mst_cleanup(free_url) CURLU *url = curl_url();
    char full[PEERS_URL_BYTES], scheme[16], path[PEERS_URL_BYTES];
    struct peers_place place = {0};
    const bool is_plain = !strstr(text, "://");

    if (!url)
        return mst_error_set(err, -ENOMEM, "'%.64s': no memory", text);
    if (snprintf(full, sizeof full, "%s%s", is_plain ? "http://" : "", text) >= (int)sizeof full - 16 ||
        curl_url_set(url, CURLUPART_URL, full, 0) != CURLUE_OK ||
        !get(url, CURLUPART_SCHEME, scheme, sizeof scheme) ||
        !get(url, CURLUPART_HOST, place.host, sizeof place.host) || strpbrk(text, " \t\"<>\\{}"))
        return mst_error_set(err, -EINVAL,
                             "'%.64s': expected http://HOST:PORT, https://HOST:PORT or tasks.SERVICE:PORT",
                             text);
    if (strcmp(scheme, "http") != 0 && strcmp(scheme, "https") != 0)
        return mst_error_set(err, -EINVAL, "'%.64s': only http and https are spoken", text);
    if (has(url, CURLUPART_USER) || has(url, CURLUPART_PASSWORD))
        return mst_error_set(err, -EINVAL, "'%.20s...': users and passwords come from a file", scheme);
    if (has(url, CURLUPART_QUERY) || has(url, CURLUPART_FRAGMENT))
        return mst_error_set(err, -EINVAL, "'%.64s': an URL without '?' and '#' is expected", text);
    if (!get(url, CURLUPART_PORT, place.port, sizeof place.port))
        (void)snprintf(place.port, sizeof place.port, "%s", is_plain ? PEERS_PORT : scheme[4] ? "443" : "80");
    (void)get(url, CURLUPART_PATH, path, sizeof path);
    while (path[0] != '\0' && path[strlen(path) - 1] == '/')
        path[strlen(path) - 1] = '\0';
    place.is_service = strncmp(place.host, "tasks.", 6) == 0 && place.host[6] != '\0';
    if (snprintf(place.url, sizeof place.url, "%s://%s:%s%s", scheme, place.host, place.port, path) >=
        (int)sizeof place.url)
        return mst_error_set(err, -EINVAL, "'%.64s...': longer than %d bytes", text, PEERS_URL_BYTES - 16);
    *ret_place = place;
    return 0;
}

int peers_check(const char *where, struct mst_error *err)
{
    struct peers_place place;

    return peers_place_parse(where, &place, err);
}

/* ---- what was given ---- */

static int add_place(struct peers *peers, const struct peers_place *place, struct mst_error *err)
{
    struct peers_place *places;

    if (peers->place_count >= PEERS_MAX)
        return mst_error_set(err, -EINVAL, "more than %d monitors", PEERS_MAX);
    places = reallocarray(peers->places, peers->place_count + 1, sizeof *places);
    if (!places)
        return mst_error_set(err, -ENOMEM, "monitors: no memory");
    peers->places = places;
    peers->places[peers->place_count++] = *place;
    return 0;
}

/* A word of the line; false when there is none, or it is too long. */
static bool take_word(const char **line, char *word, size_t capacity)
{
    const char *at = *line + strspn(*line, BLANKS);
    const size_t bytes = strcspn(at, BLANKS "\n");

    *line = at + bytes;
    if (bytes == 0 || bytes >= capacity)
        return false;
    memcpy(word, at, bytes);
    word[bytes] = '\0';
    return true;
}

static int take_line(struct peers *peers, const char *line, const char *name, unsigned number,
                     struct mst_error *err)
{
    char where[PEERS_URL_BYTES], node[PEERS_NAME_BYTES], link[PEERS_URL_BYTES] = "";
    struct peers_place place;
    int r;

    line += strspn(line, BLANKS);
    if (*line == '#' || *line == '\n' || *line == '\0')
        return 0;
    if (!take_word(&line, node, sizeof node) || !take_word(&line, where, sizeof where))
        return mst_error_set(err, -EBADMSG,
                             "%s:%u: expected a node's name and its monitor ('node2 http://node2:8080')",
                             name, number);
    (void)take_word(&line, link, sizeof link);
    line += strspn(line, BLANKS);
    if (*line != '\n' && *line != '\0')
        return mst_error_set(err, -EBADMSG,
                             "%s:%u: a name, a monitor and perhaps a link are expected, not more", name,
                             number);
    r = peers_place_parse(where, &place, err);
    if (r < 0)
        return mst_error_wrap(err, r == -EINVAL ? -EBADMSG : r, "%s:%u", name, number);
    if (link[0] != '\0' && strncmp(link, "http://", 7) != 0 && strncmp(link, "https://", 8) != 0)
        return mst_error_set(err, -EBADMSG, "%s:%u: the link '%.64s' is no http:// or https:// URL", name,
                             number, link);
    for (size_t i = 0; i < peers->place_count; i++) {
        if (strcmp(peers->places[i].name, node) == 0)
            return mst_error_set(err, -EBADMSG, "%s:%u: node '%s' stands twice", name, number, node);
    }
    (void)snprintf(place.name, sizeof place.name, "%s", node);
    (void)snprintf(place.link, sizeof place.link, "%s", link);
    r = add_place(peers, &place, err);
    return r < 0 ? mst_error_wrap(err, r == -EINVAL ? -EBADMSG : r, "%s:%u", name, number) : 0;
}

static int read_file(struct peers *peers, const char *path, struct mst_error *err)
{
    mst_cleanup(mst_buf_release) struct mst_buf text = MST_BUF_INIT(FILE_MAX_BYTES);
    int r = mst_file_read(path, &text, err);
    const char *at = mst_buf_text(&text);
    const size_t before = peers->place_count;

    for (unsigned number = 1; *at != '\0' && r >= 0; number++) {
        r = take_line(peers, at, path, number, err);
        at += strcspn(at, "\n");
        at += *at == '\n';
    }
    if (r >= 0 && peers->place_count == before)
        r = mst_error_set(err, -EBADMSG, "%s: it names no node", path);
    return r;
}

static int read_credentials(struct peers *peers, const char *path, struct mst_error *err)
{
    mst_cleanup(mst_buf_release) struct mst_buf text = MST_BUF_INIT(CREDENTIALS_MAX_BYTES);
    int r = mst_file_read(path, &text, err);
    const char *line = mst_buf_text(&text), *colon = strchr(line, ':');
    const size_t bytes = strcspn(line, "\r\n");

    if (r < 0)
        return r;
    if (!colon || colon == line || (size_t)(colon - line) >= bytes ||
        line[bytes + strspn(line + bytes, "\r\n")])
        r = mst_error_set(err, -EBADMSG, "%s: expected one line USER:PASSWORD",
                          path); /* never what is there */
    if (r >= 0) {
        peers->user = strndup(line, (size_t)(colon - line));
        peers->password = strndup(colon + 1, bytes - (size_t)(colon - line) - 1);
        if (!peers->user || !peers->password)
            r = mst_error_set(err, -ENOMEM, "%s: no memory", path);
    }
    explicit_bzero(text.bytes, text.count);
    return r;
}

/* libcurl would only say so at each node. */
static int check_pem(const char *path, struct mst_error *err)
{
    mst_cleanup(mst_closep) int fd = -1;

    return path ? mst_file_open(path, &fd, err) : 0;
}

static void start_curl(void)
{
    (void)curl_global_init(CURL_GLOBAL_DEFAULT); /* a failure shows as curl_multi_init() returning NULL */
}

int peers_new(const struct peers_options *options, struct peers **ret_peers, struct mst_error *err)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    mst_cleanup(peers_freep) struct peers *peers = calloc(1, sizeof *peers);
    int r = 0;

    (void)pthread_once(&once, start_curl);
    if (peers)
        peers->nodes = calloc(PEERS_MAX, sizeof *peers->nodes);
    if (peers)
        peers->multi = curl_multi_init();
    if (!peers || !peers->nodes || !peers->multi)
        return mst_error_set(err, -ENOMEM, "monitors: no memory");
    peers->options = options;
    for (size_t i = 0; r >= 0 && options->where && options->where[i]; i++) {
        struct peers_place place;
        r = peers_place_parse(options->where[i], &place, err);
        if (r >= 0)
            r = add_place(peers, &place, err);
    }
    if (r >= 0 && options->file)
        r = read_file(peers, options->file, err);
    if (r >= 0 && options->credentials)
        r = read_credentials(peers, options->credentials, err);
    if (r >= 0)
        r = check_pem(options->ca, err);
    if (r >= 0)
        r = check_pem(options->certificate, err);
    if (r >= 0)
        r = check_pem(options->key, err);
    if (r >= 0 && !options->certificate != !options->key)
        r = mst_error_set(err, -EINVAL,
                          "a client's certificate and its key are given together or not at all");
    if (r < 0)
        return r;
    *ret_peers = peers;
    peers = NULL;
    return 0;
}

void peers_free(struct peers *peers)
{
    if (!peers)
        return;
    if (peers->multi)
        (void)curl_multi_cleanup(peers->multi);
    if (peers->password)
        explicit_bzero(peers->password, strlen(peers->password));
    free(peers->password);
    free(peers->user);
    free(peers->places);
    free(peers->nodes);
    free(peers);
}

void peers_freep(struct peers **peers)
{
    peers_free(*peers);
    *peers = NULL;
}

/* ---- looking names up ---- */

static void free_lookup(struct discovery_lookup **lookup)
{
    discovery_lookup_free(*lookup);
}

void peers_link(const struct peers_node *node, const char *pattern, char link[static PEERS_URL_BYTES])
{
    const char *place = strstr(pattern, "{node}");

    link[0] = '\0';
    if (place)
        (void)snprintf(link, PEERS_URL_BYTES, "%.*s%s%s", (int)(place - pattern), pattern, node->name,
                       place + sizeof "{node}" - 1);
}

static struct peers_node *add_node(struct peers *peers, const struct peers_place *place)
{
    struct peers_node *node = peers->count < PEERS_MAX ? &peers->nodes[peers->count++] : NULL;

    if (!node)
        return NULL;
    *node = (struct peers_node){.has_name = place->name[0] != '\0'};
    (void)snprintf(node->name, sizeof node->name, "%s", place->name[0] ? place->name : place->host);
    (void)snprintf(node->url, sizeof node->url, "%s", place->url);
    (void)snprintf(node->link, sizeof node->link, "%s", place->link);
    return node;
}

static int by_address(const void *a, const void *b)
{
    const uint32_t left = *(const uint32_t *)a, right = *(const uint32_t *)b;

    return (left > right) - (left < right);
}

/* One node for each task. They keep the URL's host: a certificate is the service's, not an address's. */
static int add_tasks(struct peers *peers, const struct peers_place *place, struct mst_error *err)
{
    mst_cleanup(free_lookup) struct discovery_lookup *lookup = NULL;
    mst_cleanup(mst_freep) uint32_t *sorted = NULL;
    struct mst_error fault = MST_ERROR_INIT;
    const uint32_t *found = NULL;
    size_t count = 0;
    int r = discovery_lookup_new(place->host, mst_now_ns() + LOOKUP_MS * MST_NS_PER_MS, &lookup, &fault);

    if (r >= 0)
        r = discovery_lookup_run(lookup, &fault);
    if (r >= 0)
        found = discovery_lookup_result(lookup, &count);
    if (r == -ENOMEM)
        return mst_error_set(err, r, "%s", fault.text);
    if (count == 0) {
        struct peers_node *node = add_node(peers, place);
        if (!node)
            return mst_error_set(err, -E2BIG, "more than %d monitors", PEERS_MAX);
        (void)snprintf(node->fault, sizeof node->fault, "%s",
                       r < 0 ? fault.text : "the name has no addresses: no task runs");
        return 0;
    }
    sorted = reallocarray(NULL, count, sizeof *sorted);
    if (!sorted)
        return mst_error_set(err, -ENOMEM, "%s: no memory", place->host);
    memcpy(sorted, found, count * sizeof *sorted);
    qsort(sorted, count, sizeof *sorted, by_address);
    for (size_t i = 0; i < count; i++) {
        struct peers_node *node = add_node(peers, place);
        if (!node)
            return mst_error_set(err, -E2BIG, "more than %d monitors", PEERS_MAX);
        (void)mst_ipv4_text(sorted[i], node->address);
        if (count > 1 || !node->has_name)
            (void)snprintf(node->name, sizeof node->name, "%s", node->address);
        node->has_name = node->has_name && count == 1;
    }
    return 0;
}

int peers_find(struct peers *peers, struct mst_error *err)
{
    peers->count = 0;
    for (size_t i = 0; i < peers->place_count; i++) {
        const int r = peers->places[i].is_service ? add_tasks(peers, &peers->places[i], err)
                      : add_node(peers, &peers->places[i])
                          ? 0
                          : mst_error_set(err, -E2BIG, "more than %d monitors", PEERS_MAX);
        if (r < 0)
            return r;
    }
    for (size_t i = 0; peers->options->link && i < peers->count; i++) {
        if (peers->nodes[i].link[0] == '\0' && peers->nodes[i].has_name)
            peers_link(&peers->nodes[i], peers->options->link, peers->nodes[i].link);
    }
    return 0;
}

const struct peers_node *peers_nodes(const struct peers *peers, size_t *ret_count)
{
    *ret_count = peers->count;
    return peers->nodes;
}
