/* SPDX-License-Identifier: Apache-2.0 */
#include "cgroup_path.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* How far a search goes before it gives up; a host with 1000 containers and systemd has about 1500 groups. */
#define CGROUP_SEARCH_MAX_FOLDERS 20000
#define CGROUP_SEARCH_MAX_DEPTH   12

static bool has_controller(const char *list, size_t bytes, const char *controller)
{
    const size_t wanted = strlen(controller);
    if (wanted == 0) /* v2 has the one line without controllers */
        return bytes == 0;
    while (bytes > 0) {
        const char *comma = memchr(list, ',', bytes);
        const size_t item = comma ? (size_t)(comma - list) : bytes;
        if (item == wanted && memcmp(list, controller, item) == 0)
            return true;
        const size_t skip = comma ? item + 1 : item;
        list += skip;
        bytes -= skip;
    }
    return false;
}

int cgroup_path_of(const char *text, size_t bytes, const char *controller, const char **ret_path,
                   size_t *ret_path_bytes)
{
    const char *end = text + bytes;
    while (text < end) {
        const char *newline = memchr(text, '\n', (size_t)(end - text));
        const char *first = memchr(text, ':', (size_t)(end - text));
        if (!newline || !first || first > newline)
            return -EBADMSG;
        const char *controllers = first + 1;
        const char *second = memchr(controllers, ':', (size_t)(newline - controllers));
        if (!second || second[1] != '/')
            return -EBADMSG;
        if (has_controller(controllers, (size_t)(second - controllers), controller)) {
            *ret_path = second + 1;
            *ret_path_bytes = (size_t)(newline - second - 1);
            return memchr(*ret_path, '\0', *ret_path_bytes) ? -EBADMSG : 0;
        }
        text = newline + 1;
    }
    return -ENOENT;
}

size_t cgroup_path_cut(const char *path, size_t path_bytes, const char *id)
{
    const char *found = memmem(path, path_bytes, id, strlen(id));
    if (!found)
        return 0;
    const size_t offset = (size_t)(found - path);
    const char *slash = memchr(found, '/', path_bytes - offset);
    return slash ? (size_t)(slash - path) : path_bytes;
}

/* The mount point of a controller. One rule serves the host, a container that has the host's tree mounted
 * elsewhere, and a stored tree; mount tables would tell about the first only. */
static int mount_point(const char *sysfs, const char *controller, char ret_folder[static PATH_MAX])
{
    static const char *const unified[] = {"", "/unified", NULL}; /* v2 alone; beside v1 */
    const char *v1[] = {controller, NULL, NULL};
    if (strncmp(controller, "cpu", 3) == 0)
        v1[1] = "cpu,cpuacct"; /* mounted together, and links "cpu" and "cpuacct" may be missing */

    const bool is_v1 = *controller != '\0';
    for (const char *const *name = is_v1 ? v1 : unified; *name; name++) {
        char folder[PATH_MAX], probe[PATH_MAX + sizeof "/cgroup.controllers"];
        const int length =
            snprintf(folder, sizeof folder, "%s/fs/cgroup%s%s", sysfs, is_v1 ? "/" : "", *name);
        if (length < 0 || (size_t)length >= sizeof folder)
            return -ENAMETOOLONG;
        (void)snprintf(probe, sizeof probe, "%s%s", folder, is_v1 ? "" : "/cgroup.controllers");
        if (access(probe, F_OK) == 0) {
            memcpy(ret_folder, folder, (size_t)length + 1);
            return 0;
        }
    }
    return -ENOENT;
}

/* Looks through the folders below `folder` (of PATH_MAX bytes, changed while it works), the nearest first,
 * and leaves the found one in it. d_type is enough: kernfs fills it in, and a stat of each of a group's 40
 * files would cost more than the rest. */
static int search_below(char *folder, const char *id, unsigned depth, unsigned *left)
{
    const size_t length = strlen(folder);
    DIR *dir = depth > 0 ? opendir(folder) : NULL;
    if (!dir)
        return -ENOENT;
    int r = -ENOENT;
    for (int pass = 0; pass < 2 && r == -ENOENT; pass++) {
        rewinddir(dir);
        for (const struct dirent *entry; r == -ENOENT && (entry = readdir(dir));) {
            if (entry->d_type != DT_DIR || entry->d_name[0] == '.' ||
                length + 1 + strlen(entry->d_name) >= PATH_MAX)
                continue;
            (void)snprintf(folder + length, PATH_MAX - length, "/%s", entry->d_name);
            if (pass == 0 && strstr(entry->d_name, id))
                r = 0;
            else if (pass == 1)
                r = *left == 0 ? -EFBIG : ((*left)--, search_below(folder, id, depth - 1, left));
            if (r < 0)
                folder[length] = '\0';
        }
    }
    (void)closedir(dir);
    return r;
}

int cgroup_path_find(const char *sysfs, const char *text, size_t bytes, const char *controller,
                     const char *id, char ret_folder[static PATH_MAX])
{
    const char *path;
    size_t path_bytes;
    char folder[PATH_MAX];
    int r = cgroup_path_of(text, bytes, controller, &path, &path_bytes);
    if (r == 0)
        r = mount_point(sysfs, controller, folder);
    if (r == -ENOENT && strcmp(id, "/") == 0) /* the machine has every hierarchy, whoever's text it is */
        r = mount_point(sysfs, controller, folder);
    if (r < 0)
        return r;
    if (strcmp(id, "/") == 0) {
        memcpy(ret_folder, folder, strlen(folder) + 1);
        return 0;
    }
    /* A reader in a control-group namespace of its own (Docker's default on v2) is told paths relative to a
     * place that it cannot know, "/../ID", and "/" for its own. The id is unique, so the tree is searched for
     * it: once for each start of a container. */
    if (strncmp(path, "/../", 4) == 0 || (path_bytes == 1 && *path == '/')) {
        unsigned left = CGROUP_SEARCH_MAX_FOLDERS;
        if (path_bytes > 1 && cgroup_path_cut(path, path_bytes, id) == 0)
            return -ENOENT;
        r = search_below(folder, id, CGROUP_SEARCH_MAX_DEPTH, &left);
        if (r < 0)
            return r;
    } else {
        const size_t length = strlen(folder);
        path_bytes = cgroup_path_cut(path, path_bytes, id);
        if (path_bytes == 0) /* another process has got the pid by now */
            return -ENOENT;
        if (length + path_bytes >= sizeof folder)
            return -ENAMETOOLONG;
        memcpy(folder + length, path, path_bytes);
        folder[length + path_bytes] = '\0';
    }
    memcpy(ret_folder, folder, strlen(folder) + 1);
    return 0;
}
