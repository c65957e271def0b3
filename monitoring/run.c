/* SPDX-License-Identifier: Apache-2.0 */
#include "follow.h"
#include "muster/clock.h"
#include "muster/file.h"
#include "muster/log.h"
#include "muster/monitor.h"
#include "roster.h"

/* One pass over all containers. */
static int sample_all(struct roster *roster, const struct monitor_output *output, struct mst_error *err)
{
    for (size_t i = 0; i < roster->count;) {
        struct target *target = roster->targets[i];
        struct monitor_sample sample;
        int r = target_sample(target, &roster->scratch, &sample);
        if (r == -ENODEV) { /* sooner than the engine's event, which has nothing left to do then */
            roster_forget(roster, target->info.id);
            continue;
        }
        if (r == 0)
            r = output->sample(output->context, &sample, target->has_last ? &target->last : NULL, err);
        else if (r == -ENODATA)
            mst_log_debug("monitor", "container '%s': no file could be read this time", target->info.name);
        if (r < 0 && r != -ENODATA)
            return r;
        if (r == 0) {
            target->last = sample;
            target->has_last = true;
        }
        i++;
    }
    return output->flush(output->context, err);
}

/* Ticks stay on the grid that the start has set: no drift, and what was missed is left out. */
static uint64_t next_tick(uint64_t tick_ns, uint64_t interval_ns)
{
    const uint64_t now = mst_now_ns();
    tick_ns += interval_ns;
    return tick_ns > now ? tick_ns : now + interval_ns - (now - tick_ns) % interval_ns;
}

static int run(const struct monitor_options *options, const struct monitor_output *output,
               struct roster *roster, struct follow *follow, struct mst_error *err)
{
    int r = follow_init(follow, roster, options->host, options->stack, options->stop_fd, err);
    /* The first tick waits until the first list and what it names is known, a second at most. */
    const uint64_t patience_ns = mst_now_ns() + MST_NS_PER_S;
    while (r == 0 && mst_now_ns() < patience_ns && !follow_is_settled(follow))
        r = follow_run(follow, mst_now_ns() + 10 * MST_NS_PER_MS, err);
    for (uint64_t tick_ns = mst_now_ns(); r == 0; tick_ns = next_tick(tick_ns, options->interval_ns)) {
        r = follow_run(follow, tick_ns, err);
        if (r == 0)
            r = sample_all(roster, output, err);
    }
    return r;
}

int monitor_run(const struct monitor_options *options, const struct monitor_output *output,
                struct mst_error *err)
{
    struct roster roster;
    struct follow follow = {0};
    /* Up to a dozen descriptors a container; the usual soft limit of 1024 would end at 80. */
    if (mst_raise_descriptor_limit() < 0)
        mst_log_warn("monitor", "the limit on open files cannot be raised");
    roster_init(&roster, &options->paths);
    const int r = run(options, output, &roster, &follow, err);
    follow_release(&follow);
    roster_release(&roster);
    return r == -ECANCELED ? 0 : r;
}
