/* SPDX-License-Identifier: Apache-2.0 */
#include "privileges.h"

#include <grp.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdbool.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

/* setuid() away from 0 clears the effective and permitted sets; this makes sure of the inheritable one too,
 * and of all three whatever the securebits said. */
static int clear_capabilities(void)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    const struct __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3] = {0};
    return syscall(SYS_capset, &header, none) < 0 ? -errno : 0;
}

/* The set*id() calls of libc reach every thread; prctl() and capset() only this one, and OpenBLAS starts
 * threads before main(). A seccomp filter can be given to all threads at once and takes this thread's
 * no_new_privs along; ours allows everything. SPEC_ALLOW: older kernels would slow filtered threads down.
 * Leaving uid 0 has taken their capabilities already. */
static int spread_no_new_privileges(void)
{
    struct sock_filter allow = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    const struct sock_fprog program = {.len = 1, .filter = &allow};
    const long r = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER,
                           SECCOMP_FILTER_FLAG_TSYNC | SECCOMP_FILTER_FLAG_SPEC_ALLOW, &program);
    if (r == 0)
        return 0;
    /* Not in this kernel, or not allowed in this container: this thread, and all that it starts, are bound.
     */
    return r > 0 ? -ESRCH : errno == ENOSYS || errno == EINVAL || errno == EPERM ? 0 : -errno;
}

int privileges_drop(uid_t uid, gid_t gid, struct mst_error *err)
{
    const bool is_root = geteuid() == 0;
    /* A container started with every capability dropped but SETUID and SETGID may still do all of this. */
    if (is_root && (setgroups(0, NULL) < 0 || setresgid(gid, gid, gid) < 0 || setresuid(uid, uid, uid) < 0))
        return mst_error_errno(err, -errno,
                               "become uid %u, gid %u (CAP_SETUID and CAP_SETGID are needed to give up root)",
                               (unsigned)uid, (unsigned)gid);
    int r = clear_capabilities();
    if (r < 0)
        return mst_error_errno(err, r, "give up all capabilities");
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        return mst_error_errno(err, -errno, "forbid new privileges");
    r = spread_no_new_privileges();
    if (r < 0)
        return mst_error_errno(err, r, "forbid new privileges to all threads");
    if (setuid(0) == 0 || geteuid() == 0)
        return mst_error_set(err, -EPERM, "root could be taken back after it was given up");
    return 0;
}
