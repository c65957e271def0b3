/* SPDX-License-Identifier: Apache-2.0 */
#include "workspace.h"

#include "muster/cleanup.h"
#include "muster/file.h"

#include <stdlib.h>
#include <string.h>

static const char *const link_names[] = {"ssh", "rsh"};

static int make_folder(struct exec_workspace *workspace, struct mst_error *err)
{
    const char *const places[] = {getenv("TMPDIR"), "/tmp", "/dev/shm", "/run"};
    int code = -ENOENT;
    for (size_t p = 0; p < MST_ARRAY_COUNT(places); p++) {
        if (!places[p] || *places[p] != '/')
            continue;
        mst_cleanup(mst_freep) char *path = mst_format("%s/muster-exec.XXXXXX", places[p]);
        if (!path)
            return mst_error_set(err, -ENOMEM, "make a private folder: no memory");
        if (mkdtemp(path)) { /* mode 0700 */
            workspace->folder = path;
            path = NULL;
            return 0;
        }
        code = -errno;
    }
    return mst_error_errno(err, code, "make a private folder in TMPDIR, /tmp, /dev/shm or /run");
}

int exec_workspace_open(struct exec_workspace *workspace, const char *program, struct mst_error *err)
{
    *workspace = (struct exec_workspace){0};
    int r = make_folder(workspace, err);
    if (r < 0)
        return r;
    workspace->host_file = mst_path_join(workspace->folder, "hosts");
    if (!workspace->host_file)
        r = mst_error_set(err, -ENOMEM, "make a private folder: no memory");
    for (size_t l = 0; r == 0 && program && l < MST_ARRAY_COUNT(link_names); l++) {
        mst_cleanup(mst_freep) char *link = mst_path_join(workspace->folder, link_names[l]);
        if (!link || symlink(program, link) < 0)
            r = mst_error_errno(err, link ? -errno : -ENOMEM, "make the link '%s'", link ? link : "ssh");
    }
    if (r < 0)
        exec_workspace_close(workspace);
    return r;
}

int exec_workspace_write_hosts(struct exec_workspace *workspace, const struct mst_buf *text,
                               struct mst_error *err)
{
    return mst_file_write_atomic(workspace->host_file, mst_buf_text(text), text->count, 0600, err);
}

void exec_workspace_close(struct exec_workspace *workspace)
{
    if (workspace->host_file)
        (void)unlink(workspace->host_file); /* not written yet: fine */
    for (size_t l = 0; workspace->folder && l < MST_ARRAY_COUNT(link_names); l++) {
        mst_cleanup(mst_freep) char *link = mst_path_join(workspace->folder, link_names[l]);
        if (link)
            (void)unlink(link);
    }
    if (workspace->folder)
        (void)rmdir(workspace->folder); /* the program left files of its own there: they are its business */
    free(workspace->folder);
    free(workspace->host_file);
    *workspace = (struct exec_workspace){0};
}
