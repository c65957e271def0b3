/* SPDX-License-Identifier: Apache-2.0 */
/* TLS on 127.0.0.1 in front of a Unix socket, which wants a client's certificate, and the files for both
 * sides: an authority, a server's and a client's certificate, made anew in a folder. */
#ifndef TESTS_FAULTS_TLS_PROXY_H
#define TESTS_FAULTS_TLS_PROXY_H

#include <stdint.h>

/* ca.pem, server-cert.pem, server-key.pem, cert.pem, key.pem in `folder`. */
void tls_files_make(const char *folder);

struct tls_proxy;

/* Aborts on any failure of the machine. */
struct tls_proxy *tls_proxy_start(const char *folder, const char *socket_path);
uint16_t tls_proxy_port(const struct tls_proxy *proxy);
void tls_proxy_stop(struct tls_proxy *proxy);

#endif
