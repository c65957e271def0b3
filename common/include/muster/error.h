/* SPDX-License-Identifier: Apache-2.0 */
/* The one error convention: a function that can fail returns 0 or a negative errno and takes a
 * `struct mst_error *err` last (NULL: the caller is not interested in the text). The function that meets the
 * fault sets the text; callers put what they know in front of it and pass the code on:
 *
 *     r = engine_service_create(engine, spec, &id, err);
 *     if (r < 0)
 *         return mst_error_wrap(err, r, "deploy stack '%s', service '%s'", stack, spec->name);
 *
 * Codes with a meaning for the exit status of a program, see mst_exit_status():
 *     -EINVAL, -EBADMSG   what the user gave (an option, a file) is wrong
 *     -EREMOTEIO          the engine answered, and refused
 *     -ETIMEDOUT          a deadline passed */
#ifndef MUSTER_ERROR_H
#define MUSTER_ERROR_H

#include <errno.h>

#define MST_ERROR_TEXT_BYTES 1024

struct mst_error {
    int code; /* the negative errno that was returned, 0 when nothing failed */
    char text[MST_ERROR_TEXT_BYTES];
};

#define MST_ERROR_INIT                                                                                       \
    {                                                                                                        \
        0                                                                                                    \
    }

/* Exit codes shared by all programs (docs/architecture.md). */
enum mst_exit {
    MST_EXIT_DONE = 0,
    MST_EXIT_FAILED = 1,
    MST_EXIT_USAGE = 2,
    MST_EXIT_REFUSED = 3,
    MST_EXIT_TIMEOUT = 4,
    MST_EXIT_ROLLED_BACK = 5,
    MST_EXIT_NO_CONVERGENCE = 6,
    MST_EXIT_WORKER_FAILED = 7,
    MST_EXIT_CHANGES = 10,
    MST_EXIT_INTERRUPTED = 130,
    MST_EXIT_TERMINATED = 143,
};

/* Set code and text (one line, no newline); returns `code`, so that it can stand in a return statement.
 * Texts that do not fit are cut. */
int mst_error_set(struct mst_error *err, int code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* As mst_error_set(), with ": " and strerror(-code) at the end. */
int mst_error_errno(struct mst_error *err, int code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Put "<format>: " in front of the text that is there; returns `code`. */
int mst_error_wrap(struct mst_error *err, int code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* The exit status for a run-time error: 2, 3, 4 by the codes above, else 1. Errors met while options and
 * input files are read are 2 whatever their code: programs return MST_EXIT_USAGE for those themselves. */
int mst_exit_status(int code);

#endif
