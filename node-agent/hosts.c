/* SPDX-License-Identifier: Apache-2.0 */
#include "hosts.h"

#include "muster/clock.h"

#include <stdio.h>
#include <stdlib.h>

/* An agent that is not there yet is asked again soon, one that stays away or is something else seldom. */
#define RETRY_FIRST_NS (50 * MST_NS_PER_MS)
#define RETRY_LAST_NS  (1000 * MST_NS_PER_MS)

void hosts_release(struct hosts *hosts)
{
    free(hosts->items);
    *hosts = (struct hosts){0};
}

struct host *hosts_find(const struct hosts *hosts, uint32_t ipv4, uint16_t port)
{
    for (size_t h = 0; h < hosts->count; h++)
        if (hosts->items[h].ipv4 == ipv4 && hosts->items[h].port == port)
            return &hosts->items[h];
    return NULL;
}

int hosts_learn(struct hosts *hosts, uint32_t ipv4, uint16_t port, struct mst_error *err)
{
    if (hosts_find(hosts, ipv4, port))
        return 0;
    if (hosts->count == HOSTS_MAX)
        return mst_error_set(err, -ENOBUFS, "more than %d hosts on the subnet", HOSTS_MAX);
    if (hosts->count == hosts->capacity) {
        const size_t capacity = hosts->capacity ? 2 * hosts->capacity : 16;
        struct host *items = reallocarray(hosts->items, capacity, sizeof *items);
        if (!items)
            return mst_error_set(err, -ENOMEM, "remember a host: no memory");
        hosts->items = items;
        hosts->capacity = capacity;
    }
    hosts->items[hosts->count++] = (struct host){.ipv4 = ipv4, .port = port, .wait_ns = RETRY_FIRST_NS};
    return 0;
}

void hosts_succeeded(struct host *host)
{
    host->known = true;
    host->wait_ns = RETRY_FIRST_NS;
    host->reason[0] = '\0';
}

void hosts_failed(struct host *host, const char *reason, uint64_t now_ns)
{
    host->dialing = false;
    host->known = false;
    (void)snprintf(host->reason, sizeof host->reason, "%s", reason);
    host->retry_ns = now_ns + host->wait_ns;
    host->wait_ns = 2 * host->wait_ns < RETRY_LAST_NS ? 2 * host->wait_ns : RETRY_LAST_NS;
}

void hosts_keep(struct host *host, uint64_t now_ns)
{
    host->keep_until_ns = now_ns + HOSTS_KEEP_NS;
}

bool hosts_may_be_dialled(const struct host *host)
{
    return !host->known && !host->dialing;
}
