/* SPDX-License-Identifier: Apache-2.0 */
/* How many CPUs a process may really use. A pool of as many threads as the host has cores, under a quota of
 * one, is throttled for most of each period. */
#include "threads.h"

#include "blas.h"
#include "muster/buf.h"
#include "muster/cleanup.h"
#include "muster/file.h"
#include "muster/parse.h"
#include "muster/trainer.h"

#include <cblas.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>

#define THREADS_FILE_MAX_BYTES 65536
#define THREADS_PATH_BYTES     4608

/* Whole content of a small file, or NULL: files that are not there are no error, another hierarchy has them.
 */
static char *read_text(const char *root, const char *folder, const char *name)
{
    char path[THREADS_PATH_BYTES];
    struct mst_buf text = MST_BUF_INIT(THREADS_FILE_MAX_BYTES);

    const int n = snprintf(path, sizeof path, "%s%s/%s", root, folder, name);
    if (n < 0 || (size_t)n >= sizeof path || mst_file_read(path, &text, NULL) < 0) {
        mst_buf_release(&text);
        return NULL;
    }
    return text.bytes;
}

static uint32_t cpus_of(double quota, double period)
{
    if (!(quota > 0 && period > 0) || quota / period >= (double)TRAINER_MAX_THREADS)
        return TRAINER_NO_QUOTA;
    const uint32_t whole = (uint32_t)(quota / period);
    return whole + ((double)whole * period < quota);
}

/* The first number of `*text`, which moves behind it; false when there is none ("max", "-1"). */
static bool take_number(char **text, double *ret_value)
{
    const char *word = strsep(text, " \n");
    uint64_t value;

    if (!word || mst_parse_u64(word, 0, UINT64_MAX, &value, NULL) < 0)
        return false;
    *ret_value = (double)value;
    return true;
}

/* "max 100000" or "150000 100000" */
static uint32_t quota_v2(const char *root, const char *folder)
{
    mst_cleanup(mst_freep) char *text = read_text(root, folder, "cpu.max");
    char *rest = text;
    double quota, period;

    if (!text || !take_number(&rest, &quota) || !take_number(&rest, &period))
        return TRAINER_NO_QUOTA;
    return cpus_of(quota, period);
}

/* -1 is no quota */
static uint32_t quota_v1(const char *root, const char *folder)
{
    mst_cleanup(mst_freep) char *quota_text = read_text(root, folder, "cpu.cfs_quota_us");
    mst_cleanup(mst_freep) char *period_text = read_text(root, folder, "cpu.cfs_period_us");
    char *quota_rest = quota_text, *period_rest = period_text;
    double quota, period;

    if (!quota_text || !period_text || !take_number(&quota_rest, &quota) ||
        !take_number(&period_rest, &period))
        return TRAINER_NO_QUOTA;
    return cpus_of(quota, period);
}

/* The smallest quota from <mount><group> up to the mount: a limit may stand on any level. In a container the
 * group's path is often the host's and not there; then the mount itself is the container's group. */
static uint32_t smallest_quota(const char *root, const char *mount, const char *group,
                               uint32_t (*quota_of)(const char *root, const char *folder))
{
    char folder[THREADS_PATH_BYTES];
    uint32_t smallest = TRAINER_NO_QUOTA;

    const int n = snprintf(folder, sizeof folder, "%s%s", mount, group);
    if (n < 0 || (size_t)n >= sizeof folder)
        return smallest;
    for (;;) {
        const uint32_t quota = quota_of(root, folder);
        if (quota < smallest)
            smallest = quota;
        char *slash = strrchr(folder, '/');
        if (!slash || strlen(folder) <= strlen(mount))
            return smallest;
        *slash = '\0';
    }
}

static bool lists_cpu(const char *controllers, size_t bytes)
{
    while (bytes > 0) {
        const char *comma = memchr(controllers, ',', bytes);
        const size_t length = comma ? (size_t)(comma - controllers) : bytes;
        if (length == 3 && memcmp(controllers, "cpu", 3) == 0)
            return true;
        controllers += length + (comma != NULL);
        bytes -= length + (comma != NULL);
    }
    return false;
}

/* A line of /proc/self/cgroup is "number:controllers:path"; version 2's has no controllers. */
static uint32_t quota_of_line(const char *root, const char *line)
{
    static const char *const mounts_v1[] = {"/sys/fs/cgroup/cpu,cpuacct", "/sys/fs/cgroup/cpu"};
    static const char *const mounts_v2[] = {"/sys/fs/cgroup", "/sys/fs/cgroup/unified"};
    const char *controllers = strchr(line, ':');
    const char *path = controllers ? strchr(controllers + 1, ':') : NULL;
    uint32_t smallest = TRAINER_NO_QUOTA;

    if (!path)
        return smallest;
    const size_t bytes = (size_t)(path - controllers - 1);
    const char *group = strcmp(path + 1, "/") == 0 ? "" : path + 1;
    if (bytes > 0 && !lists_cpu(controllers + 1, bytes))
        return smallest;
    for (size_t i = 0; i < 2; i++) {
        const uint32_t quota = smallest_quota(root, bytes > 0 ? mounts_v1[i] : mounts_v2[i], group,
                                              bytes > 0 ? quota_v1 : quota_v2);
        if (quota < smallest)
            smallest = quota;
    }
    return smallest;
}

uint32_t trainer_threads_quota(const char *root)
{
    mst_cleanup(mst_freep) char *text = read_text(root, "/proc/self", "cgroup");
    uint32_t smallest = TRAINER_NO_QUOTA;
    char *rest = text, *line;

    while (rest && (line = strsep(&rest, "\n"))) {
        const uint32_t quota = quota_of_line(root, line);
        if (quota < smallest)
            smallest = quota;
    }
    return smallest;
}

uint32_t trainer_threads_available(void)
{
    cpu_set_t set;
    uint32_t cpus = 1;

    if (sched_getaffinity(0, sizeof set, &set) == 0)
        cpus = (uint32_t)CPU_COUNT(&set);
    const uint32_t quota = trainer_threads_quota("");
    if (quota < cpus)
        cpus = quota;
    if (cpus > TRAINER_MAX_THREADS)
        cpus = TRAINER_MAX_THREADS;
    return cpus > 0 ? cpus : 1;
}

const char *trainer_kernel_name(void)
{
    return blas_is_own() ? "fma" : openblas_get_corename();
}
