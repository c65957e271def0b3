/* SPDX-License-Identifier: Apache-2.0 */
/* What the containers of one node use: CPU, memory, block I/O and network, read from the kernel's own files
 * once a tick, with names and labels from the Engine's events stream.
 *
 * Order of calls: fill `struct monitor_options`, make an output (monitor_csv_open(), monitor_emit_init(), or
 * one of your own), monitor_run() until its stop descriptor becomes readable, release the output. One
 * sampler, many outputs: whatever is shown, written or exported starts from a `struct monitor_sample`.
 *
 * Samples hold raw counters, never rates: who wants a rate takes the difference of two samples, see
 * monitor_cpu_percent(). A group of values that could not be read is absent, it is not zero. */
#ifndef MUSTER_MONITOR_H
#define MUSTER_MONITOR_H

#include "muster/buf.h"
#include "muster/error.h"
#include "muster/event.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define MONITOR_ID_BYTES   sizeof "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define MONITOR_NAME_BYTES 256 /* longer names are cut, at the boundary of a character */

/* Where the kernel's files are, which is elsewhere for a monitor in a container. */
struct monitor_paths {
    const char *procfs; /* "/proc" */
    const char *sysfs;  /* "/sys"; control groups are under its fs/cgroup */
};

enum monitor_network {
    MONITOR_NETWORK_OWN,
    MONITOR_NETWORK_HOST,   /* no counters: they would be the whole host's, once for each such container */
    MONITOR_NETWORK_SHARED, /* --network container:X: X reports them */
};

struct monitor_container {
    char id[MONITOR_ID_BYTES];
    char name[MONITOR_NAME_BYTES];
    char image[2 * MONITOR_NAME_BYTES]; /* as configured; of Swarm's tasks "repository:tag@sha256:..." */
    char stack[MONITOR_NAME_BYTES];     /* "" when it belongs to none, as the next two */
    char service[MONITOR_NAME_BYTES];
    char slot[MONITOR_NAME_BYTES]; /* "<service>.<task slot>"; of global services "<service>.<node id>" */
    char started_at[64];           /* RFC 3339; changes with every start: counters begin anew */
    pid_t pid;                     /* in the pid namespace of the engine; 0: does not run */
    enum monitor_network network;
};

enum monitor_group {
    MONITOR_CPU = 1 << 0,
    MONITOR_CPU_SPLIT = 1 << 1,
    MONITOR_THROTTLING = 1 << 2,
    MONITOR_MEMORY = 1 << 3,
    MONITOR_MEMORY_STAT = 1 << 4,
    MONITOR_MEMORY_LIMIT = 1 << 5,
    MONITOR_IO = 1 << 6,
    MONITOR_NETWORK = 1 << 7,
};

struct monitor_sample {
    const struct monitor_container *container; /* borrowed, for as long as the output call lasts */
    double wall_s;                             /* both clocks at the moment of reading */
    uint64_t read_ns;                          /* CLOCK_MONOTONIC */
    unsigned groups;                           /* enum monitor_group: which of the following were read */

    uint64_t cpu_ns;                     /* MONITOR_CPU */
    uint64_t cpu_user_ns, cpu_system_ns; /* MONITOR_CPU_SPLIT; on v1 in whole ticks of 10 ms */
    uint64_t cfs_periods, cfs_throttled; /* MONITOR_THROTTLING */
    uint64_t cfs_throttled_ns;
    uint64_t memory_usage_bytes; /* MONITOR_MEMORY: with the page cache */
    uint64_t memory_rss_bytes;   /* MONITOR_MEMORY_STAT: anonymous memory */
    uint64_t memory_cache_bytes;
    uint64_t memory_inactive_file_bytes; /* cache that the kernel takes back first */
    uint64_t memory_limit_bytes;         /* MONITOR_MEMORY_LIMIT; 0: none */
    uint64_t io_read_bytes,
        io_write_bytes; /* MONITOR_IO, all devices; a stack of devices counts each layer */
    uint64_t rx_bytes, rx_packets, rx_errors, rx_dropped; /* MONITOR_NETWORK, all interfaces but lo */
    uint64_t tx_bytes, tx_packets, tx_errors, tx_dropped;
};

/* What `docker stats` shows as memory in use, and cAdvisor as the working set: usage without the cache that
 * can be had back at once, at least 0. False when it was not read. */
bool monitor_memory_used(const struct monitor_sample *sample, uint64_t *ret_bytes);
/* The limit as `docker stats` shows it: the machine's memory where there is none or a larger one. */
bool monitor_memory_limit(const struct monitor_sample *sample, uint64_t machine_bytes, uint64_t *ret_bytes);

/* CPU time between two samples of one container over the time between them, 100 for one core. False when
 * there is no such number: a first sample, no time in between, or a counter that began anew. */
bool monitor_cpu_percent(const struct monitor_sample *before, const struct monitor_sample *now,
                         double *ret_percent);

/* ---- running ---- */

/* Where samples go. Both calls return 0 or a negative errno, which ends monitor_run() with it. */
struct monitor_output {
    /* `before` is the sample of the same container one tick earlier, NULL after its (re)start. */
    int (*sample)(void *context, const struct monitor_sample *sample, const struct monitor_sample *before,
                  struct mst_error *err);
    /* All samples of this tick have been given. */
    int (*flush)(void *context, struct mst_error *err);
    void *context;
};

struct monitor_options {
    const char *host;  /* the Engine, as engine_options.host */
    const char *stack; /* only the containers of this stack; NULL: all */
    struct monitor_paths paths;
    uint64_t interval_ns;
    int stop_fd; /* readable: end */
};

/* Samples each tick until stop_fd becomes readable, then returns 0. An engine that cannot be reached at the
 * start is an error; one that goes away later is asked again, and what is known goes on being sampled
 * meanwhile. */
int monitor_run(const struct monitor_options *options, const struct monitor_output *output,
                struct mst_error *err);

/* Root is needed for nothing that this module does once it runs. If the process is root: become `uid` for
 * good, with the group of the Engine's socket as the one group, so that reconnecting still works. Returns 0,
 * also when there is nothing to give up, or when something would be out of reach then: *ret_kept says what
 * (else NULL). */
int monitor_privileges_drop(const struct monitor_options *options, uid_t uid, const char **ret_kept,
                            struct mst_error *err);

/* ---- outputs ---- */

/* One row for each container and tick. Columns:
 *     time,node,stack,service,slot,container,name,cpu_percent,cpu_seconds_total,memory_bytes,memory_limit_bytes,
 *     rx_bytes,tx_bytes,rx_packets,tx_packets
 * time is in Unix seconds, cpu_percent since the row before of the same container; what was not read is
 * empty. */
struct monitor_csv {
    int fd; /* owned, but 1 for "-" */
    int stop_fd;
    const char *node; /* borrowed */
    uint64_t machine_bytes;
    struct mst_buf rows; /* of this tick */
};

/* "-" is stdout. An older file is carried on: it must begin with the same header (-EBADMSG), a last line that
 * a crash tore is cut off, and only one recorder may have it open (-EBUSY). */
int monitor_csv_open(struct monitor_csv *csv, const char *path, const char *node, int stop_fd,
                     struct mst_error *err);
struct monitor_output monitor_csv_output(struct monitor_csv *csv);
void monitor_csv_release(struct monitor_csv *csv);

/* One JSON event "sample" for each container and tick (muster/event.h). */
struct monitor_emit {
    struct mst_event_sink *sink; /* borrowed */
    int stop_fd;
    const char *node; /* borrowed */
    uint64_t machine_bytes;
    uint64_t oversized; /* samples left out because their names make too long a line */
};

void monitor_emit_init(struct monitor_emit *emit, struct mst_event_sink *sink, const char *node, int stop_fd);
struct monitor_output monitor_emit_output(struct monitor_emit *emit);

#endif
