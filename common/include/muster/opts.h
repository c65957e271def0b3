/* SPDX-License-Identifier: Apache-2.0 */
/* Command-line options as a table, from which parsing, the environment, the defaults and --help all come.
 * Order: flag, then environment (MUSTER_<OPTION>), then default. "--name value" and "--name=value" are both
 * read; "--" ends the options; flags (MST_OPT_FLAG) take no value on the command line and true/false in the
 * environment. Each setter gets the text; it is called once an option, for the source that wins, and once per
 * use for MST_OPT_REPEAT.
 *
 *     static const struct mst_option options[] = {
 *         {.name = "workers", .argument = "N", .env = "MUSTER_WORKERS", .required = true,
 *          .help = "number of workers, 1 to 1024", .set = set_workers},
 *         {.name = "port", .argument = "PORT", .env = "MUSTER_PORT", .fallback = "7070",
 *          .help = "TCP port", .set = set_port},
 *     }; */
#ifndef MUSTER_OPTS_H
#define MUSTER_OPTS_H

#include "muster/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

enum mst_opt_kind { MST_OPT_VALUE, MST_OPT_FLAG, MST_OPT_REPEAT };

struct mst_option {
    const char *name; /* without the dashes */
    char letter;      /* short form, 0: none */
    enum mst_opt_kind kind;
    const char *argument; /* "N", "FILE", ... ; NULL for flags */
    const char *env;      /* NULL: not from the environment */
    const char *fallback; /* NULL: the setter is not called when nothing is given */
    const char *help;     /* one or more lines */
    bool required;
    /* Store `text` ("true"/"false" for flags) into the program's settings. Returns 0 or -EINVAL with a text
     * that says what was expected; the parser puts the option's name (or variable's) in front. */
    int (*set)(void *settings, const char *text, struct mst_error *err);
};

struct mst_options {
    const char *program;  /* "muster-agent" */
    const char *verb;     /* "train", NULL for a program without verbs */
    const char *synopsis; /* "[options] -c FILE... STACK" */
    const char *about;    /* a sentence or two */
    const struct mst_option *table;
    size_t count;
};

/* argv[0] is skipped. On success *ret_operands is the index in argv of the first operand (operands are moved
 * behind the options). Returns 0, 1 when --help was printed to stdout, or -EINVAL (an unknown option comes
 * with a hint). */
int mst_options_parse(const struct mst_options *options, int argc, char **argv, void *settings,
                      int *ret_operands, struct mst_error *err);
void mst_options_help(const struct mst_options *options, FILE *stream);

#endif
