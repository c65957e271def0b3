/* SPDX-License-Identifier: Apache-2.0 */
/* What muster-agent and muster-launch have in common: a table of verbs, from which --help comes. */
#ifndef AGENT_PROGRAM_H
#define AGENT_PROGRAM_H

#include "config.h"

#include <stddef.h>

struct program_verb {
    const char *name, *about;
    enum config_verb verb;
    int (*run)(const struct agent_config *config);
    /* Not NULL: the verb reads its words itself, its own name first; `verb` and `run` do not count. */
    int (*run_words)(int argc, char **argv);
    int usage_status; /* for bad options; 0: MST_EXIT_USAGE */
};

/* Called by another name, ssh or rsh, it is what stands in for that (exec/rsh.h). */
int program_main(const char *program, const struct program_verb *verbs, size_t count, int argc, char **argv);

/* The verb `health`, the same in both. */
int program_health(const struct agent_config *config);

#endif
