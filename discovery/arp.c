/* SPDX-License-Identifier: Apache-2.0 */
/* The capture: libpcap as far as muster needs it. */
#include "arp.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CAPTURE_SNAP_BYTES   64
#define CAPTURE_BUFFER_BYTES (1 << 20) /* over 8,000 replies at this snap length; a /24 at once is 254 */
#define CAPTURE_TIMEOUT_MS   1         /* for captures that cannot deliver at once */

static int open_error(const char *interface, const char *what, int status, pcap_t *pcap,
                      struct mst_error *err)
{
    int code = -EIO;
    if (status == PCAP_ERROR_PERM_DENIED)
        code = -EPERM;
    else if (status == PCAP_ERROR_NO_SUCH_DEVICE)
        code = -ENODEV;
    else if (status == PCAP_ERROR_IFACE_NOT_UP)
        code = -ENETDOWN;
    const char *detail = pcap_geterr(pcap);
    return mst_error_set(err, code, "open '%s' for ARP: %s: %s", interface, what,
                         detail[0] ? detail : pcap_statustostr(status));
}

void arp_filter_text(const struct discovery_interface *interface, char text[static ARP_FILTER_BYTES])
{
    char mac[DISCOVERY_MAC_TEXT_BYTES];
    (void)snprintf(text, ARP_FILTER_BYTES, "arp and arp[6:2] = 2 and ether dst %s",
                   discovery_mac_text(interface->mac, mac));
}

static int set_filter(pcap_t *pcap, const struct discovery_interface *interface, struct mst_error *err)
{
    char text[ARP_FILTER_BYTES];
    struct bpf_program program;
    arp_filter_text(interface, text);
    if (pcap_compile(pcap, &program, text, 1, PCAP_NETMASK_UNKNOWN) < 0)
        return open_error(interface->name, "compile the filter", PCAP_ERROR, pcap, err);
    const int r = pcap_setfilter(pcap, &program);
    pcap_freecode(&program);
    return r < 0 ? open_error(interface->name, "set the filter", r, pcap, err) : 0;
}

static int capture_start(struct discovery_arp *arp, struct mst_error *err)
{
    char text[PCAP_ERRBUF_SIZE] = "";
    const char *name = arp->interface.name;
    /* These three only fail on an active handle. */
    (void)pcap_set_snaplen(arp->pcap, CAPTURE_SNAP_BYTES);
    (void)pcap_set_buffer_size(arp->pcap, CAPTURE_BUFFER_BYTES);
    (void)pcap_set_timeout(arp->pcap, CAPTURE_TIMEOUT_MS);
    (void)pcap_set_immediate_mode(arp->pcap,
                                  1); /* an answer is to be seen when it comes, not when a block is full */

    const int status = pcap_activate(arp->pcap);
    if (status < 0)
        return open_error(name, "start the capture", status, arp->pcap, err);
    if (pcap_datalink(arp->pcap) != DLT_EN10MB)
        return mst_error_set(err, -EINVAL, "open '%s' for ARP: it is no Ethernet", name);
    const int r = set_filter(arp->pcap, &arp->interface, err);
    if (r < 0)
        return r;
    /* Our own requests are no replies, so a kernel that cannot do this loses nothing. */
    (void)pcap_setdirection(arp->pcap, PCAP_D_IN);
    if (pcap_setnonblock(arp->pcap, 1, text) < 0)
        return mst_error_set(err, -EIO, "open '%s' for ARP: %s", name, text);
    arp->fd = pcap_get_selectable_fd(arp->pcap);
    if (arp->fd < 0)
        return mst_error_set(err, -EIO, "open '%s' for ARP: the capture has no descriptor to wait on", name);
    return 0;
}

int discovery_arp_open(const struct discovery_interface *interface, struct discovery_arp **ret_arp,
                       struct mst_error *err)
{
    char text[PCAP_ERRBUF_SIZE] = "";
    if (!interface->ethernet)
        return mst_error_set(err, -EINVAL, "open '%s' for ARP: it is no Ethernet", interface->name);
    struct discovery_arp *arp = calloc(1, sizeof *arp);
    if (!arp)
        return mst_error_set(err, -ENOMEM, "open '%s' for ARP: no memory", interface->name);
    arp->interface = *interface;
    arp->pcap = pcap_create(interface->name, text);
    const int r = arp->pcap ? capture_start(arp, err)
                            : mst_error_set(err, -EIO, "open '%s' for ARP: %s", interface->name, text);
    if (r < 0) {
        discovery_arp_free(arp);
        return r;
    }
    *ret_arp = arp;
    return 0;
}

void discovery_arp_free(struct discovery_arp *arp)
{
    if (!arp)
        return;
    if (arp->pcap)
        pcap_close(arp->pcap);
    free(arp);
}

void discovery_arp_freep(struct discovery_arp **arp)
{
    discovery_arp_free(*arp);
    *arp = NULL;
}

struct receive_context {
    struct discovery_arp *arp;
    int (*take)(void *context, const struct arp_reply *reply);
    void *context;
    int result;
};

static void receive_packet(u_char *user, const struct pcap_pkthdr *header, const u_char *bytes)
{
    struct receive_context *receive = (struct receive_context *)(void *)user;
    struct arp_reply reply;
    if (receive->result == 0 && arp_reply_get(bytes, header->caplen, receive->arp->interface.mac,
                                              receive->arp->interface.ipv4, &reply))
        receive->result = receive->take(receive->context, &reply);
}

int arp_receive(struct discovery_arp *arp, int (*take)(void *context, const struct arp_reply *reply),
                void *context, struct mst_error *err)
{
    struct receive_context receive = {.arp = arp, .take = take, .context = context};
    if (pcap_dispatch(arp->pcap, -1, receive_packet, (u_char *)&receive) < 0)
        return mst_error_set(err, -ENETDOWN, "capture on '%s': %s", arp->interface.name,
                             pcap_geterr(arp->pcap));
    return receive.result;
}

static int take_nothing(void *context, const struct arp_reply *reply)
{
    (void)context;
    (void)reply;
    return 0;
}

int arp_drain(struct discovery_arp *arp, struct mst_error *err)
{
    return arp_receive(arp, take_nothing, NULL, err);
}

int arp_send(struct discovery_arp *arp, uint32_t target_ipv4, struct mst_error *err)
{
    uint8_t frame[ARP_FRAME_BYTES];
    arp_request_put(frame, arp->interface.mac, arp->interface.ipv4, target_ipv4);
    errno = 0;
    if (pcap_sendpacket(arp->pcap, frame, sizeof frame) == 0)
        return 0;
    /* libpcap says nothing of the kind of failure, but leaves send(2)'s errno. */
    const int code = errno ? -errno : -EIO;
    if (code == -EAGAIN || code == -ENOBUFS)
        return -EAGAIN;
    return mst_error_set(err, code, "send ARP on '%s': %s", arp->interface.name, pcap_geterr(arp->pcap));
}
