/* SPDX-License-Identifier: Apache-2.0 */
#include "muster/clock.h"
#include "muster/net.h"
#include "test.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#define LOOPBACK 0x7f000001U

static void addresses_are_read_strictly(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int code;
        uint32_t ipv4;
    } cases[] = {
        {"10.0.0.1", 0, 0x0a000001},
        {"0.0.0.0", 0, 0},
        {"255.255.255.255", 0, UINT32_MAX},
        {"", -EINVAL, 7},
        {"10.0.0", -EINVAL, 7},
        {"10.0.0.256", -EINVAL, 7},
        {"10.0.0.1 ", -EINVAL, 7},
        {" 10.0.0.1", -EINVAL, 7},
        {"10.0.0.01", -EINVAL, 7},
        {"10.0.0.1.2", -EINVAL, 7},
        {"0x0a.0.0.1", -EINVAL, 7},
        {"167772161", -EINVAL, 7},
        {"localhost", -EINVAL, 7},
        {"::1", -EINVAL, 7},
        {"10.0.0.-1", -EINVAL, 7},
    };
    for (size_t c = 0; c < MST_ARRAY_COUNT(cases); c++) {
        struct mst_error err = MST_ERROR_INIT;
        uint32_t ipv4 = 7;
        assert_int_equal(mst_parse_ipv4(cases[c].text, &ipv4, &err), cases[c].code);
        assert_int_equal(ipv4, cases[c].ipv4);
        char text[MST_IPV4_TEXT_BYTES];
        if (cases[c].code == 0)
            assert_string_equal(mst_ipv4_text(ipv4, text), cases[c].text);
        else
            assert_non_null(strstr(err.text, cases[c].text));
    }
}

static void subnets_are_read_strictly_and_lose_their_host_bits(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int code;
        struct mst_cidr cidr;
    } cases[] = {
        {"10.1.2.3/24", 0, {0x0a010200, 24}},
        {"10.1.2.3/32", 0, {0x0a010203, 32}},
        {"10.1.2.3/0", 0, {0, 0}},
        {"10.1.2.3/31", 0, {0x0a010202, 31}},
        {"10.1.2.3", -EINVAL, {7, 7}},
        {"10.1.2.3/", -EINVAL, {7, 7}},
        {"10.1.2.3/33", -EINVAL, {7, 7}},
        {"10.1.2.3/-1", -EINVAL, {7, 7}},
        {"/24", -EINVAL, {7, 7}},
        {"10.1.2/24", -EINVAL, {7, 7}},
        {"10.1.2.3/24/8", -EINVAL, {7, 7}},
        {"10.1.2.3 /24", -EINVAL, {7, 7}},
        {"100000000000000000000000.1.2.3/24", -EINVAL, {7, 7}},
        {"", -EINVAL, {7, 7}},
    };
    for (size_t c = 0; c < MST_ARRAY_COUNT(cases); c++) {
        struct mst_cidr cidr = {7, 7};
        assert_int_equal(mst_parse_cidr(cases[c].text, &cidr, NULL), cases[c].code);
        assert_int_equal(cidr.network, cases[c].cidr.network);
        assert_int_equal(cidr.prefix, cases[c].cidr.prefix);
    }
}

static void subnets_contain_and_overlap(void **state)
{
    (void)state;
    static const struct {
        const char *a, *b;
        bool overlap;
    } cases[] = {
        {"10.0.0.0/24", "10.0.0.0/24", true},  {"10.0.0.0/24", "10.0.1.0/24", false},
        {"10.0.0.0/8", "10.200.0.0/16", true}, {"0.0.0.0/0", "10.0.0.0/24", true},
        {"10.0.0.5/32", "10.0.0.0/24", true},  {"10.0.0.5/32", "10.0.0.6/32", false},
        {"0.0.0.0/0", "0.0.0.0/0", true},      {"192.168.0.0/16", "10.0.0.0/8", false},
    };
    for (size_t c = 0; c < MST_ARRAY_COUNT(cases); c++) {
        struct mst_cidr a, b;
        assert_int_equal(mst_parse_cidr(cases[c].a, &a, NULL), 0);
        assert_int_equal(mst_parse_cidr(cases[c].b, &b, NULL), 0);
        assert_int_equal(mst_cidr_overlaps(a, b), cases[c].overlap);
        assert_int_equal(mst_cidr_overlaps(b, a), cases[c].overlap);
        assert_true(mst_cidr_contains(a, a.network));
    }
    const struct mst_cidr subnet = {0x0a000000, 24};
    assert_true(mst_cidr_contains(subnet, 0x0a0000ff));
    assert_false(mst_cidr_contains(subnet, 0x0a000100));
    assert_false(mst_cidr_contains(subnet, 0x09ffffff));
}

static uint64_t in_ms(unsigned ms)
{
    return mst_now_ns() + ms * MST_NS_PER_MS;
}

/* A connected pair over loopback TCP. */
static void routes_are_read_as_the_kernel_writes_them(void **state)
{
    static const struct {
        const char *line;
        bool is_route, is_up;
        const char *interface, *network;
        uint32_t prefix;
    } cases[] = {
        {"eth0\t00000000\t0101A8C0\t0003\t0\t0\t0\t00000000\t0\t0\t0", true, true, "eth0", "0.0.0.0", 0},
        {"eth1\t0000000A\t00000000\t0001\t0\t0\t0\t000000FF\t0\t0\t0", true, true, "eth1", "10.0.0.0", 8},
        {"br-a\t000012AC\t00000000\t0000\t0\t0\t0\t0000FFFF\t0\t0\t0", true, false, "br-a", "172.18.0.0", 16},
        {"Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask", false, false, "", "", 0},
        {"", false, false, "", "", 0},
        {"eth0\t00000000", false, false, "", "", 0},
    };
    char text[MST_IPV4_TEXT_BYTES];

    (void)state;
    for (size_t i = 0; i < MST_ARRAY_COUNT(cases); i++) {
        struct mst_route route = {.destination.prefix = 77};
        assert_int_equal(mst_route_parse(cases[i].line, &route), cases[i].is_route);
        if (!cases[i].is_route) {
            assert_int_equal(route.destination.prefix, 77);
            continue;
        }
        assert_string_equal(route.interface, cases[i].interface);
        assert_string_equal(mst_ipv4_text(route.destination.network, text), cases[i].network);
        assert_int_equal(route.destination.prefix, cases[i].prefix);
        assert_int_equal(route.is_up, cases[i].is_up);
    }
}

static void connect_pair(int *ret_near, int *ret_far)
{
    uint16_t port = 0, from_port = 0;
    uint32_t from = 0;
    mst_cleanup(mst_closep) int listener = -1;
    assert_int_equal(mst_tcp_listen(LOOPBACK, 0, 4, &listener, &port, NULL), 0);
    assert_true(port > 0);
    assert_int_equal(mst_tcp_accept(listener, NULL, NULL), -EAGAIN);
    assert_int_equal(mst_tcp_connect(LOOPBACK, port, in_ms(5000), ret_near, NULL), 0);
    assert_int_equal(mst_wait_fd(listener, POLLIN, in_ms(5000)), 0);
    *ret_far = mst_tcp_accept(listener, &from, &from_port);
    assert_true(*ret_far >= 0);
    assert_int_equal(from, LOOPBACK);
    assert_true(from_port != 0 && from_port != port);
}

static void connections_are_close_on_exec_and_never_block(void **state)
{
    (void)state;
    mst_cleanup(mst_closep) int near = -1;
    mst_cleanup(mst_closep) int far = -1;
    connect_pair(&near, &far);
    const int fds[] = {near, far};
    for (size_t f = 0; f < 2; f++) {
        int on = 0;
        unsigned dead_ms = 0;
        socklen_t bytes = sizeof on;
        assert_true(fcntl(fds[f], F_GETFD) & FD_CLOEXEC);
        assert_true(fcntl(fds[f], F_GETFL) & O_NONBLOCK);
        assert_int_equal(mst_tcp_tune(fds[f], 1234, NULL), 0);
        assert_int_equal(getsockopt(fds[f], IPPROTO_TCP, TCP_NODELAY, &on, &bytes), 0);
        assert_true(on);
        assert_int_equal(getsockopt(fds[f], IPPROTO_TCP, TCP_USER_TIMEOUT, &dead_ms, &bytes), 0);
        assert_int_equal(dead_ms, 1234);
    }
    assert_int_equal(mst_tcp_tune(-1, 0, NULL), -EBADF);
}

static void congestion_control_is_the_one_that_was_asked_for(void **state)
{
    (void)state;
    struct mst_error err = MST_ERROR_INIT;
    char name[MST_CONGESTION_MAX_BYTES + 1] = "";
    socklen_t bytes = sizeof name;
    mst_cleanup(mst_closep) int near = -1;
    mst_cleanup(mst_closep) int far = -1;
    connect_pair(&near, &far);
    assert_int_equal(mst_tcp_set_congestion(near, "reno", &err), 0); /* every kernel has it */
    assert_int_equal(getsockopt(near, IPPROTO_TCP, TCP_CONGESTION, name, &bytes), 0);
    assert_string_equal(name, "reno");
    assert_int_equal(mst_tcp_set_congestion(near, "carrier-pigeon", &err), -ENOENT);
    assert_string_equal(err.text, "this host's TCP has no congestion control 'carrier-pigeon'");
    assert_int_equal(mst_tcp_set_congestion(-1, "reno", &err), -EBADF);
}

static void all_bytes_arrive_whatever_the_kernel_takes_at_a_time(void **state)
{
    (void)state;
    int fds[2];
    enum { COUNT = 3000000 };
    mst_cleanup(mst_freep) char *bytes = malloc(COUNT);
    mst_cleanup(mst_freep) char *got = malloc(COUNT);
    assert_true(bytes && got);
    for (size_t i = 0; i < COUNT; i++)
        bytes[i] = (char)(i * 7 % 253);
    assert_int_equal(mst_socket_pair(fds, NULL), 0);
    const pid_t pid = fork();
    if (pid == 0)
        _exit(mst_send_all(fds[1], bytes, COUNT, in_ms(20000)) == 0 ? 0 : 1);
    assert_true(pid > 0);
    mst_closep(&fds[1]);
    assert_int_equal(mst_receive_all(fds[0], got, COUNT, in_ms(20000)), 0);
    assert_memory_equal(got, bytes, COUNT);
    assert_int_equal(mst_receive_all(fds[0], got, 1, in_ms(20000)), -EPIPE);
    assert_int_equal(mst_receive_all(fds[0], got, 0, in_ms(0)), 0);
    assert_int_equal(mst_send_all(fds[0], got, 1, in_ms(0)), -EPIPE);
    mst_closep(&fds[0]);
}

static void nothing_waits_beyond_its_deadline(void **state)
{
    (void)state;
    int fds[2];
    char byte = 7;
    assert_int_equal(mst_socket_pair(fds, NULL), 0);
    const uint64_t start_ns = mst_now_ns();
    assert_int_equal(mst_wait_fd(fds[0], POLLIN, in_ms(20)), -ETIMEDOUT);
    assert_int_equal(mst_receive_all(fds[0], &byte, 1, in_ms(20)), -ETIMEDOUT);
    assert_int_equal(byte, 7);
    mst_cleanup(mst_freep) char *much = calloc(1, 16 << 20);
    assert_non_null(much);
    assert_int_equal(mst_send_all(fds[0], much, 16 << 20, in_ms(20)), -ETIMEDOUT);
    const double ms = mst_ms_since(start_ns);
    assert_true(ms >= 60 && ms < 5000);
    assert_int_equal(mst_wait_fd(fds[0], POLLIN, 0), -ETIMEDOUT);
    assert_int_equal(mst_wait_fd(fds[1], POLLIN, 0), 0);
    mst_closep(&fds[0]);
    mst_closep(&fds[1]);
}

static void a_connection_that_is_refused_says_where(void **state)
{
    (void)state;
    struct mst_error err = MST_ERROR_INIT;
    uint16_t port = 0;
    int listener = -1, fd = 7;
    assert_int_equal(mst_tcp_listen(LOOPBACK, 0, 4, &listener, &port, NULL), 0);
    char where[64];
    (void)snprintf(where, sizeof where, "127.0.0.1:%u", (unsigned)port);

    int second = 7;
    assert_int_equal(mst_tcp_listen(LOOPBACK, port, 4, &second, NULL, &err), -EADDRINUSE);
    assert_non_null(strstr(err.text, where));
    assert_int_equal(second, 7);

    mst_closep(&listener);
    assert_int_equal(mst_tcp_connect(LOOPBACK, port, in_ms(5000), &fd, &err), -ECONNREFUSED);
    assert_non_null(strstr(err.text, where));
    assert_int_equal(fd, 7);
    assert_int_equal(mst_tcp_listen(0x08080808, 0, 4, &fd, NULL, &err), -EADDRNOTAVAIL);
    assert_int_equal(fd, 7);
    assert_int_equal(mst_tcp_connect_result(-1), -EBADF);
    assert_int_equal(mst_tcp_accept(-1, NULL, NULL), -EBADF);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(addresses_are_read_strictly),
        cmocka_unit_test(subnets_are_read_strictly_and_lose_their_host_bits),
        cmocka_unit_test(subnets_contain_and_overlap),
        cmocka_unit_test(routes_are_read_as_the_kernel_writes_them),
        cmocka_unit_test(connections_are_close_on_exec_and_never_block),
        cmocka_unit_test(congestion_control_is_the_one_that_was_asked_for),
        cmocka_unit_test(all_bytes_arrive_whatever_the_kernel_takes_at_a_time),
        cmocka_unit_test(nothing_waits_beyond_its_deadline),
        cmocka_unit_test(a_connection_that_is_refused_says_where),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
