/* SPDX-License-Identifier: Apache-2.0 */
#include "collect.h"

#include "muster/cleanup.h"
#include "muster/file.h"
#include "muster/json.h"

#include <fcntl.h>
#include <string.h>

#define ARCHIVE_MAX_BYTES ((size_t)8 << 30)
#define FILE_MAX_BYTES    ((uint64_t)4 << 30)
#define FETCH_TIMEOUT_MS  600000
#define PATH_MAX_BYTES    1024

struct spool {
    int fd;
};

static int write_spool(void *context, const void *bytes, size_t count, struct mst_error *err)
{
    const struct spool *spool = context;
    const int r = mst_write_all(spool->fd, bytes, count);

    return r < 0 ? mst_error_errno(err, r, "keep the archive") : 0;
}

/* A name that vanishes with the descriptor, on the run folder's own file system. */
static int open_spool(const char *folder, int *ret_fd, struct mst_error *err)
{
    char *path;

    *ret_fd = open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (*ret_fd >= 0)
        return 0;
    if (errno != EOPNOTSUPP && errno != EISDIR)
        return mst_error_errno(err, -errno, "open a temporary file in '%s'", folder);
    path = mst_path_join(folder, ".archive-XXXXXX");
    if (!path)
        return mst_error_set(err, -ENOMEM, "archive: no memory");
    *ret_fd = mkostemp(path, O_CLOEXEC);
    if (*ret_fd < 0)
        (void)mst_error_errno(err, -errno, "open a temporary file in '%s'", folder);
    else
        (void)unlink(path);
    free(path);
    return *ret_fd < 0 ? -EIO : 0;
}

static int container_of_task(struct session *session, const char *task_id, char ret_id[ENGINE_NAME_MAX_BYTES],
                             struct mst_error *err)
{
    mst_cleanup(mst_json_deletep) cJSON *task = NULL;
    struct engine_info info;
    const char *container, *node;
    int r = engine_find(session->engine, ENGINE_TASK, task_id, &task, err);

    if (r >= 0)
        r = session_info(session, &info, err);
    if (r < 0)
        return r;
    container = mst_json_string_or(mst_json_at(task, "Status", "ContainerStatus", NULL), "ContainerID", "");
    node = mst_json_string_or(task, "NodeID", "");
    if (container[0] == '\0')
        return mst_error_set(err, -ENOENT, "the collector's task %s has no container any more", task_id);
    if (strcmp(node, info.node_id) != 0)
        return mst_error_set(
            err, -ENOENT,
            "the collector runs on another node than the engine at %s ('%s'), which can only read its "
            "own containers; pin it to that node (MUSTER_MANAGER)",
            engine_host(session->engine), info.name);
    (void)snprintf(ret_id, ENGINE_NAME_MAX_BYTES, "%s", container);
    return 0;
}

int collect_fetch(struct session *session, const char *task_id, const char *container_folder,
                  const char *run_folder, struct untar_result *ret_result, struct mst_error *err)
{
    static const char *const reserved[] = {"run.json", "stats.csv", NULL};
    const struct untar_limits limits = {FILE_MAX_BYTES, ARCHIVE_MAX_BYTES, reserved};
    mst_cleanup(mst_buf_release) struct mst_buf path = MST_BUF_INIT(PATH_MAX_BYTES),
                                                query = MST_BUF_INIT(PATH_MAX_BYTES);
    mst_cleanup(mst_closep) int fd = -1;
    char container[ENGINE_NAME_MAX_BYTES];
    struct engine_call call = {
        .method = "GET",
        .timeout_ms = FETCH_TIMEOUT_MS,
        .max_reply_bytes = ARCHIVE_MAX_BYTES,
        .about = container_folder,
    };
    struct spool spool;
    int r = container_of_task(session, task_id, container, err);

    if (r < 0)
        return r;
    if (engine_path(&path, "/containers/", container, "/archive") < 0 ||
        engine_query_add(&query, "path", container_folder) < 0)
        return mst_error_set(err, -EFBIG, "archive of '%s': the path is too long", container_folder);
    call.path = mst_buf_text(&path);
    call.query = mst_buf_text(&query);
    r = open_spool(run_folder, &fd, err);
    if (r < 0)
        return r;
    spool.fd = fd;
    r = engine_download(session->engine, &call, write_spool, &spool, err);
    if (r < 0)
        return r;
    if (lseek(fd, 0, SEEK_SET) < 0)
        return mst_error_errno(err, -errno, "archive of '%s'", container_folder);
    return untar_fd(fd, run_folder, &limits, ret_result, err);
}
