/* SPDX-License-Identifier: Apache-2.0 */
#include "control.h"

#include "muster/file.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define WORKER_BYTES (MEMBERSHIP_ID_BYTES + 4 + 2)

static int put_number(struct mst_buf *payload, uint64_t value, size_t bytes)
{
    uint8_t text[8];
    for (size_t i = 0; i < bytes; i++)
        text[i] = (uint8_t)(value >> (8 * (bytes - 1 - i)));
    return mst_buf_append(payload, text, bytes);
}

/* What is left of a payload. `short_of` remembers that more was asked for than there was. */
struct cursor {
    const uint8_t *next;
    size_t left;
    bool short_of;
};

static const uint8_t *take(struct cursor *cursor, size_t bytes)
{
    static const uint8_t zeros[MST_SHA256_BYTES];
    if (bytes > cursor->left) {
        cursor->short_of = true;
        return zeros; /* all fixed fields are at most this long */
    }
    const uint8_t *field = cursor->next;
    cursor->next += bytes;
    cursor->left -= bytes;
    return field;
}

static uint64_t take_number(struct cursor *cursor, size_t bytes)
{
    const uint8_t *field = take(cursor, bytes);
    uint64_t value = 0;
    for (size_t i = 0; i < bytes; i++)
        value = value << 8 | field[i];
    return value;
}

static int finished(const struct cursor *cursor, const char *what, struct mst_error *err)
{
    if (cursor->short_of)
        return mst_error_set(err, -EBADMSG, "%s message is too short", what);
    if (cursor->left > 0)
        return mst_error_set(err, -EBADMSG, "%s message has %zu bytes too many", what, cursor->left);
    return 0;
}

int control_pack_heartbeat(struct mst_buf *payload, const struct control_heartbeat *heartbeat)
{
    const int r = put_number(payload, heartbeat->view, 8);
    return r < 0 ? r : put_number(payload, heartbeat->step, 8);
}

int control_unpack_heartbeat(const uint8_t *payload, size_t count, struct control_heartbeat *ret_heartbeat,
                             struct mst_error *err)
{
    struct cursor cursor = {payload, count, false};
    const struct control_heartbeat heartbeat = {.view = take_number(&cursor, 8),
                                                .step = take_number(&cursor, 8)};
    const int r = finished(&cursor, "heartbeat", err);
    if (r == 0)
        *ret_heartbeat = heartbeat;
    return r;
}

int control_pack_membership(struct mst_buf *payload, const struct membership_message *message)
{
    int r = put_number(payload, message->view, 8);
    if (r == 0)
        r = mst_buf_append(payload, message->digest, sizeof message->digest);
    if (message->kind != MEMBERSHIP_PROPOSE)
        return r;
    if (r == 0)
        r = put_number(payload, message->count, 2);
    for (size_t w = 0; r == 0 && w < message->count; w++) {
        const struct membership_worker *worker = &message->workers[w];
        r = mst_buf_append(payload, worker->id.bytes, sizeof worker->id.bytes);
        if (r == 0)
            r = put_number(payload, worker->ipv4, 4);
        if (r == 0)
            r = put_number(payload, worker->port, 2);
    }
    return r;
}

int control_unpack_membership(enum control_type type, const uint8_t *payload, size_t count,
                              struct membership_message *ret_message, struct membership_worker **ret_workers,
                              struct mst_error *err)
{
    struct cursor cursor = {payload, count, false};
    struct membership_message message = {.kind = type == CONTROL_PROPOSE ? MEMBERSHIP_PROPOSE
                                                                         : MEMBERSHIP_COMMIT};
    struct membership_worker *workers = NULL;
    message.view = take_number(&cursor, 8);
    memcpy(message.digest, take(&cursor, sizeof message.digest), sizeof message.digest);
    if (type == CONTROL_PROPOSE) {
        message.count = (size_t)take_number(&cursor, 2);
        if (message.count < 1 || message.count > MEMBERSHIP_MAX_WORKERS ||
            cursor.left != message.count * WORKER_BYTES)
            return mst_error_set(err, -EBADMSG, "a proposal of %zu workers in %zu bytes", message.count,
                                 count);
        workers = calloc(message.count, sizeof *workers);
        if (!workers)
            return mst_error_set(err, -ENOMEM, "read a proposal of %zu workers: no memory", message.count);
    }
    for (size_t w = 0; w < message.count; w++) {
        memcpy(workers[w].id.bytes, take(&cursor, MEMBERSHIP_ID_BYTES), MEMBERSHIP_ID_BYTES);
        workers[w].ipv4 = (uint32_t)take_number(&cursor, 4);
        workers[w].port = (uint16_t)take_number(&cursor, 2);
    }
    const int r = finished(&cursor, type == CONTROL_PROPOSE ? "proposal" : "commit", err);
    if (r < 0) {
        free(workers);
        return r;
    }
    message.workers = workers;
    *ret_message = message;
    *ret_workers = workers;
    return 0;
}

int control_pack_text(struct mst_buf *payload, uint64_t view, const char *text)
{
    const int r = put_number(payload, view, 8);
    const size_t bytes = strlen(text);
    return r < 0 ? r
                 : mst_buf_append(payload, text, bytes < CONTROL_TEXT_BYTES ? bytes : CONTROL_TEXT_BYTES - 1);
}

int control_unpack_text(const uint8_t *payload, size_t count, uint64_t *ret_view,
                        char ret_text[static CONTROL_TEXT_BYTES], struct mst_error *err)
{
    struct cursor cursor = {payload, count, false};
    const uint64_t view = take_number(&cursor, 8);
    if (cursor.short_of || cursor.left >= CONTROL_TEXT_BYTES)
        return mst_error_set(err, -EBADMSG, "a text message of %zu bytes", count);
    *ret_view = view;
    for (size_t i = 0; i < cursor.left; i++)
        ret_text[i] = cursor.next[i] >= 0x20 && cursor.next[i] != 0x7f ? (char)cursor.next[i] : '?';
    ret_text[cursor.left] = '\0';
    return 0;
}

int control_pack_done(struct mst_buf *payload, const struct control_done *done)
{
    int r = put_number(payload, done->view, 8);
    if (r == 0)
        r = put_number(payload, done->step, 8);
    return r < 0 ? r : mst_buf_append(payload, done->digest, sizeof done->digest);
}

int control_unpack_done(const uint8_t *payload, size_t count, struct control_done *ret_done,
                        struct mst_error *err)
{
    struct cursor cursor = {payload, count, false};
    struct control_done done = {.view = take_number(&cursor, 8), .step = take_number(&cursor, 8)};
    memcpy(done.digest, take(&cursor, sizeof done.digest), sizeof done.digest);
    const int r = finished(&cursor, "done", err);
    if (r == 0)
        *ret_done = done;
    return r;
}

int control_pack_file(struct mst_buf *payload, const struct control_file *file)
{
    int r = put_number(payload, file->bytes, 8);
    if (r == 0)
        r = mst_buf_append(payload, file->sha256, sizeof file->sha256);
    return r < 0 ? r : mst_buf_append_text(payload, file->name);
}

int control_unpack_file(const uint8_t *payload, size_t count, struct control_file *ret_file,
                        struct mst_error *err)
{
    struct cursor cursor = {payload, count, false};
    struct control_file file = {.bytes = take_number(&cursor, 8)};
    memcpy(file.sha256, take(&cursor, sizeof file.sha256), sizeof file.sha256);
    if (cursor.short_of || cursor.left >= sizeof file.name)
        return mst_error_set(err, -EBADMSG, "a file message of %zu bytes", count);
    memcpy(file.name, cursor.next, cursor.left);
    file.name[cursor.left] = '\0';
    if (strlen(file.name) != cursor.left || !mst_name_is_plain(file.name))
        return mst_error_set(err, -EBADMSG, "a file whose name is not a plain one");
    *ret_file = file;
    return 0;
}
