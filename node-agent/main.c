/* SPDX-License-Identifier: Apache-2.0 */
/* muster-agent: the program in each container, and on each machine without containers. */
#include "agent.h"
#include "collect.h"
#include "config.h"
#include "health.h"
#include "muster/cleanup.h"
#include "muster/log.h"
#include "muster/parse.h"
#include "scan.h"

#include <stdio.h>
#include <string.h>

static int agent_health(const struct agent_config *config)
{
    struct mst_error err = MST_ERROR_INIT;
    char text[HEALTH_TEXT_BYTES];
    if (health_ask(config->port, text, &err) < 0)
        return mst_fail(MST_EXIT_FAILED, &err); /* HEALTHCHECK knows 0 and 1 only */
    return fputs(text, stdout) < 0 || fflush(stdout) != 0 ? MST_EXIT_FAILED : MST_EXIT_DONE;
}

static const struct {
    const char *name;
    enum config_verb verb;
    int (*run)(const struct agent_config *config);
    const char *about;
} verbs[] = {
    {"train", CONFIG_TRAIN, agent_train, "find the other workers, agree, and train with them"},
    {"collect", CONFIG_COLLECT, agent_collect, "receive the workers' result files and keep them"},
    {"scan", CONFIG_SCAN, agent_scan, "one discovery round: who is on the subnet"},
    {"health", CONFIG_HEALTH, agent_health, "ask the agent on this machine for its state"},
};

static int print_help(void)
{
    (void)printf("Usage: muster-agent VERB [options]\n\nVerbs:\n");
    for (size_t v = 0; v < MST_ARRAY_COUNT(verbs); v++)
        (void)printf("  %-8s  %s\n", verbs[v].name, verbs[v].about);
    (void)printf("\n'muster-agent VERB --help' lists a verb's options; 'muster-agent --version' prints the "
                 "version.\n");
    return fflush(stdout) != 0 ? MST_EXIT_FAILED : MST_EXIT_DONE;
}

int main(int argc, char **argv)
{
    struct mst_error err = MST_ERROR_INIT;
    const char *names[MST_ARRAY_COUNT(verbs)];
    mst_log_init("muster-agent", MST_LOG_INFO, MST_LOG_TEXT);
    if (argc < 2) {
        (void)mst_error_set(&err, -EINVAL, "expected a verb; 'muster-agent --help' lists them");
        return mst_fail(MST_EXIT_USAGE, &err);
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "help") == 0)
        return print_help();
    if (strcmp(argv[1], "--version") == 0)
        return printf("muster-agent %s\n", MUSTER_VERSION) < 0 || fflush(stdout) != 0 ? MST_EXIT_FAILED
                                                                                      : MST_EXIT_DONE;
    for (size_t v = 0; v < MST_ARRAY_COUNT(verbs); v++) {
        names[v] = verbs[v].name;
        if (strcmp(argv[1], verbs[v].name) != 0)
            continue;
        mst_cleanup(config_release) struct agent_config config = {0};
        const int r = config_read(verbs[v].verb, argc - 1, argv + 1, &config, &err);
        if (r < 0)
            return mst_fail(MST_EXIT_USAGE, &err);
        return r == 1 ? MST_EXIT_DONE : verbs[v].run(&config);
    }
    const char *near = mst_nearest(argv[1], names, MST_ARRAY_COUNT(names));
    (void)mst_error_set(&err, -EINVAL, "unknown verb '%.64s'%s%s%s; 'muster-agent --help' lists them",
                        argv[1], near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
    return mst_fail(MST_EXIT_USAGE, &err);
}
