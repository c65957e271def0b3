/* SPDX-License-Identifier: Apache-2.0 */
#include "muster/buf.h"
#include "muster/cleanup.h"
#include "muster/file.h"
#include "muster/trainer.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define HISTORY_MAX_BYTES 16777216 /* some 100,000 epochs */
#define HISTORY_HEADER                                                                                       \
    "slot,rank,view,epoch,steps,seconds,ms_per_step,loss,accuracy,wait_ms,transfer_ms,compute_ms,bytes_"     \
    "sent\n"

struct trainer_history {
    char *path, *slot; /* owned */
    struct mst_buf text;
};

static int write_all(const struct trainer_history *history, struct mst_error *err)
{
    return mst_file_write_atomic(history->path, mst_buf_text(&history->text), history->text.count, 0644, err);
}

static bool is_field(const char *text)
{
    for (; *text; text++) {
        if (*text == ',' || *text == '"' || (unsigned char)*text < ' ' || *text == 0x7f)
            return false;
    }
    return true;
}

int trainer_history_new(const char *path, const char *slot, struct trainer_history **ret_history,
                        struct mst_error *err)
{
    if (slot[0] == '\0' || !is_field(slot))
        return mst_error_set(
            err, -EINVAL,
            "history '%s': the slot's name must not be empty or hold commas, quotes or control"
            " characters",
            path);
    struct trainer_history *history = calloc(1, sizeof *history);
    if (!history)
        return mst_error_set(err, -ENOMEM, "history '%s': no memory", path);
    history->text.max_bytes = HISTORY_MAX_BYTES;
    history->path = strdup(path);
    history->slot = strdup(slot);
    int r = history->path && history->slot ? mst_buf_append_text(&history->text, HISTORY_HEADER) : -ENOMEM;
    if (r < 0)
        (void)mst_error_errno(err, r, "history '%s'", path);
    else
        r = write_all(history, err);
    if (r < 0) {
        trainer_history_free(history);
        return r;
    }
    *ret_history = history;
    return 0;
}

int trainer_history_append(struct trainer_history *history, const struct trainer_history_row *row,
                           struct mst_error *err)
{
    const double ms_per_step = row->steps > 0 ? row->seconds * 1000 / (double)row->steps : 0;

    const int r = mst_buf_printf(
        &history->text,
        "%s,%" PRIu32 ",%" PRIu32 ",%" PRIu32 ",%" PRIu64 ",%.6f,%.3f,%.6f,%.6f,%.3f,%.3f,%.3f,%" PRIu64 "\n",
        history->slot, row->rank, row->view, row->epoch, row->steps, row->seconds, ms_per_step, row->loss,
        row->accuracy, row->wait_ms, row->transfer_ms, row->compute_ms, row->bytes_sent);
    if (r < 0)
        return mst_error_errno(err, r, "history '%s'", history->path);
    return write_all(history, err);
}

void trainer_history_free(struct trainer_history *history)
{
    if (!history)
        return;
    free(history->path);
    free(history->slot);
    mst_buf_release(&history->text);
    free(history);
}
