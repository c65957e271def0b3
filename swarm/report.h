/* SPDX-License-Identifier: Apache-2.0 */
/* What the operator sees on stderr while something takes time: on a terminal a block of lines that is redrawn
 * in place, with finished lines above it; plain lines elsewhere. */
#ifndef SWARM_REPORT_H
#define SWARM_REPORT_H

#include "muster/buf.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct report {
    FILE *stream; /* borrowed */
    bool is_terminal, has_colours;
    size_t drawn_lines;   /* of the block that stands at the bottom */
    uint64_t start_ns;    /* for "elapsed" */
    struct mst_buf drawn; /* that block's text: the same is not drawn again; owned */
    size_t columns;       /* lines are cut there on a terminal */
};

/* In front of a block's line: its colour, where colours are wanted (a terminal, and NO_COLOR is not set). */
#define REPORT_RED    "\001"
#define REPORT_GREEN  "\002"
#define REPORT_YELLOW "\003"

void report_init(struct report *report, FILE *stream);
void report_release(struct report *report);
/* A line that stays. */
void report_line(struct report *report, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Put `text` (lines that end with "\n") in place of the block; nothing when this is no terminal. */
void report_block(struct report *report, const char *text);
/* Leave the block where it is and begin a new one below. */
void report_keep_block(struct report *report);
double report_seconds(const struct report *report);

#endif
