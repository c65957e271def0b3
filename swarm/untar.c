/* SPDX-License-Identifier: Apache-2.0 */
#include "untar.h"

#include "muster/cleanup.h"
#include "muster/file.h"

#include <archive.h>
#include <archive_entry.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define BLOCK_BYTES ((size_t)64 << 10)

static void archive_freep(struct archive **archive)
{
    (void)archive_read_free(*archive);
    *archive = NULL;
}

/* The file's own name, or NULL when it is not to be taken. */
static const char *wanted_name(struct archive_entry *entry, const struct untar_limits *limits)
{
    const char *path = archive_entry_pathname(entry);
    const char *slash = path ? strchr(path, '/') : NULL;
    const char *name = slash ? slash + 1 : path;

    if (!path || archive_entry_filetype(entry) != AE_IFREG || archive_entry_hardlink(entry) ||
        archive_entry_symlink(entry))
        return NULL;
    if (!mst_name_is_plain(name) || name[0] == '.')
        return NULL;
    for (const char *const *reserved = limits->reserved; reserved && *reserved; reserved++) {
        if (strcmp(*reserved, name) == 0)
            return NULL;
    }
    return name;
}

static int archive_failure(struct archive *archive, struct mst_error *err)
{
    const char *text = archive_error_string(archive);

    return mst_error_set(err, -EPROTO, "archive: %s", text ? text : "not a tar archive");
}

/* The header's size is a claim; what counts is what comes. */
static int copy_content(struct archive *archive, const char *name, int fd, const struct untar_limits *limits,
                        struct untar_result *result, struct mst_error *err)
{
    uint64_t file_bytes = 0;

    for (;;) {
        const void *block;
        size_t count;
        la_int64_t offset;
        const int a = archive_read_data_block(archive, &block, &count, &offset);
        int r;

        if (a == ARCHIVE_EOF)
            return 0;
        if (a < ARCHIVE_OK)
            return archive_failure(archive, err);
        /* Sparse files come in pieces with gaps; no agent writes any. */
        if ((uint64_t)offset != file_bytes)
            return mst_error_set(err, -EPROTO, "archive: '%s' has holes", name);
        if (count > limits->file_bytes - file_bytes || count > limits->all_bytes - result->bytes)
            return mst_error_set(err, -EFBIG,
                                 "archive: '%s' goes past the limit of %" PRIu64 " bytes a file, %" PRIu64
                                 " in all",
                                 name, limits->file_bytes, limits->all_bytes);
        r = mst_write_all(fd, block, count);
        if (r < 0)
            return mst_error_errno(err, r, "write '%s'", name);
        file_bytes += count;
        result->bytes += count;
    }
}

static int take_file(struct archive *archive, const char *name, const char *folder,
                     const struct untar_limits *limits, struct untar_result *result, struct mst_error *err)
{
    mst_cleanup(mst_freep) char *path = mst_path_join(folder, name);
    struct mst_file_writer writer;
    int r;

    if (!path)
        return mst_error_set(err, -ENOMEM, "archive: no memory");
    if (result->files >= UNTAR_FILES_MAX)
        return mst_error_set(err, -EFBIG, "archive: more than %d files", UNTAR_FILES_MAX);
    r = mst_file_writer_open(&writer, path, 0644, err);
    if (r < 0)
        return r;
    r = copy_content(archive, name, writer.fd, limits, result, err);
    if (r < 0) {
        mst_file_writer_discard(&writer);
        return r;
    }
    result->files++;
    return mst_file_writer_commit(&writer, err);
}

static void note_skipped(struct archive_entry *entry, struct untar_result *result)
{
    const char *path = archive_entry_pathname(entry);

    if (archive_entry_filetype(entry) == AE_IFDIR)
        return;
    if (result->skipped++ == 0)
        (void)snprintf(result->first_skipped, sizeof result->first_skipped, "%s", path ? path : "?");
}

int untar_fd(int fd, const char *folder, const struct untar_limits *limits, struct untar_result *ret_result,
             struct mst_error *err)
{
    mst_cleanup(archive_freep) struct archive *archive = archive_read_new();
    struct untar_result result = {0};
    struct archive_entry *entry;
    int a, r = 0;

    if (!archive || archive_read_support_format_tar(archive) != ARCHIVE_OK)
        return mst_error_set(err, -ENOMEM, "archive: no memory");
    if (archive_read_open_fd(archive, fd, BLOCK_BYTES) != ARCHIVE_OK)
        return archive_failure(archive, err);
    while (r >= 0 && (a = archive_read_next_header(archive, &entry)) != ARCHIVE_EOF) {
        const char *name;
        if (a < ARCHIVE_WARN)
            return archive_failure(archive, err);
        name = wanted_name(entry, limits);
        if (name)
            r = take_file(archive, name, folder, limits, &result, err);
        else
            note_skipped(entry, &result);
    }
    if (r < 0)
        return r;
    *ret_result = result;
    return 0;
}
