/* SPDX-License-Identifier: Apache-2.0 */
/* ips.xml: what the sweep and the hellos found, in the elements and attributes that nmap -oX uses, so that
 * what reads nmap's files reads these too. A worker is a host with a hostname: its slot. */
#include "muster/clock.h"
#include "muster/file.h"
#include "muster/sweep.h"

#include <libxml/xmlwriter.h>
#include <stdio.h>
#include <string.h>

#define IPS_FILE_MODE 0644

/* libxml2's writer reports each failure (which here can only be a lack of memory); one flag is kept for all.
 */
struct ips_writer {
    xmlTextWriter *xml;
    bool failed;
};

static void ips_open(struct ips_writer *writer, const char *element)
{
    writer->failed |= xmlTextWriterStartElement(writer->xml, (const xmlChar *)element) < 0;
}

static void ips_close(struct ips_writer *writer)
{
    writer->failed |= xmlTextWriterEndElement(writer->xml) < 0;
}

static void ips_text(struct ips_writer *writer, const char *name, const char *value)
{
    writer->failed |=
        xmlTextWriterWriteAttribute(writer->xml, (const xmlChar *)name, (const xmlChar *)value) < 0;
}

static void ips_count(struct ips_writer *writer, const char *name, unsigned long long value)
{
    char text[24];
    (void)snprintf(text, sizeof text, "%llu", value);
    ips_text(writer, name, text);
}

static void ips_seconds(struct ips_writer *writer, const char *name, double seconds)
{
    char text[48];
    (void)snprintf(text, sizeof text, "%.2f", seconds);
    ips_text(writer, name, text);
}

/* Seconds since 1970 in one attribute, readable in the other. */
static void ips_time(struct ips_writer *writer, const char *name, const char *text_name, double wall_s)
{
    char text[MST_UTC_TEXT_BYTES];
    mst_utc_text(wall_s, text);
    ips_count(writer, name, wall_s > 0 ? (unsigned long long)wall_s : 0);
    ips_text(writer, text_name, text);
}

static void write_address(struct ips_writer *writer, const char *address, const char *kind)
{
    ips_open(writer, "address");
    ips_text(writer, "addr", address);
    ips_text(writer, "addrtype", kind);
    ips_close(writer);
}

static const char *port_reason(enum discovery_port_state state)
{
    switch (state) {
    case DISCOVERY_PORT_OPEN:
        return "syn-ack";
    case DISCOVERY_PORT_CLOSED:
        return "conn-refused";
    default:
        return "no-response";
    }
}

static void write_port(struct ips_writer *writer, const struct discovery_host *host, uint16_t port)
{
    /* nmap's word for a port that gives no answer is "filtered". */
    const char *state =
        host->port == DISCOVERY_PORT_SILENT ? "filtered" : discovery_port_state_text(host->port);
    ips_open(writer, "ports");
    ips_open(writer, "port");
    ips_text(writer, "protocol", "tcp");
    ips_count(writer, "portid", port);
    ips_open(writer, "state");
    ips_text(writer, "state", state);
    ips_text(writer, "reason", port_reason(host->port));
    ips_text(writer, "reason_ttl", "0");
    ips_close(writer);
    if (host->slot[0]) {
        ips_open(writer, "service");
        ips_text(writer, "name", "muster");
        ips_text(writer, "method", "probed");
        ips_text(writer, "conf", "10");
        ips_close(writer);
    }
    ips_close(writer);
    ips_close(writer);
}

static const char *up_reason(const struct discovery_host *host, enum discovery_method method)
{
    if (host->self)
        return "localhost-response";
    /* Without a MAC it did not come from the sweep: a hello found it. */
    return method == DISCOVERY_METHOD_ARP && host->has_mac ? "arp-response" : port_reason(host->port);
}

static void write_host(struct ips_writer *writer, const struct discovery_host *host,
                       const struct discovery_report *report)
{
    char ipv4[MST_IPV4_TEXT_BYTES], mac[DISCOVERY_MAC_TEXT_BYTES];
    ips_open(writer, "host");
    ips_open(writer, "status");
    ips_text(writer, "state", "up");
    ips_text(writer, "reason", up_reason(host, report->result->method));
    ips_text(writer, "reason_ttl", "0");
    ips_close(writer);
    write_address(writer, mst_ipv4_text(host->ipv4, ipv4), "ipv4");
    if (host->has_mac)
        write_address(writer, discovery_mac_text(host->mac, mac), "mac");
    ips_open(writer, "hostnames");
    if (host->slot[0]) {
        ips_open(writer, "hostname");
        ips_text(writer, "name", host->slot);
        ips_text(writer, "type", "user");
        ips_close(writer);
    }
    ips_close(writer);
    if (host->port != DISCOVERY_PORT_UNKNOWN)
        write_port(writer, host, report->port);
    if (!host->self) {
        ips_open(writer, "times");
        ips_count(writer, "srtt", host->rtt_ns / 1000); /* microseconds */
        ips_count(writer, "rttvar", host->rtt_ns / 1000);
        ips_count(writer, "to", 100000);
        ips_close(writer);
    }
    ips_close(writer);
}

static void write_head(struct ips_writer *writer, const struct discovery_report *report)
{
    ips_text(writer, "scanner", "nmap"); /* the only one that nmap's DTD knows; `args` says who it was */
    ips_text(writer, "args", report->program);
    ips_time(writer, "start", "startstr", report->start_s);
    ips_text(writer, "version", report->version);
    ips_text(writer, "xmloutputversion", "1.05");
    ips_open(writer, "scaninfo");
    ips_text(writer, "type", "connect");
    ips_text(writer, "protocol", "tcp");
    ips_text(writer, "numservices", "1");
    ips_count(writer, "services", report->port);
    ips_close(writer);
    for (int quiet = 0; quiet < 2; quiet++) {
        ips_open(writer, quiet ? "debugging" : "verbose");
        ips_count(writer, "level", 0);
        ips_close(writer);
    }
}

static void write_tail(struct ips_writer *writer, const struct discovery_report *report)
{
    char summary[160];
    const struct discovery_sweep_result *result = report->result;
    const size_t up = result->count;
    const size_t total = (size_t)result->addresses + (up - result->answered);
    if (result->method == DISCOVERY_METHOD_FILE)
        (void)snprintf(summary, sizeof summary, "%zu hosts of a file up%s", up,
                       result->complete ? "" : ", not to the end");
    else
        (void)snprintf(summary, sizeof summary, "%zu addresses (%zu hosts up) swept in %.1f ms by %s%s",
                       total, up, result->ms, discovery_method_text(result->method),
                       result->complete ? "" : ", not to the end");
    ips_open(writer, "runstats");
    ips_open(writer, "finished");
    ips_time(writer, "time", "timestr", report->end_s);
    ips_text(writer, "summary", summary);
    ips_seconds(writer, "elapsed", report->end_s - report->start_s);
    ips_text(writer, "exit", "success");
    ips_close(writer);
    ips_open(writer, "hosts");
    ips_count(writer, "up", up);
    ips_count(writer, "down", total - up);
    ips_count(writer, "total", total);
    ips_close(writer);
    ips_close(writer);
}

static void write_document(struct ips_writer *writer, const struct discovery_report *report)
{
    writer->failed |= xmlTextWriterSetIndent(writer->xml, 1) < 0;
    writer->failed |= xmlTextWriterStartDocument(writer->xml, NULL, "UTF-8", NULL) < 0;
    writer->failed |= xmlTextWriterWriteDTD(writer->xml, (const xmlChar *)"nmaprun", NULL, NULL, NULL) < 0;
    ips_open(writer, "nmaprun");
    write_head(writer, report);
    for (size_t i = 0; i < report->result->count && !writer->failed; i++)
        write_host(writer, &report->result->hosts[i], report);
    write_tail(writer, report);
    writer->failed |= xmlTextWriterEndDocument(writer->xml) < 0;
}

int discovery_ips_xml_write(const char *path, const struct discovery_report *report, struct mst_error *err)
{
    xmlBuffer *buffer = xmlBufferCreate();
    struct ips_writer writer = {.xml = buffer ? xmlNewTextWriterMemory(buffer, 0) : NULL};
    int r = 0;
    if (writer.xml)
        write_document(&writer, report);
    if (!writer.xml || writer.failed)
        r = mst_error_set(err, -ENOMEM, "write '%s': no memory for its XML", path);
    if (writer.xml)
        xmlFreeTextWriter(writer.xml); /* flushes into the buffer */
    if (r == 0)
        r = mst_file_write_atomic(path, xmlBufferContent(buffer), (size_t)xmlBufferLength(buffer),
                                  IPS_FILE_MODE, err);
    if (buffer)
        xmlBufferFree(buffer);
    return r;
}
