/* SPDX-License-Identifier: Apache-2.0 */
#include "../common/test.h"
#include "endpoint.h"

static void hosts_are_taken_apart(void **state)
{
    static const struct {
        const char *host, *socket_path, *base_url;
        int code;
    } cases[] = {
        {"unix:///var/run/docker.sock", "/var/run/docker.sock", "http://docker", 0},
        {"tcp://10.0.0.1:2375", NULL, "http://10.0.0.1:2375", 0},
        {"tcp://engine-1.example", NULL, "http://engine-1.example:2375", 0},
        {"tcp://[fd00::1]:2376/", NULL, "http://[fd00::1]:2376", 0},
        {"tcp://[fd00::1]", NULL, "http://[fd00::1]:2375", 0},
        {"http://localhost:1", NULL, "http://localhost:1", 0},
        {"unix://", NULL, NULL, -EINVAL},
        {"unix:///", NULL, NULL, -EINVAL},
        {"unix://relative.sock", NULL, NULL, -EINVAL},
        {"unix:///a/path/that/is/longer/than/a/socket/address/can/hold/for/it/has/only/one/hundred/and/eight/"
         "bytes/"
         "of/room/and/not/one/more",
         NULL, NULL, -EINVAL},
        {"tcp://", NULL, NULL, -EINVAL},
        {"tcp://:2375", NULL, NULL, -EINVAL},
        {"tcp://host:0", NULL, NULL, -EINVAL},
        {"tcp://host:65536", NULL, NULL, -EINVAL},
        {"tcp://host:", NULL, NULL, -EINVAL},
        {"tcp://host:12x", NULL, NULL, -EINVAL},
        {"tcp://user@host:1", NULL, NULL, -EINVAL},
        {"tcp://host:1/path", NULL, NULL, -EINVAL},
        {"tcp://host name:1", NULL, NULL, -EINVAL},
        {"ssh://me@host:22/run/docker.sock", NULL, "http://docker", 0},
        {"https://host", NULL, "https://host:2376", 0},
        {"ssh://", NULL, NULL, -EINVAL},
        {"ssh://-oProxyCommand=x", NULL, NULL, -EINVAL},
        {"ssh://-l@host", NULL, NULL, -EINVAL},
        {"ssh://host:0", NULL, NULL, -EINVAL},
        {"ssh://host:22x", NULL, NULL, -EINVAL},
        {"ssh://[fd00::1", NULL, NULL, -EINVAL},
        {"ssh://host/run/$(x)", NULL, NULL, -EINVAL},
        {"/var/run/docker.sock", NULL, NULL, -EINVAL},
        {"nonsense", NULL, NULL, -EINVAL},
    };

    (void)state;
    for (size_t i = 0; i < MST_ARRAY_COUNT(cases); i++) {
        struct engine_endpoint endpoint;
        struct mst_error err = MST_ERROR_INIT;
        const int r = endpoint_init(&endpoint, cases[i].host, NULL, &err);
        if (r != cases[i].code)
            fail_msg("%s: %d, %s", cases[i].host, r, err.text);
        if (r < 0) {
            assert_non_null(strstr(err.text, cases[i].host));
            continue;
        }
        assert_string_equal(endpoint.text, cases[i].host);
        assert_string_equal(endpoint.base_url, cases[i].base_url);
        if (cases[i].socket_path)
            assert_string_equal(endpoint.socket_path, cases[i].socket_path);
        else
            assert_null(endpoint.socket_path);
        endpoint_release(&endpoint);
    }
}

static void the_environment_stands_in_for_a_host(void **state)
{
    struct engine_endpoint endpoint;

    (void)state;
    (void)setenv("DOCKER_CONFIG", "/nowhere", 1);
    (void)unsetenv("DOCKER_CONTEXT");
    assert_int_equal(setenv("DOCKER_HOST", "tcp://10.9.8.7:1234", 1), 0);
    assert_int_equal(endpoint_init(&endpoint, NULL, NULL, NULL), 0);
    assert_string_equal(endpoint.base_url, "http://10.9.8.7:1234");
    endpoint_release(&endpoint);
    assert_int_equal(endpoint_init(&endpoint, "unix:///x", NULL, NULL), 0);
    assert_string_equal(endpoint.socket_path, "/x");
    endpoint_release(&endpoint);
    assert_int_equal(setenv("DOCKER_HOST", "", 1), 0);
    assert_int_equal(endpoint_init(&endpoint, "", NULL, NULL), 0);
    assert_string_equal(endpoint.socket_path, "/var/run/docker.sock");
    endpoint_release(&endpoint);
}

static void who_asks_for_tls_does_not_get_plain_text(void **state)
{
    struct engine_endpoint endpoint;

    (void)state;
    assert_int_equal(setenv("DOCKER_TLS_VERIFY", "1", 1), 0);
    assert_int_equal(endpoint_init(&endpoint, "tcp://10.0.0.1", NULL, NULL), 0);
    assert_string_equal(endpoint.base_url, "https://10.0.0.1:2376");
    assert_true(endpoint.is_tls && endpoint.is_verified);
    endpoint_release(&endpoint);
    assert_int_equal(endpoint_init(&endpoint, "unix:///x", NULL, NULL), 0);
    assert_false(endpoint.is_tls);
    endpoint_release(&endpoint);
    (void)unsetenv("DOCKER_TLS_VERIFY");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hosts_are_taken_apart),
        cmocka_unit_test(the_environment_stands_in_for_a_host),
        cmocka_unit_test(who_asks_for_tls_does_not_get_plain_text),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
