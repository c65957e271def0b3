/* SPDX-License-Identifier: Apache-2.0 */
/* What the verbs of `muster` share: common options, stack files with their variables, and how a verb ends. */
#ifndef SWARM_CLI_H
#define SWARM_CLI_H

#include "muster/compose.h"
#include "muster/log.h"
#include "muster/opts.h"
#include "output.h"
#include "session.h"
#include "stack.h"
#include "variables.h"

#define CLI_FILES_MAX     32
#define CLI_VARIABLES_MAX 256

/* The first member of every verb's settings. */
struct cli_common {
    const char *host;
    bool is_verbose;
    enum mst_log_format log_format;
    enum output_format format;
    /* of verbs that read stack files */
    const char *files[CLI_FILES_MAX];
    size_t file_count;
    const char *given[CLI_VARIABLES_MAX + 1]; /* ended by NULL */
    size_t given_count;
    bool is_strict;
    uint64_t timeout_ns;
};

#define CLI_COMMON_OPTIONS                                                                                   \
    {.name = "host",                                                                                         \
     .letter = 'H',                                                                                          \
     .argument = "HOST",                                                                                     \
     .env = "MUSTER_HOST",                                                                                   \
     .set = cli_set_host,                                                                                    \
     .help = "engine to talk to: unix:///path or tcp://host:port\n(default: DOCKER_HOST, else Docker's own " \
             "socket)"},                                                                                     \
        {.name = "verbose",                                                                                  \
         .letter = 'v',                                                                                      \
         .kind = MST_OPT_FLAG,                                                                               \
         .env = "MUSTER_VERBOSE",                                                                            \
         .set = cli_set_verbose,                                                                             \
         .help = "say more on stderr"},                                                                      \
    {                                                                                                        \
        .name = "log-format", .argument = "text|json", .env = "MUSTER_LOG_FORMAT", .fallback = "text",       \
        .set = cli_set_log_format, .help = "form of messages on stderr"                                      \
    }

#define CLI_FORMAT_OPTION                                                                                    \
    {                                                                                                        \
        .name = "format", .argument = "table|json", .fallback = "table", .set = cli_set_format,              \
        .help = "form of the list"                                                                           \
    }

#define CLI_FILE_OPTIONS                                                                                     \
    {.name = "compose-file",                                                                                 \
     .letter = 'c',                                                                                          \
     .kind = MST_OPT_REPEAT,                                                                                 \
     .argument = "FILE",                                                                                     \
     .required = true,                                                                                       \
     .set = cli_set_file,                                                                                    \
     .help = "stack file, '-' for stdin; more than once: the later onto the earlier"},                       \
        {.name = "set",                                                                                      \
         .letter = 'e',                                                                                      \
         .kind = MST_OPT_REPEAT,                                                                             \
         .argument = "NAME=VALUE",                                                                           \
         .set = cli_set_variable,                                                                            \
         .help = "a variable for the stack file, over the environment's"},                                   \
    {                                                                                                        \
        .name = "strict", .kind = MST_OPT_FLAG, .env = "MUSTER_STRICT", .set = cli_set_strict,               \
        .help = "what a stack ignores in the file is an error"                                               \
    }

#define CLI_TIMEOUT_OPTION(default_text, help_text)                                                          \
    {                                                                                                        \
        .name = "timeout", .argument = "DURATION", .env = "MUSTER_TIMEOUT", .fallback = default_text,        \
        .set = cli_set_timeout, .help = help_text                                                            \
    }

int cli_set_host(void *settings, const char *text, struct mst_error *err);
int cli_set_verbose(void *settings, const char *text, struct mst_error *err);
int cli_set_log_format(void *settings, const char *text, struct mst_error *err);
int cli_set_format(void *settings, const char *text, struct mst_error *err);
int cli_set_file(void *settings, const char *text, struct mst_error *err);
int cli_set_variable(void *settings, const char *text, struct mst_error *err);
int cli_set_strict(void *settings, const char *text, struct mst_error *err);
int cli_set_timeout(void *settings, const char *text, struct mst_error *err);

/* Options, number of operands, log. Returns the index of the first operand, or -1 when the verb is to end
 * with *ret_status (after --help or a usage error, which was printed). max_operands -1: any number. */
int cli_begin(const struct mst_options *options, int argc, char **argv, struct cli_common *common,
              int min_operands, int max_operands, int *ret_status);

/* Signals and the session. 0, or the exit status with the reason printed. */
int cli_open(const struct cli_common *common, struct session *session);
/* For a verb's end: prints `err` when code is negative, closes, returns the exit status. */
int cli_end(struct session *session, int code, const struct mst_error *err);
/* A fault of the input: printed, exit status 2. */
int cli_usage(const struct mst_error *err);

uint64_t cli_deadline_ns(const struct cli_common *common);

/* Read the stack's files; variables that nobody set come from the Swarm (`session` NULL: only the stack's
 * name). Warnings are printed. `ret_variables` holds what was filled in, for the caller to release.
 * *ret_is_input: the error is one of the input. */
int cli_load_project(const struct cli_common *common, struct session *session, const char *stack,
                     struct variables *ret_variables, struct compose_project **ret_project,
                     bool *ret_is_input, struct mst_error *err);

/* The verbs: arguments from the verb on, exit status back. */
int verb_config(int argc, char **argv);
int verb_deploy(int argc, char **argv);
int verb_logs(int argc, char **argv);
int verb_ls(int argc, char **argv);
int verb_plan(int argc, char **argv);
int verb_ps(int argc, char **argv);
int verb_rm(int argc, char **argv);
int verb_run(int argc, char **argv);
int verb_services(int argc, char **argv);
int verb_wait(int argc, char **argv);

#endif
