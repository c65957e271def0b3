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

#define MONITOR_ID_BYTES     sizeof "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define MONITOR_NAME_BYTES   256 /* longer names are cut, at the boundary of a character */
#define MONITOR_CGROUP_BYTES 512
#define MONITOR_LABELS_BYTES 4096

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

enum monitor_health { MONITOR_HEALTH_NONE = -1, MONITOR_HEALTH_BAD = 0, MONITOR_HEALTH_GOOD = 1 };

struct monitor_container {
    char id[MONITOR_ID_BYTES];
    char name[MONITOR_NAME_BYTES];
    char image[2 * MONITOR_NAME_BYTES]; /* as configured; of Swarm's tasks "repository:tag@sha256:..." */
    char stack[MONITOR_NAME_BYTES];     /* "" when it belongs to none, as the next two */
    char service[MONITOR_NAME_BYTES];
    char slot[MONITOR_NAME_BYTES]; /* "<service>.<task slot>"; of global services "<service>.<node id>" */
    char started_at[64];           /* RFC 3339; changes with every start: counters begin anew */
    double started_s, created_s;   /* Unix seconds, 0: not known */
    int health;                    /* enum monitor_health */
    pid_t pid;                     /* in the pid namespace of the engine; 0: does not run */
    enum monitor_network network;
    bool is_agent;                     /* a worker of a training, whose events can be followed */
    bool has_events;                   /* its label muster.events says that it reports gauges */
    bool is_machine;                   /* not a container: all of the machine, "/" */
    char cgroup[MONITOR_CGROUP_BYTES]; /* "/docker/ID", as seen under the hierarchy's mount point */
    char labels[MONITOR_LABELS_BYTES]; /* container_label_... and container_env_..., as they are exported */
};

/* What is read together. Which of them a sample has depends on the kernel, the version of its control groups,
 * and on what was asked for. */
enum monitor_group {
    MONITOR_CPU = 1 << 0,
    MONITOR_CPU_SPLIT = 1 << 1,
    MONITOR_THROTTLING = 1 << 2,
    MONITOR_MEMORY = 1 << 3,
    MONITOR_MEMORY_STAT = 1 << 4,
    MONITOR_MEMORY_LIMIT = 1 << 5,
    MONITOR_IO = 1 << 6,
    MONITOR_NETWORK = 1 << 7,
    MONITOR_THREADS = 1 << 8,
    MONITOR_THREADS_MAX = 1 << 9,
    MONITOR_BURST = 1 << 10,
    MONITOR_MEMORY_PEAK = 1 << 11,
    MONITOR_FAILCNT = 1 << 12,
    MONITOR_SWAP = 1 << 13,
    MONITOR_KERNEL = 1 << 14,
    MONITOR_FAULTS = 1 << 15,
    MONITOR_MEMORY_DETAIL = 1 << 16,
    MONITOR_RECLAIM = 1 << 17,
    MONITOR_OOM = 1 << 18,
    MONITOR_MEMORY_EVENTS = 1 << 19,
    MONITOR_CPU_QUOTA = 1 << 20,
    MONITOR_CPU_SHARES = 1 << 21,
    MONITOR_SWAP_LIMIT = 1 << 22,
    MONITOR_RESERVATION = 1 << 23,
    MONITOR_CPU_PRESSURE = 1 << 24,
    MONITOR_MEMORY_PRESSURE = 1 << 25,
    MONITOR_IO_PRESSURE = 1 << 26,
    MONITOR_IO_COUNTS = 1 << 27,
    MONITOR_IO_TIMES = 1 << 28, /* the following of the machine only */
    MONITOR_FILESYSTEMS = 1 << 29,
    MONITOR_TASKS = 1 << 30,
};
#define MONITOR_GROUPS_BASIC 0xffU /* what csv, emit and the charts need */
#define MONITOR_GROUPS_STATS (MONITOR_GROUPS_BASIC | MONITOR_THREADS)
#define MONITOR_GROUPS_ALL   0x7fffffffU

#define MONITOR_INTERFACE_BYTES 16 /* the kernel's IFNAMSIZ */
#define MONITOR_DEVICE_BYTES    32
#define MONITOR_INTERFACES_MAX  32 /* those behind count in the sums only */
#define MONITOR_DEVICES_MAX     32
#define MONITOR_FILESYSTEMS_MAX 32

struct monitor_interface {
    char name[MONITOR_INTERFACE_BYTES]; /* inside the container */
    uint64_t rx_bytes, rx_packets, rx_errors, rx_dropped;
    uint64_t tx_bytes, tx_packets, tx_errors, tx_dropped;
};

struct monitor_device {
    uint32_t major, minor;
    char name[MONITOR_DEVICE_BYTES]; /* "/dev/sda"; "" where the kernel does not tell */
    uint64_t read_bytes, write_bytes;
    uint64_t reads, writes; /* MONITOR_IO_COUNTS */
    /* MONITOR_IO_TIMES: how the whole disk has fared, whoever used it. */
    uint64_t reads_merged, writes_merged; /* with a neighbour, before they were sent */
    uint64_t read_ms, write_ms;           /* summed over requests */
    uint64_t in_flight;
    uint64_t busy_ms, weighted_ms; /* with any request under way; summed over those */
};

struct monitor_filesystem {
    char source[MONITOR_NAME_BYTES]; /* "/dev/sda1": what is mounted; no quotes and no backslashes in it */
    uint64_t limit_bytes, used_bytes;
    uint64_t inodes, inodes_free;
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

    uint64_t threads;                   /* MONITOR_THREADS */
    uint64_t threads_max;               /* MONITOR_THREADS_MAX; 0: no limit */
    uint64_t cfs_bursts, cfs_burst_ns;  /* MONITOR_BURST */
    uint64_t memory_peak_bytes;         /* MONITOR_MEMORY_PEAK: the largest usage so far */
    uint64_t memory_failcnt;            /* MONITOR_FAILCNT: how often the limit was hit */
    uint64_t memory_swap_bytes;         /* MONITOR_SWAP */
    uint64_t memory_kernel_bytes;       /* MONITOR_KERNEL */
    uint64_t page_faults, major_faults; /* MONITOR_FAULTS */
    uint64_t memory_mapped_file_bytes;  /* MONITOR_MEMORY_DETAIL */
    uint64_t memory_active_file_bytes;
    uint64_t file_dirty_bytes, file_writeback_bytes; /* MONITOR_RECLAIM, v2 only */
    uint64_t pages_scanned, pages_stolen, refaults_file, refaults_anon;
    uint64_t oom_kills;                             /* MONITOR_OOM */
    uint64_t memory_events_high, memory_events_max; /* MONITOR_MEMORY_EVENTS, v2 only */
    uint64_t cpu_period_us, cpu_quota_us;           /* MONITOR_CPU_QUOTA; quota 0: none */
    uint64_t cpu_shares;                            /* MONITOR_CPU_SHARES */
    uint64_t swap_limit_bytes;                      /* MONITOR_SWAP_LIMIT; 0: none */
    uint64_t reservation_bytes;                     /* MONITOR_RESERVATION; 0: none */
    uint64_t cpu_waiting_us, cpu_stalled_us;        /* MONITOR_CPU_PRESSURE, v2 only */
    uint64_t memory_waiting_us, memory_stalled_us;  /* MONITOR_MEMORY_PRESSURE, v2 only */
    uint64_t io_waiting_us, io_stalled_us;          /* MONITOR_IO_PRESSURE, v2 only */
    uint64_t tasks_running, tasks_iowaiting;        /* MONITOR_TASKS; this process is not among them */
    uint64_t load_milli; /* running tasks, smoothed over some 10 s, in thousandths */

    /* Not recorded: what Docker's formula for CPU % divides by, user to softirq over all CPUs, without stolen
     * time; 0: not known. */
    uint64_t system_cpu_ns, online_cpus;

    /* One entry each. Borrowed as `container` is; those of an older sample are not kept. */
    struct monitor_interface *interfaces; /* MONITOR_NETWORK */
    size_t interface_count;
    struct monitor_device *devices; /* MONITOR_IO */
    size_t device_count;
    struct monitor_filesystem *filesystems; /* MONITOR_FILESYSTEMS */
    size_t filesystem_count;
};

/* What the samples were taken on. Texts are "" and numbers 0 where they are not known. */
struct monitor_machine {
    uint64_t cpus, cores, sockets; /* logical, physical, packages */
    uint64_t memory_bytes, swap_bytes;
    char boot_id[64], machine_id[64], system_uuid[64];
    char kernel[MONITOR_NAME_BYTES], os[MONITOR_NAME_BYTES];
    char engine[MONITOR_NAME_BYTES]; /* its version */
};

/* The monitor itself. */
struct monitor_self {
    uint64_t cpu_ns;
    uint64_t resident_bytes, virtual_bytes;
    uint64_t open_fds, max_fds;
    uint64_t started_ms; /* Unix time */
};

/* A worker of a training that runs on this node, as its newest events say. */
enum monitor_training_group {
    MONITOR_TRAINING_PROGRESS = 1 << 0,
    MONITOR_TRAINING_VIEW = 1 << 1,
    MONITOR_TRAINING_TEST = 1 << 2,
};

/* What any program reports by the event `gauge`, as a queue's length: docs/autoscale.md. */
#define MONITOR_GAUGES_MAX  4 /* of one container; more are passed over */
#define MONITOR_GAUGE_BYTES 64

struct monitor_gauge {
    char name[MONITOR_GAUGE_BYTES];
    double value;
    uint64_t reports; /* how often it was reported since the monitor follows this container */
};

struct monitor_training {
    char slot[128];
    char stack[MONITOR_NAME_BYTES], service[MONITOR_NAME_BYTES]; /* "" outside of a stack */
    char container[MONITOR_NAME_BYTES];                          /* its name, "" without one */
    unsigned groups;                                             /* enum monitor_training_group */
    uint64_t epoch, epochs, step, steps, rank;                   /* MONITOR_TRAINING_PROGRESS */
    double loss, accuracy, ms_per_step;
    uint64_t view, members;          /* MONITOR_TRAINING_VIEW */
    double test_accuracy, test_loss; /* MONITOR_TRAINING_TEST */
    /* Always; since the monitor follows this worker. */
    uint64_t recoveries, lost, checkpoints, bytes_sent, epochs_done;
    bool is_done, has_failed;
    bool is_no_training; /* it has reported gauges only */
    struct monitor_gauge gauges[MONITOR_GAUGES_MAX];
    size_t gauge_count;
};

/* Everything that was read in one go: what is exported, recorded and shown. */
struct monitor_pass {
    double wall_s;
    uint64_t read_ns; /* CLOCK_MONOTONIC, at the beginning */
    uint64_t took_ns; /* the reading */
    uint64_t faults;  /* files that could not be read or made no sense, since the start */
    bool has_source;  /* false: neither the Engine nor the control groups could be asked */
    struct monitor_machine machine;
    struct monitor_self self;
    const struct monitor_sample *samples; /* borrowed until the next pass; the machine's own may be first */
    const struct monitor_sample *before;  /* of the same container one pass earlier; read_ns 0: none */
    size_t count;
    const struct monitor_training *trainings; /* borrowed likewise */
    size_t training_count;
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

/* The same by Docker's own formula: over the time that the CPUs counted, 0 where either has not grown. False
 * when the samples do not hold that time. */
bool monitor_docker_percent(const struct monitor_sample *before, const struct monitor_sample *now,
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

/* Which of a container's labels and variables become labels of its metrics. */
struct monitor_labels {
    bool all;                  /* each label; variables only when they are named */
    const char *const *labels; /* keys, the last is NULL; NULL: Swarm's and Compose's own */
    const char *const *envs;   /* the beginnings of names, the last is NULL; NULL: none */
};

enum monitor_source {
    MONITOR_SOURCE_ENGINE,  /* containers and names from the Engine, numbers from the kernel's files */
    MONITOR_SOURCE_CGROUPS, /* no Engine: what looks like a container in the control groups' tree */
    MONITOR_SOURCE_API,     /* numbers from the Engine's stats as well: nothing else is within reach */
};

struct monitor_options {
    const char *host;  /* the Engine, as engine_options.host */
    const char *stack; /* only the containers of this stack; NULL: all */
    enum monitor_source source;
    unsigned groups; /* what to read, MONITOR_GROUPS_...; 0: MONITOR_GROUPS_BASIC */
    struct monitor_labels labels;
    const char *rootfs;        /* where the host's root is, for its name and release; NULL: here */
    const char *const *events; /* files that workers without a container write their events to, the last is
                                  NULL; NULL: none */
    bool with_training;        /* follow the events of workers */
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
