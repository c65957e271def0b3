/* SPDX-License-Identifier: Apache-2.0 */
#include "record.h"

#include "muster/cleanup.h"
#include "muster/clock.h"
#include "muster/file.h"
#include "muster/log.h"
#include "record_encode.h"
#include "record_format.h"
#include "recording.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>
#include <zlib.h>

#define RECORD_BLOCK_NS    (5 * MST_NS_PER_S)
#define RECORD_BLOCK_BYTES ((size_t)1 << 20) /* unpacked */
#define RECORD_KEPT_MAX    4096              /* older files that are looked at */

struct record {
    struct record_options options;
    int fd;
    uint64_t file_bytes, blocks;
    double first_s; /* of the file */
    uint64_t lost;
    bool is_failing; /* it was said that the disk is full */
    bool is_overdue; /* it was said that the next file cannot be begun */
    struct record_encoder encoder;
    double block_first_s, block_last_s;
    uint64_t block_since_ns;
    uint32_t block_passes;
    struct mst_buf index; /* of the file, RECORD_INDEX_ENTRY each */
};

/* Into an empty file, which is empty again after an error: half a header would be no recording. */
static int write_header(const struct record *record, int fd, const char *path, uint64_t *ret_bytes,
                        struct mst_error *err)
{
    struct mst_buf text = MST_BUF_INIT(RECORD_HEADER_MAX_BYTES);
    uint8_t head[16], checksum[4];
    int r = record_put_text(&text, record->options.version);
    if (r == 0)
        r = record_put_text(&text, record->options.node);
    if (r == 0) {
        memcpy(head, RECORD_MAGIC, 8);
        record_put32(head + 8, RECORD_VERSION);
        record_put32(head + 12, (uint32_t)text.count);
        uLong sum = crc32(0, head, sizeof head);
        sum = crc32(sum, (const unsigned char *)mst_buf_text(&text), (uInt)text.count);
        record_put32(checksum, (uint32_t)sum);
        r = mst_write_all(fd, head, sizeof head);
    }
    if (r == 0)
        r = mst_write_all(fd, mst_buf_text(&text), text.count);
    if (r == 0)
        r = mst_write_all(fd, checksum, sizeof checksum);
    if (r == 0)
        *ret_bytes = sizeof head + text.count + sizeof checksum;
    else if (ftruncate(fd, 0) < 0)
        r = -EIO;
    mst_buf_release(&text);
    return r < 0 ? mst_error_errno(err, r, "write '%s'", path) : 0;
}

static int add_index(struct record *record, const struct record_block *block, uint64_t offset)
{
    uint8_t entry[RECORD_INDEX_ENTRY];
    record_put64(entry, offset);
    record_put64(entry + 8, record_bits(block->first_s));
    record_put64(entry + 16, record_bits(block->last_s));
    record_put64(entry + 24, block->passes);
    return mst_buf_append(&record->index, entry, sizeof entry);
}

/* A file that is there: its whole blocks stay. */
static int carry_on(struct record *record, struct mst_error *err)
{
    struct recording *recording = NULL;
    int r = recording_open(record->options.path, &recording, err);
    if (r < 0)
        return r;
    const struct recording_block *block;
    record->blocks = recording_blocks(recording);
    record->file_bytes = recording_end(recording);
    for (size_t i = 0; r == 0 && (block = recording_block(recording, i)); i++) {
        if (i == 0)
            record->first_s = block->head.first_s;
        r = add_index(record, &block->head, block->offset);
    }
    recording_free(recording);
    if (r == 0 && ftruncate(record->fd, (off_t)record->file_bytes) < 0)
        r = -errno;
    if (r == 0 && lseek(record->fd, 0, SEEK_END) < 0)
        r = -errno;
    return r < 0 ? mst_error_errno(err, r, "carry '%s' on", record->options.path) : 0;
}

/* `flags` besides those for reading and writing. */
static int open_locked(const char *path, int flags, int *ret_fd, struct mst_error *err)
{
    mst_cleanup(mst_closep) int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOCTTY | flags, 0644);
    if (fd < 0)
        return mst_error_errno(err, -errno, "open '%s'", path);
    if (flock(fd, LOCK_EX | LOCK_NB) < 0)
        return errno == EWOULDBLOCK
                   ? mst_error_set(err, -EBUSY, "'%s' is being written by another process", path)
                   : mst_error_errno(err, -errno, "lock '%s'", path);
    *ret_fd = fd;
    fd = -1;
    return 0;
}

static int open_file(struct record *record, struct mst_error *err)
{
    const char *path = record->options.path;
    const int r = open_locked(path, 0, &record->fd, err);
    if (r < 0)
        return r;
    const off_t size = lseek(record->fd, 0, SEEK_END);
    if (size < 0)
        return mst_error_errno(err, -errno, "'%s'", path);
    return size == 0 ? write_header(record, record->fd, path, &record->file_bytes, err)
                     : carry_on(record, err);
}

int record_open(const struct record_options *options, struct record **ret_record, struct mst_error *err)
{
    struct record *record = calloc(1, sizeof *record);
    if (!record)
        return mst_error_set(err, -ENOMEM, "record: no memory");
    record->options = *options;
    record->options.block_ns = options->block_ns ? options->block_ns : RECORD_BLOCK_NS;
    record->fd = -1;
    record->index = (struct mst_buf)MST_BUF_INIT((size_t)256 << 20);
    record_encoder_init(&record->encoder);
    const int r = open_file(record, err);
    if (r < 0) {
        mst_closep(&record->fd);
        (void)record_close(record, NULL);
        return r;
    }
    *ret_record = record;
    return 0;
}

/* ---- blocks ---- */

/* One write: a header and its payload. What does not go out whole is taken back. */
static int write_block(struct record *record, struct record_block *block, const void *raw, size_t raw_bytes)
{
    struct mst_buf bytes = MST_BUF_INIT(RECORD_PAYLOAD_MAX + (1 << 20));
    uLongf stored = compressBound((uLong)raw_bytes);
    int r = mst_buf_reserve(&bytes, RECORD_BLOCK_HEADER + stored);
    uint8_t *at = (uint8_t *)bytes.bytes;
    if (r == 0 && compress2(at + RECORD_BLOCK_HEADER, &stored, raw, (uLong)raw_bytes, Z_BEST_SPEED) != Z_OK)
        r = -ENOMEM;
    if (r == 0) {
        block->stored_bytes = (uint32_t)stored;
        block->raw_bytes = (uint32_t)raw_bytes;
        block->sequence = record->blocks;
        block->checksum = (uint32_t)crc32(0, at + RECORD_BLOCK_HEADER, (uInt)stored);
        record_block_write(block, at);
        r = mst_write_all(record->fd, at, RECORD_BLOCK_HEADER + stored);
        if (r == 0)
            record->file_bytes += RECORD_BLOCK_HEADER + stored;
        else if (ftruncate(record->fd, (off_t)record->file_bytes) < 0 || lseek(record->fd, 0, SEEK_END) < 0)
            r = -EIO;
    }
    mst_buf_release(&bytes);
    return r;
}

/* The file is whole without it, too. */
static int write_index(struct record *record)
{
    uint8_t trailer[RECORD_TRAILER];
    const uint64_t offset = record->file_bytes;
    struct record_block block = {.magic = RECORD_INDEX_MAGIC};
    int r = write_block(record, &block, mst_buf_text(&record->index), record->index.count);
    if (r < 0)
        return r;
    record_put64(trailer, offset);
    record_put32(trailer + 8, (uint32_t)crc32(0, trailer, 8));
    record_put32(trailer + 12, RECORD_TRAILER_MAGIC);
    r = mst_write_all(record->fd, trailer, sizeof trailer);
    if (r < 0 && ftruncate(record->fd, (off_t)offset) < 0)
        r = -EIO;
    return r;
}

static int flush(struct record *record, struct mst_error *err)
{
    if (record->block_passes == 0)
        return 0;
    struct record_block block = {.magic = RECORD_BLOCK_MAGIC,
                                 .passes = record->block_passes,
                                 .first_s = record->block_first_s,
                                 .last_s = record->block_last_s};
    const uint64_t offset = record->file_bytes;
    const struct mst_buf *raw = &record->encoder.text;
    int r = write_block(record, &block, mst_buf_text(raw), raw->count);
    if (r == 0)
        r = add_index(record, &block, offset);
    if (r == 0) {
        if (record->blocks++ == 0)
            record->first_s = block.first_s;
        if (record->is_failing)
            mst_log_info("monitor", "recording goes on");
        record->is_failing = false;
    } else if (r == -ENOSPC || r == -EDQUOT || r == -EFBIG) {
        if (!record->is_failing)
            mst_log_warn("monitor", "'%s' cannot be written, what happens meanwhile is lost: %s",
                         record->options.path, strerror(-r));
        record->is_failing = true;
        record->lost += record->block_passes;
        r = 0;
    }
    record_encoder_reset(&record->encoder);
    record->block_passes = 0;
    return r < 0 ? mst_error_errno(err, r, "write '%s'", record->options.path) : 0;
}

/* ---- rotation ---- */

static int compare_texts(const void *a, const void *b)
{
    const char *const *left = a, *const *right = b;
    return strcmp(*left, *right);
}

/* Names end in a time that sorts as text. */
char **record_files(const char *path, size_t *ret_count)
{
    mst_cleanup(mst_freep) char *folder = strdup(path);
    char **paths = calloc(RECORD_KEPT_MAX + 1, sizeof *paths);
    char *slash = folder ? strrchr(folder, '/') : NULL;
    const char *base = slash ? slash + 1 : folder;
    size_t count = 0;
    DIR *dir = NULL;
    *ret_count = 0;
    if (folder && paths)
        dir = opendir(slash == folder ? "/" : slash ? (*slash = '\0', folder) : ".");
    if (!dir) {
        free(paths);
        return NULL;
    }
    const size_t base_bytes = strlen(base);
    for (const struct dirent *entry; count < RECORD_KEPT_MAX && (entry = readdir(dir));) {
        const char *name = entry->d_name;
        if (strncmp(name, base, base_bytes) == 0 && name[base_bytes] == '.' &&
            strlen(name + base_bytes + 1) == strlen("20260131T235959.999Z") && name[base_bytes + 9] == 'T') {
            paths[count] = mst_format("%s%s", path, name + base_bytes);
            count += paths[count] != NULL;
        }
    }
    (void)closedir(dir);
    qsort(paths, count, sizeof *paths, compare_texts);
    paths[count] = strdup(path);
    *ret_count = count + (paths[count] != NULL);
    return paths;
}

static void remove_oldest(const struct record *record)
{
    size_t count;
    char **paths = record_files(record->options.path, &count);
    for (size_t i = 0; i < count; i++) {
        const bool is_surplus = i + 1 + record->options.keep < count; /* the last is the current one */
        if (is_surplus && unlink(paths[i]) < 0)
            mst_log_warn("monitor", "'%s' cannot be removed: %s", paths[i], strerror(errno));
        free(paths[i]);
    }
    free(paths);
}

static bool is_due(const struct record *record)
{
    const bool is_large = record->options.max_bytes > 0 && record->file_bytes >= record->options.max_bytes;
    const bool is_old = record->options.max_age_ns > 0 &&
                        mst_wall_s() - record->first_s > (double)record->options.max_age_ns / 1e9;
    return record->blocks > 0 && (is_large || is_old);
}

/* Where the current file goes; the caller's. */
static int aside_path(const struct record *record, char **ret_path, struct mst_error *err)
{
    char stamp[32];
    const time_t first = (time_t)record->first_s;
    struct tm parts;
    if (!gmtime_r(&first, &parts))
        return mst_error_errno(err, -errno, "the time of '%s'", record->options.path);
    const size_t at = strftime(stamp, sizeof stamp, "%Y%m%dT%H%M%S", &parts);
    (void)snprintf(stamp + at, sizeof stamp - at, ".%03uZ",
                   (unsigned)((record->first_s - (double)first) * 1000) % 1000);
    *ret_path = mst_format("%s.%s", record->options.path, stamp);
    return *ret_path ? 0 : mst_error_set(err, -ENOMEM, "record: no memory");
}

/* The next file stands, with its header, before the current one is set aside: whatever goes wrong up to then
 * leaves the current one where it is. The lock on that keeps others from the next one's name, so what a crash
 * has left there is nobody's. */
static int begin_next(struct record *record, struct mst_error *err)
{
    const char *path = record->options.path;
    mst_cleanup(mst_freep) char *next = mst_format("%s.new", path);
    mst_cleanup(mst_freep) char *aside = NULL;
    mst_cleanup(mst_closep) int fd = -1;
    uint64_t bytes = 0;
    if (!next)
        return mst_error_set(err, -ENOMEM, "record: no memory");
    int r = aside_path(record, &aside, err);
    if (r == 0)
        r = open_locked(next, O_TRUNC | O_NOFOLLOW, &fd, err);
    if (r < 0)
        return r;
    r = write_header(record, fd, next, &bytes, err);
    if (r == 0 && rename(path, aside) < 0)
        r = mst_error_errno(err, -errno, "rename '%s' to '%s'", path, aside);
    if (r == 0 && rename(next, path) < 0) {
        r = mst_error_errno(err, -errno, "rename '%s' to '%s'", next, path);
        if (rename(aside, path) < 0)
            mst_log_warn("monitor", "'%s' stays where it is: %s", aside, strerror(errno));
    }
    if (r < 0) {
        (void)unlink(next); /* it is emptied when it is needed again */
        return r;
    }
    const int indexed = write_index(record);
    if (indexed < 0)
        mst_log_warn("monitor", "'%s' has no index: %s", aside, strerror(-indexed));
    mst_closep(&record->fd);
    record->fd = fd;
    fd = -1;
    record->file_bytes = bytes;
    record->blocks = 0;
    record->first_s = 0;
    mst_buf_clear(&record->index);
    return 0;
}

/* Without a next file the current one goes on, beyond its limits: better than nothing. */
static void rotate(struct record *record)
{
    struct mst_error why = MST_ERROR_INIT;
    if (record->is_failing || !is_due(record))
        return;
    if (begin_next(record, &why) == 0) {
        record->is_overdue = false;
        if (record->options.keep > 0)
            remove_oldest(record);
    } else {
        if (!record->is_overdue)
            mst_log_warn("monitor", "'%s' goes on, for the next file cannot be begun: %s",
                         record->options.path, why.text);
        record->is_overdue = true;
    }
}

int record_add(struct record *record, const struct monitor_pass *pass, uint64_t *ret_lost,
               struct mst_error *err)
{
    int r = record_encode(&record->encoder, pass);
    if (r < 0)
        return mst_error_errno(err, r, "record a pass over %zu containers", pass->count);
    if (record->block_passes++ == 0) {
        record->block_first_s = pass->wall_s;
        record->block_since_ns = pass->read_ns;
    }
    record->block_last_s = pass->wall_s;
    if (record->encoder.text.count >= RECORD_BLOCK_BYTES || record->block_passes == RECORD_PASSES_MAX ||
        pass->read_ns - record->block_since_ns >= record->options.block_ns) {
        r = flush(record, err);
        if (r == 0)
            rotate(record);
    }
    if (ret_lost)
        *ret_lost = record->lost;
    return r;
}

int record_close(struct record *record, struct mst_error *err)
{
    if (!record)
        return 0;
    int r = record->fd >= 0 ? flush(record, err) : 0;
    if (r == 0 && record->fd >= 0 && record->blocks > 0) {
        const uint64_t end = record->file_bytes;
        r = write_index(record);
        if (r < 0 && ftruncate(record->fd, (off_t)end) == 0)
            r = 0; /* the file is whole without it */
        if (r < 0)
            r = mst_error_errno(err, r, "write '%s'", record->options.path);
    }
    mst_closep(&record->fd);
    record_encoder_release(&record->encoder);
    mst_buf_release(&record->index);
    free(record);
    return r;
}
