/* SPDX-License-Identifier: Apache-2.0 */
/* The families container_*, in the order of their names. Names, types and labels are cAdvisor's; what it gets
 * wrong is not copied (docs/muster-monitor.md lists the differences). */
#include "metrics_private.h"
#include "muster/cleanup.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define COUNTER EXPOSITION_COUNTER
#define GAUGE   EXPOSITION_GAUGE
#define NS      9 /* digits behind the point */
#define US      6
#define MS      3

#define SECTOR_BYTES 512U

#define FIELD(member) .offset = offsetof(struct monitor_sample, member)

static struct exposition_number whole(uint64_t value)
{
    return (struct exposition_number){value, 0};
}

/* ---- families of several lines a container ---- */

static void cpu_usage(struct metrics_page *page, const struct metrics_subject *subject)
{
    const struct metrics_extra extra = {.first = "cpu=\"total\","};
    metrics_line(page, subject, &extra, (struct exposition_number){subject->sample->cpu_ns, NS});
}

/* Quotas' metrics are for those that have one. */
static bool has_quota(const struct monitor_sample *sample)
{
    return sample->groups & MONITOR_CPU_QUOTA ? sample->cpu_quota_us > 0 : sample->cfs_periods > 0;
}

#define WITH_QUOTA(function, member, digits)                                                                 \
    static void function(struct metrics_page *page, const struct metrics_subject *subject)                   \
    {                                                                                                        \
        if (has_quota(subject->sample))                                                                      \
            metrics_line(page, subject, NULL, (struct exposition_number){subject->sample->member, digits});  \
    }

WITH_QUOTA(burst_periods, cfs_bursts, 0)
WITH_QUOTA(burst_seconds, cfs_burst_ns, NS)
WITH_QUOTA(quota_periods, cfs_periods, 0)
WITH_QUOTA(throttled_periods, cfs_throttled, 0)
WITH_QUOTA(throttled_seconds, cfs_throttled_ns, NS)
WITH_QUOTA(spec_quota, cpu_quota_us, 0)

static void failures(struct metrics_page *page, const struct metrics_subject *subject)
{
    const struct {
        const char *type, *scope;
        uint64_t value;
    } lines[] = {
        {"failure_type=\"pgfault\",", "scope=\"container\",", subject->sample->page_faults},
        {"failure_type=\"pgfault\",", "scope=\"hierarchy\",", subject->sample->page_faults},
        {"failure_type=\"pgmajfault\",", "scope=\"container\",", subject->sample->major_faults},
        {"failure_type=\"pgmajfault\",", "scope=\"hierarchy\",", subject->sample->major_faults},
    };
    for (size_t i = 0; i < MST_ARRAY_COUNT(lines); i++) {
        const struct metrics_extra extra = {.first = lines[i].type, .third = lines[i].scope};
        metrics_line(page, subject, &extra, whole(lines[i].value));
    }
}

static void working_set(struct metrics_page *page, const struct metrics_subject *subject)
{
    uint64_t bytes;
    if (monitor_memory_used(subject->sample, &bytes))
        metrics_line(page, subject, NULL, whole(bytes));
}

/* Loop devices, RAM disks and CD drives say nothing about a container. */
static bool is_shown(const struct monitor_device *device)
{
    return strncmp(device->name, "/dev/loop", 9) != 0 && strncmp(device->name, "/dev/ram", 8) != 0 &&
           strncmp(device->name, "/dev/sr", 7) != 0;
}

static void each_device(struct metrics_page *page, const struct metrics_subject *subject, size_t offset,
                        unsigned scale, uint64_t unit)
{
    for (size_t i = 0; i < subject->sample->device_count; i++) {
        const struct monitor_device *device = &subject->sample->devices[i];
        char label[MONITOR_DEVICE_BYTES + 16] = "";
        uint64_t value;
        if (!is_shown(device))
            continue;
        if (*device->name)
            (void)snprintf(label, sizeof label, "device=\"%s\",", device->name);
        else /* a number is a better name than none, and keeps two devices apart */
            (void)snprintf(label, sizeof label, "device=\"%" PRIu32 ":%" PRIu32 "\",", device->major,
                           device->minor);
        memcpy(&value, (const char *)device + offset, sizeof value);
        metrics_line(page, subject, &(struct metrics_extra){.first = label},
                     (struct exposition_number){value / unit, scale});
    }
}

#define DEVICES(function, member, scale, unit)                                                               \
    static void function(struct metrics_page *page, const struct metrics_subject *subject)                   \
    {                                                                                                        \
        each_device(page, subject, offsetof(struct monitor_device, member), scale, unit);                    \
    }

DEVICES(read_bytes, read_bytes, 0, 1)
DEVICES(write_bytes, write_bytes, 0, 1)
DEVICES(reads, reads, 0, 1)
DEVICES(writes, writes, 0, 1)
DEVICES(reads_merged, reads_merged, 0, 1)
DEVICES(writes_merged, writes_merged, 0, 1)
DEVICES(sector_reads, read_bytes, 0, SECTOR_BYTES)
DEVICES(sector_writes, write_bytes, 0, SECTOR_BYTES)
DEVICES(read_seconds, read_ms, MS, 1)
DEVICES(write_seconds, write_ms, MS, 1)
DEVICES(io_current, in_flight, 0, 1)
DEVICES(io_seconds, busy_ms, MS, 1)
DEVICES(io_weighted, weighted_ms, MS, 1)

static void each_filesystem(struct metrics_page *page, const struct metrics_subject *subject, size_t offset)
{
    for (size_t i = 0; i < subject->sample->filesystem_count; i++) {
        const struct monitor_filesystem *filesystem = &subject->sample->filesystems[i];
        char label[MONITOR_NAME_BYTES + 16];
        uint64_t value;
        (void)snprintf(label, sizeof label, "device=\"%s\",", filesystem->source);
        memcpy(&value, (const char *)filesystem + offset, sizeof value);
        metrics_line(page, subject, &(struct metrics_extra){.first = label}, whole(value));
    }
}

#define FILESYSTEMS(function, member)                                                                        \
    static void function(struct metrics_page *page, const struct metrics_subject *subject)                   \
    {                                                                                                        \
        each_filesystem(page, subject, offsetof(struct monitor_filesystem, member));                         \
    }

FILESYSTEMS(fs_limit, limit_bytes)
FILESYSTEMS(fs_used, used_bytes)
FILESYSTEMS(fs_inodes, inodes)
FILESYSTEMS(fs_inodes_free, inodes_free)

/* The states that the kernel counts; the others would take a look at each task. */
static void tasks(struct metrics_page *page, const struct metrics_subject *subject)
{
    metrics_line(page, subject, &(struct metrics_extra){.third = "state=\"iowaiting\","},
                 whole(subject->sample->tasks_iowaiting));
    metrics_line(page, subject, &(struct metrics_extra){.third = "state=\"running\","},
                 whole(subject->sample->tasks_running));
}

static void device_usage(struct metrics_page *page, const struct metrics_subject *subject)
{
    for (size_t i = 0; i < subject->sample->device_count; i++) {
        const struct monitor_device *device = &subject->sample->devices[i];
        char name[MONITOR_DEVICE_BYTES + 16], numbers[64];
        if (!is_shown(device))
            continue;
        (void)snprintf(name, sizeof name, *device->name ? "device=\"%s\"," : "%s", device->name);
        (void)snprintf(numbers, sizeof numbers, "major=\"%" PRIu32 "\",minor=\"%" PRIu32 "\",", device->major,
                       device->minor);
        struct metrics_extra extra = {.first = name, .second = numbers, .third = "operation=\"Read\","};
        metrics_line(page, subject, &extra, whole(device->read_bytes));
        extra.third = "operation=\"Write\",";
        metrics_line(page, subject, &extra, whole(device->write_bytes));
    }
}

static void each_interface(struct metrics_page *page, const struct metrics_subject *subject, size_t offset)
{
    for (size_t i = 0; i < subject->sample->interface_count; i++) {
        const struct monitor_interface *interface = &subject->sample->interfaces[i];
        char label[2 * MONITOR_INTERFACE_BYTES + 16];
        uint64_t value;
        char *at = label + snprintf(label, sizeof label, "interface=\"");
        for (const char *c = interface->name; *c; c++) { /* the kernel allows a quote in a name */
            if (*c == '"' || *c == '\\')
                *at++ = '\\';
            *at++ = *c;
        }
        memcpy(at, "\",", 3);
        memcpy(&value, (const char *)interface + offset, sizeof value);
        metrics_line(page, subject, &(struct metrics_extra){.second = label}, whole(value));
    }
}

#define INTERFACES(function, member)                                                                         \
    static void function(struct metrics_page *page, const struct metrics_subject *subject)                   \
    {                                                                                                        \
        each_interface(page, subject, offsetof(struct monitor_interface, member));                           \
    }

INTERFACES(rx_bytes, rx_bytes)
INTERFACES(rx_errors, rx_errors)
INTERFACES(rx_packets, rx_packets)
INTERFACES(rx_dropped, rx_dropped)
INTERFACES(tx_bytes, tx_bytes)
INTERFACES(tx_errors, tx_errors)
INTERFACES(tx_packets, tx_packets)
INTERFACES(tx_dropped, tx_dropped)

/* ---- what is known about a container ---- */

static void created(struct metrics_page *page, const struct metrics_subject *subject)
{
    if (subject->sample->container->created_s > 0)
        metrics_line(page, subject, NULL, whole((uint64_t)subject->sample->container->created_s));
}

/* Never stamped: it does not change while the container runs. */
static void started(struct metrics_page *page, const struct metrics_subject *subject)
{
    if (subject->sample->container->started_s > 0)
        metrics_line(page, subject, NULL, whole((uint64_t)subject->sample->container->started_s));
}

static void health(struct metrics_page *page, const struct metrics_subject *subject)
{
    const struct exposition_labels labels = {
        {subject->extra, NULL, subject->identity, NULL, subject->name, NULL}};
    exposition_line_double(&page->out, &labels, subject->sample->container->health);
}

/* The one that is stamped, so that it stays for five minutes after its container has gone: rules compare it
 * with the time of day. */
static void last_seen(struct metrics_page *page, const struct metrics_subject *subject)
{
    const struct exposition_labels labels = {
        {subject->extra, NULL, subject->identity, NULL, subject->name, NULL}};
    exposition_line_at(&page->out, &labels, whole((uint64_t)subject->sample->wall_s),
                       (uint64_t)(subject->sample->wall_s * 1000));
}

static void scrape_error(struct metrics_page *page)
{
    exposition_line(&page->out, NULL, whole(!page->pass->has_source && page->pass->count == 0));
}

/* clang-format off */
const struct metrics_family metrics_of_containers[] = {
    {"container_blkio_device_usage_total", "Bytes that were read and written, by device and operation", COUNTER, METRICS_DISK, MONITOR_IO, .each = device_usage},
    {"container_cpu_cfs_burst_periods_total", "Periods in which the CPU quota was exceeded by saved-up time", COUNTER, METRICS_CPU, MONITOR_BURST, .each = burst_periods},
    {"container_cpu_cfs_burst_seconds_total", "CPU time beyond the quota, out of saved-up time", COUNTER, METRICS_CPU, MONITOR_BURST, .each = burst_seconds},
    {"container_cpu_cfs_periods_total", "Periods of the CPU quota that have passed", COUNTER, METRICS_CPU, MONITOR_THROTTLING, .each = quota_periods},
    {"container_cpu_cfs_throttled_periods_total", "Periods in which the CPU quota was used up", COUNTER, METRICS_CPU, MONITOR_THROTTLING, .each = throttled_periods},
    {"container_cpu_cfs_throttled_seconds_total", "Time spent waiting for the next period of the CPU quota", COUNTER, METRICS_CPU, MONITOR_THROTTLING, .each = throttled_seconds},
    {"container_cpu_load_average_10s", "Running tasks over the last 10 s or so, in thousandths", GAUGE, METRICS_LOAD, MONITOR_TASKS, FIELD(load_milli)},
    {"container_cpu_system_seconds_total", "CPU time used in the kernel", COUNTER, METRICS_CPU, MONITOR_CPU_SPLIT, FIELD(cpu_system_ns), .scale = NS},
    {"container_cpu_usage_seconds_total", "CPU time used", COUNTER, METRICS_CPU, MONITOR_CPU, .each = cpu_usage},
    {"container_cpu_user_seconds_total", "CPU time used by programs", COUNTER, METRICS_CPU, MONITOR_CPU_SPLIT, FIELD(cpu_user_ns), .scale = NS},
    {"container_creation_time_seconds", "When the container was made, in Unix time", GAUGE, METRICS_SPEC, 0, .each = created},
    {"container_fs_inodes_free", "Free inodes of the filesystem", GAUGE, METRICS_DISK, MONITOR_FILESYSTEMS, .each = fs_inodes_free},
    {"container_fs_inodes_total", "Inodes of the filesystem", GAUGE, METRICS_DISK, MONITOR_FILESYSTEMS, .each = fs_inodes},
    {"container_fs_io_current", "Requests to the disk that are under way", GAUGE, METRICS_DISK, MONITOR_IO_TIMES, .each = io_current},
    {"container_fs_io_time_seconds_total", "Time with a request to the disk under way", COUNTER, METRICS_DISK, MONITOR_IO_TIMES, .each = io_seconds},
    {"container_fs_io_time_weighted_seconds_total", "Time with requests to the disk under way, summed over requests", COUNTER, METRICS_DISK, MONITOR_IO_TIMES, .each = io_weighted},
    {"container_fs_limit_bytes", "Size of the filesystem in bytes", GAUGE, METRICS_DISK, MONITOR_FILESYSTEMS, .each = fs_limit},
    {"container_fs_read_seconds_total", "Time that reads have taken, summed over requests", COUNTER, METRICS_DISK, MONITOR_IO_TIMES, .each = read_seconds},
    {"container_fs_reads_bytes_total", "Bytes read from block devices", COUNTER, METRICS_DISK, MONITOR_IO, .each = read_bytes},
    {"container_fs_reads_merged_total", "Reads that were merged with a neighbour", COUNTER, METRICS_DISK, MONITOR_IO_TIMES, .each = reads_merged},
    {"container_fs_reads_total", "Reads from block devices that have ended", COUNTER, METRICS_DISK, MONITOR_IO | MONITOR_IO_COUNTS, .each = reads},
    {"container_fs_sector_reads_total", "Sectors of 512 bytes read", COUNTER, METRICS_DISK, MONITOR_IO_TIMES, .each = sector_reads},
    {"container_fs_sector_writes_total", "Sectors of 512 bytes written", COUNTER, METRICS_DISK, MONITOR_IO_TIMES, .each = sector_writes},
    {"container_fs_usage_bytes", "Bytes of the filesystem that are in use", GAUGE, METRICS_DISK, MONITOR_FILESYSTEMS, .each = fs_used},
    {"container_fs_write_seconds_total", "Time that writes have taken, summed over requests", COUNTER, METRICS_DISK, MONITOR_IO_TIMES, .each = write_seconds},
    {"container_fs_writes_bytes_total", "Bytes written to block devices", COUNTER, METRICS_DISK, MONITOR_IO, .each = write_bytes},
    {"container_fs_writes_merged_total", "Writes that were merged with a neighbour", COUNTER, METRICS_DISK, MONITOR_IO_TIMES, .each = writes_merged},
    {"container_fs_writes_total", "Writes to block devices that have ended", COUNTER, METRICS_DISK, MONITOR_IO | MONITOR_IO_COUNTS, .each = writes},
    {"container_health_state", "1 healthy, 0 starting or unhealthy, -1 without a health check", GAUGE, METRICS_SPEC, 0, .each = health},
    {"container_last_seen", "When the container was seen last, in Unix time", GAUGE, METRICS_SPEC, 0, .each = last_seen},
    {"container_memory_cache", "Page cache in bytes", GAUGE, METRICS_MEMORY, MONITOR_MEMORY_STAT, FIELD(memory_cache_bytes)},
    {"container_memory_events_high_total", "How often processes were made to wait for memory.high", COUNTER, METRICS_MEMORY, MONITOR_MEMORY_EVENTS, FIELD(memory_events_high)},
    {"container_memory_events_max_total", "How often the memory limit was about to be passed", COUNTER, METRICS_MEMORY, MONITOR_MEMORY_EVENTS, FIELD(memory_events_max)},
    {"container_memory_failcnt", "How often the memory limit was hit", COUNTER, METRICS_MEMORY, MONITOR_FAILCNT, FIELD(memory_failcnt)},
    {"container_memory_failures_total", "Page faults, by kind", COUNTER, METRICS_MEMORY, MONITOR_FAULTS, .each = failures},
    {"container_memory_file_dirty_bytes", "Page cache that is to be written back", GAUGE, METRICS_MEMORY, MONITOR_RECLAIM, FIELD(file_dirty_bytes)},
    {"container_memory_file_writeback_bytes", "Page cache that is being written back", GAUGE, METRICS_MEMORY, MONITOR_RECLAIM, FIELD(file_writeback_bytes)},
    {"container_memory_kernel_usage", "Memory of the kernel in bytes", GAUGE, METRICS_MEMORY, MONITOR_KERNEL, FIELD(memory_kernel_bytes)},
    {"container_memory_mapped_file", "Mapped files in bytes", GAUGE, METRICS_MEMORY, MONITOR_MEMORY_DETAIL, FIELD(memory_mapped_file_bytes)},
    {"container_memory_max_usage_bytes", "Largest memory usage so far in bytes", GAUGE, METRICS_MEMORY, MONITOR_MEMORY_PEAK, FIELD(memory_peak_bytes)},
    {"container_memory_pgscan_total", "Pages that were looked at to be taken back", COUNTER, METRICS_MEMORY, MONITOR_RECLAIM, FIELD(pages_scanned)},
    {"container_memory_pgsteal_total", "Pages that were taken back", COUNTER, METRICS_MEMORY, MONITOR_RECLAIM, FIELD(pages_stolen)},
    {"container_memory_rss", "Anonymous memory in bytes", GAUGE, METRICS_MEMORY, MONITOR_MEMORY_STAT, FIELD(memory_rss_bytes)},
    {"container_memory_swap", "Swap usage in bytes", GAUGE, METRICS_MEMORY, MONITOR_SWAP, FIELD(memory_swap_bytes)},
    {"container_memory_total_active_file_bytes", "Page cache that was used lately", GAUGE, METRICS_MEMORY, MONITOR_MEMORY_DETAIL, FIELD(memory_active_file_bytes)},
    {"container_memory_total_inactive_file_bytes", "Page cache that is taken back first", GAUGE, METRICS_MEMORY, MONITOR_MEMORY_STAT, FIELD(memory_inactive_file_bytes)},
    {"container_memory_usage_bytes", "Memory usage in bytes, with the page cache", GAUGE, METRICS_MEMORY, MONITOR_MEMORY, FIELD(memory_usage_bytes)},
    {"container_memory_working_set_bytes", "Memory usage in bytes without the cache that is taken back first", GAUGE, METRICS_MEMORY, MONITOR_MEMORY, .each = working_set},
    {"container_memory_workingset_refault_anon_total", "Anonymous pages that were needed again after they had been taken away", COUNTER, METRICS_MEMORY, MONITOR_RECLAIM, FIELD(refaults_anon)},
    {"container_memory_workingset_refault_file_total", "Pages of files that were needed again after they had been taken away", COUNTER, METRICS_MEMORY, MONITOR_RECLAIM, FIELD(refaults_file)},
    {"container_network_receive_bytes_total", "Bytes received", COUNTER, METRICS_NETWORK, MONITOR_NETWORK, .each = rx_bytes},
    {"container_network_receive_errors_total", "Errors met while receiving", COUNTER, METRICS_NETWORK, MONITOR_NETWORK, .each = rx_errors},
    {"container_network_receive_packets_dropped_total", "Packets dropped while receiving", COUNTER, METRICS_NETWORK, MONITOR_NETWORK, .each = rx_dropped},
    {"container_network_receive_packets_total", "Packets received", COUNTER, METRICS_NETWORK, MONITOR_NETWORK, .each = rx_packets},
    {"container_network_transmit_bytes_total", "Bytes sent", COUNTER, METRICS_NETWORK, MONITOR_NETWORK, .each = tx_bytes},
    {"container_network_transmit_errors_total", "Errors met while sending", COUNTER, METRICS_NETWORK, MONITOR_NETWORK, .each = tx_errors},
    {"container_network_transmit_packets_dropped_total", "Packets dropped while sending", COUNTER, METRICS_NETWORK, MONITOR_NETWORK, .each = tx_dropped},
    {"container_network_transmit_packets_total", "Packets sent", COUNTER, METRICS_NETWORK, MONITOR_NETWORK, .each = tx_packets},
    {"container_oom_events_total", "Processes that were killed for want of memory", COUNTER, METRICS_OOM, MONITOR_OOM, FIELD(oom_kills)},
    {"container_pressure_cpu_stalled_seconds_total", "Time in which nothing could run for want of CPU", COUNTER, METRICS_PRESSURE, MONITOR_CPU_PRESSURE, FIELD(cpu_stalled_us), .scale = US},
    {"container_pressure_cpu_waiting_seconds_total", "Time in which something waited for CPU", COUNTER, METRICS_PRESSURE, MONITOR_CPU_PRESSURE, FIELD(cpu_waiting_us), .scale = US},
    {"container_pressure_io_stalled_seconds_total", "Time in which nothing could run for want of I/O", COUNTER, METRICS_PRESSURE, MONITOR_IO_PRESSURE, FIELD(io_stalled_us), .scale = US},
    {"container_pressure_io_waiting_seconds_total", "Time in which something waited for I/O", COUNTER, METRICS_PRESSURE, MONITOR_IO_PRESSURE, FIELD(io_waiting_us), .scale = US},
    {"container_pressure_memory_stalled_seconds_total", "Time in which nothing could run for want of memory", COUNTER, METRICS_PRESSURE, MONITOR_MEMORY_PRESSURE, FIELD(memory_stalled_us), .scale = US},
    {"container_pressure_memory_waiting_seconds_total", "Time in which something waited for memory", COUNTER, METRICS_PRESSURE, MONITOR_MEMORY_PRESSURE, FIELD(memory_waiting_us), .scale = US},
    {"container_scrape_error", "1 if nothing could be read, else 0", GAUGE, METRICS_SPEC, 0, .whole = scrape_error},
    {"container_spec_cpu_period", "Period of the CPU quota in microseconds", GAUGE, METRICS_SPEC, MONITOR_CPU_QUOTA, FIELD(cpu_period_us)},
    {"container_spec_cpu_quota", "CPU quota of a period in microseconds", GAUGE, METRICS_SPEC, MONITOR_CPU_QUOTA, .each = spec_quota},
    {"container_spec_cpu_shares", "CPU shares", GAUGE, METRICS_SPEC, MONITOR_CPU_SHARES, FIELD(cpu_shares)},
    {"container_spec_memory_limit_bytes", "Memory limit, 0 if there is none", GAUGE, METRICS_SPEC, MONITOR_MEMORY_LIMIT, FIELD(memory_limit_bytes)},
    {"container_spec_memory_reservation_limit_bytes", "Memory reservation, 0 if there is none", GAUGE, METRICS_SPEC, MONITOR_RESERVATION, FIELD(reservation_bytes)},
    {"container_spec_memory_swap_limit_bytes", "Swap limit, 0 if there is none", GAUGE, METRICS_SPEC, MONITOR_SWAP_LIMIT, FIELD(swap_limit_bytes)},
    {"container_start_time_seconds", "When the container was started, in Unix time", GAUGE, METRICS_SPEC, 0, .each = started},
    {"container_tasks_state", "Tasks by state", GAUGE, METRICS_LOAD, MONITOR_TASKS, .each = tasks},
    {"container_threads", "Threads", GAUGE, METRICS_PROCESS, MONITOR_THREADS, FIELD(threads)},
    {"container_threads_max", "Limit of threads, 0 if there is none", GAUGE, METRICS_PROCESS, MONITOR_THREADS_MAX, FIELD(threads_max)},
};
/* clang-format on */
const size_t metrics_of_containers_count = MST_ARRAY_COUNT(metrics_of_containers);
