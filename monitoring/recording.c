/* SPDX-License-Identifier: Apache-2.0 */
#include "recording.h"

#include "muster/cleanup.h"
#include "muster/file.h"
#include "record_decode.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

struct recording {
    int fd;
    char *path;
    char version[MONITOR_NAME_BYTES], node[MONITOR_NAME_BYTES];
    uint64_t file_bytes, end, torn, passes;
    struct recording_block *blocks;
    size_t count, room;
    size_t next; /* block to be read */
    double from_s;
    struct mst_buf stored, raw;
    struct record_decoder decoder;
    uint32_t left; /* passes of the current block */
    /* The newest sample of each container, for the first pass of the next block. */
    struct monitor_sample *last;
    char (*last_ids)[MONITOR_ID_BYTES];
    size_t last_count, last_room;
};

static int damaged(const struct recording *recording, uint64_t offset, const char *what,
                   struct mst_error *err)
{
    return mst_error_set(err, -EBADMSG, "recording '%s': at byte %" PRIu64 ": %s", recording->path, offset,
                         what);
}

/* All of it, or -EBADMSG at the file's end. */
static int read_at(const struct recording *recording, uint64_t offset, void *bytes, size_t count)
{
    for (size_t done = 0; done < count;) {
        const ssize_t got = pread(recording->fd, (char *)bytes + done, count - done, (off_t)(offset + done));
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return -errno;
        if (got == 0)
            return -EBADMSG;
        done += (size_t)got;
    }
    return 0;
}

static int read_header(struct recording *recording, struct mst_error *err)
{
    uint8_t bytes[16 + RECORD_HEADER_MAX_BYTES + 4];
    int r = read_at(recording, 0, bytes, 16);
    if (r < 0 || memcmp(bytes, RECORD_MAGIC, 8) != 0)
        return damaged(recording, 0, "this is no recording of muster-monitor", err);
    const uint32_t version = record_get32(bytes + 8), rest = record_get32(bytes + 12);
    if (version != RECORD_VERSION)
        return mst_error_set(err, -EBADMSG, "recording '%s': version %" PRIu32 ", and this program reads %u",
                             recording->path, version, RECORD_VERSION);
    if (rest > RECORD_HEADER_MAX_BYTES || read_at(recording, 16, bytes + 16, rest + 4) < 0)
        return damaged(recording, 16, "the header is cut", err);
    if (record_get32(bytes + 16 + rest) != (uint32_t)crc32(0, bytes, 16 + rest))
        return damaged(recording, 0, "the header's checksum is wrong", err);
    const uint8_t *at = bytes + 16, *end = at + rest;
    if (record_take_text(&at, end, recording->version, sizeof recording->version) < 0 ||
        record_take_text(&at, end, recording->node, sizeof recording->node) < 0)
        return damaged(recording, 16, "the header's texts make no sense", err);
    recording->end = 16 + rest + 4;
    return 0;
}

static int add_block(struct recording *recording, const struct record_block *head, uint64_t offset)
{
    if (recording->count == recording->room) {
        const size_t room = recording->room ? recording->room * 2 : 64;
        void *blocks = reallocarray(recording->blocks, room, sizeof *recording->blocks);
        if (!blocks)
            return -ENOMEM;
        recording->blocks = blocks;
        recording->room = room;
    }
    recording->blocks[recording->count++] = (struct recording_block){*head, offset};
    recording->passes += head->passes;
    return 0;
}

static bool is_plausible(const struct recording *recording, const struct record_block *head, uint64_t offset)
{
    return head->stored_bytes <= recording->file_bytes - offset - RECORD_BLOCK_HEADER &&
           head->raw_bytes <= RECORD_PAYLOAD_MAX && isfinite(head->first_s) && isfinite(head->last_s) &&
           head->passes > 0 && head->passes <= RECORD_PASSES_MAX;
}

static int read_payload(struct recording *recording, const struct recording_block *block)
{
    struct mst_buf *stored = &recording->stored, *raw = &recording->raw;
    mst_buf_clear(stored);
    mst_buf_clear(raw);
    int r = mst_buf_reserve(stored, block->head.stored_bytes);
    if (r == 0)
        r = mst_buf_reserve(raw, block->head.raw_bytes);
    if (r == 0)
        r = read_at(recording, block->offset + RECORD_BLOCK_HEADER, stored->bytes, block->head.stored_bytes);
    if (r < 0)
        return r;
    const unsigned char *bytes = (const unsigned char *)stored->bytes;
    uLongf raw_bytes = block->head.raw_bytes;
    if ((uint32_t)crc32(0, bytes, block->head.stored_bytes) != block->head.checksum ||
        uncompress((unsigned char *)raw->bytes, &raw_bytes, bytes, block->head.stored_bytes) != Z_OK ||
        raw_bytes != block->head.raw_bytes)
        return -EBADMSG;
    raw->count = raw_bytes;
    return 0;
}

/* From header to header; the index only says that the file was closed, and need not be believed. What comes
 * behind the last whole block is a torn write if nothing whole follows: a crash tears the end, not the
 * middle. */
static int read_blocks(struct recording *recording, struct mst_error *err)
{
    uint64_t at = recording->end;
    while (at + RECORD_BLOCK_HEADER <= recording->file_bytes) {
        uint8_t bytes[RECORD_BLOCK_HEADER];
        struct record_block head;
        int r = read_at(recording, at, bytes, sizeof bytes);
        if (r < 0)
            return mst_error_errno(err, r, "read '%s'", recording->path);
        if (!record_block_read(bytes, &head))
            break;
        if (head.magic == RECORD_INDEX_MAGIC) {
            recording->file_bytes = at; /* closed: the rest is index and trailer */
            break;
        }
        if (head.stored_bytes > recording->file_bytes - at - RECORD_BLOCK_HEADER)
            break;
        if (!is_plausible(recording, &head, at) || head.sequence != recording->count)
            return damaged(recording, at, "a block's header makes no sense", err);
        r = add_block(recording, &head, at);
        if (r < 0)
            return mst_error_errno(err, r, "read '%s'", recording->path);
        at += RECORD_BLOCK_HEADER + head.stored_bytes;
        recording->end = at;
    }
    recording->torn = recording->file_bytes - recording->end;
    return 0;
}

/* A power cut may leave a last block whose length is right and whose bytes are not. */
static int check_last(struct recording *recording)
{
    if (recording->count == 0)
        return 0;
    const struct recording_block *last = &recording->blocks[recording->count - 1];
    const int r = read_payload(recording, last);
    if (r != -EBADMSG)
        return r;
    recording->torn += recording->end - last->offset;
    recording->end = last->offset;
    recording->passes -= last->head.passes;
    recording->count--;
    return 0;
}

/* Is there something whole behind the place where reading stopped? Then it was damaged, not torn. Only block
 * headers that fit are looked for, which random bytes are not. */
static int check_torn(struct recording *recording, struct mst_error *err)
{
    enum { CHUNK = 65536 };
    mst_cleanup(mst_freep) uint8_t *bytes = malloc(CHUNK);
    if (recording->torn < RECORD_BLOCK_HEADER)
        return 0;
    if (!bytes)
        return mst_error_set(err, -ENOMEM, "read '%s': no memory", recording->path);
    for (uint64_t at = recording->end; at + RECORD_BLOCK_HEADER <= recording->file_bytes;
         at += CHUNK - RECORD_BLOCK_HEADER + 1) {
        const uint64_t left = recording->file_bytes - at;
        const size_t count = left < CHUNK ? (size_t)left : CHUNK;
        const int r = read_at(recording, at, bytes, count);
        if (r < 0)
            return mst_error_errno(err, r, "read '%s'", recording->path);
        for (size_t i = 0; i + RECORD_BLOCK_HEADER <= count; i++) {
            struct record_block head;
            if (record_get32(bytes + i) == RECORD_BLOCK_MAGIC && record_block_read(bytes + i, &head) &&
                head.sequence > recording->count)
                return damaged(recording, recording->end, "a block is damaged, and others follow it", err);
        }
    }
    return 0;
}

int recording_open(const char *path, struct recording **ret_recording, struct mst_error *err)
{
    struct recording *recording = calloc(1, sizeof *recording);
    struct stat about;
    if (!recording || !(recording->path = strdup(path))) {
        free(recording);
        return mst_error_set(err, -ENOMEM, "read '%s': no memory", path);
    }
    recording->fd = -1;
    recording->stored = (struct mst_buf)MST_BUF_INIT(RECORD_PAYLOAD_MAX * 2);
    recording->raw = (struct mst_buf)MST_BUF_INIT(RECORD_PAYLOAD_MAX * 2);
    int r = mst_file_open(path, &recording->fd, err);
    if (r == 0 && fstat(recording->fd, &about) < 0)
        r = mst_error_errno(err, -errno, "read '%s'", path);
    if (r == 0) {
        recording->file_bytes = (uint64_t)about.st_size;
        r = read_header(recording, err);
    }
    if (r == 0)
        r = read_blocks(recording, err);
    if (r == 0) {
        r = check_last(recording);
        if (r < 0)
            (void)mst_error_errno(err, r, "read '%s'", path);
    }
    if (r == 0)
        r = check_torn(recording, err);
    if (r == 0)
        r = recording_seek(recording, -INFINITY, err);
    if (r < 0) {
        recording_free(recording);
        return r;
    }
    *ret_recording = recording;
    return 0;
}

void recording_free(struct recording *recording)
{
    if (!recording)
        return;
    mst_closep(&recording->fd);
    free(recording->path);
    free(recording->blocks);
    free(recording->last);
    free(recording->last_ids);
    mst_buf_release(&recording->stored);
    mst_buf_release(&recording->raw);
    record_decoder_release(&recording->decoder);
    free(recording);
}

const char *recording_version(const struct recording *recording)
{
    return recording->version;
}

const char *recording_node(const struct recording *recording)
{
    return recording->node;
}

size_t recording_blocks(const struct recording *recording)
{
    return recording->count;
}

const struct recording_block *recording_block(const struct recording *recording, size_t i)
{
    return i < recording->count ? &recording->blocks[i] : NULL;
}

uint64_t recording_passes(const struct recording *recording)
{
    return recording->passes;
}

uint64_t recording_end(const struct recording *recording)
{
    return recording->end;
}

uint64_t recording_torn(const struct recording *recording)
{
    return recording->torn;
}

void recording_span(const struct recording *recording, double *ret_first_s, double *ret_last_s)
{
    *ret_first_s = recording->count ? recording->blocks[0].head.first_s : 0;
    *ret_last_s = recording->count ? recording->blocks[recording->count - 1].head.last_s : 0;
}

int recording_seek(struct recording *recording, double from_s, struct mst_error *err)
{
    (void)err;
    recording->next = 0;
    while (recording->next < recording->count && recording->blocks[recording->next].head.last_s < from_s)
        recording->next++;
    recording->from_s = from_s;
    recording->left = 0;
    recording->last_count = 0;
    return 0;
}

/* ---- `before`, over the boundary of a block ---- */

static size_t find_last(const struct recording *recording, const struct monitor_sample *sample, size_t hint)
{
    const char *id = sample->container->id;
    if (hint < recording->last_count && strcmp(recording->last_ids[hint], id) == 0)
        return hint;
    size_t i = 0;
    while (i < recording->last_count && strcmp(recording->last_ids[i], id) != 0)
        i++;
    return i;
}

static int keep_last(struct recording *recording, const struct monitor_pass *pass)
{
    if (pass->count > recording->last_room) {
        void *last = reallocarray(recording->last, pass->count, sizeof *recording->last);
        recording->last = last ? last : recording->last;
        void *ids = last ? reallocarray(recording->last_ids, pass->count, sizeof *recording->last_ids) : NULL;
        recording->last_ids = ids ? ids : recording->last_ids;
        if (!ids)
            return -ENOMEM;
        recording->last_room = pass->count;
    }
    for (size_t i = 0; i < pass->count; i++) {
        recording->last[i] = pass->samples[i];
        memcpy(recording->last_ids[i], pass->samples[i].container->id, MONITOR_ID_BYTES);
    }
    recording->last_count = pass->count;
    return 0;
}

/* A restart has begun its counters anew: they are below, or the start is another. */
static void fill_before(struct recording *recording)
{
    struct record_decoder *decoder = &recording->decoder;
    for (size_t i = 0; i < decoder->pass.count; i++) {
        if (decoder->before[i].read_ns > 0)
            continue;
        const size_t found = find_last(recording, &decoder->samples[i], i);
        if (found < recording->last_count && recording->last[found].cpu_ns <= decoder->samples[i].cpu_ns &&
            recording->last[found].read_ns < decoder->samples[i].read_ns)
            decoder->before[i] = recording->last[found];
    }
}

/* ---- reading ---- */

static int next_block(struct recording *recording, struct mst_error *err)
{
    const struct recording_block *block = &recording->blocks[recording->next];
    const int r = read_payload(recording, block);
    if (r == -EBADMSG)
        return damaged(recording, block->offset, "a block's checksum is wrong", err);
    if (r < 0)
        return mst_error_errno(err, r, "read '%s'", recording->path);
    recording->next++;
    recording->left = block->head.passes;
    record_decoder_start(&recording->decoder, mst_buf_text(&recording->raw), recording->raw.count);
    return 0;
}

int recording_next(struct recording *recording, const struct monitor_pass **ret_pass, struct mst_error *err)
{
    for (;;) {
        if (recording->left == 0) {
            if (recording->next == recording->count)
                return 0;
            const int r = next_block(recording, err);
            if (r < 0)
                return r;
        }
        const uint64_t offset = recording->blocks[recording->next - 1].offset;
        int r = record_decode(&recording->decoder);
        recording->left--;
        if (r == 1 && recording->left == 0 && recording->decoder.at != recording->decoder.end)
            r = -EBADMSG;
        if (r == 0 || r == -EBADMSG)
            return damaged(recording, offset, "a block's content makes no sense", err);
        if (r == 1) {
            fill_before(recording);
            r = keep_last(recording, &recording->decoder.pass);
        }
        if (r < 0)
            return mst_error_errno(err, r, "read '%s'", recording->path);
        if (recording->decoder.pass.wall_s < recording->from_s)
            continue;
        *ret_pass = &recording->decoder.pass;
        return 1;
    }
}
