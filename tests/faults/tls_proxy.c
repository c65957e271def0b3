/* SPDX-License-Identifier: Apache-2.0 */
#include "tls_proxy.h"

#include "pump.h"

#include <arpa/inet.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#define must(condition) ((condition) ? (void)0 : give_up(__LINE__, #condition))

static void give_up(int line, const char *condition)
{
    (void)fprintf(stderr, "TLS proxy, line %d: not so: %s\n", line, condition);
    ERR_print_errors_fp(stderr);
    abort();
}

/* ---- files ---- */

static void write_key(const char *folder, const char *name, EVP_PKEY *key)
{
    char path[320];
    FILE *file;

    (void)snprintf(path, sizeof path, "%s/%s", folder, name);
    file = fopen(path, "w");
    must(file && PEM_write_PrivateKey(file, key, NULL, NULL, 0, NULL, NULL) == 1 && fclose(file) == 0);
}

static void write_certificate(const char *folder, const char *name, X509 *certificate)
{
    char path[320];
    FILE *file;

    (void)snprintf(path, sizeof path, "%s/%s", folder, name);
    file = fopen(path, "w");
    must(file && PEM_write_X509(file, certificate) == 1 && fclose(file) == 0);
}

static void add_extension(X509 *certificate, X509 *issuer, int nid, const char *value)
{
    X509V3_CTX context;
    X509_EXTENSION *extension;

    X509V3_set_ctx(&context, issuer, certificate, NULL, NULL, 0);
    extension = X509V3_EXT_conf_nid(NULL, &context, nid, value);
    must(extension && X509_add_ext(certificate, extension, -1) == 1);
    X509_EXTENSION_free(extension);
}

/* Signed by `issuer_key`, or by itself. */
static X509 *make_certificate(const char *name, EVP_PKEY *key, X509 *issuer, EVP_PKEY *issuer_key,
                              long serial)
{
    X509 *certificate = X509_new();
    X509_NAME *subject;

    must(certificate && X509_set_version(certificate, 2) == 1 &&
         ASN1_INTEGER_set(X509_get_serialNumber(certificate), serial) == 1);
    must(X509_gmtime_adj(X509_getm_notBefore(certificate), -3600) &&
         X509_gmtime_adj(X509_getm_notAfter(certificate), 86400));
    subject = X509_get_subject_name(certificate);
    must(X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_ASC, (const unsigned char *)name, -1, -1, 0) ==
         1);
    must(X509_set_issuer_name(certificate, issuer ? X509_get_subject_name(issuer) : subject) == 1);
    must(X509_set_pubkey(certificate, key) == 1);
    if (issuer)
        add_extension(certificate, issuer, NID_subject_alt_name, "IP:127.0.0.1");
    else
        add_extension(certificate, certificate, NID_basic_constraints, "critical,CA:TRUE");
    must(X509_sign(certificate, issuer_key ? issuer_key : key, EVP_sha256()) > 0);
    return certificate;
}

void tls_files_make(const char *folder)
{
    EVP_PKEY *authority_key = EVP_EC_gen("P-256"), *server_key = EVP_EC_gen("P-256"),
             *client_key = EVP_EC_gen("P-256");
    X509 *authority, *server, *client;

    must(authority_key && server_key && client_key);
    authority = make_certificate("authority", authority_key, NULL, NULL, 1);
    server = make_certificate("server", server_key, authority, authority_key, 2);
    client = make_certificate("client", client_key, authority, authority_key, 3);
    write_certificate(folder, "ca.pem", authority);
    write_certificate(folder, "server-cert.pem", server);
    write_key(folder, "server-key.pem", server_key);
    write_certificate(folder, "cert.pem", client);
    write_key(folder, "key.pem", client_key);
    X509_free(authority);
    X509_free(server);
    X509_free(client);
    EVP_PKEY_free(authority_key);
    EVP_PKEY_free(server_key);
    EVP_PKEY_free(client_key);
}

/* ---- the proxy: one connection after the other is enough for a client that keeps to one ---- */

struct tls_proxy {
    SSL_CTX *context;
    pthread_t thread;
    int listen_fd, stop_fds[2];
    uint16_t port;
    char socket_path[108];
};

struct side {
    struct tls_proxy *proxy;
    int fd;
};

/* False at the end of either side. */
static bool move(SSL *ssl, int client_fd, int engine_fd)
{
    struct pollfd fds[2] = {{client_fd, POLLIN, 0}, {engine_fd, POLLIN, 0}};
    char bytes[16384];

    if (SSL_pending(ssl) == 0 && poll(fds, 2, -1) < 0)
        return false;
    if (fds[0].revents || SSL_pending(ssl) > 0) {
        const int n = SSL_read(ssl, bytes, sizeof bytes);
        if (n <= 0 || !pump_write(engine_fd, bytes, (size_t)n))
            return false;
    }
    if (fds[1].revents) {
        const ssize_t n = read(engine_fd, bytes, sizeof bytes);
        if (n <= 0 || SSL_write(ssl, bytes, (int)n) <= 0)
            return false;
    }
    return true;
}

static void *serve(void *context)
{
    struct side *side = context;
    SSL *ssl = SSL_new(side->proxy->context);
    const int engine_fd = pump_connect(side->proxy->socket_path);

    must(ssl && engine_fd >= 0 && SSL_set_fd(ssl, side->fd) == 1);
    if (SSL_accept(ssl) == 1) {
        while (move(ssl, side->fd, engine_fd))
            ;
        (void)SSL_shutdown(ssl);
    }
    ERR_clear_error();
    SSL_free(ssl);
    (void)close(side->fd);
    (void)close(engine_fd);
    free(side);
    return NULL;
}

static void *run(void *context)
{
    struct tls_proxy *proxy = context;
    pthread_t threads[64];
    size_t count = 0;

    for (;;) {
        struct pollfd fds[2] = {{proxy->stop_fds[0], POLLIN, 0}, {proxy->listen_fd, POLLIN, 0}};
        struct side *side;
        must(poll(fds, 2, -1) > 0);
        if (fds[0].revents)
            break;
        side = calloc(1, sizeof *side);
        must(side && count < sizeof threads / sizeof threads[0]);
        side->proxy = proxy;
        side->fd = accept(proxy->listen_fd, NULL, NULL);
        must(side->fd >= 0 && pthread_create(&threads[count++], NULL, serve, side) == 0);
    }
    while (count > 0)
        (void)pthread_join(threads[--count], NULL);
    return NULL;
}

struct tls_proxy *tls_proxy_start(const char *folder, const char *socket_path)
{
    struct tls_proxy *proxy = calloc(1, sizeof *proxy);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t bytes = sizeof address;
    char path[320];

    must(proxy && signal(SIGPIPE, SIG_IGN) != SIG_ERR);
    proxy->context = SSL_CTX_new(TLS_server_method());
    must(proxy->context);
    (void)snprintf(path, sizeof path, "%s/server-cert.pem", folder);
    must(SSL_CTX_use_certificate_file(proxy->context, path, SSL_FILETYPE_PEM) == 1);
    (void)snprintf(path, sizeof path, "%s/server-key.pem", folder);
    must(SSL_CTX_use_PrivateKey_file(proxy->context, path, SSL_FILETYPE_PEM) == 1);
    (void)snprintf(path, sizeof path, "%s/ca.pem", folder);
    must(SSL_CTX_load_verify_locations(proxy->context, path, NULL) == 1);
    SSL_CTX_set_verify(proxy->context, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, NULL);
    (void)snprintf(proxy->socket_path, sizeof proxy->socket_path, "%s", socket_path);
    proxy->listen_fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    must(bind(proxy->listen_fd, (const struct sockaddr *)&address, sizeof address) == 0);
    must(listen(proxy->listen_fd, 16) == 0 && pipe(proxy->stop_fds) == 0);
    must(getsockname(proxy->listen_fd, (struct sockaddr *)&address, &bytes) == 0);
    proxy->port = ntohs(address.sin_port);
    must(pthread_create(&proxy->thread, NULL, run, proxy) == 0);
    return proxy;
}

uint16_t tls_proxy_port(const struct tls_proxy *proxy)
{
    return proxy->port;
}

void tls_proxy_stop(struct tls_proxy *proxy)
{
    must(write(proxy->stop_fds[1], "", 1) == 1);
    (void)pthread_join(proxy->thread, NULL);
    (void)close(proxy->listen_fd);
    (void)close(proxy->stop_fds[0]);
    (void)close(proxy->stop_fds[1]);
    SSL_CTX_free(proxy->context);
    free(proxy);
}
