/* SPDX-License-Identifier: Apache-2.0 */
#include "cgroup.h"

#include "cgroup_path.h"
#include "counters.h"
#include "muster/cleanup.h"
#include "muster/clock.h"
#include "source.h"

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
                                  {.name = "nr_throttled"}, {.name = "throttled_usec"}};
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
    uint64_t limit;
    if (counters_limit(text, bytes, &limit) < 0)
        return -EBADMSG;
    sample->memory_limit_bytes = limit > V1_LIMIT_NONE ? 0 : limit;
    sample->groups |= MONITOR_MEMORY_LIMIT;
    return 0;
}

static int memory_stat(const char *text, size_t bytes, struct monitor_sample *sample,
                       const char *const names[static 3])
{
    struct counters_key keys[] = {{.name = names[0]}, {.name = names[1]}, {.name = names[2]}};
    if (counters_keyed(text, bytes, keys, MST_ARRAY_COUNT(keys)) < 0 || !keys[0].found || !keys[1].found ||
        !keys[2].found)
        return -EBADMSG;
    sample->memory_rss_bytes = keys[0].value;
    sample->memory_cache_bytes = keys[1].value;
    sample->memory_inactive_file_bytes = keys[2].value;
    sample->groups |= MONITOR_MEMORY_STAT;
    return 0;
}

static int v1_memory_stat(const char *text, size_t bytes, struct monitor_sample *sample)
{
    /* total_ is with the groups below, as memory.usage_in_bytes is. */
    return memory_stat(text, bytes, sample,
                       (const char *const[]){"total_rss", "total_cache", "total_inactive_file"});
}

static int v2_memory_stat(const char *text, size_t bytes, struct monitor_sample *sample)
{
    return memory_stat(text, bytes, sample, (const char *const[]){"anon", "file", "inactive_file"});
}

/* v1 counts in the throttling layer (since Linux 6.10 only where a limit was set) and in BFQ (only where a
 * device uses it). What passes both is counted by both, so the larger of the two is nearest to the truth. */
static int v1_io(const char *text, size_t bytes, struct monitor_sample *sample)
{
    struct counters_io io;
    if (counters_blkio(text, bytes, &io) < 0)
        return -EBADMSG;
    if (!(sample->groups & MONITOR_IO) || io.read_bytes > sample->io_read_bytes)
        sample->io_read_bytes = io.read_bytes;
    if (!(sample->groups & MONITOR_IO) || io.write_bytes > sample->io_write_bytes)
        sample->io_write_bytes = io.write_bytes;
    sample->groups |= MONITOR_IO;
    return 0;
}

static int v2_io(const char *text, size_t bytes, struct monitor_sample *sample)
{
    struct counters_io io;
    if (counters_io_stat(text, bytes, &io) < 0)
        return -EBADMSG;
    sample->io_read_bytes = io.read_bytes;
    sample->io_write_bytes = io.write_bytes;
    sample->groups |= MONITOR_IO;
    return 0;
}

/* ---- the files that are known ---- */

struct cgroup_file {
    const char *controller; /* "" is v2 */
    const char *name;
    unsigned group; /* what it mainly gives: v2 is asked only for what v1 did not give */
    int (*read)(const char *text, size_t bytes, struct monitor_sample *sample);
};

static const struct cgroup_file files[] = {
    {"cpuacct", "cpuacct.usage", MONITOR_CPU, v1_cpu_usage},
    {"cpuacct", "cpuacct.stat", MONITOR_CPU_SPLIT, v1_cpu_split},
    {"cpu", "cpu.stat", MONITOR_THROTTLING, v1_throttling},
    {"memory", "memory.usage_in_bytes", MONITOR_MEMORY, memory_usage},
    {"memory", "memory.stat", MONITOR_MEMORY_STAT, v1_memory_stat},
    {"memory", "memory.limit_in_bytes", MONITOR_MEMORY_LIMIT, memory_limit},
    {"blkio", "blkio.throttle.io_service_bytes_recursive", MONITOR_IO, v1_io},
    {"blkio", "blkio.bfq.io_service_bytes_recursive", MONITOR_IO, v1_io},
    {"", "cpu.stat", MONITOR_CPU, v2_cpu},
    {"", "memory.current", MONITOR_MEMORY, memory_usage},
    {"", "memory.stat", MONITOR_MEMORY_STAT, v2_memory_stat},
    {"", "memory.max", MONITOR_MEMORY_LIMIT, memory_limit},
    {"", "io.stat", MONITOR_IO, v2_io},
};
_Static_assert(MST_ARRAY_COUNT(files) <= CGROUP_SOURCES_MAX, "struct cgroup must hold a descriptor for each");

int cgroup_open(struct cgroup *cgroup, const char *sysfs, const char *text, size_t bytes, const char *id)
{
    *cgroup = (struct cgroup){0};
    const char *controller = NULL;
    char folder[PATH_MAX];
    int found = -ENOENT;
    unsigned groups_of_v1 = 0;
    for (size_t i = 0; i < MST_ARRAY_COUNT(files); i++) {
        const struct cgroup_file *file = &files[i];
        if (!controller || strcmp(controller, file->controller) != 0) {
            controller = file->controller;
            found = cgroup_path_find(sysfs, text, bytes, controller, id, folder);
        }
        const bool is_v1 = *file->controller != '\0';
        if (found < 0 || (!is_v1 && (groups_of_v1 & file->group)))
            continue;
        const int fd = source_open(folder, file->name);
        if (fd == -EMFILE || fd == -ENFILE) {
            cgroup_close(cgroup);
            return fd;
        }
        if (fd < 0)
            continue;
        cgroup->sources[cgroup->count].file = file;
        cgroup->sources[cgroup->count++].fd = fd;
        if (is_v1)
            groups_of_v1 |= file->group;
    }
    if (cgroup->count > 0)
        return 0;
    return found < 0 ? found : -ENOENT;
}

void cgroup_close(struct cgroup *cgroup)
{
    for (size_t i = 0; i < cgroup->count; i++)
        (void)close(cgroup->sources[i].fd);
    cgroup->count = 0;
}

int cgroup_read(const struct cgroup *cgroup, struct mst_buf *scratch, struct monitor_sample *sample,
                size_t *ret_faults)
{
    size_t faults = 0;
    for (size_t i = 0; i < cgroup->count; i++) {
        int r = source_read(cgroup->sources[i].fd, scratch);
        /* v1 removes a container's groups one after the other: half of them is no sample. */
        if (source_is_gone(r))
            return -ENODEV;
        if (r == 0)
            r = cgroup->sources[i].file->read(mst_buf_text(scratch), scratch->count, sample);
        if (r < 0)
            faults++;
    }
    *ret_faults = faults;
    return 0;
}
