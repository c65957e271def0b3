/* SPDX-License-Identifier: Apache-2.0 */
#include "cgroup_files.h"

#include "counters.h"
#include "muster/cleanup.h"
#include "muster/clock.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

/* v1 says "no limit" by the largest number of whole pages, which depends on the page size. */
#define V1_LIMIT_NONE (UINT64_C(1) << 62)

static int multiply(uint64_t value, uint64_t factor, uint64_t *ret_value)
{
    return __builtin_mul_overflow(value, factor, ret_value) ? -EBADMSG : 0;
}

/* ---- one call for each file; a value that is set is also announced in sample->groups ---- */

static int v1_cpu_usage(const char *text, size_t bytes, struct monitor_sample *sample)
{
    if (counters_number(text, bytes, &sample->cpu_ns) < 0)
        return -EBADMSG;
    sample->groups |= MONITOR_CPU;
    return 0;
}

static int v1_cpu_split(const char *text, size_t bytes, struct monitor_sample *sample)
{
    struct counters_key keys[] = {{.name = "user"}, {.name = "system"}};
    const uint64_t tick_ns = MST_NS_PER_S / (uint64_t)sysconf(_SC_CLK_TCK);
    if (counters_keyed(text, bytes, keys, MST_ARRAY_COUNT(keys)) < 0 || !keys[0].found || !keys[1].found ||
        multiply(keys[0].value, tick_ns, &sample->cpu_user_ns) < 0 ||
        multiply(keys[1].value, tick_ns, &sample->cpu_system_ns) < 0)
        return -EBADMSG;
    sample->groups |= MONITOR_CPU_SPLIT;
    return 0;
}

static int v1_throttling(const char *text, size_t bytes, struct monitor_sample *sample)
{
    struct counters_key keys[] = {
        {.name = "nr_periods"}, {.name = "nr_throttled"}, {.name = "throttled_time"}};
    if (counters_keyed(text, bytes, keys, MST_ARRAY_COUNT(keys)) < 0)
        return -EBADMSG;
    if (!keys[0].found || !keys[1].found || !keys[2].found)
        return 0; /* a kernel without bandwidth control */
    sample->cfs_periods = keys[0].value;
    sample->cfs_throttled = keys[1].value;
    sample->cfs_throttled_ns = keys[2].value;
    sample->groups |= MONITOR_THROTTLING;
    return 0;
}

static int v2_cpu(const char *text, size_t bytes, struct monitor_sample *sample)
{
    struct counters_key keys[] = {{.name = "usage_usec"},   {.name = "user_usec"},
                                  {.name = "system_usec"},  {.name = "nr_periods"},
                                  {.name = "nr_throttled"}, {.name = "throttled_usec"},
                                  {.name = "nr_bursts"},    {.name = "burst_usec"}};
    if (counters_keyed(text, bytes, keys, MST_ARRAY_COUNT(keys)) < 0 || !keys[0].found || !keys[1].found ||
        !keys[2].found || multiply(keys[0].value, 1000, &sample->cpu_ns) < 0 ||
        multiply(keys[1].value, 1000, &sample->cpu_user_ns) < 0 ||
        multiply(keys[2].value, 1000, &sample->cpu_system_ns) < 0)
        return -EBADMSG;
    sample->groups |= MONITOR_CPU | MONITOR_CPU_SPLIT;
    if (!keys[3].found || !keys[4].found || !keys[5].found)
        return 0; /* there only with the cpu controller, usage is there always */
    if (multiply(keys[5].value, 1000, &sample->cfs_throttled_ns) < 0)
        return -EBADMSG;
    sample->cfs_periods = keys[3].value;
    sample->cfs_throttled = keys[4].value;
    sample->groups |= MONITOR_THROTTLING;
    if (keys[6].found && keys[7].found && multiply(keys[7].value, 1000, &sample->cfs_burst_ns) == 0) {
        sample->cfs_bursts = keys[6].value;
        sample->groups |= MONITOR_BURST;
    }
    return 0;
}

static int memory_usage(const char *text, size_t bytes, struct monitor_sample *sample)
{
    if (counters_number(text, bytes, &sample->memory_usage_bytes) < 0)
        return -EBADMSG;
    sample->groups |= MONITOR_MEMORY;
    return 0;
}

static int memory_limit(const char *text, size_t bytes, struct monitor_sample *sample)
{
    uint64_t found;
    if (counters_limit(text, bytes, &found) < 0)
        return -EBADMSG;
    sample->memory_limit_bytes = found > V1_LIMIT_NONE ? 0 : found;
    sample->groups |= MONITOR_MEMORY_LIMIT;
    return 0;
}

/* The first three must be there, the others are as old as their kernel. */
enum { STAT_RSS, STAT_CACHE, STAT_INACTIVE_FILE, STAT_NEEDED, STAT_MAPPED = STAT_NEEDED, STAT_ACTIVE_FILE };

static int memory_stat(const char *text, size_t bytes, struct monitor_sample *sample,
                       struct counters_key *keys, size_t count)
{
    if (counters_keyed(text, bytes, keys, count) < 0)
        return -EBADMSG;
    for (size_t i = 0; i < STAT_NEEDED; i++) {
        if (!keys[i].found)
            return -EBADMSG;
    }
    sample->memory_rss_bytes = keys[STAT_RSS].value;
    sample->memory_cache_bytes = keys[STAT_CACHE].value;
    sample->memory_inactive_file_bytes = keys[STAT_INACTIVE_FILE].value;
    sample->groups |= MONITOR_MEMORY_STAT;
    if (keys[STAT_MAPPED].found && keys[STAT_ACTIVE_FILE].found) {
        sample->memory_mapped_file_bytes = keys[STAT_MAPPED].value;
        sample->memory_active_file_bytes = keys[STAT_ACTIVE_FILE].value;
        sample->groups |= MONITOR_MEMORY_DETAIL;
    }
    return 0;
}

static void faults(const struct counters_key *minor, const struct counters_key *major,
                   struct monitor_sample *sample)
{
    if (!minor->found || !major->found)
        return;
    sample->page_faults = minor->value;
    sample->major_faults = major->value;
    sample->groups |= MONITOR_FAULTS;
}

static int v1_memory_stat(const char *text, size_t bytes, struct monitor_sample *sample)
{
    /* total_ is with the groups below, as memory.usage_in_bytes is. */
    struct counters_key keys[] = {{.name = "total_rss"},           {.name = "total_cache"},
                                  {.name = "total_inactive_file"}, {.name = "total_mapped_file"},
                                  {.name = "total_active_file"},   {.name = "total_pgfault"},
                                  {.name = "total_pgmajfault"},    {.name = "total_swap"}};
    const int r = memory_stat(text, bytes, sample, keys, MST_ARRAY_COUNT(keys));
    if (r < 0)
        return r;
    faults(&keys[5], &keys[6], sample);
    if (keys[7].found) {
        sample->memory_swap_bytes = keys[7].value;
        sample->groups |= MONITOR_SWAP;
    }
    return 0;
}

static int v2_memory_stat(const char *text, size_t bytes, struct monitor_sample *sample)
{
    struct counters_key keys[] = {{.name = "anon"},
                                  {.name = "file"},
                                  {.name = "inactive_file"},
                                  {.name = "file_mapped"},
                                  {.name = "active_file"},
                                  {.name = "pgfault"},
                                  {.name = "pgmajfault"},
                                  {.name = "kernel"},
                                  {.name = "file_dirty"},
                                  {.name = "file_writeback"},
                                  {.name = "pgscan"},
                                  {.name = "pgsteal"},
                                  {.name = "workingset_refault_file"},
                                  {.name = "workingset_refault_anon"}};
    const int r = memory_stat(text, bytes, sample, keys, MST_ARRAY_COUNT(keys));
    if (r < 0)
        return r;
    faults(&keys[5], &keys[6], sample);
    if (keys[7].found) {
        sample->memory_kernel_bytes = keys[7].value;
        sample->groups |= MONITOR_KERNEL;
    }
    bool has_all = true;
    for (size_t i = 8; i < MST_ARRAY_COUNT(keys); i++)
        has_all = has_all && keys[i].found;
    if (!has_all)
        return 0;
    sample->file_dirty_bytes = keys[8].value;
    sample->file_writeback_bytes = keys[9].value;
    sample->pages_scanned = keys[10].value;
    sample->pages_stolen = keys[11].value;
    sample->refaults_file = keys[12].value;
    sample->refaults_anon = keys[13].value;
    sample->groups |= MONITOR_RECLAIM;
    return 0;
}

static struct counters_io io_of(const struct monitor_sample *sample)
{
    return (struct counters_io){.devices = sample->devices, .device_count = sample->device_count};
}

/* v1 counts in the throttling layer (since Linux 6.10 only where a limit was set) and in BFQ (only where a
 * device uses it). What passes both is counted by both, so the larger of the two is nearest to the truth. */
static int v1_io(const char *text, size_t bytes, struct monitor_sample *sample)
{
    struct counters_io io = io_of(sample);
    if (counters_blkio(text, bytes, &io) < 0)
        return -EBADMSG;
    if (!(sample->groups & MONITOR_IO) || io.read_bytes > sample->io_read_bytes)
        sample->io_read_bytes = io.read_bytes;
    if (!(sample->groups & MONITOR_IO) || io.write_bytes > sample->io_write_bytes)
        sample->io_write_bytes = io.write_bytes;
    sample->device_count = io.device_count;
    sample->groups |= MONITOR_IO;
    return 0;
}

static int v1_io_counts(const char *text, size_t bytes, struct monitor_sample *sample)
{
    struct counters_io io = io_of(sample);
    if (counters_blkio_counts(text, bytes, &io) < 0)
        return -EBADMSG;
    sample->device_count = io.device_count;
    sample->groups |= MONITOR_IO_COUNTS;
    return 0;
}

static int v2_io(const char *text, size_t bytes, struct monitor_sample *sample)
{
    struct counters_io io = io_of(sample);
    if (counters_io_stat(text, bytes, &io) < 0)
        return -EBADMSG;
    sample->io_read_bytes = io.read_bytes;
    sample->io_write_bytes = io.write_bytes;
    sample->device_count = io.device_count;
    sample->groups |= MONITOR_IO | MONITOR_IO_COUNTS;
    return 0;
}

/* ---- one number a file ---- */

static int number(const char *text, size_t bytes, uint64_t *value, unsigned group,
                  struct monitor_sample *sample)
{
    if (counters_number(text, bytes, value) < 0)
        return -EBADMSG;
    sample->groups |= group;
    return 0;
}

/* 0 where there is none. */
static int limit(const char *text, size_t bytes, uint64_t *value, unsigned group,
                 struct monitor_sample *sample)
{
    uint64_t found;
    if (counters_limit(text, bytes, &found) < 0)
        return -EBADMSG;
    *value = found > V1_LIMIT_NONE ? 0 : found;
    sample->groups |= group;
    return 0;
}

#define READER(name, how, field, group)                                                                      \
    static int name(const char *text, size_t bytes, struct monitor_sample *sample)                           \
    {                                                                                                        \
        return how(text, bytes, &sample->field, group, sample);                                              \
    }

READER(memory_peak, number, memory_peak_bytes, MONITOR_MEMORY_PEAK)
READER(v1_failcnt, number, memory_failcnt, MONITOR_FAILCNT)
READER(v1_kernel, number, memory_kernel_bytes, MONITOR_KERNEL)
READER(v2_swap, number, memory_swap_bytes, MONITOR_SWAP)
READER(swap_limit, limit, swap_limit_bytes, MONITOR_SWAP_LIMIT)
READER(reservation, limit, reservation_bytes, MONITOR_RESERVATION)
READER(threads, number, threads, MONITOR_THREADS)
READER(threads_max, limit, threads_max, MONITOR_THREADS_MAX)
READER(v1_period, number, cpu_period_us, MONITOR_CPU_QUOTA)
READER(v1_shares, number, cpu_shares, MONITOR_CPU_SHARES)

/* ---- the others ---- */

static int v1_quota(const char *text, size_t bytes, struct monitor_sample *sample)
{
    sample->cpu_quota_us = 0;
    if (bytes == 3 && memcmp(text, "-1\n", 3) == 0)
        return 0;
    return counters_number(text, bytes, &sample->cpu_quota_us);
}

static int v2_quota(const char *text, size_t bytes, struct monitor_sample *sample)
{
    if (counters_cpu_max(text, bytes, &sample->cpu_quota_us, &sample->cpu_period_us) < 0)
        return -EBADMSG;
    sample->groups |= MONITOR_CPU_QUOTA;
    return 0;
}

/* Docker's own conversion of shares (2 to 262144) to weight (1 to 10000), the other way round. */
static int v2_weight(const char *text, size_t bytes, struct monitor_sample *sample)
{
    uint64_t weight;
    if (counters_number(text, bytes, &weight) < 0 || weight < 1 || weight > 10000)
        return -EBADMSG;
    sample->cpu_shares = 2 + (weight - 1) * 262142 / 9999;
    sample->groups |= MONITOR_CPU_SHARES;
    return 0;
}

static int v1_oom(const char *text, size_t bytes, struct monitor_sample *sample)
{
    struct counters_key keys[] = {{.name = "oom_kill"}};
    if (counters_keyed(text, bytes, keys, MST_ARRAY_COUNT(keys)) < 0)
        return -EBADMSG;
    if (!keys[0].found) /* before Linux 4.13 */
        return 0;
    sample->oom_kills = keys[0].value;
    sample->groups |= MONITOR_OOM;
    return 0;
}

static int v2_events(const char *text, size_t bytes, struct monitor_sample *sample)
{
    struct counters_key keys[] = {{.name = "high"}, {.name = "max"}, {.name = "oom_kill"}};
    if (counters_keyed(text, bytes, keys, MST_ARRAY_COUNT(keys)) < 0 || !keys[0].found || !keys[1].found ||
        !keys[2].found)
        return -EBADMSG;
    sample->memory_events_high = keys[0].value;
    sample->memory_events_max = sample->memory_failcnt = keys[1].value;
    sample->oom_kills = keys[2].value;
    sample->groups |= MONITOR_MEMORY_EVENTS | MONITOR_FAILCNT | MONITOR_OOM;
    return 0;
}

static int v2_cpu_pressure(const char *text, size_t bytes, struct monitor_sample *sample)
{
    if (counters_pressure(text, bytes, &sample->cpu_waiting_us, &sample->cpu_stalled_us) < 0)
        return -EBADMSG;
    sample->groups |= MONITOR_CPU_PRESSURE;
    return 0;
}

static int v2_memory_pressure(const char *text, size_t bytes, struct monitor_sample *sample)
{
    if (counters_pressure(text, bytes, &sample->memory_waiting_us, &sample->memory_stalled_us) < 0)
        return -EBADMSG;
    sample->groups |= MONITOR_MEMORY_PRESSURE;
    return 0;
}

static int v2_io_pressure(const char *text, size_t bytes, struct monitor_sample *sample)
{
    if (counters_pressure(text, bytes, &sample->io_waiting_us, &sample->io_stalled_us) < 0)
        return -EBADMSG;
    sample->groups |= MONITOR_IO_PRESSURE;
    return 0;
}

#define DETAIL (MONITOR_FAULTS | MONITOR_MEMORY_DETAIL)

const struct cgroup_file cgroup_files[] = {
    {"cpuacct", "cpuacct.usage", MONITOR_CPU, 0, v1_cpu_usage},
    {"cpuacct", "cpuacct.stat", MONITOR_CPU_SPLIT, 0, v1_cpu_split},
    {"cpu", "cpu.stat", MONITOR_THROTTLING, 0, v1_throttling},
    {"cpu", "cpu.cfs_period_us", MONITOR_CPU_QUOTA, 0, v1_period},
    {"cpu", "cpu.cfs_quota_us", MONITOR_CPU_QUOTA, 0, v1_quota},
    {"cpu", "cpu.shares", MONITOR_CPU_SHARES, 0, v1_shares},
    {"memory", "memory.usage_in_bytes", MONITOR_MEMORY, 0, memory_usage},
    {"memory", "memory.stat", MONITOR_MEMORY_STAT, DETAIL | MONITOR_SWAP, v1_memory_stat},
    {"memory", "memory.limit_in_bytes", MONITOR_MEMORY_LIMIT, 0, memory_limit},
    {"memory", "memory.max_usage_in_bytes", MONITOR_MEMORY_PEAK, 0, memory_peak},
    {"memory", "memory.failcnt", MONITOR_FAILCNT, 0, v1_failcnt},
    {"memory", "memory.kmem.usage_in_bytes", MONITOR_KERNEL, 0, v1_kernel},
    {"memory", "memory.oom_control", MONITOR_OOM, 0, v1_oom},
    {"memory", "memory.memsw.limit_in_bytes", MONITOR_SWAP_LIMIT, 0, swap_limit},
    {"memory", "memory.soft_limit_in_bytes", MONITOR_RESERVATION, 0, reservation},
    {"blkio", "blkio.throttle.io_service_bytes_recursive", MONITOR_IO, 0, v1_io},
    {"blkio", "blkio.bfq.io_service_bytes_recursive", MONITOR_IO, 0, v1_io},
    {"blkio", "blkio.throttle.io_serviced_recursive", MONITOR_IO_COUNTS, 0, v1_io_counts},
    {"blkio", "blkio.bfq.io_serviced_recursive", MONITOR_IO_COUNTS, 0, v1_io_counts},
    {"pids", "pids.current", MONITOR_THREADS, 0, threads},
    {"pids", "pids.max", MONITOR_THREADS_MAX, 0, threads_max},
    {"", "cpu.stat", MONITOR_CPU, MONITOR_CPU_SPLIT | MONITOR_THROTTLING | MONITOR_BURST, v2_cpu},
    {"", "cpu.max", MONITOR_CPU_QUOTA, 0, v2_quota},
    {"", "cpu.weight", MONITOR_CPU_SHARES, 0, v2_weight},
    {"", "memory.current", MONITOR_MEMORY, 0, memory_usage},
    {"", "memory.stat", MONITOR_MEMORY_STAT, DETAIL | MONITOR_KERNEL | MONITOR_RECLAIM, v2_memory_stat},
    {"", "memory.max", MONITOR_MEMORY_LIMIT, 0, memory_limit},
    {"", "memory.peak", MONITOR_MEMORY_PEAK, 0, memory_peak},
    {"", "memory.swap.current", MONITOR_SWAP, 0, v2_swap},
    {"", "memory.swap.max", MONITOR_SWAP_LIMIT, 0, swap_limit},
    {"", "memory.low", MONITOR_RESERVATION, 0, reservation}, /* where Docker writes the reservation */
    {"", "memory.events", MONITOR_MEMORY_EVENTS, MONITOR_FAILCNT | MONITOR_OOM, v2_events},
    {"", "io.stat", MONITOR_IO, MONITOR_IO_COUNTS, v2_io},
    {"", "pids.current", MONITOR_THREADS, 0, threads},
    {"", "pids.max", MONITOR_THREADS_MAX, 0, threads_max},
    {"", "cpu.pressure", MONITOR_CPU_PRESSURE, 0, v2_cpu_pressure},
    {"", "memory.pressure", MONITOR_MEMORY_PRESSURE, 0, v2_memory_pressure},
    {"", "io.pressure", MONITOR_IO_PRESSURE, 0, v2_io_pressure},
};
const size_t cgroup_file_count = MST_ARRAY_COUNT(cgroup_files);
_Static_assert(MST_ARRAY_COUNT(cgroup_files) <= CGROUP_FILES_MAX,
               "struct cgroup holds a descriptor for each");
