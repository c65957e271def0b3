/* SPDX-License-Identifier: Apache-2.0 */
#include "history_csv.h"

#include "muster/cleanup.h"
#include "muster/csv.h"
#include "muster/file.h"

#include <inttypes.h>
#include <stdio.h>

#define HISTORY_MAX_BYTES ((size_t)32 << 20)

int history_csv_append(struct mst_buf *text, const struct worker *worker)
{
    int r = mst_buf_append_text(text, MST_CSV_HISTORY_HEADER);

    for (size_t i = 0; i < worker->history_count && r >= 0; i++) {
        const struct worker_epoch *e = &worker->history[i];
        r = mst_csv_append(text, worker->slot, ',');
        if (r >= 0)
            r = mst_buf_printf(text,
                               "%" PRId32 ",%" PRIu32 ",%" PRIu32 ",%" PRIu64
                               ",%.6f,%.6f,%.9g,%.9g,%.3f,%.3f,%.3f,%" PRIu64 "\n",
                               e->rank, e->view, e->epoch, e->steps, e->seconds, e->ms_per_step, e->loss,
                               e->accuracy, e->wait_ms, e->transfer_ms, e->compute_ms, e->bytes_sent);
    }
    return r;
}

int history_csv_write_missing(const char *folder, const struct workers *workers, struct mst_error *err)
{
    for (size_t i = 0; i < workers->count; i++) {
        const struct worker *worker = &workers->items[i];
        mst_cleanup(mst_buf_release) struct mst_buf text = MST_BUF_INIT(HISTORY_MAX_BYTES);
        mst_cleanup(mst_freep) char *path = NULL;
        char name[160];
        int r;

        (void)snprintf(name, sizeof name, "history-%s.csv", worker->slot);
        /* A slot is text from a container: it must not choose another folder. */
        if (worker->history_count == 0 || !mst_name_is_plain(name))
            continue;
        path = mst_path_join(folder, name);
        if (!path)
            return mst_error_set(err, -ENOMEM, "write '%s': no memory", name);
        if (access(path, F_OK) == 0)
            continue;
        r = history_csv_append(&text, worker);
        if (r < 0)
            return mst_error_errno(err, r, "write '%s'", path);
        r = mst_file_write_atomic(path, mst_buf_text(&text), text.count, 0644, err);
        if (r < 0)
            return r;
    }
    return 0;
}
