/* SPDX-License-Identifier: Apache-2.0 */
/* The program muster itself, started on a scripted engine. Aborts on any failure of the machine. */
#ifndef TESTS_FAULTS_PROGRAM_H
#define TESTS_FAULTS_PROGRAM_H

#include "fake_engine.h"

#include <sys/types.h>

struct program {
    pid_t pid;
    int in_fd; /* ours, of its stdin */
    int out_fd, err_fd;
    struct mst_buf out, err;
    int status; /* as a shell shows it */
};

/* `arguments` end with NULL; "muster" comes in front. MUSTER_HOST is the engine, unless it is NULL. */
void program_start(struct program *program, const struct fake_engine *fake, const char *const *arguments);
/* What `fd` has now goes onto `text`; false at its end. */
bool program_take(int fd, struct mst_buf *text);
/* Until it ends: its status, its output, all descriptors closed. */
void program_finish(struct program *program);
void program_release(struct program *program);
/* All of it, with `input` on stdin (NULL: nothing). */
void program_run(struct program *program, const struct fake_engine *fake, const char *const *arguments,
                 const char *input);

#endif
