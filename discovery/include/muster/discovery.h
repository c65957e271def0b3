/* SPDX-License-Identifier: Apache-2.0 */
/* Who is on the subnet. Calls come in this order:
 *
 *     discovery_interfaces_list(), _choose()   where to look; print choice.reason
 *     discovery_neighbours(), _lookup_new()    hints: addresses that are worth a hello before any sweep
 *     discovery_tcp_sweep_new()                or discovery_arp_sweep_new() of muster/sweep.h
 *     discovery_sweep_process() ...            in a poll loop, or discovery_sweep_run()
 *     a hello to each host that was found      muster/hello.h: only a worker completes it
 *     discovery_workers_add()                  the ordered list
 *
 * A host that answers is not a worker: on an overlay the gateway and the load balancers' endpoints answer ARP
 * and refuse TCP just as a worker's machine would. Nothing is ever sent beyond a directly attached subnet.
 * Addresses are in host byte order. Nothing here logs. No call is thread-safe on one object. */
#ifndef MUSTER_DISCOVERY_H
#define MUSTER_DISCOVERY_H

#include "muster/error.h"
#include "muster/hello.h"
#include "muster/net.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define DISCOVERY_INTERFACES_MAX       256 /* addresses on this machine that are looked at */
#define DISCOVERY_INTERFACE_NAME_BYTES 16
#define DISCOVERY_MAC_BYTES            6
#define DISCOVERY_MAC_TEXT_BYTES       sizeof "02:42:0a:0a:00:03"
#define DISCOVERY_PORT                 7070

/* The largest subnets that are swept, and the smallest. By TCP each silent address takes a place in the
 * kernel's neighbour table, which is one for all containers of a machine. */
#define DISCOVERY_ARP_MIN_PREFIX 16
#define DISCOVERY_TCP_MIN_PREFIX 22
#define DISCOVERY_MAX_PREFIX     30

/* One IPv4 address of one interface: an interface with two of them is listed twice. */
struct discovery_interface {
    char name[DISCOVERY_INTERFACE_NAME_BYTES];
    unsigned index;
    uint32_t ipv4;
    uint32_t prefix;
    uint8_t mac[DISCOVERY_MAC_BYTES]; /* zero where the link has none (loopback, tunnels) */
    uint32_t mtu;
    bool ethernet; /* ARP works here */
    bool up, loopback;
    bool holds_default_route;
};

struct discovery_choice {
    struct discovery_interface interface;
    struct mst_cidr
        subnet;       /* what to sweep: the interface's own subnet, or the part of it that was asked for */
    char reason[192]; /* "eth0 10.10.0.5/24: MTU 1450 as overlays have, private, not the default route's" */
};

/* What a person wants of interfaces: "eth0,10.10.0.0/16" only these; "!eth1,!br-*" any but these. */
#define DISCOVERY_FILTER_MAX 16
struct discovery_filter_entry {
    bool unwanted; /* began with '!' */
    bool is_subnet, is_prefix /* ended in '*' */;
    char name[DISCOVERY_INTERFACE_NAME_BYTES];
    struct mst_cidr subnet; /* that the interface's address lies in */
};
struct discovery_filter {
    size_t count; /* 0: nothing is wanted in particular */
    struct discovery_filter_entry entries[DISCOVERY_FILTER_MAX];
};
int discovery_filter_parse(const char *text, struct discovery_filter *ret_filter, struct mst_error *err);
enum discovery_filter_match {
    DISCOVERY_FILTER_OUT,   /* unwanted, or others are wanted */
    DISCOVERY_FILTER_OPEN,  /* nothing was said of it */
    DISCOVERY_FILTER_NAMED, /* wanted: somebody answers for it */
};
enum discovery_filter_match discovery_filter_match(const struct discovery_filter *filter,
                                                   const struct discovery_interface *interface);

/* This network namespace's addresses, in the kernel's order. -ENOBUFS beyond `capacity`. */
int discovery_interfaces_list(struct discovery_interface *ret_list, size_t capacity, size_t *ret_count,
                              struct mst_error *err);
/* This machine's interfaces, listed and chosen from as below: the best, or all that are to be tried. */
int discovery_interface_find(const struct mst_cidr *subnet, struct discovery_choice *ret_choice,
                             struct mst_error *err);
int discovery_interfaces_find(const struct mst_cidr *subnet, const struct discovery_filter *filter,
                              struct discovery_choice *ret_choices, size_t capacity, size_t *ret_count,
                              struct mst_error *err);

/* Where to look, best first, from a given list; pure. With `subnet` (NULL: not given) only interfaces whose
 * address lies in it and whose own subnet covers it count. Without, loopback and prefixes beyond /30 or
 * larger than /16 never do, and the default route's interface and host bridges only when `filter` (NULL:
 * none) names them. Networks that are equally good come in the order of their addresses, which all of their
 * machines have in common. -EINVAL with a text that lists what is attached, or says that --subnet is
 * required, when nothing is left. *ret_count is at least 1 on success. */
#define DISCOVERY_CHOICES_MAX 16 /* more networks than that are not tried */
int discovery_interfaces_choose(const struct discovery_interface *list, size_t count,
                                const struct mst_cidr *subnet, const struct discovery_filter *filter,
                                struct discovery_choice *ret_choices, size_t capacity, size_t *ret_count,
                                struct mst_error *err);

/* The interface's whole subnet. */
struct mst_cidr discovery_own_subnet(const struct discovery_interface *interface);
/* Of a choice that is larger than /`prefix`, keep the part that this machine is in, and say so in the reason:
 * Docker gives addresses in turn, so the others' are near. Returns whether anything was cut off. */
bool discovery_choice_narrow(struct discovery_choice *choice, uint32_t prefix);

/* Addresses of the choice's subnet and interface that this machine spoke to lately, from the kernel's cache,
 * at most `capacity`: a hint, which can be wrong in any way. */
int discovery_neighbours(const struct discovery_choice *choice, uint32_t *ret_ipv4, size_t capacity,
                         size_t *ret_count, struct mst_error *err);

/* The IPv4 addresses of a name, "tasks.SERVICE" in a Swarm: another hint. DNS there keeps entries of tasks
 * that are gone, gives others twice, and lacks the newest. Poll `fd` for POLLIN until `wake_ns`, then
 * process, as long as process returns 0: it never waits. */
#define DISCOVERY_NAME_BYTES 256
#define DISCOVERY_LOOKUP_MAX 1024 /* more addresses are dropped */
struct discovery_lookup;
int discovery_lookup_new(const char *name, uint64_t deadline_ns, struct discovery_lookup **ret_lookup,
                         struct mst_error *err);
int discovery_lookup_fd(const struct discovery_lookup *lookup);
uint64_t discovery_lookup_wake_ns(const struct discovery_lookup *lookup);
/* 0: go on; 1: finished; -ENOENT for an unknown name, -ETIMEDOUT, or another negative errno. */
int discovery_lookup_process(struct discovery_lookup *lookup, struct mst_error *err);
int discovery_lookup_run(struct discovery_lookup *lookup, struct mst_error *err); /* blocks until finished */
/* Each address once; borrowed. */
const uint32_t *discovery_lookup_result(const struct discovery_lookup *lookup, size_t *ret_count);
void discovery_lookup_free(struct discovery_lookup *lookup); /* at any time; NULL is fine */

/* What is known of an address that answered. */
enum discovery_port_state {
    DISCOVERY_PORT_UNKNOWN, /* answered ARP, no connection was tried */
    DISCOVERY_PORT_OPEN,    /* something accepts connections there: only a hello tells what */
    DISCOVERY_PORT_CLOSED,  /* refused: the host is there, the agent is not */
    DISCOVERY_PORT_SILENT,  /* answered ARP, but not a connection */
};

struct discovery_host {
    uint32_t ipv4;
    bool self; /* an address of this machine, never probed */
    bool has_mac, duplicate;
    uint8_t mac[DISCOVERY_MAC_BYTES];
    uint8_t other_mac[DISCOVERY_MAC_BYTES]; /* duplicate: a second one that answered for the address */
    enum discovery_port_state port;
    uint32_t attempts; /* probes sent until it answered */
    uint64_t rtt_ns;   /* from the last of them, so too short when an earlier one's answer was late */
    char slot[DISCOVERY_SLOT_BYTES]; /* empty until its hello is done; the sweeps leave it empty */
};

/* FILE is no sweep: the hosts are those that a file names. */
enum discovery_method { DISCOVERY_METHOD_ARP, DISCOVERY_METHOD_TCP, DISCOVERY_METHOD_FILE };
const char *discovery_method_text(enum discovery_method method);        /* "arp", "tcp", "file" */
const char *discovery_port_state_text(enum discovery_port_state state); /* "unknown", "open", ... */
const char *discovery_mac_text(const uint8_t mac[static DISCOVERY_MAC_BYTES],
                               char text[static DISCOVERY_MAC_TEXT_BYTES]); /* returns text */
int discovery_host_compare(const void *left, const void *right); /* by address, for qsort() and bsearch() */

/* Zero means the default in every field but choice. */
struct discovery_sweep_options {
    struct discovery_choice choice;
    uint16_t port;             /* TCP: what to connect to; DISCOVERY_PORT */
    bool no_resend;            /* one burst only; else the silent are asked again `resends` times */
    uint32_t resends;          /* 1 */
    uint32_t reply_timeout_ms; /* after the last probe of a burst: ARP 40; after each connect: TCP 150 */
    uint32_t probes_per_s;     /* ARP 20,000; TCP 5,000 */
    uint64_t deadline_ns;      /* mst_now_ns() value; none */
    /* Called for each new answer as it comes (self not included), with what is known by then; the host is
     * borrowed for the call. Starting a hello from here is fine, freeing the sweep is not. */
    void (*on_host)(void *context, const struct discovery_host *host);
    bool (*enough)(void *context); /* true ends the sweep early; asked after each batch of answers */
    void *context;
};

/* Hosts are sorted by address, this machine's own addresses included. */
struct discovery_sweep_result {
    enum discovery_method method;
    struct discovery_host *hosts; /* owned by the sweep */
    size_t count;
    uint32_t addresses; /* probed: network, broadcast and own addresses not counted */
    uint32_t answered;
    uint32_t probes;  /* sent in all */
    uint32_t resends; /* bursts after the first that were needed */
    double ms;
    bool complete; /* false: stopped early or by the deadline */
};

/* One sweep, step by step: poll `fd` for POLLIN until `wake_ns`, then process, as long as process returns 0.
 */
struct discovery_sweep;
int discovery_sweep_fd(const struct discovery_sweep *sweep);
uint64_t discovery_sweep_wake_ns(const struct discovery_sweep *sweep); /* mst_now_ns() value; may be past */
/* Never blocks. 0: go on; 1: finished; or a negative errno, after which only result and free are allowed. */
int discovery_sweep_process(struct discovery_sweep *sweep, struct mst_error *err);
/* Blocks until finished. */
int discovery_sweep_run(struct discovery_sweep *sweep, struct mst_error *err);
/* At any time; valid until the next call of process or free. */
const struct discovery_sweep_result *discovery_sweep_result(struct discovery_sweep *sweep);
void discovery_sweep_free(struct discovery_sweep *sweep); /* NULL is fine */

/* Connections that are tried at once; and addresses that may be on the kernel's mind, which goes on asking
 * for a silent one for 3 s after the connection was given up: half of its table, as it is by default. */
#define DISCOVERY_TCP_IN_FLIGHT  128
#define DISCOVERY_TCP_UNRESOLVED 512
/* Sweep by connecting to the port: needs no rights. The options are copied. -EINVAL for a subnet larger than
 * /22 or beyond /30. Connections that succeed are closed at once. */
int discovery_tcp_sweep_new(const struct discovery_sweep_options *options, struct discovery_sweep **ret_sweep,
                            struct mst_error *err);

/* Say hello to many at a time: blocking, for a program that looks once. */
#define DISCOVERY_GREETINGS_AT_ONCE 128
struct discovery_greeting {
    uint32_t ipv4; /* whom */
    uint16_t port;
    /* What came of it. */
    int code; /* 0: it is an agent of this cluster; -ECANCELED: not asked, the time was over; or an errno */
    enum discovery_reason reason;  /* why it is none, where something answered */
    bool connected;                /* the port is open, whatever is behind it */
    struct discovery_identity who; /* code 0 */
    uint64_t connect_ns;           /* how long the connection took; 0: there was none */
};
/* Each takes at most DISCOVERY_HELLO_MS, all of them end by `deadline_ns`. Fails only for want of memory. */
int discovery_greet(const struct discovery_self *self, struct discovery_greeting *list, size_t count,
                    uint64_t deadline_ns, struct mst_error *err);

/* The workers found, each once, in numeric order of the whole address (then port, then incarnation). */
#define DISCOVERY_WORKERS_MAX 4096
struct discovery_workers {
    struct discovery_identity *items; /* owned */
    size_t count, capacity;
};
/* Put one in its place: 1 when new, 0 when its incarnation is known (what it says of itself is brought up to
 * date: a service's virtual address may lead to a worker that is known by its own), or a negative errno
 * (-ENOBUFS beyond DISCOVERY_WORKERS_MAX). */
int discovery_workers_add(struct discovery_workers *workers, const struct discovery_identity *identity,
                          struct mst_error *err);
/* NULL when unknown; borrowed until the next add or remove. */
const struct discovery_identity *
discovery_workers_find(const struct discovery_workers *workers,
                       const uint8_t incarnation[static DISCOVERY_INCARNATION_BYTES]);
bool discovery_workers_remove(struct discovery_workers *workers,
                              const uint8_t incarnation[static DISCOVERY_INCARNATION_BYTES]);
void discovery_workers_release(struct discovery_workers *workers);
/* <0, 0, >0 as qsort(3) wants it. */
int discovery_identity_compare(const struct discovery_identity *a, const struct discovery_identity *b);

#endif
