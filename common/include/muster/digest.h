/* SPDX-License-Identifier: Apache-2.0 */
/* SHA-256, HMAC-SHA-256 and random bytes, from OpenSSL's libcrypto and the kernel. */
#ifndef MUSTER_DIGEST_H
#define MUSTER_DIGEST_H

#include "muster/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MST_SHA256_BYTES     32
#define MST_SHA256_HEX_BYTES (2 * MST_SHA256_BYTES + 1)

int mst_sha256(const void *bytes, size_t count, uint8_t ret_digest[static MST_SHA256_BYTES],
               struct mst_error *err);
int mst_sha256_file(const char *path, uint8_t ret_digest[static MST_SHA256_BYTES], struct mst_error *err);

/* A digest over pieces. `_finish` releases too; `_release` is fine at any time. */
struct mst_sha256 {
    void *context; /* EVP_MD_CTX */
};
int mst_sha256_init(struct mst_sha256 *sha, struct mst_error *err);
int mst_sha256_update(struct mst_sha256 *sha, const void *bytes, size_t count, struct mst_error *err);
int mst_sha256_finish(struct mst_sha256 *sha, uint8_t ret_digest[static MST_SHA256_BYTES],
                      struct mst_error *err);
void mst_sha256_release(struct mst_sha256 *sha);

/* RFC 2104 with SHA-256. */
int mst_hmac_sha256(const void *key, size_t key_bytes, const void *bytes, size_t count,
                    uint8_t ret_mac[static MST_SHA256_BYTES], struct mst_error *err);

/* Lower-case hex with a NUL: text holds 2 * count + 1 bytes. */
void mst_hex(const void *bytes, size_t count, char *text);

/* In time that does not depend on where they differ. */
bool mst_equal_constant_time(const void *a, const void *b, size_t count);

/* From getrandom(2). */
int mst_random(void *ret_bytes, size_t count, struct mst_error *err);

/* Overwrite a secret; the compiler may not leave it out. */
void mst_forget(void *bytes, size_t count);

#endif
