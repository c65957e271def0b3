/* SPDX-License-Identifier: Apache-2.0 */
/* The receiving end of deliver.h: files that one sender sends, written whole into a folder. One object a
 * sender. */
#ifndef AGENT_STORE_H
#define AGENT_STORE_H

#include "muster/error.h"

#include <stddef.h>
#include <stdint.h>

struct store;

/* `folder` is borrowed and must exist. */
int store_new(const char *folder, struct store **ret_store, struct mst_error *err);
void store_free(struct store *store); /* NULL is fine; a file that is not complete is discarded */

/* Take a CONTROL_FILE_BEGIN, _DATA or _END frame. Returns 1 when a file became complete and its digest is
 * right, 0 to go on, or a negative errno: the sender is not to be listened to any more. */
int store_frame(struct store *store, uint16_t type, const uint8_t *payload, size_t count,
                struct mst_error *err);
/* Bytes of the file that was completed last. */
uint64_t store_last_bytes(const struct store *store);

#endif
