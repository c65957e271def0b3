/* SPDX-License-Identifier: Apache-2.0 */
/* Stored captures through everything that a packet goes through in a sweep: the filter that the kernel would
 * apply, the reading of the packet, and the sweep's own table. record_captures.sh says what was on the wire.
 */
#include "arp.h"
#include "hello_fixture.h"
#include "muster/clock.h"
#include "sweep_base.h"

#include <stdlib.h>

#define SCANNED 0x0a090040U /* 10.9.0.64/26 */
#define HOST(x) (0x0a090000U + (uint32_t)(x))

static const struct discovery_interface scanner = {.name = "eth0",
                                                   .index = 99,
                                                   .ipv4 = HOST(100),
                                                   .prefix = 24,
                                                   .mac = {2, 0, 0, 0, 0, 0x64},
                                                   .ethernet = true,
                                                   .up = true};

struct replayed {
    struct discovery_sweep sweep;
    size_t packets, replies;
};

static void replay(const char *name, bool with_filter, struct replayed *replayed)
{
    static const struct sweep_operations none;
    const struct discovery_sweep_options options = {
        .choice = {.interface = scanner, .subnet = {SCANNED, 26}}};
    char path[512], text[PCAP_ERRBUF_SIZE] = "", filter[ARP_FILTER_BYTES];
    struct bpf_program program;
    struct pcap_pkthdr *header;
    const u_char *bytes;
    *replayed = (struct replayed){0};
    assert_int_equal(sweep_base_init(&replayed->sweep, &none, DISCOVERY_METHOD_ARP, &options, NULL), 0);
    (void)snprintf(path, sizeof path, "%s/%s", MUSTER_TEST_DATA, name);
    pcap_t *capture = pcap_open_offline(path, text);
    if (!capture)
        fail_msg("%s", text);
    arp_filter_text(&scanner, filter);
    if (with_filter) {
        assert_int_equal(pcap_compile(capture, &program, filter, 1, PCAP_NETMASK_UNKNOWN), 0);
        assert_int_equal(pcap_setfilter(capture, &program), 0);
        pcap_freecode(&program);
    }
    while (pcap_next_ex(capture, &header, &bytes) == 1) {
        struct arp_reply reply;
        replayed->packets++;
        /* A block of its own size, so that a read beyond its end is seen. */
        uint8_t *copy = malloc(header->caplen);
        assert_non_null(copy);
        memcpy(copy, bytes, header->caplen);
        const bool good = arp_reply_get(copy, header->caplen, scanner.mac, scanner.ipv4, &reply);
        free(copy);
        if (!good)
            continue;
        replayed->replies++;
        if (sweep_in_range(&replayed->sweep, reply.sender_ipv4))
            assert_int_equal(sweep_record(&replayed->sweep, reply.sender_ipv4, reply.sender_mac,
                                          DISCOVERY_PORT_UNKNOWN, mst_now_ns(), NULL),
                             0);
    }
    pcap_close(capture);
}

static void a_busy_wire_gives_its_hosts_and_nothing_else(void **state)
{
    (void)state;
    static const struct {
        unsigned address, mac, other_mac; /* last bytes; other_mac 0: one machine */
    } expected[] = {{65, 0x65, 0}, {70, 0x71, 0x70}, {80, 0x80, 0},  {90, 0x80, 0}, {91, 0x80, 0},
                    {92, 0x80, 0}, {93, 0x80, 0},    {100, 0x64, 0}, {110, 0x6e, 0}};
    for (int with_filter = 0; with_filter < 2; with_filter++) {
        struct replayed replayed;
        replay("arp-busy.pcap", with_filter, &replayed);
        const struct discovery_sweep_result *result = discovery_sweep_result(&replayed.sweep);
        assert_int_equal(result->count, sizeof expected / sizeof expected[0]);
        for (size_t h = 0; h < result->count; h++) {
            const struct discovery_host *host = &result->hosts[h];
            assert_int_equal(host->ipv4, HOST(expected[h].address));
            assert_int_equal(host->mac[5], expected[h].mac);
            assert_int_equal(host->self, expected[h].address == 100);
            assert_int_equal(host->duplicate, expected[h].other_mac != 0);
            if (host->duplicate)
                assert_int_equal(host->other_mac[5], expected[h].other_mac);
        }
        assert_int_equal(replayed.replies, 11); /* the nine of the sweep, and twice that for 10.9.0.200 */
        /* Through the filter come these, and those that name another address than ours. */
        assert_int_equal(replayed.packets, with_filter ? 13 : 161);
        sweep_base_release(&replayed.sweep);
    }
}

static void packets_that_were_cut_give_nobody(void **state)
{
    (void)state;
    for (int with_filter = 0; with_filter < 2; with_filter++) {
        struct replayed replayed;
        replay("arp-cut.pcap", with_filter, &replayed);
        assert_true(replayed.packets > 0);
        assert_int_equal(replayed.replies, 0);
        assert_int_equal(discovery_sweep_result(&replayed.sweep)->count, 1); /* ourselves */
        sweep_base_release(&replayed.sweep);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_busy_wire_gives_its_hosts_and_nothing_else),
        cmocka_unit_test(packets_that_were_cut_give_nobody),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
