/* SPDX-License-Identifier: Apache-2.0 */
/* What the monitor reads is open to everybody (/proc/PID/cgroup and net/dev, the control groups' files), but
 * for the Engine's socket, which belongs to root and a group, "docker" or root's. So the process keeps that
 * group and nothing else. Staying root would allow to write to the control groups: a read-only bind mount of
 * /sys/fs/cgroup does not cover the v1 hierarchies mounted below it, and root owns their files whatever
 * capabilities are dropped. Opening the connection first and then dropping the group too would not last: the
 * Engine restarts, and the monitor must find it again. Who may use the socket may do anything on the host,
 * through the Engine; this guards against our own mistakes in parsers, not against a stolen process. */
#include "muster/engine.h"
#include "muster/monitor.h"

#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#define UNIX_SCHEME "unix://"
#define GROUPS_MAX  256

/* What must stay within reach. */
struct reach {
    char socket[PATH_MAX]; /* "" for TCP */
    char process[PATH_MAX], cgroups[PATH_MAX];
    gid_t socket_group;
};

static int reach_init(struct reach *reach, const struct monitor_options *options, struct mst_error *err)
{
    struct engine *engine = NULL;
    struct stat file;
    int r = engine_new(&(struct engine_options){.host = options->host}, &engine, err); /* no I/O */
    if (r < 0)
        return r;
    const char *host = engine_host(engine);
    *reach = (struct reach){0};
    if (options->source != MONITOR_SOURCE_CGROUPS && strncmp(host, UNIX_SCHEME, strlen(UNIX_SCHEME)) == 0)
        (void)snprintf(reach->socket, sizeof reach->socket, "%s", host + strlen(UNIX_SCHEME));
    engine_free(engine);
    if (snprintf(reach->process, PATH_MAX, "%s/1/cgroup", options->paths.procfs) >= PATH_MAX ||
        snprintf(reach->cgroups, PATH_MAX, "%s/fs/cgroup", options->paths.sysfs) >= PATH_MAX)
        return mst_error_set(err, -EINVAL, "the path of /proc or /sys is too long");
    if (*reach->socket && stat(reach->socket, &file) < 0)
        return mst_error_errno(err, -errno, "engine's socket '%s'", reach->socket);
    reach->socket_group = *reach->socket ? file.st_gid : 0;
    return 0;
}

/* As whom the process is at the moment. What is not there at all is no matter of rights. */
static bool can_reach(const char *path, int mode)
{
    return *path == '\0' || faccessat(AT_FDCWD, path, mode, AT_EACCESS) == 0 || errno == ENOENT;
}

static const char *out_of_reach(const struct reach *reach)
{
    if (!can_reach(reach->socket, R_OK | W_OK))
        return "the engine's socket is for root only";
    if (!can_reach(reach->process, R_OK))
        return "/proc hides the processes of others";
    return can_reach(reach->cgroups, R_OK | X_OK) ? NULL : "the control groups are for root only";
}

/* Tries it with the effective ids, which can be taken back, and takes them back. */
static int rehearse(const struct reach *reach, uid_t uid, const char **ret_kept, struct mst_error *err)
{
    gid_t before[GROUPS_MAX];
    const int count = getgroups(GROUPS_MAX, before);
    if (count < 0)
        return mst_error_errno(err, -errno, "give up root: read groups");
    if (setgroups(*reach->socket ? 1 : 0, &reach->socket_group) < 0) {
        if (errno != EPERM)
            return mst_error_errno(err, -errno, "give up root: set groups");
        *ret_kept = "CAP_SETGID and CAP_SETUID are missing";
        return 0;
    }
    if (setegid(uid) < 0 || seteuid(uid) < 0)
        return mst_error_errno(err, -errno, "give up root: become uid %u", (unsigned)uid);
    *ret_kept = out_of_reach(reach);
    if (seteuid(0) < 0 || setegid(0) < 0 || (*ret_kept && setgroups((size_t)count, before) < 0))
        return mst_error_errno(err, -errno, "give up root: go back to uid 0");
    return 0;
}

int monitor_privileges_drop(const struct monitor_options *options, uid_t uid, const char **ret_kept,
                            struct mst_error *err)
{
    struct reach reach;
    *ret_kept = NULL;
    if (geteuid() != 0)
        return 0;
    int r = reach_init(&reach, options, err);
    if (r == 0)
        r = rehearse(&reach, uid, ret_kept, err);
    if (r < 0 || *ret_kept)
        return r;
    if (setresgid(uid, uid, uid) < 0 || setresuid(uid, uid, uid) < 0 ||
        prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        return mst_error_errno(err, -errno, "give up root: become uid %u", (unsigned)uid);
    return 0;
}
