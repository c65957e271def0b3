/* SPDX-License-Identifier: Apache-2.0 */
#include "experiment/limits.h"

#include "muster/buf.h"
#include "muster/cleanup.h"
#include "muster/clock.h"
#include "muster/file.h"
#include "muster/parse.h"

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define PERIOD_US      100000 /* Docker's, for --cpus */
#define NS_PER_US      1000
#define FILE_MAX_BYTES ((size_t)1 << 20)
#define PATH_BYTES     512
#define ROOT_V2        "/sys/fs/cgroup"
#define REMOVE_WAIT_MS 5000
#define LEFT_OVER_MS   10000

static const char *const controller_names[LIMITS_CONTROLLERS] = {"cpu", "cpuacct", "memory", "pids"};

/* A word of a list, between `separators` and the ends. */
static bool has_word(const char *list, const char *word, const char *separators)
{
    const size_t bytes = strlen(word);

    for (const char *at = list + strspn(list, separators); *at != '\0'; at += strspn(at, separators)) {
        const size_t found = strcspn(at, separators);
        if (found == bytes && strncmp(at, word, bytes) == 0)
            return true;
        at += found;
    }
    return false;
}

static bool is_needed(const struct limits *limits, enum limits_controller controller)
{
    return (controller == LIMITS_CPU && limits->nano_cpus > 0) ||
           (controller == LIMITS_MEMORY && limits->memory_bytes > 0) ||
           (controller == LIMITS_PIDS && limits->pids > 0);
}

static void take_mount(const char *line, struct limits_mounts *mounts, bool *has_v2)
{
    char folder[128], type[32], options[512];

    if (sscanf(line, "%*s %127s %31s %511s", folder, type, options) != 3)
        return;
    *has_v2 |= strcmp(type, "cgroup2") == 0 && strcmp(folder, ROOT_V2) == 0;
    if (strcmp(type, "cgroup") != 0)
        return;
    for (int c = 0; c < LIMITS_CONTROLLERS; c++) {
        if (has_word(options, controller_names[c], ","))
            (void)snprintf(mounts->folders[c], sizeof mounts->folders[c], "%s", folder);
    }
}

int limits_find(const char *mounts_text, const char *controllers, const struct limits *limits,
                struct limits_mounts *ret_mounts, struct mst_error *err)
{
    struct limits_mounts mounts = {.version = 1};
    bool has_v2 = false;

    for (const char *line = mounts_text; *line != '\0'; line += line[0] == '\n') {
        const size_t bytes = strcspn(line, "\n");
        char copy[1024];
        (void)snprintf(copy, sizeof copy, "%.*s", (int)(bytes < sizeof copy ? bytes : sizeof copy - 1), line);
        take_mount(copy, &mounts, &has_v2);
        line += bytes;
    }
    if (has_v2) { /* what is mounted of version 1 beside it holds no controller that matters */
        mounts = (struct limits_mounts){.version = 2};
        for (int c = 0; c < LIMITS_CONTROLLERS; c++) {
            if (c == LIMITS_CPUACCT ||
                has_word(controllers, controller_names[c], " \n")) /* part of every group */
                (void)snprintf(mounts.folders[c], sizeof mounts.folders[c], "%s", ROOT_V2);
        }
    }
    for (int c = 0; c < LIMITS_CONTROLLERS; c++) {
        if (is_needed(limits, (enum limits_controller)c) && mounts.folders[c][0] == '\0')
            return mst_error_set(err, -ENOENT,
                                 "the kernel has no control groups for '%s' (version %u) in its mounts",
                                 controller_names[c], mounts.version);
    }
    *ret_mounts = mounts;
    return 0;
}

int limits_look(const struct limits *limits, struct limits_mounts *ret_mounts, struct mst_error *err)
{
    mst_cleanup(mst_buf_release) struct mst_buf mounts = MST_BUF_INIT(FILE_MAX_BYTES),
                                                controllers = MST_BUF_INIT(FILE_MAX_BYTES);
    int r = mst_file_read("/proc/mounts", &mounts, err);

    if (r < 0)
        return r;
    if (mst_file_read(ROOT_V2 "/cgroup.controllers", &controllers, NULL) < 0)
        mst_buf_clear(&controllers); /* no version 2 there */
    r = limits_find(mst_buf_text(&mounts), mst_buf_text(&controllers), limits, ret_mounts, err);
    for (int c = 0; c < LIMITS_CONTROLLERS && r >= 0; c++) {
        if (is_needed(limits, (enum limits_controller)c) && access(ret_mounts->folders[c], W_OK) < 0)
            r = mst_error_errno(err, -errno,
                                "make a control group in '%s' (limits on bare processes need root)",
                                ret_mounts->folders[c]);
    }
    return r;
}

/* ---- a group's files ---- */

static int write_text(const char *folder, const char *name, const char *file, const char *text,
                      struct mst_error *err)
{
    mst_cleanup(mst_closep) int fd = -1;
    char path[PATH_BYTES];
    const size_t bytes = strlen(text);

    (void)snprintf(path, sizeof path, "%s/%s%s%s", folder, name, name[0] ? "/" : "", file);
    fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0 || write(fd, text, bytes) != (ssize_t)bytes)
        return mst_error_errno(err, -errno, "write '%s' to '%s'", text, path);
    return 0;
}

static int read_file(const char *folder, const char *name, const char *file, struct mst_buf *text)
{
    char path[PATH_BYTES];

    (void)snprintf(path, sizeof path, "%s/%s/%s", folder, name, file);
    mst_buf_clear(text);
    return mst_file_read(path, text, NULL);
}

/* Every hierarchy once: several controllers may share one. */
static bool is_first(const struct limits_mounts *mounts, int controller)
{
    for (int c = 0; c < controller; c++) {
        if (strcmp(mounts->folders[c], mounts->folders[controller]) == 0)
            return false;
    }
    return mounts->folders[controller][0] != '\0';
}

static bool is_used(const struct limits_group *group, int controller)
{
    return group->mounts.folders[controller][0] != '\0' &&
           (controller == LIMITS_CPUACCT || controller == LIMITS_MEMORY ||
            is_needed(&group->limits, (enum limits_controller)controller));
}

static int make_folder(const char *folder, const char *name, struct mst_error *err)
{
    char path[PATH_BYTES];

    (void)snprintf(path, sizeof path, "%s/%s", folder, name);
    return mst_make_folders(path, 0755, err);
}

static int write_limits(const struct limits_group *group, struct mst_error *err)
{
    const struct limits_mounts *m = &group->mounts;
    const int64_t quota_us = group->limits.nano_cpus / (1000000000 / PERIOD_US);
    char text[64];
    int r = 0;

    if (quota_us > 0 && m->version == 2) {
        (void)snprintf(text, sizeof text, "%" PRId64 " %d", quota_us, PERIOD_US);
        r = write_text(m->folders[LIMITS_CPU], group->name, "cpu.max", text, err);
    } else if (quota_us > 0) {
        (void)snprintf(text, sizeof text, "%d", PERIOD_US);
        r = write_text(m->folders[LIMITS_CPU], group->name, "cpu.cfs_period_us", text, err);
        (void)snprintf(text, sizeof text, "%" PRId64, quota_us);
        if (r >= 0)
            r = write_text(m->folders[LIMITS_CPU], group->name, "cpu.cfs_quota_us", text, err);
    }
    (void)snprintf(text, sizeof text, "%" PRId64, group->limits.memory_bytes);
    if (r >= 0 && group->limits.memory_bytes > 0)
        r = write_text(m->folders[LIMITS_MEMORY], group->name,
                       m->version == 2 ? "memory.max" : "memory.limit_in_bytes", text, err);
    (void)snprintf(text, sizeof text, "%" PRId64, group->limits.pids);
    if (r >= 0 && group->limits.pids > 0)
        r = write_text(m->folders[LIMITS_PIDS], group->name, "pids.max", text, err);
    return r;
}

/* Version 2 hands controllers down level by level. */
static int enable_controllers(const struct limits_group *group, struct mst_error *err)
{
    char parent[sizeof group->name];
    char *slash;
    int r = 0;

    (void)snprintf(parent, sizeof parent, "%s", group->name);
    slash = strrchr(parent, '/');
    if (slash)
        *slash = '\0';
    for (int c = 0; c < LIMITS_CONTROLLERS && r >= 0; c++) {
        char text[16];
        if (c == LIMITS_CPUACCT || !is_used(group, c))
            continue;
        (void)snprintf(text, sizeof text, "+%s", controller_names[c]);
        r = write_text(ROOT_V2, "", "cgroup.subtree_control", text, err);
        if (r >= 0 && slash)
            r = write_text(ROOT_V2, parent, "cgroup.subtree_control", text, err);
    }
    return r;
}

int limits_make(const struct limits_mounts *mounts, const char *name, const struct limits *limits,
                struct limits_group *ret_group, struct mst_error *err)
{
    struct limits_group group = {.mounts = *mounts, .limits = *limits};
    int r = 0;

    (void)snprintf(group.name, sizeof group.name, "%s", name);
    for (int c = 0; c < LIMITS_CONTROLLERS && r >= 0; c++) {
        if (is_used(&group, c))
            r = make_folder(mounts->folders[c], name, err);
    }
    if (r >= 0)
        r = limits_kill(&group, LEFT_OVER_MS, err);
    if (r >= 0 && mounts->version == 2)
        r = enable_controllers(&group, err);
    if (r >= 0)
        r = write_limits(&group, err);
    if (r < 0) {
        (void)limits_remove(&group, NULL); /* the first failure is told */
        return r;
    }
    *ret_group = group;
    return 0;
}

int limits_enter(const struct limits_group *group)
{
    for (int c = 0; c < LIMITS_CONTROLLERS; c++) {
        char path[PATH_BYTES];
        int fd, r;
        if (!is_used(group, c))
            continue;
        (void)snprintf(path, sizeof path, "%s/%s/cgroup.procs", group->mounts.folders[c], group->name);
        fd = open(path, O_WRONLY | O_CLOEXEC);
        r = fd < 0 || write(fd, "0", 1) != 1 ? -errno : 0; /* 0: who writes */
        mst_closep(&fd);
        if (r < 0)
            return r;
    }
    return 0;
}

/* How many were there. */
static size_t kill_members(const char *folder, const char *name)
{
    mst_cleanup(mst_buf_release) struct mst_buf text = MST_BUF_INIT(FILE_MAX_BYTES);
    size_t count = 0;

    if (read_file(folder, name, "cgroup.procs", &text) < 0)
        return 0;
    for (const char *at = mst_buf_text(&text); *at != '\0'; at += at[0] == '\n') {
        char number[24];
        const size_t digits = strcspn(at, "\n");
        uint32_t pid;
        (void)snprintf(number, sizeof number, "%.*s",
                       (int)(digits < sizeof number ? digits : sizeof number - 1), at);
        if (mst_parse_u32(number, 1, INT32_MAX, &pid, NULL) == 0) {
            (void)kill((pid_t)pid, SIGKILL);
            count++;
        }
        at += digits;
    }
    return count;
}

int limits_kill(const struct limits_group *group, unsigned timeout_ms, struct mst_error *err)
{
    const uint64_t deadline_ns = mst_now_ns() + timeout_ms * MST_NS_PER_MS;

    for (;;) {
        size_t count = 0;
        for (int c = 0; c < LIMITS_CONTROLLERS; c++) {
            if (is_used(group, c))
                count += kill_members(group->mounts.folders[c], group->name);
        }
        if (count == 0)
            return 0;
        if (mst_now_ns() >= deadline_ns)
            return mst_error_set(err, -ETIMEDOUT,
                                 "control group '%s': processes did not end within %u ms of SIGKILL",
                                 group->name, timeout_ms);
        (void)poll(NULL, 0, 5); /* a process that was killed is gone in its own time */
    }
}

static int remove_folder(const char *folder, const char *name, uint64_t deadline_ns)
{
    char path[PATH_BYTES];

    (void)snprintf(path, sizeof path, "%s/%s", folder, name);
    /* Busy for a moment after its last process ended. */
    while (rmdir(path) < 0 && errno != ENOENT) {
        if (errno != EBUSY || mst_now_ns() >= deadline_ns)
            return -errno;
        (void)poll(NULL, 0, 5);
    }
    char *slash = strrchr(path, '/');
    if (slash && strchr(name, '/')) {
        *slash = '\0';
        (void)rmdir(path); /* others may be in it */
    }
    return 0;
}

int limits_remove(const struct limits_group *group, struct mst_error *err)
{
    const uint64_t deadline_ns = mst_now_ns() + REMOVE_WAIT_MS * MST_NS_PER_MS;
    int r = 0;

    for (int c = 0; c < LIMITS_CONTROLLERS; c++) {
        const int one =
            is_used(group, c) ? remove_folder(group->mounts.folders[c], group->name, deadline_ns) : 0;
        if (one < 0 && r == 0)
            r = mst_error_errno(err, one, "remove the control group '%s/%s'", group->mounts.folders[c],
                                group->name);
    }
    return r;
}

static int sweep_one(const struct limits_mounts *mounts, const char *parent, const char *name,
                     unsigned timeout_ms, struct mst_error *err)
{
    /* All controllers are looked through, whichever the group had. */
    struct limits_group group = {.mounts = *mounts, .limits = {1, 1, 1}};
    int r;

    (void)snprintf(group.name, sizeof group.name, "%s/%s", parent, name);
    r = limits_kill(&group, timeout_ms, err);
    return r < 0 ? r : limits_remove(&group, err);
}

int limits_sweep(const struct limits_mounts *mounts, const char *parent, const char *but, unsigned timeout_ms,
                 struct mst_error *err)
{
    int r = 0;

    for (int c = 0; c < LIMITS_CONTROLLERS && r >= 0; c++) {
        char path[PATH_BYTES];
        const struct dirent *entry;
        DIR *list;
        if (!is_first(mounts, c))
            continue;
        (void)snprintf(path, sizeof path, "%s/%s", mounts->folders[c], parent);
        list = opendir(path);
        while (list && r >= 0 && (entry = readdir(list))) {
            if (entry->d_type == DT_DIR && entry->d_name[0] != '.' &&
                (!but || strncmp(entry->d_name, but, strlen(but)) != 0))
                r = sweep_one(mounts, parent, entry->d_name, timeout_ms, err);
        }
        if (list)
            (void)closedir(list);
    }
    return r;
}

/* ---- what was used ---- */

static bool find_number(const char *text, const char *key, uint64_t *ret_value)
{
    const size_t bytes = strlen(key);

    for (const char *line = text; *line != '\0'; line += line[0] == '\n') {
        if (strncmp(line, key, bytes) == 0 && line[bytes] == ' ')
            return sscanf(line + bytes + 1, "%" SCNu64, ret_value) == 1;
        line += strcspn(line, "\n");
    }
    return false;
}

static bool read_number(const char *folder, const char *name, const char *file, uint64_t *ret_value)
{
    mst_cleanup(mst_buf_release) struct mst_buf text = MST_BUF_INIT(FILE_MAX_BYTES);

    return read_file(folder, name, file, &text) >= 0 &&
           sscanf(mst_buf_text(&text), "%" SCNu64, ret_value) == 1;
}

void limits_read_use(const struct limits_group *group, struct limits_use *ret_use)
{
    mst_cleanup(mst_buf_release) struct mst_buf text = MST_BUF_INIT(FILE_MAX_BYTES);
    const struct limits_mounts *m = &group->mounts;
    const bool is_v2 = m->version == 2;
    struct limits_use use = {0};
    uint64_t usage, inactive = 0, value;

    if (is_v2 && read_file(m->folders[LIMITS_CPUACCT], group->name, "cpu.stat", &text) >= 0) {
        use.has_cpu = find_number(mst_buf_text(&text), "usage_usec", &value);
        use.cpu_ns = use.has_cpu ? value * NS_PER_US : 0;
        use.has_throttled = find_number(mst_buf_text(&text), "throttled_usec", &value);
        use.throttled_ns = use.has_throttled ? value * NS_PER_US : 0;
    } else if (!is_v2) {
        use.has_cpu = m->folders[LIMITS_CPUACCT][0] != '\0' &&
                      read_number(m->folders[LIMITS_CPUACCT], group->name, "cpuacct.usage", &use.cpu_ns);
        use.has_throttled = group->limits.nano_cpus > 0 &&
                            read_file(m->folders[LIMITS_CPU], group->name, "cpu.stat", &text) >= 0 &&
                            find_number(mst_buf_text(&text), "throttled_time", &use.throttled_ns);
    }
    if (m->folders[LIMITS_MEMORY][0] != '\0' &&
        read_number(m->folders[LIMITS_MEMORY], group->name,
                    is_v2 ? "memory.current" : "memory.usage_in_bytes", &usage)) {
        if (read_file(m->folders[LIMITS_MEMORY], group->name, "memory.stat", &text) < 0 ||
            !find_number(mst_buf_text(&text), is_v2 ? "inactive_file" : "total_inactive_file", &inactive))
            inactive = 0;
        use.memory_bytes = usage > inactive ? usage - inactive : 0;
        use.has_memory = true;
    }
    *ret_use = use;
}
