/* SPDX-License-Identifier: Apache-2.0 */
#include "counters.h"
#include "muster/cleanup.h"
#include "test.h"

/* Outputs start as this, so a failure that writes is seen. */
#define UNTOUCHED 7777

static void a_number_is_the_whole_line_and_nothing_else(void **state)
{
    static const struct {
        const char *text;
        int code, limit_code;
        uint64_t value;
    } cases[] = {
        {"0\n", 0, 0, 0},
        {"4124098266\n", 0, 0, 4124098266},
        {"18446744073709551615\n", 0, 0, UINT64_MAX},
        {"max\n", -EBADMSG, 0, UINT64_MAX},
        {"18446744073709551616\n", -EBADMSG, -EBADMSG, UNTOUCHED},
        {"99999999999999999999999\n", -EBADMSG, -EBADMSG, UNTOUCHED},
        {"", -EBADMSG, -EBADMSG, UNTOUCHED},
        {"\n", -EBADMSG, -EBADMSG, UNTOUCHED},
        {"12", -EBADMSG, -EBADMSG, UNTOUCHED}, /* cut */
        {"12\n34\n", -EBADMSG, -EBADMSG, UNTOUCHED},
        {"12\n\n", -EBADMSG, -EBADMSG, UNTOUCHED},
        {" 12\n", -EBADMSG, -EBADMSG, UNTOUCHED},
        {"-1\n", -EBADMSG, -EBADMSG, UNTOUCHED},
        {"+1\n", -EBADMSG, -EBADMSG, UNTOUCHED},
        {"0x10\n", -EBADMSG, -EBADMSG, UNTOUCHED},
        {"1e3\n", -EBADMSG, -EBADMSG, UNTOUCHED},
        {"maximum\n", -EBADMSG, -EBADMSG, UNTOUCHED},
        {"max", -EBADMSG, -EBADMSG, UNTOUCHED},
    };
    (void)state;
    for (size_t i = 0; i < MST_ARRAY_COUNT(cases); i++) {
        uint64_t value = UNTOUCHED;
        assert_int_equal(counters_number(cases[i].text, strlen(cases[i].text), &value), cases[i].code);
        assert_true(value == (cases[i].code == 0 ? cases[i].value : UNTOUCHED));
        value = UNTOUCHED;
        assert_int_equal(counters_limit(cases[i].text, strlen(cases[i].text), &value), cases[i].limit_code);
        assert_true(value == cases[i].value);
    }
}

static void a_number_ends_where_its_bytes_end(void **state)
{
    uint64_t value = UNTOUCHED;
    (void)state;
    assert_int_equal(counters_number("12\n34", 3, &value), 0);
    assert_true(value == 12);
    assert_int_equal(counters_number("1\0\n", 3, &value), -EBADMSG);
    assert_true(value == 12);
}

static void keyed_lines_give_what_is_asked_for(void **state)
{
    static const struct {
        const char *text;
        int code;
        bool found;
        uint64_t value;
    } cases[] = {
        {"anon 5\nfile 9\n", 0, true, 9},
        {"file 18446744073709551615\n", 0, true, UINT64_MAX},
        {"anon 5\n", 0, false, 0},
        {"", 0, false, 0},
        {"cost.vrate 100.00\nfile 9\n", 0, true, 9}, /* values nobody asked for may be anything */
        {"file_dirty 1\nxfile 2\n", 0, false, 0},    /* names match as a whole */
        {"file 9", -EBADMSG, false, 0},              /* cut in the last line */
        {"file 9\nano", -EBADMSG, true, 9},
        {"file\n", -EBADMSG, false, 0},
        {"file 9 9\n", -EBADMSG, false, 0},
        {"file nine\n", -EBADMSG, true, 0},
        {"file -9\n", -EBADMSG, true, 0},
        {"file 9\nfile 9\n", -EBADMSG, true, 9}, /* two reads run together */
        {"\n", -EBADMSG, false, 0},
        {"file 18446744073709551616\n", -EBADMSG, true, 0},
    };
    (void)state;
    for (size_t i = 0; i < MST_ARRAY_COUNT(cases); i++) {
        struct counters_key key = {.name = "file"};
        assert_int_equal(counters_keyed(cases[i].text, strlen(cases[i].text), &key, 1), cases[i].code);
        assert_int_equal(key.found, cases[i].found);
        assert_true(key.value == cases[i].value);
    }
}

static void block_io_is_summed_over_devices(void **state)
{
    static const struct {
        const char *text;
        int code;
        uint64_t read_bytes, write_bytes;
    } cases[] = {
        {"8:0 Read 100\n8:0 Write 20\n8:0 Sync 120\n8:0 Total 120\n8:16 Read 5\nTotal 125\n", 0, 105, 20},
        {"Total 0\n", 0, 0, 0},
        {"", 0, 0, 0},
        {"8:0 Read 100\n8:0 Wri", -EBADMSG, UNTOUCHED, UNTOUCHED},
        {"8:0 Read\n", -EBADMSG, UNTOUCHED, UNTOUCHED},
        {"8 Read 1\n", -EBADMSG, UNTOUCHED, UNTOUCHED},
        {"a:b Read 1\n", -EBADMSG, UNTOUCHED, UNTOUCHED},
        {"Total\n", -EBADMSG, UNTOUCHED, UNTOUCHED},
        {"8:0 Read -1\n", -EBADMSG, UNTOUCHED, UNTOUCHED},
        {"8:0 Read 18446744073709551615\n8:1 Read 1\n", -EBADMSG, UNTOUCHED, UNTOUCHED},
    };
    (void)state;
    for (size_t i = 0; i < MST_ARRAY_COUNT(cases); i++) {
        struct counters_io io = {.read_bytes = UNTOUCHED, .write_bytes = UNTOUCHED};
        assert_int_equal(counters_blkio(cases[i].text, strlen(cases[i].text), &io), cases[i].code);
        assert_true(io.read_bytes == cases[i].read_bytes && io.write_bytes == cases[i].write_bytes);
    }
}

static void io_stat_is_summed_over_devices(void **state)
{
    static const struct {
        const char *text;
        int code;
        uint64_t read_bytes, write_bytes;
    } cases[] = {
        {"8:0 rbytes=100 wbytes=20 rios=1 wios=1 dbytes=0 dios=0\n259:0 rbytes=5 wbytes=0\n", 0, 105, 20},
        {"8:0 \n", 0, 0, 0},
        {"", 0, 0, 0},
        {"254:1 254:0 rbytes=7 wbytes=8\n", 0, 7, 8}, /* the line's end after an idle device is missing */
        {"8:0 rbytes=1 cost.vrate=100.00 wbytes=2\n", 0, 1, 2},
        {"8:0 rbytes=100 wby", -EBADMSG, UNTOUCHED, UNTOUCHED},
        {"8:0 rbytes=\n", -EBADMSG, UNTOUCHED, UNTOUCHED},
        {"8:0 rbytes=x\n", -EBADMSG, UNTOUCHED, UNTOUCHED},
        {"rbytes=1\n", -EBADMSG, UNTOUCHED, UNTOUCHED},
        {"8:0 rbytes=18446744073709551615 wbytes=0\n8:1 rbytes=1\n", -EBADMSG, UNTOUCHED, UNTOUCHED},
    };
    (void)state;
    for (size_t i = 0; i < MST_ARRAY_COUNT(cases); i++) {
        struct counters_io io = {.read_bytes = UNTOUCHED, .write_bytes = UNTOUCHED};
        assert_int_equal(counters_io_stat(cases[i].text, strlen(cases[i].text), &io), cases[i].code);
        assert_true(io.read_bytes == cases[i].read_bytes && io.write_bytes == cases[i].write_bytes);
    }
}

#define NET_HEAD "Inter-|   Receive |  Transmit\n face |bytes packets |bytes packets\n"

static void interfaces_are_summed_without_lo(void **state)
{
    static const struct {
        const char *text;
        int code;
        uint64_t interfaces, rx_bytes, tx_dropped;
    } cases[] = {
        {NET_HEAD "    lo: 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9\n  eth0: 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16\n"
                  "  eth1: 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16\n",
         0, 2, 2, 24},
        {NET_HEAD "  eth0:12345678901 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16\n", 0, 1, 12345678901, 12},
        {NET_HEAD " local0: 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16\n", 0, 1, 1, 12},
        {NET_HEAD, 0, 0, 0, 0},
        {"", -EBADMSG, UNTOUCHED, UNTOUCHED, UNTOUCHED},
        {"eth0: 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16\n", -EBADMSG, UNTOUCHED, UNTOUCHED, UNTOUCHED},
        {NET_HEAD "  eth0: 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15\n", -EBADMSG, UNTOUCHED, UNTOUCHED, UNTOUCHED},
        {NET_HEAD "  eth0: 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16", -EBADMSG, UNTOUCHED, UNTOUCHED,
         UNTOUCHED},
        {NET_HEAD "  eth0  1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16\n", -EBADMSG, UNTOUCHED, UNTOUCHED,
         UNTOUCHED},
        {NET_HEAD "  : 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16\n", -EBADMSG, UNTOUCHED, UNTOUCHED, UNTOUCHED},
        {NET_HEAD "  a b: 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16\n", -EBADMSG, UNTOUCHED, UNTOUCHED,
         UNTOUCHED},
        {NET_HEAD "  eth0: 1 2 3 4 5 6 7 8 9 10 11 -12 13 14 15 16\n", -EBADMSG, UNTOUCHED, UNTOUCHED,
         UNTOUCHED},
    };
    (void)state;
    for (size_t i = 0; i < MST_ARRAY_COUNT(cases); i++) {
        struct counters_net net = {.interfaces = UNTOUCHED, .rx_bytes = UNTOUCHED, .tx_dropped = UNTOUCHED};
        assert_int_equal(counters_net_dev(cases[i].text, strlen(cases[i].text), false, &net), cases[i].code);
        assert_true(net.interfaces == cases[i].interfaces);
        assert_true(net.rx_bytes == cases[i].rx_bytes && net.tx_dropped == cases[i].tx_dropped);
    }
}

/* All parsers over one text, in memory of just its size, so that ASan sees a byte read too far. */
static void parse_with_all(const char *text, size_t bytes)
{
    char *exact = malloc(bytes ? bytes : 1);
    assert_non_null(exact);
    memcpy(exact, text, bytes);
    uint64_t value;
    struct counters_key keys[] = {{.name = "total_rss"}, {.name = "anon"}};
    struct counters_io io = {0};
    struct counters_net net = {0};
    (void)counters_number(exact, bytes, &value);
    (void)counters_limit(exact, bytes, &value);
    (void)counters_keyed(exact, bytes, keys, 2);
    (void)counters_blkio(exact, bytes, &io);
    (void)counters_io_stat(exact, bytes, &io);
    (void)counters_net_dev(exact, bytes, false, &net);
    free(exact);
}

static void cut_and_garbled_text_is_never_read_past_its_end(void **state)
{
    static const char *const files[] = {
        DATA("v1/proc/1234/net/dev"),
        DATA("v1/sys/fs/cgroup/memory/lab/node1/" CONTAINER_ID "/memory.stat"),
        DATA("v1/sys/fs/cgroup/blkio/lab/node1/" CONTAINER_ID "/blkio.throttle.io_service_bytes_recursive"),
        DATA("v2/sys/fs/cgroup/system.slice/docker-" CONTAINER_ID ".scope/io.stat"),
        DATA("v2/sys/fs/cgroup/system.slice/docker-" CONTAINER_ID ".scope/memory.max"),
    };
    static const char hostile[] = {'\0', '\n', ' ', ':', '=', '-', '9', (char)0xFF, '|'};
    (void)state;
    for (size_t i = 0; i < MST_ARRAY_COUNT(files); i++) {
        mst_cleanup(mst_buf_release) struct mst_buf text = load(files[i]);
        for (size_t cut = 0; cut <= text.count; cut++)
            parse_with_all(text.bytes, cut);
        for (size_t at = 0; at < text.count; at++) {
            const char kept = text.bytes[at];
            text.bytes[at] = hostile[at % sizeof hostile];
            parse_with_all(text.bytes, text.count);
            text.bytes[at] = kept;
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_number_is_the_whole_line_and_nothing_else),
        cmocka_unit_test(a_number_ends_where_its_bytes_end),
        cmocka_unit_test(keyed_lines_give_what_is_asked_for),
        cmocka_unit_test(block_io_is_summed_over_devices),
        cmocka_unit_test(io_stat_is_summed_over_devices),
        cmocka_unit_test(interfaces_are_summed_without_lo),
        cmocka_unit_test(cut_and_garbled_text_is_never_read_past_its_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
