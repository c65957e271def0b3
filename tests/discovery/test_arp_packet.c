/* SPDX-License-Identifier: Apache-2.0 */
/* Packets from stored captures: data/arp-three-hosts.pcap is a sweep of 10.9.0.0/24 from 10.9.0.100
 * (02:00:00:00:00:64) on a bridge with three hosts; data/arp-odd.pcap was put together by hand. */
#include "arp_packet.h"
#include "hello_fixture.h"
#include "muster/cleanup.h"

#include <pcap/pcap.h>

static const uint8_t our_mac[DISCOVERY_MAC_BYTES] = {2, 0, 0, 0, 0, 0x64};
#define OUR_IPV4 0x0a090064U

static pcap_t *open_capture(const char *name)
{
    char path[512], text[PCAP_ERRBUF_SIZE] = "";
    (void)snprintf(path, sizeof path, "%s/%s", MUSTER_TEST_DATA, name);
    pcap_t *capture = pcap_open_offline(path, text);
    if (!capture)
        fail_msg("%s", text);
    return capture;
}

static void a_recorded_sweep_shows_its_three_hosts_and_no_request(void **state)
{
    (void)state;
    static const uint32_t expected[] = {0x0a090001, 0x0a090005, 0x0a0900c8};
    pcap_t *capture = open_capture("arp-three-hosts.pcap");
    struct pcap_pkthdr *header;
    const u_char *bytes;
    size_t replies = 0, requests = 0;
    while (pcap_next_ex(capture, &header, &bytes) == 1) {
        uint8_t built[ARP_FRAME_BYTES];
        struct arp_reply reply;
        if (arp_reply_get(bytes, header->caplen, our_mac, OUR_IPV4, &reply)) {
            assert_true(replies < MST_ARRAY_COUNT(expected));
            assert_int_equal(reply.sender_ipv4, expected[replies++]);
            assert_memory_equal(reply.sender_mac, bytes + 6, DISCOVERY_MAC_BYTES);
            continue;
        }
        /* Ours ask for every other address in turn; the last bytes of each say which. */
        const uint32_t target = 0x0a090000U + bytes[41];
        arp_request_put(built, our_mac, OUR_IPV4, target);
        assert_int_equal(header->caplen, ARP_FRAME_BYTES);
        assert_memory_equal(bytes, built, ARP_FRAME_BYTES);
        requests++;
    }
    pcap_close(capture);
    assert_int_equal(replies, 3);
    assert_int_equal(requests, 253);
}

static const struct {
    const char *what;
    bool good;
} odd[] = {
    {"padded to Ethernet's least length", true},
    {"sent on by another station, as proxies do", true},
    {"from another subnet: well-formed, and the sweep's to refuse", true},
    {"one byte short", false},
    {"only an Ethernet header", false},
    {"empty", false},
    {"a request", false},
    {"a reverse request", false},
    {"the operation in the wrong byte order", false},
    {"another hardware", false},
    {"another protocol", false},
    {"a MAC of 8 bytes", false},
    {"an address of 16 bytes", false},
    {"another ethertype", false},
    {"with a VLAN tag", false},
    {"to everybody", false},
    {"to another station", false},
    {"for another station's MAC", false},
    {"for another address", false},
    {"gratuitous", false},
    {"from everybody", false},
    {"from a group", false},
    {"from nobody", false},
};

static void odd_replies_are_judged_one_by_one(void **state)
{
    (void)state;
    pcap_t *capture = open_capture("arp-odd.pcap");
    struct pcap_pkthdr *header;
    const u_char *bytes;
    size_t count = 0;
    while (pcap_next_ex(capture, &header, &bytes) == 1) {
        const struct arp_reply untouched = {.sender_ipv4 = 7};
        struct arp_reply reply = untouched;
        assert_true(count < MST_ARRAY_COUNT(odd));
        if (arp_reply_get(bytes, header->caplen, our_mac, OUR_IPV4, &reply) != odd[count].good)
            fail_msg("%s", odd[count].what);
        if (!odd[count].good)
            assert_memory_equal(&reply, &untouched, sizeof reply);
        count++;
    }
    pcap_close(capture);
    assert_int_equal(count, MST_ARRAY_COUNT(odd));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_recorded_sweep_shows_its_three_hosts_and_no_request),
        cmocka_unit_test(odd_replies_are_judged_one_by_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
