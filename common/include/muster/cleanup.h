/* SPDX-License-Identifier: Apache-2.0 */
/* Resources that let go by themselves at the end of their scope:
 *
 *     mst_cleanup(mst_freep) char *text = strdup(name);
 *     mst_cleanup(mst_closep) int fd = open(path, O_RDONLY | O_CLOEXEC);
 *
 * Ownership leaves the scope by setting the variable to NULL or -1. */
#ifndef MUSTER_CLEANUP_H
#define MUSTER_CLEANUP_H

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#define mst_cleanup(function) __attribute__((cleanup(function)))

/* For `T *p`: free(p). */
static inline void mst_freep(void *pointer)
{
    void **p = pointer;
    free(*p);
    *p = NULL;
}

/* For `int fd`: close it unless negative; errno is kept, so that the error being returned stays. */
static inline void mst_closep(int *fd)
{
    if (*fd >= 0) {
        int saved_errno = errno;
        (void)close(*fd); /* data that must reach the disk is fsynced before: file.h */
        errno = saved_errno;
    }
    *fd = -1;
}

#define MST_ARRAY_COUNT(array) (sizeof(array) / sizeof((array)[0]))

#endif
