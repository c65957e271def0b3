/* SPDX-License-Identifier: Apache-2.0 */
/* What the verb `exec` is told beside the network's options. */
#ifndef EXEC_SETTINGS_H
#define EXEC_SETTINGS_H

#include "ports.h"

#include <stdbool.h>
#include <stdint.h>

enum exec_on_change {
    EXEC_RESTART, /* membership changed: end CMD everywhere, start it with the new variables */
    EXEC_IGNORE,  /* leave it running: it looks after itself */
    EXEC_STOP,    /* end it everywhere, for good */
};

enum exec_run_on { EXEC_ON_AUTO, EXEC_ON_ALL, EXEC_ON_CHIEF };
enum exec_events { EXEC_EVENTS_STDOUT, EXEC_EVENTS_STDERR, EXEC_EVENTS_NONE };

struct exec_settings {
    enum exec_run_on run_on;
    unsigned frameworks; /* of enum exec_framework */
    bool chief_only;     /* CMD runs on rank 0; the others serve what it launches there */
    bool any_command;    /* workers with another CMD may join */
    enum exec_on_change on_change;
    enum exec_events events;
    uint64_t grace_ns; /* between SIGTERM and SIGKILL */
    struct exec_port_range ports;
    char *const *command; /* borrowed; ends with NULL */
    const char *program;  /* path of this program; NULL: unknown */
};

#endif
