/* SPDX-License-Identifier: Apache-2.0 */
#include "web_tls.h"

#include "muster/buf.h"
#include "muster/cleanup.h"

#include <gnutls/gnutls.h>
#include <stdio.h>
#include <string.h>

#define PRIORITIES_MAX_BYTES 4096
#define VERSION_DEFAULT_MIN  12
#define VERSION_DEFAULT_MAX  13

int web_tls_version(const char *name)
{
    static const char *const names[] = {"TLS10", "TLS11", "TLS12", "TLS13"};
    for (size_t i = 0; i < MST_ARRAY_COUNT(names); i++) {
        if (strcmp(names[i], name) == 0)
            return 10 + (int)i;
    }
    return -EINVAL;
}

struct word {
    const char *go, *gnutls;
};

static int add_word(const struct word *words, size_t word_count, const char *name, const char **list,
                    size_t *count)
{
    for (size_t i = 0; i < word_count; i++) {
        if (strcmp(words[i].go, name) != 0)
            continue;
        if (*count == WEB_TLS_WORDS_MAX)
            return -ENOBUFS;
        list[(*count)++] = words[i].gnutls;
        return 0;
    }
    return -EINVAL;
}

int web_tls_add_cipher(struct web_tls_choice *choice, const char *name)
{
    /* A suite of TLS 1.2 is a key exchange and a cipher; those of TLS 1.3 cannot be chosen, as in Go. */
    static const struct word words[] = {
        {"TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256", "+ECDHE-ECDSA:+AES-128-GCM"},
        {"TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384", "+ECDHE-ECDSA:+AES-256-GCM"},
        {"TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256", "+ECDHE-ECDSA:+CHACHA20-POLY1305"},
        {"TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA", "+ECDHE-ECDSA:+AES-128-CBC:+SHA1"},
        {"TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA", "+ECDHE-ECDSA:+AES-256-CBC:+SHA1"},
        {"TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", "+ECDHE-RSA:+AES-128-GCM"},
        {"TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384", "+ECDHE-RSA:+AES-256-GCM"},
        {"TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256", "+ECDHE-RSA:+CHACHA20-POLY1305"},
        {"TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA", "+ECDHE-RSA:+AES-128-CBC:+SHA1"},
        {"TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA", "+ECDHE-RSA:+AES-256-CBC:+SHA1"},
        {"TLS_RSA_WITH_AES_128_GCM_SHA256", "+RSA:+AES-128-GCM"},
        {"TLS_RSA_WITH_AES_256_GCM_SHA384", "+RSA:+AES-256-GCM"},
    };
    return add_word(words, MST_ARRAY_COUNT(words), name, choice->ciphers, &choice->cipher_count);
}

int web_tls_add_curve(struct web_tls_choice *choice, const char *name)
{
    static const struct word words[] = {{"CurveP256", "+GROUP-SECP256R1"},
                                        {"CurveP384", "+GROUP-SECP384R1"},
                                        {"CurveP521", "+GROUP-SECP521R1"},
                                        {"X25519", "+GROUP-X25519"}};
    return add_word(words, MST_ARRAY_COUNT(words), name, choice->curves, &choice->curve_count);
}

char *web_tls_priorities(const struct web_tls_choice *choice)
{
    mst_cleanup(mst_buf_release) struct mst_buf text = MST_BUF_INIT(PRIORITIES_MAX_BYTES);
    const int min = choice->min_version ? choice->min_version : VERSION_DEFAULT_MIN;
    const int max = choice->max_version ? choice->max_version : VERSION_DEFAULT_MAX;
    if (min > max)
        return NULL;
    int r = mst_buf_append_text(&text, "NORMAL:-VERS-ALL");
    for (int version = min; r == 0 && version <= max; version++)
        r = mst_buf_printf(&text, ":+VERS-TLS1.%d", version - 10);
    if (r == 0 && choice->cipher_count > 0) /* what TLS 1.3 needs stays */
        r = mst_buf_append_text(&text, ":-KX-ALL:-CIPHER-ALL:+ECDHE-ECDSA:+ECDHE-RSA");
    for (size_t i = 0; r == 0 && i < choice->cipher_count; i++)
        r = mst_buf_printf(&text, ":%s", choice->ciphers[i]);
    if (r == 0 && choice->cipher_count > 0 && max >= 13)
        r = mst_buf_append_text(&text, ":+AES-128-GCM:+AES-256-GCM");
    if (r == 0 && choice->curve_count > 0)
        r = mst_buf_append_text(&text, ":-GROUP-ALL");
    for (size_t i = 0; r == 0 && i < choice->curve_count; i++)
        r = mst_buf_printf(&text, ":%s", choice->curves[i]);
    if (r == 0 && choice->prefers_server)
        r = mst_buf_append_text(&text, ":%SERVER_PRECEDENCE");
    return r == 0 ? strdup(mst_buf_text(&text)) : NULL;
}

static gnutls_datum_t datum(const char *text)
{
    union {
        const char *in;
        unsigned char *out;
    } both = {.in = text}; /* the library's type is not const, its use is */
    return (gnutls_datum_t){both.out, (unsigned)strlen(text)};
}

int web_tls_check(const char *cert, const char *key, const char *client_ca, struct mst_error *err)
{
    gnutls_certificate_credentials_t credentials;
    const gnutls_datum_t cert_text = datum(cert), key_text = datum(key);
    if (gnutls_certificate_allocate_credentials(&credentials) < 0)
        return mst_error_set(err, -ENOMEM, "no memory");
    int r = gnutls_certificate_set_x509_key_mem(credentials, &cert_text, &key_text, GNUTLS_X509_FMT_PEM);
    const char *what = "certificate and key";
    if (r >= 0 && client_ca) {
        const gnutls_datum_t ca_text = datum(client_ca);
        r = gnutls_certificate_set_x509_trust_mem(credentials, &ca_text, GNUTLS_X509_FMT_PEM);
        what = "client_ca";
        r = r == 0 ? GNUTLS_E_NO_CERTIFICATE_FOUND : r;
    }
    gnutls_certificate_free_credentials(credentials);
    return r < 0 ? mst_error_set(err, -EBADMSG, "%s: %s", what, gnutls_strerror(r)) : 0;
}
