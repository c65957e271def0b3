/* SPDX-License-Identifier: Apache-2.0 */
/* muster: stacks on a Docker Swarm. Each verb has a file of its own. */
#include "cli.h"
#include "muster/cleanup.h"
#include "muster/file.h"
#include "muster/parse.h"

#include <stdio.h>
#include <stdlib.h>
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
    {"inspect", verb_inspect, "show all that a stack consists of"},
    {"scale", verb_scale, "change the replicas of services and wait until it is so"},
    {"autoscale", verb_autoscale, "scale services by their labels and what the monitors say"},
    {"node", verb_node, "check whether the nodes are fit for a stack"},
    {"rm", verb_rm, "remove stacks"},
    {"compare", verb_compare, "containers and bare metal: the same training by turns, and what differs"},
    {"compare-host", verb_compare_host, NULL}, /* which compare starts on its hosts */
    {"report", verb_report, "make a page of experiments, or of run folders side by side"},
};

static int help(FILE *stream, int status)
{
    (void)fputs("Usage: muster [options] VERB [options] ...\n\n"
                "Stacks on a Docker Swarm, and the training that runs in them.\n\nVerbs:\n",
                stream);
    for (size_t i = 0; i < MST_ARRAY_COUNT(verbs); i++)
        if (verbs[i].help)
            (void)fprintf(stream, "  %-10s%s\n", verbs[i].name, verbs[i].help);
    (void)fputs(
        "\n'muster help VERB' says more. Exit status: 0 done, 1 failed, 2 bad usage or input, 3 refused\n"
        "by the engine, 4 timed out, 5 rolled back, 6 will not converge, 7 the training failed,\n"
        "10 plan found changes, 130 or 143 interrupted.\n",
        stream);
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

static int (*find_verb(const char *name))(int argc, char **argv)
{
    for (size_t i = 0; i < MST_ARRAY_COUNT(verbs); i++) {
        if (strcmp(name, verbs[i].name) == 0)
            return verbs[i].run;
    }
    return NULL;
}

/* "muster -H host ps demo": options of every verb may also stand in front of it. *ret_verb is its index in
 * argv, argc when there is none. */
static int skip_options(int argc, char **argv, int *ret_verb)
{
    int i = 1;

    while (i < argc && argv[i][0] == '-') {
        const int words = cli_common_words(argv[i]);
        struct mst_error err = MST_ERROR_INIT;
        if (words == 0) {
            (void)mst_error_set(&err, -EINVAL, "option '%.64s' stands in front of the verb (try --help)",
                                argv[i]);
            return cli_usage(&err);
        }
        i += words;
    }
    *ret_verb = i < argc ? i : argc;
    return 0;
}

/* "help VERB" is "VERB --help". */
static int help_of(const char *name)
{
    char *arguments[] = {strdup(name), strdup("--help"), NULL};
    int (*run)(int argc, char **argv) = find_verb(name);
    const int status = !arguments[0] || !arguments[1] ? MST_EXIT_FAILED
                       : run                          ? run(2, arguments)
                                                      : unknown_verb(name);

    free(arguments[0]);
    free(arguments[1]);
    return status;
}

int main(int argc, char **argv)
{
    int (*run)(int count, char **arguments);
    int verb, status;

    if (mst_open_standard_descriptors() < 0)
        return MST_EXIT_FAILED; /* nowhere to say it */
    mst_log_init("muster", MST_LOG_INFO, MST_LOG_TEXT);
    if (argc < 2)
        return help(stderr, MST_EXIT_USAGE);
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)
        return help(stdout, MST_EXIT_DONE);
    if (strcmp(argv[1], "help") == 0)
        return argc > 2 ? help_of(argv[2]) : help(stdout, MST_EXIT_DONE);
    if (strcmp(argv[1], "--version") == 0)
        return printf("muster %s\n", MUSTER_VERSION) < 0 ? MST_EXIT_FAILED : MST_EXIT_DONE;
    status = skip_options(argc, argv, &verb);
    if (status != 0)
        return status;
    if (verb == argc)
        return help(stderr, MST_EXIT_USAGE);
    run = find_verb(argv[verb]);
    if (!run)
        return unknown_verb(argv[verb]);
    /* The verb goes in front: what stands before it is its options as well. */
    char *const name = argv[verb];
    memmove(&argv[2], &argv[1], (size_t)(verb - 1) * sizeof *argv);
    argv[1] = name;
    return run(argc - 1, argv + 1);
}
