/* SPDX-License-Identifier: Apache-2.0 */
#include "sampler.h"

#include "api.h"
#include "muster/cleanup.h"
#include "muster/clock.h"
#include "muster/file.h"
#include "muster/json.h"
#include "muster/log.h"
#include "scan.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SCAN_EVERY_NS  (2 * MST_NS_PER_S)
#define SETTLE_STEP_NS (10 * MST_NS_PER_MS)
#define GROWTH         64

static bool uses_engine(const struct sampler *sampler)
{
    return sampler->options->source != MONITOR_SOURCE_CGROUPS;
}

/* The version is a label of one metric only: that it cannot be had is no failure. */
static void ask_version(struct sampler *sampler)
{
    mst_cleanup(engine_reply_release) struct engine_reply reply = {0};
    const struct engine_call call = {.method = "GET", .path = "/version"};
    if (sampler->has_asked_version || engine_request(sampler->follow.engine, &call, &reply, NULL) < 0)
        return;
    sampler->has_asked_version = true;
    (void)snprintf(sampler->pass.machine.engine, sizeof sampler->pass.machine.engine, "%s",
                   mst_json_string_or(reply.json, "Version", ""));
}

/* Where numbers come from the Engine alone, its machine may be another; and a monitor in a container seldom
 * sees the files that name the host's system. */
static void ask_machine(struct sampler *sampler)
{
    mst_cleanup(engine_reply_release) struct engine_reply reply = {0};
    const struct engine_call call = {.method = "GET", .path = "/info"};
    struct monitor_machine *machine = &sampler->pass.machine;
    if (engine_request(sampler->follow.engine, &call, &reply, NULL) < 0)
        return;
    if (!*machine->os)
        (void)snprintf(machine->os, sizeof machine->os, "%s",
                       mst_json_string_or(reply.json, "OperatingSystem", ""));
    if (!sampler->roster.is_remote)
        return;
    sampler->roster.memory_bytes = mst_json_u64_or(reply.json, "MemTotal", 0);
    machine->memory_bytes = mst_json_u64_or(reply.json, "MemTotal", machine->memory_bytes);
    machine->cpus = mst_json_u64_or(reply.json, "NCPU", machine->cpus);
}

static void open_machine(struct sampler *sampler)
{
    struct mst_error err = MST_ERROR_INIT;
    const struct monitor_container info = {
        .id = CGROUP_ROOT, .pid = 1, .is_machine = true, .health = MONITOR_HEALTH_NONE};
    machine_use_init(&sampler->machine_use, &sampler->roster.paths);
    if (target_open(&sampler->roster.paths, &info, sampler->groups & ~(unsigned)MACHINE_GROUPS, "",
                    &sampler->roster.scratch, &sampler->machine_target, &err) < 0)
        mst_log_warn("monitor", "the machine's own use is not shown: %s", err.text);
}

int sampler_init(struct sampler *sampler, const struct monitor_options *options, bool with_machine,
                 int wake_fd, struct mst_error *err)
{
    *sampler = (struct sampler){.options = options, .wake_fd = wake_fd};
    sampler->groups = options->groups ? options->groups : MONITOR_GROUPS_BASIC;
    /* Some dozens of descriptors a container; the usual soft limit of 1024 would end at 40. */
    if (mst_raise_descriptor_limit() < 0)
        mst_log_warn("monitor", "the limit on open files cannot be raised");
    roster_init(&sampler->roster, &options->paths);
    sampler->roster.wanted = sampler->groups;
    sampler->roster.labels = options->labels;
    sampler->roster.is_remote = options->source == MONITOR_SOURCE_API;
    machine_read(&options->paths, options->rootfs, &sampler->pass.machine);
    int r = trainings_init(&sampler->trainings, options->events, err);
    if (r == 0 && uses_engine(sampler))
        r = follow_init(&sampler->follow, &sampler->roster, options->host, options->stack, options->stop_fd,
                        err);
    if (r == 0 && uses_engine(sampler) &&
        (options->source == MONITOR_SOURCE_API || (with_machine && !*sampler->pass.machine.os)))
        ask_machine(sampler);
    if (r == 0 && with_machine && options->source != MONITOR_SOURCE_API)
        open_machine(sampler);
    if (r == 0 && with_machine && uses_engine(sampler))
        ask_version(sampler);
    return r;
}

void sampler_release(struct sampler *sampler)
{
    trainings_release(&sampler->trainings);
    follow_release(&sampler->follow);
    target_free(sampler->machine_target);
    machine_use_release(&sampler->machine_use);
    roster_release(&sampler->roster);
    free(sampler->samples);
    free(sampler->before);
    *sampler = (struct sampler){0};
}

/* ---- waiting ---- */

static int wait_with_cgroups(struct sampler *sampler, uint64_t deadline_ns, struct mst_error *err)
{
    do {
        if (mst_now_ns() >= sampler->scan_ns) {
            const int r = scan_run(&sampler->roster, err);
            if (r < 0 && !sampler->has_source)
                return r;
            sampler->has_source = r == 0;
            sampler->scan_ns = mst_now_ns() + SCAN_EVERY_NS;
        }
        const uint64_t until_ns = deadline_ns < sampler->scan_ns ? deadline_ns : sampler->scan_ns;
        struct pollfd wake = {.fd = sampler->wake_fd, .events = POLLIN};
        if (poll(&wake, 1, mst_ms_until(until_ns, 60000)) > 0)
            return -ECANCELED;
    } while (mst_now_ns() < deadline_ns);
    return 0;
}

int sampler_wait(struct sampler *sampler, uint64_t deadline_ns, struct mst_error *err)
{
    if (!uses_engine(sampler))
        return wait_with_cgroups(sampler, deadline_ns, err);
    int r = 0;
    do {
        if (sampler->options->with_training)
            r = trainings_follow(&sampler->trainings, &sampler->roster, sampler->follow.streams, err);
        const uint64_t now = mst_now_ns(), step_ns = now + MST_NS_PER_S;
        /* New workers are looked for each second, not at each event: nothing tells that there are any. */
        if (r == 0)
            r = follow_run(&sampler->follow, step_ns < deadline_ns ? step_ns : deadline_ns, err);
    } while (r == 0 && mst_now_ns() < deadline_ns);
    /* Known containers go on being read without the Engine, unless it is what reads them. */
    sampler->has_source =
        sampler->follow.has_listed && !(sampler->roster.is_remote && sampler->follow.is_down);
    return r;
}

int sampler_settle(struct sampler *sampler, struct mst_error *err)
{
    const uint64_t patience_ns = mst_now_ns() + MST_NS_PER_S;
    int r = 0;
    if (!uses_engine(sampler))
        return sampler_wait(sampler, mst_now_ns(), err);
    while (r == 0 && mst_now_ns() < patience_ns && !follow_is_settled(&sampler->follow))
        r = sampler_wait(sampler, mst_now_ns() + SETTLE_STEP_NS, err);
    /* Only from here on: a request for metrics that came before must not cut off what is to answer it. */
    engine_set_cancel_fd(sampler->follow.engine, sampler->wake_fd);
    return r;
}

/* ---- one pass ---- */

static int make_room(struct sampler *sampler, struct mst_error *err)
{
    const size_t needed = sampler->roster.count + 1;
    if (needed <= sampler->capacity)
        return 0;
    const size_t capacity = needed + GROWTH;
    void *samples = reallocarray(sampler->samples, capacity, sizeof *sampler->samples);
    sampler->samples = samples ? samples : sampler->samples;
    void *before = samples ? reallocarray(sampler->before, capacity, sizeof *sampler->before) : NULL;
    sampler->before = before ? before : sampler->before;
    if (!before)
        return mst_error_set(err, -ENOMEM, "samples of %zu containers: no memory", needed);
    sampler->capacity = capacity;
    return 0;
}

static void keep(struct sampler *sampler, struct target *target, const struct monitor_sample *sample)
{
    const size_t i = sampler->pass.count++;
    sampler->before[i] = target->has_last ? target->last : (struct monitor_sample){0};
    sampler->samples[i] = *sample;
    target->last = *sample;
    target->has_last = true;
    if ((sample->groups & MONITOR_IO_COUNTS) && !target->info.is_machine)
        machine_devices_name(&sampler->devices, sampler->options->paths.procfs, &sampler->roster.scratch,
                             sampler->samples[i].devices, sample->device_count);
}

/* The machine has no limit but itself, and v2 does not count it in memory.current. */
static void complete_machine(const struct monitor_machine *machine, struct monitor_sample *sample)
{
    if (!(sample->groups & MONITOR_MEMORY) && (sample->groups & MONITOR_MEMORY_STAT)) {
        sample->memory_usage_bytes = sample->memory_rss_bytes + sample->memory_cache_bytes;
        sample->groups |= MONITOR_MEMORY;
    }
    if (machine->memory_bytes > 0) {
        sample->memory_limit_bytes = machine->memory_bytes;
        sample->groups |= MONITOR_MEMORY_LIMIT;
    }
    sample->swap_limit_bytes = machine->swap_bytes;
    sample->groups |= MONITOR_SWAP_LIMIT;
}

/* Without a look at the control group the Engine's events are all there is. */
static void count_oom(struct sampler *sampler, const struct target *target, struct monitor_sample *sample)
{
    if (sampler->roster.is_remote)
        sample->groups |= MONITOR_OOM;
    if (sample->groups & MONITOR_OOM)
        sample->oom_kills = oom_total(&sampler->roster.oom, &target->info, sample->oom_kills);
}

static int read_all(struct sampler *sampler, unsigned wanted, struct mst_error *err)
{
    struct roster *roster = &sampler->roster;
    struct monitor_sample sample;
    uint64_t faults = 0;
    if (sampler->machine_target &&
        target_sample(sampler->machine_target, wanted, &roster->scratch, &sample) == 0) {
        complete_machine(&sampler->pass.machine, &sample);
        machine_use_sample(&sampler->machine_use, wanted, &roster->scratch, &sample);
        keep(sampler, sampler->machine_target, &sample);
    }
    for (size_t i = 0; i < roster->count;) {
        struct target *target = roster->targets[i];
        const int r = roster->is_remote ? api_take(target, &sample)
                                        : target_sample(target, wanted, &roster->scratch, &sample);
        if (r == 0 && uses_engine(sampler) && (wanted & MONITOR_OOM))
            count_oom(sampler, target, &sample);
        if (r == -ENODEV) { /* sooner than the engine's event, which has nothing left to do then */
            roster_forget(roster, target->info.id);
            continue;
        }
        if (r == 0)
            keep(sampler, target, &sample);
        else if (r == -ENODATA)
            mst_log_debug("monitor", "container '%s': no file could be read this time", target->info.name);
        else
            return mst_error_errno(err, r, "container '%s'", target->info.name);
        faults += target->faults;
        i++;
    }
    sampler->pass.faults = faults + roster->faults;
    return 0;
}

int sampler_take(struct sampler *sampler, unsigned wanted, const struct monitor_pass **ret_pass,
                 struct mst_error *err)
{
    struct monitor_pass *pass = &sampler->pass;
    int r = make_room(sampler, err);
    if (r < 0)
        return r;
    pass->read_ns = mst_now_ns();
    pass->count = 0;
    if (sampler->roster.is_remote) {
        /* Who asks for metrics meanwhile wakes us later: it must not cut off what another is waiting for. */
        engine_set_cancel_fd(sampler->follow.engine, sampler->options->stop_fd);
        r = api_ask(&sampler->roster, sampler->follow.streams, err);
        engine_set_cancel_fd(sampler->follow.engine, sampler->wake_fd);
    }
    pass->wall_s = mst_wall_s();
    if (r == 0)
        r = read_all(sampler, wanted, err);
    if (r < 0)
        return r;
    pass->samples = sampler->samples;
    pass->before = sampler->before;
    pass->has_source = sampler->has_source;
    pass->training_count = trainings_list(&sampler->trainings, &pass->trainings);
    machine_self(&pass->self);
    pass->took_ns = mst_now_ns() - pass->read_ns;
    *ret_pass = pass;
    return 0;
}
