/* SPDX-License-Identifier: Apache-2.0 */
#include "muster/cleanup.h"
#include "muster/clock.h"
#include "muster/file.h"
#include "output.h"
#include "sampler.h"
#include "source.h"
#include "stats.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define STATS_MAX_BYTES ((size_t)8 << 20)
/* The first table needs two readings: --no-stream waits as long as `docker stats` does. */
#define STATS_FIRST_NS (MST_NS_PER_S / 2)

int stats_show(int fd, int stop_fd, const struct mst_buf *text, bool is_first, struct mst_error *err)
{
    int r = output_wait(fd, stop_fd);
    if (r == 0 && isatty(fd)) /* home, clear to the end; the first clears the whole screen */
        r = mst_write_all(fd, is_first ? "\033[2J\033[H" : "\033[H\033[J", is_first ? 7 : 6);
    if (r == 0)
        r = mst_write_all(fd, mst_buf_text(text), text->count);
    return r < 0 && r != -ECANCELED && r != -EPIPE ? mst_error_errno(err, r, "write the table") : r;
}

/* Docker divides by the time that the CPUs counted: user to softirq, without what a hypervisor stole, so on a
 * machine with steal its percentages are higher. In ns over all CPUs; 0 when it cannot be read. */
static uint64_t machine_cpu_ns(const char *procfs, struct mst_buf *scratch, uint64_t *ret_cpus)
{
    uint64_t fields[7] = {0}, sum = 0, cpus = 0;
    mst_cleanup(mst_closep) int fd = source_open(procfs, "stat");
    if (fd < 0 || source_read(fd, scratch) < 0 ||
        sscanf(mst_buf_text(scratch),
               "cpu %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64,
               &fields[0], &fields[1], &fields[2], &fields[3], &fields[4], &fields[5], &fields[6]) != 7)
        return 0;
    for (const char *line = strchr(mst_buf_text(scratch), '\n'); line && strncmp(line, "\ncpu", 4) == 0;
         line = strchr(line + 1, '\n'))
        cpus++;
    for (size_t i = 0; i < MST_ARRAY_COUNT(fields); i++)
        sum += fields[i];
    *ret_cpus = cpus;
    return sum * (MST_NS_PER_S / (uint64_t)sysconf(_SC_CLK_TCK));
}

struct stats_state {
    struct sampler sampler;
    struct stats_options options;
    struct mst_buf scratch, text;
    uint64_t machine_ns, read_ns;
    bool has_shown;
};

static void scale_as_docker(struct stats_state *state, const struct monitor_options *monitor,
                            uint64_t read_ns)
{
    uint64_t cpus = 0;
    const uint64_t machine_ns = machine_cpu_ns(monitor->paths.procfs, &state->scratch, &cpus);
    state->options.cpu_scale = 0;
    if (state->options.is_docker_cpu && state->machine_ns && machine_ns > state->machine_ns)
        state->options.cpu_scale =
            (double)(read_ns - state->read_ns) * (double)cpus / (double)(machine_ns - state->machine_ns);
    state->machine_ns = machine_ns;
    state->read_ns = read_ns;
}

static int show(struct stats_state *state, const struct monitor_pass *pass, int stop_fd,
                struct mst_error *err)
{
    mst_cleanup(mst_freep) struct stats_row *rows = NULL;
    size_t count = 0;
    mst_buf_clear(&state->text);
    int r = stats_rows(pass, &state->options, &rows, &count, err);
    if (r == 0)
        r = stats_print(rows, count, &state->options, &state->text, err);
    if (r == 0)
        r = stats_show(STDOUT_FILENO, stop_fd, &state->text, !state->has_shown, err);
    state->has_shown = true;
    return r;
}

static int run(struct stats_state *state, const struct monitor_options *monitor, struct mst_error *err)
{
    int r = sampler_init(&state->sampler, monitor, false, monitor->stop_fd, err);
    if (r == 0)
        r = sampler_settle(&state->sampler, err);
    for (uint64_t tick = 0, at_ns = mst_now_ns(); r == 0; tick++) {
        const struct monitor_pass *pass;
        r = sampler_wait(&state->sampler, at_ns, err);
        if (r == 0)
            r = sampler_take(&state->sampler, MONITOR_GROUPS_STATS, &pass, err);
        if (r < 0)
            break;
        scale_as_docker(state, monitor, pass->read_ns);
        if (tick > 0 || !state->options.is_once)
            r = show(state, pass, monitor->stop_fd, err);
        if (tick > 0 && state->options.is_once)
            break;
        at_ns = mst_now_ns() + (tick == 0 ? STATS_FIRST_NS : monitor->interval_ns);
    }
    return r;
}

int stats_run(const struct monitor_options *monitor, const struct stats_options *options,
              struct mst_error *err)
{
    struct stats_state state = {.options = *options,
                                .scratch = MST_BUF_INIT(SOURCE_MAX_BYTES),
                                .text = MST_BUF_INIT(STATS_MAX_BYTES)};
    int r = stats_check(options, err); /* before anything is read */
    if (r == 0)
        r = run(&state, monitor, err);
    sampler_release(&state.sampler);
    mst_buf_release(&state.scratch);
    mst_buf_release(&state.text);
    return r == -ECANCELED || r == -EPIPE ? 0 : r;
}
