/* SPDX-License-Identifier: Apache-2.0 */
#include "dial.h"

#include "muster/cleanup.h"
#include "muster/parse.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>

#define CONNECTIONS_MAX     64
#define ARGUMENTS_MAX       20
#define COMPLAINT_MAX_BYTES 4096

/* libcurl connects to a socket of ours, and a thread starts a program for each connection that it
 * accepts. (Handing libcurl a connected descriptor by CURLOPT_OPENSOCKETFUNCTION would need no thread, but
 * its 7.88 connects it all the same.) Of the fields the thread alone has `pids` while it runs. */
struct dialer {
    char *arguments[ARGUMENTS_MAX]; /* owned, ended by NULL */
    size_t count;
    pid_t pids[CONNECTIONS_MAX]; /* 0: free */
    int complaints_fd;           /* owned: a file in memory that takes stderr */
    int listen_fd;               /* owned */
    int stop_fds[2];             /* owned: a pipe whose end ends the thread */
    char folder[96], path[100];  /* of that socket; "": not made */
    pthread_t thread;
    bool has_thread;
};

static int add(struct dialer *dialer, const char *text, size_t bytes)
{
    char *copy = strndup(text, bytes);

    if (!copy || dialer->count + 1 >= ARGUMENTS_MAX) {
        free(copy);
        return -ENOMEM;
    }
    dialer->arguments[dialer->count++] = copy;
    return 0;
}

static int add_text(struct dialer *dialer, const char *text)
{
    return add(dialer, text, strlen(text));
}

/* An argument to ssh must not look like an option, and the far shell reads the path. */
static bool is_plain(const char *text, size_t bytes, const char *allowed)
{
    if (bytes == 0 || text[0] == '-')
        return false;
    for (size_t i = 0; i < bytes; i++) {
        const char c = text[i];
        if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
              strchr(allowed, c)) ||
            c == '\0')
            return false;
    }
    return true;
}

struct parts {
    const char *user, *host, *port, *path;
    size_t user_bytes, host_bytes, port_bytes, path_bytes;
};

static bool take_apart(const char *address, struct parts *parts)
{
    const size_t name_bytes = strcspn(address, "/");
    const char *at = memchr(address, '@', name_bytes), *colon;

    *parts = (struct parts){.host = address, .host_bytes = name_bytes, .path = address + name_bytes};
    parts->path_bytes = strlen(parts->path);
    if (parts->path_bytes == 1)
        parts->path_bytes = 0;
    if (at) {
        parts->user = address;
        parts->user_bytes = (size_t)(at - address);
        parts->host = at + 1;
        parts->host_bytes = name_bytes - parts->user_bytes - 1;
    }
    if (parts->host_bytes > 0 && parts->host[0] == '[') { /* IPv6 */
        const char *end = memchr(parts->host, ']', parts->host_bytes);
        if (!end)
            return false;
        colon = (size_t)(end - parts->host) + 1 < parts->host_bytes ? end + 1 : NULL;
        if (colon && *colon != ':')
            return false;
        parts->port_bytes = colon ? (size_t)(parts->host + parts->host_bytes - colon) - 1 : 0;
        parts->host++;
        parts->host_bytes = (size_t)(end - parts->host);
    } else {
        colon = memchr(parts->host, ':', parts->host_bytes);
        if (colon) {
            parts->port_bytes = (size_t)(parts->host + parts->host_bytes - colon) - 1;
            parts->host_bytes = (size_t)(colon - parts->host);
        }
    }
    parts->port = colon ? colon + 1 : NULL;
    return is_plain(parts->host, parts->host_bytes, ".-_:%") &&
           (!parts->user || is_plain(parts->user, parts->user_bytes, ".-_+\\")) &&
           (parts->path_bytes == 0 || is_plain(parts->path, parts->path_bytes, "/.-_+"));
}

static int add_arguments(struct dialer *dialer, const struct parts *parts)
{
    static const char *const first[] = {"ssh", "-T", "-o", "ConnectTimeout=30"};
    int r = 0;

    for (size_t i = 0; i < MST_ARRAY_COUNT(first) && r >= 0; i++)
        r = add_text(dialer, first[i]);
    if (r >= 0 && parts->user) {
        r = add_text(dialer, "-l");
        if (r >= 0)
            r = add(dialer, parts->user, parts->user_bytes);
    }
    if (r >= 0 && parts->port) {
        r = add_text(dialer, "-p");
        if (r >= 0)
            r = add(dialer, parts->port, parts->port_bytes);
    }
    if (r >= 0)
        r = add_text(dialer, "--");
    if (r >= 0)
        r = add(dialer, parts->host, parts->host_bytes);
    if (r >= 0)
        r = add_text(dialer, "docker");
    if (r >= 0 && parts->path_bytes > 0) {
        char host[512];
        (void)snprintf(host, sizeof host, "unix://%.*s", (int)parts->path_bytes, parts->path);
        r = add_text(dialer, "--host");
        if (r >= 0)
            r = add_text(dialer, host);
    }
    if (r >= 0)
        r = add_text(dialer, "system");
    return r < 0 ? r : add_text(dialer, "dial-stdio");
}

/* In a folder that only this user can enter. (An abstract socket would leave nothing behind after a kill, but
 * libcurl 7.88 does not keep connections to one.) */
static int listen_for_us(struct dialer *dialer)
{
    const char *folder = getenv("XDG_RUNTIME_DIR");
    struct sockaddr_un address = {.sun_family = AF_UNIX};

    if (!folder || folder[0] != '/' || strlen(folder) > sizeof dialer->folder - 24 ||
        access(folder, W_OK) < 0)
        folder = "/tmp";
    (void)snprintf(dialer->folder, sizeof dialer->folder, "%s/muster-ssh-XXXXXX", folder);
    if (!mkdtemp(dialer->folder)) {
        dialer->folder[0] = '\0';
        return -errno;
    }
    (void)snprintf(dialer->path, sizeof dialer->path, "%s/s", dialer->folder);
    memcpy(address.sun_path, dialer->path, strlen(dialer->path) + 1);
    dialer->listen_fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (dialer->listen_fd < 0 ||
        bind(dialer->listen_fd, (const struct sockaddr *)&address, sizeof address) < 0 ||
        listen(dialer->listen_fd, CONNECTIONS_MAX) < 0 || pipe2(dialer->stop_fds, O_CLOEXEC) < 0)
        return -errno;
    return 0;
}

static void reap(struct dialer *dialer, bool shall_end)
{
    for (size_t i = 0; i < CONNECTIONS_MAX; i++) {
        if (dialer->pids[i] == 0)
            continue;
        /* It may be asking for a password or be deaf to more polite signals, and has nothing to save. */
        if (shall_end)
            (void)kill(dialer->pids[i], SIGKILL);
        if (waitpid(dialer->pids[i], NULL, shall_end ? 0 : WNOHANG) != 0)
            dialer->pids[i] = 0;
    }
}

static int start(struct dialer *dialer, int far_fd, pid_t *ret_pid)
{
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t defaults, none;
    int r = posix_spawn_file_actions_init(&actions);

    if (r != 0)
        return -r;
    r = posix_spawnattr_init(&attributes);
    if (r != 0) {
        (void)posix_spawn_file_actions_destroy(&actions);
        return -r;
    }
    /* A session of its own: Ctrl-C is for us, who still want to say something to the engine. */
    (void)sigemptyset(&defaults);
    (void)sigaddset(&defaults, SIGPIPE);
    (void)posix_spawnattr_setsigdefault(&attributes, &defaults);
    (void)sigemptyset(&none);
    (void)posix_spawnattr_setsigmask(&attributes, &none);
    r = posix_spawnattr_setflags(&attributes,
                                 POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK);
    if (r == 0)
        r = posix_spawn_file_actions_adddup2(&actions, far_fd, STDIN_FILENO);
    if (r == 0)
        r = posix_spawn_file_actions_adddup2(&actions, far_fd, STDOUT_FILENO);
    if (r == 0)
        r = posix_spawn_file_actions_adddup2(&actions, dialer->complaints_fd, STDERR_FILENO);
    if (r == 0)
        r = posix_spawnp(ret_pid, dialer->arguments[0], &actions, &attributes, dialer->arguments, environ);
    (void)posix_spawnattr_destroy(&attributes);
    (void)posix_spawn_file_actions_destroy(&actions);
    return -r;
}

/* The socket leads into a session of the user's: not even other programs of the same user are to have it. */
static bool is_from_us(int fd)
{
    struct ucred peer;
    socklen_t bytes = sizeof peer;

    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) == 0 && peer.pid == getpid();
}

static void dial(struct dialer *dialer)
{
    mst_cleanup(mst_closep) int fd = accept4(dialer->listen_fd, NULL, NULL, SOCK_CLOEXEC);
    size_t at = 0;
    int r;

    reap(dialer, false);
    while (at < CONNECTIONS_MAX && dialer->pids[at] != 0)
        at++;
    if (fd < 0 || at == CONNECTIONS_MAX || !is_from_us(fd))
        return;
    if (ftruncate(dialer->complaints_fd, 0) == 0)
        (void)lseek(dialer->complaints_fd, 0, SEEK_SET);
    r = start(dialer, fd, &dialer->pids[at]);
    if (r < 0) {
        dialer->pids[at] = 0;
        (void)dprintf(dialer->complaints_fd, "%s: %s\n", dialer->arguments[0], strerror(-r));
    }
}

static void *run(void *context)
{
    struct dialer *dialer = context;

    for (;;) {
        struct pollfd fds[] = {{dialer->stop_fds[0], POLLIN, 0}, {dialer->listen_fd, POLLIN, 0}};
        if (poll(fds, MST_ARRAY_COUNT(fds), -1) < 0 && errno != EINTR)
            return NULL;
        if (fds[0].revents != 0)
            return NULL;
        if (fds[1].revents != 0)
            dial(dialer);
    }
}

/* Signals are for the program's own threads. */
static int start_thread(struct dialer *dialer)
{
    sigset_t all, before;
    int r;

    (void)sigfillset(&all);
    r = pthread_sigmask(SIG_SETMASK, &all, &before);
    if (r != 0)
        return -r;
    r = pthread_create(&dialer->thread, NULL, run, dialer);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    dialer->has_thread = r == 0;
    return -r;
}

int dialer_new(const char *address, struct dialer **ret_dialer, struct mst_error *err)
{
    struct dialer *dialer;
    struct parts parts;
    char port[8] = "22";
    uint32_t number;
    int r;

    if (!take_apart(address, &parts))
        return mst_error_set(err, -EINVAL, "engine host 'ssh://%s': expected ssh://[user@]host[:port][/path]",
                             address);
    if (parts.port)
        (void)snprintf(port, sizeof port, "%.*s", (int)parts.port_bytes, parts.port);
    if (parts.port_bytes >= sizeof port || mst_parse_u32(port, 1, UINT16_MAX, &number, NULL) < 0)
        return mst_error_set(err, -EINVAL, "engine host 'ssh://%s': not a port", address);
    dialer = calloc(1, sizeof *dialer);
    if (!dialer)
        return mst_error_set(err, -ENOMEM, "engine host 'ssh://%s': no memory", address);
    dialer->listen_fd = dialer->stop_fds[0] = dialer->stop_fds[1] = -1;
    dialer->complaints_fd = memfd_create("muster-ssh", MFD_CLOEXEC);
    r = dialer->complaints_fd < 0 ? -errno : add_arguments(dialer, &parts);
    if (r >= 0)
        r = listen_for_us(dialer);
    if (r >= 0)
        r = start_thread(dialer);
    if (r < 0) {
        dialer_free(dialer);
        return mst_error_errno(err, r, "engine host 'ssh://%s'", address);
    }
    *ret_dialer = dialer;
    return 0;
}

void dialer_free(struct dialer *dialer)
{
    if (!dialer)
        return;
    mst_closep(&dialer->stop_fds[1]);
    if (dialer->has_thread)
        (void)pthread_join(dialer->thread, NULL);
    reap(dialer, true);
    for (size_t i = 0; i < dialer->count; i++)
        free(dialer->arguments[i]);
    if (dialer->folder[0] != '\0') {
        (void)unlink(dialer->path);
        (void)rmdir(dialer->folder);
    }
    mst_closep(&dialer->complaints_fd);
    mst_closep(&dialer->listen_fd);
    mst_closep(&dialer->stop_fds[0]);
    free(dialer);
}

const char *dialer_socket(const struct dialer *dialer)
{
    return dialer->path;
}

void dialer_complaint(const struct dialer *dialer, char *text, size_t capacity)
{
    char all[COMPLAINT_MAX_BYTES];
    const ssize_t got = pread(dialer->complaints_fd, all, sizeof all - 1, 0);
    size_t end = got > 0 ? (size_t)got : 0, begin;

    while (end > 0 && (unsigned char)all[end - 1] <= ' ')
        end--;
    begin = end;
    while (begin > 0 && all[begin - 1] != '\n')
        begin--;
    (void)snprintf(text, capacity, "%.*s", (int)(end - begin), all + begin);
    for (char *c = text; *c != '\0'; c++) {
        if ((unsigned char)*c < ' ' || *c == 0x7f)
            *c = ' ';
    }
}
