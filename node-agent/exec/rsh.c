/* SPDX-License-Identifier: Apache-2.0 */
#include "rsh.h"

#include "bytes.h"
#include "launch_address.h"
#include "launch_channel.h"
#include "launch_stream.h"
#include "muster/cleanup.h"
#include "muster/clock.h"
#include "muster/discovery.h"
#include "muster/log.h"
#include "muster/net.h"
#include "muster/parse.h"
#include "muster/signals.h"
#include "wire.h"

#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#define PIPE_PIECE 4096 /* PIPE_BUF: a pipe that poll(2) calls ready takes so much without blocking */
#define SSH_VALUES "BbcDEeFIiJLlmOopQRSWw" /* ssh's options that take a value */
#define LONGEST_MS 60000
#define REQUEST_MS 5000

enum { STREAM_IN, STREAM_OUT, STREAM_ERR };

static const int passed_on[] = {SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2};

struct rsh {
    struct launch_channel channel;
    struct launch_source in;
    struct launch_sink out, errors;
    int signal_fd;
    int status; /* -1: not known yet */
};

/* ---- what is asked for ---- */

/* The host's place in argv; behind it stands the command. -EINVAL. */
static int find_host(int argc, char **argv, struct mst_error *err)
{
    int next = 1;
    while (next < argc && argv[next][0] == '-' && argv[next][1] != '\0') {
        const char *option = argv[next++];
        if (strcmp(option, "--") == 0)
            break;
        /* "-x", "-tt", "-p22", "-p 22", "-xp 22": the value is in the same word or in the next. */
        const char *with_value = strpbrk(option + 1, SSH_VALUES);
        if (with_value && with_value[1] == '\0')
            next++;
    }
    if (next + 1 >= argc)
        return mst_error_set(err, -EINVAL, "expected a host and a command: rsh [options] HOST CMD...");
    return next;
}

static int make_request(int argc, char **argv, struct mst_buf *request, struct mst_error *err)
{
    int at = find_host(argc, argv, err);
    if (at < 0)
        return at;
    const char *host = strrchr(argv[at], '@'); /* whose account: CMD's, in any case */
    host = host ? host + 1 : argv[at];
    const size_t length = strlen(host);
    if (length == 0 || length >= LAUNCH_HOST_BYTES)
        return mst_error_set(err, -EINVAL, "'%.64s' is no host", host);
    int r = bytes_put_text(request, host, length);
    for (at++; r == 0 && at < argc; at++) { /* joined as ssh does: a shell takes it apart again */
        r = mst_buf_append_text(request, argv[at]);
        if (r == 0 && at + 1 < argc)
            r = mst_buf_append_text(request, " ");
    }
    if (r == 0 && request->count - length - 1 >= EXEC_COMMAND_MAX_BYTES)
        r = -EFBIG;
    if (r == 0 && request->count == length + 1)
        return mst_error_set(err, -EINVAL, "an empty command");
    return r < 0 ? mst_error_errno(err, r, "a command of more than %zu bytes", EXEC_COMMAND_MAX_BYTES) : 0;
}

static int connect_to_agent(int *ret_fd, struct mst_error *err)
{
    const char *text = getenv("MUSTER_PORT");
    uint32_t port = DISCOVERY_PORT;
    if (text && mst_parse_u32(text, 1, 65535, &port, err) < 0)
        return mst_error_wrap(err, -EINVAL, "environment variable MUSTER_PORT");
    struct sockaddr_un address;
    const socklen_t address_bytes = launch_address((uint16_t)port, &address);
    mst_cleanup(mst_closep) int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    const uint64_t deadline_ns = mst_now_ns() + REQUEST_MS * MST_NS_PER_MS;
    if (fd < 0)
        return mst_error_errno(err, -errno, "make a socket");
    while (connect(fd, (const struct sockaddr *)&address, address_bytes) < 0) {
        /* EAGAIN: its backlog is full, as when a launcher starts many of these at once. */
        if ((errno != EAGAIN && errno != EINTR) || mst_now_ns() >= deadline_ns)
            return mst_error_errno(
                err, -errno, "no agent of port %u that launches programs is here (exec --framework mpi)",
                (unsigned)port);
        (void)poll(NULL, 0, 5);
    }
    *ret_fd = fd;
    fd = -1;
    return 0;
}

/* ---- in between ---- */

static int take_frame(struct rsh *rsh, enum launch_frame type, const uint8_t *payload, size_t count,
                      struct mst_error *err)
{
    if (!launch_frame_is_fit(false, type, payload, count))
        return mst_error_set(err, -EBADMSG, "a frame of type %d that cannot be", (int)type);
    struct launch_sink *sink = payload[0] == STREAM_OUT ? &rsh->out : &rsh->errors;
    struct bytes_cursor credit = {payload + 1, count - 1, false};
    switch (type) {
    case LAUNCH_DATA:
        return launch_sink_take(sink, payload + 1, count - 1, err);
    case LAUNCH_EOF:
        sink->ended = true;
        return 0;
    case LAUNCH_CREDIT:
        return launch_source_credit(&rsh->in, (uint32_t)bytes_take(&credit, 4), err);
    case LAUNCH_EXIT:
        rsh->status = payload[0];
        rsh->out.ended = rsh->errors.ended = true;
        return 0;
    default: /* LAUNCH_ERROR */
        return mst_error_set(err, -EREMOTEIO, "%.*s", (int)count, (const char *)payload);
    }
}

static int receive(struct rsh *rsh, struct mst_error *err)
{
    int r = launch_channel_read(&rsh->channel, err);
    enum launch_frame type;
    const uint8_t *payload;
    size_t count;
    while (r == 1 && rsh->status < 0) {
        r = launch_channel_next(&rsh->channel, &type, &payload, &count, err);
        if (r != 1)
            return r;
        const int taken = take_frame(rsh, type, payload, count, err);
        if (taken < 0)
            return taken;
    }
    return r < 0 ? r : 0;
}

static int pass_signals_on(struct rsh *rsh, struct mst_error *err)
{
    int r = 0, number;
    while (r == 0 && (number = mst_signals_read(rsh->signal_fd)) != 0)
        r = launch_channel_send_byte(&rsh->channel, LAUNCH_SIGNAL, (uint8_t)number, err);
    return r;
}

static int step(struct rsh *rsh, struct mst_error *err)
{
    const bool ends = rsh->status >= 0;
    struct pollfd fds[] = {
        {.fd = ends ? -1 : rsh->channel.fd,
         .events = (short)(rsh->channel.out.count > 0 ? POLLIN | POLLOUT : POLLIN)},
        {.fd = ends ? -1 : rsh->signal_fd, .events = POLLIN},
        {.fd = !ends && launch_source_wants(&rsh->in, &rsh->channel) ? rsh->in.fd : -1, .events = POLLIN},
        {.fd = launch_sink_wants(&rsh->out) ? rsh->out.fd : -1, .events = POLLOUT},
        {.fd = launch_sink_wants(&rsh->errors) ? rsh->errors.fd : -1, .events = POLLOUT},
    };
    if (poll(fds, MST_ARRAY_COUNT(fds), LONGEST_MS) < 0)
        return errno == EINTR ? 0 : mst_error_errno(err, -errno, "wait for events");
    int r = fds[0].revents & (POLLIN | POLLHUP | POLLERR) ? receive(rsh, err) : 0;
    if (r == 0 && fds[1].revents)
        r = pass_signals_on(rsh, err);
    if (r == 0 && fds[2].revents)
        r = launch_source_pump(&rsh->in, &rsh->channel, err);
    if (r == 0 && (fds[3].revents || !launch_sink_wants(&rsh->out)))
        r = launch_sink_pump(&rsh->out, &rsh->channel, PIPE_PIECE, err);
    if (r == 0 && (fds[4].revents || !launch_sink_wants(&rsh->errors)))
        r = launch_sink_pump(&rsh->errors, &rsh->channel, PIPE_PIECE, err);
    return r < 0 || rsh->status >= 0 ? r : launch_channel_flush(&rsh->channel, err);
}

static int run(struct rsh *rsh, const struct mst_buf *request, struct mst_error *err)
{
    int fd = -1;
    int r = connect_to_agent(&fd, err);
    if (r == 0)
        r = mst_signals_open(passed_on, MST_ARRAY_COUNT(passed_on), &rsh->signal_fd, err);
    if (r < 0) {
        mst_closep(&fd);
        return r;
    }
    launch_channel_init(&rsh->channel, fd);
    r = launch_channel_send(&rsh->channel, LAUNCH_OPEN, request->bytes, request->count, err);
    while (r == 0 && (rsh->status < 0 || launch_sink_wants(&rsh->out) || launch_sink_wants(&rsh->errors)))
        r = step(rsh, err);
    return r;
}

static int print_help(void)
{
    (void)printf(
        "Usage: rsh HOST CMD...\n\n"
        "Run CMD by a shell at the worker with this address or slot, from within CMD of the verb exec\n"
        "with --framework mpi or horovod. Options of ssh are read over. The exit status is that of CMD,\n"
        "or 255.\n");
    return fflush(stdout) != 0 ? RSH_FAULT : 0;
}

int exec_rsh(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "--help") == 0)
        return print_help();
    struct mst_error err = MST_ERROR_INIT;
    struct rsh rsh = {.channel.fd = -1, .signal_fd = -1, .status = -1};
    mst_cleanup(mst_buf_release) struct mst_buf request =
        MST_BUF_INIT(EXEC_COMMAND_MAX_BYTES + LAUNCH_HOST_BYTES);
    launch_source_init(&rsh.in, STDIN_FILENO, STREAM_IN);
    launch_sink_init(&rsh.out, STDOUT_FILENO, STREAM_OUT);
    launch_sink_init(&rsh.errors, STDERR_FILENO, STREAM_ERR);
    rsh.in.borrowed = rsh.out.borrowed = rsh.errors.borrowed = true;
    int r = make_request(argc, argv, &request, &err);
    if (r == 0)
        r = run(&rsh, &request, &err);
    launch_channel_release(&rsh.channel);
    launch_sink_release(&rsh.out);
    launch_sink_release(&rsh.errors);
    mst_closep(&rsh.signal_fd);
    return r < 0 ? mst_fail(RSH_FAULT, &err) : rsh.status;
}
