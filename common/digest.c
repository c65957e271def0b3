/* SPDX-License-Identifier: Apache-2.0 */
#include "muster/digest.h"

#include "muster/cleanup.h"
#include "muster/file.h"

#include <limits.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <string.h>
#include <sys/random.h>

#define FILE_CHUNK_BYTES ((size_t)1 << 16)

static int crypto_error(struct mst_error *err, const char *what)
{
    return mst_error_set(err, -ENOMEM, "%s: libcrypto refused (no memory, or SHA-256 disabled)", what);
}

int mst_sha256_init(struct mst_sha256 *sha, struct mst_error *err)
{
    sha->context = EVP_MD_CTX_new();
    if (!sha->context || EVP_DigestInit_ex(sha->context, EVP_sha256(), NULL) != 1) {
        mst_sha256_release(sha);
        return crypto_error(err, "start a SHA-256");
    }
    return 0;
}

int mst_sha256_update(struct mst_sha256 *sha, const void *bytes, size_t count, struct mst_error *err)
{
    return EVP_DigestUpdate(sha->context, bytes, count) == 1 ? 0 : crypto_error(err, "continue a SHA-256");
}

int mst_sha256_finish(struct mst_sha256 *sha, uint8_t ret_digest[static MST_SHA256_BYTES],
                      struct mst_error *err)
{
    const int good = EVP_DigestFinal_ex(sha->context, ret_digest, NULL);
    mst_sha256_release(sha);
    return good == 1 ? 0 : crypto_error(err, "finish a SHA-256");
}

void mst_sha256_release(struct mst_sha256 *sha)
{
    EVP_MD_CTX_free(sha->context);
    sha->context = NULL;
}

int mst_sha256(const void *bytes, size_t count, uint8_t ret_digest[static MST_SHA256_BYTES],
               struct mst_error *err)
{
    mst_cleanup(mst_sha256_release) struct mst_sha256 sha = {0};
    int r = mst_sha256_init(&sha, err);
    if (r == 0)
        r = mst_sha256_update(&sha, bytes, count, err);
    return r < 0 ? r : mst_sha256_finish(&sha, ret_digest, err);
}

int mst_sha256_file(const char *path, uint8_t ret_digest[static MST_SHA256_BYTES], struct mst_error *err)
{
    mst_cleanup(mst_sha256_release) struct mst_sha256 sha = {0};
    mst_cleanup(mst_closep) int fd = -1;
    int r = mst_file_open(path, &fd, err);
    if (r < 0)
        return r;
    mst_cleanup(mst_freep) char *chunk = malloc(FILE_CHUNK_BYTES);
    if (!chunk)
        return mst_error_set(err, -ENOMEM, "read '%s': no memory", path);
    r = mst_sha256_init(&sha, err);
    while (r == 0) {
        const ssize_t got = read(fd, chunk, FILE_CHUNK_BYTES);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return mst_error_errno(err, -errno, "read '%s'", path);
        if (got == 0)
            return mst_sha256_finish(&sha, ret_digest, err);
        r = mst_sha256_update(&sha, chunk, (size_t)got, err);
    }
    return r;
}

int mst_hmac_sha256(const void *key, size_t key_bytes, const void *bytes, size_t count,
                    uint8_t ret_mac[static MST_SHA256_BYTES], struct mst_error *err)
{
    if (key_bytes > INT_MAX)
        return mst_error_set(err, -EINVAL, "an HMAC key of %zu bytes", key_bytes);
    /* HMAC() takes no NULL for an empty key. */
    if (!HMAC(EVP_sha256(), key_bytes > 0 ? key : "", (int)key_bytes, bytes, count, ret_mac, NULL))
        return crypto_error(err, "compute an HMAC-SHA-256");
    return 0;
}

void mst_hex(const void *bytes, size_t count, char *text)
{
    static const char digits[] = "0123456789abcdef";
    const uint8_t *byte = bytes;
    for (size_t i = 0; i < count; i++) {
        text[2 * i] = digits[byte[i] >> 4];
        text[2 * i + 1] = digits[byte[i] & 15];
    }
    text[2 * count] = '\0';
}

bool mst_equal_constant_time(const void *a, const void *b, size_t count)
{
    return CRYPTO_memcmp(a, b, count) == 0;
}

int mst_random(void *ret_bytes, size_t count, struct mst_error *err)
{
    char *next = ret_bytes;
    while (count > 0) {
        const ssize_t got = getrandom(next, count, 0);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return mst_error_errno(err, -errno, "get random bytes");
        next += got;
        count -= (size_t)got;
    }
    return 0;
}

void mst_forget(void *bytes, size_t count)
{
    explicit_bzero(bytes, count);
}
