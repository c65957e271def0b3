/* SPDX-License-Identifier: Apache-2.0 */
#include "program.h"

#include "exec/rsh.h"
#include "health.h"
#include "muster/cleanup.h"
#include "muster/file.h"
#include "muster/log.h"
#include "muster/parse.h"
#include "station.h"

#include <stdio.h>
#include <string.h>

#ifndef MUSTER_VERSION
#define MUSTER_VERSION "unknown"
#endif

#define VERBS_MAX 16

int program_health(const struct agent_config *config)
{
    struct mst_error err = MST_ERROR_INIT;
    char text[HEALTH_TEXT_BYTES];
    if (health_ask(config->port, text, &err) < 0)
        return mst_fail(MST_EXIT_FAILED, &err); /* HEALTHCHECK knows 0 and 1 only */
    return fputs(text, stdout) < 0 || fflush(stdout) != 0 ? MST_EXIT_FAILED : MST_EXIT_DONE;
}

static int print_help(const char *program, const struct program_verb *verbs, size_t count)
{
    (void)printf("Usage: %s VERB [options]\n\nVerbs:\n", program);
    for (size_t v = 0; v < count; v++)
        (void)printf("  %-8s  %s\n", verbs[v].name, verbs[v].about);
    (void)printf("\n'%s VERB --help' lists a verb's options; '%s --version' prints the version.\n", program,
                 program);
    return fflush(stdout) != 0 ? MST_EXIT_FAILED : MST_EXIT_DONE;
}

static int print_version(const char *program)
{
    return printf("%s %s\n", program, MUSTER_VERSION) < 0 || fflush(stdout) != 0 ? MST_EXIT_FAILED
                                                                                 : MST_EXIT_DONE;
}

static int run_verb(const struct program_verb *verb, int argc, char **argv)
{
    struct mst_error err = MST_ERROR_INIT;
    mst_cleanup(config_release) struct agent_config config = {0};
    if (verb->run_words)
        return verb->run_words(argc, argv);
    const int r = config_read(verb->verb, argc, argv, &config, &err);
    if (r < 0)
        return mst_fail(verb->usage_status ? verb->usage_status : MST_EXIT_USAGE, &err);
    return r == 1 ? MST_EXIT_DONE : verb->run(&config);
}

int program_main(const char *program, const struct program_verb *verbs, size_t count, int argc, char **argv)
{
    struct mst_error err = MST_ERROR_INIT;
    const char *names[VERBS_MAX];
    const char *called = argc > 0 ? strrchr(argv[0], '/') : NULL;
    called = called ? called + 1 : argc > 0 ? argv[0] : "";
    if (mst_open_standard_descriptors() < 0)
        return MST_EXIT_FAILED; /* nowhere to say it */
    mst_log_init(program, MST_LOG_INFO, MST_LOG_TEXT);
    mst_log_set_patience(STATION_PATIENCE_MS);
    if (strcmp(called, "ssh") == 0 || strcmp(called, "rsh") == 0)
        return exec_rsh(argc, argv);
    if (argc < 2) {
        (void)mst_error_set(&err, -EINVAL, "expected a verb; '%s --help' lists them", program);
        return mst_fail(MST_EXIT_USAGE, &err);
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "help") == 0)
        return print_help(program, verbs, count);
    if (strcmp(argv[1], "--version") == 0)
        return print_version(program);
    for (size_t v = 0; v < count && v < VERBS_MAX; v++) {
        names[v] = verbs[v].name;
        if (strcmp(argv[1], verbs[v].name) == 0)
            return run_verb(&verbs[v], argc - 1, argv + 1);
    }
    const char *near = mst_nearest(argv[1], names, count < VERBS_MAX ? count : VERBS_MAX);
    (void)mst_error_set(&err, -EINVAL, "unknown verb '%.64s'%s%s%s; '%s --help' lists them", argv[1],
                        near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "", program);
    return mst_fail(MST_EXIT_USAGE, &err);
}
