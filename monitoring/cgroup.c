/* SPDX-License-Identifier: Apache-2.0 */
#include "cgroup.h"

#include "cgroup_files.h"
#include "cgroup_path.h"
#include "source.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

/* "/docker/ID" of "/sys/fs/cgroup/memory/docker/ID". */
static void keep_path(struct cgroup *cgroup, const char *sysfs, const char *folder, bool is_v1)
{
    const char *path = folder + strlen(sysfs) + strlen("/fs/cgroup");
    if (is_v1 || strncmp(path, "/unified/", 9) == 0) {
        const char *slash = *path == '/' ? strchr(path + 1, '/') : NULL;
        path = slash ? slash : "";
    }
    const size_t bytes = strlen(path);
    if (bytes < sizeof cgroup->path) /* no label is better than half a one */
        memcpy(cgroup->path, *path ? path : "/", *path ? bytes + 1 : 2);
}

int cgroup_open(struct cgroup *cgroup, const char *sysfs, const char *text, size_t bytes, const char *id,
                unsigned wanted)
{
    *cgroup = (struct cgroup){.wanted = wanted};
    const char *controller = NULL;
    char folder[PATH_MAX];
    int found = -ENOENT;
    unsigned groups_of_v1 = 0;
    for (size_t i = 0; i < cgroup_file_count; i++) {
        const struct cgroup_file *file = &cgroup_files[i];
        if (!((file->group | file->groups) & wanted))
            continue;
        if (!controller || strcmp(controller, file->controller) != 0) {
            controller = file->controller;
            found = cgroup_path_find(sysfs, text, bytes, controller, id, folder);
        }
        const bool is_v1 = *file->controller != '\0';
        if (found < 0 || (!is_v1 && (groups_of_v1 & file->group)))
            continue;
        const int fd = source_open(folder, file->name);
        if (fd == -EMFILE || fd == -ENFILE) {
            cgroup_close(cgroup);
            return fd;
        }
        if (fd < 0)
            continue;
        if (!*cgroup->path)
            keep_path(cgroup, sysfs, folder, is_v1);
        cgroup->sources[cgroup->count].file = file;
        cgroup->sources[cgroup->count++].fd = fd;
        if (is_v1)
            groups_of_v1 |= file->group | file->groups;
    }
    if (cgroup->count > 0)
        return 0;
    return found < 0 ? found : -ENOENT;
}

void cgroup_close(struct cgroup *cgroup)
{
    for (size_t i = 0; i < cgroup->count; i++)
        (void)close(cgroup->sources[i].fd);
    cgroup->count = 0;
}

int cgroup_read(struct cgroup *cgroup, unsigned wanted, struct mst_buf *scratch,
                struct monitor_sample *sample, size_t *ret_faults)
{
    size_t faults = 0;
    wanted &= cgroup->wanted;
    sample->devices = cgroup->devices;
    sample->device_count = 0;
    for (size_t i = 0; i < cgroup->count; i++) {
        const struct cgroup_file *file = cgroup->sources[i].file;
        if (!((file->group | file->groups) & wanted))
            continue;
        int r = source_read(cgroup->sources[i].fd, scratch);
        /* v1 removes a container's groups one after the other: half of them is no sample. */
        if (source_is_gone(r))
            return -ENODEV;
        if (r == 0)
            r = file->read(mst_buf_text(scratch), scratch->count, sample);
        if (r < 0)
            faults++;
    }
    sample->groups &= wanted | MONITOR_NETWORK;
    *ret_faults = faults;
    return 0;
}
