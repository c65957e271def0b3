/* SPDX-License-Identifier: Apache-2.0 */
#include "store.h"

#include "control.h"
#include "deliver.h"
#include "muster/cleanup.h"
#include "muster/file.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define STORED_FILE_MODE 0644

struct store {
    const char *folder;
    bool open; /* the rest belongs to a file that is coming in */
    struct control_file file;
    struct mst_file_writer writer;
    struct mst_sha256 sha;
    uint64_t left_bytes;
};

int store_new(const char *folder, struct store **ret_store, struct mst_error *err)
{
    struct store *store = calloc(1, sizeof *store);
    if (!store)
        return mst_error_set(err, -ENOMEM, "receive files: no memory");
    store->folder = folder;
    *ret_store = store;
    return 0;
}

static void discard(struct store *store)
{
    if (store->open) {
        mst_file_writer_discard(&store->writer);
        mst_sha256_release(&store->sha);
    }
    store->open = false;
}

void store_free(struct store *store)
{
    if (!store)
        return;
    discard(store);
    free(store);
}

static int begin(struct store *store, const uint8_t *payload, size_t count, struct mst_error *err)
{
    if (store->open)
        return mst_error_set(err, -EPROTO, "a file begins before '%s' ended", store->file.name);
    int r = control_unpack_file(payload, count, &store->file, err);
    if (r < 0)
        return r;
    if (store->file.bytes > DELIVER_FILE_MAX_BYTES)
        return mst_error_set(err, -EFBIG, "file '%s' of %" PRIu64 " bytes: the limit is %" PRIu64,
                             store->file.name, store->file.bytes, DELIVER_FILE_MAX_BYTES);
    mst_cleanup(mst_freep) char *path = mst_path_join(store->folder, store->file.name);
    if (!path)
        return mst_error_set(err, -ENOMEM, "receive '%s': no memory", store->file.name);
    r = mst_sha256_init(&store->sha, err);
    if (r == 0)
        r = mst_file_writer_open(&store->writer, path, STORED_FILE_MODE, err);
    if (r < 0) {
        mst_sha256_release(&store->sha);
        return r;
    }
    store->open = true;
    store->left_bytes = store->file.bytes;
    return 0;
}

static int data(struct store *store, const uint8_t *payload, size_t count, struct mst_error *err)
{
    if (!store->open || count > store->left_bytes)
        return mst_error_set(err, -EPROTO, "%zu bytes that belong to no file", count);
    int r = mst_sha256_update(&store->sha, payload, count, err);
    if (r < 0)
        return r;
    r = mst_write_all(store->writer.fd, payload, count);
    if (r < 0)
        return mst_error_errno(err, r, "write '%s'", store->writer.path);
    store->left_bytes -= count;
    return 0;
}

static int end(struct store *store, struct mst_error *err)
{
    uint8_t digest[MST_SHA256_BYTES];
    if (!store->open || store->left_bytes > 0)
        return mst_error_set(err, -EPROTO, "a file ended %" PRIu64 " bytes early", store->left_bytes);
    int r = mst_sha256_finish(&store->sha, digest, err);
    if (r == 0 && memcmp(digest, store->file.sha256, sizeof digest) != 0)
        r = mst_error_set(err, -EBADMSG, "file '%s' does not have the digest that was announced",
                          store->file.name);
    if (r < 0)
        return r; /* store_free() discards it */
    store->open = false;
    r = mst_file_writer_commit(&store->writer, err);
    return r < 0 ? r : 1;
}

int store_frame(struct store *store, uint16_t type, const uint8_t *payload, size_t count,
                struct mst_error *err)
{
    switch (type) {
    case CONTROL_FILE_BEGIN:
        return begin(store, payload, count, err);
    case CONTROL_FILE_DATA:
        return data(store, payload, count, err);
    case CONTROL_FILE_END:
        return end(store, err);
    default:
        return mst_error_set(err, -EPROTO, "a frame of type %u among files", type);
    }
}

uint64_t store_last_bytes(const struct store *store)
{
    return store->file.bytes;
}
