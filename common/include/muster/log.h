/* SPDX-License-Identifier: Apache-2.0 */
/* The programs' log, on stderr: one line an event, key=value or JSON. Libraries return errors and do not log,
 * except at debug level. The level and format are the one state per process that muster has; a line is
 * written with one write(2), so that lines of several threads do not mix. */
#ifndef MUSTER_LOG_H
#define MUSTER_LOG_H

#include "muster/error.h"

enum mst_log_level { MST_LOG_ERROR, MST_LOG_WARN, MST_LOG_INFO, MST_LOG_DEBUG };
enum mst_log_format { MST_LOG_TEXT, MST_LOG_JSON };

/* Call once, before threads exist. `program` (borrowed for ever) goes into every line. */
void mst_log_init(const char *program, enum mst_log_level level, enum mst_log_format format);

/* Lines that stderr's reader makes no room for in this time are lost; 0 (at first): the program waits for it.
 * Call as above. */
void mst_log_set_patience(unsigned patience_ms);

void mst_log(enum mst_log_level level, const char *module, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#define mst_log_error(module, ...) mst_log(MST_LOG_ERROR, module, __VA_ARGS__)
#define mst_log_warn(module, ...)  mst_log(MST_LOG_WARN, module, __VA_ARGS__)
#define mst_log_info(module, ...)  mst_log(MST_LOG_INFO, module, __VA_ARGS__)
#define mst_log_debug(module, ...) mst_log(MST_LOG_DEBUG, module, __VA_ARGS__)

/* Log at error level and return `code`. */
int mst_log_failure(const char *module, int code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* What a command-line program says last when it fails: "PROGRAM: TEXT" on stderr, whatever the level (as a
 * JSON line in JSON format). Returns `exit_status`. */
int mst_fail(int exit_status, const struct mst_error *err);

#endif
