/* SPDX-License-Identifier: Apache-2.0 */
#include "orphans.h"

#include "muster/buf.h"
#include "muster/cleanup.h"
#include "muster/file.h"
#include "muster/parse.h"

#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#define STAT_MAX_BYTES 4096

/* Is `pid` alive and a child of `parent`? From /proc/PID/stat: "PID (name) STATE PPID ...", where the name
 * may hold brackets and spaces. */
static bool is_living_child(uint32_t pid, pid_t parent)
{
    char path[32], state;
    int its_parent;
    mst_cleanup(mst_buf_release) struct mst_buf text = MST_BUF_INIT(STAT_MAX_BYTES);
    (void)snprintf(path, sizeof path, "/proc/%u/stat", pid);
    if (mst_file_read(path, &text, NULL) < 0)
        return false;
    const char *behind = strrchr(mst_buf_text(&text), ')');
    return behind && sscanf(behind + 1, " %c %d", &state, &its_parent) == 2 && state != 'Z' && state != 'X' &&
           its_parent == parent;
}

size_t exec_orphans_signal(int number, bool (*spared)(const void *context, pid_t pid), const void *context)
{
    size_t count = 0;
    const pid_t self = getpid();
    DIR *folder = opendir("/proc");
    if (!folder)
        return 0;
    for (struct dirent *entry = readdir(folder); entry; entry = readdir(folder)) {
        uint32_t pid;
        if (mst_parse_u32(entry->d_name, 1, INT32_MAX, &pid, NULL) < 0 || !is_living_child(pid, self) ||
            spared(context, (pid_t)pid))
            continue;
        count++;
        if (number != 0)
            (void)kill((pid_t)pid, number); /* it has ended meanwhile: as well */
    }
    (void)closedir(folder);
    return count;
}
