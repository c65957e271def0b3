/* SPDX-License-Identifier: Apache-2.0 */
#include "launch.h"

#include "launch_address.h"
#include "launch_private.h"
#include "muster/cleanup.h"
#include "muster/clock.h"
#include "muster/log.h"
#include "muster/net.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

#define BACKLOG        128
#define ACCEPTS_A_TURN 16
#define NAMED          8 /* workers in the answer to one who asked for somebody else */

/* ---- descriptors in the loop ---- */

void launch_watch_end(struct exec_launch *launch, struct launch_watch *watch)
{
    if (watch->fd >= 0)
        loop_remove(launch->options.loop, watch->fd);
    *watch = (struct launch_watch){.fd = -1};
}

int launch_watch_set(struct exec_launch *launch, struct launch_watch *watch, int fd, uint32_t events,
                     loop_callback *callback, void *context, struct mst_error *err)
{
    if (watch->fd >= 0 && (watch->fd != fd || events == 0))
        launch_watch_end(launch, watch);
    if (fd < 0 || events == 0 || (watch->fd == fd && watch->events == events))
        return 0;
    const int r = watch->fd == fd ? loop_change(launch->options.loop, fd, events, err)
                                  : loop_add(launch->options.loop, fd, events, callback, context, err);
    if (r == 0)
        *watch = (struct launch_watch){.fd = fd, .events = events};
    return r;
}

/* ---- members ---- */

bool launch_is_member(const struct exec_launch *launch, const uint8_t *incarnation)
{
    for (uint32_t rank = 0; rank < launch->world; rank++)
        if (memcmp(launch->members[rank].incarnation, incarnation, DISCOVERY_INCARNATION_BYTES) == 0)
            return true;
    return false;
}

static int nobody_of_that_name(const struct exec_launch *launch, const char *host, struct mst_error *err)
{
    mst_cleanup(mst_buf_release) struct mst_buf names = MST_BUF_INIT(NAMED * (DISCOVERY_SLOT_BYTES + 32));
    for (uint32_t rank = 0; rank < launch->world && rank < NAMED; rank++) {
        char address[MST_IPV4_TEXT_BYTES];
        const struct exec_member *member = &launch->members[rank].member;
        if (mst_buf_printf(&names, "%s%s %s", rank > 0 ? ", " : "", member->slot,
                           mst_ipv4_text(member->ipv4, address)) < 0)
            break;
    }
    return mst_error_set(err, -ENOENT, "'%s' is no other worker of this view: %s%s", host,
                         mst_buf_text(&names), launch->world > NAMED ? ", ..." : "");
}

int launch_find_host(const struct exec_launch *launch, const char *host,
                     const struct exec_record **ret_member, struct mst_error *err)
{
    uint32_t ipv4 = 0;
    const bool by_address = mst_parse_ipv4(host, &ipv4, NULL) == 0;
    for (uint32_t rank = 0; rank < launch->world; rank++) {
        const struct exec_record *member = &launch->members[rank];
        if (memcmp(member->incarnation, launch->self.identity.incarnation, sizeof member->incarnation) == 0)
            continue;
        if (by_address ? member->member.ipv4 == ipv4 : strcmp(member->member.slot, host) == 0) {
            *ret_member = member;
            return 0;
        }
    }
    return nobody_of_that_name(launch, host, err);
}

/* ---- who asks ---- */

static void accept_ready(void *context, uint32_t events)
{
    struct exec_launch *launch = context;
    (void)events;
    for (int accepted = 0; accepted < ACCEPTS_A_TURN; accepted++) {
        mst_cleanup(mst_closep) int fd = accept4(launch->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        struct ucred asker;
        socklen_t asker_bytes = sizeof asker;
        if (fd < 0 && (errno == EINTR || errno == ECONNABORTED))
            continue;
        if (fd < 0) {
            if (errno == EAGAIN)
                return;
            mst_log_warn("launch", "cannot accept a request: %s", strerrordesc_np(errno));
            loop_rest(launch->options.loop, launch->listen_fd,
                      LOOP_REST_NS); /* out of descriptors, most likely */
            return;
        }
        if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &asker, &asker_bytes) < 0 ||
            asker.uid != launch->options.uid) {
            mst_log_warn("launch", "uid %u asked for a program on another worker: only uid %u may",
                         (unsigned)asker.uid, (unsigned)launch->options.uid);
            continue;
        }
        if (launch->relay_count >= LAUNCH_RELAYS)
            continue;
        relay_begin(launch, fd);
        fd = -1;
    }
}

static int listen_here(struct exec_launch *launch, uint16_t port, struct mst_error *err)
{
    struct sockaddr_un address;
    const socklen_t address_bytes = launch_address(port, &address);
    launch->listen_fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (launch->listen_fd < 0 ||
        bind(launch->listen_fd, (const struct sockaddr *)&address, address_bytes) < 0 ||
        listen(launch->listen_fd, BACKLOG) < 0)
        return mst_error_errno(err, -errno, "listen for programs that launch others, by port %u",
                               (unsigned)port);
    return loop_add(launch->options.loop, launch->listen_fd, EPOLLIN, accept_ready, launch, err);
}

/* ---- who is asked ---- */

void exec_launch_give(struct exec_launch *launch, const struct discovery_session *session, int fd)
{
    pthread_mutex_lock(&launch->lock);
    const bool fits = launch->given_count < LAUNCH_GIVEN_MAX;
    if (fits)
        launch->given[launch->given_count++] = (struct launch_given){
            .session = *session, .fd = fd, .deadline_ns = mst_now_ns() + LAUNCH_OPEN_MS * MST_NS_PER_MS};
    pthread_mutex_unlock(&launch->lock);
    if (!fits) {
        mst_closep(&fd);
        return;
    }
    if (eventfd_write(launch->given_fd, 1) < 0)
        mst_log_error("launch", "cannot tell of a connection: %s", strerrordesc_np(errno));
}

/* Whoever is a member is served; who is not may become one within its time: its own view may hold a moment
 * before ours does. */
static bool take_one(struct exec_launch *launch, uint64_t now_ns, struct launch_given *ret_given)
{
    bool found = false;
    pthread_mutex_lock(&launch->lock);
    for (size_t g = 0; g < launch->given_count && !found; g++) {
        struct launch_given *given = &launch->given[g];
        if (!launch_is_member(launch, given->session.peer.incarnation) && now_ns < given->deadline_ns)
            continue;
        *ret_given = *given;
        found = true;
        *given = launch->given[--launch->given_count];
        mst_forget(&launch->given[launch->given_count], sizeof *given);
    }
    pthread_mutex_unlock(&launch->lock);
    return found;
}

static void take_given(struct exec_launch *launch)
{
    struct launch_given given;
    while (take_one(launch, mst_now_ns(), &given)) {
        if (launch_is_member(launch, given.session.peer.incarnation)) {
            serve_begin(launch, &given.session, given.fd);
        } else {
            mst_log_warn("launch", "%s would launch a program here: it is no member of this view",
                         given.session.peer.slot);
            mst_closep(&given.fd);
        }
        mst_forget(&given, sizeof given);
    }
}

static void given_ready(void *context, uint32_t events)
{
    struct exec_launch *launch = context;
    eventfd_t ignored;
    (void)events;
    (void)eventfd_read(launch->given_fd, &ignored);
    take_given(launch);
}

/* ---- the owner's calls ---- */

/* As it dials. Field by field: view, state and step of the agent's own are written by another thread. */
static void take_identity(struct exec_launch *launch, uint64_t view)
{
    const struct discovery_self *from = launch->options.self;
    struct discovery_self *to = &launch->self;
    memcpy(to->keys, from->keys, sizeof to->keys);
    to->key_count = from->key_count;
    memcpy(to->identity.cluster, from->identity.cluster, sizeof to->identity.cluster);
    memcpy(to->identity.slot, from->identity.slot, sizeof to->identity.slot);
    memcpy(to->identity.incarnation, from->identity.incarnation, sizeof to->identity.incarnation);
    memcpy(to->identity.job_key, from->identity.job_key, sizeof to->identity.job_key);
    to->identity.ipv4 = from->identity.ipv4;
    to->identity.port = from->identity.port;
    to->identity.features = from->identity.features;
    to->identity.role = DISCOVERY_ROLE_LAUNCH;
    to->identity.state = DISCOVERY_STATE_RUNNING;
    to->identity.view = view;
}

int exec_launch_set_members(struct exec_launch *launch, const struct exec_record *records, uint32_t world,
                            struct mst_error *err)
{
    struct exec_record *members = calloc(world, sizeof *members);
    if (!members)
        return mst_error_set(err, -ENOMEM, "keep the members: no memory");
    memcpy(members, records, world * sizeof *members);
    free(launch->members);
    launch->members = members;
    launch->world = world;
    take_identity(launch, world > 0 ? records[0].view : 0);
    relay_hang_up(launch, false);
    serve_hang_up(launch, false);
    take_given(launch);
    return 0;
}

void exec_launch_exited(struct exec_launch *launch, uint32_t id, int status)
{
    serve_exited(launch, id, status);
}

void exec_launch_hang_up(struct exec_launch *launch)
{
    relay_hang_up(launch, true);
    serve_hang_up(launch, true);
}

void exec_launch_tick(struct exec_launch *launch, uint64_t now_ns)
{
    take_given(launch);
    relay_tick(launch, now_ns);
    serve_tick(launch, now_ns);
}

uint64_t exec_launch_deadline_ns(const struct exec_launch *launch)
{
    const uint64_t relay_ns = relay_deadline_ns(launch);
    const uint64_t serve_ns = serve_deadline_ns(launch);
    return relay_ns < serve_ns ? relay_ns : serve_ns;
}

int exec_launch_new(const struct exec_launch_options *options, struct exec_launch **ret_launch,
                    struct mst_error *err)
{
    struct exec_launch *launch = calloc(1, sizeof *launch);
    if (!launch)
        return mst_error_set(err, -ENOMEM, "start: no memory");
    launch->options = *options;
    launch->listen_fd = -1;
    launch->given_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    int r = launch->given_fd < 0 ? mst_error_errno(err, -errno, "make an eventfd") : 0;
    const int code = pthread_mutex_init(&launch->lock, NULL);
    if (code != 0) {
        mst_closep(&launch->given_fd);
        free(launch);
        return mst_error_errno(err, -code, "make the launch's lock");
    }
    if (r == 0)
        r = loop_add(options->loop, launch->given_fd, EPOLLIN, given_ready, launch, err);
    if (r == 0)
        r = listen_here(launch, options->self->identity.port, err);
    if (r < 0) {
        exec_launch_free(launch);
        return r;
    }
    *ret_launch = launch;
    return 0;
}

void exec_launch_free(struct exec_launch *launch)
{
    if (!launch)
        return;
    relay_hang_up(launch, true);
    relay_tick(launch, UINT64_MAX);
    serve_free_all(launch);
    loop_remove(launch->options.loop, launch->listen_fd);
    loop_remove(launch->options.loop, launch->given_fd);
    mst_closep(&launch->listen_fd);
    mst_closep(&launch->given_fd);
    for (size_t g = 0; g < launch->given_count; g++)
        mst_closep(&launch->given[g].fd);
    mst_forget(launch->given, sizeof launch->given);
    mst_forget(&launch->self, sizeof launch->self);
    (void)pthread_mutex_destroy(&launch->lock); /* fails only for a lock that is held: a bug */
    free(launch->members);
    free(launch);
}
