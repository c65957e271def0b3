/* SPDX-License-Identifier: Apache-2.0 */
#include "events_log.h"

#include "muster/cleanup.h"

#include <string.h>

#define LINES_BYTES ((size_t)1 << 20)
#define FLUSH_BYTES ((size_t)64 << 10)
#define HEAD        "{\"event\":\""

int events_log_open(struct events_log *log, const char *path, struct mst_error *err)
{
    *log = (struct events_log){.lines = MST_BUF_INIT(LINES_BYTES)};
    const int r = mst_file_writer_open(&log->file, path, 0644, err);

    log->is_open = r >= 0;
    return r;
}

static int flush(struct events_log *log, struct mst_error *err)
{
    const int r = mst_write_all(log->file.fd, mst_buf_text(&log->lines), log->lines.count);

    mst_buf_clear(&log->lines);
    return r < 0 ? mst_error_errno(err, r, "write '%s'", log->file.path) : 0;
}

static bool is_wanted(const char *line)
{
    static const char *const passing[] = {"progress\"", "waiting\"", "sample\""};

    if (strncmp(line, HEAD, sizeof HEAD - 1) != 0)
        return false;
    for (size_t i = 0; i < MST_ARRAY_COUNT(passing); i++) {
        if (strncmp(line + sizeof HEAD - 1, passing[i], strlen(passing[i])) == 0)
            return false;
    }
    return true;
}

int events_log_add(struct events_log *log, const char *line, size_t count, struct mst_error *err)
{
    if (!log->is_open || !is_wanted(line))
        return 0;
    if (mst_buf_append(&log->lines, line, count) < 0 || mst_buf_append(&log->lines, "\n", 1) < 0)
        return mst_error_set(err, -ENOMEM, "write '%s': a line does not fit", log->file.path);
    log->count++;
    return log->lines.count >= FLUSH_BYTES ? flush(log, err) : 0;
}

int events_log_commit(struct events_log *log, struct mst_error *err)
{
    if (!log->is_open || log->count == 0)
        return 0; /* _release takes the file away */
    const int r = flush(log, err);

    if (r < 0)
        return r;
    log->is_open = false;
    return mst_file_writer_commit(&log->file, err);
}

void events_log_release(struct events_log *log)
{
    if (log->is_open)
        mst_file_writer_discard(&log->file);
    mst_buf_release(&log->lines);
    log->is_open = false;
}
