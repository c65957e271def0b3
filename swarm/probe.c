/* SPDX-License-Identifier: Apache-2.0 */
#include "probe.h"

#include "muster/cleanup.h"
#include "muster/clock.h"
#include "muster/digest.h"

#include <arpa/inet.h>
#include <linux/icmp.h>
#include <netinet/in.h>
#include <netinet/ip.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

#define TRIES       3
#define PATIENCE_MS 333 /* for each try; between machines of one swarm answers take a few */
#define IP_BYTES    20

struct probe {
    int fd, cancel_fd;
    bool is_raw;        /* the kernel hands out whole IP packets, and fills nothing in */
    uint16_t id, first; /* network byte order; the first try's sequence number, host byte order */
    size_t echo_bytes;
    unsigned char echo[PROBE_MOST_BYTES];
};

/* RFC 1071. */
static uint16_t checksum(const unsigned char *bytes, size_t count)
{
    uint32_t sum = 0;

    for (size_t i = 0; i < count; i++)
        sum += (uint32_t)bytes[i] << (i % 2 ? 0 : 8);
    while (sum >> 16)
        sum = (sum & 0xffff) + (sum >> 16);
    return htons((uint16_t)~sum);
}

static int open_socket(struct probe *probe)
{
    const int discover =
        IP_PMTUDISC_PROBE; /* don't fragment, and do not ask the kernel what it believes to fit */

    probe->fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, IPPROTO_ICMP);
    if (probe->fd < 0) {
        probe->is_raw = true;
        probe->fd = socket(AF_INET, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, IPPROTO_ICMP);
    }
    if (probe->fd < 0 || setsockopt(probe->fd, IPPROTO_IP, IP_MTU_DISCOVER, &discover, sizeof discover) < 0)
        return -errno;
    return 0;
}

static int send_echo(struct probe *probe, unsigned try)
{
    struct icmphdr head = {.type = ICMP_ECHO};

    head.un.echo.id = probe->id;
    head.un.echo.sequence = htons((uint16_t)(probe->first + try));
    memcpy(probe->echo, &head, sizeof head);
    head.checksum = checksum(probe->echo, probe->echo_bytes);
    memcpy(probe->echo, &head, sizeof head);
    return send(probe->fd, probe->echo, probe->echo_bytes, 0) < 0 ? -errno : 0;
}

/* Of this probe, whichever try it answers. */
static bool is_answer(const struct probe *probe, const unsigned char *packet, size_t count)
{
    const size_t skip = probe->is_raw && count > 0 ? (size_t)(packet[0] & 15) * 4 : 0;
    struct icmphdr head;

    if (count < skip + sizeof head)
        return false;
    memcpy(&head, packet + skip, sizeof head);
    return head.type == ICMP_ECHOREPLY && count - skip == probe->echo_bytes &&
           (!probe->is_raw || head.un.echo.id == probe->id) &&
           (uint16_t)(ntohs(head.un.echo.sequence) - probe->first) < TRIES;
}

/* 1: answered; 0: not in time; -EMSGSIZE: said to be too large; -ECANCELED. */
static int await(struct probe *probe)
{
    const uint64_t until_ns = mst_now_ns() + PATIENCE_MS * MST_NS_PER_MS;
    unsigned char packet[PROBE_MOST_BYTES];

    for (;;) {
        struct pollfd waiting[] = {{probe->fd, POLLIN, 0}, {probe->cancel_fd, POLLIN, 0}};
        const int left_ms = mst_ms_until(until_ns, PATIENCE_MS);
        ssize_t got;
        if (poll(waiting, 2, left_ms) < 0 && errno != EINTR)
            return -errno;
        if (waiting[1].revents)
            return -ECANCELED;
        got = recv(probe->fd, packet, sizeof packet, 0);
        if (got < 0 && errno == EMSGSIZE)
            return -EMSGSIZE;
        /* Other errors are what routers say of a host that is not there: it stays silent. */
        if (got >= 0 && is_answer(probe, packet, (size_t)got))
            return 1;
        if (left_ms == 0)
            return 0;
    }
}

static int try_it(struct probe *probe, uint32_t host, enum probe_answer *ret_answer)
{
    const struct sockaddr_in to = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(host)};
    int r = open_socket(probe);

    if (r == -EPERM || r == -EACCES) {
        *ret_answer = PROBE_NOT_ALLOWED;
        return 0;
    }
    if (r < 0)
        return r;
    *ret_answer = PROBE_SILENT;
    if (connect(probe->fd, (const struct sockaddr *)&to, sizeof to) < 0)
        return 0; /* no way there */
    for (unsigned try = 0; try < TRIES; try++) {
        r = send_echo(probe, try);
        if (r >= 0)
            r = await(probe);
        if (r == -ECANCELED)
            return r;
        if (r > 0 || r == -EMSGSIZE) {
            *ret_answer = r > 0 ? PROBE_ANSWERED : PROBE_TOO_LARGE;
            return 0;
        }
    }
    return 0;
}

int probe_echo(uint32_t host, size_t packet_bytes, int cancel_fd, enum probe_answer *ret_answer,
               struct mst_error *err)
{
    mst_cleanup(mst_freep) struct probe *probe = calloc(1, sizeof *probe);
    enum probe_answer answer;
    uint16_t random[2];
    int r = mst_random(random, sizeof random, err);

    if (!probe)
        return mst_error_set(err, -ENOMEM, "probe: no memory");
    if (r < 0)
        return r;
    if (packet_bytes < PROBE_LEAST_BYTES || packet_bytes > PROBE_MOST_BYTES)
        return mst_error_set(err, -EINVAL, "probe: packets of %zu bytes are not tried", packet_bytes);
    *probe = (struct probe){.fd = -1, .cancel_fd = cancel_fd, .id = random[0], .first = random[1]};
    probe->echo_bytes = packet_bytes - IP_BYTES;
    r = try_it(probe, host, &answer);
    mst_closep(&probe->fd);
    if (r < 0)
        return mst_error_errno(err, r, "send packets of %zu bytes", packet_bytes);
    *ret_answer = answer;
    return 0;
}
