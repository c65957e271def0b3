/* SPDX-License-Identifier: Apache-2.0 */
/* runs/<UTC time>-<stack>/: made and tried before anything is deployed. */
#ifndef SWARM_RUNFOLDER_H
#define SWARM_RUNFOLDER_H

#include "events_log.h"
#include "stats_csv.h"

struct runfolder {
    char *path;              /* owned */
    struct stats_csv *stats; /* its file is open: writing works */
    struct events_log events;
    double started_s;
};

/* A name that `parent` has not: "20260131T235959Z-stack", for another of the same second "...-2". *ret_name
 * is the caller's. */
int runfolder_name(const char *parent, const char *stack, double started_s, char **ret_name,
                   struct mst_error *err);
/* `parent` is made as well; samples of `stack` are kept. Errors are of run time, never -EINVAL. */
int runfolder_make(const char *parent, const char *name, const char *stack, struct runfolder *ret_folder,
                   struct mst_error *err);
/* Remove the folder if nothing is in it: nothing was deployed. */
void runfolder_remove_empty(struct runfolder *folder);
void runfolder_release(struct runfolder *folder);

#endif
