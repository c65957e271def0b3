/* SPDX-License-Identifier: Apache-2.0 */
#include "muster/monitor.h"
#include "output.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

void monitor_emit_init(struct monitor_emit *emit, struct mst_event_sink *sink, const char *node, int stop_fd)
{
    *emit = (struct monitor_emit){
        .sink = sink, .stop_fd = stop_fd, .node = node, .machine_bytes = output_machine_bytes()};
}

/* As text: cJSON keeps numbers as doubles, which skip whole numbers above 2^53. */
static bool add_u64(cJSON *event, const char *key, uint64_t value)
{
    char text[sizeof "18446744073709551615"];
    (void)snprintf(text, sizeof text, "%" PRIu64, value);
    return cJSON_AddRawToObject(event, key, text) != NULL;
}

static bool add_text(cJSON *event, const char *key, const char *text)
{
    return cJSON_AddStringToObject(event, key, text) != NULL;
}

static bool add_names(cJSON *event, const char *node, const struct monitor_container *container)
{
    return add_text(event, "node", node) && add_text(event, "container", container->id) &&
           add_text(event, "name", container->name) && add_text(event, "service", container->service) &&
           add_text(event, "stack", container->stack) && add_text(event, "task_slot", container->slot) &&
           add_text(event, "started_at", container->started_at);
}

static bool add_cpu(cJSON *event, const struct monitor_sample *sample)
{
    bool ok = true;
    if (sample->groups & MONITOR_CPU)
        ok = add_u64(event, "cpu_ns", sample->cpu_ns);
    if (sample->groups & MONITOR_CPU_SPLIT)
        ok = ok && add_u64(event, "cpu_user_ns", sample->cpu_user_ns) &&
             add_u64(event, "cpu_system_ns", sample->cpu_system_ns);
    if (sample->groups & MONITOR_THROTTLING)
        ok = ok && add_u64(event, "cfs_periods", sample->cfs_periods) &&
             add_u64(event, "cfs_throttled_periods", sample->cfs_throttled) &&
             add_u64(event, "cfs_throttled_ns", sample->cfs_throttled_ns);
    return ok;
}

static bool add_memory(cJSON *event, const struct monitor_sample *sample, uint64_t machine_bytes)
{
    uint64_t used, limit;
    bool ok = true;
    if (monitor_memory_used(sample, &used))
        ok = add_u64(event, "memory_bytes", used) &&
             add_u64(event, "memory_usage_bytes", sample->memory_usage_bytes);
    if (sample->groups & MONITOR_MEMORY_STAT)
        ok = ok && add_u64(event, "memory_rss_bytes", sample->memory_rss_bytes) &&
             add_u64(event, "memory_cache_bytes", sample->memory_cache_bytes);
    if (monitor_memory_limit(sample, machine_bytes, &limit))
        ok = ok && add_u64(event, "memory_limit_bytes", limit);
    return ok;
}

static bool add_traffic(cJSON *event, const struct monitor_sample *sample)
{
    bool ok = true;
    if (sample->groups & MONITOR_IO)
        ok = add_u64(event, "io_read_bytes", sample->io_read_bytes) &&
             add_u64(event, "io_write_bytes", sample->io_write_bytes);
    if (sample->groups & MONITOR_NETWORK)
        ok = ok && add_u64(event, "rx_bytes", sample->rx_bytes) &&
             add_u64(event, "tx_bytes", sample->tx_bytes) &&
             add_u64(event, "rx_packets", sample->rx_packets) &&
             add_u64(event, "tx_packets", sample->tx_packets);
    return ok;
}

static int emit_sample(void *context, const struct monitor_sample *sample,
                       const struct monitor_sample *before, struct mst_error *err)
{
    struct monitor_emit *emit = context;
    (void)before; /* events carry raw counters; who reads them knows the one before */
    int r = emit->sink->fd >= 0 ? output_wait(emit->sink->fd, emit->stop_fd) : 0;
    if (r < 0)
        return r;
    cJSON *event = mst_event_new(emit->sink, "sample");
    if (!event || !add_names(event, emit->node, sample->container) ||
        !add_u64(event, "read_ns", sample->read_ns) || !add_cpu(event, sample) ||
        !add_memory(event, sample, emit->machine_bytes) || !add_traffic(event, sample)) {
        cJSON_Delete(event);
        return mst_error_set(err, -ENOMEM, "sample of '%s': no memory", sample->container->name);
    }
    /* The moment of reading, not of writing: rates are made from it. */
    (void)cJSON_SetNumberValue(cJSON_GetObjectItemCaseSensitive(event, "t"),
                               round(sample->wall_s * 1000) / 1000);
    r = mst_event_emit(emit->sink, event);
    if (r == -EMSGSIZE) { /* labels are anybody's text: one container must not silence the others */
        emit->oversized++;
        return 0;
    }
    return r < 0 ? mst_error_errno(err, r, "write samples") : 0;
}

static int emit_flush(void *context, struct mst_error *err)
{
    (void)context;
    (void)err;
    return 0; /* each event is written as it is made */
}

struct monitor_output monitor_emit_output(struct monitor_emit *emit)
{
    return (struct monitor_output){.sample = emit_sample, .flush = emit_flush, .context = emit};
}
