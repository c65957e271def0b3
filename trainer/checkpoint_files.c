/* SPDX-License-Identifier: Apache-2.0 */
#include "checkpoint_files.h"

#include "muster/cleanup.h"
#include "muster/parse.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define PREFIX "checkpoint-"
#define SUFFIX ".safetensors"
/* What mst_file_writer_open() adds to a name. */
#define TEMPORARY_BYTES (sizeof ".XXXXXX" - 1)

void checkpoint_files_name(uint64_t step, char ret_name[static TRAINER_CHECKPOINT_NAME_BYTES])
{
    (void)snprintf(ret_name, TRAINER_CHECKPOINT_NAME_BYTES, PREFIX "%" PRIu64 SUFFIX, step);
}

enum kind { OTHER, CHECKPOINT, TEMPORARY };

/* The first `length` bytes are exactly the name that some step has: no zeros in front, nothing behind. */
static bool is_checkpoint(const char *name, size_t length, uint64_t *ret_step)
{
    const size_t around = sizeof PREFIX - 1 + sizeof SUFFIX - 1;
    char digits[24], made[TRAINER_CHECKPOINT_NAME_BYTES];

    if (length <= around || length - around >= sizeof digits)
        return false;
    (void)snprintf(digits, sizeof digits, "%.*s", (int)(length - around), name + sizeof PREFIX - 1);
    if (mst_parse_u64(digits, 0, UINT64_MAX, ret_step, NULL) < 0)
        return false;
    checkpoint_files_name(*ret_step, made);
    return strlen(made) == length && strncmp(name, made, length) == 0;
}

/* A dot, then letters and digits. */
static bool is_temporary_end(const char *text)
{
    if (*text++ != '.')
        return false;
    while (isalnum((unsigned char)*text))
        text++;
    return *text == '\0';
}

static enum kind kind_of(const char *name, uint64_t *ret_step)
{
    const size_t length = strlen(name);

    if (is_checkpoint(name, length, ret_step))
        return CHECKPOINT;
    if (length > TEMPORARY_BYTES && is_temporary_end(name + length - TEMPORARY_BYTES) &&
        is_checkpoint(name, length - TEMPORARY_BYTES, ret_step))
        return TEMPORARY;
    return OTHER;
}

static void closedirp(DIR **folder)
{
    if (*folder)
        (void)closedir(*folder);
}

static DIR *open_folder(const char *path, int *ret_code, struct mst_error *err)
{
    DIR *folder = opendir(path);

    if (!folder)
        *ret_code = mst_error_errno(err, -errno, "read folder '%s'", path);
    return folder;
}

int checkpoint_files_newest(const char *path, uint64_t limit, uint64_t *ret_step, struct mst_error *err)
{
    int found = 0;
    mst_cleanup(closedirp) DIR *folder = open_folder(path, &found, err);

    for (struct dirent *entry; folder && (entry = readdir(folder));) {
        uint64_t step;
        if (kind_of(entry->d_name, &step) != CHECKPOINT || step >= limit || (found && step <= *ret_step))
            continue;
        *ret_step = step;
        found = 1;
    }
    return found;
}

static bool is_kept(uint64_t step, const uint64_t *kept, size_t kept_count)
{
    size_t i = 0;

    while (i < kept_count && kept[i] != step)
        i++;
    return i < kept_count;
}

static int clean(const char *path, bool checkpoints, const uint64_t *kept, size_t kept_count,
                 struct mst_error *err)
{
    int r = 0;
    mst_cleanup(closedirp) DIR *folder = open_folder(path, &r, err);

    for (struct dirent *entry; folder && (entry = readdir(folder));) {
        uint64_t step;
        const enum kind kind = kind_of(entry->d_name, &step);
        if (kind == OTHER || (kind == CHECKPOINT && (!checkpoints || is_kept(step, kept, kept_count))))
            continue;
        if (unlinkat(dirfd(folder), entry->d_name, 0) < 0 && errno != ENOENT && r == 0)
            r = mst_error_errno(err, -errno, "remove '%s/%s'", path, entry->d_name);
    }
    return r;
}

int checkpoint_files_prune(const char *folder, const uint64_t *kept, size_t kept_count, struct mst_error *err)
{
    return clean(folder, true, kept, kept_count, err);
}

int checkpoint_files_tidy(const char *folder, struct mst_error *err)
{
    return clean(folder, false, NULL, 0, err);
}
