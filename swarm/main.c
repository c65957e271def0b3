/* SPDX-License-Identifier: Apache-2.0 */
/* muster: stacks on a Docker Swarm. Each verb has a file of its own. */
#include "cli.h"
#include "muster/cleanup.h"
#include "muster/parse.h"

#include <stdio.h>
#include <string.h>

static const struct {
    const char *name;
    int (*run)(int argc, char **argv);
    const char *help;
} verbs[] = {
    {"config", verb_config, "print what stack files say"},
    {"plan", verb_plan, "show what deploy would change"},
    {"deploy", verb_deploy, "create or update a stack and wait until it runs"},
    {"run", verb_run, "deploy a training stack, follow it, collect its results, remove it"},
    {"wait", verb_wait, "wait until a stack runs, or until its workers are done"},
    {"ls", verb_ls, "list stacks"},
    {"services", verb_services, "list a stack's services"},
    {"ps", verb_ps, "list a stack's tasks"},
    {"logs", verb_logs, "print or follow a stack's logs"},
    {"rm", verb_rm, "remove stacks"},
};

static int help(FILE *stream, int status)
{
    (void)fprintf(
        stream, "Usage: muster VERB [options] ...\n\nStacks on a Docker Swarm, and the training that runs in "
                "them.\n\nVerbs:\n");
    for (size_t i = 0; i < MST_ARRAY_COUNT(verbs); i++)
        (void)fprintf(stream, "  %-10s%s\n", verbs[i].name, verbs[i].help);
    (void)fprintf(stream,
                  "\n'muster VERB --help' says more. Exit status: 0 done, 1 failed, 2 bad usage or input, "
                  "3 refused\nby the engine, 4 timed out, 5 rolled back, 6 will not converge, 7 a worker "
                  "failed,\n10 plan found changes, 130 or 143 interrupted.\n");
    return status;
}

static int unknown_verb(const char *name)
{
    const char *names[MST_ARRAY_COUNT(verbs)];
    struct mst_error err = MST_ERROR_INIT;
    const char *nearest;

    for (size_t i = 0; i < MST_ARRAY_COUNT(verbs); i++)
        names[i] = verbs[i].name;
    nearest = mst_nearest(name, names, MST_ARRAY_COUNT(names));
    (void)mst_error_set(&err, -EINVAL, "unknown verb '%.64s'%s%s%s (try --help)", name,
                        nearest ? "; did you mean '" : "", nearest ? nearest : "", nearest ? "'?" : "");
    return cli_usage(&err);
}

int main(int argc, char **argv)
{
    mst_log_init("muster", MST_LOG_INFO, MST_LOG_TEXT);
    if (argc < 2)
        return help(stderr, MST_EXIT_USAGE);
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "help") == 0)
        return help(stdout, MST_EXIT_DONE);
    if (strcmp(argv[1], "--version") == 0)
        return printf("muster %s\n", MUSTER_VERSION) < 0 ? MST_EXIT_FAILED : MST_EXIT_DONE;
    for (size_t i = 0; i < MST_ARRAY_COUNT(verbs); i++) {
        if (strcmp(argv[1], verbs[i].name) == 0)
            return verbs[i].run(argc - 1, argv + 1);
    }
    return unknown_verb(argv[1]);
}
