/* SPDX-License-Identifier: Apache-2.0 */
#include "../common/test.h"
#include "auth.h"

#include <stdlib.h>

static void registries_are_named_as_docker_names_them(void **state)
{
    static const struct {
        const char *image, *registry;
    } cases[] = {
        {"busybox", "https://index.docker.io/v1/"},
        {"some/thing:1", "https://index.docker.io/v1/"},
        {"docker.io/some/thing", "https://index.docker.io/v1/"},
        {"localhost/a", "localhost"},
        {"registry:5000/a/b:1", "registry:5000"},
        {"ghcr.io/a", "ghcr.io"},
    };

    (void)state;
    for (size_t i = 0; i < MST_ARRAY_COUNT(cases); i++) {
        char text[256];
        auth_registry(cases[i].image, text, sizeof text);
        assert_string_equal(text, cases[i].registry);
    }
}

static void credentials_come_from_dockers_configuration(void **state)
{
    /* "dTpw" is u:p; {"username":"u","password":"p","serveraddress":"reg:5000"} and so on, base64url. */
    static const struct {
        const char *config, *image, *line;
        int code;
    } cases[] = {
        {"{\"auths\":{\"reg:5000\":{\"auth\":\"dTpw\"}}}", "reg:5000/a:1",
         "X-Registry-Auth: eyJ1c2VybmFtZSI6InUiLCJwYXNzd29yZCI6InAiLCJzZXJ2ZXJhZGRyZXNzIjoicmVnOjUwMDAifQ==",
         0},
        {"{\"auths\":{\"https://reg:5000/v2/\":{\"auth\":\"dTpw\"}}}", "reg:5000/a:1",
         "X-Registry-Auth: eyJ1c2VybmFtZSI6InUiLCJwYXNzd29yZCI6InAiLCJzZXJ2ZXJhZGRyZXNzIjoicmVnOjUwMDAifQ==",
         0},
        {"{\"auths\":{\"reg:5000\":{\"identitytoken\":\"t\"}}}", "reg:5000/a",
         "X-Registry-Auth: eyJpZGVudGl0eXRva2VuIjoidCIsInNlcnZlcmFkZHJlc3MiOiJyZWc6NTAwMCJ9", 0},
        {"{\"auths\":{\"reg:5000\":{\"auth\":\"dTpw\"}}}", "other:5000/a", NULL, 0},
        {"{\"auths\":{\"reg:5000\":{}}}", "reg:5000/a", NULL, 0},
        {"{}", "busybox", NULL, 0},
        {"{\"auths\":{\"reg:5000\":{\"auth\":\"!!\"}}}", "reg:5000/a", NULL, -EINVAL},
        {"{\"auths\":{\"reg:5000\":{\"auth\":\"dQ==\"}}}", "reg:5000/a", NULL, -EINVAL},
        {"{", "busybox", NULL, -EINVAL},
        /* A helper that knows "reg:5000" alone, by a token. */
        {"{\"credHelpers\":{\"reg:5000\":\"test\"}}", "reg:5000/a",
         "X-Registry-Auth: eyJpZGVudGl0eXRva2VuIjoidCIsInNlcnZlcmFkZHJlc3MiOiJyZWc6NTAwMCJ9", 0},
        {"{\"credsStore\":\"test\"}", "other:5000/a", NULL, 0},
        {"{\"credsStore\":\"test\",\"auths\":{\"other:5000\":{\"identitytoken\":\"t\"}}}", "other:5000/a",
         "X-Registry-Auth: eyJpZGVudGl0eXRva2VuIjoidCIsInNlcnZlcmFkZHJlc3MiOiJvdGhlcjo1MDAwIn0=", 0},
        {"{\"credsStore\":\"nowhere\"}", "reg:5000/a", NULL, -ENOENT},
        {"{\"credsStore\":\"../x\"}", "reg:5000/a", NULL, -EINVAL},
    };
    static const char helper[] =
        "#!/bin/sh\nread -r server\n[ \"$server\" = reg:5000 ] || exit 1\n"
        "echo '{\"ServerURL\":\"reg:5000\",\"Username\":\"<token>\",\"Secret\":\"t\"}'\n";
    const struct test_folder *folder = *state;
    char path[320], search[4096];

    (void)snprintf(search, sizeof search, "%s:%s", folder->path, getenv("PATH"));
    (void)setenv("PATH", search, 1);
    (void)setenv("DOCKER_CONFIG", folder->path, 1);
    (void)test_path(folder, "docker-credential-test", path);
    assert_int_equal(mst_file_write_atomic(path, helper, sizeof helper - 1, 0755, NULL), 0);
    (void)test_path(folder, "config.json", path);
    for (size_t i = 0; i < MST_ARRAY_COUNT(cases); i++) {
        mst_cleanup(auth_freep) char *line = NULL;
        struct mst_error err = MST_ERROR_INIT;
        int r;
        assert_int_equal(mst_file_write_atomic(path, cases[i].config, strlen(cases[i].config), 0600, NULL),
                         0);
        r = auth_header(cases[i].image, &line, &err);
        if (r != cases[i].code || !line != !cases[i].line || (line && strcmp(line, cases[i].line) != 0))
            fail_msg("case %zu: %d, '%s', '%s'", i, r, line ? line : "none", err.text);
    }
    (void)unsetenv("DOCKER_CONFIG");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(registries_are_named_as_docker_names_them),
        cmocka_unit_test_setup_teardown(credentials_come_from_dockers_configuration, test_folder_setup,
                                        test_folder_teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
