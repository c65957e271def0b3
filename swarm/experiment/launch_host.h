/* SPDX-License-Identifier: Apache-2.0 */
/* The other end of a launcher: `muster compare-host` on an experiment's host. It says hello, is given one
 * request on stdin (a line of JSON, and files behind it), answers on stdout in lines of JSON, and ends. Its
 * stdin's end, or a signal, means to stop: whatever it started is ended and what it made for a run is
 * removed. Keys come on stdin, and are in no argument and no variable.
 *
 *     request                                               answer
 *     {"do":"look","agent","subnet","limits"...}            {"host":"clock","t"}, {"host":"look",...}
 *     {"do":"prepare","folder","data":[{name,bytes,sha256}]} {"host":"need","names":[...]}; then those files
 * are sent
 *     {"do":"train","folder","name","agent","environment","files",...}  the agent's own lines, samples, files
 *     {"do":"make","folder","name"}                         a folder for a container to write its results to
 *     {"do":"fetch","folder","name"}                        files; the folder is removed
 *     {"do":"watch"}                                        {"host":"node",...} once a second
 *     {"do":"remove","folder"}
 * and last {"host":"end","code":N,"text":"..."}: 0, or a negative errno and why. */
#ifndef EXPERIMENT_LAUNCH_HOST_H
#define EXPERIMENT_LAUNCH_HOST_H

#include "muster/buf.h"
#include "muster/error.h"

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <sys/types.h>

#define HOST_FOLDER_MARK "muster-compare-" /* the last part of an experiment's folder on a host begins so */
#define HOST_WORKER_UID  65532             /* what the agent becomes when it is started as root */
#define HOST_REQUEST_S   60                /* for a request to come in */
#define HOST_DATA_S      3600

struct host_side {
    int signal_fd;
    struct mst_buf input; /* what came and was not taken so far */
    bool is_at_end;       /* of stdin */
};

/* Lines to stdout. What cannot be said ends the program elsewhere: the reader is gone. */
int host_say(cJSON *json); /* takes it; NULL: -ENOMEM */
int host_say_text(const char *line, size_t count);
/* `name` is what the other side calls it. */
int host_send_file(const char *path, const char *name, struct mst_error *err);

/* The next line, without its end. -ECANCELED on a signal, -EPIPE at the end, -ETIMEDOUT. */
int host_read_line(struct host_side *side, uint64_t deadline_ns, struct mst_buf *ret_line,
                   struct mst_error *err);
int host_read_file(struct host_side *side, uint64_t deadline_ns, const char *path, unsigned mode,
                   uint64_t bytes, struct mst_error *err);

/* "FOLDER/NAME", both checked: FOLDER is an experiment's, NAME a plain name. The caller frees. */
int host_path(const cJSON *request, char **ret_path, struct mst_error *err);
/* A folder of our own, which must not be there, given to the agent's user. */
int host_make_folder(const char *path, mode_t mode, bool for_worker, struct mst_error *err);
int host_remove_tree(const char *path, struct mst_error *err);
/* The results of a worker, from `folder` and the folders in it. */
int host_send_results(const char *folder, bool with_model, struct mst_error *err);

/* launch_train.c */
int host_train(struct host_side *side, const cJSON *request, struct mst_error *err);

#endif
