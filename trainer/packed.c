/* SPDX-License-Identifier: Apache-2.0 */
#include "packed.h"

#include "muster/file.h"

#include <stdint.h>
#include <unistd.h>

#define PIECE_BYTES 4194304u /* what gzread() takes at once */

int packed_open(const char *path, gzFile *ret_file, struct mst_error *err)
{
    int fd = -1;
    const int r = mst_file_open(path, &fd, err);

    if (r < 0)
        return r;
    gzFile file = gzdopen(fd, "rb"); /* owns fd from here */
    if (!file) {
        (void)close(fd);
        return mst_error_set(err, -ENOMEM, "open '%s': no memory", path);
    }
    *ret_file = file;
    return 0;
}

int packed_read(gzFile file, const char *path, void *bytes, size_t count, size_t *ret_got,
                struct mst_error *err)
{
    size_t got = 0;

    while (got < count) {
        const size_t left = count - got;
        const int n = gzread(file, (uint8_t *)bytes + got, left < PIECE_BYTES ? (unsigned)left : PIECE_BYTES);
        if (n < 0) {
            int zlib_code = Z_OK;
            const char *text = gzerror(file, &zlib_code);
            if (zlib_code == Z_ERRNO)
                return mst_error_errno(err, errno > 0 ? -errno : -EIO, "read '%s'", path);
            return mst_error_set(err, -EBADMSG, "read '%s': damaged gzip data: %s", path, text);
        }
        if (n == 0)
            break;
        got += (size_t)n;
    }
    /* A .gz cut in the middle of its stream ends early with a complaint that only gzerror() shows. */
    if (got < count) {
        int zlib_code = Z_OK;
        (void)gzerror(file, &zlib_code);
        if (zlib_code == Z_BUF_ERROR)
            return mst_error_set(err, -EBADMSG, "read '%s': truncated gzip data", path);
    }
    *ret_got = got;
    return 0;
}

void packed_closep(gzFile *file)
{
    if (*file)
        (void)gzclose(*file); /* read only: nothing can be lost */
    *file = NULL;
}
