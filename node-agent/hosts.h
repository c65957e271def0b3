/* SPDX-License-Identifier: Apache-2.0 */
/* The addresses that somebody may be at, with what is known of each and when to try it again. The mesh's
 * private list; it knows no sockets. */
#ifndef AGENT_HOSTS_H
#define AGENT_HOSTS_H

#include "muster/discovery.h"
#include "muster/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HOSTS_MAX          4096
#define HOSTS_KEEP_NS      (60 * 1000000000ULL)
#define HOSTS_REASON_BYTES 192

struct host {
    uint32_t ipv4;
    uint16_t port;
    bool known;   /* it proved who it is: nothing is to be asked any more */
    bool dialing; /* a connection of ours is in its hello */
    uint64_t retry_ns, wait_ns;
    uint64_t keep_until_ns;          /* dialled until then even if no strangers are: a worker that was lost */
    size_t key_index;                /* which of the keys it has, as far as is known */
    char reason[HOSTS_REASON_BYTES]; /* why the last try led nowhere */
};

struct hosts {
    struct host *items; /* owned */
    size_t count, capacity;
};

void hosts_release(struct hosts *hosts);

struct host *hosts_find(const struct hosts *hosts, uint32_t ipv4, uint16_t port); /* NULL when unknown */
/* Known ones are left alone. -ENOBUFS beyond HOSTS_MAX. */
int hosts_learn(struct hosts *hosts, uint32_t ipv4, uint16_t port, struct mst_error *err);
void hosts_succeeded(struct host *host);
/* Tried in vain: again after a pause that doubles, 50 ms to 1 s. */
void hosts_failed(struct host *host, const char *reason, uint64_t now_ns);
/* It was a worker's, and the worker is lost: worth a hello for HOSTS_KEEP_NS. */
void hosts_keep(struct host *host, uint64_t now_ns);
/* Worth a hello, once retry_ns has come? */
bool hosts_may_be_dialled(const struct host *host);

#endif
