/* SPDX-License-Identifier: Apache-2.0 */
#include "hello_fixture.h"
#include "muster/cleanup.h"
#include "muster/file.h"
#include "muster/sweep.h"

#include <libxml/parser.h>
#include <libxml/valid.h>
#include <unistd.h>

static struct discovery_host hosts[] = {
    {.ipv4 = 0x0a0a0001,
     .has_mac = true,
     .mac = {2, 0x42, 0xab, 0, 0, 1},
     .port = DISCOVERY_PORT_CLOSED,
     .rtt_ns = 81234},
    {.ipv4 = 0x0a0a0003,
     .has_mac = true,
     .mac = {2, 0x42, 0xab, 0, 0, 3},
     .port = DISCOVERY_PORT_OPEN,
     .rtt_ns = 90000,
     .slot = "job_w1.1"},
    {.ipv4 = 0x0a0a0004,
     .self = true,
     .has_mac = true,
     .mac = {2, 0x42, 0xab, 0, 0, 4},
     .port = DISCOVERY_PORT_OPEN,
     .slot = "job_w2.1"},
    {.ipv4 = 0x0a0a0005, .port = DISCOVERY_PORT_SILENT},
    {.ipv4 = 0x0a0a0006, .port = DISCOVERY_PORT_UNKNOWN},
};
static const struct discovery_sweep_result result = {.method = DISCOVERY_METHOD_ARP,
                                                     .hosts = hosts,
                                                     .count = MST_ARRAY_COUNT(hosts),
                                                     .addresses = 253,
                                                     .answered = 4,
                                                     .ms = 101.25,
                                                     .complete = true};
static const struct discovery_report report = {.program = "muster-agent scan --subnet '10.10.0.0/24' <&>\"",
                                               .version = "0.1.0",
                                               .start_s = 1700000000.5,
                                               .end_s = 1700000000.75,
                                               .port = 7070,
                                               .result = &result};

static void what_is_written_is_read_back(void **state)
{
    (void)state;
    char path[] = "/tmp/muster-test-xml-XXXXXX";
    mst_cleanup(mst_closep) int fd = mkstemp(path);
    mst_cleanup(mst_freep) struct discovery_host *back = NULL;
    size_t count;
    struct mst_error err = MST_ERROR_INIT;
    assert_true(fd >= 0);
    if (discovery_ips_xml_write(path, &report, &err) < 0)
        fail_msg("%s", err.text);
    if (discovery_ips_xml_read(path, 7070, &back, &count, &err) < 0)
        fail_msg("%s", err.text);
    assert_int_equal(count, MST_ARRAY_COUNT(hosts));
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(back[i].ipv4, hosts[i].ipv4);
        assert_int_equal(back[i].port, hosts[i].port);
        assert_int_equal(back[i].self, hosts[i].self);
        assert_int_equal(back[i].has_mac, hosts[i].has_mac);
        assert_memory_equal(back[i].mac, hosts[i].mac, sizeof hosts[i].mac);
        assert_string_equal(back[i].slot, hosts[i].slot);
    }
    (void)unlink(path);
}

static void the_words_are_nmaps(void **state)
{
    (void)state;
    static const char *const pieces[] = {
        "<!DOCTYPE nmaprun>",
        "<nmaprun scanner=\"nmap\"",
        "<verbose level=\"0\"/>",
        "args=\"muster-agent scan --subnet '10.10.0.0/24' &lt;&amp;&gt;&quot;\" start=\"1700000000\"",
        "<status state=\"up\" reason=\"arp-response\" reason_ttl=\"0\"/>",
        "<status state=\"up\" reason=\"localhost-response\" reason_ttl=\"0\"/>",
        "<address addr=\"10.10.0.3\" addrtype=\"ipv4\"/>",
        "<address addr=\"02:42:ab:00:00:03\" addrtype=\"mac\"/>",
        "<hostname name=\"job_w1.1\" type=\"user\"/>",
        "<port protocol=\"tcp\" portid=\"7070\">",
        "<state state=\"open\" reason=\"syn-ack\" reason_ttl=\"0\"/>",
        "<state state=\"closed\" reason=\"conn-refused\" reason_ttl=\"0\"/>",
        "<state state=\"filtered\" reason=\"no-response\" reason_ttl=\"0\"/>",
        "<times srtt=\"81\" rttvar=\"81\" to=\"100000\"/>",
        "<hosts up=\"5\" down=\"249\" total=\"254\"/>",
    };
    char path[] = "/tmp/muster-test-xml-XXXXXX";
    mst_cleanup(mst_closep) int fd = mkstemp(path);
    mst_cleanup(mst_buf_release) struct mst_buf text = MST_BUF_INIT(1 << 20);
    assert_true(fd >= 0);
    assert_int_equal(discovery_ips_xml_write(path, &report, NULL), 0);
    assert_int_equal(mst_file_read(path, &text, NULL), 0);
    for (size_t i = 0; i < MST_ARRAY_COUNT(pieces); i++)
        if (!strstr(mst_buf_text(&text), pieces[i]))
            fail_msg("%s is missing in:\n%s", pieces[i], mst_buf_text(&text));
    (void)unlink(path);
}

/* nmap's own word on it, where nmap is installed. */
static void it_is_valid_by_nmaps_document_type(void **state)
{
    (void)state;
    static const char dtd_path[] = "/usr/share/nmap/nmap.dtd";
    if (access(dtd_path, R_OK) < 0)
        skip();
    char path[] = "/tmp/muster-test-xml-XXXXXX";
    mst_cleanup(mst_closep) int fd = mkstemp(path);
    assert_int_equal(discovery_ips_xml_write(path, &report, NULL), 0);
    xmlDtd *dtd = xmlParseDTD(NULL, (const xmlChar *)dtd_path);
    xmlDoc *document = xmlReadFile(path, NULL, XML_PARSE_NONET);
    xmlValidCtxt *context = xmlNewValidCtxt();
    assert_true(dtd && document && context);
    assert_int_equal(xmlValidateDtd(context, document, dtd), 1);
    xmlFreeValidCtxt(context);
    xmlFreeDoc(document);
    xmlFreeDtd(dtd);
    xmlCleanupParser();
    (void)unlink(path);
}

static void a_folder_that_is_not_there_is_named(void **state)
{
    (void)state;
    struct mst_error err = MST_ERROR_INIT;
    assert_int_equal(discovery_ips_xml_write("/tmp/muster-no-such-folder/ips.xml", &report, &err), -ENOENT);
    assert_non_null(strstr(err.text, "/tmp/muster-no-such-folder/"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_written_is_read_back),
        cmocka_unit_test(the_words_are_nmaps),
        cmocka_unit_test(it_is_valid_by_nmaps_document_type),
        cmocka_unit_test(a_folder_that_is_not_there_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
