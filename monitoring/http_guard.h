/* SPDX-License-Identifier: Apache-2.0 */
/* Who may ask, and how often: basic authentication and the rate limit. For several threads. */
#ifndef MONITORING_HTTP_GUARD_H
#define MONITORING_HTTP_GUARD_H

#include "web_config.h"

#include <pthread.h>
#include <stdbool.h>

#define GUARD_CACHE        64
#define GUARD_DIGEST_BYTES 32

struct http_guard {
    pthread_mutex_t lock; /* guards what is below; also makes that one bcrypt runs at a time */
    struct {
        unsigned char digest[GUARD_DIGEST_BYTES]; /* of user, password and hash */
        bool is_good, is_used;
    } cache[GUARD_CACHE]; /* bcrypt takes 50 ms, a scrape comes each few seconds */
    size_t next;
    unsigned char salt[GUARD_DIGEST_BYTES];
    double tokens;      /* of the rate limit */
    uint64_t tokens_ns; /* the latest time that was seen */
};

void http_guard_init(struct http_guard *guard);
void http_guard_release(struct http_guard *guard);
/* A new configuration: forgets what it knew. */
void http_guard_reset(struct http_guard *guard);

/* True when there are no users, or this is one. An unknown name takes as long as a wrong password. */
bool http_guard_admits(struct http_guard *guard, const struct web_config *config, const char *user,
                       const char *password);
/* False when the rate limit says no. */
bool http_guard_has_room(struct http_guard *guard, const struct web_config *config, uint64_t now_ns);

#endif
