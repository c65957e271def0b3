/* SPDX-License-Identifier: Apache-2.0 */
#include "web_config.h"

#include "muster/buf.h"
#include "muster/cleanup.h"
#include "muster/file.h"
#include "muster/parse.h"
#include "web_tls.h"

#include <crypt.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <yaml.h>

#define CONFIG_MAX_BYTES ((size_t)1 << 20)
#define PEM_MAX_BYTES    ((size_t)1 << 20)

/* What is being read. */
struct reader {
    yaml_document_t document;
    const char *what, *folder;
    struct web_config config;
    char *cert_file, *key_file, *ca_file;
    struct web_tls_choice tls;
    struct mst_error *err;
};

static int fault(const struct reader *reader, const yaml_node_t *node, const char *key, const char *text)
{
    return mst_error_set(reader->err, -EINVAL, "%s:%zu:%zu: %s: %s", reader->what, node->start_mark.line + 1,
                         node->start_mark.column + 1, key, text);
}

static const char *scalar(const yaml_node_t *node)
{
    return node->type == YAML_SCALAR_NODE ? (const char *)node->data.scalar.value : NULL;
}

/* One of a mapping's keys: `set` stores its value. */
struct entry {
    const char *key;
    int (*set)(struct reader *reader, const char *key, yaml_node_t *value);
};

static int read_mapping(struct reader *reader, const char *where, yaml_node_t *node,
                        const struct entry *entries, size_t count)
{
    if (scalar(node) && !*scalar(node)) /* "tls_server_config:" with nothing below */
        return 0;
    if (node->type != YAML_MAPPING_NODE)
        return fault(reader, node, where, "expected keys with values");
    for (yaml_node_pair_t *pair = node->data.mapping.pairs.start; pair < node->data.mapping.pairs.top;
         pair++) {
        yaml_node_t *key_node = yaml_document_get_node(&reader->document, pair->key);
        yaml_node_t *value = yaml_document_get_node(&reader->document, pair->value);
        const char *key = key_node ? scalar(key_node) : NULL;
        if (!key || !value)
            return fault(reader, node, where, "a key that is no word");
        for (yaml_node_pair_t *other = node->data.mapping.pairs.start; other < pair; other++) {
            const yaml_node_t *earlier = yaml_document_get_node(&reader->document, other->key);
            if (earlier && scalar(earlier) && strcmp(scalar(earlier), key) == 0)
                return fault(reader, key_node, key, "is there twice");
        }
        const struct entry *entry = entries;
        while (entry < entries + count && entry->key && strcmp(entry->key, key) != 0)
            entry++;
        if (entry == entries + count)
            return fault(reader, key_node, key, "is not a key of this place");
        const int r = entry->set(reader, key, value);
        if (r < 0)
            return r;
    }
    return 0;
}

static int keep_text(struct reader *reader, const char *key, yaml_node_t *value, char **ret_text)
{
    const char *text = scalar(value);
    if (!text)
        return fault(reader, value, key, "expected a text");
    free(*ret_text);
    *ret_text = strdup(text);
    return *ret_text ? 0 : mst_error_set(reader->err, -ENOMEM, "%s: no memory", reader->what);
}

static int keep_bool(struct reader *reader, const char *key, yaml_node_t *value, bool *ret_value)
{
    const char *text = scalar(value);
    if (!text || mst_parse_bool(text, ret_value, NULL) < 0)
        return fault(reader, value, key, "expected true or false");
    return 0;
}

/* ---- tls_server_config ---- */

#define TEXT_SETTER(name, member)                                                                            \
    static int name(struct reader *reader, const char *key, yaml_node_t *value)                              \
    {                                                                                                        \
        return keep_text(reader, key, value, &reader->member);                                               \
    }

TEXT_SETTER(set_cert_file, cert_file)
TEXT_SETTER(set_key_file, key_file)
TEXT_SETTER(set_ca_file, ca_file)
TEXT_SETTER(set_cert, config.cert)
TEXT_SETTER(set_key, config.key)
TEXT_SETTER(set_ca, config.client_ca)

static int set_client_auth(struct reader *reader, const char *key, yaml_node_t *value)
{
    static const char *const names[] = {"NoClientCert", "RequestClientCert", "RequireAnyClientCert",
                                        "VerifyClientCertIfGiven", "RequireAndVerifyClientCert"};
    const char *text = scalar(value);
    for (size_t i = 0; text && i < MST_ARRAY_COUNT(names); i++) {
        if (strcmp(names[i], text) == 0) {
            reader->config.client_auth = (enum web_client_auth)i;
            return 0;
        }
    }
    if (text && !*text)
        return 0;
    return fault(reader, value, key,
                 "expected NoClientCert, RequestClientCert, RequireAnyClientCert, "
                 "VerifyClientCertIfGiven or RequireAndVerifyClientCert");
}

/* A certificate's names cannot be asked of this HTTP library: refused rather than ignored. */
static int set_sans(struct reader *reader, const char *key, yaml_node_t *value)
{
    if (value->type == YAML_SEQUENCE_NODE &&
        value->data.sequence.items.start == value->data.sequence.items.top)
        return 0;
    return fault(reader, value, key, "is not supported: give clients a CA of their own");
}

static int set_min_version(struct reader *reader, const char *key, yaml_node_t *value)
{
    const char *text = scalar(value);
    const int version = text ? web_tls_version(text) : -1;
    if (version < 0)
        return fault(reader, value, key, "expected TLS10, TLS11, TLS12 or TLS13");
    reader->tls.min_version = version;
    return 0;
}

static int set_max_version(struct reader *reader, const char *key, yaml_node_t *value)
{
    const char *text = scalar(value);
    const int version = text ? web_tls_version(text) : -1;
    if (version < 0)
        return fault(reader, value, key, "expected TLS10, TLS11, TLS12 or TLS13");
    reader->tls.max_version = version;
    return 0;
}

/* A list of words, each known to `add`. */
static int read_list(struct reader *reader, const char *key, yaml_node_t *value,
                     int (*add)(struct web_tls_choice *choice, const char *word), const char *complaint)
{
    if (value->type != YAML_SEQUENCE_NODE)
        return fault(reader, value, key, "expected a list");
    for (yaml_node_item_t *item = value->data.sequence.items.start; item < value->data.sequence.items.top;
         item++) {
        const yaml_node_t *node = yaml_document_get_node(&reader->document, *item);
        const char *word = node ? scalar(node) : NULL;
        if (!word || add(&reader->tls, word) < 0)
            return fault(reader, node ? node : value, key, complaint);
    }
    return 0;
}

static int set_ciphers(struct reader *reader, const char *key, yaml_node_t *value)
{
    return read_list(reader, key, value, web_tls_add_cipher,
                     "expected names of TLS 1.2 suites as TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256");
}

static int set_curves(struct reader *reader, const char *key, yaml_node_t *value)
{
    return read_list(reader, key, value, web_tls_add_curve,
                     "expected CurveP256, CurveP384, CurveP521 or X25519");
}

static int set_prefer_server(struct reader *reader, const char *key, yaml_node_t *value)
{
    return keep_bool(reader, key, value, &reader->tls.prefers_server);
}

static int set_tls(struct reader *reader, const char *key, yaml_node_t *value)
{
    static const struct entry entries[] = {
        {"cert_file", set_cert_file},
        {"key_file", set_key_file},
        {"cert", set_cert},
        {"key", set_key},
        {"client_auth_type", set_client_auth},
        {"client_ca_file", set_ca_file},
        {"client_ca", set_ca},
        {"client_allowed_sans", set_sans},
        {"min_version", set_min_version},
        {"max_version", set_max_version},
        {"cipher_suites", set_ciphers},
        {"curve_preferences", set_curves},
        {"prefer_server_cipher_suites", set_prefer_server},
    };
    reader->config.has_tls = value->type == YAML_MAPPING_NODE;
    return read_mapping(reader, key, value, entries, MST_ARRAY_COUNT(entries));
}

/* ---- http_server_config ---- */

static int set_http2(struct reader *reader, const char *key, yaml_node_t *value)
{
    return keep_bool(reader, key, value, &reader->config.has_http2);
}

static int set_header(struct reader *reader, const char *key, yaml_node_t *value)
{
    const char *text = scalar(value);
    struct web_header *header = &reader->config.headers[reader->config.header_count];
    if (!text || strlen(text) >= sizeof header->value || strpbrk(text, "\r\n"))
        return fault(reader, value, key, "expected a text of one line");
    if (strcmp(key, "X-Frame-Options") == 0 && *text && strcasecmp(text, "deny") != 0 &&
        strcasecmp(text, "sameorigin") != 0)
        return fault(reader, value, key, "expected deny or sameorigin");
    if (strcmp(key, "X-Content-Type-Options") == 0 && *text && strcasecmp(text, "nosniff") != 0)
        return fault(reader, value, key, "expected nosniff");
    if (!*text)
        return 0;
    (void)snprintf(header->name, sizeof header->name, "%s", key);
    (void)snprintf(header->value, sizeof header->value, "%s", text);
    reader->config.header_count++;
    return 0;
}

static int set_headers(struct reader *reader, const char *key, yaml_node_t *value)
{
    static const struct entry entries[WEB_HEADERS_MAX] = {
        {"X-Frame-Options", set_header},         {"X-Content-Type-Options", set_header},
        {"X-XSS-Protection", set_header},        {"Strict-Transport-Security", set_header},
        {"Content-Security-Policy", set_header},
    };
    return read_mapping(reader, key, value, entries, MST_ARRAY_COUNT(entries));
}

static int set_http(struct reader *reader, const char *key, yaml_node_t *value)
{
    static const struct entry entries[] = {{"http2", set_http2}, {"headers", set_headers}};
    return read_mapping(reader, key, value, entries, MST_ARRAY_COUNT(entries));
}

/* ---- the others ---- */

static bool is_bcrypt(const char *hash)
{
    return strlen(hash) == 60 && strncmp(hash, "$2", 2) == 0 && strchr("aby", hash[2]) && hash[3] == '$' &&
           hash[6] == '$';
}

static int set_users(struct reader *reader, const char *key, yaml_node_t *value)
{
    struct web_config *config = &reader->config;
    if (scalar(value) && !*scalar(value))
        return 0;
    if (value->type != YAML_MAPPING_NODE)
        return fault(reader, value, key, "expected names with hashes");
    for (yaml_node_pair_t *pair = value->data.mapping.pairs.start; pair < value->data.mapping.pairs.top;
         pair++) {
        const yaml_node_t *name_node = yaml_document_get_node(&reader->document, pair->key);
        const yaml_node_t *hash_node = yaml_document_get_node(&reader->document, pair->value);
        const char *name = name_node ? scalar(name_node) : NULL, *hash = hash_node ? scalar(hash_node) : NULL;
        if (!name || !*name || strlen(name) >= WEB_NAME_BYTES || strchr(name, ':'))
            return fault(reader, value, key, "expected a name of 1 to 255 bytes without a colon");
        if (!hash || !is_bcrypt(hash)) /* never with the text: it may be the password itself */
            return fault(reader, hash_node ? hash_node : value, name,
                         "expected a hash by bcrypt, as 'htpasswd -nBC 10' makes it");
        if (config->user_count == WEB_USERS_MAX)
            return fault(reader, value, key, "more than 64 users");
        struct web_user *user = &config->users[config->user_count++];
        (void)snprintf(user->name, sizeof user->name, "%s", name);
        (void)snprintf(user->hash, sizeof user->hash, "%s", hash);
    }
    return 0;
}

static int set_interval(struct reader *reader, const char *key, yaml_node_t *value)
{
    const char *text = scalar(value);
    if (!text || mst_parse_duration_ns(text, &reader->config.rate_interval_ns, NULL) < 0)
        return fault(reader, value, key, "expected a duration as 100ms");
    return 0;
}

static int set_burst(struct reader *reader, const char *key, yaml_node_t *value)
{
    const char *text = scalar(value);
    if (!text || mst_parse_u32(text, 0, 1000000, &reader->config.rate_burst, NULL) < 0)
        return fault(reader, value, key, "expected a whole number up to 1000000");
    return 0;
}

static int set_rate(struct reader *reader, const char *key, yaml_node_t *value)
{
    static const struct entry entries[] = {{"interval", set_interval}, {"burst", set_burst}};
    return read_mapping(reader, key, value, entries, MST_ARRAY_COUNT(entries));
}

static int read_document(struct reader *reader)
{
    static const struct entry entries[] = {{"tls_server_config", set_tls},
                                           {"http_server_config", set_http},
                                           {"basic_auth_users", set_users},
                                           {"rate_limit", set_rate}};
    yaml_node_t *root = yaml_document_get_root_node(&reader->document);
    return root ? read_mapping(reader, "top level", root, entries, MST_ARRAY_COUNT(entries)) : 0;
}

/* ---- files ---- */

struct timespec web_file_changed(const char *path)
{
    struct stat about;
    return stat(path, &about) == 0 ? about.st_mtim : (struct timespec){0};
}

static int load_pem(struct reader *reader, const char *key, const char *file, char **ret_text)
{
    struct web_file *named = &reader->config.files[reader->config.file_count];
    mst_cleanup(mst_buf_release) struct mst_buf content = MST_BUF_INIT(PEM_MAX_BYTES);
    mst_cleanup(mst_freep) char *path = *file == '/' ? strdup(file) : mst_path_join(reader->folder, file);
    if (*ret_text)
        return mst_error_set(reader->err, -EINVAL, "%s: %s and %s_file exclude each other", reader->what, key,
                             key);
    if (!path)
        return mst_error_set(reader->err, -ENOMEM, "%s: no memory", reader->what);
    named->changed = web_file_changed(path);
    const int r = mst_file_read(path, &content, reader->err);
    if (r < 0)
        return mst_error_wrap(reader->err, r, "%s: %s_file", reader->what, key);
    named->path = path;
    path = NULL; /* the configuration's now */
    reader->config.file_count++;
    *ret_text = strdup(mst_buf_text(&content));
    return *ret_text ? 0 : mst_error_set(reader->err, -ENOMEM, "%s: no memory", reader->what);
}

static int complete_tls(struct reader *reader)
{
    struct web_config *config = &reader->config;
    int r = 0;
    if (reader->cert_file && *reader->cert_file)
        r = load_pem(reader, "cert", reader->cert_file, &config->cert);
    if (r == 0 && reader->key_file && *reader->key_file)
        r = load_pem(reader, "key", reader->key_file, &config->key);
    if (r == 0 && reader->ca_file && *reader->ca_file)
        r = load_pem(reader, "client_ca", reader->ca_file, &config->client_ca);
    if (r < 0)
        return r;
    if (!config->cert || !config->key)
        return mst_error_set(reader->err, -EINVAL, "%s: tls_server_config needs a %s", reader->what,
                             config->cert ? "key or key_file" : "cert or cert_file");
    if (!config->client_ca && config->client_auth >= WEB_CLIENT_VERIFY_IF_GIVEN)
        return mst_error_set(reader->err, -EINVAL, "%s: client_auth_type asks for a client_ca_file",
                             reader->what);
    if (config->client_ca && config->client_auth == WEB_CLIENT_NONE)
        return mst_error_set(reader->err, -EINVAL, "%s: client_ca_file without a client_auth_type",
                             reader->what);
    r = web_tls_check(config->cert, config->key, config->client_ca, reader->err);
    if (r < 0)
        return mst_error_wrap(reader->err, r, "%s: tls_server_config", reader->what);
    config->priorities = web_tls_priorities(&reader->tls);
    return config->priorities
               ? 0
               : mst_error_set(reader->err, -EINVAL, "%s: min_version is above max_version", reader->what);
}

int web_config_parse(const char *text, size_t bytes, const char *what, const char *folder,
                     struct web_config *ret_config, struct mst_error *err)
{
    struct reader reader = {.what = what, .folder = folder, .err = err};
    yaml_parser_t parser;
    if (!yaml_parser_initialize(&parser))
        return mst_error_set(err, -ENOMEM, "%s: no memory", what);
    yaml_parser_set_input_string(&parser, (const unsigned char *)text, bytes);
    int r = 0;
    if (!yaml_parser_load(&parser, &reader.document)) {
        r = mst_error_set(err, -EBADMSG, "%s:%zu:%zu: %s", what, parser.problem_mark.line + 1,
                          parser.problem_mark.column + 1, parser.problem ? parser.problem : "not YAML");
    } else {
        r = read_document(&reader);
        if (r == 0 && reader.config.has_tls)
            r = complete_tls(&reader);
        yaml_document_delete(&reader.document);
    }
    yaml_parser_delete(&parser);
    free(reader.cert_file);
    free(reader.key_file);
    free(reader.ca_file);
    if (r < 0) {
        web_config_release(&reader.config);
        return r;
    }
    *ret_config = reader.config;
    return 0;
}

int web_config_read(const char *path, struct web_config *ret_config, struct mst_error *err)
{
    mst_cleanup(mst_buf_release) struct mst_buf content = MST_BUF_INIT(CONFIG_MAX_BYTES);
    int r = mst_file_read(path, &content, err);
    if (r < 0)
        return r;
    mst_cleanup(mst_freep) char *folder = strdup(path);
    if (!folder)
        return mst_error_set(err, -ENOMEM, "read '%s': no memory", path);
    char *slash = strrchr(folder, '/');
    if (slash)
        slash[slash == folder] = '\0';
    return web_config_parse(mst_buf_text(&content), content.count, path, slash ? folder : ".", ret_config,
                            err);
}

void web_config_release(struct web_config *config)
{
    if (config->key)
        explicit_bzero(config->key, strlen(config->key));
    free(config->cert);
    free(config->key);
    free(config->client_ca);
    free(config->priorities);
    for (size_t i = 0; i < config->file_count; i++)
        free(config->files[i].path);
    *config = (struct web_config){0};
}

bool web_password_fits(const char *hash, const char *password)
{
    mst_cleanup(mst_freep) struct crypt_data *data = calloc(1, sizeof *data);
    const char *made = data ? crypt_rn(password, hash, data, sizeof *data) : NULL;
    if (!made || strlen(made) != strlen(hash))
        return false;
    unsigned difference = 0;
    for (size_t i = 0; hash[i]; i++) /* in constant time */
        difference |= (unsigned char)made[i] ^ (unsigned char)hash[i];
    return difference == 0;
}
