/* SPDX-License-Identifier: Apache-2.0 */
/* A configuration that changes while the server runs, and does not always make sense or start. */
#include "http.h"
#include "muster/cleanup.h"
#include "test.h"

#include <arpa/inet.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <gnutls/gnutls.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>

#define USERS "basic_auth_users:\n  alice: $2y$04$WbmeOWCB6hqvbx/FkO5Zu.0rir3DkgzMFR/mwG3ctIQ/NuFirrbwO\n"
#define TLS   "tls_server_config:\n  cert_file: cert.pem\n  key_file: key.pem\n"

/* Stands before GnuTLS' own: a certificate that reads well is not taken when a server starts, which needs
 * memory that is not there, say. How many times it is taken yet; -1: always. */
static int times_taken = -1;

int gnutls_certificate_set_x509_key_mem(gnutls_certificate_credentials_t credentials,
                                        const gnutls_datum_t *cert, const gnutls_datum_t *key,
                                        gnutls_x509_crt_fmt_t type)
{
    int (*own)(gnutls_certificate_credentials_t, const gnutls_datum_t *, const gnutls_datum_t *,
               gnutls_x509_crt_fmt_t);
    void *found = dlsym(RTLD_NEXT, "gnutls_certificate_set_x509_key_mem");
    assert_non_null(found);
    memcpy(&own, &found, sizeof own);
    if (times_taken == 0)
        return GNUTLS_E_MEMORY_ERROR;
    times_taken -= times_taken > 0;
    return own(credentials, cert, key, type);
}

static char folder[] = "/tmp/muster-http-XXXXXX";
static char config[64];

static int make_folder(void **state)
{
    (void)state;
    if (!mkdtemp(folder))
        return -1;
    (void)snprintf(config, sizeof config, "%s/web.yml", folder);
    return 0;
}

static int remove_folder(void **state)
{
    char command[128];
    (void)state;
    (void)snprintf(command, sizeof command, "rm -rf %s", folder);
    return system(command);
}

/* Each with a time of its own: two writes may fall into one tick of the file system's clock. */
static void put(const char *name, const char *text)
{
    static time_t seconds = 1000;
    char path[128];
    const struct timespec now = {.tv_sec = seconds++}, times[2] = {now, now};
    (void)snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
}

static void put_stored(const char *name)
{
    char path[256];
    (void)snprintf(path, sizeof path, "%s/web/%s", MUSTER_TEST_DATA, name);
    mst_cleanup(mst_buf_release) struct mst_buf text = load(path);
    put(name, mst_buf_text(&text));
}

static struct http *start(void)
{
    static const char *const addresses[] = {"127.0.0.1:0", "127.0.0.1:0", NULL}, *const questions[] = {NULL};
    static const struct http_page pages[] = {{.path = "/", .type = "text/plain", .bytes = "x", .count = 1}};
    const struct http_options options = {.addresses = addresses,
                                         .config_file = config,
                                         .prefix = "",
                                         .pages = pages,
                                         .page_count = 1,
                                         .questions = questions};
    struct http *http = NULL;
    struct mst_error err = MST_ERROR_INIT;
    if (http_new(&options, &http, &err) < 0)
        fail_msg("%s", err.text);
    return http;
}

/* The status of the page on the i-th address; 0: no HTTP came back. */
static unsigned ask(const struct http *http, size_t i)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    static const char request[] = "GET / HTTP/1.0\r\n\r\n";
    const struct timeval patience = {.tv_sec = 10};
    char reply[64] = "";
    unsigned status = 0;
    const char *text = http_address(http, i);
    assert_non_null(text);
    address.sin_port = htons((uint16_t)strtoul(strrchr(text, ':') + 1, NULL, 10));
    mst_cleanup(mst_closep) int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience), 0);
    assert_int_equal(connect(fd, (const struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(send(fd, request, sizeof request - 1, MSG_NOSIGNAL), sizeof request - 1);
    const ssize_t got = recv(fd, reply, sizeof reply - 1, 0);
    return got > 0 && sscanf(reply, "HTTP/1.%*u %u", &status) == 1 ? status : 0;
}

static void check_status(const struct http *http, unsigned status)
{
    assert_int_equal(ask(http, 0), status);
    assert_int_equal(ask(http, 1), status);
}

static void what_does_not_start_leaves_the_old_in_force(void **state)
{
    struct mst_error err = MST_ERROR_INIT;
    (void)state;
    put_stored("cert.pem");
    put_stored("key.pem");
    put("web.yml", USERS);
    struct http *http = start();
    check_status(http, 401);
    put("web.yml", TLS);
    times_taken = 2; /* when it is read, and on the first address */
    assert_true(http_sweep(http, &err) < 0);
    times_taken = -1;
    assert_non_null(strstr(err.text, "the old configuration stays"));
    check_status(http, 401);
    assert_int_equal(http_sweep(http, &err), 0); /* told once, and left alone until it changes */
    put("web.yml", "");
    assert_int_equal(http_sweep(http, &err), 0);
    check_status(http, 200);
    http_free(http);
}

static void limit_descriptors(rlim_t count)
{
    struct rlimit limit;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    limit.rlim_cur = count > 0 ? count : limit.rlim_max;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

static void when_nothing_starts_it_is_tried_again(void **state)
{
    struct mst_error err = MST_ERROR_INIT;
    (void)state;
    put("web.yml", "");
    const int lowest = open("/dev/null", O_RDONLY | O_CLOEXEC);
    assert_true(lowest >= 0);
    struct http *http = start();
    check_status(http, 200);
    put("web.yml", USERS);
    assert_int_equal(close(lowest), 0);
    limit_descriptors((rlim_t)lowest + 1); /* one file can be read, but no server started */
    assert_true(http_sweep(http, &err) < 0);
    assert_int_equal(http_sweep(http, &err), 0); /* told once */
    limit_descriptors(0);
    assert_int_equal(http_sweep(http, &err), 0);
    check_status(http, 401);
    http_free(http);
}

static void a_renewed_certificate_is_looked_at(void **state)
{
    struct mst_error err = MST_ERROR_INIT;
    (void)state;
    put_stored("cert.pem");
    put_stored("key.pem");
    put("web.yml", TLS);
    struct http *http = start();
    assert_int_equal(http_sweep(http, &err), 0);
    put("cert.pem", "half of a");
    assert_true(http_sweep(http, &err) < 0);
    assert_non_null(strstr(err.text, "the old configuration stays"));
    assert_int_equal(http_sweep(http, &err), 0); /* told once */
    put_stored("cert.pem");
    put("key.pem", "half of a");
    assert_true(http_sweep(http, &err) < 0);
    put_stored("key.pem");
    assert_int_equal(http_sweep(http, &err), 0);
    check_status(http, 0);
    http_free(http);
}

static void a_file_that_comes_after_its_name_is_found(void **state)
{
    struct mst_error err = MST_ERROR_INIT;
    (void)state;
    put_stored("cert.pem");
    put_stored("key.pem");
    put("web.yml", "");
    struct http *http = start();
    put("web.yml", "tls_server_config:\n  cert_file: later.pem\n  key_file: key.pem\n");
    assert_true(http_sweep(http, &err) < 0);
    assert_non_null(strstr(err.text, "later.pem"));
    assert_int_equal(http_sweep(http, &err), 0); /* told once */
    check_status(http, 200);
    char old[128], new[128];
    (void)snprintf(old, sizeof old, "%s/cert.pem", folder);
    (void)snprintf(new, sizeof new, "%s/later.pem", folder);
    assert_int_equal(rename(old, new), 0);
    assert_int_equal(http_sweep(http, &err), 0);
    check_status(http, 0);
    http_free(http);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_does_not_start_leaves_the_old_in_force),
        cmocka_unit_test(when_nothing_starts_it_is_tried_again),
        cmocka_unit_test(a_renewed_certificate_is_looked_at),
        cmocka_unit_test(a_file_that_comes_after_its_name_is_found),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
