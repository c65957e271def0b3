/* SPDX-License-Identifier: Apache-2.0 */
/* Many hellos at a time, in one poll loop. */
#include "muster/cleanup.h"
#include "muster/clock.h"
#include "muster/discovery.h"
#include "muster/net.h"

#include <poll.h>
#include <stdlib.h>

#define POLL_CAP_MS 1000

struct visit {
    struct discovery_greeting *greeting; /* NULL: this place is free */
    bool connected;
    size_t key_index;
    uint64_t start_ns, deadline_ns;
    struct discovery_hello hello;
};

struct round {
    const struct discovery_self *self;
    uint64_t deadline_ns;
    struct discovery_greeting *list;
    size_t count, next;
    struct visit *visits;
    struct pollfd fds[DISCOVERY_GREETINGS_AT_ONCE]; /* fd -1: free; by the visit's index */
};

static void visit_end(struct round *round, size_t v, int code)
{
    struct visit *visit = &round->visits[v];
    visit->greeting->code = code;
    visit->greeting->reason = visit->hello.reason;
    if (code == 0)
        visit->greeting->who = visit->hello.session.peer;
    mst_closep(&round->fds[v].fd);
    discovery_hello_release(&visit->hello);
    visit->greeting = NULL;
}

static void visit_start(struct round *round, size_t v, struct discovery_greeting *greeting, size_t key_index)
{
    struct visit *visit = &round->visits[v];
    const uint64_t now_ns = mst_now_ns();
    *visit = (struct visit){
        .greeting = greeting,
        .key_index = key_index,
        .start_ns = now_ns,
        .deadline_ns = now_ns + DISCOVERY_HELLO_MS * MST_NS_PER_MS,
    };
    if (round->deadline_ns < visit->deadline_ns)
        visit->deadline_ns = round->deadline_ns;
    int r = discovery_hello_dialer_with(&visit->hello, round->self, key_index, DISCOVERY_PURPOSE_HELLO,
                                        greeting->ipv4, greeting->port, NULL);
    if (r == 0)
        r = mst_tcp_connect_start(greeting->ipv4, greeting->port, &round->fds[v].fd, NULL);
    round->fds[v].events = POLLOUT;
    if (r < 0)
        visit_end(round, v, r);
}

static void visit_go_on(struct round *round, size_t v)
{
    struct visit *visit = &round->visits[v];
    int r;
    if (!visit->connected) {
        r = mst_tcp_connect_result(round->fds[v].fd);
        if (r < 0) {
            visit_end(round, v, r);
            return;
        }
        visit->connected = visit->greeting->connected = true;
        visit->greeting->connect_ns = mst_now_ns() - visit->start_ns;
    }
    r = discovery_hello_io(&visit->hello, round->fds[v].fd, NULL);
    if (r == DISCOVERY_HELLO_GOING) {
        round->fds[v].events = discovery_hello_events(&visit->hello);
        return;
    }
    const bool other_key =
        r < 0 && visit->hello.reason == DISCOVERY_REASON_KEY && visit->key_index + 1 < round->self->key_count;
    struct discovery_greeting *greeting = visit->greeting;
    const size_t next_key = visit->key_index + 1;
    visit_end(round, v, r == DISCOVERY_HELLO_DONE ? 0 : r);
    if (other_key)
        visit_start(round, v, greeting, next_key);
}

/* Fill the free places; false when nothing is under way and nothing is left. */
static bool fill(struct round *round, uint64_t *ret_wake_ns)
{
    bool busy = false;
    *ret_wake_ns = UINT64_MAX;
    for (size_t v = 0; v < DISCOVERY_GREETINGS_AT_ONCE; v++) {
        while (!round->visits[v].greeting && round->next < round->count && mst_now_ns() < round->deadline_ns)
            visit_start(round, v, &round->list[round->next++], 0);
        if (!round->visits[v].greeting)
            continue;
        busy = true;
        if (round->visits[v].deadline_ns < *ret_wake_ns)
            *ret_wake_ns = round->visits[v].deadline_ns;
    }
    return busy;
}

int discovery_greet(const struct discovery_self *self, struct discovery_greeting *list, size_t count,
                    uint64_t deadline_ns, struct mst_error *err)
{
    struct round round = {.self = self, .deadline_ns = deadline_ns, .list = list, .count = count};
    mst_cleanup(mst_freep) struct visit *visits = calloc(DISCOVERY_GREETINGS_AT_ONCE, sizeof *visits);
    uint64_t wake_ns;
    if (!visits)
        return mst_error_set(err, -ENOMEM, "say hello: no memory");
    round.visits = visits;
    for (size_t v = 0; v < DISCOVERY_GREETINGS_AT_ONCE; v++)
        round.fds[v].fd = -1;
    for (size_t i = 0; i < count; i++) {
        const struct discovery_greeting untouched = {.ipv4 = list[i].ipv4, .port = list[i].port};
        list[i] = untouched;
        list[i].code = -ECANCELED;
    }
    while (fill(&round, &wake_ns)) {
        (void)poll(round.fds, DISCOVERY_GREETINGS_AT_ONCE, mst_ms_until(wake_ns, POLL_CAP_MS));
        const uint64_t now_ns = mst_now_ns();
        for (size_t v = 0; v < DISCOVERY_GREETINGS_AT_ONCE; v++) {
            if (visits[v].greeting && round.fds[v].revents)
                visit_go_on(&round, v);
            if (visits[v].greeting && now_ns >= visits[v].deadline_ns)
                visit_end(&round, v, -ETIMEDOUT);
        }
    }
    return 0;
}
