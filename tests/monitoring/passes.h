/* SPDX-License-Identifier: Apache-2.0 */
/* A pass over some containers with a value in every field, for tests of what is made of passes. */
#ifndef TEST_MONITORING_PASSES_H
#define TEST_MONITORING_PASSES_H

#include "record_format.h"
#include "test.h"

#define PASSES_MAX 8

struct made_pass {
    struct monitor_pass pass;
    struct monitor_sample samples[PASSES_MAX], before[PASSES_MAX];
    struct monitor_container containers[PASSES_MAX];
    struct monitor_interface interfaces[PASSES_MAX][2];
    struct monitor_device devices[PASSES_MAX][2];
    struct monitor_filesystem filesystems[PASSES_MAX][2];
    struct monitor_training training;
};

/* The machine first, then `count` - 1 containers. `tick` moves time and counters on. */
static inline void make_pass(struct made_pass *made, size_t count, uint64_t tick)
{
    memset(made, 0, sizeof *made);
    for (size_t i = 0; i < count; i++) {
        struct monitor_container *info = &made->containers[i];
        struct monitor_sample *sample = &made->samples[i];
        info->is_machine = i == 0;
        info->health = i == 1 ? MONITOR_HEALTH_GOOD : MONITOR_HEALTH_NONE;
        (void)snprintf(info->id, sizeof info->id, i == 0 ? "/" : "%064zx", i);
        if (i > 0) {
            (void)snprintf(info->name, sizeof info->name, "web.%zu", i);
            (void)snprintf(info->image, sizeof info->image, "shop/web:1@sha256:%zu", i);
            (void)snprintf(info->service, sizeof info->service, "shop_web");
            (void)snprintf(info->labels, sizeof info->labels,
                           "container_label_com_docker_swarm_service_name=\"shop_web\",");
            info->started_s = 1.7e9;
            info->created_s = 1.7e9 - 1;
        }
        (void)snprintf(info->cgroup, sizeof info->cgroup, i == 0 ? "/" : "/docker/%s", info->id);
        for (size_t f = 0; f < record_sample_fields.count; f++)
            record_set_field(sample, record_sample_fields.offsets[f], 1000000 * (f + 1) + tick * (f + i));
        sample->container = info;
        sample->wall_s = 1.8e9 + 0.25 + (double)tick;
        sample->read_ns = UINT64_C(1000000000) * (tick + 1) + i;
        sample->groups = MONITOR_GROUPS_ALL;
        sample->interfaces = made->interfaces[i];
        sample->interface_count = 2;
        sample->devices = made->devices[i];
        sample->device_count = 2;
        sample->filesystems = made->filesystems[i];
        sample->filesystem_count = 1 + tick % 2; /* one that comes and goes */
        for (size_t j = 0; j < 2; j++) {
            (void)snprintf(made->interfaces[i][j].name, MONITOR_INTERFACE_BYTES, "eth%zu", j);
            made->interfaces[i][j].rx_bytes = 4096 * (j + 1) + tick;
            made->devices[i][j] = (struct monitor_device){
                .major = 8, .minor = (uint32_t)j, .read_bytes = 512 * tick, .writes = tick};
            (void)snprintf(made->devices[i][j].name, MONITOR_DEVICE_BYTES, "/dev/sd%c", (char)('a' + j));
            made->devices[i][j].read_ms = 1500 + tick;
            made->devices[i][j].in_flight = tick % 2;
            made->filesystems[i][j] = (struct monitor_filesystem){
                .limit_bytes = 1000000, .used_bytes = 1000 * tick, .inodes = 100, .inodes_free = 99 - tick};
            (void)snprintf(made->filesystems[i][j].source, MONITOR_NAME_BYTES, "/dev/sd%c1", (char)('a' + j));
        }
    }
    (void)snprintf(made->training.slot, sizeof made->training.slot, "w1.1");
    made->training.groups = MONITOR_TRAINING_PROGRESS | MONITOR_TRAINING_VIEW;
    made->training.loss = 0.1 + 1.0 / (double)(tick + 1);
    made->training.ms_per_step = 21.7;
    made->training.members = 3;
    made->training.step = tick;
    made->training.gauge_count = 2;
    for (size_t i = 0; i < 2; i++) {
        (void)snprintf(made->training.gauges[i].name, MONITOR_GAUGE_BYTES, "gauge%zu", i);
        made->training.gauges[i].value = 0.5 - (double)(tick + i);
        made->training.gauges[i].reports = tick + 1;
    }
    struct monitor_machine machine = {.cpus = 2, .cores = 2, .sockets = 1, .memory_bytes = 4ULL << 30};
    (void)snprintf(machine.kernel, sizeof machine.kernel, "6.1.0");
    (void)snprintf(machine.os, sizeof machine.os, "Debian \"12\"");
    made->pass = (struct monitor_pass){.wall_s = 1.8e9 + 0.25 + (double)tick,
                                       .read_ns = UINT64_C(1000000000) * (tick + 1),
                                       .took_ns = 123456,
                                       .has_source = true,
                                       .machine = machine,
                                       .self = {.cpu_ns = 5000000 * tick, .open_fds = 12},
                                       .samples = made->samples,
                                       .before = made->before,
                                       .count = count,
                                       .trainings = &made->training,
                                       .training_count = 1};
}

#endif
