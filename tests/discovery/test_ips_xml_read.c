/* SPDX-License-Identifier: Apache-2.0 */
#include "hello_fixture.h"
#include "muster/cleanup.h"
#include "muster/file.h"
#include "muster/sweep.h"

#include <unistd.h>

static void nmaps_own_file_is_read(void **state)
{
    (void)state;
    static const struct {
        uint32_t ipv4;
        const char *slot;
        enum discovery_port_state port;
        bool has_mac, self;
    } expected[] = {
        {0xc0a80001, "", DISCOVERY_PORT_CLOSED, true, false},
        {0xc0a80009, "w1.1.wl1_net", DISCOVERY_PORT_SILENT, true, false},
        {0xc0a8000a, "w2.1.wl1_net", DISCOVERY_PORT_OPEN, true, false},
        {0xc0a8000c, "", DISCOVERY_PORT_UNKNOWN, false, true},
    };
    mst_cleanup(mst_freep) struct discovery_host *hosts = NULL;
    size_t count;
    struct mst_error err = MST_ERROR_INIT;
    if (discovery_ips_xml_read(MUSTER_TEST_DATA "/nmap-sample.xml", 7070, &hosts, &count, &err) < 0)
        fail_msg("%s", err.text);
    assert_int_equal(count, MST_ARRAY_COUNT(expected));
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(hosts[i].ipv4, expected[i].ipv4);
        assert_string_equal(hosts[i].slot, expected[i].slot);
        assert_int_equal(hosts[i].port, expected[i].port);
        assert_int_equal(hosts[i].has_mac, expected[i].has_mac);
        assert_int_equal(hosts[i].self, expected[i].self);
    }
    static const uint8_t mac[] = {0x02, 0x42, 0xc0, 0xa8, 0x00, 0x0a};
    assert_memory_equal(hosts[2].mac, mac, sizeof mac);
}

#define HEAD "<nmaprun><host><status state='up'/>"
#define TAIL "</host></nmaprun>"
#define ADDR "<address addr='10.0.0.1' addrtype='ipv4'/>"
static const struct {
    const char *what, *text;
    int code; /* or the number of hosts */
} cases[] = {
    {"one host", HEAD ADDR TAIL, 1},
    {"one host twice, the second time with its name",
     HEAD ADDR "</host><host><status state='up'/>" ADDR "<hostnames><hostname name='w.1'/></hostnames>" TAIL,
     1},
    {"nobody", "<nmaprun/>", 0},
    {"an empty host", "<nmaprun><host/></nmaprun>", 0},
    {"a host that is not said to be up", "<nmaprun><host>" ADDR TAIL, 0},
    {"a DOCTYPE that names a file", "<!DOCTYPE nmaprun SYSTEM 'file:///etc/passwd'><nmaprun/>", 0},
    {"an empty file", "", -EBADMSG},
    {"no XML", "hello", -EBADMSG},
    {"another document", "<html><body/></html>", -EBADMSG},
    {"an end that is missing", HEAD ADDR, -EBADMSG},
    {"two documents", "<nmaprun/><nmaprun/>", -EBADMSG},
    {"not an address", HEAD "<address addr='10.0.0.256' addrtype='ipv4'/>" TAIL, -EBADMSG},
    {"an empty address", HEAD "<address addr='' addrtype='ipv4'/>" TAIL, -EBADMSG},
    {"not a MAC", HEAD "<address addr='02:42:c0' addrtype='mac'/>" TAIL, -EBADMSG},
    {"a MAC that goes on", HEAD "<address addr='02:42:c0:a8:00:0a:0b' addrtype='mac'/>" TAIL, -EBADMSG},
    {"a MAC with blanks", HEAD "<address addr='02: 2:c0:+8:00:0a' addrtype='mac'/>" TAIL, -EBADMSG},
    {"not a port", HEAD "<ports><port protocol='tcp' portid='70700'/></ports>" TAIL, -EBADMSG},
    {"a name with a newline", HEAD "<hostnames><hostname name='a&#10;b'/></hostnames>" TAIL, -EBADMSG},
    {"an entity of the document's own",
     "<!DOCTYPE nmaprun [<!ENTITY x 'y'>]>" HEAD "<hostnames><hostname name='&x;'/></hostnames>" TAIL,
     -EBADMSG},
    {"an entity from a file",
     "<!DOCTYPE nmaprun [<!ENTITY x SYSTEM 'file:///etc/passwd'>]><nmaprun>&x;</nmaprun>", -EBADMSG},
    {"a billion laughs",
     "<!DOCTYPE nmaprun [<!ENTITY a 'haha'><!ENTITY b '&a;&a;&a;&a;&a;&a;&a;&a;'><!ENTITY c "
     "'&b;&b;&b;&b;&b;&b;&b;&b;'><!ENTITY d '&c;&c;&c;&c;&c;&c;&c;&c;'>]><nmaprun args='&d;'/>",
     -EBADMSG},
    {"an entity that nobody declared", "<nmaprun>&nobody;</nmaprun>", -EBADMSG},
    {"an encoding that nobody knows", "<?xml version='1.0' encoding='nonsense'?><nmaprun/>", -EBADMSG},
    {"another width of characters than is there", "\xfe\xff<nmaprun/>", -EBADMSG},
    {"a long address",
     HEAD "<address addr='10.0.0.1000000000000000000000000000000000000000000000000000000000000000000' "
          "addrtype='ipv4'/>" TAIL,
     -EBADMSG},
};

static void files_from_anywhere_are_read_or_refused_by_name_and_line(void **state)
{
    (void)state;
    char path[] = "/tmp/muster-test-xml-XXXXXX";
    mst_cleanup(mst_closep) int fd = mkstemp(path);
    assert_true(fd >= 0);
    for (size_t i = 0; i < MST_ARRAY_COUNT(cases); i++) {
        struct discovery_host *hosts = NULL;
        struct mst_error err = MST_ERROR_INIT;
        size_t count = 77;
        assert_int_equal(mst_file_write_atomic(path, cases[i].text, strlen(cases[i].text), 0600, NULL), 0);
        const int r = discovery_ips_xml_read(path, 7070, &hosts, &count, &err);
        if (r != (cases[i].code < 0 ? cases[i].code : 0))
            fail_msg("%s: %d: %s", cases[i].what, r, err.text);
        if (r < 0) {
            assert_true(count == 77 && !hosts);
            assert_int_equal(strncmp(err.text, path, strlen(path)), 0);
        } else {
            assert_int_equal(count, cases[i].code);
        }
        free(hosts);
    }
    (void)unlink(path);
}

static void deep_nesting_ends_before_the_stack_does(void **state)
{
    (void)state;
    char path[] = "/tmp/muster-test-xml-XXXXXX";
    mst_cleanup(mst_closep) int fd = mkstemp(path);
    mst_cleanup(mst_buf_release) struct mst_buf text = MST_BUF_INIT(1 << 20);
    struct discovery_host *hosts = NULL;
    size_t count;
    assert_true(fd >= 0);
    assert_int_equal(mst_buf_append_text(&text, "<nmaprun>"), 0);
    for (int i = 0; i < 50000; i++)
        assert_int_equal(mst_buf_append_text(&text, "<table>"), 0);
    assert_int_equal(mst_file_write_atomic(path, text.bytes, text.count, 0600, NULL), 0);
    assert_int_equal(discovery_ips_xml_read(path, 7070, &hosts, &count, NULL), -EBADMSG);
    (void)unlink(path);
    assert_int_equal(discovery_ips_xml_read(path, 7070, &hosts, &count, NULL), -ENOENT);
}

static void a_file_of_another_kind_is_called_not_xml(void **state)
{
    (void)state;
    static const char *const texts[] = {"", "hello", "{\"layers\": []}"};
    char path[] = "/tmp/muster-test-xml-XXXXXX";
    mst_cleanup(mst_closep) int fd = mkstemp(path);
    assert_true(fd >= 0);
    for (size_t t = 0; t < MST_ARRAY_COUNT(texts); t++) {
        struct discovery_host *hosts = NULL;
        size_t count = 7;
        struct mst_error err = MST_ERROR_INIT;
        assert_int_equal(mst_file_write_atomic(path, texts[t], strlen(texts[t]), 0600, NULL), 0);
        assert_int_equal(discovery_ips_xml_read(path, 7070, &hosts, &count, &err), -EBADMSG);
        if (!strstr(err.text, ": not XML"))
            fail_msg("'%s': %s", texts[t], err.text);
    }
    (void)unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_file_of_another_kind_is_called_not_xml),
        cmocka_unit_test(nmaps_own_file_is_read),
        cmocka_unit_test(files_from_anywhere_are_read_or_refused_by_name_and_line),
        cmocka_unit_test(deep_nesting_ends_before_the_stack_does),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
