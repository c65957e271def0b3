/* SPDX-License-Identifier: Apache-2.0 */
/* Nodes that answer, and nodes that do not: a scripted server on 127.0.0.1 whose reply depends on the path.
 */
#include "../common/test.h"
#include "muster/clock.h"
#include "muster/net.h"
#include "muster/peers.h"

#include <poll.h>
#include <pthread.h>
#include <sys/socket.h>

#define PATIENCE_MS 20000 /* of what must come */
#define SHORT_MS    300   /* of what will not */
#define MAX_BYTES   4096
#define OPEN_MAX    64

struct server {
    int listen_fd;
    uint16_t port;
    int stop_fds[2];
    pthread_t thread;
    int open[OPEN_MAX]; /* connections that are left without an answer */
    size_t open_count;
};

static void say(int fd, const char *text)
{
    size_t count = strlen(text);

    while (count > 0) {
        const ssize_t n = send(fd, text, count, MSG_NOSIGNAL);
        if (n <= 0)
            return; /* the client had enough */
        text += n;
        count -= (size_t)n;
    }
}

static void say_endless(int fd)
{
    static const char line[] = "a{k=\"0123456789012345678901234567890123456789\"} 1\n";

    say(fd, "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n");
    while (send(fd, line, sizeof line - 1, MSG_NOSIGNAL) > 0)
        ;
}

/* Of "secret" for "user". */
#define BASIC "Authorization: Basic dXNlcjpzZWNyZXQ="

static bool serve(int fd)
{
    char request[8192];
    size_t count = 0;

    request[0] = '\0';
    while (!strstr(request, "\r\n\r\n") && count + 1 < sizeof request) {
        const ssize_t n = recv(fd, request + count, sizeof request - 1 - count, 0);
        if (n <= 0)
            return true;
        count += (size_t)n;
        request[count] = '\0';
    }
    if (strncmp(request, "GET /ok/metrics ", 16) == 0)
        say(fd, "HTTP/1.1 200 OK\r\nContent-Length: 4\r\nConnection: close\r\n\r\na 1\n");
    else if (strncmp(request, "GET /user/metrics ", 18) == 0 && strstr(request, BASIC))
        say(fd, "HTTP/1.1 200 OK\r\nContent-Length: 4\r\nConnection: close\r\n\r\nb 2\n");
    else if (strncmp(request, "GET /user/", 10) == 0)
        say(fd, "HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    else if (strncmp(request, "GET /away/", 10) == 0)
        say(fd,
            "HTTP/1.1 302 Found\r\nLocation: /ok/metrics\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    else if (strncmp(request, "GET /cut/", 9) == 0)
        say(fd, "HTTP/1.1 200 OK\r\nContent-Length: 400\r\nConnection: close\r\n\r\na 1\n");
    else if (strncmp(request, "GET /rubbish/", 13) == 0)
        say(fd, "\001\002\003\r\n\r\n");
    else if (strncmp(request, "GET /bomb/", 10) == 0)
        say(fd, "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 4\r\nConnection: "
                "close\r\n\r\nnope");
    else if (strncmp(request, "GET /endless/", 13) == 0)
        say_endless(fd);
    else if (strncmp(request, "GET /silent/", 12) == 0)
        return false;
    else
        say(fd, "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    return true;
}

static void *run(void *context)
{
    struct server *server = context;

    for (;;) {
        struct pollfd fds[] = {{server->stop_fds[0], POLLIN, 0}, {server->listen_fd, POLLIN, 0}};
        int fd;
        if (poll(fds, 2, -1) < 0 || fds[0].revents != 0)
            return NULL;
        fd = accept4(server->listen_fd, NULL, NULL, SOCK_CLOEXEC);
        if (fd < 0)
            continue;
        if (serve(fd) || server->open_count == OPEN_MAX)
            (void)close(fd);
        else
            server->open[server->open_count++] = fd;
    }
}

static int start(void **state)
{
    struct server *server = calloc(1, sizeof *server);

    *state = server;
    if (!server || pipe2(server->stop_fds, O_CLOEXEC) < 0 ||
        mst_tcp_listen(0x7f000001, 0, 64, &server->listen_fd, &server->port, NULL) < 0)
        return -1;
    return pthread_create(&server->thread, NULL, run, server) == 0 ? 0 : -1;
}

static int end(void **state)
{
    struct server *server = *state;

    if (write(server->stop_fds[1], "x", 1) != 1 || pthread_join(server->thread, NULL) != 0)
        return -1;
    for (size_t i = 0; i < server->open_count; i++)
        (void)close(server->open[i]);
    (void)close(server->listen_fd);
    (void)close(server->stop_fds[0]);
    (void)close(server->stop_fds[1]);
    free(server);
    return 0;
}

/* One place that is asked once. The answer is the caller's. */
static struct peers_answer *ask(const struct server *server, const char *prefix, uint32_t timeout_ms)
{
    char url[128];
    const char *const where[] = {url, NULL};
    const struct peers_options options = {.where = where};
    mst_cleanup(peers_freep) struct peers *peers = NULL;
    struct peers_answer *answers = NULL;

    (void)snprintf(url, sizeof url, "http://127.0.0.1:%u%s", (unsigned)server->port, prefix);
    assert_int_equal(peers_new(&options, &peers, NULL), 0);
    assert_int_equal(peers_find(peers, NULL), 0);
    assert_int_equal(peers_ask(peers, "/metrics", timeout_ms, MAX_BYTES, -1, &answers, NULL), 0);
    return answers;
}

static void what_goes_wrong_is_said(void **state)
{
    static const struct {
        const char *prefix;
        int code;
        const char *fault;
        uint32_t timeout_ms;
    } cases[] = {
        {"/ok", 0, "", PATIENCE_MS},
        {"/user", -EREMOTEIO, "status 401: it wants a user", PATIENCE_MS},
        {"/away", -EREMOTEIO, "status 302", PATIENCE_MS},
        {"/other", -EREMOTEIO, "status 404: not a monitor", PATIENCE_MS},
        {"/cut", -EHOSTUNREACH, "", PATIENCE_MS},
        {"/rubbish", -EHOSTUNREACH, "", PATIENCE_MS},
        {"/bomb", -EHOSTUNREACH, "", PATIENCE_MS},
        {"/endless", -EFBIG, "more than 4096 bytes", PATIENCE_MS},
        {"/silent", -ETIMEDOUT, "no answer in 300 ms", SHORT_MS},
    };
    const struct server *server = *state;

    for (size_t i = 0; i < MST_ARRAY_COUNT(cases); i++) {
        struct peers_answer *answer = ask(server, cases[i].prefix, cases[i].timeout_ms);
        if (answer->code != cases[i].code || !strstr(answer->fault, cases[i].fault) ||
            (answer->code < 0 && answer->fault[0] == '\0'))
            fail_msg("%s: %d, '%s'", cases[i].prefix, answer->code, answer->fault);
        assert_string_equal(mst_buf_text(&answer->body), answer->code == 0 ? "a 1\n" : "");
        assert_true(answer->at_ns > 0 && answer->at_ns <= mst_now_ns());
        peers_release(answer, 1);
    }
}

/* The silent ones do not hold the others up, and each has its own answer. */
static void all_are_asked_at_once(void **state)
{
    enum { NODES = 40 };
    const struct server *server = *state;
    char urls[NODES][128];
    const char *where[NODES + 1] = {NULL};
    const struct peers_options options = {.where = where};
    mst_cleanup(peers_freep) struct peers *peers = NULL;
    struct peers_answer *answers = NULL;
    size_t count;

    for (size_t i = 0; i < NODES; i++) {
        (void)snprintf(urls[i], sizeof urls[i], "http://127.0.0.1:%u/%s", (unsigned)server->port,
                       i % 4 == 0 ? "silent" : "ok");
        where[i] = urls[i];
    }
    assert_int_equal(peers_new(&options, &peers, NULL), 0);
    assert_int_equal(peers_find(peers, NULL), 0);
    (void)peers_nodes(peers, &count);
    assert_int_equal(count, NODES);
    assert_int_equal(peers_ask(peers, "/metrics", 3000, MAX_BYTES, -1, &answers, NULL), 0);
    for (size_t i = 0; i < NODES; i++)
        assert_int_equal(answers[i].code, i % 4 == 0 ? -ETIMEDOUT : 0);
    peers_release(answers, count);
}

static void a_user_comes_from_a_file(void **state)
{
    const struct server *server = *state;
    char url[128], path[] = "/tmp/muster-test.XXXXXX";
    const char *const where[] = {url, NULL};
    const struct peers_options options = {.where = where, .credentials = path};
    mst_cleanup(peers_freep) struct peers *peers = NULL;
    struct peers_answer *answers = NULL;
    mst_cleanup(mst_closep) int fd = mkstemp(path);

    assert_true(fd >= 0);
    assert_int_equal(mst_write_all(fd, "user:secret\n", 12), 0);
    (void)snprintf(url, sizeof url, "http://127.0.0.1:%u/user", (unsigned)server->port);
    assert_int_equal(peers_new(&options, &peers, NULL), 0);
    assert_int_equal(unlink(path), 0); /* read once */
    assert_int_equal(peers_find(peers, NULL), 0);
    assert_int_equal(peers_ask(peers, "/metrics", PATIENCE_MS, MAX_BYTES, -1, &answers, NULL), 0);
    if (answers->code < 0)
        fail_msg("'%s'", answers->fault);
    assert_string_equal(mst_buf_text(&answers->body), "b 2\n");
    peers_release(answers, 1);
}

static void a_cancel_ends_the_waiting(void **state)
{
    const struct server *server = *state;
    char url[128];
    const char *const where[] = {url, NULL};
    const struct peers_options options = {.where = where};
    mst_cleanup(peers_freep) struct peers *peers = NULL;
    struct peers_answer *answers = NULL;
    int fds[2];

    assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
    assert_int_equal(write(fds[1], "x", 1), 1);
    (void)snprintf(url, sizeof url, "http://127.0.0.1:%u/silent", (unsigned)server->port);
    assert_int_equal(peers_new(&options, &peers, NULL), 0);
    assert_int_equal(peers_find(peers, NULL), 0);
    assert_int_equal(peers_ask(peers, "/metrics", PATIENCE_MS, MAX_BYTES, fds[0], &answers, NULL),
                     -ECANCELED);
    assert_null(answers);
    (void)close(fds[0]);
    (void)close(fds[1]);
}

/* Nothing listens there: a port that was just given back. */
static void a_closed_port_is_said_at_once(void **state)
{
    struct server nobody = {.port = 0};
    struct peers_answer *answer;
    int fd;

    (void)state;
    assert_int_equal(mst_tcp_listen(0x7f000001, 0, 1, &fd, &nobody.port, NULL), 0);
    (void)close(fd);
    answer = ask(&nobody, "", PATIENCE_MS);
    assert_int_equal(answer->code, -EHOSTUNREACH);
    assert_non_null(strstr(answer->fault, "connect"));
    peers_release(answer, 1);
}

#define SERVED(test) cmocka_unit_test_setup_teardown(test, start, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        SERVED(what_goes_wrong_is_said),
        SERVED(all_are_asked_at_once),
        SERVED(a_user_comes_from_a_file),
        SERVED(a_cancel_ends_the_waiting),
        cmocka_unit_test(a_closed_port_is_said_at_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
