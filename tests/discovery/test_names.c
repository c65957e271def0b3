/* SPDX-License-Identifier: Apache-2.0 */
/* Look-ups against a scripted name server in a network and mount namespace of the test's own. */
#include "muster/big_endian.h"
#include "muster/cleanup.h"
#include "sweep_fixture.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sched.h>
#include <sys/mount.h>

#define SERVER       0x7f00000bU /* 127.0.0.11, as Docker's own */
#define QUERY_BYTES  512
#define HEADER_BYTES 12

enum server_mood { ANSWERS, UNKNOWN, MUTE_SERVER, GARBAGE_SERVER, OTHER_ID, ONLY_SOME };

static struct server {
    int fd;
    pthread_t thread;
    pthread_mutex_t lock; /* guards what follows */
    enum server_mood mood;
    size_t addresses; /* in an answer: 10.9.0.1 and so on, the first one twice */
    bool stop;
} server = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void set_mood(enum server_mood mood, size_t addresses)
{
    pthread_mutex_lock(&server.lock);
    server.mood = mood;
    server.addresses = addresses;
    pthread_mutex_unlock(&server.lock);
}

/* A record of type A whose name is the question's. */
static size_t put_record(uint8_t *at, uint32_t ipv4)
{
    mst_be_put_u16(at, 0xc00c);
    mst_be_put_u16(at + 2, 1);
    mst_be_put_u16(at + 4, 1);
    mst_be_put_u32(at + 6, 600);
    mst_be_put_u16(at + 10, 4);
    mst_be_put_u32(at + 12, ipv4);
    return 16;
}

static size_t make_answer(const uint8_t *query, size_t count, uint8_t *answer, enum server_mood mood,
                          size_t addresses)
{
    size_t at = count;
    memcpy(answer, query, count);
    mst_be_put_u16(answer + 2, mood == UNKNOWN ? 0x8183 : 0x8180);
    mst_be_put_u16(answer + 10, 0); /* no EDNS in the answer */
    /* The question alone: what stood behind it belongs to EDNS. */
    at = HEADER_BYTES;
    while (answer[at] != 0)
        at += answer[at] + 1U;
    at += 5;
    const size_t records = mood == UNKNOWN ? 0 : addresses + (addresses > 0);
    mst_be_put_u16(answer + 6, (uint16_t)records);
    for (size_t i = 0; i < records; i++)
        at += put_record(answer + at, NETNS_OF(i == 0 ? 1 : i));
    if (mood == OTHER_ID)
        answer[0] ^= 1;
    if (mood == GARBAGE_SERVER)
        for (size_t i = 6; i < at; i++)
            answer[i] = (uint8_t)(i * 37);
    return mood == ONLY_SOME ? at - 7 : at;
}

static void *serve(void *context)
{
    uint8_t query[QUERY_BYTES], answer[QUERY_BYTES + 16 * 32];
    (void)context;
    for (;;) {
        struct sockaddr_in from;
        socklen_t from_bytes = sizeof from;
        const ssize_t got =
            recvfrom(server.fd, query, sizeof query, 0, (struct sockaddr *)&from, &from_bytes);
        pthread_mutex_lock(&server.lock);
        const bool stop = server.stop;
        const enum server_mood mood = server.mood;
        const size_t addresses = server.addresses;
        pthread_mutex_unlock(&server.lock);
        if (stop)
            return NULL;
        if (got < HEADER_BYTES + 5 || mood == MUTE_SERVER)
            continue;
        const size_t count = make_answer(query, (size_t)got, answer, mood, addresses);
        (void)sendto(server.fd, answer, count, 0, (const struct sockaddr *)&from, from_bytes);
    }
}

static void write_file(const char *path, const char *text)
{
    FILE *file = fopen(path, "we");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

/* Over the machine's own files, for this process only. */
static void replace(const char *path, const char *text)
{
    char temporary[] = "/tmp/muster-test-names-XXXXXX";
    const int fd = mkstemp(temporary);
    assert_true(fd >= 0);
    (void)close(fd);
    write_file(temporary, text);
    assert_int_equal(mount(temporary, path, NULL, MS_BIND, NULL), 0);
    (void)unlink(temporary);
}

static int start_server(void **state)
{
    const struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons(53), .sin_addr.s_addr = htonl(SERVER)};
    (void)enter_or_skip(state);
    if (unshare(CLONE_NEWNS) < 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
        return -1;
    replace("/etc/resolv.conf", "nameserver 127.0.0.11\noptions ndots:0\n");
    replace("/etc/hosts", "127.0.0.1 localhost\n10.9.0.44 in-the-file\n");
    server.fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (server.fd < 0 || bind(server.fd, (const struct sockaddr *)&address, sizeof address) < 0)
        return -1;
    return pthread_create(&server.thread, NULL, serve, NULL);
}

static int stop_server(void **state)
{
    (void)state;
    pthread_mutex_lock(&server.lock);
    server.stop = true;
    pthread_mutex_unlock(&server.lock);
    /* To itself, to end its wait. */
    const struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons(53), .sin_addr.s_addr = htonl(SERVER)};
    (void)sendto(server.fd, "", 1, 0, (const struct sockaddr *)&address, sizeof address);
    (void)pthread_join(server.thread, NULL);
    return close(server.fd);
}

static struct discovery_lookup *look_up(const char *name, uint64_t ms, int expected)
{
    struct discovery_lookup *lookup = NULL;
    struct mst_error err = MST_ERROR_INIT;
    assert_int_equal(discovery_lookup_new(name, mst_now_ns() + ms * MST_NS_PER_MS, &lookup, &err), 0);
    int r;
    while ((r = discovery_lookup_process(lookup, &err)) == 0) {
        struct pollfd poll_fd = {.fd = discovery_lookup_fd(lookup), .events = POLLIN};
        (void)poll(&poll_fd, 1, mst_ms_until(discovery_lookup_wake_ns(lookup), 1000));
    }
    if (r != expected)
        fail_msg("%s: %d instead of %d: %s", name, r, expected, err.text);
    if (r < 0)
        assert_non_null(strstr(err.text, name));
    assert_int_equal(discovery_lookup_process(lookup, NULL), r); /* asked again, it says the same */
    return lookup;
}

static void every_address_of_a_name_comes_once(void **state)
{
    (void)state;
    static const size_t counts[] = {1, 3, 25};
    for (size_t c = 0; c < MST_ARRAY_COUNT(counts); c++) {
        size_t count = 0;
        set_mood(ANSWERS, counts[c]);
        struct discovery_lookup *lookup = look_up("tasks.workers", 5000, 1);
        const uint32_t *list = discovery_lookup_result(lookup, &count);
        assert_int_equal(count, counts[c]);
        for (size_t i = 0; i < count; i++)
            assert_int_equal(list[i], NETNS_OF(i + 1));
        discovery_lookup_free(lookup);
    }
}

static void an_unknown_name_a_mute_server_and_nonsense_are_told_apart_and_end(void **state)
{
    (void)state;
    size_t count = 7;
    set_mood(UNKNOWN, 0);
    struct discovery_lookup *lookup = look_up("tasks.nobody", 5000, -ENOENT);
    (void)discovery_lookup_result(lookup, &count);
    assert_int_equal(count, 0);
    discovery_lookup_free(lookup);

    static const enum server_mood moods[] = {MUTE_SERVER, OTHER_ID, GARBAGE_SERVER, ONLY_SOME};
    for (size_t m = 0; m < MST_ARRAY_COUNT(moods); m++) {
        set_mood(moods[m], 3);
        struct mst_error err = MST_ERROR_INIT;
        assert_int_equal(
            discovery_lookup_new("tasks.workers", mst_now_ns() + 300 * MST_NS_PER_MS, &lookup, NULL), 0);
        int r;
        while ((r = discovery_lookup_process(lookup, &err)) == 0) {
            struct pollfd poll_fd = {.fd = discovery_lookup_fd(lookup), .events = POLLIN};
            (void)poll(&poll_fd, 1, mst_ms_until(discovery_lookup_wake_ns(lookup), 1000));
        }
        assert_true(r < 0);
        if (moods[m] == MUTE_SERVER || moods[m] == OTHER_ID)
            assert_int_equal(r, -ETIMEDOUT);
        (void)discovery_lookup_result(lookup, &count);
        assert_int_equal(count, 0);
        discovery_lookup_free(lookup);
    }
}

static void the_hosts_file_is_asked_too_and_numbers_need_nobody(void **state)
{
    (void)state;
    size_t count = 0;
    set_mood(UNKNOWN, 0);
    struct discovery_lookup *lookup = look_up("in-the-file", 5000, 1);
    const uint32_t *list = discovery_lookup_result(lookup, &count);
    assert_int_equal(count, 1);
    assert_int_equal(list[0], NETNS_OF(44));
    discovery_lookup_free(lookup);
    lookup = look_up("10.9.0.45", 5000, 1);
    list = discovery_lookup_result(lookup, &count);
    assert_int_equal(count, 1);
    assert_int_equal(list[0], NETNS_OF(45));
    discovery_lookup_free(lookup);
}

static void a_look_up_can_be_dropped_at_any_time(void **state)
{
    (void)state;
    char name[300];
    struct discovery_lookup *lookup = NULL;
    set_mood(MUTE_SERVER, 0);
    for (int steps = 0; steps < 3; steps++) {
        assert_int_equal(discovery_lookup_new("tasks.workers", mst_now_ns() + MST_NS_PER_S, &lookup, NULL),
                         0);
        for (int i = 0; i < steps; i++)
            assert_int_equal(discovery_lookup_process(lookup, NULL), 0);
        discovery_lookup_free(lookup);
    }
    lookup = NULL;
    memset(name, 'a', sizeof name);
    name[sizeof name - 1] = '\0';
    assert_int_equal(discovery_lookup_new(name, 0, &lookup, NULL), -EINVAL);
    assert_null(lookup);
    discovery_lookup_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_address_of_a_name_comes_once),
        cmocka_unit_test(an_unknown_name_a_mute_server_and_nonsense_are_told_apart_and_end),
        cmocka_unit_test(the_hosts_file_is_asked_too_and_numbers_need_nobody),
        cmocka_unit_test(a_look_up_can_be_dropped_at_any_time),
    };
    return cmocka_run_group_tests(tests, start_server, stop_server);
}
