/* SPDX-License-Identifier: Apache-2.0 */
#include "api.h"

#include "counters.h"
#include "muster/cleanup.h"
#include "muster/clock.h"
#include "muster/json.h"
#include "muster/log.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define API_REPLY_MAX_BYTES ((size_t)1 << 20)
#define API_PATIENCE_NS     (2 * MST_NS_PER_S)

/* True, and the value, when the key is there. cJSON keeps numbers as doubles: beyond 2^53 the last digits are
 * lost, which is 100 days of CPU time in ns, or 8 PiB. Limits near 2^64 mean "none" and stay above 2^62. */
static bool take(const cJSON *object, const char *key, uint64_t *ret_value)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, key);
    if (!cJSON_IsNumber(item) || !(item->valuedouble >= 0))
        return false;
    *ret_value = item->valuedouble >= 18446744073709549568.0 ? UINT64_MAX : (uint64_t)item->valuedouble;
    return true;
}

static void take_cpu(const cJSON *stats, struct monitor_sample *sample)
{
    const cJSON *usage = mst_json_at(stats, "cpu_usage", NULL),
                *throttling = mst_json_at(stats, "throttling_data", NULL);
    if (take(usage, "total_usage", &sample->cpu_ns))
        sample->groups |= MONITOR_CPU;
    if (take(usage, "usage_in_usermode", &sample->cpu_user_ns) &&
        take(usage, "usage_in_kernelmode", &sample->cpu_system_ns))
        sample->groups |= MONITOR_CPU_SPLIT;
    if (!take(stats, "system_cpu_usage", &sample->system_cpu_ns) ||
        !take(stats, "online_cpus", &sample->online_cpus))
        sample->system_cpu_ns = sample->online_cpus = 0;
    if (take(throttling, "periods", &sample->cfs_periods) &&
        take(throttling, "throttled_periods", &sample->cfs_throttled) &&
        take(throttling, "throttled_time", &sample->cfs_throttled_ns))
        sample->groups |= MONITOR_THROTTLING;
}

/* v1 has total_ with the groups below, v2 other names. */
static bool take_either(const cJSON *stats, const char *v1, const char *v2, uint64_t *ret_value)
{
    return take(stats, v1, ret_value) || take(stats, v2, ret_value);
}

static void take_memory(const cJSON *memory, struct monitor_sample *sample)
{
    const cJSON *stats = mst_json_at(memory, "stats", NULL);
    uint64_t limit;
    if (take(memory, "usage", &sample->memory_usage_bytes))
        sample->groups |= MONITOR_MEMORY;
    if (take(memory, "limit", &limit)) {
        sample->memory_limit_bytes = limit > (UINT64_C(1) << 62) ? 0 : limit;
        sample->groups |= MONITOR_MEMORY_LIMIT;
    }
    if (take(memory, "max_usage", &sample->memory_peak_bytes))
        sample->groups |= MONITOR_MEMORY_PEAK;
    if (take(memory, "failcnt", &sample->memory_failcnt))
        sample->groups |= MONITOR_FAILCNT;
    if (take_either(stats, "total_rss", "anon", &sample->memory_rss_bytes) &&
        take_either(stats, "total_cache", "file", &sample->memory_cache_bytes) &&
        take_either(stats, "total_inactive_file", "inactive_file", &sample->memory_inactive_file_bytes))
        sample->groups |= MONITOR_MEMORY_STAT;
    if (take_either(stats, "total_mapped_file", "file_mapped", &sample->memory_mapped_file_bytes) &&
        take_either(stats, "total_active_file", "active_file", &sample->memory_active_file_bytes))
        sample->groups |= MONITOR_MEMORY_DETAIL;
    if (take_either(stats, "total_pgfault", "pgfault", &sample->page_faults) &&
        take_either(stats, "total_pgmajfault", "pgmajfault", &sample->major_faults))
        sample->groups |= MONITOR_FAULTS;
}

/* Operations are "Read" on v1 and "read" on v2. */
static bool take_blkio(const cJSON *list, bool is_counts, struct counters_io *io)
{
    const cJSON *entry;
    bool has_any = false;
    cJSON_ArrayForEach(entry, list)
    {
        const char *operation = mst_json_string_or(entry, "op", "");
        uint64_t major, minor, value;
        const bool is_read = strcasecmp(operation, "read") == 0;
        if ((!is_read && strcasecmp(operation, "write") != 0) || !take(entry, "major", &major) ||
            !take(entry, "minor", &minor) || !take(entry, "value", &value) || major > UINT32_MAX ||
            minor > UINT32_MAX)
            continue;
        has_any = true;
        struct monitor_device *device = counters_device(io, (uint32_t)major, (uint32_t)minor);
        if (device && is_counts)
            *(is_read ? &device->reads : &device->writes) = value;
        else if (device)
            *(is_read ? &device->read_bytes : &device->write_bytes) = value;
        if (!is_counts && __builtin_add_overflow(is_read ? io->read_bytes : io->write_bytes, value,
                                                 is_read ? &io->read_bytes : &io->write_bytes))
            return false;
    }
    return has_any;
}

static void take_io(const cJSON *blkio, struct monitor_sample *sample)
{
    struct counters_io io = {.devices = sample->devices};
    const cJSON *bytes = mst_json_at(blkio, "io_service_bytes_recursive", NULL);
    /* Nothing was read or written so far: the Engine sends null then, and Docker's own client shows zeros. */
    const bool is_empty = cJSON_IsObject(blkio) && cJSON_GetArraySize(bytes) == 0;
    if (!is_empty && !take_blkio(bytes, false, &io))
        return;
    if (take_blkio(mst_json_at(blkio, "io_serviced_recursive", NULL), true, &io))
        sample->groups |= MONITOR_IO_COUNTS;
    sample->device_count = io.device_count;
    sample->io_read_bytes = io.read_bytes;
    sample->io_write_bytes = io.write_bytes;
    sample->groups |= MONITOR_IO;
}

/* Errors are left out: on Linux the Engine never fills them in. */
static void take_networks(const cJSON *networks, struct monitor_sample *sample)
{
    const cJSON *network;
    cJSON_ArrayForEach(network, networks)
    {
        struct monitor_interface entry = {0};
        if (!take(network, "rx_bytes", &entry.rx_bytes) || !take(network, "tx_bytes", &entry.tx_bytes) ||
            !take(network, "rx_packets", &entry.rx_packets) ||
            !take(network, "tx_packets", &entry.tx_packets))
            continue;
        (void)take(network, "rx_dropped", &entry.rx_dropped);
        (void)take(network, "tx_dropped", &entry.tx_dropped);
        (void)snprintf(entry.name, sizeof entry.name, "%s", network->string);
        sample->rx_bytes += entry.rx_bytes;
        sample->tx_bytes += entry.tx_bytes;
        sample->rx_packets += entry.rx_packets;
        sample->tx_packets += entry.tx_packets;
        sample->rx_dropped += entry.rx_dropped;
        sample->tx_dropped += entry.tx_dropped;
        sample->groups |= MONITOR_NETWORK;
        if (sample->interface_count < MONITOR_INTERFACES_MAX)
            sample->interfaces[sample->interface_count++] = entry;
    }
}

int api_sample(const char *json, size_t bytes, struct monitor_sample *sample, struct mst_error *err)
{
    mst_cleanup(mst_json_deletep) cJSON *stats = NULL;
    const int r = mst_json_parse(json, bytes, "stats", &stats, err);
    if (r < 0)
        return r;
    if (!cJSON_IsObject(stats) || !mst_json_at(stats, "cpu_stats", NULL))
        return mst_error_set(err, -EBADMSG, "stats: not an object with cpu_stats");
    if (strncmp(mst_json_string_or(stats, "read", "0001-"), "0001-", 5) == 0)
        return mst_error_set(err, -ENODEV, "stats: of a container that does not run");
    sample->groups = 0;
    sample->interface_count = sample->device_count = 0;
    take_cpu(mst_json_at(stats, "cpu_stats", NULL), sample);
    take_memory(mst_json_at(stats, "memory_stats", NULL), sample);
    take_io(mst_json_at(stats, "blkio_stats", NULL), sample);
    take_networks(mst_json_at(stats, "networks", NULL), sample);
    const cJSON *pids = mst_json_at(stats, "pids_stats", NULL);
    if (take(pids, "current", &sample->threads))
        sample->groups |= MONITOR_THREADS;
    if (take(pids, "limit", &sample->threads_max)) {
        sample->threads_max = sample->threads_max > (UINT64_C(1) << 62) ? 0 : sample->threads_max;
        sample->groups |= MONITOR_THREADS_MAX;
    }
    return 0;
}

/* ---- asking ---- */

struct question {
    char id[MONITOR_ID_BYTES];
    struct engine_stream *stream; /* NULL: answered */
    size_t *open;
    struct mst_buf reply;
    int code;
    double wall_s; /* of the answer */
    uint64_t read_ns;
};

static int on_bytes(void *context, const void *bytes, size_t count, struct mst_error *err)
{
    const int r = mst_buf_append(&((struct question *)context)->reply, bytes, count);
    return r < 0 ? mst_error_errno(err, r, "stats") : 0;
}

static void on_end(void *context, int code, int status, const struct mst_error *err)
{
    struct question *question = context;
    (void)status;
    if (code < 0)
        mst_log_debug("monitor", "stats of container %.12s: %s", question->id, err->text);
    question->code = code;
    question->wall_s = mst_wall_s();
    question->read_ns = mst_now_ns();
    question->stream = NULL;
    (*question->open)--;
}

static void take_answer(struct roster *roster, const struct question *question)
{
    struct target *target = roster_find(roster, question->id);
    struct mst_error err = MST_ERROR_INIT;
    if (!target || question->code < 0)
        return;
    struct monitor_sample sample = {.container = &target->info,
                                    .wall_s = question->wall_s,
                                    .read_ns = question->read_ns,
                                    .interfaces = target->interfaces,
                                    .devices = target->cgroup.devices};
    const int r = api_sample(mst_buf_text(&question->reply), question->reply.count, &sample, &err);
    if (r == 0) {
        target->remote = sample;
        if (roster->memory_bytes > 0 && sample.memory_limit_bytes >= roster->memory_bytes)
            target->remote.memory_limit_bytes = 0;
        if (target->info.network != MONITOR_NETWORK_OWN)
            target->remote.groups &= ~(unsigned)MONITOR_NETWORK;
    } else if (r != -ENODEV) {
        target->faults++;
        mst_log_debug("monitor", "container '%s': %s", target->info.name, err.text);
    }
}

int api_ask(struct roster *roster, struct engine_streams *streams, struct mst_error *err)
{
    const size_t count = roster->count; /* events may change the roster while we wait */
    const uint64_t deadline_ns = mst_now_ns() + API_PATIENCE_NS;
    size_t open = 0;
    struct question *questions = calloc(count + 1, sizeof *questions);
    if (!questions)
        return mst_error_set(err, -ENOMEM, "ask for stats: no memory");
    for (size_t i = 0; i < count; i++) {
        struct question *question = &questions[i];
        char path[64 + MONITOR_ID_BYTES];
        question->reply = (struct mst_buf)MST_BUF_INIT(API_REPLY_MAX_BYTES);
        question->open = &open;
        question->code = -EAGAIN;
        roster->targets[i]->remote.groups = 0;
        memcpy(question->id, roster->targets[i]->info.id, sizeof question->id);
        (void)snprintf(path, sizeof path, "/containers/%s/stats", question->id);
        const struct engine_call call = {.method = "GET", .path = path, .query = "stream=0&one-shot=1"};
        if (engine_stream_open(streams, &call, on_bytes, on_end, question, &question->stream, NULL) == 0)
            open++;
    }
    int r = 0;
    while (r == 0 && open > 0 && mst_now_ns() < deadline_ns)
        r = engine_streams_run(streams, mst_ms_until(deadline_ns, 1000), NULL, err);
    for (size_t i = 0; i < count; i++) {
        if (questions[i].stream)
            engine_stream_close(questions[i].stream);
        take_answer(roster, &questions[i]);
        mst_buf_release(&questions[i].reply);
    }
    free(questions);
    return r == -ECANCELED ? 0 : r;
}

int api_take(struct target *target, struct monitor_sample *ret_sample)
{
    if (target->remote.groups == 0)
        return -ENODATA;
    *ret_sample = target->remote;
    return 0;
}
