/* SPDX-License-Identifier: Apache-2.0 */
#include "deliver.h"

#include "control.h"
#include "muster/cleanup.h"
#include "muster/clock.h"
#include "muster/log.h"
#include "muster/net.h"

#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>

struct deliver {
    int fd;
    struct discovery_frames frames;
    struct mst_buf out;
    char where[64]; /* "collector at 10.0.0.5" */
};

static uint64_t silence_deadline(void)
{
    return mst_now_ns() + DELIVER_SILENCE_MS * MST_NS_PER_MS;
}

void deliver_free(struct deliver *deliver)
{
    if (!deliver)
        return;
    mst_closep(&deliver->fd);
    discovery_frames_release(&deliver->frames);
    mst_buf_release(&deliver->out);
    free(deliver);
}

int deliver_open(const struct discovery_self *self, const struct discovery_identity *collector,
                 struct deliver **ret_deliver, struct mst_error *err)
{
    struct discovery_session session;
    char address[MST_IPV4_TEXT_BYTES];
    struct deliver *deliver = calloc(1, sizeof *deliver);
    if (!deliver)
        return mst_error_set(err, -ENOMEM, "connect to the collector: no memory");
    deliver->fd = -1;
    deliver->out = (struct mst_buf)MST_BUF_INIT(CONTROL_CHUNK_BYTES + DISCOVERY_FRAME_OVERHEAD_BYTES +
                                                CONTROL_NAME_BYTES);
    (void)snprintf(deliver->where, sizeof deliver->where, "collector at %s",
                   mst_ipv4_text(collector->ipv4, address));
    int r = discovery_hello_dial(collector->ipv4, collector->port, self, DISCOVERY_PURPOSE_CONTROL,
                                 silence_deadline(), &deliver->fd, &session, NULL, err);
    if (r == 0) {
        r = discovery_frames_init(&deliver->frames, &session, err);
        mst_forget(&session, sizeof session);
    }
    if (r < 0) {
        deliver_free(deliver);
        return mst_error_wrap(err, r, "hand files to the collector");
    }
    *ret_deliver = deliver;
    return 0;
}

static int send_frame(struct deliver *deliver, uint16_t type, const void *payload, size_t count,
                      struct mst_error *err)
{
    mst_buf_clear(&deliver->out);
    int r = discovery_frames_pack(&deliver->frames, type, payload, count, &deliver->out, err);
    if (r < 0)
        return r;
    r = mst_send_all(deliver->fd, deliver->out.bytes, deliver->out.count, silence_deadline());
    return r < 0 ? mst_error_errno(err, r, "%s: send", deliver->where) : 0;
}

/* Wait for the collector's word that all is stored. */
static int await_stored(struct deliver *deliver, struct mst_error *err)
{
    const uint64_t deadline_ns = mst_now_ns() + DELIVER_STORED_MS * MST_NS_PER_MS;
    for (;;) {
        uint16_t type;
        const uint8_t *payload;
        size_t count, taken = 0;
        int r = discovery_frames_next(&deliver->frames, &type, &payload, &count, err);
        if (r == 1 && type == CONTROL_STORED)
            return 0;
        if (r == 1 && type == CONTROL_HEARTBEAT)
            continue;
        if (r == 1)
            return mst_error_set(err, -EPROTO, "%s: unexpected frame of type %u", deliver->where, type);
        if (r < 0)
            return mst_error_wrap(err, r, "%s", deliver->where);

        char bytes[1024];
        size_t room = discovery_frames_room(&deliver->frames);
        if (room > sizeof bytes)
            room = sizeof bytes;
        r = mst_wait_fd(deliver->fd, POLLIN, deadline_ns);
        if (r < 0)
            return mst_error_errno(err, r, "%s: wait for 'stored'", deliver->where);
        const ssize_t got = recv(deliver->fd, bytes, room, 0);
        if (got < 0 && (errno == EINTR || errno == EAGAIN))
            continue;
        if (got <= 0)
            return mst_error_errno(err, got == 0 ? -EPIPE : -errno, "%s: wait for 'stored'", deliver->where);
        r = discovery_frames_feed(&deliver->frames, bytes, (size_t)got, &taken, err);
        if (r < 0)
            return mst_error_wrap(err, r, "%s", deliver->where);
    }
}

static int send_content(struct deliver *deliver, int fd, uint64_t bytes, const char *path,
                        struct mst_error *err)
{
    mst_cleanup(mst_freep) char *chunk = malloc(CONTROL_CHUNK_BYTES);
    if (!chunk)
        return mst_error_set(err, -ENOMEM, "send '%s': no memory", path);
    while (bytes > 0) {
        const ssize_t got =
            read(fd, chunk, bytes < CONTROL_CHUNK_BYTES ? (size_t)bytes : CONTROL_CHUNK_BYTES);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return mst_error_errno(err, -errno, "read '%s'", path);
        if (got == 0)
            return mst_error_set(err, -EBADMSG, "read '%s': it shrank while being sent", path);
        const int r = send_frame(deliver, CONTROL_FILE_DATA, chunk, (size_t)got, err);
        if (r < 0)
            return r;
        bytes -= (uint64_t)got;
    }
    return 0;
}

int deliver_file(struct deliver *deliver, const char *path, const char *name, struct mst_error *err)
{
    struct control_file file = {0};
    struct stat status;
    if (strlen(name) >= sizeof file.name)
        return mst_error_set(err, -ENAMETOOLONG, "send '%s': its name is too long", path);
    memcpy(file.name, name, strlen(name) + 1);
    mst_cleanup(mst_closep) int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &status) < 0)
        return mst_error_errno(err, -errno, "open '%s'", path);
    file.bytes = (uint64_t)status.st_size;
    int r = mst_sha256_file(path, file.sha256, err);
    if (r < 0)
        return r;

    mst_cleanup(mst_buf_release) struct mst_buf begin = MST_BUF_INIT(1024);
    r = control_pack_file(&begin, &file);
    if (r < 0)
        return mst_error_errno(err, r, "send '%s'", path);
    r = send_frame(deliver, CONTROL_FILE_BEGIN, begin.bytes, begin.count, err);
    if (r == 0)
        r = send_content(deliver, fd, file.bytes, path, err);
    if (r == 0)
        r = send_frame(deliver, CONTROL_FILE_END, "", 0, err);
    return r < 0 ? r : await_stored(deliver, err);
}

int deliver_complete(struct deliver *deliver, struct mst_error *err)
{
    const int r = send_frame(deliver, CONTROL_COMPLETE, "", 0, err);
    return r < 0 ? r : await_stored(deliver, err);
}

void deliver_hint_complete(struct deliver *deliver)
{
    struct mst_error err = MST_ERROR_INIT;
    if (send_frame(deliver, CONTROL_COMPLETE, "", 0, &err) < 0)
        mst_log_debug("deliver", "%s", err.text);
}
