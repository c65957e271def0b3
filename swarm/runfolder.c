/* SPDX-License-Identifier: Apache-2.0 */
#include "runfolder.h"

#include "muster/buf.h"
#include "muster/cleanup.h"
#include "muster/clock.h"
#include "muster/file.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#define SAME_SECOND_MAX 100

int runfolder_name(const char *parent, const char *stack, double started_s, char **ret_name,
                   struct mst_error *err)
{
    const time_t whole = (time_t)started_s;
    struct tm tm;
    char time_text[32], number_text[8] = "";

    if (!gmtime_r(&whole, &tm) || strftime(time_text, sizeof time_text, "%Y%m%dT%H%M%SZ", &tm) == 0)
        return mst_error_set(err, -ERANGE, "run folder: the clock tells no time");
    for (unsigned number = 2; number <= SAME_SECOND_MAX; number++) {
        mst_cleanup(mst_freep) char *name = mst_format("%s-%s%s", time_text, stack, number_text);
        mst_cleanup(mst_freep) char *path = name ? mst_path_join(parent, name) : NULL;
        if (!path)
            return mst_error_set(err, -ENOMEM, "run folder: no memory");
        if (access(path, F_OK) < 0) {
            *ret_name = name;
            name = NULL;
            return 0;
        }
        (void)snprintf(number_text, sizeof number_text, "-%u", number);
    }
    return mst_error_set(err, -EEXIST, "run folder '%s-%s' in '%s': there are %d of this second", time_text,
                         stack, parent, SAME_SECOND_MAX);
}

int runfolder_make(const char *parent, const char *name, const char *stack, struct runfolder *ret_folder,
                   struct mst_error *err)
{
    struct runfolder folder = {.path = mst_path_join(parent, name), .started_s = mst_wall_s()};
    mst_cleanup(mst_freep) char *stats_path = folder.path ? mst_path_join(folder.path, "stats.csv") : NULL;
    mst_cleanup(mst_freep) char *events_path = folder.path ? mst_path_join(folder.path, "events.jsonl") : NULL;
    int r = stats_path && events_path ? mst_make_folders(parent, 0755, err)
                       : mst_error_set(err, -ENOMEM, "run folder: no memory");

    if (r >= 0 && mkdir(folder.path, 0755) < 0)
        r = mst_error_errno(err, -errno, "make run folder '%s'", folder.path);
    if (r >= 0) {
        r = stats_csv_new(stats_path, stack, &folder.stats, err);
        if (r >= 0)
            r = events_log_open(&folder.events, events_path, err);
        if (r < 0)
            runfolder_remove_empty(&folder);
    }
    if (r < 0) {
        runfolder_release(&folder);
        return r == -EINVAL || r == -EBADMSG ? -EIO : r; /* not the input's fault to the exit status */
    }
    *ret_folder = folder;
    return 0;
}

void runfolder_remove_empty(struct runfolder *folder)
{
    stats_csv_freep(&folder->stats);
    events_log_release(&folder->events);
    if (folder->path)
        (void)rmdir(folder->path); /* fails when something is in it, as it should */
}

void runfolder_release(struct runfolder *folder)
{
    stats_csv_freep(&folder->stats);
    events_log_release(&folder->events);
    free(folder->path);
    folder->path = NULL;
}
