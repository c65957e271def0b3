/* SPDX-License-Identifier: Apache-2.0 */
#include "scan.h"

#include "muster/cleanup.h"
#include "muster/clock.h"
#include "source.h"

#include <dirent.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define SCAN_MAX_FOLDERS 20000
#define SCAN_MAX_DEPTH   12
#define SCAN_SHORT_ID    12 /* what `docker ps` shows */
#define SCAN_SCOPE       ".scope"

bool scan_name(const char *name, char ret_id[static MONITOR_ID_BYTES])
{
    const size_t digits = MONITOR_ID_BYTES - 1;
    size_t bytes = strlen(name);
    if (bytes > strlen(SCAN_SCOPE) && strcmp(name + bytes - strlen(SCAN_SCOPE), SCAN_SCOPE) == 0)
        bytes -= strlen(SCAN_SCOPE);
    if (bytes < digits)
        return false;
    const char *id = name + bytes - digits;
    if (strspn(id, "0123456789abcdef") < digits || (id != name && id[-1] != '-'))
        return false;
    memcpy(ret_id, id, digits);
    ret_id[digits] = '\0';
    return true;
}

struct walk {
    struct roster *roster;
    size_t mount_bytes; /* of the path that is the mount point */
    size_t left;
    struct mst_error *err;
    int code; /* what stopped it */
};

/* The first process: for the network, which all of them share. */
static pid_t first_pid(struct roster *roster, const char *folder)
{
    int pid = 0;
    mst_cleanup(mst_closep) int fd = source_open(folder, "cgroup.procs");
    if (fd < 0 || source_read(fd, &roster->scratch) < 0 ||
        sscanf(mst_buf_text(&roster->scratch), "%d", &pid) != 1)
        return 0;
    return pid > 0 ? pid : 0; /* 0: a process of another pid namespace */
}

/* The inode of net/dev is one and the same for all processes of a network namespace, and anybody may ask for
 * it; ns/net would take the rights to trace the process, which are gone with root. 0 when it cannot be told.
 */
static uint64_t network_of(const struct roster *roster, pid_t pid)
{
    char path[PATH_MAX];
    struct stat about;
    (void)snprintf(path, sizeof path, "%s/%ld/net/dev", roster->paths.procfs, (long)pid);
    return pid > 0 && stat(path, &about) == 0 ? (uint64_t)about.st_ino : 0;
}

/* Traffic belongs to the one that owns the network: never the host's, and not a second time for a container
 * in another's. What cannot be told is left out. */
static enum monitor_network kind_of_network(const struct roster *roster, uint64_t network)
{
    const uint64_t hosts = network_of(roster, 1);
    if (network == 0 || hosts == 0 || network == hosts)
        return MONITOR_NETWORK_HOST;
    for (size_t i = 0; i < roster->count; i++) {
        if (roster->targets[i]->network == network)
            return MONITOR_NETWORK_SHARED;
    }
    return MONITOR_NETWORK_OWN;
}

/* Its control groups have the same path in every hierarchy. */
static void found(struct walk *walk, const char *folder, const char *id)
{
    struct monitor_container info = {.health = MONITOR_HEALTH_NONE};
    struct stat about;
    if (roster_find(walk->roster, id) || stat(folder, &about) < 0)
        return;
    memcpy(info.id, id, sizeof info.id);
    memcpy(info.name, id, SCAN_SHORT_ID);
    info.pid = first_pid(walk->roster, folder);
    const uint64_t network = network_of(walk->roster, info.pid);
    info.network = kind_of_network(walk->roster, network);
    info.created_s = (double)about.st_ctim.tv_sec;
    (void)snprintf(info.started_at, sizeof info.started_at, "inode %" PRIu64, (uint64_t)about.st_ino);
    const char *path = folder + walk->mount_bytes;
    mst_cleanup(mst_freep) char *text = mst_format("1:cpu:%s\n2:cpuacct:%s\n3:memory:%s\n4:blkio:%s\n"
                                                   "5:pids:%s\n0::%s\n",
                                                   path, path, path, path, path, path);
    const int r = text ? roster_add(walk->roster, &info, text, walk->err) : -ENOMEM;
    if (r == 0)
        roster_find(walk->roster, id)->network = network;
    else if (r != -ENOENT) /* it has gone meanwhile */
        walk->code = r;
}

static void walk_folder(struct walk *walk, char *folder, unsigned depth)
{
    const size_t length = strlen(folder);
    char id[MONITOR_ID_BYTES];
    DIR *dir = opendir(folder);
    if (!dir)
        return;
    for (const struct dirent *entry; walk->code == 0 && walk->left > 0 && (entry = readdir(dir));) {
        if (entry->d_type != DT_DIR || entry->d_name[0] == '.' ||
            length + 1 + strlen(entry->d_name) >= PATH_MAX)
            continue;
        walk->left--;
        (void)snprintf(folder + length, PATH_MAX - length, "/%s", entry->d_name);
        if (scan_name(entry->d_name, id))
            found(walk, folder, id);
        else if (depth > 0)
            walk_folder(walk, folder, depth - 1);
        folder[length] = '\0';
    }
    (void)closedir(dir);
}

int scan_run(struct roster *roster, struct mst_error *err)
{
    /* v1's memory hierarchy, else its CPU time, else v2. */
    static const char *const mounts[] = {"/fs/cgroup/memory", "/fs/cgroup/cpuacct", "/fs/cgroup/cpu,cpuacct",
                                         "/fs/cgroup"};
    char folder[PATH_MAX];
    for (size_t i = 0; i < MST_ARRAY_COUNT(mounts); i++) {
        struct stat about;
        const int length = snprintf(folder, sizeof folder, "%s%s", roster->paths.sysfs, mounts[i]);
        if (length < 0 || (size_t)length >= sizeof folder)
            return mst_error_set(err, -ENAMETOOLONG, "the path of /sys is too long");
        if (stat(folder, &about) < 0 || !S_ISDIR(about.st_mode))
            continue;
        struct walk walk = {
            .roster = roster, .mount_bytes = (size_t)length, .left = SCAN_MAX_FOLDERS, .err = err};
        walk_folder(&walk, folder, SCAN_MAX_DEPTH);
        return walk.code;
    }
    return mst_error_set(err, -ENOENT, "no control groups in %s/fs/cgroup", roster->paths.sysfs);
}
