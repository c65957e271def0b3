/* SPDX-License-Identifier: Apache-2.0 */
#include "muster/monitor.h"

bool monitor_memory_used(const struct monitor_sample *sample, uint64_t *ret_bytes)
{
    if (!(sample->groups & MONITOR_MEMORY))
        return false;
    const uint64_t usage = sample->memory_usage_bytes;
    const uint64_t spare = sample->groups & MONITOR_MEMORY_STAT ? sample->memory_inactive_file_bytes : 0;
    *ret_bytes =
        spare < usage ? usage - spare : 0; /* two files, not read in one moment: spare may be larger */
    return true;
}

bool monitor_memory_limit(const struct monitor_sample *sample, uint64_t machine_bytes, uint64_t *ret_bytes)
{
    if (!(sample->groups & MONITOR_MEMORY_LIMIT))
        return false;
    const uint64_t limit = sample->memory_limit_bytes;
    *ret_bytes = limit == 0 || limit > machine_bytes ? machine_bytes : limit;
    return true;
}

bool monitor_cpu_percent(const struct monitor_sample *before, const struct monitor_sample *now,
                         double *ret_percent)
{
    /* A counter below its predecessor began anew; subtracting would wrap to 10^19. */
    if (!before || !(before->groups & MONITOR_CPU) || !(now->groups & MONITOR_CPU) ||
        now->read_ns <= before->read_ns || now->cpu_ns < before->cpu_ns)
        return false;
    *ret_percent = 100.0 * (double)(now->cpu_ns - before->cpu_ns) / (double)(now->read_ns - before->read_ns);
    return true;
}

bool monitor_docker_percent(const struct monitor_sample *before, const struct monitor_sample *now,
                            double *ret_percent)
{
    if (!before || !(before->groups & MONITOR_CPU) || !(now->groups & MONITOR_CPU) ||
        before->system_cpu_ns == 0 || now->system_cpu_ns == 0 || now->online_cpus == 0)
        return false;
    const bool has_grown = now->cpu_ns > before->cpu_ns && now->system_cpu_ns > before->system_cpu_ns;
    *ret_percent = has_grown ? (double)(now->cpu_ns - before->cpu_ns) /
                                   (double)(now->system_cpu_ns - before->system_cpu_ns) *
                                   (double)now->online_cpus * 100.0
                             : 0;
    return true;
}
