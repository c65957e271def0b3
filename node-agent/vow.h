/* SPDX-License-Identifier: Apache-2.0 */
/* The vow file: what a worker signed last, so that it does not forget over a restart (membership.h). One
 * small JSON file in the worker's own --state folder; docs/membership.md has its keys. A vow belongs to a
 * job: that of another job is not read. */
#ifndef AGENT_VOW_H
#define AGENT_VOW_H

#include "membership.h"
#include "muster/digest.h"
#include "muster/error.h"

#define VOW_FILE_NAME      "vow.json"
#define VOW_FILE_MAX_BYTES ((size_t)2 << 20) /* MEMBERSHIP_MAX_VOW places of some 70 bytes, and room */

/* Once, at the start: what a killed writer left beside the file goes, too. `job`: the job's key. 1: *ret_vow is read, and its places are in *ret_places, the caller's to free; 0:
 * there is none, or it is of another job. -EBADMSG for a file that is no vow: then nobody knows what was
 * signed. */
int vow_read(const char *folder, const uint8_t job[static MST_SHA256_BYTES], struct membership_vow *ret_vow,
             struct membership_place **ret_places, struct mst_error *err);
/* Whole or not at all, and on the disk when it returns. */
int vow_write(const char *folder, const uint8_t job[static MST_SHA256_BYTES],
              const struct membership_vow *vow, struct mst_error *err);
/* The job is done. None there is fine. */
int vow_remove(const char *folder, struct mst_error *err);

#endif
