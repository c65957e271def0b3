/* SPDX-License-Identifier: Apache-2.0 */
#include "experiment/checks.h"

#include "muster/buf.h"
#include "muster/cleanup.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define CLOCK_REFUSED_MS 60000.0 /* curves of several nodes on one axis of time would tell nonsense */
#define CLOCK_WARNED_MS  500.0
#define BUSY_WARNED      10.0 /* per cent of all cores */
#define STEAL_WARNED     1.0

int checks_parse_stat(const char *text, struct checks_ticks *ret_ticks)
{
    uint64_t t[8] = {0}; /* user nice system idle iowait irq softirq steal; guest times are within user's */

    if (sscanf(text,
               "cpu %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64
               " %" SCNu64,
               &t[0], &t[1], &t[2], &t[3], &t[4], &t[5], &t[6], &t[7]) < 4)
        return -EBADMSG;
    *ret_ticks = (struct checks_ticks){.steal = t[7]};
    for (size_t i = 0; i < MST_ARRAY_COUNT(t); i++)
        ret_ticks->total += t[i];
    ret_ticks->busy = ret_ticks->total - t[3] - t[4];
    return 0;
}

void checks_warn(struct checks_warnings *warnings, const char *format, ...)
{
    char text[1024], **items;
    va_list arguments;

    va_start(arguments, format);
    (void)vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    for (size_t i = 0; i < warnings->count; i++) {
        if (strcmp(warnings->items[i], text) == 0)
            return;
    }
    items = reallocarray(warnings->items, warnings->count + 1, sizeof(char *));
    if (items)
        warnings->items = items;
    if (!items || !(items[warnings->count] = strdup(text)))
        warnings->no_memory = true;
    else
        warnings->count++;
}

void checks_warnings_release(struct checks_warnings *warnings)
{
    for (size_t i = 0; i < warnings->count; i++)
        free(warnings->items[i]);
    free(warnings->items);
    *warnings = (struct checks_warnings){0};
}

/* "an hour" reads better than 3600000 ms. */
static const char *skew_text(double ms, char *text, size_t bytes)
{
    const double s = fabs(ms) / 1000;

    (void)snprintf(text, bytes,
                   s >= 3600 ? "%.1f h %s"
                   : s >= 1  ? "%.1f s %s"
                             : "%.3f s %s",
                   s >= 3600 ? s / 3600 : s, ms > 0 ? "ahead" : "behind");
    return text;
}

static int judge_one(const struct checks_look *look, const char *host, const struct checks_needs *needs,
                     struct checks_warnings *warnings, struct mst_error *err)
{
    const struct limits *limits = needs->limits;
    const double wanted_cpus = (double)limits->nano_cpus / 1e9 * needs->workers_a_host;
    const double wanted_bytes = (double)limits->memory_bytes * needs->workers_a_host;
    const char *version;
    char text[64];

    if (strcmp(look->muster, needs->muster) != 0)
        return mst_error_set(err, -EHOSTDOWN,
                             "host '%s' has muster %s, this machine %s: the same version must be on all",
                             host, look->muster, needs->muster);
    version = strrchr(look->agent, ' ');
    if (look->agent[0] != '\0' && (!version || strcmp(version + 1, needs->muster) != 0))
        return mst_error_set(err, -EHOSTDOWN,
                             "host '%s' has '%s', this machine muster %s: the same version must be on all",
                             host, look->agent, needs->muster);
    if (fabs(look->clock_offset_ms) > CLOCK_REFUSED_MS)
        return mst_error_set(err, -EHOSTDOWN,
                             "host '%s': its clock is %s of this machine's: set them right first", host,
                             skew_text(look->clock_offset_ms, text, sizeof text));
    if (needs->has_bare && look->limits_reason[0] != '\0')
        return mst_error_set(err, -EHOSTDOWN,
                             "host '%s' cannot give bare processes the containers' limits: %s", host,
                             look->limits_reason);
    if (needs->has_encrypted && look->encryption_reason[0] != '\0')
        return mst_error_set(err, -EHOSTDOWN,
                             "host '%s' cannot have an encrypted overlay: %s (leave the mode out)", host,
                             look->encryption_reason);
    if (fabs(look->clock_offset_ms) > CLOCK_WARNED_MS + look->round_trip_ms)
        checks_warn(warnings, "%s: its clock is %s of this machine's", host,
                    skew_text(look->clock_offset_ms, text, sizeof text));
    if (wanted_cpus > (double)look->cpus)
        checks_warn(warnings, "%s: %u workers with %.2f CPUs each share its %" PRIu32 " CPUs", host,
                    needs->workers_a_host, (double)limits->nano_cpus / 1e9, look->cpus);
    if (look->memory_bytes > 0 && wanted_bytes > (double)look->memory_bytes)
        checks_warn(warnings, "%s: the workers' memory limits (%.0f MiB) are more than it has (%.0f MiB)",
                    host, wanted_bytes / 1048576, (double)look->memory_bytes / 1048576);
    if (look->busy_percent > BUSY_WARNED)
        checks_warn(warnings, "%s is not idle: %.0f %% of its CPUs are busy, load %.2f", host,
                    look->busy_percent, look->load1);
    if (look->steal_percent > STEAL_WARNED)
        checks_warn(warnings, "%s: %.1f %% of its CPU time is stolen by the machine below", host,
                    look->steal_percent);
    if (look->containers > 0)
        checks_warn(warnings, "%s runs %" PRIu32 " containers already", host, look->containers);
    return 0;
}

static int judge_pair(const struct checks_look *a, const char *host_a, const struct checks_look *b,
                      const char *host_b, struct checks_warnings *warnings, struct mst_error *err)
{
    if (strcmp(a->agent, b->agent) != 0)
        return mst_error_set(err, -EHOSTDOWN,
                             "'%s' has '%s', '%s' has '%s': the same version must be on all hosts", host_a,
                             a->agent, host_b, b->agent);
    if (a->agent_digest[0] && b->agent_digest[0] && strcmp(a->agent_digest, b->agent_digest) != 0)
        return mst_error_set(
            err, -EHOSTDOWN,
            "the agents of '%s' and '%s' are different files of one version (SHA-256 %.12s, %.12s)", host_a,
            host_b, a->agent_digest, b->agent_digest);
    if (a->cpus != b->cpus)
        checks_warn(warnings, "%s has %" PRIu32 " CPUs, %s has %" PRIu32, host_a, a->cpus, host_b, b->cpus);
    if (strcmp(a->cpu_model, b->cpu_model) != 0)
        checks_warn(warnings, "%s has '%s', %s has '%s'", host_a, a->cpu_model, host_b, b->cpu_model);
    if (a->cgroup_version != b->cgroup_version)
        checks_warn(warnings, "%s has control groups of version %" PRIu32 ", %s of version %" PRIu32, host_a,
                    a->cgroup_version, host_b, b->cgroup_version);
    if (strcmp(a->kernel, b->kernel) != 0)
        checks_warn(warnings, "%s has kernel %s, %s has %s", host_a, a->kernel, host_b, b->kernel);
    if (strcmp(a->congestion, b->congestion) != 0)
        checks_warn(warnings, "%s has TCP's congestion control '%s', %s has '%s'", host_a, a->congestion,
                    host_b, b->congestion);
    return 0;
}

static void judge_machines(const struct checks_look *looks, const char *const *hosts, size_t count,
                           struct checks_warnings *warnings)
{
    mst_cleanup(mst_buf_release) struct mst_buf names = MST_BUF_INIT(4096);
    size_t same = 1;

    for (size_t i = 1; i < count; i++) {
        if (looks[i].boot_id[0] == '\0' || strcmp(looks[0].boot_id, looks[i].boot_id) != 0)
            continue;
        same++;
        if (mst_buf_printf(&names, ", %s", hosts[i]) < 0)
            return;
    }
    if (same > 1)
        checks_warn(warnings,
                    "%s%s are one machine: their workers share its CPUs, and no network is between them",
                    hosts[0], mst_buf_text(&names));
}

int checks_judge(const struct checks_look *looks, const char *const *hosts, size_t count,
                 const struct checks_needs *needs, struct checks_warnings *warnings, struct mst_error *err)
{
    for (size_t i = 0; i < count; i++) {
        int r = judge_one(&looks[i], hosts[i], needs, warnings, err);
        if (r >= 0 && i > 0)
            r = judge_pair(&looks[0], hosts[0], &looks[i], hosts[i], warnings, err);
        if (r < 0)
            return r;
    }
    judge_machines(looks, hosts, count, warnings);
    return warnings->no_memory ? mst_error_set(err, -ENOMEM, "checks: no memory") : 0;
}
