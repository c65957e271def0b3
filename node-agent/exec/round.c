/* SPDX-License-Identifier: Apache-2.0 */
#include "round.h"

#include "bytes.h"
#include "muster/cleanup.h"
#include "muster/clock.h"

#include <inttypes.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

#define LONGEST_MS 60000

enum round_type { ROUND_RECORD = 1, ROUND_OUTCOME = 2 };

/* Until one of `events` on `fd`: 0, -ECANCELED, -ETIMEDOUT. */
static int await(const struct exec_round *round, int fd, short events, uint64_t deadline_ns)
{
    for (;;) {
        struct pollfd fds[] = {{.fd = round->cancel_fd, .events = POLLIN}, {.fd = fd, .events = events}};
        const int ready = poll(fds, 2, mst_ms_until(deadline_ns, LONGEST_MS));
        if (ready < 0 && errno != EINTR)
            return -errno;
        if (ready > 0 && fds[0].revents)
            return -ECANCELED;
        if (ready > 0)
            return 0;
        if (mst_now_ns() >= deadline_ns)
            return -ETIMEDOUT;
    }
}

static int send_message(const struct exec_round *round, const struct mst_buf *message, uint64_t deadline_ns)
{
    size_t done = 0;
    while (done < message->count) {
        const ssize_t sent = send(round->fd_out, message->bytes + done, message->count - done, MSG_NOSIGNAL);
        if (sent > 0)
            done += (size_t)sent;
        else if (errno != EAGAIN && errno != EINTR)
            return -errno;
        const int r = done < message->count ? await(round, round->fd_out, POLLOUT, deadline_ns) : 0;
        if (r < 0)
            return r;
    }
    return 0;
}

static int receive_message(const struct exec_round *round, uint8_t message[static EXEC_ROUND_BYTES],
                           uint64_t deadline_ns)
{
    size_t done = 0;
    while (done < EXEC_ROUND_BYTES) {
        const int r = await(round, round->fd_in, POLLIN, deadline_ns);
        if (r < 0)
            return r;
        const ssize_t got = recv(round->fd_in, message + done, EXEC_ROUND_BYTES - done, 0);
        if (got == 0)
            return -EPIPE;
        if (got > 0)
            done += (size_t)got;
        else if (errno != EAGAIN && errno != EINTR)
            return -errno;
    }
    return 0;
}

static int pack_header(struct mst_buf *out, enum round_type type, uint32_t rank, uint64_t view)
{
    int r = bytes_put(out, (uint64_t)type, 2);
    if (r == 0)
        r = bytes_put(out, EXEC_ROUND_BYTES, 2);
    if (r == 0)
        r = bytes_put(out, rank, 4);
    return r < 0 ? r : bytes_put(out, view, 8);
}

static int pad(struct mst_buf *out, size_t start)
{
    static const uint8_t zeros[EXEC_ROUND_BYTES];
    return mst_buf_append(out, zeros, EXEC_ROUND_BYTES - (out->count - start));
}

static int pack_record(struct mst_buf *out, const struct exec_record *record, uint32_t rank)
{
    const size_t start = out->count;
    const struct exec_member *member = &record->member;
    int r = pack_header(out, ROUND_RECORD, rank, record->view);
    if (r == 0)
        r = bytes_put(out, (uint64_t)member->ipv4 << 32 | (uint64_t)member->agent_port << 16 | member->port,
                      8);
    if (r == 0)
        r = mst_buf_append(out, record->incarnation, sizeof record->incarnation);
    if (r == 0)
        r = bytes_put(out, (uint64_t)record->over, 1);
    if (r == 0)
        r = bytes_put(out, record->running, 1);
    if (r == 0)
        r = bytes_put_text(out, member->slot, strnlen(member->slot, sizeof member->slot - 1));
    return r < 0 ? r : pad(out, start);
}

/* The cursor behind a good header, or one that is broken. */
static struct bytes_cursor open_message(const uint8_t *message, enum round_type type, uint32_t *ret_rank,
                                        uint64_t *ret_view)
{
    struct bytes_cursor cursor = {message, EXEC_ROUND_BYTES, false};
    const bool fits = bytes_take(&cursor, 2) == (uint64_t)type && bytes_take(&cursor, 2) == EXEC_ROUND_BYTES;
    *ret_rank = (uint32_t)bytes_take(&cursor, 4);
    *ret_view = bytes_take(&cursor, 8);
    cursor.broken |= !fits;
    return cursor;
}

static int unpack_record(const uint8_t *message, const struct exec_round *round, uint32_t author,
                         struct exec_record *ret_record, struct mst_error *err)
{
    uint32_t rank;
    struct exec_record record = {0};
    struct bytes_cursor cursor = open_message(message, ROUND_RECORD, &rank, &record.view);
    const uint64_t place = bytes_take(&cursor, 8);
    record.member.ipv4 = (uint32_t)(place >> 32);
    record.member.agent_port = (uint16_t)(place >> 16);
    record.member.port = (uint16_t)place;
    for (size_t b = 0; b < sizeof record.incarnation; b++)
        record.incarnation[b] = (uint8_t)bytes_take(&cursor, 1);
    const uint64_t over = bytes_take(&cursor, 1);
    record.over = over <= EXEC_OVER_FAILED ? (enum exec_over)over : EXEC_NOT_OVER;
    record.running = bytes_take(&cursor, 1) == 1;
    bytes_take_text(&cursor, record.member.slot, sizeof record.member.slot);
    if (cursor.broken || over > EXEC_OVER_FAILED || rank != author || record.view != round->view)
        return mst_error_set(err, -EBADMSG,
                             "a record of rank %" PRIu32 " in view %" PRIu64 " where that of rank %" PRIu32
                             " in view %" PRIu64 " was expected",
                             rank, record.view, author, round->view);
    *ret_record = record;
    return 0;
}

int exec_round_records(const struct exec_round *round, const struct exec_record *own, uint64_t deadline_ns,
                       struct exec_record *ret_records, struct mst_error *err)
{
    const uint32_t world = round->world;
    ret_records[round->rank] = *own;
    /* In turn k each worker hands on what it learnt in the one before: after world - 1 all have all. A
     * message is far smaller than a socket's buffer, so all may send before they receive. */
    for (uint32_t k = 0; k + 1 < world; k++) {
        const uint32_t handed_on = (round->rank + world - k) % world;
        const uint32_t author = (round->rank + world - k - 1) % world;
        uint8_t message[EXEC_ROUND_BYTES];
        mst_cleanup(mst_buf_release) struct mst_buf out = MST_BUF_INIT(EXEC_ROUND_BYTES);
        int r = pack_record(&out, &ret_records[handed_on], handed_on);
        if (r == 0)
            r = send_message(round, &out, deadline_ns);
        if (r == 0)
            r = receive_message(round, message, deadline_ns);
        if (r == -ECANCELED)
            return mst_error_set(err, r, "stopped");
        if (r < 0)
            return mst_error_errno(err, r, "wait for the record of rank %" PRIu32, author);
        r = unpack_record(message, round, author, &ret_records[author], err);
        if (r < 0)
            return r;
    }
    return 0;
}

int exec_round_pack_outcome(struct mst_buf *out, const struct exec_round *round, uint32_t rank,
                            const struct exec_outcome *outcome)
{
    const size_t start = out->count;
    int r = pack_header(out, ROUND_OUTCOME, rank, round->view);
    if (r == 0)
        r = bytes_put(out, (uint64_t)outcome->kind, 1);
    if (r == 0)
        r = bytes_put(out, outcome->status, 1);
    return r < 0 ? r : pad(out, start);
}

int exec_round_unpack_outcome(const uint8_t message[static EXEC_ROUND_BYTES], const struct exec_round *round,
                              uint32_t *ret_rank, struct exec_outcome *ret_outcome, struct mst_error *err)
{
    uint32_t rank;
    uint64_t view;
    struct bytes_cursor cursor = open_message(message, ROUND_OUTCOME, &rank, &view);
    const uint64_t kind = bytes_take(&cursor, 1);
    const uint64_t status = bytes_take(&cursor, 1);
    if (cursor.broken || view != round->view || rank >= round->world || rank == round->rank ||
        kind < EXEC_OUTCOME_ENDED || kind > EXEC_OUTCOME_SERVED)
        return mst_error_set(err, -EBADMSG,
                             "an outcome of rank %" PRIu32 " in view %" PRIu64 " that cannot be", rank, view);
    *ret_rank = rank;
    *ret_outcome = (struct exec_outcome){(enum exec_outcome_kind)kind, (uint8_t)status};
    return 0;
}

bool exec_round_passes_on(const struct exec_round *round, uint32_t author)
{
    return (round->rank + 1) % round->world != author;
}
