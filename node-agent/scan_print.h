/* SPDX-License-Identifier: Apache-2.0 */
/* What a scan found, and its forms for people and programs. */
#ifndef AGENT_SCAN_PRINT_H
#define AGENT_SCAN_PRINT_H

#include "muster/discovery.h"
#include "muster/error.h"

#include <stdbool.h>
#include <stddef.h>

/* What a hello brought out about a host of the result, by the same index. */
struct scan_finding {
    bool agent;
    struct discovery_identity identity;
    char note[96]; /* why it is no agent; empty: nothing is to be said */
};

struct scan_result {
    struct discovery_choice choice;
    struct discovery_sweep_result swept; /* `hosts` is owned */
    struct scan_finding *findings;       /* owned */
    size_t agents, unasked;
};

/* To stdout. */
int scan_print_table(const struct scan_result *result, struct mst_error *err);
int scan_print_json(const struct scan_result *result, struct mst_error *err);
/* A line to stderr: where was searched and how. */
void scan_print_summary(const struct scan_result *result);

#endif
