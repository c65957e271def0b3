/* SPDX-License-Identifier: Apache-2.0 */
/* For muster-launch: the few calls of libcrypto that common/digest.c makes, on libcrypto's SHA-256 alone.
 * libcrypto's own would bring all algorithms along (4 MB), and at start read whatever openssl.cnf lies in
 * somebody's image and load the modules that it names, made for another libc. */
#define OPENSSL_SUPPRESS_DEPRECATED /* the plain calls are, since 3.0, in favour of these */

#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/sha.h>
#include <stdlib.h>
#include <string.h>

struct evp_md_st {
    int unused;
};

struct evp_md_ctx_st {
    SHA256_CTX sha;
};

const EVP_MD *EVP_sha256(void)
{
    static const struct evp_md_st only_one;
    return &only_one;
}

EVP_MD_CTX *EVP_MD_CTX_new(void)
{
    return calloc(1, sizeof(struct evp_md_ctx_st));
}

void EVP_MD_CTX_free(EVP_MD_CTX *context)
{
    if (context)
        explicit_bzero(context, sizeof *context);
    free(context);
}

int EVP_DigestInit_ex(EVP_MD_CTX *context, const EVP_MD *type, ENGINE *engine)
{
    (void)type, (void)engine;
    return SHA256_Init(&context->sha);
}

int EVP_DigestUpdate(EVP_MD_CTX *context, const void *bytes, size_t count)
{
    return SHA256_Update(&context->sha, bytes, count);
}

int EVP_DigestFinal_ex(EVP_MD_CTX *context, unsigned char *digest, unsigned int *bytes)
{
    if (bytes)
        *bytes = SHA256_DIGEST_LENGTH;
    return SHA256_Final(digest, &context->sha);
}

/* The inner or the outer half of an HMAC begins with the key under its mask. */
static int begin(SHA256_CTX *sha, const unsigned char *key, unsigned char mask)
{
    unsigned char block[SHA256_CBLOCK];
    for (size_t i = 0; i < sizeof block; i++)
        block[i] = key[i] ^ mask;
    const int good = SHA256_Init(sha) && SHA256_Update(sha, block, sizeof block);
    explicit_bzero(block, sizeof block);
    return good;
}

/* RFC 2104, section 2. */
unsigned char *HMAC(const EVP_MD *type, const void *key, int key_bytes, const unsigned char *bytes,
                    size_t count, unsigned char *mac, unsigned int *mac_bytes)
{
    unsigned char block[SHA256_CBLOCK] = {0}, inner[SHA256_DIGEST_LENGTH];
    SHA256_CTX sha;
    (void)type;
    /* Not SHA256(): that one goes by way of everything else. */
    if ((size_t)key_bytes > sizeof block && SHA256_Init(&sha) && SHA256_Update(&sha, key, (size_t)key_bytes))
        (void)SHA256_Final(block, &sha);
    else if ((size_t)key_bytes <= sizeof block)
        memcpy(block, key, (size_t)key_bytes);
    const int good = begin(&sha, block, 0x36) && SHA256_Update(&sha, bytes, count) &&
                     SHA256_Final(inner, &sha) && begin(&sha, block, 0x5c) &&
                     SHA256_Update(&sha, inner, sizeof inner) && SHA256_Final(mac, &sha);
    explicit_bzero(block, sizeof block);
    explicit_bzero(&sha, sizeof sha);
    if (mac_bytes)
        *mac_bytes = SHA256_DIGEST_LENGTH;
    return good ? mac : NULL;
}
