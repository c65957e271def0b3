/* SPDX-License-Identifier: Apache-2.0 */
/* What the verbs of `muster` share: common options, stack files with their variables, and how a verb ends. */
#ifndef SWARM_CLI_H
#define SWARM_CLI_H

#include "image.h"
#include "muster/compose.h"
#include "muster/log.h"
#include "muster/opts.h"
#include "output.h"
#include "session.h"
#include "ship.h"
#include "stack.h"
#include "variables.h"

#define CLI_FILES_MAX     32
#define CLI_VARIABLES_MAX 256

/* The first member of every verb's settings. */
struct cli_common {
    const char *host, *context;
    bool is_verbose;
    enum mst_log_format log_format;
    enum output_format format;
    /* of verbs that read stack files */
    const char *files[CLI_FILES_MAX];
    size_t file_count;
    const char *env_files[CLI_FILES_MAX];
    size_t env_file_count;
    const char *given[CLI_VARIABLES_MAX + 1]; /* ended by NULL */
    size_t given_count;
    bool is_strict, prune, dry_run, ship, with_auth;
    const char *nodes_file;
    enum image_resolve resolve;
    uint64_t timeout_ns;
};

/* A setter that stores true or false into `member` of a verb's settings. */
#define CLI_SET_FLAG(name, settings_type, member)                                                            \
    static int name(void *settings, const char *text, struct mst_error *err)                                 \
    {                                                                                                        \
        return mst_parse_bool(text, &((settings_type *)settings)->member, err);                              \
    }

#define CLI_COMMON_OPTIONS                                                                                   \
    {.name = "host",                                                                                         \
     .letter = 'H',                                                                                          \
     .argument = "HOST",                                                                                     \
     .env = "MUSTER_HOST",                                                                                   \
     .set = cli_set_host,                                                                                    \
     .help = "engine to talk to: unix:///path, tcp://host:port or ssh://user@host\n(default: DOCKER_HOST, "  \
             "else docker's current context, else its own socket)"},                                         \
        {.name = "context",                                                                                  \
         .argument = "NAME",                                                                                 \
         .env = "MUSTER_CONTEXT",                                                                            \
         .set = cli_set_context,                                                                             \
         .help = "one of docker's contexts in place of --host"},                                             \
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

#define CLI_FORMAT_OPTION CLI_FORMAT_OPTION_OF("form of the list")
#define CLI_FORMAT_OPTION_OF(help_text)                                                                      \
    {                                                                                                        \
        .name = "format", .argument = "table|json", .fallback = "table", .set = cli_set_format,              \
        .help = help_text                                                                                    \
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
        {.name = "env-file",                                                                                 \
         .kind = MST_OPT_REPEAT,                                                                             \
         .argument = "FILE",                                                                                 \
         .set = cli_set_env_file,                                                                            \
         .help = "variables behind the environment's (default: .env beside the first stack file)"},          \
    {                                                                                                        \
        .name = "strict", .kind = MST_OPT_FLAG, .env = "MUSTER_STRICT", .set = cli_set_strict,               \
        .help = "what a stack ignores in the file is an error"                                               \
    }

#define CLI_TIMEOUT_OPTION(default_text, help_text)                                                          \
    {                                                                                                        \
        .name = "timeout", .argument = "DURATION", .env = "MUSTER_TIMEOUT", .fallback = default_text,        \
        .set = cli_set_timeout, .help = help_text                                                            \
    }

#define CLI_PRUNE_OPTION(help_text)                                                                          \
    {                                                                                                        \
        .name = "prune", .kind = MST_OPT_FLAG, .env = "MUSTER_PRUNE", .set = cli_set_prune,                  \
        .help = help_text                                                                                    \
    }

#define CLI_NODES_FILE_OPTION                                                                                \
    {                                                                                                        \
        .name = "nodes-file", .argument = "FILE", .env = "MUSTER_NODES_FILE", .set = cli_set_nodes_file,     \
        .help = "how each node's engine is reached: lines 'HOSTNAME HOST'"                                   \
    }

#define CLI_SHIP_OPTIONS                                                                                     \
    {.name = "ship",                                                                                         \
     .kind = MST_OPT_FLAG,                                                                                   \
     .env = "MUSTER_SHIP",                                                                                   \
     .set = cli_set_ship,                                                                                    \
     .help = "put images that no registry has on the nodes that may run them"},                              \
        CLI_NODES_FILE_OPTION

#define CLI_AUTH_OPTION                                                                                      \
    {                                                                                                        \
        .name = "with-registry-auth", .kind = MST_OPT_FLAG, .env = "MUSTER_WITH_REGISTRY_AUTH",              \
        .set = cli_set_with_auth, .help = "let the nodes pull with what docker's configuration knows"        \
    }

#define CLI_DRY_RUN_OPTION(help_text)                                                                        \
    {                                                                                                        \
        .name = "dry-run", .kind = MST_OPT_FLAG, .set = cli_set_dry_run, .help = help_text                   \
    }

#define CLI_RESOLVE_OPTION                                                                                   \
    {                                                                                                        \
        .name = "resolve-image", .argument = "always|changed|never", .env = "MUSTER_RESOLVE_IMAGE",          \
        .fallback = "always", .set = cli_set_resolve, .help = "ask the registry for the images' digests"     \
    }

int cli_set_host(void *settings, const char *text, struct mst_error *err);
int cli_set_context(void *settings, const char *text, struct mst_error *err);
int cli_set_verbose(void *settings, const char *text, struct mst_error *err);
int cli_set_log_format(void *settings, const char *text, struct mst_error *err);
int cli_set_format(void *settings, const char *text, struct mst_error *err);
int cli_set_file(void *settings, const char *text, struct mst_error *err);
int cli_set_env_file(void *settings, const char *text, struct mst_error *err);
int cli_set_variable(void *settings, const char *text, struct mst_error *err);
int cli_set_strict(void *settings, const char *text, struct mst_error *err);
int cli_set_timeout(void *settings, const char *text, struct mst_error *err);
int cli_set_prune(void *settings, const char *text, struct mst_error *err);
int cli_set_nodes_file(void *settings, const char *text, struct mst_error *err);
int cli_set_ship(void *settings, const char *text, struct mst_error *err);
int cli_set_with_auth(void *settings, const char *text, struct mst_error *err);
int cli_set_dry_run(void *settings, const char *text, struct mst_error *err);
int cli_set_resolve(void *settings, const char *text, struct mst_error *err);

/* How many arguments an option of every verb (CLI_COMMON_OPTIONS) takes up: 0 when it is none. */
int cli_common_words(const char *argument);

/* Options, number of operands, log. Returns the index of the first operand, or -1 when the verb is to end
 * with *ret_status (after --help or a usage error, which was printed). max_operands -1: any number. */
int cli_begin(const struct mst_options *options, int argc, char **argv, struct cli_common *common,
              int min_operands, int max_operands, int *ret_status);

/* The session, and signals as its ends. 0, or the exit status with the reason printed. */
int cli_open(const struct cli_common *common, struct session *session);
/* For a verb's end: prints `err` when code is negative, closes, returns the exit status. */
int cli_end(struct session *session, int code, const struct mst_error *err);
/* A fault of the input: printed, exit status 2. */
int cli_usage(const struct mst_error *err);

uint64_t cli_deadline_ns(const struct cli_common *common);

/* What a verb works with that has stack files: cli_project.c. */
struct cli_project {
    struct session session;
    struct compose_project *project;
    struct variables variables; /* filled in where nobody set them; a verb may put some in beforehand */
};

/* The session, the files with their variables, then signals. 0, or the exit status: then the reason was
 * printed and nothing is open. Warnings are printed. */
int cli_project_open(const struct cli_common *common, const char *stack, struct cli_project *work);
int cli_project_end(struct cli_project *work, int code, const struct mst_error *err); /* as cli_end() */

/* The files alone: no engine is asked, and only the stack's name (NULL: none) is filled in. */
int cli_project_read(const struct cli_common *common, const char *stack, struct cli_project *work,
                     struct mst_error *err);
void cli_project_release(struct cli_project *work);

/* --ship: read the nodes file and ship. Nothing to do without the option. Release it in any case. */
int cli_project_ship(const struct cli_common *common, struct cli_project *work, struct ship *ret_ship,
                     struct mst_error *err);

/* The verbs: arguments from the verb on, exit status back. */
int verb_autoscale(int argc, char **argv);
int verb_compare(int argc, char **argv);
int verb_compare_host(int argc, char **argv);
int verb_config(int argc, char **argv);
int verb_deploy(int argc, char **argv);
int verb_inspect(int argc, char **argv);
int verb_logs(int argc, char **argv);
int verb_ls(int argc, char **argv);
int verb_node(int argc, char **argv);
int verb_plan(int argc, char **argv);
int verb_ps(int argc, char **argv);
int verb_report(int argc, char **argv);
int verb_rm(int argc, char **argv);
int verb_run(int argc, char **argv);
int verb_scale(int argc, char **argv);
int verb_services(int argc, char **argv);
int verb_wait(int argc, char **argv);

#endif
