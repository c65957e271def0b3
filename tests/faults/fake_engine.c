/* SPDX-License-Identifier: Apache-2.0 */
#include "fake_engine.h"

#include "muster/cleanup.h"

#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

/* As assert(), in release builds too: the conditions do the work. */
#define must(condition) ((condition) ? (void)0 : give_up(__LINE__, #condition))

#define CONNECTIONS_MAX 32
#define REQUESTS_MAX    4096
#define REQUEST_BYTES   ((size_t)1 << 20)
#define STREAMS_MAX     4

static void give_up(int line, const char *condition)
{
    (void)fprintf(stderr, "fake engine, line %d: not so: %s\n", line, condition);
    abort();
}

struct request {
    char line[640]; /* "POST /services/create" without version and query */
    char *body;
};

struct stream_reply {
    const char *path;
    const void *bytes;
    size_t count;
};

struct fake_engine {
    pthread_mutex_t lock; /* guards all below but the threads' own */
    struct fake_rule *rules;
    size_t rule_count;
    struct request requests[REQUESTS_MAX];
    size_t request_count;
    cJSON *lists; /* {"services": [...], ...} */
    unsigned next_id;
    struct stream_reply streams[STREAMS_MAX];
    size_t stream_count;
    pthread_t thread;
    int listen_fd, stop_fds[2];
    char folder[64], host[128];
};

struct connection {
    int fd;
    char *text; /* what came so far */
    size_t count;
    bool is_silent; /* a FAKE_SILENCE: nothing is answered any more */
};

static void send_all(int fd, const char *bytes, size_t count)
{
    while (count > 0) {
        const ssize_t n = send(fd, bytes, count, MSG_NOSIGNAL);
        if (n <= 0)
            return; /* the client gave up, as some tests want it to */
        bytes += n;
        count -= (size_t)n;
    }
}

static void reply(int fd, int status, const char *type, const void *body, size_t count)
{
    char head[256];
    const int n =
        snprintf(head, sizeof head,
                 "HTTP/1.1 %d Text\r\nApi-Version: 1.43\r\nContent-Type: %s\r\nContent-Length: %zu\r\n\r\n",
                 status, type, count);

    send_all(fd, head, (size_t)n);
    send_all(fd, body, count);
}

static void reply_json(int fd, int status, const cJSON *json)
{
    char *text = cJSON_PrintUnformatted(json);

    must(text);
    reply(fd, status, "application/json", text, strlen(text));
    free(text);
}

static void reply_message(int fd, int status, const char *message)
{
    cJSON *json = cJSON_CreateObject();

    cJSON_AddStringToObject(json, "message", message);
    reply_json(fd, status, json);
    cJSON_Delete(json);
}

static cJSON *list_of(struct fake_engine *fake, const char *path)
{
    char name[32];

    (void)snprintf(name, sizeof name, "%.*s", (int)strcspn(path + 1, "/"), path + 1);
    return cJSON_GetObjectItem(fake->lists, name);
}

static const char *object_name(const cJSON *object)
{
    const cJSON *name = cJSON_GetObjectItem(cJSON_GetObjectItem(object, "Spec"), "Name");

    return cJSON_GetStringValue(name ? name : cJSON_GetObjectItem(object, "Name"));
}

static int find_object(const cJSON *list, const char *id)
{
    const cJSON *object;
    int index = 0;

    cJSON_ArrayForEach(object, list)
    {
        const char *its = cJSON_GetStringValue(cJSON_GetObjectItem(object, "ID"));
        if ((its && strcmp(its, id) == 0) || (object_name(object) && strcmp(object_name(object), id) == 0))
            return index;
        index++;
    }
    return -1;
}

static void create_object(struct fake_engine *fake, cJSON *list, const char *body, bool is_network, int fd)
{
    cJSON *spec = cJSON_Parse(body), *object, *answer = cJSON_CreateObject();
    const char *name = cJSON_GetStringValue(cJSON_GetObjectItem(spec, "Name"));
    char id[32];

    must(spec && name);
    if (find_object(list, name) >= 0) {
        reply_message(fd, 409, "name conflicts with an existing object");
        cJSON_Delete(spec);
        cJSON_Delete(answer);
        return;
    }
    (void)snprintf(id, sizeof id, "id%u", ++fake->next_id);
    if (is_network) {
        object = spec; /* networks have no Spec around them */
        if (!cJSON_GetObjectItem(cJSON_GetObjectItem(object, "IPAM"), "Config"))
            cJSON_AddItemToObject(object, "IPAM", cJSON_Parse("{\"Config\":[{\"Subnet\":\"10.0.1.0/24\"}]}"));
    } else {
        object = cJSON_CreateObject();
        cJSON_AddItemToObject(object, "Spec", spec);
        cJSON_AddNumberToObject(cJSON_AddObjectToObject(object, "Version"), "Index", 7);
    }
    cJSON_AddStringToObject(object, "ID", id);
    cJSON_AddStringToObject(object, "Id", id);
    cJSON_AddItemToArray(list, object);
    cJSON_AddStringToObject(answer, "ID", id);
    cJSON_AddStringToObject(answer, "Id", id);
    if (fd >= 0)
        reply_json(fd, 201, answer);
    cJSON_Delete(answer);
}

static const char *const info =
    "{\"Name\":\"fake1\",\"ServerVersion\":\"0.0\",\"Swarm\":{\"NodeID\":\"n1\","
    "\"ControlAvailable\":true,\"LocalNodeState\":\"active\",\"NodeAddr\":\"10.1.1.1\"}}";
static const char *const nodes =
    "[{\"ID\":\"n1\",\"Spec\":{\"Role\":\"manager\",\"Availability\":\"active\"},"
    "\"Description\":{\"Hostname\":\"fake1\"},\"Status\":{\"State\":\"ready\","
    "\"Addr\":\"10.1.1.1\"}}]";

static bool is_content(const char *path)
{
    return strncmp(path, "/secrets/", 9) == 0 || strncmp(path, "/configs/", 9) == 0;
}

/* As swarmkit: content first, then the version. */
static void update_object(cJSON *object, const char *path, const char *version, const char *body, int fd)
{
    cJSON *index = cJSON_GetObjectItem(cJSON_GetObjectItem(object, "Version"), "Index");
    cJSON *spec = cJSON_Parse(body), *old = cJSON_GetObjectItem(object, "Spec"), *copy;
    const char *data = cJSON_GetStringValue(cJSON_GetObjectItem(spec, "Data"));
    const char *live = cJSON_GetStringValue(cJSON_GetObjectItem(old, "Data"));

    must(spec);
    if (is_content(path) && data && (!live || strcmp(data, live) != 0)) {
        reply_message(fd, 400, "rpc error: code = InvalidArgument desc = only updates to Labels are allowed");
    } else if (index && strtoul(version, NULL, 10) != (unsigned long)index->valueint) {
        reply_message(fd, 500, "rpc error: code = Unknown desc = update out of sequence");
    } else {
        if (index)
            cJSON_SetNumberValue(index, index->valueint + 1);
        if (is_content(path)) {
            copy = cJSON_Duplicate(cJSON_GetObjectItem(spec, "Labels"), true);
            cJSON_DeleteItemFromObject(old, "Labels");
            cJSON_AddItemToObject(old, "Labels", copy ? copy : cJSON_CreateObject());
        } else if (old) {
            cJSON_DeleteItemFromObject(object, "PreviousSpec");
            cJSON_AddItemToObject(object, "PreviousSpec", cJSON_DetachItemViaPointer(object, old));
            cJSON_AddItemToObject(object, "Spec", cJSON_Duplicate(spec, true));
        }
        reply(fd, 200, "application/json", "{}", 2);
    }
    cJSON_Delete(spec);
}

/* A request on an object: /services/{id}, /services/{id}/update */
static void serve_object(cJSON *list, const char *method, const char *path, const char *version,
                         const char *body, int fd)
{
    char id[128];
    const char *at = strchr(path + 1, '/') + 1;
    int index;

    (void)snprintf(id, sizeof id, "%.*s", (int)strcspn(at, "/"), at);
    index = find_object(list, id);
    if (index < 0) {
        reply_message(fd, 404, "no such object");
    } else if (strcmp(method, "DELETE") == 0) {
        cJSON_DeleteItemFromArray(list, index);
        reply(fd, 204, "text/plain", "", 0);
    } else if (strcmp(method, "POST") == 0) {
        update_object(cJSON_GetArrayItem(list, index), path, version, body, fd);
    } else {
        reply_json(fd, 200, cJSON_GetArrayItem(list, index));
    }
}

static bool serve_stream(struct fake_engine *fake, const char *path, int fd)
{
    for (size_t i = 0; i < fake->stream_count; i++) {
        if (strcmp(fake->streams[i].path, path) == 0) {
            reply(fd, 200, "application/octet-stream", fake->streams[i].bytes, fake->streams[i].count);
            return true;
        }
    }
    return false;
}

/* What a healthy engine says. fd -1: do it, and say nothing. */
static void serve(struct fake_engine *fake, const char *method, const char *path, const char *version,
                  const char *body, int fd)
{
    cJSON *list = list_of(fake, path);
    const char *rest = strchr(path + 1, '/');

    if (strcmp(path, "/_ping") == 0)
        reply(fd, 200, "text/plain", "OK", 2);
    else if (strcmp(path, "/info") == 0)
        reply(fd, 200, "application/json", info, strlen(info));
    else if (strcmp(path, "/nodes") == 0)
        reply(fd, 200, "application/json", nodes, strlen(nodes));
    else if (serve_stream(fake, path, fd))
        return;
    else if (!list)
        reply_message(fd, 404, "page not found");
    else if (!rest)
        reply_json(fd, 200, list);
    else if (strcmp(rest, "/create") == 0)
        create_object(fake, list, body, strncmp(path, "/networks", 9) == 0, fd);
    else
        serve_object(list, method, path, version, body, fd);
}

static bool path_matches(const char *pattern, const char *path)
{
    const size_t bytes = strlen(pattern);

    return pattern[bytes - 1] == '*' ? strncmp(pattern, path, bytes - 1) == 0 : strcmp(pattern, path) == 0;
}

static const struct fake_rule *find_rule(struct fake_engine *fake, const char *method, const char *path)
{
    for (size_t i = 0; i < fake->rule_count; i++) {
        struct fake_rule *rule = &fake->rules[i];
        const unsigned first = rule->first > 0 ? rule->first : 1;
        if (strcmp(rule->method, method) != 0 || !path_matches(rule->path, path))
            continue;
        rule->seen++;
        if (rule->seen >= first && (rule->count == 0 || rule->seen < first + rule->count))
            return rule;
    }
    return NULL;
}

static void send_huge(int fd)
{
    static const char head[] =
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n";
    static char chunk[65536 + 9];
    int n = snprintf(chunk, 8, "10000\r\n");

    memset(chunk + n, '[', 65536);
    memcpy(chunk + n + 65536, "\r\n", 2);
    send_all(fd, head, sizeof head - 1);
    for (;;) {
        if (send(fd, chunk, (size_t)n + 65538, MSG_NOSIGNAL) <= 0)
            return;
    }
}

static void do_fault(struct fake_engine *fake, const struct fake_rule *rule, const char *method,
                     const char *path, const char *body, struct connection *connection)
{
    static const char half[] =
        "HTTP/1.1 201 Created\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{\"ID\":";
    char head[256];

    switch (rule->fault) {
    case FAKE_REFUSE:
        reply_message(connection->fd, rule->status, rule->text);
        break;
    case FAKE_REPLY:
        reply(connection->fd, rule->status, "application/json", rule->text, strlen(rule->text));
        break;
    case FAKE_CUT:
        if (strcmp(method, "POST") == 0)
            serve(fake, method, path, "", body, -1);
        send_all(connection->fd, half, sizeof half - 1);
        (void)shutdown(connection->fd, SHUT_RDWR);
        break;
    case FAKE_CLOSE:
        (void)shutdown(connection->fd, SHUT_RDWR);
        break;
    case FAKE_SILENCE:
        connection->is_silent = true;
        break;
    case FAKE_HUGE:
        send_huge(connection->fd);
        (void)shutdown(connection->fd, SHUT_RDWR);
        break;
    case FAKE_REDIRECT:
        (void)snprintf(head, sizeof head, "HTTP/1.1 302 Found\r\nLocation: %s\r\nContent-Length: 0\r\n\r\n",
                       rule->text);
        send_all(connection->fd, head, strlen(head));
        break;
    }
}

static void handle(struct fake_engine *fake, char *text, const char *body, struct connection *connection)
{
    struct request *request = &fake->requests[fake->request_count];
    char method[8], target[512], version[32] = "";
    const char *path = target, *at;
    const struct fake_rule *rule;

    must(fake->request_count < REQUESTS_MAX);
    must(sscanf(text, "%7s %511s", method, target) == 2);
    at = strstr(target, "version=");
    if (at)
        (void)snprintf(version, sizeof version, "%.20s", at + 8);
    target[strcspn(target, "?")] = '\0';
    if (strncmp(path, "/v1.", 4) == 0)
        path = strchr(path + 1, '/');
    (void)snprintf(request->line, sizeof request->line, "%s %s", method, path);
    request->body = strdup(body);
    fake->request_count++;
    rule = find_rule(fake, method, path);
    if (rule)
        do_fault(fake, rule, method, path, body, connection);
    else
        serve(fake, method, path, version, body, connection->fd);
}

/* Whole requests out of what came; the rest waits. */
static void take_requests(struct fake_engine *fake, struct connection *connection)
{
    for (;;) {
        char *end = connection->count > 0 ? strstr(connection->text, "\r\n\r\n") : NULL;
        char *length_text, *body;
        size_t length = 0, all;
        char kept;

        if (!end || connection->is_silent)
            return;
        *end = '\0';
        length_text = strcasestr(connection->text, "content-length:");
        if (length_text)
            length = strtoul(length_text + 15, NULL, 10);
        *end = '\r';
        body = end + 4;
        all = (size_t)(body - connection->text) + length;
        if (connection->count < all)
            return;
        kept = body[length];
        body[length] = '\0';
        pthread_mutex_lock(&fake->lock);
        handle(fake, connection->text, body, connection);
        pthread_mutex_unlock(&fake->lock);
        body[length] = kept;
        memmove(connection->text, connection->text + all, connection->count - all + 1);
        connection->count -= all;
    }
}

static bool receive(struct connection *connection)
{
    const ssize_t n =
        recv(connection->fd, connection->text + connection->count, REQUEST_BYTES - connection->count, 0);

    if (n <= 0)
        return false;
    connection->count += (size_t)n;
    connection->text[connection->count] = '\0';
    return true;
}

static void *run(void *context)
{
    struct fake_engine *fake = context;
    struct connection connections[CONNECTIONS_MAX];
    size_t count = 0;

    for (;;) {
        struct pollfd fds[CONNECTIONS_MAX + 2] = {{fake->stop_fds[0], POLLIN, 0},
                                                  {fake->listen_fd, POLLIN, 0}};
        for (size_t i = 0; i < count; i++)
            fds[i + 2] = (struct pollfd){connections[i].fd, POLLIN, 0};
        must(poll(fds, (nfds_t)count + 2, -1) > 0);
        if (fds[0].revents)
            break;
        for (size_t i = count; i > 0; i--) {
            struct connection *connection = &connections[i - 1];
            if (!fds[i + 1].revents)
                continue;
            if (receive(connection)) {
                take_requests(fake, connection);
                continue;
            }
            (void)close(connection->fd);
            free(connection->text);
            connections[i - 1] = connections[--count];
            fds[i + 1] = fds[count + 2];
        }
        if (fds[1].revents) {
            must(count < CONNECTIONS_MAX);
            connections[count] = (struct connection){.fd = accept4(fake->listen_fd, NULL, NULL, SOCK_CLOEXEC),
                                                     .text = calloc(1, REQUEST_BYTES + 1)};
            must(connections[count].fd >= 0 && connections[count].text);
            count++;
        }
    }
    while (count > 0) {
        (void)close(connections[--count].fd);
        free(connections[count].text);
    }
    return NULL;
}

struct fake_engine *fake_engine_start(struct fake_rule *rules, size_t rule_count)
{
    struct fake_engine *fake = calloc(1, sizeof *fake);
    struct sockaddr_un address = {.sun_family = AF_UNIX};

    must(fake);
    (void)pthread_mutex_init(&fake->lock, NULL);
    fake->rules = rules;
    fake->rule_count = rule_count;
    fake->lists = cJSON_Parse("{\"services\":[],\"networks\":[],\"secrets\":[],\"configs\":[],\"tasks\":[]}");
    (void)snprintf(fake->folder, sizeof fake->folder, "/tmp/fake-engine-XXXXXX");
    must(mkdtemp(fake->folder));
    (void)snprintf(address.sun_path, sizeof address.sun_path, "%s/s", fake->folder);
    (void)snprintf(fake->host, sizeof fake->host, "unix://%s/s", fake->folder);
    fake->listen_fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    must(bind(fake->listen_fd, (const struct sockaddr *)&address, sizeof address) == 0);
    must(listen(fake->listen_fd, 16) == 0 && pipe(fake->stop_fds) == 0);
    must(pthread_create(&fake->thread, NULL, run, fake) == 0);
    return fake;
}

void fake_engine_stop(struct fake_engine *fake)
{
    char path[128];

    must(write(fake->stop_fds[1], "", 1) == 1);
    (void)pthread_join(fake->thread, NULL);
    (void)close(fake->listen_fd);
    (void)close(fake->stop_fds[0]);
    (void)close(fake->stop_fds[1]);
    (void)snprintf(path, sizeof path, "%s/s", fake->folder);
    (void)unlink(path);
    (void)rmdir(fake->folder);
    for (size_t i = 0; i < fake->request_count; i++)
        free(fake->requests[i].body);
    cJSON_Delete(fake->lists);
    (void)pthread_mutex_destroy(&fake->lock);
    free(fake);
}

void fake_engine_rules(struct fake_engine *fake, struct fake_rule *rules, size_t rule_count)
{
    pthread_mutex_lock(&fake->lock);
    fake->rules = rules;
    fake->rule_count = rule_count;
    pthread_mutex_unlock(&fake->lock);
}

const char *fake_engine_host(const struct fake_engine *fake)
{
    return fake->host;
}

size_t fake_engine_count(struct fake_engine *fake, const char *begin)
{
    size_t count = 0;

    pthread_mutex_lock(&fake->lock);
    for (size_t i = 0; i < fake->request_count; i++)
        count += strncmp(fake->requests[i].line, begin, strlen(begin)) == 0;
    pthread_mutex_unlock(&fake->lock);
    return count;
}

cJSON *fake_engine_body(struct fake_engine *fake, const char *begin)
{
    cJSON *json = NULL;

    pthread_mutex_lock(&fake->lock);
    for (size_t i = fake->request_count; i > 0 && !json; i--) {
        if (strncmp(fake->requests[i - 1].line, begin, strlen(begin)) == 0)
            json = cJSON_Parse(fake->requests[i - 1].body);
    }
    pthread_mutex_unlock(&fake->lock);
    return json;
}

size_t fake_engine_objects(struct fake_engine *fake, const char *list)
{
    size_t count;

    pthread_mutex_lock(&fake->lock);
    count = (size_t)cJSON_GetArraySize(cJSON_GetObjectItem(fake->lists, list));
    pthread_mutex_unlock(&fake->lock);
    return count;
}

void fake_engine_add(struct fake_engine *fake, const char *list, const char *json)
{
    cJSON *object = cJSON_Parse(json);

    must(object);
    pthread_mutex_lock(&fake->lock);
    cJSON_AddItemToArray(cJSON_GetObjectItem(fake->lists, list), object);
    pthread_mutex_unlock(&fake->lock);
}

void fake_engine_stream(struct fake_engine *fake, const char *path, const void *bytes, size_t count)
{
    pthread_mutex_lock(&fake->lock);
    must(fake->stream_count < STREAMS_MAX);
    fake->streams[fake->stream_count++] = (struct stream_reply){path, bytes, count};
    pthread_mutex_unlock(&fake->lock);
}

void fake_engine_frame(struct mst_buf *log, unsigned char stream, const char *second, const char *task,
                       const char *text)
{
    mst_cleanup(mst_buf_release) struct mst_buf line = MST_BUF_INIT(65536);
    unsigned char header[8] = {stream};

    must(mst_buf_printf(&line,
                        "2026-01-01T00:00:%s.000000000Z com.docker.swarm.node.id=n1,"
                        "com.docker.swarm.service.id=s,com.docker.swarm.task.id=%s %s",
                        second, task, text) == 0);
    header[6] = (unsigned char)(line.count >> 8);
    header[7] = (unsigned char)line.count;
    must(mst_buf_append(log, header, sizeof header) == 0);
    must(mst_buf_append(log, line.bytes, line.count) == 0);
}
