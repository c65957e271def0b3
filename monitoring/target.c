/* SPDX-License-Identifier: Apache-2.0 */
#include "target.h"

#include "counters.h"
#include "muster/cleanup.h"
#include "muster/clock.h"
#include "source.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int open_network(const char *folder, struct target *target)
{
    if (target->info.network != MONITOR_NETWORK_OWN || target->info.pid <= 0)
        return 0;
    const int fd = source_open(folder, "net/dev");
    if (fd == -EMFILE || fd == -ENFILE)
        return fd;
    target->net_fd = fd < 0 ? -1 : fd; /* costs the network's values only */
    return 0;
}

static int open_files(const struct monitor_paths *paths, unsigned wanted, const char *cgroup_text,
                      struct target *target, struct mst_buf *scratch)
{
    char folder[PATH_MAX];
    const int length = snprintf(folder, sizeof folder, "%s/%ld", paths->procfs, (long)target->info.pid);
    if (length < 0 || (size_t)length >= sizeof folder)
        return -ENAMETOOLONG;

    /* The network first: that the pid is in the container's control groups afterwards proves that it was the
     * container's all the time, for a pid does not come back. */
    int r = open_network(folder, target);
    if (r < 0)
        return r;
    if (cgroup_text) {
        mst_buf_clear(scratch);
        r = mst_buf_append_text(scratch, cgroup_text);
    } else {
        mst_cleanup(mst_closep) int fd = source_open(folder, "cgroup");
        r = fd < 0 ? fd : source_read(fd, scratch);
    }
    if (r == 0)
        r = cgroup_open(&target->cgroup, paths->sysfs, mst_buf_text(scratch), scratch->count,
                        target->info.is_machine ? CGROUP_ROOT : target->info.id, wanted);
    if (r == 0)
        memcpy(target->info.cgroup, target->cgroup.path, sizeof target->info.cgroup);
    return r;
}

int target_open(const struct monitor_paths *paths, const struct monitor_container *info, unsigned wanted,
                const char *cgroup_text, struct mst_buf *scratch, struct target **ret_target,
                struct mst_error *err)
{
    struct target *target = calloc(1, sizeof *target);
    if (!target)
        return mst_error_set(err, -ENOMEM, "container '%s': no memory", info->name);
    target->info = *info;
    target->net_fd = -1;
    int r = open_files(paths, wanted, cgroup_text, target, scratch);
    if (r < 0) {
        target_free(target);
        if (source_is_gone(r))
            r = -ENOENT;
        return mst_error_errno(
            err, r, "container '%s', pid %ld: find its control groups by %s/%ld/cgroup under %s/fs/cgroup",
            info->name, (long)info->pid, paths->procfs, (long)info->pid, paths->sysfs);
    }
    *ret_target = target;
    return 0;
}

int target_new_remote(const struct monitor_container *info, struct target **ret_target, struct mst_error *err)
{
    struct target *target = calloc(1, sizeof *target);
    if (!target)
        return mst_error_set(err, -ENOMEM, "container '%s': no memory", info->name);
    target->info = *info;
    target->net_fd = -1;
    *ret_target = target;
    return 0;
}

void target_free(struct target *target)
{
    if (!target)
        return;
    cgroup_close(&target->cgroup);
    mst_closep(&target->net_fd);
    free(target);
}

static int read_network(struct target *target, struct mst_buf *scratch, struct monitor_sample *sample)
{
    struct counters_net net = {.list = target->interfaces};
    int r = source_read(target->net_fd, scratch);
    if (r == 0)
        r = counters_net_dev(mst_buf_text(scratch), scratch->count, target->info.is_machine, &net);
    if (r < 0)
        return r;
    /* Only lo: a container without a network, or one whose end the Engine has not told yet. */
    if (net.interfaces == 0)
        return 0;
    sample->rx_bytes = net.rx_bytes;
    sample->rx_packets = net.rx_packets;
    sample->rx_errors = net.rx_errors;
    sample->rx_dropped = net.rx_dropped;
    sample->tx_bytes = net.tx_bytes;
    sample->tx_packets = net.tx_packets;
    sample->tx_errors = net.tx_errors;
    sample->tx_dropped = net.tx_dropped;
    sample->interfaces = target->interfaces;
    sample->interface_count = net.list_count;
    sample->groups |= MONITOR_NETWORK;
    return 0;
}

int target_sample(struct target *target, unsigned wanted, struct mst_buf *scratch,
                  struct monitor_sample *ret_sample)
{
    struct monitor_sample sample = {
        .container = &target->info, .wall_s = mst_wall_s(), .read_ns = mst_now_ns()};
    size_t faults = 0;
    const int r = cgroup_read(&target->cgroup, wanted, scratch, &sample, &faults);
    if (r < 0)
        return r;
    if (target->net_fd >= 0 && (wanted & MONITOR_NETWORK) && read_network(target, scratch, &sample) < 0)
        faults++;
    target->faults += faults;
    if (sample.groups == 0)
        return -ENODATA;
    *ret_sample = sample;
    return 0;
}
