/* SPDX-License-Identifier: Apache-2.0 */
/* TLS in Go's words, as exporters' users write them, to GnuTLS' words. */
#ifndef MONITORING_WEB_TLS_H
#define MONITORING_WEB_TLS_H

#include "muster/error.h"

#include <stdbool.h>
#include <stddef.h>

#define WEB_TLS_WORDS_MAX 16

struct web_tls_choice {
    int min_version, max_version;                                       /* 10 to 13; 0: TLS 1.2 and TLS 1.3 */
    const char *ciphers[WEB_TLS_WORDS_MAX], *curves[WEB_TLS_WORDS_MAX]; /* in GnuTLS' words */
    size_t cipher_count, curve_count;
    bool prefers_server;
};

int web_tls_version(const char *name); /* 12 for "TLS12"; -EINVAL */
int web_tls_add_cipher(struct web_tls_choice *choice, const char *name);
int web_tls_add_curve(struct web_tls_choice *choice, const char *name);

/* A priority string, the caller's; NULL when nothing is left. */
char *web_tls_priorities(const struct web_tls_choice *choice);

/* Do the texts hold a certificate, its own key and, unless NULL, certificates of a CA? -EBADMSG. */
int web_tls_check(const char *cert, const char *key, const char *client_ca, struct mst_error *err);

#endif
