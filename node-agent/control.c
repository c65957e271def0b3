/* SPDX-License-Identifier: Apache-2.0 */
#include "control.h"

#include "bytes.h"
#include "muster/cleanup.h"
#include "muster/file.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define WORKER_BYTES (MEMBERSHIP_ID_BYTES + MEMBERSHIP_SLOT_BYTES + 4 + 2)
#define PLACE_BYTES  (MEMBERSHIP_SLOT_BYTES + 1)
#define LEAVING      1 /* bits of a proposal's flags */

static int finished(const struct bytes_cursor *cursor, const char *what, struct mst_error *err)
{
    if (cursor->broken)
        return mst_error_set(err, -EBADMSG, "%s message is too short", what);
    if (cursor->left > 0)
        return mst_error_set(err, -EBADMSG, "%s message has %zu bytes too many", what, cursor->left);
    return 0;
}

int control_pack_heartbeat(struct mst_buf *payload, const struct control_heartbeat *heartbeat)
{
    const int r = bytes_put(payload, heartbeat->view, 8);
    return r < 0 ? r : bytes_put(payload, heartbeat->step, 8);
}

int control_unpack_heartbeat(const uint8_t *payload, size_t count, struct control_heartbeat *ret_heartbeat,
                             struct mst_error *err)
{
    struct bytes_cursor cursor = {payload, count, false};
    const struct control_heartbeat heartbeat = {.view = bytes_take(&cursor, 8),
                                                .step = bytes_take(&cursor, 8)};
    const int r = finished(&cursor, "heartbeat", err);
    if (r == 0)
        *ret_heartbeat = heartbeat;
    return r;
}

static int pack_worker(struct mst_buf *payload, const struct membership_worker *worker)
{
    int r = mst_buf_append(payload, worker->id.bytes, sizeof worker->id.bytes);
    if (r == 0)
        r = mst_buf_append(payload, worker->slot.bytes, sizeof worker->slot.bytes);
    if (r == 0)
        r = bytes_put(payload, worker->ipv4, 4);
    return r < 0 ? r : bytes_put(payload, worker->port, 2);
}

static int pack_ballot(struct mst_buf *payload, const struct membership_ballot *ballot)
{
    int r = bytes_put(payload, ballot->view, 8);
    if (r == 0)
        r = mst_buf_append(payload, ballot->lineage, sizeof ballot->lineage);
    if (r == 0)
        r = mst_buf_append(payload, ballot->digest, sizeof ballot->digest);
    if (r == 0)
        r = bytes_put(payload, ballot->count, 2);
    for (size_t p = 0; r == 0 && p < ballot->count; p++) {
        r = mst_buf_append(payload, ballot->places[p].slot.bytes, sizeof ballot->places[p].slot.bytes);
        if (r == 0)
            r = bytes_put(payload, (uint64_t)ballot->places[p].part, 1);
    }
    return r;
}

static int pack_vow(struct mst_buf *payload, const struct membership_vow *vow)
{
    int r = bytes_put(payload, vow->count, 1);
    if (r == 0)
        r = pack_ballot(payload, &vow->held);
    for (size_t a = 0; r == 0 && a < vow->count; a++)
        r = pack_ballot(payload, &vow->attempts[a]);
    return r;
}

static int pack_proposal(struct mst_buf *payload, const struct membership_message *message)
{
    int r = bytes_put(payload, message->leaving ? LEAVING : 0, 1);
    if (r == 0)
        r = bytes_put(payload, message->step, 8);
    if (r == 0)
        r = pack_vow(payload, &message->vow);
    if (r == 0)
        r = bytes_put(payload, message->count, 2);
    for (size_t w = 0; r == 0 && w < message->count; w++)
        r = pack_worker(payload, &message->workers[w]);
    return r;
}

int control_pack_membership(struct mst_buf *payload, const struct membership_message *message)
{
    int r = bytes_put(payload, message->view, 8);
    if (r < 0)
        return r;
    if (message->kind == MEMBERSHIP_PROPOSE)
        return pack_proposal(payload, message);
    if (message->kind == MEMBERSHIP_COMMIT)
        return mst_buf_append(payload, message->digest, sizeof message->digest);
    r = bytes_put(payload, message->step, 8);
    if (r == 0)
        r = bytes_put(payload, message->size, 8);
    return r < 0 ? r : mst_buf_append(payload, message->lineage, sizeof message->lineage);
}

void control_membership_release(struct control_membership *membership)
{
    free(membership->workers);
    free(membership->places);
    *membership = (struct control_membership){0};
}

/* Places go to `*next`, which is moved on; there is room for all that a payload can hold. */
static int take_ballot(struct bytes_cursor *cursor, struct membership_place **next,
                       struct membership_ballot *ballot, struct mst_error *err)
{
    ballot->view = bytes_take(cursor, 8);
    bytes_take_raw(cursor, ballot->lineage, sizeof ballot->lineage);
    bytes_take_raw(cursor, ballot->digest, sizeof ballot->digest);
    ballot->count = (size_t)bytes_take(cursor, 2);
    if (ballot->count > MEMBERSHIP_MAX_PLACES || ballot->count * PLACE_BYTES > cursor->left)
        return mst_error_set(err, -EBADMSG, "a proposal with %zu places in %zu bytes", ballot->count,
                             cursor->left);
    ballot->places = *next;
    for (size_t p = 0; p < ballot->count; p++) {
        struct membership_place *place = (*next)++;
        bytes_take_raw(cursor, place->slot.bytes, sizeof place->slot.bytes);
        const uint64_t part = bytes_take(cursor, 1);
        if (part > MEMBERSHIP_WITNESS)
            return mst_error_set(err, -EBADMSG, "a proposal with a place of kind %" PRIu64, part);
        place->part = (enum membership_part)part;
    }
    return 0;
}

static int take_vow(struct bytes_cursor *cursor, struct control_membership *membership, struct mst_error *err)
{
    struct membership_vow *vow = &membership->message.vow;
    membership->places = calloc(cursor->left / PLACE_BYTES + 1, sizeof *membership->places);
    struct membership_place *next = membership->places;
    if (!next)
        return mst_error_set(err, -ENOMEM, "read a proposal of %zu bytes: no memory", cursor->left);
    vow->count = (size_t)bytes_take(cursor, 1);
    if (vow->count > MEMBERSHIP_MAX_ATTEMPTS)
        return mst_error_set(err, -EBADMSG, "a proposal with %zu attempts", vow->count);
    int r = take_ballot(cursor, &next, &vow->held, err);
    for (size_t a = 0; r == 0 && a < vow->count; a++)
        r = take_ballot(cursor, &next, &vow->attempts[a], err);
    return r;
}

static int take_workers(struct bytes_cursor *cursor, struct control_membership *membership,
                        struct mst_error *err)
{
    const size_t count = (size_t)bytes_take(cursor, 2);
    if (count < 1 || count > MEMBERSHIP_MAX_WORKERS || cursor->left != count * WORKER_BYTES)
        return mst_error_set(err, -EBADMSG, "a proposal of %zu workers in %zu bytes", count, cursor->left);
    membership->workers = calloc(count, sizeof *membership->workers);
    if (!membership->workers)
        return mst_error_set(err, -ENOMEM, "read a proposal of %zu workers: no memory", count);
    for (size_t w = 0; w < count; w++) {
        struct membership_worker *worker = &membership->workers[w];
        bytes_take_raw(cursor, worker->id.bytes, sizeof worker->id.bytes);
        bytes_take_raw(cursor, worker->slot.bytes, sizeof worker->slot.bytes);
        worker->ipv4 = (uint32_t)bytes_take(cursor, 4);
        worker->port = (uint16_t)bytes_take(cursor, 2);
    }
    membership->message.count = count;
    membership->message.workers = membership->workers;
    return 0;
}

static int take_proposal(struct bytes_cursor *cursor, struct control_membership *membership,
                         struct mst_error *err)
{
    struct membership_message *message = &membership->message;
    message->kind = MEMBERSHIP_PROPOSE;
    message->leaving = (bytes_take(cursor, 1) & LEAVING) != 0;
    message->step = bytes_take(cursor, 8);
    const int r = take_vow(cursor, membership, err);
    return r < 0 ? r : take_workers(cursor, membership, err);
}

int control_unpack_membership(enum control_type type, const uint8_t *payload, size_t count,
                              struct control_membership *ret_membership, struct mst_error *err)
{
    struct bytes_cursor cursor = {payload, count, false};
    mst_cleanup(control_membership_release) struct control_membership membership = {0};
    struct membership_message *message = &membership.message;
    const char *what = "proposal";
    int r = 0;
    message->view = bytes_take(&cursor, 8);
    if (type == CONTROL_PROPOSE) {
        r = take_proposal(&cursor, &membership, err);
    } else if (type == CONTROL_COMMIT) {
        what = "commit";
        message->kind = MEMBERSHIP_COMMIT;
        bytes_take_raw(&cursor, message->digest, sizeof message->digest);
    } else {
        what = "hold";
        message->kind = MEMBERSHIP_HOLD;
        message->step = bytes_take(&cursor, 8);
        message->size = bytes_take(&cursor, 8);
        bytes_take_raw(&cursor, message->lineage, sizeof message->lineage);
    }
    if (r == 0)
        r = finished(&cursor, what, err);
    if (r < 0)
        return r;
    *ret_membership = membership;
    membership = (struct control_membership){0};
    return 0;
}

int control_pack_text(struct mst_buf *payload, uint64_t view, const char *text)
{
    const int r = bytes_put(payload, view, 8);
    const size_t bytes = strlen(text);
    return r < 0 ? r
                 : mst_buf_append(payload, text, bytes < CONTROL_TEXT_BYTES ? bytes : CONTROL_TEXT_BYTES - 1);
}

int control_unpack_text(const uint8_t *payload, size_t count, uint64_t *ret_view,
                        char ret_text[static CONTROL_TEXT_BYTES], struct mst_error *err)
{
    struct bytes_cursor cursor = {payload, count, false};
    const uint64_t view = bytes_take(&cursor, 8);
    if (cursor.broken || cursor.left >= CONTROL_TEXT_BYTES)
        return mst_error_set(err, -EBADMSG, "a text message of %zu bytes", count);
    *ret_view = view;
    for (size_t i = 0; i < cursor.left; i++)
        ret_text[i] = cursor.next[i] >= 0x20 && cursor.next[i] != 0x7f ? (char)cursor.next[i] : '?';
    ret_text[cursor.left] = '\0';
    return 0;
}

int control_pack_done(struct mst_buf *payload, const struct control_done *done)
{
    int r = bytes_put(payload, done->view, 8);
    if (r == 0)
        r = bytes_put(payload, done->step, 8);
    return r < 0 ? r : mst_buf_append(payload, done->digest, sizeof done->digest);
}

int control_unpack_done(const uint8_t *payload, size_t count, struct control_done *ret_done,
                        struct mst_error *err)
{
    struct bytes_cursor cursor = {payload, count, false};
    struct control_done done = {.view = bytes_take(&cursor, 8), .step = bytes_take(&cursor, 8)};
    bytes_take_raw(&cursor, done.digest, sizeof done.digest);
    const int r = finished(&cursor, "done", err);
    if (r == 0)
        *ret_done = done;
    return r;
}

int control_pack_file(struct mst_buf *payload, const struct control_file *file)
{
    int r = bytes_put(payload, file->bytes, 8);
    if (r == 0)
        r = mst_buf_append(payload, file->sha256, sizeof file->sha256);
    return r < 0 ? r : mst_buf_append_text(payload, file->name);
}

int control_unpack_file(const uint8_t *payload, size_t count, struct control_file *ret_file,
                        struct mst_error *err)
{
    struct bytes_cursor cursor = {payload, count, false};
    struct control_file file = {.bytes = bytes_take(&cursor, 8)};
    bytes_take_raw(&cursor, file.sha256, sizeof file.sha256);
    if (cursor.broken || cursor.left >= sizeof file.name)
        return mst_error_set(err, -EBADMSG, "a file message of %zu bytes", count);
    memcpy(file.name, cursor.next, cursor.left);
    file.name[cursor.left] = '\0';
    if (strlen(file.name) != cursor.left || !mst_name_is_plain(file.name))
        return mst_error_set(err, -EBADMSG, "a file whose name is not a plain one");
    *ret_file = file;
    return 0;
}
