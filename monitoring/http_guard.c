/* SPDX-License-Identifier: Apache-2.0 */
#include "http_guard.h"

#include "muster/clock.h"
#include "muster/digest.h"

#include <stdio.h>
#include <string.h>
#include <sys/random.h>

/* Of a password that nobody knows; its cost is the usual 10. */
#define GUARD_NOBODY "$2y$10$qxVMUxasM9GLStBayGqkxucitpkdh/JabNcMrTT2E59yNKg3bxmRq"

void http_guard_init(struct http_guard *guard)
{
    *guard = (struct http_guard){.lock = PTHREAD_MUTEX_INITIALIZER};
    http_guard_reset(guard);
}

void http_guard_release(struct http_guard *guard)
{
    explicit_bzero(guard->cache, sizeof guard->cache);
    (void)pthread_mutex_destroy(&guard->lock);
}

void http_guard_reset(struct http_guard *guard)
{
    (void)pthread_mutex_lock(&guard->lock);
    memset(guard->cache, 0, sizeof guard->cache);
    if (getrandom(guard->salt, sizeof guard->salt, 0) < 0)
        memset(guard->salt, 0, sizeof guard->salt); /* the digests never leave the process */
    guard->tokens = -1;
    (void)pthread_mutex_unlock(&guard->lock);
}

static bool fits(struct http_guard *guard, const struct web_user *user, const char *name,
                 const char *password)
{
    char text[WEB_NAME_BYTES + 1024 + sizeof user->hash];
    unsigned char digest[GUARD_DIGEST_BYTES];
    const char *hash = user ? user->hash : GUARD_NOBODY;
    const int bytes = snprintf(text, sizeof text, "%s%c%s%c%s", name, 0, password, 0, hash);
    const bool has_digest =
        bytes >= 0 && (size_t)bytes < sizeof text &&
        mst_hmac_sha256(guard->salt, sizeof guard->salt, text, (size_t)bytes, digest, NULL) == 0;
    mst_forget(text, sizeof text);
    if (!has_digest)
        return false;
    for (size_t i = 0; i < GUARD_CACHE; i++) {
        if (guard->cache[i].is_used &&
            mst_equal_constant_time(guard->cache[i].digest, digest, GUARD_DIGEST_BYTES))
            return guard->cache[i].is_good;
    }
    const bool is_good = web_password_fits(hash, password) && user;
    memcpy(guard->cache[guard->next].digest, digest, GUARD_DIGEST_BYTES);
    guard->cache[guard->next].is_good = is_good;
    guard->cache[guard->next].is_used = true;
    guard->next = (guard->next + 1) % GUARD_CACHE;
    return is_good;
}

bool http_guard_admits(struct http_guard *guard, const struct web_config *config, const char *user,
                       const char *password)
{
    const struct web_user *known = NULL;
    if (config->user_count == 0)
        return true;
    if (!user || !password)
        return false;
    for (size_t i = 0; i < config->user_count; i++) {
        if (strcmp(config->users[i].name, user) == 0)
            known = &config->users[i];
    }
    (void)pthread_mutex_lock(&guard->lock);
    const bool is_good = fits(guard, known, user, password);
    (void)pthread_mutex_unlock(&guard->lock);
    return is_good;
}

/* A bucket of `burst` tokens, one of which comes back each interval. */
bool http_guard_has_room(struct http_guard *guard, const struct web_config *config, uint64_t now_ns)
{
    if (config->rate_interval_ns == 0)
        return true;
    (void)pthread_mutex_lock(&guard->lock);
    const double burst = config->rate_burst ? config->rate_burst : 1;
    if (guard->tokens < 0) {
        guard->tokens = burst;
        guard->tokens_ns = now_ns;
    } else if (now_ns > guard->tokens_ns) { /* another thread may have read its clock later and come first */
        guard->tokens += (double)(now_ns - guard->tokens_ns) / (double)config->rate_interval_ns;
        guard->tokens_ns = now_ns;
    }
    guard->tokens = guard->tokens > burst ? burst : guard->tokens;
    const bool has_room = guard->tokens >= 1;
    if (has_room)
        guard->tokens -= 1;
    (void)pthread_mutex_unlock(&guard->lock);
    return has_room;
}
