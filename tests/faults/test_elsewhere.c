/* SPDX-License-Identifier: Apache-2.0 */
/* Engines that are not at hand: TLS with certificates right, wrong and missing, docker's contexts, ssh. */
#include "../common/test.h"
#include "fake_engine.h"
#include "muster/digest.h"
#include "muster/engine.h"
#include "muster/json.h"
#include "tls_proxy.h"

struct elsewhere {
    struct fake_engine *fake;
    struct tls_proxy *proxy;
    char folder[64], other[64]; /* certificates; those of somebody else */
    char host[64];
};

static const char *const files[] = {"ca.pem", "server-cert.pem", "server-key.pem", "cert.pem", "key.pem",
                                    "ssh",    "arguments",       "config.json"};

static void empty(const char *folder)
{
    char path[320];

    for (size_t i = 0; i < MST_ARRAY_COUNT(files); i++) {
        (void)snprintf(path, sizeof path, "%s/%s", folder, files[i]);
        (void)unlink(path);
    }
    (void)rmdir(folder);
}

static int setup(void **state)
{
    struct elsewhere *e = calloc(1, sizeof *e);

    assert_non_null(e);
    *state = e;
    (void)snprintf(e->folder, sizeof e->folder, "/tmp/muster-test.XXXXXX");
    (void)snprintf(e->other, sizeof e->other, "/tmp/muster-test.XXXXXX");
    assert_true(mkdtemp(e->folder) && mkdtemp(e->other));
    tls_files_make(e->folder);
    tls_files_make(e->other);
    e->fake = fake_engine_start(NULL, 0);
    e->proxy = tls_proxy_start(e->folder, fake_engine_host(e->fake) + 7);
    (void)snprintf(e->host, sizeof e->host, "tcp://127.0.0.1:%u", (unsigned)tls_proxy_port(e->proxy));
    (void)unsetenv("DOCKER_HOST");
    (void)unsetenv("DOCKER_CONTEXT");
    (void)setenv("DOCKER_CONFIG", e->other, 1); /* not the one of who runs the tests */
    return 0;
}

static int teardown(void **state)
{
    struct elsewhere *e = *state;

    (void)unsetenv("DOCKER_TLS_VERIFY");
    (void)unsetenv("DOCKER_TLS");
    (void)unsetenv("DOCKER_CERT_PATH");
    (void)unsetenv("DOCKER_CONFIG");
    (void)unsetenv("DOCKER_CONTEXT");
    tls_proxy_stop(e->proxy);
    fake_engine_stop(e->fake);
    empty(e->folder);
    empty(e->other);
    free(e);
    return 0;
}

static int ask(const char *host, const char *context, struct mst_error *err)
{
    const struct engine_options options = {.host = host, .context = context, .request_timeout_ms = 10000};
    mst_cleanup(engine_freep) struct engine *engine = NULL;
    struct engine_info info;
    int r = engine_new(&options, &engine, err);

    if (r >= 0)
        r = engine_info(engine, &info, err);
    if (r >= 0)
        assert_string_equal(info.name, "fake1");
    return r;
}

static void assert_asked(const char *host, const char *context)
{
    struct mst_error err = MST_ERROR_INIT;

    if (ask(host, context, &err) < 0)
        fail_msg("%s", err.text);
}

static void assert_fails(const char *host, const char *context, int code, const char *text)
{
    struct mst_error err = MST_ERROR_INIT;
    const int r = ask(host, context, &err);

    if (r != code || !strstr(err.text, text))
        fail_msg("%d, '%s' instead of %d, '%s'", r, err.text, code, text);
    assert_null(strchr(err.text, '\n'));
}

static void drop(const char *folder, const char *name)
{
    char path[320];

    (void)snprintf(path, sizeof path, "%s/%s", folder, name);
    assert_int_equal(unlink(path), 0);
}

/* ---- TLS ---- */

static void the_right_certificate_is_taken(void **state)
{
    const struct elsewhere *e = *state;

    (void)setenv("DOCKER_TLS_VERIFY", "1", 1);
    (void)setenv("DOCKER_CERT_PATH", e->folder, 1);
    assert_asked(e->host, NULL);
    /* Without a path it is docker's own folder. */
    (void)unsetenv("DOCKER_CERT_PATH");
    (void)setenv("DOCKER_CONFIG", e->folder, 1);
    assert_asked(e->host, NULL);
    (void)setenv("DOCKER_HOST", e->host, 1);
    assert_asked(NULL, NULL);
    (void)unsetenv("DOCKER_HOST");
}

static void a_missing_certificate_is_said_to_be_wanted(void **state)
{
    const struct elsewhere *e = *state;

    (void)setenv("DOCKER_TLS_VERIFY", "1", 1);
    (void)setenv("DOCKER_CERT_PATH", e->folder, 1);
    drop(e->folder, "cert.pem");
    assert_fails(e->host, NULL, -EINVAL, "has key.pem, but no cert.pem");
    drop(e->folder, "key.pem");
    assert_fails(e->host, NULL, -EACCES, "it wants a client's certificate");
    drop(e->folder, "ca.pem");
    assert_fails(e->host, NULL, -EINVAL, "has neither ca.pem nor cert.pem");
}

static void a_certificate_of_somebody_else_is_refused(void **state)
{
    const struct elsewhere *e = *state;

    (void)setenv("DOCKER_TLS_VERIFY", "1", 1);
    (void)setenv("DOCKER_CERT_PATH", e->other, 1);
    /* The server's is signed by an authority that these files do not have. */
    assert_fails(e->host, NULL, -EACCES, "TLS with the engine at tcp://127.0.0.1");
    /* Without a look at the server's, the server looks at ours. */
    (void)unsetenv("DOCKER_TLS_VERIFY");
    (void)setenv("DOCKER_TLS", "1", 1);
    assert_fails(e->host, NULL, -EACCES, "it does not take this client's certificate");
    (void)setenv("DOCKER_CERT_PATH", e->folder, 1);
    assert_asked(e->host, NULL);
}

static void plain_text_to_a_tls_engine_gets_no_answer(void **state)
{
    const struct elsewhere *e = *state;

    assert_fails(e->host, NULL, -EPROTO, "GET /_ping");
    (void)setenv("DOCKER_TLS_VERIFY", "1", 1);
    (void)setenv("DOCKER_CERT_PATH", e->folder, 1);
    assert_asked(fake_engine_host(e->fake), NULL); /* a Unix socket needs none */
}

/* ---- contexts ---- */

static void make_context(const char *docker_folder, const char *name, const char *host,
                         const char *certificates)
{
    static const char *const tls[] = {"ca.pem", "cert.pem", "key.pem"};
    uint8_t digest[MST_SHA256_BYTES];
    char hex[MST_SHA256_HEX_BYTES], folder[256], path[320], from[320], text[512];

    assert_int_equal(mst_sha256(name, strlen(name), digest, NULL), 0);
    mst_hex(digest, sizeof digest, hex);
    (void)snprintf(folder, sizeof folder, "%s/contexts/meta/%s", docker_folder, hex);
    assert_int_equal(mst_make_folders(folder, 0755, NULL), 0);
    (void)snprintf(path, sizeof path, "%s/meta.json", folder);
    (void)snprintf(text, sizeof text,
                   "{\"Name\":\"%s\",\"Metadata\":{},\"Endpoints\":{\"docker\":{\"Host\":\"%s\","
                   "\"SkipTLSVerify\":false}}}",
                   name, host);
    assert_int_equal(mst_file_write_atomic(path, text, strlen(text), 0644, NULL), 0);
    if (!certificates)
        return;
    (void)snprintf(folder, sizeof folder, "%s/contexts/tls/%s/docker", docker_folder, hex);
    assert_int_equal(mst_make_folders(folder, 0755, NULL), 0);
    for (size_t i = 0; i < MST_ARRAY_COUNT(tls); i++) {
        (void)snprintf(from, sizeof from, "%s/%s", certificates, tls[i]);
        (void)snprintf(path, sizeof path, "%s/%s", folder, tls[i]);
        assert_int_equal(link(from, path), 0);
    }
}

static void contexts_are_found_as_docker_finds_them(void **state)
{
    const struct elsewhere *e = *state;
    char folder[128], path[256], command[256];
    static const char current[] = "{\"currentContext\":\"far\"}";

    (void)snprintf(folder, sizeof folder, "%s-docker", e->folder);
    assert_int_equal(mst_make_folders(folder, 0755, NULL), 0);
    (void)setenv("DOCKER_CONFIG", folder, 1);
    make_context(folder, "far", e->host, e->folder);
    make_context(folder, "near", fake_engine_host(e->fake), NULL);
    make_context(folder, "dead", "unix:///nowhere/s", NULL);

    assert_asked(NULL, "far"); /* with the TLS files of its own */
    assert_asked(NULL, "near");
    assert_fails(NULL, "none", -ENOENT, "docker context 'none': there is none in");
    assert_fails(NULL, "dead", -ENOENT, "unix:///nowhere/s");
    (void)setenv("DOCKER_CONTEXT", "near", 1);
    assert_asked(NULL, NULL);
    (void)unsetenv("DOCKER_CONTEXT");
    (void)snprintf(path, sizeof path, "%s/config.json", folder);
    assert_int_equal(mst_file_write_atomic(path, current, sizeof current - 1, 0644, NULL), 0);
    assert_asked(NULL, NULL);
    /* DOCKER_HOST and -H go first. */
    (void)setenv("DOCKER_HOST", "unix:///nowhere/h", 1);
    assert_fails(NULL, NULL, -ENOENT, "unix:///nowhere/h");
    assert_asked(fake_engine_host(e->fake), NULL);
    assert_asked(NULL, "far");
    (void)unsetenv("DOCKER_HOST");
    assert_int_equal(mst_file_write_atomic(path, "{", 1, 0644, NULL), 0);
    assert_fails(NULL, NULL, -EINVAL, "docker's configuration");
    (void)snprintf(command, sizeof command, "rm -r '%s'", folder);
    assert_int_equal(system(command), 0);
}

/* ---- ssh ---- */

static void use_stub(const struct elsewhere *e, const char *complaint)
{
    char path[256], search[4096];

    (void)snprintf(path, sizeof path, "%s/ssh", e->other);
    assert_int_equal(symlink(SSH_STUB, path), 0);
    (void)snprintf(search, sizeof search, "%s:%s", e->other, getenv("PATH"));
    if (strncmp(getenv("PATH"), e->other, strlen(e->other)) != 0)
        (void)setenv("PATH", search, 1);
    (void)snprintf(path, sizeof path, "%s/arguments", e->other);
    (void)setenv("STUB_ARGUMENTS", path, 1);
    (void)setenv("STUB_SOCKET", fake_engine_host(e->fake) + 7, 1);
    (void)setenv("STUB_COMPLAINT", complaint, 1);
}

static void an_engine_is_reached_through_ssh(void **state)
{
    static const struct {
        const char *host, *arguments;
    } cases[] = {
        {"ssh://far", "-T -o ConnectTimeout=30 -- far docker system dial-stdio\n"},
        {"ssh://me@far:2222", "-T -o ConnectTimeout=30 -l me -p 2222 -- far docker system dial-stdio\n"},
        {"ssh://far/run/d.sock",
         "-T -o ConnectTimeout=30 -- far docker --host unix:///run/d.sock system dial-stdio\n"},
        {"ssh://[fd00::1]:22", "-T -o ConnectTimeout=30 -p 22 -- fd00::1 docker system dial-stdio\n"},
    };
    const struct elsewhere *e = *state;
    char path[256];

    use_stub(e, "");
    (void)snprintf(path, sizeof path, "%s/arguments", e->other);
    for (size_t i = 0; i < MST_ARRAY_COUNT(cases); i++) {
        mst_cleanup(mst_buf_release) struct mst_buf text = MST_BUF_INIT(4096);
        assert_asked(cases[i].host, NULL);
        assert_int_equal(mst_file_read(path, &text, NULL), 0);
        assert_string_equal(mst_buf_text(&text),
                            cases[i].arguments); /* one process: the connection is kept */
        assert_int_equal(unlink(path), 0);
    }
}

static void writes_and_streams_go_through_ssh_too(void **state)
{
    const struct elsewhere *e = *state;
    mst_cleanup(mst_json_deletep) cJSON *body = cJSON_Parse("{\"Name\":\"c\"}");
    mst_cleanup(engine_freep) struct engine *engine = NULL;
    char id[ENGINE_NAME_MAX_BYTES];

    use_stub(e, "");
    assert_int_equal(engine_new(&(struct engine_options){.host = "ssh://far"}, &engine, NULL), 0);
    assert_int_equal(engine_create(engine, ENGINE_CONFIG, "c", body, NULL, id, NULL), 0);
    assert_string_equal(id, "id1");
    assert_int_equal(engine_remove(engine, ENGINE_CONFIG, id, "c", NULL), 0);
    assert_int_equal(fake_engine_objects(e->fake, "configs"), 0);
}

static void what_ssh_says_is_the_reason(void **state)
{
    const struct elsewhere *e = *state;

    use_stub(e, "ssh: connect to host far port 22: Connection refused");
    assert_fails("ssh://far", NULL, -ECONNREFUSED,
                 "connect to the engine at ssh://far: ssh: connect to host far port 22: Connection refused");
    (void)setenv("PATH", "/nowhere", 1);
    assert_fails("ssh://far", NULL, -ECONNREFUSED, "ssh: No such file or directory");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_right_certificate_is_taken, setup, teardown),
        cmocka_unit_test_setup_teardown(a_missing_certificate_is_said_to_be_wanted, setup, teardown),
        cmocka_unit_test_setup_teardown(a_certificate_of_somebody_else_is_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(plain_text_to_a_tls_engine_gets_no_answer, setup, teardown),
        cmocka_unit_test_setup_teardown(contexts_are_found_as_docker_finds_them, setup, teardown),
        cmocka_unit_test_setup_teardown(an_engine_is_reached_through_ssh, setup, teardown),
        cmocka_unit_test_setup_teardown(writes_and_streams_go_through_ssh_too, setup, teardown),
        cmocka_unit_test_setup_teardown(what_ssh_says_is_the_reason, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
