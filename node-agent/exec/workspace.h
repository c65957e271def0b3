/* SPDX-License-Identifier: Apache-2.0 */
/* A private folder for what the program is handed as files: the host file, and a link named ssh to this
 * program for launchers that know no other name. Made by the supervisor, as the user that CMD runs as. */
#ifndef EXEC_WORKSPACE_H
#define EXEC_WORKSPACE_H

#include "muster/buf.h"
#include "muster/error.h"

struct exec_workspace {
    char *folder;    /* owned; NULL: no folder was writable */
    char *host_file; /* owned */
};

/* In TMPDIR, /tmp, /dev/shm or /run, the first that can be written. `program` (NULL: no links) is what the
 * links lead to. -EROFS or whatever the last one said when there is none. */
int exec_workspace_open(struct exec_workspace *workspace, const char *program, struct mst_error *err);
int exec_workspace_write_hosts(struct exec_workspace *workspace, const struct mst_buf *text,
                               struct mst_error *err);
/* Removes what was made, and nothing else. Usable with mst_cleanup(). */
void exec_workspace_close(struct exec_workspace *workspace);

#endif
