/* SPDX-License-Identifier: Apache-2.0 */
#include "exchange.h"

#include "gather.h"
#include "muster/cleanup.h"
#include "muster/clock.h"
#include "spread.h"
#include "wire.h"

#include <assert.h>
#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>

/* While data flows, packets are fractions of a millisecond apart even at 100 Mbit/s. A longer pause is not
 * the wire's. */
#define PAUSE_NS (2 * MST_NS_PER_MS)

/* The next segment is rarely further away than it takes to fall asleep and to be woken. So long a worker
 * looks again before it sleeps, and lets whoever has something to do on its CPU go first each time. */
#define LOOK_NS (50 * UINT64_C(1000))

int exchange_init(struct trainer_exchange *exchange, const struct trainer_exchange_ops *ops, uint32_t rank,
                  uint32_t world, const struct exchange_settings *settings, size_t link_count,
                  struct mst_error *err)
{
    if (world < 1 || world > TRAINER_MAX_WORLD || rank >= world)
        return mst_error_set(err, -EINVAL,
                             "an exchange of %" PRIu32 " workers has no rank %" PRIu32 " (1 to %d workers)",
                             world, rank, TRAINER_MAX_WORLD);
    if (settings->timeout_ms == 0)
        return mst_error_set(err, -EINVAL, "an exchange needs a time-out above 0 ms");
    *exchange = (struct trainer_exchange){
        .ops = ops, .rank = rank, .world = world, .settings = *settings, .link_count = link_count};
    exchange->links = calloc(link_count + 1, sizeof *exchange->links);
    exchange->fds = calloc(link_count + 1, sizeof *exchange->fds);
    exchange->spread.to = calloc(link_count + 1, sizeof *exchange->spread.to);
    exchange->spread.from = calloc(link_count + 1, sizeof *exchange->spread.from);
    exchange->gather.to = calloc(link_count + 1, sizeof *exchange->gather.to);
    exchange->gather.from = calloc(link_count + 1, sizeof *exchange->gather.from);
    if (!exchange->links || !exchange->fds || !exchange->spread.to || !exchange->spread.from ||
        !exchange->gather.to || !exchange->gather.from) {
        exchange_release(exchange, false);
        return mst_error_set(err, -ENOMEM, "no memory for an exchange of %" PRIu32 " workers", world);
    }
    for (size_t i = 0; i < link_count; i++)
        exchange->links[i].fd = -1;
    const int r = exchange_wire_init(exchange, err);
    if (r < 0)
        exchange_release(exchange, false);
    return r;
}

void exchange_set_link(struct trainer_exchange *exchange, size_t link, int fd, uint32_t peer)
{
    exchange->links[link] =
        (struct exchange_link){.fd = fd, .peer = peer, .readable = true, .writable = true};
}

void exchange_release(struct trainer_exchange *exchange, bool close_sockets)
{
    if (close_sockets && exchange->link_count > 1 && exchange->links[0].fd == exchange->links[1].fd)
        exchange->links[0].fd = -1;
    for (size_t i = 0; close_sockets && i < exchange->link_count; i++)
        mst_closep(&exchange->links[i].fd);
    free(exchange->links);
    free(exchange->packed);
    free(exchange->fds);
    free(exchange->spread.to);
    free(exchange->spread.from);
    free(exchange->gather.to);
    free(exchange->gather.from);
    free(exchange->gather.filled);
}

/* ---- the loop ------------------------------------------------------------------------------------------ */

static bool is_busy(const struct trainer_exchange *exchange, const struct exchange_link *link)
{
    return exchange->traffic->owes(exchange, link) || exchange->traffic->awaits(exchange, link);
}

static bool is_done(const struct trainer_exchange *exchange)
{
    size_t i = 0;

    while (i < exchange->link_count && !is_busy(exchange, &exchange->links[i]))
        i++;
    return i == exchange->link_count;
}

static size_t number_of(const struct trainer_exchange *exchange, const struct exchange_link *link)
{
    return (size_t)(link - exchange->links);
}

static struct exchange_frame own_frame(const struct trainer_exchange *exchange)
{
    return (struct exchange_frame){
        .job_key = exchange->settings.job_key,
        .view = exchange->settings.view,
        .step = exchange->step,
    };
}

/* 1: bytes went; 0: there was nothing to send, or no room. */
static int send_some(struct trainer_exchange *exchange, struct exchange_link *link, struct mst_error *err)
{
    const struct exchange_traffic *traffic = exchange->traffic;

    if (!link->out.busy) {
        struct exchange_frame frame = own_frame(exchange);
        const void *payload;
        if (!traffic->owes(exchange, link) || !traffic->next(exchange, link, &frame, &payload))
            return 0;
        exchange_link_load(link, &frame,
                           exchange_wire_pack(exchange, number_of(exchange, link), &frame, payload));
    }
    if (!link->writable)
        return 0;
    const int r = exchange_link_send(link, &exchange->bytes_sent, err);
    if (r == EXCHANGE_LINK_WHOLE)
        traffic->sent(exchange, link);
    return r < 0 ? r : r != EXCHANGE_LINK_BLOCKED;
}

static int check_frame(struct trainer_exchange *exchange, struct exchange_link *link, struct mst_error *err)
{
    struct exchange_frame expected = own_frame(exchange);

    int r = exchange->traffic->expect(exchange, link, &expected, &link->in.floats, err);
    if (r >= 0)
        r = exchange_frame_match(&link->in.frame, &expected, err);
    link->in.frame.rounded = expected.rounded;
    link->in.payload = exchange_wire_landing(exchange, number_of(exchange, link), &expected, link->in.floats);
    return r < 0 ? mst_error_wrap(err, r, "rank %" PRIu32, link->peer) : 0;
}

static bool listens(const struct trainer_exchange *exchange, const struct exchange_link *link)
{
    return exchange->traffic->awaits(exchange, link) && exchange->traffic->listens(exchange, link);
}

/* As send_some(), in the other direction. */
static int receive_some(struct trainer_exchange *exchange, struct exchange_link *link, struct mst_error *err)
{
    const struct exchange_frame own = own_frame(exchange);

    if (!link->readable || !listens(exchange, link))
        return 0;
    const uint64_t before = exchange->bytes_received;
    const int r = exchange_link_receive(link, &own, &exchange->bytes_received, err);
    link->received += exchange->bytes_received - before;
    if (r == EXCHANGE_LINK_FRAME) {
        const int checked = check_frame(exchange, link, err);
        return checked < 0 ? checked : 1;
    }
    if (r == EXCHANGE_LINK_WHOLE) {
        exchange_wire_unpack(exchange, number_of(exchange, link), &link->in.frame, link->in.floats);
        exchange->traffic->received(exchange, link);
    }
    return r < 0 ? r : r != EXCHANGE_LINK_BLOCKED;
}

/* One go at every link. The number of times that something moved, or an error. */
static int move(struct trainer_exchange *exchange, struct mst_error *err)
{
    int moved = 0;

    for (size_t i = 0; i < exchange->link_count; i++) {
        const int sent = send_some(exchange, &exchange->links[i], err);
        if (sent < 0)
            return sent;
        const int received = receive_some(exchange, &exchange->links[i], err);
        if (received < 0)
            return received;
        moved += sent + received;
    }
    return moved;
}

/* Only what a link could do something with: a socket that was closed reports that again and again. One that
 * closed is noticed even while there is nothing to move, as long as something is still to go to it; one that
 * has nothing left to do with us may close. */
static short events_of(const struct trainer_exchange *exchange, const struct exchange_link *link)
{
    short events = 0;

    if (!link->readable && listens(exchange, link))
        events |= POLLIN;
    if (link->out.busy)
        events |= POLLOUT;
    if (exchange->traffic->owes(exchange, link))
        events |= POLLRDHUP;
    return events;
}

static int fail_silent(const struct trainer_exchange *exchange, struct mst_error *err)
{
    char ranks[128] = "", step[EXCHANGE_STEP_TEXT_BYTES];
    size_t used = 0;

    for (size_t i = 0; i < exchange->link_count && used < sizeof ranks - 16; i++) {
        if (is_busy(exchange, &exchange->links[i]))
            used += (size_t)snprintf(ranks + used, sizeof ranks - used, "%s%" PRIu32, used > 0 ? ", " : "",
                                     exchange->links[i].peer);
    }
    return mst_error_set(err, -ETIMEDOUT, "no byte from or to rank %s in %" PRIu64 " ms (%s)", ranks,
                         (uint64_t)exchange->settings.timeout_ms + exchange->patience_ms,
                         exchange_step_text(exchange->step, step));
}

static int take_events(struct trainer_exchange *exchange, struct mst_error *err)
{
    if (exchange->fds[0].revents)
        return mst_error_set(err, -ECANCELED, "the exchange was cancelled");
    for (size_t i = 0; i < exchange->link_count; i++) {
        struct exchange_link *link = &exchange->links[i];
        const struct pollfd *fd = &exchange->fds[i + 1];
        if ((fd->events & POLLRDHUP) && (fd->revents & (POLLRDHUP | POLLHUP | POLLERR)))
            return mst_error_set(err, -EPIPE, "send to rank %" PRIu32 ": it closed the connection",
                                 link->peer);
        if (fd->revents & POLLOUT)
            link->writable = true;
        if (fd->revents & ~(POLLOUT | POLLRDHUP))
            link->readable = true;
    }
    return 0;
}

/* Whom was a pause for that has just ended? The one of whom least has come, among those of whom something is
 * still to come: the bytes that end it may be another's, who had them from the slow one a moment before. Of
 * several, and where there is only something to send, the one whose socket can go on. */
static uint32_t whom_it_was_for(const struct trainer_exchange *exchange)
{
    uint64_t least = UINT64_MAX;
    uint32_t whom = 0;

    for (size_t i = 0; i < exchange->link_count; i++) {
        const struct exchange_link *link = &exchange->links[i];
        if (exchange->traffic->awaits(exchange, link) && link->received < least)
            least = link->received;
    }
    for (size_t i = 0; i < exchange->link_count; i++) {
        const struct exchange_link *link = &exchange->links[i];
        const bool ready = exchange->fds[i + 1].revents != 0;
        const bool may_be = least == UINT64_MAX
                                ? ready
                                : exchange->traffic->awaits(exchange, link) && link->received == least;
        if (may_be && (whom == 0 || ready))
            whom = link->peer + 1;
    }
    return whom;
}

/* Shorter pauses than the longest tell less of who is slow than of who was asleep. */
static void note_pause(struct trainer_exchange *exchange, uint64_t pause_ns)
{
    exchange->paused_ns += pause_ns;
    if (pause_ns <= exchange->longest_ns)
        return;
    exchange->longest_ns = pause_ns;
    exchange->waited_for = whom_it_was_for(exchange);
}

/* Until a socket can go on; without `wait`, only look. 1: one can, or it is worth another look; 0: none. */
static int wait_for_links(struct trainer_exchange *exchange, bool wait, struct mst_error *err)
{
    const uint64_t deadline_ns =
        exchange->progress_ns + (exchange->settings.timeout_ms + exchange->patience_ms) * MST_NS_PER_MS;

    exchange->fds[0] = (struct pollfd){.fd = exchange->settings.cancel_fd, .events = POLLIN};
    for (size_t i = 0; i < exchange->link_count; i++) {
        const short events = events_of(exchange, &exchange->links[i]);
        exchange->fds[i + 1] = (struct pollfd){.fd = events ? exchange->links[i].fd : -1, .events = events};
    }
    const uint64_t start_ns = mst_now_ns();
    int n = poll(exchange->fds, exchange->link_count + 1, 0);
    while (wait && n == 0 && mst_now_ns() - start_ns < LOOK_NS) {
        (void)sched_yield();
        n = poll(exchange->fds, exchange->link_count + 1, 0);
    }
    if (wait && n == 0)
        n = poll(exchange->fds, exchange->link_count + 1, mst_ms_until(deadline_ns, INT32_MAX));
    const uint64_t end_ns = mst_now_ns();
    if (wait && end_ns - start_ns >= PAUSE_NS)
        note_pause(exchange, end_ns - start_ns);
    if (n < 0 && errno != EINTR)
        return mst_error_errno(err, -errno, "wait for the other workers");
    if (n == 0 && wait && end_ns >= deadline_ns)
        return fail_silent(exchange, err);
    if (n <= 0)
        return wait;
    const int r = take_events(exchange, err);
    return r < 0 ? r : 1;
}

/* Move until all is done, or, without `wait`, until the sockets have nothing more to give or take. */
static int pump(struct trainer_exchange *exchange, bool wait, struct mst_error *err)
{
    while (!is_done(exchange)) {
        const int moved = move(exchange, err);
        if (moved < 0)
            return moved;
        if (moved > 0) {
            exchange->progress_ns = mst_now_ns();
            continue;
        }
        const int r = wait_for_links(exchange, wait, err);
        if (r <= 0)
            return r;
    }
    return 0;
}

/* ---- what is under way ----------------------------------------------------------------------------------
 */

/* The others must not wait for us until their time-out: all sockets are shut, and they fail in turn. */
static int fail(struct trainer_exchange *exchange, int code)
{
    exchange->failure = code;
    for (size_t i = 0; i < exchange->link_count; i++)
        (void)shutdown(exchange->links[i].fd, SHUT_RDWR);
    return code;
}

static int check_usable(const struct trainer_exchange *exchange, struct mst_error *err)
{
    if (exchange->failure < 0)
        return mst_error_errno(err, exchange->failure, "the exchange failed before");
    return 0;
}

static int check_cancelled(const struct trainer_exchange *exchange, struct mst_error *err)
{
    struct pollfd cancel = {.fd = exchange->settings.cancel_fd, .events = POLLIN};

    if (poll(&cancel, 1, 0) > 0)
        return mst_error_set(err, -ECANCELED, "the exchange was cancelled");
    return 0;
}

static void start(struct trainer_exchange *exchange, const struct exchange_traffic *traffic, uint64_t step,
                  uint32_t patience_ms)
{
    exchange->patience_ms = patience_ms;
    exchange->traffic = traffic;
    exchange->step = step;
    exchange->progress_ns = mst_now_ns();
    exchange->paused_ns = 0;
    exchange->longest_ns = 0;
    for (size_t i = 0; i < exchange->link_count; i++)
        exchange->links[i].received = 0;
    exchange->waited_for = 0;
    exchange->bytes_sent = exchange->bytes_received = 0;
}

int exchange_begin(struct trainer_exchange *exchange, const struct trainer_sum *sum, struct mst_error *err)
{
    assert(sum->count <= TRAINER_MODEL_MAX_PARAMETERS * (size_t)2 && sum->rounded <= sum->count);
    int r = check_usable(exchange, err);
    if (r < 0)
        return r;
    r = check_cancelled(exchange, err);
    if (r >= 0) {
        exchange->sum = *sum;
        r = exchange->ops->lay_out(exchange, err);
    }
    if (r < 0)
        return fail(exchange, r);
    start(exchange, exchange->ops->sum, sum->step, sum->patience_ms);
    return 0;
}

void exchange_landed(const struct trainer_exchange *exchange, size_t offset, size_t count)
{
    if (exchange->sum.landed && count > 0)
        exchange->sum.landed(exchange->sum.context, offset, count);
}

int exchange_ready(struct trainer_exchange *exchange, size_t part, size_t offset, size_t count,
                   struct mst_error *err)
{
    assert(part < exchange->sum.part_count && offset + count <= exchange->sum.count);
    int r = check_usable(exchange, err);
    if (r < 0)
        return r;
    exchange->ops->ready(exchange, part, offset, count);
    r = pump(exchange, false, err);
    return r < 0 ? fail(exchange, r) : 0;
}

bool exchange_preferred(const struct trainer_exchange *exchange, size_t index, size_t *ret_offset,
                        size_t *ret_count)
{
    return exchange->ops->preferred && exchange->ops->preferred(exchange, index, ret_offset, ret_count);
}

int exchange_finish(struct trainer_exchange *exchange, struct trainer_exchange_stats *ret_stats,
                    struct mst_error *err)
{
    int r = check_usable(exchange, err);
    if (r < 0)
        return r;
    const uint64_t start_ns = mst_now_ns();
    exchange->progress_ns = start_ns;
    r = check_cancelled(exchange, err);
    if (r >= 0)
        r = pump(exchange, true, err);
    if (r < 0)
        return fail(exchange, r);
    const uint64_t total_ns = mst_now_ns() - start_ns;
    *ret_stats = (struct trainer_exchange_stats){
        .wait_ms = (double)exchange->paused_ns / MST_NS_PER_MS,
        .transfer_ms = (double)(total_ns - exchange->paused_ns) / MST_NS_PER_MS,
        .bytes_sent = exchange->bytes_sent,
        .longest_ms = (double)exchange->longest_ns / MST_NS_PER_MS,
        .waited_for = exchange->waited_for,
    };
    return 0;
}

void exchange_stats_add(struct trainer_exchange_stats *all, const struct trainer_exchange_stats *own)
{
    all->wait_ms += own->wait_ms;
    all->transfer_ms += own->transfer_ms;
    all->bytes_sent += own->bytes_sent;
    if (own->longest_ms > all->longest_ms) {
        all->longest_ms = own->longest_ms;
        all->waited_for = own->waited_for;
    }
}

int exchange_gather_begin(struct trainer_exchange *exchange, const struct trainer_gather *gather,
                          struct mst_error *err)
{
    int r = check_usable(exchange, err);
    if (r < 0)
        return r;
    r = check_cancelled(exchange, err);
    if (r >= 0)
        r = exchange_gather_lay_out(exchange, gather, err);
    if (r < 0)
        return fail(exchange, r);
    start(exchange, &exchange_gather_traffic, gather->step, gather->patience_ms);
    return 0;
}

int exchange_gather_ready(struct trainer_exchange *exchange, uint32_t shard, size_t offset, size_t count,
                          struct mst_error *err)
{
    int r = check_usable(exchange, err);
    if (r < 0)
        return r;
    exchange_gather_fill(exchange, shard, offset, count);
    r = pump(exchange, false, err);
    return r < 0 ? fail(exchange, r) : 0;
}

int exchange_gather_finish(struct trainer_exchange *exchange, struct trainer_exchange_stats *ret_stats,
                           struct mst_error *err)
{
    return exchange_finish(exchange, ret_stats, err);
}

int exchange_spread(struct trainer_exchange *exchange, const struct exchange_spread *spread,
                    uint64_t *ret_bytes, struct mst_error *err)
{
    int r = check_usable(exchange, err);
    if (r < 0)
        return r;
    exchange_spread_lay_out(exchange, spread);
    start(exchange, &exchange_spread_traffic, spread->step, 0);
    r = check_cancelled(exchange, err);
    if (r >= 0)
        r = pump(exchange, true, err);
    if (r < 0)
        return fail(exchange, r);
    *ret_bytes = exchange->bytes_sent + exchange->bytes_received;
    return 0;
}

int trainer_exchange_sum(struct trainer_exchange *exchange, uint64_t step, float *values, size_t count,
                         struct trainer_exchange_stats *ret_stats, struct mst_error *err)
{
    const struct trainer_sum sum = {
        .step = step, .parts = &values, .part_count = 1, .shards = exchange->world, .count = count};
    struct trainer_exchange_stats stats;

    int r = exchange_begin(exchange, &sum, err);
    if (r >= 0)
        r = exchange_ready(exchange, 0, 0, count, err);
    if (r >= 0)
        r = exchange_finish(exchange, &stats, err);
    if (r >= 0 && ret_stats)
        *ret_stats = stats;
    return r;
}

void trainer_exchange_free(struct trainer_exchange *exchange)
{
    if (!exchange)
        return;
    exchange_release(exchange, true);
    exchange->ops->free(exchange);
}
