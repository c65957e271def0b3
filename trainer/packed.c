/* SPDX-License-Identifier: Apache-2.0 */
#include "packed.h"

#include "muster/cleanup.h"
#include "muster/file.h"

#include <stdint.h>
#include <unistd.h>

#define PIECE_BYTES 4194304u /* what gzread() takes at once */

int packed_open(struct packed_file *ret_file, const char *path, struct mst_error *err)
{
    struct packed_file file = {.path = path};
    mst_cleanup(mst_closep) int fd = -1;
    const int r = mst_file_open(path, &fd, err);

    if (r < 0)
        return r;
    if (fstat(fd, &file.at_first) < 0)
        return mst_error_errno(err, -errno, "open '%s'", path);
    file.fd = fd;
    file.stream = gzdopen(fd, "rb");
    if (!file.stream)
        return mst_error_set(err, -ENOMEM, "open '%s': no memory", path);
    fd = -1; /* the stream's from here */
    *ret_file = file;
    return 0;
}

static int check_unchanged(const struct packed_file *file, struct mst_error *err)
{
    const struct stat *first = &file->at_first;
    struct stat now;

    if (fstat(file->fd, &now) < 0)
        return mst_error_errno(err, -errno, "read '%s'", file->path);
    if (now.st_size != first->st_size)
        return mst_error_set(err, -EBADMSG, "read '%s': it changed from %lld to %lld bytes while being read",
                             file->path, (long long)first->st_size, (long long)now.st_size);
    if (now.st_mtim.tv_sec != first->st_mtim.tv_sec || now.st_mtim.tv_nsec != first->st_mtim.tv_nsec)
        return mst_error_set(err, -EBADMSG, "read '%s': it was written to while being read", file->path);
    return 0;
}

/* The end of what the stream has, and whether that is the end of the file as it should be. */
static int check_end(const struct packed_file *file, struct mst_error *err)
{
    int zlib_code = Z_OK;
    const int r = check_unchanged(file, err);

    if (r < 0)
        return r;
    /* A .gz that is cut, be it within its checksum, ends early with a complaint that only gzerror() shows. */
    (void)gzerror(file->stream, &zlib_code);
    if (zlib_code == Z_BUF_ERROR)
        return mst_error_set(err, -EBADMSG, "read '%s': truncated gzip data", file->path);
    return 0;
}

int packed_read(struct packed_file *file, void *bytes, size_t count, size_t *ret_got, struct mst_error *err)
{
    size_t got = 0;

    while (got < count) {
        const size_t left = count - got;
        const int n =
            gzread(file->stream, (uint8_t *)bytes + got, left < PIECE_BYTES ? (unsigned)left : PIECE_BYTES);
        if (n < 0) {
            int zlib_code = Z_OK;
            const char *text = gzerror(file->stream, &zlib_code);
            if (zlib_code == Z_ERRNO)
                return mst_error_errno(err, errno > 0 ? -errno : -EIO, "read '%s'", file->path);
            const int r = check_unchanged(file, err);
            return r < 0 ? r
                         : mst_error_set(err, -EBADMSG, "read '%s': damaged gzip data: %s", file->path, text);
        }
        if (n == 0)
            break;
        got += (size_t)n;
    }
    const int r = got < count ? check_end(file, err) : 0;
    if (r == 0)
        *ret_got = got;
    return r;
}

void packed_close(struct packed_file *file)
{
    if (file->stream)
        (void)gzclose(file->stream); /* read only: nothing can be lost */
    *file = (struct packed_file){0};
}
