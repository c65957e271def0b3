/* SPDX-License-Identifier: Apache-2.0 */
/* Reads ips.xml and nmap's own files, element by element. The file may come from anywhere: sizes and counts
 * have limits, nothing is fetched, and a document that declares entities or anything else of its own is
 * refused. */
#include "muster/cleanup.h"
#include "muster/file.h"
#include "muster/parse.h"
#include "muster/sweep.h"

#include <libxml/xmlreader.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define XML_MAX_DEPTH 32 /* nmap's scripts nest tables; hosts need 4 */

struct ips_reader {
    xmlTextReader *xml;
    const char *path;
    uint16_t port;
    struct discovery_host *hosts;
    size_t count, capacity;
    struct discovery_host host; /* the one being read */
    bool in_host, up, has_ipv4, in_port;
    bool in_document; /* the outermost element was there */
    int fault_line;
    char fault[256]; /* libxml2's own words */
};

static void reader_fault(void *context, xmlError *error)
{
    struct ips_reader *reader = context;
    if (reader->fault[0] || !error || !error->message)
        return; /* the first is the cause */
    reader->fault_line = error->line;
    (void)snprintf(reader->fault, sizeof reader->fault, "%.*s", (int)strcspn(error->message, "\n"),
                   error->message);
}

static int bad(struct ips_reader *reader, struct mst_error *err, const char *what)
{
    return mst_error_set(err, -EBADMSG, "%s:%d: %s", reader->path,
                         xmlTextReaderGetParserLineNumber(reader->xml), what);
}

/* An attribute's text into `text`, empty when it is missing; false when it does not fit. */
static bool attribute(struct ips_reader *reader, const char *name, char *text, size_t text_bytes)
{
    xmlChar *value = xmlTextReaderGetAttribute(reader->xml, (const xmlChar *)name);
    const int length = snprintf(text, text_bytes, "%s", value ? (const char *)value : "");
    xmlFree(value);
    return length >= 0 && (size_t)length < text_bytes;
}

static int hex_digit(char c)
{
    static const char digits[] = "0123456789abcdef0123456789ABCDEF";
    const char *at = c ? strchr(digits, c) : NULL;
    return at ? (int)((at - digits) % 16) : -1;
}

/* "02:42:c0:a8:00:0a" and nothing else. */
static bool parse_mac(const char *text, uint8_t ret_mac[static DISCOVERY_MAC_BYTES])
{
    if (strlen(text) != DISCOVERY_MAC_TEXT_BYTES - 1)
        return false;
    for (size_t i = 0; i < DISCOVERY_MAC_BYTES; i++, text += 3) {
        const int high = hex_digit(text[0]), low = hex_digit(text[1]);
        if (high < 0 || low < 0 || text[2] != (i + 1 < DISCOVERY_MAC_BYTES ? ':' : '\0'))
            return false;
        ret_mac[i] = (uint8_t)(high << 4 | low);
    }
    return true;
}

static int read_address(struct ips_reader *reader, struct mst_error *err)
{
    char address[64], kind[16];
    if (!attribute(reader, "addr", address, sizeof address) ||
        !attribute(reader, "addrtype", kind, sizeof kind))
        return bad(reader, err, "an address that is too long");
    if (strcmp(kind, "ipv4") == 0) {
        if (mst_parse_ipv4(address, &reader->host.ipv4, NULL) < 0)
            return bad(reader, err, "addr: not an IPv4 address");
        reader->has_ipv4 = true;
    } else if (strcmp(kind, "mac") == 0) {
        if (!parse_mac(address, reader->host.mac))
            return bad(reader, err, "addr: not a MAC address");
        reader->host.has_mac = true;
    }
    return 0; /* IPv6: not used here */
}

static int read_hostname(struct ips_reader *reader, struct mst_error *err)
{
    char name[DISCOVERY_SLOT_BYTES];
    if (reader->host.slot[0])
        return 0; /* the first one counts */
    if (!attribute(reader, "name", name, sizeof name))
        return bad(reader, err, "hostname: longer than a slot's name can be");
    for (const char *c = name; *c; c++)
        if (*c <= ' ' || *c >= 127)
            return bad(reader, err, "hostname: a character that no host name has");
    memcpy(reader->host.slot, name, sizeof name);
    return 0;
}

static int read_port(struct ips_reader *reader, struct mst_error *err)
{
    char protocol[16], number[16];
    uint32_t port;
    if (!attribute(reader, "protocol", protocol, sizeof protocol) ||
        !attribute(reader, "portid", number, sizeof number) ||
        mst_parse_u32(number, 0, 65535, &port, NULL) < 0)
        return bad(reader, err, "port: portid is not a number from 0 to 65535");
    reader->in_port = strcmp(protocol, "tcp") == 0 && port == reader->port;
    return 0;
}

static int read_port_state(struct ips_reader *reader, struct mst_error *err)
{
    char state[32];
    if (!reader->in_port)
        return 0;
    if (!attribute(reader, "state", state, sizeof state))
        return bad(reader, err, "state: a word that is too long");
    reader->host.port = strcmp(state, "open") == 0       ? DISCOVERY_PORT_OPEN
                        : strcmp(state, "closed") == 0   ? DISCOVERY_PORT_CLOSED
                        : strcmp(state, "filtered") == 0 ? DISCOVERY_PORT_SILENT
                                                         : DISCOVERY_PORT_UNKNOWN;
    return 0;
}

static int read_status(struct ips_reader *reader, struct mst_error *err)
{
    char state[32], reason[64];
    if (!attribute(reader, "state", state, sizeof state) ||
        !attribute(reader, "reason", reason, sizeof reason))
        return bad(reader, err, "status: a word that is too long");
    reader->up = strcmp(state, "up") == 0;
    reader->host.self = strcmp(reason, "localhost-response") == 0;
    return 0;
}

/* Inside <host>: the element's name decides, wherever it stands; names that are not known here are passed
 * over. */
static int host_element(struct ips_reader *reader, const char *name, struct mst_error *err)
{
    static const struct {
        const char *name;
        int (*read)(struct ips_reader *reader, struct mst_error *err);
    } elements[] = {
        {"status", read_status}, {"address", read_address},  {"hostname", read_hostname},
        {"port", read_port},     {"state", read_port_state},
    };
    for (size_t i = 0; i < MST_ARRAY_COUNT(elements); i++)
        if (strcmp(name, elements[i].name) == 0)
            return elements[i].read(reader, err);
    return 0;
}

static void host_begin(struct ips_reader *reader)
{
    reader->host = (struct discovery_host){0};
    reader->in_host = true;
    reader->up = reader->has_ipv4 = reader->in_port = false;
}

static int host_end(struct ips_reader *reader, struct mst_error *err)
{
    reader->in_host = false;
    if (!reader->up || !reader->has_ipv4)
        return 0;
    if (reader->count == DISCOVERY_XML_MAX_HOSTS)
        return bad(reader, err, "more hosts than a subnet can have");
    if (reader->count == reader->capacity) {
        const size_t capacity = reader->capacity ? 2 * reader->capacity : 16;
        struct discovery_host *hosts = reallocarray(reader->hosts, capacity, sizeof *hosts);
        if (!hosts)
            return mst_error_set(err, -ENOMEM, "read '%s': no memory for %zu hosts", reader->path, capacity);
        reader->hosts = hosts;
        reader->capacity = capacity;
    }
    reader->hosts[reader->count++] = reader->host;
    return 0;
}

/* <!DOCTYPE nmaprun> is fine, <!DOCTYPE nmaprun [ ... ]> is not. The external DTD that it may name is not
 * loaded. */
static int read_doctype(struct ips_reader *reader, struct mst_error *err)
{
    const xmlNode *node = xmlTextReaderCurrentNode(reader->xml);
    if (node && node->children)
        return bad(reader, err, "declarations inside DOCTYPE are not read");
    return 0;
}

static int read_node(struct ips_reader *reader, struct mst_error *err)
{
    const char *name = (const char *)xmlTextReaderConstLocalName(reader->xml);
    const int depth = xmlTextReaderDepth(reader->xml);
    const int type = xmlTextReaderNodeType(reader->xml);
    if (depth > XML_MAX_DEPTH)
        return bad(reader, err, "nested too deeply");
    if (type == XML_READER_TYPE_DOCUMENT_TYPE)
        return read_doctype(reader, err);
    if (type == XML_READER_TYPE_ENTITY_REFERENCE)
        return bad(reader, err, "an entity that XML itself does not have");
    reader->in_document = reader->in_document || type == XML_READER_TYPE_ELEMENT;
    if (type == XML_READER_TYPE_END_ELEMENT && reader->in_host && depth == 1)
        return host_end(reader, err);
    if (type != XML_READER_TYPE_ELEMENT)
        return 0;
    if (depth == 0 && strcmp(name, "nmaprun") != 0)
        return bad(reader, err, "not nmap's XML: the outermost element is not nmaprun");
    if (depth == 1 && strcmp(name, "host") == 0 && !xmlTextReaderIsEmptyElement(reader->xml))
        host_begin(reader);
    else if (reader->in_host)
        return host_element(reader, name, err);
    return 0;
}

/* In order, each address once: a host with a name before one without. */
static void sort_hosts(struct ips_reader *reader)
{
    if (reader->count == 0)
        return;
    qsort(reader->hosts, reader->count, sizeof *reader->hosts, discovery_host_compare);
    size_t kept = 1;
    for (size_t i = 1; i < reader->count; i++) {
        struct discovery_host *last = &reader->hosts[kept - 1];
        if (reader->hosts[i].ipv4 != last->ipv4)
            reader->hosts[kept++] = reader->hosts[i];
        else if (!last->slot[0])
            *last = reader->hosts[i];
    }
    reader->count = kept;
}

static int read_document(struct ips_reader *reader, struct mst_error *err)
{
    int more;
    while ((more = xmlTextReaderRead(reader->xml)) == 1) {
        const int r = read_node(reader, err);
        if (r < 0)
            return r;
    }
    /* What comes to nobody's mind of a file of another kind: "Document is empty". */
    if (more < 0 && !reader->in_document)
        return mst_error_set(err, -EBADMSG, "%s:%d: not XML%s%s%s", reader->path, reader->fault_line,
                             reader->fault[0] ? " (" : "", reader->fault, reader->fault[0] ? ")" : "");
    if (more < 0)
        return mst_error_set(err, -EBADMSG, "%s:%d: %s", reader->path, reader->fault_line,
                             reader->fault[0] ? reader->fault : "not XML");
    return 0;
}

int discovery_ips_xml_read(const char *path, uint16_t port, struct discovery_host **ret_hosts,
                           size_t *ret_count, struct mst_error *err)
{
    struct ips_reader reader = {.path = path, .port = port};
    mst_cleanup(mst_buf_release) struct mst_buf content = MST_BUF_INIT(DISCOVERY_XML_MAX_BYTES);
    int r = mst_file_read(path, &content, err);
    if (r < 0)
        return r;
    /* libxml2's handler for this thread: what goes wrong before the reader exists, or in its input, would be
     * printed to stderr. */
    void *context_before = xmlStructuredErrorContext;
    const xmlStructuredErrorFunc handler_before = xmlStructuredError;
    xmlSetStructuredErrorFunc(&reader, reader_fault);
    reader.xml = xmlReaderForMemory(mst_buf_text(&content), (int)content.count, NULL, NULL, XML_PARSE_NONET);
    if (reader.xml)
        r = read_document(&reader, err);
    else if (reader.fault[0])
        r = mst_error_set(err, -EBADMSG, "%s:%d: %s", path, reader.fault_line, reader.fault);
    else
        r = mst_error_set(err, -ENOMEM, "read '%s': no memory", path);
    xmlFreeTextReader(reader.xml);
    xmlSetStructuredErrorFunc(context_before, handler_before);
    if (r < 0) {
        free(reader.hosts);
        return r;
    }
    sort_hosts(&reader);
    *ret_hosts = reader.hosts;
    *ret_count = reader.count;
    return 0;
}
