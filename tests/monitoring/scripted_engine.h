/* SPDX-License-Identifier: Apache-2.0 */
/* An engine of a few lines on a Unix socket, for what a real one cannot be made to do: each request is handed
 * to the test's own function, in a process of its own, which writes whatever bytes it likes. */
#ifndef TEST_SCRIPTED_ENGINE_H
#define TEST_SCRIPTED_ENGINE_H

#include "test.h"

#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>

struct scripted_counts {
    atomic_int events, lists, inspects; /* requests so far */
    atomic_int logs;                    /* likewise; containers' */
    atomic_bool has_timestamps;         /* the newest of those asked for them */
    atomic_int phase;                   /* the test's own */
};

/* `which` is the how-manieth request of its kind, from 1. */
typedef void scripted_reply_fn(struct scripted_counts *counts, int fd, int which);

struct scripted_engine {
    scripted_reply_fn *events, *list, *inspect, *logs;
    struct scripted_counts *counts;
    char folder[64], host[128];
    pid_t pid;
};

static inline void say(int fd, const char *text)
{
    (void)!write(fd, text, strlen(text)); /* the client may have gone: that is its right */
}

static inline void say_json(int fd, const char *json)
{
    char head[128];
    (void)snprintf(head, sizeof head,
                   "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %zu\r\n\r\n",
                   strlen(json));
    say(fd, head);
    say(fd, json);
}

static inline void say_chunk(int fd, const char *text)
{
    char size[32];
    (void)snprintf(size, sizeof size, "%zx\r\n", strlen(text));
    say(fd, size);
    say(fd, text);
    say(fd, "\r\n");
}

/* The head of an events stream; chunks follow. */
static inline void say_events(int fd)
{
    say(fd, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n");
}

/* Holds the connection open until the client closes it. */
static inline void hold(int fd)
{
    char byte;
    while (read(fd, &byte, 1) > 0)
        continue;
}

static inline void scripted_serve(const struct scripted_engine *engine, int fd)
{
    char request[4096];
    size_t count = 0;
    while (count < sizeof request - 1) {
        const ssize_t got = read(fd, request + count, sizeof request - 1 - count);
        if (got <= 0)
            return;
        count += (size_t)got;
        request[count] = '\0';
        if (strstr(request, "\r\n\r\n"))
            break;
    }
    if (strstr(request, "/_ping"))
        say(fd, "HTTP/1.1 200 OK\r\nApi-Version: 1.41\r\nContent-Length: 2\r\n\r\nOK");
    else if (strstr(request, "/events"))
        engine->events(engine->counts, fd, atomic_fetch_add(&engine->counts->events, 1) + 1);
    else if (strstr(request, "/logs?")) {
        atomic_store(&engine->counts->has_timestamps, strstr(request, "timestamps=1") != NULL);
        engine->logs(engine->counts, fd, atomic_fetch_add(&engine->counts->logs, 1) + 1);
    } else if (strstr(request, "/containers/json"))
        engine->list(engine->counts, fd, atomic_fetch_add(&engine->counts->lists, 1) + 1);
    else
        engine->inspect(engine->counts, fd, atomic_fetch_add(&engine->counts->inspects, 1) + 1);
}

static inline void scripted_accept(const struct scripted_engine *engine, int listen_fd)
{
    (void)signal(SIGCHLD, SIG_IGN);
    (void)signal(SIGPIPE, SIG_IGN);
    for (;;) {
        const int fd = accept4(listen_fd, NULL, NULL, SOCK_CLOEXEC);
        if (fd < 0)
            _exit(1);
        if (fork() == 0) {
            (void)prctl(PR_SET_PDEATHSIG, SIGKILL); /* nothing is left when the test ends */
            scripted_serve(engine, fd);
            _exit(0);
        }
        (void)close(fd);
    }
}

static inline void scripted_engine_start(struct scripted_engine *engine)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    engine->counts =
        mmap(NULL, sizeof *engine->counts, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(engine->counts != MAP_FAILED);
    (void)snprintf(engine->folder, sizeof engine->folder, "/tmp/muster-engine-XXXXXX");
    assert_non_null(mkdtemp(engine->folder));
    (void)snprintf(address.sun_path, sizeof address.sun_path, "%s/sock", engine->folder);
    (void)snprintf(engine->host, sizeof engine->host, "unix://%s", address.sun_path);
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(bind(fd, (const struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(listen(fd, 16), 0);
    engine->pid = fork();
    assert_true(engine->pid >= 0);
    if (engine->pid == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        scripted_accept(engine, fd);
    }
    assert_int_equal(close(fd), 0);
}

static inline void scripted_engine_stop(struct scripted_engine *engine)
{
    char command[128];
    assert_int_equal(kill(engine->pid, SIGKILL), 0);
    assert_int_equal(waitpid(engine->pid, NULL, 0), engine->pid);
    assert_int_equal(munmap(engine->counts, sizeof *engine->counts), 0);
    (void)snprintf(command, sizeof command, "rm -rf %s", engine->folder);
    assert_int_equal(system(command), 0);
}

/* ---- replies that most tests want ---- */

static inline void reply_events_that_stay(struct scripted_counts *counts, int fd, int which)
{
    (void)counts;
    (void)which;
    say_events(fd);
    hold(fd);
}

static inline void reply_list_of_one(struct scripted_counts *counts, int fd, int which)
{
    (void)counts;
    (void)which;
    say_json(fd, "[{\"Id\":\"" CONTAINER_ID "\"}]");
}

static inline void reply_inspect(struct scripted_counts *counts, int fd, int which)
{
    struct mst_buf text = load(DATA("engine/inspect-task.json"));
    (void)counts;
    (void)which;
    say_json(fd, text.bytes);
    mst_buf_release(&text);
}

#endif
