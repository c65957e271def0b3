/* SPDX-License-Identifier: Apache-2.0 */
#include "http_guard.h"
#include "http_listen.h"
#include "test.h"
#include "web_config.h"
#include "web_tls.h"

#include <netinet/in.h>

/* Of "secret", made by: htpasswd -nbBC 4 x secret */
#define HASH "$2y$04$WbmeOWCB6hqvbx/FkO5Zu.0rir3DkgzMFR/mwG3ctIQ/NuFirrbwO"

static int parse(const char *text, struct web_config *config, struct mst_error *err)
{
    return web_config_parse(text, strlen(text), "web.yml", MUSTER_TEST_DATA "/web", config, err);
}

static void users_headers_and_limits_are_read(void **state)
{
    struct web_config config = {0};
    (void)state;
    assert_int_equal(parse("basic_auth_users:\n  alice: " HASH "\n  bob: '" HASH "'\n"
                           "http_server_config:\n  http2: false\n  headers:\n    X-Frame-Options: deny\n"
                           "rate_limit:\n  interval: 100ms\n  burst: 20\n",
                           &config, NULL),
                     0);
    assert_int_equal(config.user_count, 2);
    assert_string_equal(config.users[1].name, "bob");
    assert_string_equal(config.users[1].hash, HASH);
    assert_int_equal(config.header_count, 1);
    assert_string_equal(config.headers[0].value, "deny");
    assert_true(config.rate_interval_ns == 100000000 && config.rate_burst == 20);
    assert_false(config.has_tls);
    web_config_release(&config);
    assert_int_equal(parse("", &config, NULL), 0); /* no file is as good as an empty one */
    assert_int_equal(parse("# nothing\n", &config, NULL), 0);
    web_config_release(&config);
}

static void tls_is_read_from_files_beside_it(void **state)
{
    struct web_config config = {0};
    (void)state;
    assert_int_equal(
        parse("tls_server_config:\n  cert_file: cert.pem\n  key_file: key.pem\n  min_version: TLS13\n"
              "  client_auth_type: RequireAndVerifyClientCert\n  client_ca_file: cert.pem\n",
              &config, NULL),
        0);
    assert_true(config.has_tls);
    assert_int_equal(config.client_auth, WEB_CLIENT_VERIFY);
    assert_non_null(strstr(config.priorities, "+VERS-TLS1.3"));
    assert_null(strstr(config.priorities, "+VERS-TLS1.2"));
    web_config_release(&config);
}

static void what_makes_no_sense_is_refused_with_its_place(void **state)
{
    static const struct {
        const char *text, *says;
    } cases[] = {
        {"basic_auth_user:\n  a: b\n", "web.yml:1:1: basic_auth_user: is not a key"},
        {"basic_auth_users:\n  a: secret\n", "web.yml:2:6: a: expected a hash by bcrypt"},
        {"basic_auth_users: [a]\n", "expected names with hashes"},
        {"tls_server_config:\n  cert_file: cert.pem\n", "needs a key"},
        {"tls_server_config:\n  cert_file: cert.pem\n  key_file: nowhere.pem\n", "nowhere.pem"},
        {"tls_server_config:\n  cert_file: key.pem\n  key_file: cert.pem\n", "certificate and key"},
        {"tls_server_config:\n  cert_file: cert.pem\n  key_file: key.pem\n  cert: x\n", "exclude each other"},
        {"tls_server_config:\n  cert_file: cert.pem\n  key_file: key.pem\n  min_version: TLS13\n"
         "  max_version: TLS12\n",
         "above max_version"},
        {"tls_server_config:\n  cert_file: cert.pem\n  key_file: key.pem\n"
         "  client_auth_type: RequireAndVerifyClientCert\n",
         "client_ca_file"},
        {"tls_server_config:\n  cert_file: cert.pem\n  key_file: key.pem\n  cipher_suites: [RC4]\n",
         "expected names of TLS 1.2 suites"},
        {"tls_server_config:\n  client_auth_type: Maybe\n", "expected NoClientCert"},
        {"http_server_config:\n  headers:\n    Server: me\n", "Server: is not a key"},
        {"http_server_config:\n  headers:\n    X-Frame-Options: allow\n", "deny or sameorigin"},
        {"rate_limit:\n  interval: soon\n", "expected a duration"},
        {"rate_limit:\n  burst: 1\n  burst: 2\n", "is there twice"},
        {"a: [\n", "web.yml:2"},
        {"- a\n", "expected keys"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct web_config config = {.user_count = 7};
        struct mst_error err = MST_ERROR_INIT;
        assert_true(parse(cases[i].text, &config, &err) < 0);
        if (!strstr(err.text, cases[i].says))
            fail_msg("case %zu: '%s' does not say '%s'", i, err.text, cases[i].says);
        assert_null(strstr(err.text, "secret")); /* a password put where its hash belongs is not repeated */
        assert_int_equal(config.user_count, 7);
    }
}

static void passwords_fit_their_hash_only(void **state)
{
    (void)state;
    assert_true(web_password_fits(HASH, "secret"));
    assert_false(web_password_fits(HASH, "Secret"));
    assert_false(web_password_fits(HASH, ""));
    assert_false(web_password_fits("*", "secret"));
    assert_false(web_password_fits("", ""));
}

static void the_guard_admits_users_and_remembers(void **state)
{
    struct web_config config = {.user_count = 1};
    struct http_guard guard;
    (void)state;
    (void)snprintf(config.users[0].name, sizeof config.users[0].name, "alice");
    (void)snprintf(config.users[0].hash, sizeof config.users[0].hash, HASH);
    http_guard_init(&guard);
    for (int i = 0; i < 100; i++) { /* more than would be bearable without a memory */
        assert_true(http_guard_admits(&guard, &config, "alice", "secret"));
        assert_false(http_guard_admits(&guard, &config, "alice", "wrong"));
        assert_false(http_guard_admits(&guard, &config, "mallory", "secret"));
    }
    assert_false(http_guard_admits(&guard, &config, NULL, NULL));
    config.user_count = 0;
    assert_true(http_guard_admits(&guard, &config, NULL, NULL));
    http_guard_release(&guard);
}

static void the_rate_limit_is_a_bucket(void **state)
{
    const struct web_config config = {.rate_interval_ns = 100, .rate_burst = 3}, none = {0};
    struct http_guard guard;
    (void)state;
    http_guard_init(&guard);
    for (int i = 0; i < 3; i++)
        assert_true(http_guard_has_room(&guard, &config, 1000));
    assert_false(http_guard_has_room(&guard, &config, 1000));
    assert_true(http_guard_has_room(&guard, &config, 1100));
    assert_false(http_guard_has_room(&guard, &config, 1150));
    for (int i = 0; i < 3; i++)
        assert_true(http_guard_has_room(&guard, &config, 100000));
    assert_false(http_guard_has_room(&guard, &config, 100000));
    assert_true(http_guard_has_room(&guard, &none, 100000));
    http_guard_release(&guard);
}

static void addresses_are_numbers_or_all(void **state)
{
    static const struct {
        const char *text;
        int family;
        uint16_t port;
    } good[] = {{"127.0.0.1:9100", AF_INET, 9100},
                {"localhost:80", AF_INET, 80},
                {":8080", AF_INET6, 8080},
                {"[::1]:1", AF_INET6, 1},
                {"0.0.0.0:0", AF_INET, 0}};
    static const char *const bad[] = {
        "", "8080", "example.org:80", "1.2.3.4:", "1.2.3.4:65536", "1.2.3:80", "[1.2.3.4]:80", "a:b:c"};
    struct sockaddr_storage address;
    socklen_t bytes;
    (void)state;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        assert_int_equal(http_listen_parse(good[i].text, &address, &bytes, NULL), 0);
        assert_int_equal(address.ss_family, good[i].family);
        assert_int_equal(ntohs(((struct sockaddr_in *)&address)->sin_port), good[i].port);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(http_listen_parse(bad[i], &address, &bytes, NULL), -EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(users_headers_and_limits_are_read),
        cmocka_unit_test(tls_is_read_from_files_beside_it),
        cmocka_unit_test(what_makes_no_sense_is_refused_with_its_place),
        cmocka_unit_test(passwords_fit_their_hash_only),
        cmocka_unit_test(the_guard_admits_users_and_remembers),
        cmocka_unit_test(the_rate_limit_is_a_bucket),
        cmocka_unit_test(addresses_are_numbers_or_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
