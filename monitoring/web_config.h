/* SPDX-License-Identifier: Apache-2.0 */
/* --web.config.file: TLS, basic authentication, headers and a rate limit, in the YAML that Prometheus'
 * exporters share (exporter-toolkit, docs/web-configuration.md there). Strict: a key that is not known is an
 * error, for a misspelt "basic_auth_users" would leave the door open. */
#ifndef MONITORING_WEB_CONFIG_H
#define MONITORING_WEB_CONFIG_H

#include "muster/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#define WEB_FILES_MAX   3 /* certificate, key, authority */
#define WEB_USERS_MAX   64
#define WEB_HEADERS_MAX 5 /* the toolkit allows these five */
#define WEB_NAME_BYTES  256

enum web_client_auth {
    WEB_CLIENT_NONE,            /* NoClientCert */
    WEB_CLIENT_REQUEST,         /* RequestClientCert */
    WEB_CLIENT_ANY,             /* RequireAnyClientCert */
    WEB_CLIENT_VERIFY_IF_GIVEN, /* VerifyClientCertIfGiven */
    WEB_CLIENT_VERIFY,          /* RequireAndVerifyClientCert */
};

struct web_user {
    char name[WEB_NAME_BYTES];
    char hash[128]; /* bcrypt: "$2y$10$..." */
};

struct web_header {
    char name[64], value[WEB_NAME_BYTES * 4];
};

/* One that the configuration names, so that it can be looked at again. */
struct web_file {
    char *path;              /* owned */
    struct timespec changed; /* taken before it was read */
};

struct web_config {
    struct web_file files[WEB_FILES_MAX];
    size_t file_count;
    bool has_tls;
    char *cert, *key, *client_ca; /* PEM, owned */
    char *priorities;             /* GnuTLS' words for versions, ciphers and curves; owned */
    enum web_client_auth client_auth;
    struct web_user users[WEB_USERS_MAX];
    size_t user_count;
    struct web_header headers[WEB_HEADERS_MAX];
    size_t header_count;
    uint64_t rate_interval_ns; /* 0: no limit */
    uint32_t rate_burst;
    bool has_http2; /* asked for by name; it is not spoken here */
};

/* Reads the file and those that it names, relative to its folder. -EINVAL or -EBADMSG with the line; what the
 * system says about a file. On an error *ret_config is untouched. */
int web_config_read(const char *path, struct web_config *ret_config, struct mst_error *err);
/* The same from text; `folder` is where relative paths begin. */
int web_config_parse(const char *text, size_t bytes, const char *what, const char *folder,
                     struct web_config *ret_config, struct mst_error *err);
void web_config_release(struct web_config *config);

/* When a file was changed last; zero: there is none. */
struct timespec web_file_changed(const char *path);

/* Does `password` fit the hash? Slow on purpose. */
bool web_password_fits(const char *hash, const char *password);

#endif
