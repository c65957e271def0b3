/* SPDX-License-Identifier: Apache-2.0 */
#include "experiment/launch.h"

#include "muster/cleanup.h"
#include "muster/clock.h"
#include "muster/digest.h"
#include "muster/file.h"
#include "muster/json.h"
#include "plain.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#define CHUNK_BYTES     ((size_t)64 << 10)
#define DRAIN_READS_MAX 64 /* four times what a pipe holds at most */
#define SENDS_MAX       4096
#define FILE_MARK       "{\"host\":\"file\""

struct send {
    char *bytes; /* owned; NULL: from fd */
    int fd;
    uint64_t count, done;
};

struct launch {
    char *name;
    struct launch_handler handler;
    void *context;
    pid_t pid;
    int pid_fd, in, out, err_fd; /* -1: closed */
    struct send *sends;          /* owned */
    size_t send_count, next_send;
    bool closes, is_reaped;
    int status;
    struct mst_buf line, complaint, file;
    char file_name[256], tail[LAUNCH_TAIL_BYTES];
    uint64_t file_missing;
    bool in_file;
};

/* ---- starting ---- */

static void child(const char *const *words, const struct launch_setup *setup, const int fds[3], pid_t parent)
{
    const int catched[] = {SIGINT, SIGTERM, SIGHUP, SIGPIPE};

    for (size_t i = 0; i < MST_ARRAY_COUNT(catched); i++)
        (void)signal(catched[i], SIG_DFL);
    /* A group of its own: Ctrl-C is for the one that started it, who ends it in order. */
    if (setpgid(0, 0) < 0 || prctl(PR_SET_PDEATHSIG, SIGTERM) < 0 || getppid() != parent)
        _exit(126);
    for (int i = 0; i < 3; i++) {
        if (dup2(fds[i], i) < 0)
            _exit(126);
    }
    const int r = setup && setup->enter ? setup->enter(setup->context) : 0;
    if (r < 0) {
        dprintf(2, "%s: cannot enter its limits: %s\n", words[0], strerror(-r));
        _exit(126);
    }
    (void)execvpe(words[0], (char *const *)(uintptr_t)words,
                  setup && setup->environment ? (char *const *)(uintptr_t)setup->environment : environ);
    dprintf(2, "%s: %s\n", words[0], strerror(errno));
    _exit(127);
}

static void send_release(struct send *send)
{
    free(send->bytes);
    mst_closep(&send->fd);
}

static void launch_free(struct launch *launch)
{
    if (!launch)
        return;
    for (size_t i = launch->next_send; i < launch->send_count; i++)
        send_release(&launch->sends[i]);
    free(launch->sends);
    mst_closep(&launch->in);
    mst_closep(&launch->out);
    mst_closep(&launch->err_fd);
    mst_closep(&launch->pid_fd);
    mst_buf_release(&launch->line);
    mst_buf_release(&launch->complaint);
    mst_buf_release(&launch->file);
    free(launch->name);
    free(launch);
}

static void close_pair(int fds[2])
{
    mst_closep(&fds[0]);
    mst_closep(&fds[1]);
}

static int start(struct launch *launch, const char *const *words, const struct launch_setup *setup,
                 struct mst_error *err)
{
    int in[2] = {-1, -1}, out[2] = {-1, -1}, complaints[2] = {-1, -1}, r = 0;
    const pid_t parent = getpid();

    if (pipe2(in, O_CLOEXEC) < 0 || pipe2(out, O_CLOEXEC) < 0 || pipe2(complaints, O_CLOEXEC) < 0) {
        r = mst_error_errno(err, -errno, "start '%s': pipes", words[0]);
    } else {
        const int fds[3] = {in[0], out[1], complaints[1]};
        launch->pid = fork();
        if (launch->pid == 0)
            child(words, setup, fds, parent);
        if (launch->pid < 0)
            r = mst_error_errno(err, -errno, "start '%s'", words[0]);
    }
    if (r == 0) {
        launch->in = in[1];
        launch->out = out[0];
        launch->err_fd = complaints[0];
        in[1] = out[0] = complaints[0] = -1;
        launch->pid_fd = (int)syscall(SYS_pidfd_open, launch->pid, 0);
        if (launch->pid_fd < 0 || fcntl(launch->in, F_SETFL, O_NONBLOCK) < 0 ||
            fcntl(launch->out, F_SETFL, O_NONBLOCK) < 0 || fcntl(launch->err_fd, F_SETFL, O_NONBLOCK) < 0)
            r = mst_error_errno(err, -errno, "start '%s'", words[0]);
        if (r < 0) {
            (void)kill(launch->pid, SIGKILL);
            (void)waitpid(launch->pid, NULL, 0);
        }
    }
    close_pair(in);
    close_pair(out);
    close_pair(complaints);
    return r;
}

int launches_add(struct launches *set, const char *const *words, const char *name,
                 const struct launch_setup *setup, const struct launch_handler *handler, void *context,
                 struct launch **ret_launch, struct mst_error *err)
{
    struct launch *launch = calloc(1, sizeof *launch);
    struct launch **items = reallocarray(set->items, set->count + 1, sizeof(struct launch *));
    int r;

    if (items)
        set->items = items;
    if (!launch || !items) {
        free(launch);
        return mst_error_set(err, -ENOMEM, "start '%s': no memory", words[0]);
    }
    *launch = (struct launch){.name = strdup(name),
                              .handler = *handler,
                              .context = context,
                              .in = -1,
                              .out = -1,
                              .err_fd = -1,
                              .pid_fd = -1,
                              .line = MST_BUF_INIT(LAUNCH_LINE_MAX_BYTES),
                              .complaint = MST_BUF_INIT(LAUNCH_LINE_MAX_BYTES),
                              .file = MST_BUF_INIT(LAUNCH_FILE_MAX_BYTES)};
    r = launch->name ? start(launch, words, setup, err)
                     : mst_error_set(err, -ENOMEM, "start '%s': no memory", words[0]);
    if (r < 0) {
        launch_free(launch);
        return r;
    }
    set->items[set->count++] = launch;
    if (ret_launch)
        *ret_launch = launch;
    return 0;
}

/* ---- what goes in ---- */

static int add_send(struct launch *launch, struct send send)
{
    struct send *sends;

    if (launch->closes) { /* it is to end, and still asks */
        send_release(&send);
        return 0;
    }
    sends = launch->send_count < SENDS_MAX
                ? reallocarray(launch->sends, launch->send_count + 1, sizeof *sends)
                : NULL;
    if (!sends) {
        send_release(&send);
        return -ENOMEM;
    }
    launch->sends = sends;
    sends[launch->send_count++] = send;
    return 0;
}

int launch_send(struct launch *launch, const void *bytes, size_t count)
{
    struct send send = {.bytes = malloc(count > 0 ? count : 1), .fd = -1, .count = count};

    if (!send.bytes)
        return -ENOMEM;
    memcpy(send.bytes, bytes, count);
    return add_send(launch, send);
}

int launch_send_file(struct launch *launch, int fd, uint64_t count)
{
    return add_send(launch, (struct send){.fd = fd, .count = count});
}

void launch_close(struct launch *launch)
{
    launch->closes = true;
    if (launch->next_send == launch->send_count)
        mst_closep(&launch->in);
}

/* A file that became shorter cannot be made up for: the other side waits for the rest, and is ended. */
static void write_some(struct launch *launch)
{
    while (launch->next_send < launch->send_count) {
        struct send *send = &launch->sends[launch->next_send];
        char chunk[CHUNK_BYTES];
        const char *from = send->bytes ? send->bytes + send->done : chunk;
        size_t count =
            send->count - send->done < CHUNK_BYTES ? (size_t)(send->count - send->done) : CHUNK_BYTES;
        if (count > 0) {
            ssize_t taken = send->bytes ? (ssize_t)count : pread(send->fd, chunk, count, (off_t)send->done);
            if (taken > 0)
                taken = write(launch->in, from, (size_t)taken);
            if (taken < 0 && (errno == EAGAIN || errno == EINTR))
                return;
            if (taken <= 0) {
                mst_closep(&launch->in); /* it went away; its end says why */
                return;
            }
            send->done += (uint64_t)taken;
        }
        if (send->done == send->count) {
            if (send->bytes)
                mst_forget(send->bytes, (size_t)send->count); /* it may have been a key */
            send_release(send);
            launch->next_send++;
        }
    }
    if (launch->closes)
        mst_closep(&launch->in);
}

/* ---- what comes out ---- */

static int begin_file(struct launch *launch, const char *line, size_t count, struct mst_error *err)
{
    mst_cleanup(mst_json_deletep) cJSON *json = NULL;
    const char *name = NULL;
    int r = mst_json_parse(line, count, launch->name, &json, err);

    if (r >= 0)
        r = mst_json_get_string(json, "name", launch->name, &name, err);
    if (r >= 0)
        r = mst_json_get_u64(json, "bytes", 0, LAUNCH_FILE_MAX_BYTES, launch->name, &launch->file_missing,
                             err);
    /* It came from another machine, and must not choose where it goes here. */
    if (r >= 0 && !mst_name_is_plain(name))
        r = mst_error_set(err, -EBADMSG, "%s: sends a file with a name that is none", launch->name);
    if (r < 0)
        return r;
    (void)snprintf(launch->file_name, sizeof launch->file_name, "%s", name);
    mst_buf_clear(&launch->file);
    launch->in_file = true;
    return 0;
}

static int end_file(struct launch *launch, struct mst_error *err)
{
    launch->in_file = false;
    return launch->handler.on_file
               ? launch->handler.on_file(launch->context, launch, launch->file_name,
                                         mst_buf_text(&launch->file), launch->file.count, err)
               : 0;
}

static int end_line(struct launch *launch, struct mst_error *err)
{
    const char *line = mst_buf_text(&launch->line);
    int r = 0;

    if (strncmp(line, FILE_MARK, sizeof FILE_MARK - 1) == 0)
        r = begin_file(launch, line, launch->line.count, err);
    else if (launch->handler.on_line)
        r = launch->handler.on_line(launch->context, launch, line, launch->line.count, err);
    mst_buf_clear(&launch->line);
    return r;
}

static int take_output(struct launch *launch, const char *bytes, size_t count, struct mst_error *err)
{
    int r = 0;

    while (r >= 0 && (count > 0 || (launch->in_file && launch->file_missing == 0))) {
        if (launch->in_file) {
            const size_t part = count < launch->file_missing ? count : (size_t)launch->file_missing;
            r = mst_buf_append(&launch->file, bytes, part);
            if (r < 0)
                return mst_error_errno(err, r, "%s: file '%s'", launch->name, launch->file_name);
            bytes += part;
            count -= part;
            launch->file_missing -= part;
            if (r >= 0 && launch->file_missing == 0)
                r = end_file(launch, err);
            continue;
        }
        const char *end = memchr(bytes, '\n', count);
        const size_t part = end ? (size_t)(end - bytes) : count;
        r = mst_buf_append(&launch->line, bytes, part);
        if (r < 0)
            return mst_error_errno(err, r, "%s: a line", launch->name);
        bytes += part + (end != NULL);
        count -= part + (end != NULL);
        if (end)
            r = end_line(launch, err);
    }
    return r;
}

static int take_complaint(struct launch *launch, const char *bytes, size_t count, struct mst_error *err)
{
    for (size_t i = 0; i < count; i++) {
        int r = 0;
        if (bytes[i] != '\n') {
            if (mst_buf_append(&launch->complaint, &bytes[i], 1) < 0)
                mst_buf_clear(&launch->complaint); /* nobody reads a megabyte in a line */
            continue;
        }
        if (launch->complaint.count > 0) {
            (void)snprintf(launch->tail, sizeof launch->tail, "%s", mst_buf_text(&launch->complaint));
            plain_text(launch->tail);
            if (launch->handler.on_complaint)
                r = launch->handler.on_complaint(launch->context, launch, mst_buf_text(&launch->complaint),
                                                 err);
        }
        mst_buf_clear(&launch->complaint);
        if (r < 0)
            return r;
    }
    return 0;
}

typedef int take_fn(struct launch *launch, const char *bytes, size_t count, struct mst_error *err);

static int read_some(struct launch *launch, int *fd, take_fn *take, struct mst_error *err)
{
    char chunk[CHUNK_BYTES];
    const ssize_t count = read(*fd, chunk, sizeof chunk);

    if (count > 0)
        return take(launch, chunk, (size_t)count, err);
    if (count < 0 && (errno == EAGAIN || errno == EINTR))
        return 0;
    mst_closep(fd);
    /* A last line without its end. */
    return take == take_output && launch->line.count > 0 && !launch->in_file ? take(launch, "\n", 1, err)
           : take == take_complaint                                          ? take(launch, "\n", 1, err)
                                                                             : 0;
}

static void reap(struct launch *launch)
{
    int status;

    if (launch->is_reaped || waitpid(launch->pid, &status, WNOHANG) != launch->pid)
        return;
    launch->is_reaped = true;
    launch->status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    mst_closep(&launch->pid_fd);
    mst_closep(&launch->in);
}

/* What it left behind may hold its streams open, or write to them, for ever: read what a pipe can hold, and
 * no more. */
static int drain(struct launch *launch, struct mst_error *err)
{
    int r = 0;

    for (int i = 0; i < 2 && r >= 0; i++) {
        int *fd = i == 0 ? &launch->out : &launch->err_fd;
        struct pollfd poll_fd = {.fd = *fd, .events = POLLIN};
        for (size_t reads = 0; reads < DRAIN_READS_MAX && r >= 0 && *fd >= 0 && poll(&poll_fd, 1, 0) > 0;
             reads++)
            r = read_some(launch, fd, i == 0 ? take_output : take_complaint, err);
        mst_closep(fd);
    }
    return r;
}

static int serve(struct launch *launch, const struct pollfd fds[4], struct mst_error *err)
{
    int r = 0;

    if (fds[0].revents && launch->in >= 0)
        write_some(launch);
    if (fds[1].revents && launch->out >= 0)
        r = read_some(launch, &launch->out, take_output, err);
    if (r >= 0 && fds[2].revents && launch->err_fd >= 0)
        r = read_some(launch, &launch->err_fd, take_complaint, err);
    if (r >= 0 && fds[3].revents) {
        reap(launch);
        if (launch->is_reaped)
            r = drain(launch, err);
    }
    return r;
}

int launches_round(struct launches *set, uint64_t deadline_ns, struct mst_error *err)
{
    const size_t count = 2 + 4 * set->count;
    mst_cleanup(mst_freep) struct pollfd *fds = calloc(count, sizeof *fds);
    const int timeout_ms = mst_ms_until(deadline_ns, 60000);

    if (!fds)
        return mst_error_set(err, -ENOMEM, "wait: no memory");
    fds[0] = (struct pollfd){.fd = set->signal_fd, .events = POLLIN};
    fds[1] = (struct pollfd){.fd = set->wake_fd, .events = POLLIN};
    for (size_t i = 0; i < set->count; i++) {
        const struct launch *launch = set->items[i];
        const bool has_more = launch->next_send < launch->send_count;
        fds[2 + 4 * i] = (struct pollfd){.fd = has_more ? launch->in : -1, .events = POLLOUT};
        fds[3 + 4 * i] = (struct pollfd){.fd = launch->out, .events = POLLIN};
        fds[4 + 4 * i] = (struct pollfd){.fd = launch->err_fd, .events = POLLIN};
        fds[5 + 4 * i] = (struct pollfd){.fd = launch->pid_fd, .events = POLLIN};
    }
    if (poll(fds, count, timeout_ms) < 0 && errno != EINTR)
        return mst_error_errno(err, -errno, "wait for programs");
    if (fds[0].revents)
        return mst_error_set(err, -ECANCELED, "interrupted");
    for (size_t i = 0; i < set->count; i++) {
        const int r = serve(set->items[i], &fds[2 + 4 * i], err);
        if (r < 0)
            return r;
    }
    if (fds[1].revents)
        return 1;
    return mst_now_ns() >= deadline_ns ? mst_error_set(err, -ETIMEDOUT, "not done in time") : 0;
}

/* ---- ends ---- */

size_t launches_running(const struct launches *set)
{
    size_t count = 0;

    for (size_t i = 0; i < set->count; i++)
        count += !set->items[i]->is_reaped;
    return count;
}

static void serve_for(struct launches *set, unsigned ms)
{
    const uint64_t deadline_ns = mst_now_ns() + ms * MST_NS_PER_MS;
    const int signal_fd = set->signal_fd;

    set->signal_fd = set->wake_fd = -1;
    while (launches_running(set) > 0 && mst_now_ns() < deadline_ns) {
        struct mst_error ignored = MST_ERROR_INIT;
        if (launches_round(set, deadline_ns, &ignored) == -ENOMEM)
            break;
    }
    set->signal_fd = signal_fd;
}

void launches_end(struct launches *set, unsigned grace_ms)
{
    for (size_t i = 0; i < set->count; i++) {
        struct launch *launch = set->items[i];
        while (launch->next_send < launch->send_count) /* what was not sent by now is not needed */
            send_release(&launch->sends[launch->next_send++]);
        launch_close(launch);
    }
    serve_for(set, grace_ms);
    for (size_t i = 0; i < set->count; i++)
        launch_kill(set->items[i], SIGTERM);
    serve_for(set, grace_ms);
    for (size_t i = 0; i < set->count; i++) {
        struct launch *launch = set->items[i];
        if (launch->is_reaped)
            continue;
        (void)kill(-launch->pid, SIGKILL);
        (void)kill(launch->pid, SIGKILL);
        if (waitpid(launch->pid, NULL, 0) == launch->pid) {
            launch->is_reaped = true;
            launch->status = 128 + SIGKILL;
        }
    }
}

void launches_release(struct launches *set)
{
    launches_end(set, 0);
    for (size_t i = 0; i < set->count; i++)
        launch_free(set->items[i]);
    free(set->items);
    set->items = NULL;
    set->count = 0;
}

const char *launch_name(const struct launch *launch)
{
    return launch->name;
}

bool launch_has_ended(const struct launch *launch)
{
    return launch->is_reaped;
}

int launch_status(const struct launch *launch)
{
    return launch->status;
}

const char *launch_tail(const struct launch *launch)
{
    return launch->tail;
}

void launch_kill(struct launch *launch, int signal_number)
{
    if (!launch->is_reaped)
        (void)kill(launch->pid, signal_number);
}
