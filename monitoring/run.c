/* SPDX-License-Identifier: Apache-2.0 */
#include "muster/clock.h"
#include "muster/monitor.h"
#include "sampler.h"

static int give(const struct monitor_pass *pass, const struct monitor_output *output, struct mst_error *err)
{
    int r = 0;
    for (size_t i = 0; r == 0 && i < pass->count; i++) {
        const struct monitor_sample *before = &pass->before[i];
        r = output->sample(output->context, &pass->samples[i], before->read_ns ? before : NULL, err);
    }
    return r == 0 ? output->flush(output->context, err) : r;
}

/* Ticks stay on the grid that the start has set: no drift, and what was missed is left out. */
static uint64_t next_tick(uint64_t tick_ns, uint64_t interval_ns)
{
    const uint64_t now = mst_now_ns();
    tick_ns += interval_ns;
    return tick_ns > now ? tick_ns : now + interval_ns - (now - tick_ns) % interval_ns;
}

int monitor_run(const struct monitor_options *options, const struct monitor_output *output,
                struct mst_error *err)
{
    struct sampler sampler;
    const struct monitor_pass *pass;
    int r = sampler_init(&sampler, options, false, options->stop_fd, err);
    if (r == 0)
        r = sampler_settle(&sampler, err);
    for (uint64_t tick_ns = mst_now_ns(); r == 0; tick_ns = next_tick(tick_ns, options->interval_ns)) {
        r = sampler_wait(&sampler, tick_ns, err);
        if (r == 0)
            r = sampler_take(&sampler, sampler.groups, &pass, err);
        if (r == 0)
            r = give(pass, output, err);
    }
    sampler_release(&sampler);
    return r == -ECANCELED ? 0 : r;
}
