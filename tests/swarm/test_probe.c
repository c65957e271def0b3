/* SPDX-License-Identifier: Apache-2.0 */
/* Packets to a peer on a bridge, whose links take what they take. */
#include "../common/test.h"
#include "../netns.h"
#include "probe.h"

#include <unistd.h>

#define PEER     NETNS_OF(1)
#define NOBODY   NETNS_OF(77)
#define ETHERNET 1500

static enum probe_answer echo(uint32_t host, size_t bytes)
{
    enum probe_answer answer = PROBE_NOT_ALLOWED;
    struct mst_error err = MST_ERROR_INIT;

    if (probe_echo(host, bytes, -1, &answer, &err) < 0)
        fail_msg("%s", err.text);
    return answer;
}

static void what_fits_comes_back(void **state)
{
    (void)state;
    assert_int_equal(echo(PEER, PROBE_LEAST_BYTES), PROBE_ANSWERED);
    assert_int_equal(echo(PEER, ETHERNET), PROBE_ANSWERED);
    assert_int_equal(echo(NETNS_IPV4, ETHERNET), PROBE_ANSWERED); /* this machine itself */
    assert_int_equal(echo(PEER, ETHERNET + 1), PROBE_TOO_LARGE);
}

static void a_small_link_of_our_own_is_told(void **state)
{
    (void)state;
    assert_int_equal(netns_ip("link set eth0 mtu 1400"), 0);
    assert_int_equal(echo(PEER, ETHERNET), PROBE_TOO_LARGE);
    assert_int_equal(echo(PEER, 1400), PROBE_ANSWERED);
    assert_int_equal(netns_ip("link set eth0 mtu 1500"), 0);
}

/* The bridge drops what its port does not take, and tells nobody. */
static void a_way_that_loses_large_packets_is_seen(void **state)
{
    (void)state;
    assert_int_equal(netns_ip("link set p0 mtu 1400"), 0);
    assert_int_equal(echo(PEER, ETHERNET), PROBE_SILENT);
    assert_int_equal(echo(PEER, PROBE_LEAST_BYTES), PROBE_ANSWERED);
    assert_int_equal(netns_ip("link set p0 mtu 1500"), 0);
    assert_int_equal(echo(PEER, ETHERNET), PROBE_ANSWERED);
}

static void nobody_is_silent(void **state)
{
    (void)state;
    assert_int_equal(echo(NOBODY, PROBE_LEAST_BYTES), PROBE_SILENT);
    assert_int_equal(echo(0xc6336401U, PROBE_LEAST_BYTES), PROBE_SILENT); /* 198.51.100.1: no route */
}

static void without_rights_it_says_so(void **state)
{
    (void)state;
    assert_int_equal(seteuid(65534), 0);
    const enum probe_answer answer = echo(PEER, PROBE_LEAST_BYTES);
    assert_int_equal(seteuid(0), 0);
    assert_int_equal(answer, PROBE_NOT_ALLOWED);
}

static void a_cancel_ends_it(void **state)
{
    enum probe_answer answer = PROBE_ANSWERED;
    int fds[2];

    (void)state;
    assert_int_equal(pipe(fds), 0);
    assert_int_equal(write(fds[1], "x", 1), 1);
    assert_int_equal(probe_echo(NOBODY, PROBE_LEAST_BYTES, fds[0], &answer, NULL), -ECANCELED);
    assert_int_equal(answer, PROBE_ANSWERED);
    (void)close(fds[0]);
    (void)close(fds[1]);
}

static void sizes_that_no_packet_has_are_refused(void **state)
{
    enum probe_answer answer = PROBE_ANSWERED;

    (void)state;
    assert_int_equal(probe_echo(PEER, PROBE_LEAST_BYTES - 1, -1, &answer, NULL), -EINVAL);
    assert_int_equal(probe_echo(PEER, PROBE_MOST_BYTES + 1, -1, &answer, NULL), -EINVAL);
    assert_int_equal(answer, PROBE_ANSWERED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_fits_comes_back),
        cmocka_unit_test(a_small_link_of_our_own_is_told),
        cmocka_unit_test(a_way_that_loses_large_packets_is_seen),
        cmocka_unit_test(nobody_is_silent),
        cmocka_unit_test(without_rights_it_says_so),
        cmocka_unit_test(a_cancel_ends_it),
        cmocka_unit_test(sizes_that_no_packet_has_are_refused),
    };

    if (!netns_enter())
        return netns_must_work() ? 1 : 77;
    struct netns_peer peer = netns_peer_start("10.9.0.1/24", NULL, NULL, NULL);
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    netns_peer_stop(&peer);
    return failed;
}
