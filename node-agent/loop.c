/* SPDX-License-Identifier: Apache-2.0 */
#include "loop.h"

#include "muster/cleanup.h"
#include "muster/clock.h"

#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#define LOOP_BATCH  64
#define LOOP_CAP_MS 60000

/* A slot a descriptor number. The generation tells an event of a descriptor that was closed in the same batch
 * from one of a new descriptor that got the same number. */
struct slot {
    loop_callback *callback; /* NULL: free */
    void *context;
    uint32_t generation;
    uint32_t events;
    uint64_t rest_until_ns; /* 0: it is watched */
};

struct loop {
    int epoll_fd;
    struct slot *slots; /* owned, indexed by descriptor */
    size_t slot_count;
    size_t resting; /* slots */
};

int loop_new(struct loop **ret_loop, struct mst_error *err)
{
    struct loop *loop = calloc(1, sizeof *loop);
    if (!loop)
        return mst_error_set(err, -ENOMEM, "make an event loop: no memory");
    loop->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (loop->epoll_fd < 0) {
        const int code = -errno;
        free(loop);
        return mst_error_errno(err, code, "make an event loop");
    }
    *ret_loop = loop;
    return 0;
}

void loop_free(struct loop *loop)
{
    if (!loop)
        return;
    mst_closep(&loop->epoll_fd);
    free(loop->slots);
    free(loop);
}

static uint64_t tag(const struct loop *loop, int fd)
{
    return (uint64_t)loop->slots[fd].generation << 32 | (uint32_t)fd;
}

int loop_add(struct loop *loop, int fd, uint32_t events, loop_callback *callback, void *context,
             struct mst_error *err)
{
    const size_t index = (size_t)fd;
    if (index >= loop->slot_count) {
        const size_t count = index + LOOP_BATCH;
        struct slot *slots = reallocarray(loop->slots, count, sizeof *slots);
        if (!slots)
            return mst_error_set(err, -ENOMEM, "watch descriptor %d: no memory", fd);
        memset(slots + loop->slot_count, 0, (count - loop->slot_count) * sizeof *slots);
        loop->slots = slots;
        loop->slot_count = count;
    }
    loop->slots[index] = (struct slot){.callback = callback,
                                       .context = context,
                                       .generation = loop->slots[index].generation + 1,
                                       .events = events};
    struct epoll_event event = {.events = events, .data.u64 = tag(loop, fd)};
    if (epoll_ctl(loop->epoll_fd, EPOLL_CTL_ADD, fd, &event) < 0) {
        loop->slots[index].callback = NULL;
        return mst_error_errno(err, -errno, "watch descriptor %d", fd);
    }
    return 0;
}

static void end_rest(struct loop *loop, struct slot *slot)
{
    loop->resting -= slot->rest_until_ns > 0;
    slot->rest_until_ns = 0;
}

int loop_change(struct loop *loop, int fd, uint32_t events, struct mst_error *err)
{
    struct epoll_event event = {.events = events, .data.u64 = tag(loop, fd)};
    if (epoll_ctl(loop->epoll_fd, EPOLL_CTL_MOD, fd, &event) < 0)
        return mst_error_errno(err, -errno, "watch descriptor %d", fd);
    loop->slots[fd].events = events;
    end_rest(loop, &loop->slots[fd]);
    return 0;
}

void loop_rest(struct loop *loop, int fd, uint64_t pause_ns)
{
    struct slot *slot = &loop->slots[fd];
    struct epoll_event event = {.events = 0, .data.u64 = tag(loop, fd)};
    if (epoll_ctl(loop->epoll_fd, EPOLL_CTL_MOD, fd, &event) < 0)
        return;
    loop->resting += slot->rest_until_ns == 0;
    slot->rest_until_ns = mst_now_ns() + pause_ns;
}

/* Watch those again that have rested; when the next one has, or the deadline. */
static uint64_t wake_rested(struct loop *loop, uint64_t deadline_ns)
{
    const uint64_t now_ns = mst_now_ns();
    for (size_t index = 0; loop->resting > 0 && index < loop->slot_count; index++) {
        struct slot *slot = &loop->slots[index];
        if (slot->rest_until_ns == 0)
            continue;
        if (now_ns >= slot->rest_until_ns && loop_change(loop, (int)index, slot->events, NULL) < 0)
            slot->rest_until_ns = now_ns + LOOP_REST_NS;
        if (slot->rest_until_ns > 0)
            loop_sooner(&deadline_ns, slot->rest_until_ns);
    }
    return deadline_ns;
}

void loop_remove(struct loop *loop, int fd)
{
    if (fd < 0 || (size_t)fd >= loop->slot_count || !loop->slots[fd].callback)
        return;
    end_rest(loop, &loop->slots[fd]);
    loop->slots[fd].callback = NULL;
    loop->slots[fd].generation++;
    (void)epoll_ctl(loop->epoll_fd, EPOLL_CTL_DEL, fd, NULL); /* it was added: cannot fail */
}

int loop_run_once(struct loop *loop, uint64_t deadline_ns, struct mst_error *err)
{
    struct epoll_event events[LOOP_BATCH];
    if (loop->resting > 0)
        deadline_ns = wake_rested(loop, deadline_ns);
    const int count = epoll_wait(loop->epoll_fd, events, LOOP_BATCH, mst_ms_until(deadline_ns, LOOP_CAP_MS));
    if (count < 0)
        return errno == EINTR ? 0 : mst_error_errno(err, -errno, "wait for events");
    for (int e = 0; e < count; e++) {
        const int fd = (int)(events[e].data.u64 & UINT32_MAX);
        const struct slot slot = loop->slots[fd];
        if (slot.callback && tag(loop, fd) == events[e].data.u64)
            slot.callback(slot.context, events[e].events);
    }
    return 0;
}
