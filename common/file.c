/* SPDX-License-Identifier: Apache-2.0 */
#include "muster/file.h"

#include "muster/cleanup.h"

#include <assert.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#define READ_CHUNK_BYTES ((size_t)1 << 16)

static int read_rest(int fd, const char *path, struct mst_buf *content, struct mst_error *err)
{
    /* Asking for one byte more than the limit allows tells a file of exactly the limit from a larger one. */
    for (;;) {
        size_t room = content->max_bytes - content->count;
        if (room > READ_CHUNK_BYTES)
            room = READ_CHUNK_BYTES;
        char extra;
        const int r = room > 0 ? mst_buf_reserve(content, room) : 0;
        if (r < 0)
            return mst_error_errno(err, r, "read '%s'", path);
        const ssize_t got = room > 0 ? read(fd, content->bytes + content->count, room) : read(fd, &extra, 1);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return mst_error_errno(err, -errno, "read '%s'", path);
        if (got == 0)
            return 0;
        if (room == 0)
            return mst_error_set(err, -EFBIG, "read '%s': larger than the limit of %zu bytes", path,
                                 content->max_bytes);
        content->count += (size_t)got;
        content->bytes[content->count] = '\0';
    }
}

/* What a path that is no regular file leads to, for people. */
static const char *kind_text(mode_t mode)
{
    switch (mode & S_IFMT) {
    case S_IFDIR:
        return "a folder";
    case S_IFIFO:
        return "a pipe";
    case S_IFSOCK:
        return "a socket";
    default:
        return "a device";
    }
}

int mst_file_open(const char *path, int *ret_fd, struct mst_error *err)
{
    struct stat status;
    /* O_NONBLOCK: opening a FIFO waits for somebody who writes to it, and a process that waits in open(2) or
     * read(2) does not hear that it is told to stop. On a regular file it changes nothing. */
    mst_cleanup(mst_closep) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (fd < 0 && errno == ENOENT && lstat(path, &status) == 0)
        return mst_error_set(err, -ENOENT, "open '%s': it is a link to something that is not there", path);
    if (fd < 0 || fstat(fd, &status) < 0)
        return mst_error_errno(err, -errno, "open '%s'", path);
    if (!S_ISREG(status.st_mode))
        return mst_error_set(err, S_ISDIR(status.st_mode) ? -EISDIR : -EINVAL,
                             "open '%s': expected a file, and it is %s", path, kind_text(status.st_mode));
    *ret_fd = fd;
    fd = -1;
    return 0;
}

int mst_file_read(const char *path, struct mst_buf *ret_content, struct mst_error *err)
{
    mst_cleanup(mst_closep) int fd = -1;
    int r = mst_file_open(path, &fd, err);
    if (r < 0)
        return r;
    const size_t count_before = ret_content->count;
    r = read_rest(fd, path, ret_content, err);
    if (r < 0 && ret_content->bytes) {
        ret_content->count = count_before;
        ret_content->bytes[count_before] = '\0';
    }
    return r;
}

int mst_write_all(int fd, const void *bytes, size_t count)
{
    const char *next = bytes;
    while (count > 0) {
        const ssize_t written = write(fd, next, count);
        if (written < 0 && errno == EINTR)
            continue;
        if (written < 0)
            return -errno;
        next += written;
        count -= (size_t)written;
    }
    return 0;
}

/* A rename is on the disk only when its folder is. */
static int sync_folder_of(const char *path)
{
    mst_cleanup(mst_freep) char *folder = strdup(path);
    if (!folder)
        return -ENOMEM;
    char *slash = strrchr(folder, '/');
    if (slash)
        slash[slash == folder ? 1 : 0] = '\0';
    mst_cleanup(mst_closep) int fd = open(slash ? folder : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    return fsync(fd) < 0 ? -errno : 0;
}

int mst_file_check_output(const char *path, struct mst_error *err)
{
    struct stat status;

    if (lstat(path, &status) < 0)
        return errno == ENOENT ? 0 : mst_error_errno(err, -errno, "write '%s'", path);
    if (S_ISREG(status.st_mode))
        return 0;
    return mst_error_set(err, S_ISDIR(status.st_mode) ? -EISDIR : -EINVAL,
                         "write '%s': expected a file or nothing there, and it is %s", path,
                         S_ISLNK(status.st_mode) ? "a link" : kind_text(status.st_mode));
}

int mst_file_writer_open(struct mst_file_writer *writer, const char *path, unsigned mode,
                         struct mst_error *err)
{
    *writer = (struct mst_file_writer){.fd = -1};
    const int checked = mst_file_check_output(path, err);
    if (checked < 0)
        return checked;
    writer->path = strdup(path);
    if (!writer->path || !(writer->temporary = mst_format("%s.XXXXXX", path))) {
        mst_file_writer_discard(writer);
        return mst_error_set(err, -ENOMEM, "write '%s': no memory", path);
    }
    writer->fd = mkostemp(writer->temporary, O_CLOEXEC);
    if (writer->fd < 0) {
        const int code = -errno;
        free(writer->temporary); /* nothing was made: nothing to unlink */
        writer->temporary = NULL;
        mst_file_writer_discard(writer);
        return mst_error_errno(err, code, "write '%s'", path);
    }
    if (fchmod(writer->fd, (mode_t)mode) < 0) {
        const int code = -errno;
        mst_file_writer_discard(writer);
        return mst_error_errno(err, code, "write '%s': set mode %o", path, mode);
    }
    return 0;
}

int mst_file_writer_commit(struct mst_file_writer *writer, struct mst_error *err)
{
    int code = fsync(writer->fd) < 0 ? -errno : 0;
    if (close(writer->fd) < 0 && code == 0)
        code = -errno;
    writer->fd = -1;
    if (code == 0 && rename(writer->temporary, writer->path) < 0)
        code = -errno;
    if (code == 0) {
        free(writer->temporary);
        writer->temporary = NULL; /* renamed: nothing to unlink */
        code = sync_folder_of(writer->path);
    }
    if (code < 0)
        mst_error_errno(err, code, "write '%s'", writer->path);
    mst_file_writer_discard(writer);
    return code;
}

void mst_file_writer_discard(struct mst_file_writer *writer)
{
    mst_closep(&writer->fd);
    if (writer->temporary)
        (void)unlink(writer->temporary); /* already failing: the first fault is the one to tell */
    free(writer->temporary);
    free(writer->path);
    *writer = (struct mst_file_writer){.fd = -1};
}

int mst_file_write_atomic(const char *path, const void *bytes, size_t count, unsigned mode,
                          struct mst_error *err)
{
    struct mst_file_writer writer;
    int r = mst_file_writer_open(&writer, path, mode, err);
    if (r < 0)
        return r;
    r = mst_write_all(writer.fd, bytes, count);
    if (r < 0) {
        mst_file_writer_discard(&writer);
        return mst_error_errno(err, r, "write '%s'", path);
    }
    return mst_file_writer_commit(&writer, err);
}

int mst_make_folders(const char *path, unsigned mode, struct mst_error *err)
{
    mst_cleanup(mst_freep) char *partial = strdup(path);
    if (!partial)
        return mst_error_set(err, -ENOMEM, "make folder '%s': no memory", path);
    for (char *slash = strchr(partial + (partial[0] == '/'), '/');; slash = strchr(slash + 1, '/')) {
        if (slash)
            *slash = '\0';
        if (mkdir(partial, (mode_t)mode) < 0 && errno != EEXIST)
            return mst_error_errno(err, -errno, "make folder '%s'", partial);
        if (!slash)
            break;
        *slash = '/';
    }

    struct stat status;
    if (stat(path, &status) < 0)
        return mst_error_errno(err, -errno, "make folder '%s'", path);
    if (!S_ISDIR(status.st_mode))
        return mst_error_set(err, -ENOTDIR, "make folder '%s': a file of that name stands there", path);
    return 0;
}

int mst_open_standard_descriptors(void)
{
    /* For reading only: results that are written there are lost, and that stays an error. open(2) gives the
     * lowest that is free, so those below are taken by then. Not close-on-exec: the programs that are started
     * from here want them as well. */
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
        if (fcntl(fd, F_GETFD) >= 0)
            continue;
        const int opened = open("/dev/null", O_RDONLY);
        if (opened < 0)
            return -errno;
        assert(opened == fd);
    }
    return 0;
}

int mst_raise_descriptor_limit(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
        return -errno;
    limit.rlim_cur = limit.rlim_max;
    return setrlimit(RLIMIT_NOFILE, &limit) < 0 ? -errno : 0;
}

char *mst_path_join(const char *folder, const char *name)
{
    const size_t length = strlen(folder);
    const char *separator = length > 0 && folder[length - 1] == '/' ? "" : "/";
    return mst_format("%s%s%s", folder, separator, name);
}

bool mst_name_is_plain(const char *name)
{
    const size_t length = strlen(name);
    if (length == 0 || length > 255 || strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
        return false;
    for (const char *c = name; *c; c++)
        if (*c == '/' || (unsigned char)*c < 0x20 || *c == 0x7f)
            return false;
    return true;
}
