/* SPDX-License-Identifier: Apache-2.0 */
/* inflate() and not gzread(), which passes over whatever follows the first member if it does not begin as
 * another, and ends early without an error where a file is cut between two of them. */
#include "packed.h"

#include "muster/cleanup.h"
#include "muster/file.h"

#include <assert.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define GZIP_FIRST       0x1f
#define GZIP_SECOND      0x8b
#define GZIP_WINDOW_BITS (16 + MAX_WBITS) /* zlib.h: a gzip header and trailer, and no other format's */

/* Have the buffer's unread bytes in front, and more behind them. *ret_more: there were some. */
static int fill(struct packed_file *file, bool *ret_more, struct mst_error *err)
{
    z_stream *stream = &file->stream;
    ssize_t n;

    if (stream->avail_in > 0)
        memmove(file->buffer, stream->next_in, stream->avail_in);
    stream->next_in = file->buffer;
    do
        n = read(file->fd, file->buffer + stream->avail_in, PACKED_BUFFER_BYTES - stream->avail_in);
    while (n < 0 && errno == EINTR);
    if (n < 0)
        return mst_error_errno(err, -errno, "read '%s'", file->path);
    stream->avail_in += (unsigned)n;
    *ret_more = n > 0;
    return 0;
}

static int begin(struct packed_file *file, struct mst_error *err)
{
    z_stream *stream = &file->stream;
    bool more = true;
    int r = 0;

    while (r >= 0 && more && stream->avail_in < 2)
        r = fill(file, &more, err);
    if (r < 0 || stream->avail_in < 2 || stream->next_in[0] != GZIP_FIRST ||
        stream->next_in[1] != GZIP_SECOND)
        return r;
    if (inflateInit2(stream, GZIP_WINDOW_BITS) != Z_OK)
        return mst_error_set(err, -ENOMEM, "open '%s': no memory", file->path);
    file->is_gzip = file->within_member = true;
    return 0;
}

int packed_open(struct packed_file *ret_file, const char *path, struct mst_error *err)
{
    struct packed_file file = {.path = path};

    int r = mst_file_open(path, &file.fd, err);
    if (r < 0)
        return r;
    file.buffer = malloc(PACKED_BUFFER_BYTES);
    if (!file.buffer)
        r = mst_error_set(err, -ENOMEM, "open '%s': no memory", path);
    else if (fstat(file.fd, &file.at_first) < 0)
        r = mst_error_errno(err, -errno, "open '%s'", path);
    if (r < 0) {
        free(file.buffer);
        mst_closep(&file.fd);
        return r;
    }
    /* inflateInit2() keeps the stream's address: it is the caller's struct that is begun. */
    *ret_file = file;
    r = begin(ret_file, err);
    if (r < 0)
        packed_close(ret_file);
    return r;
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

/* Of a file that somebody wrote to meanwhile, that is what is told. */
static int damaged(const struct packed_file *file, const char *what, struct mst_error *err)
{
    const int r = check_unchanged(file, err);

    return r < 0 ? r : mst_error_set(err, -EBADMSG, "read '%s': %s", file->path, what);
}

/* Bytes as they are. 1: some; 0: the file ends. */
static int take_plain(struct packed_file *file, uint8_t *bytes, size_t count, size_t *ret_taken,
                      struct mst_error *err)
{
    z_stream *stream = &file->stream;
    bool more = true;

    const int r = stream->avail_in > 0 ? 0 : fill(file, &more, err);
    if (r < 0)
        return r;
    *ret_taken = count < stream->avail_in ? count : stream->avail_in;
    memcpy(bytes, stream->next_in, *ret_taken);
    stream->next_in += *ret_taken;
    stream->avail_in -= (unsigned)*ret_taken;
    return *ret_taken > 0;
}

/* Between members, with bytes to look at: another begins, or padding that is all zeros. */
static int begin_member(struct packed_file *file, struct mst_error *err)
{
    z_stream *stream = &file->stream;

    while (stream->avail_in > 0 && *stream->next_in == 0) {
        file->padded = true;
        stream->next_in++;
        stream->avail_in--;
    }
    if (stream->avail_in == 0)
        return 0;
    if (file->padded || *stream->next_in != GZIP_FIRST)
        return damaged(file, "damaged gzip data: something else stands behind it", err);
    const int zlib_code = inflateReset(stream);
    assert(zlib_code == Z_OK);
    file->within_member = zlib_code == Z_OK;
    return 0;
}

static int inflate_some(struct packed_file *file, struct mst_error *err)
{
    z_stream *stream = &file->stream;
    char text[128];

    const int zlib_code = inflate(stream, Z_NO_FLUSH);
    if (zlib_code == Z_STREAM_END)
        file->within_member = false;
    if (zlib_code == Z_OK || zlib_code == Z_STREAM_END || zlib_code == Z_BUF_ERROR)
        return 0;
    if (zlib_code == Z_MEM_ERROR)
        return mst_error_set(err, -ENOMEM, "read '%s': no memory", file->path);
    (void)snprintf(text, sizeof text, "damaged gzip data: %s",
                   stream->msg ? stream->msg : "it has a dictionary");
    return damaged(file, text, err);
}

/* The same for what is packed in the file. */
static int take_packed(struct packed_file *file, uint8_t *bytes, size_t count, size_t *ret_taken,
                       struct mst_error *err)
{
    z_stream *stream = &file->stream;
    const unsigned room = count < UINT_MAX ? (unsigned)count : UINT_MAX;

    stream->next_out = bytes;
    stream->avail_out = room;
    while (stream->avail_out == room) {
        bool more = true;
        int r = stream->avail_in > 0 ? 0 : fill(file, &more, err);
        if (r >= 0 && !more)
            return file->within_member ? damaged(file, "truncated gzip data", err) : 0;
        if (r >= 0)
            r = file->within_member ? inflate_some(file, err) : begin_member(file, err);
        if (r < 0)
            return r;
    }
    *ret_taken = room - stream->avail_out;
    return 1;
}

int packed_read(struct packed_file *file, void *bytes, size_t count, size_t *ret_got, struct mst_error *err)
{
    size_t got = 0;
    int r = 1;

    while (r == 1 && got < count) {
        size_t taken = 0;
        r = file->is_gzip ? take_packed(file, (uint8_t *)bytes + got, count - got, &taken, err)
                          : take_plain(file, (uint8_t *)bytes + got, count - got, &taken, err);
        got += taken;
    }
    if (r == 0)
        r = check_unchanged(file, err);
    if (r < 0)
        return r;
    *ret_got = got;
    return 0;
}

void packed_close(struct packed_file *file)
{
    if (file->is_gzip)
        (void)inflateEnd(&file->stream); /* read only: nothing can be lost */
    if (file->buffer)
        mst_closep(&file->fd);
    free(file->buffer);
    *file = (struct packed_file){0};
}
