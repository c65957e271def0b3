/* SPDX-License-Identifier: Apache-2.0 */
#include "runfolder.h"

#include "muster/cleanup.h"
#include "muster/clock.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#define SAME_SECOND_MAX 100

/* "20260131T235959Z-stack", then "...-2" for another of the same second. */
static char *folder_name(double started_s, const char *stack, unsigned number)
{
    const time_t whole = (time_t)started_s;
    struct tm tm;
    char time_text[32];
    char *name = NULL;

    if (!gmtime_r(&whole, &tm) || strftime(time_text, sizeof time_text, "%Y%m%dT%H%M%SZ", &tm) == 0)
        return NULL;
    if (number > 1 ? asprintf(&name, "%s-%s-%u", time_text, stack, number) < 0
                   : asprintf(&name, "%s-%s", time_text, stack) < 0)
        return NULL;
    return name;
}

static int make_folder(const char *parent, const char *stack, struct runfolder *folder, struct mst_error *err)
{
    for (unsigned number = 1; number <= SAME_SECOND_MAX; number++) {
        mst_cleanup(mst_freep) char *name = folder_name(folder->started_s, stack, number);
        free(folder->path);
        folder->path = name ? mst_path_join(parent, name) : NULL;
        if (!folder->path)
            return mst_error_set(err, -ENOMEM, "run folder: no memory");
        if (mkdir(folder->path, 0755) == 0)
            return 0;
        if (errno != EEXIST)
            return mst_error_errno(err, -errno, "make run folder '%s'", folder->path);
    }
    return mst_error_set(err, -EEXIST, "make run folder '%s': there are %d of this second", folder->path,
                         SAME_SECOND_MAX);
}

int runfolder_make(const char *parent, const char *stack, struct runfolder *ret_folder, struct mst_error *err)
{
    struct runfolder folder = {.started_s = mst_wall_s()};
    mst_cleanup(mst_freep) char *stats_path = NULL;
    int r = mst_make_folders(parent, 0755, err);

    if (r >= 0)
        r = make_folder(parent, stack, &folder, err);
    if (r >= 0) {
        stats_path = mst_path_join(folder.path, "stats.csv");
        r = stats_path ? stats_csv_new(stats_path, stack, &folder.stats, err)
                       : mst_error_set(err, -ENOMEM, "run folder: no memory");
        if (r < 0)
            (void)rmdir(folder.path);
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
    if (folder->path)
        (void)rmdir(folder->path); /* fails when something is in it, as it should */
}

void runfolder_release(struct runfolder *folder)
{
    stats_csv_freep(&folder->stats);
    free(folder->path);
    folder->path = NULL;
}
