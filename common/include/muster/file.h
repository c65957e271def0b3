/* SPDX-License-Identifier: Apache-2.0 */
/* Files and descriptors: read with a limit, write so that a reader sees the old file or the new one. */
#ifndef MUSTER_FILE_H
#define MUSTER_FILE_H

#include "muster/buf.h"
#include "muster/error.h"

#include <stdbool.h>
#include <stddef.h>

/* Open a regular file for reading; the descriptor is the caller's. Never waits: a pipe, socket or device is
 * -EINVAL, a folder -EISDIR. */
int mst_file_open(const char *path, int *ret_fd, struct mst_error *err);

/* Read the whole file, opened as above; its size must stay within ret_content->max_bytes (-EFBIG). Content is
 * appended, and as it was before after an error. */
int mst_file_read(const char *path, struct mst_buf *ret_content, struct mst_error *err);

/* Whether a file may be written at `path` as below: a regular file is there, or nothing. A rename would put a
 * file in the place of a device or a pipe, and cut a link from what it leads to: -EINVAL, and -EISDIR for a
 * folder. */
int mst_file_check_output(const char *path, struct mst_error *err);

/* Write to a temporary name beside `path`, fsync, rename over it, fsync the folder. On an error nothing is
 * left behind and an older file stands as it was, unless it was the folder that could not be synced: then the
 * new file stands, and a crash may take it away. `mode` as for chmod(2). */
int mst_file_write_atomic(const char *path, const void *bytes, size_t count, unsigned mode,
                          struct mst_error *err);

/* The same in pieces: open, write to the descriptor at will, then commit or discard. */
struct mst_file_writer {
    int fd;          /* write here */
    char *path;      /* final name, owned */
    char *temporary; /* owned */
};
int mst_file_writer_open(struct mst_file_writer *writer, const char *path, unsigned mode,
                         struct mst_error *err);
int mst_file_writer_commit(struct mst_file_writer *writer, struct mst_error *err); /* releases in any case */
void mst_file_writer_discard(struct mst_file_writer *writer);                      /* fine after commit */

/* mkdir -p, each new folder with `mode`. */
int mst_make_folders(const char *path, unsigned mode, struct mst_error *err);

/* Write all bytes to a blocking descriptor, whatever write(2) takes at a time. 0 or a negative errno. */
int mst_write_all(int fd, const void *bytes, size_t count);

/* Open /dev/null, for reading, as each of the descriptors 0, 1 and 2 that is closed, before anything else is
 * opened: it would take such a number, and be written to or read as what it is not. 0 or a negative errno. */
int mst_open_standard_descriptors(void);

/* Raise this process's soft limit on open descriptors to the hard one. 0 or a negative errno. */
int mst_raise_descriptor_limit(void);

/* "a/b" from "a" and "b"; owned by the caller, NULL without memory. */
char *mst_path_join(const char *folder, const char *name);

/* True for a plain file name from outside: not empty, no '/', no NUL or control character, not "." or "..",
 * at most 255 bytes. */
bool mst_name_is_plain(const char *name);

#endif
