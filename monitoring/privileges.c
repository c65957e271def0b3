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

#include <grp.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#define UNIX_SCHEME "unix://"

/* -ENOTSUP when only root itself may use the socket. */
static int socket_group(const char *host, gid_t *ret_group, bool *ret_has_group, struct mst_error *err)
{
    struct engine *engine = NULL;
    struct stat file;
    int r = engine_new(&(struct engine_options){.host = host}, &engine, err);
    if (r < 0)
        return r;
    const char *text = engine_host(engine);
    *ret_has_group = strncmp(text, UNIX_SCHEME, strlen(UNIX_SCHEME)) == 0;
    if (*ret_has_group && stat(text + strlen(UNIX_SCHEME), &file) < 0)
        r = mst_error_errno(err, -errno, "engine's socket '%s'", text + strlen(UNIX_SCHEME));
    else if (*ret_has_group && (file.st_mode & (S_IRGRP | S_IWGRP)) != (S_IRGRP | S_IWGRP))
        r = -ENOTSUP;
    else if (*ret_has_group)
        *ret_group = file.st_gid;
    engine_free(engine);
    return r;
}

int monitor_privileges_drop(const char *host, uid_t uid, const char **ret_kept, struct mst_error *err)
{
    gid_t group = 0;
    bool has_group = false;
    *ret_kept = NULL;
    if (geteuid() != 0)
        return 0;
    int r = socket_group(host, &group, &has_group, err);
    if (r == -ENOTSUP) {
        *ret_kept = "the engine's socket is for its owner only";
        return 0;
    }
    if (r < 0)
        return r;
    if (setgroups(has_group ? 1 : 0, &group) < 0) {
        if (errno != EPERM)
            return mst_error_errno(err, -errno, "give up root: setgroups");
        *ret_kept = "CAP_SETGID and CAP_SETUID are missing";
        return 0;
    }
    if (setresgid(uid, uid, uid) < 0 || setresuid(uid, uid, uid) < 0 ||
        prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        return mst_error_errno(err, -errno, "give up root: become uid %u", (unsigned)uid);
    return 0;
}
