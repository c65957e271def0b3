/* SPDX-License-Identifier: Apache-2.0 */
/* The options of `exec`, in muster-agent and muster-launch alike. */
#include "config_private.h"
#include "environment.h"
#include "muster/cleanup.h"
#include "muster/parse.h"

#include <string.h>

#ifndef MUSTER_PROGRAM
#define MUSTER_PROGRAM "muster-agent"
#endif

/* One of a few words. */
static int set_word(const char *text, const char *const *words, size_t count, unsigned *ret_index,
                    const char *expected, struct mst_error *err)
{
    for (size_t w = 0; w < count; w++) {
        if (strcmp(text, words[w]) == 0) {
            *ret_index = (unsigned)w;
            return 0;
        }
    }
    return mst_error_set(err, -EINVAL, "'%.64s' is not %s", text, expected);
}

static int set_framework(void *settings, const char *text, struct mst_error *err)
{
    return exec_frameworks_parse(text, &((struct agent_config *)settings)->exec.frameworks, err);
}

static int set_run_on(void *settings, const char *text, struct mst_error *err)
{
    static const char *const words[] = {"auto", "all", "chief"};
    struct exec_settings *exec = &((struct agent_config *)settings)->exec;
    unsigned index = 0;
    const int r = set_word(text, words, MST_ARRAY_COUNT(words), &index, "one of auto, all and chief", err);
    exec->run_on = (enum exec_run_on)index;
    return r;
}

static int set_on_change(void *settings, const char *text, struct mst_error *err)
{
    static const char *const words[] = {"restart", "ignore", "stop"};
    struct exec_settings *exec = &((struct agent_config *)settings)->exec;
    unsigned index = 0;
    const int r =
        set_word(text, words, MST_ARRAY_COUNT(words), &index, "one of restart, ignore and stop", err);
    exec->on_change = (enum exec_on_change)index;
    return r;
}

static int set_events(void *settings, const char *text, struct mst_error *err)
{
    static const char *const words[] = {"stdout", "stderr", "none"};
    struct exec_settings *exec = &((struct agent_config *)settings)->exec;
    unsigned index = 0;
    const int r =
        set_word(text, words, MST_ARRAY_COUNT(words), &index, "one of stdout, stderr and none", err);
    exec->events = (enum exec_events)index;
    return r;
}

static int set_grace(void *settings, const char *text, struct mst_error *err)
{
    return mst_parse_duration_ns(text, &((struct agent_config *)settings)->exec.grace_ns, err);
}

static int set_ports(void *settings, const char *text, struct mst_error *err)
{
    return exec_ports_parse(text, &((struct agent_config *)settings)->exec.ports, err);
}

static int set_any_command(void *settings, const char *text, struct mst_error *err)
{
    return mst_parse_bool(text, &((struct agent_config *)settings)->exec.any_command, err);
}

static const struct mst_option table[] = {
    {.name = "framework",
     .argument = "LIST",
     .env = "MUSTER_FRAMEWORK",
     .fallback = "tensorflow,torch",
     .help = "whose variables CMD gets: any of tensorflow, torch,\n"
             "horovod, mpi and env, with commas; MUSTER_... always",
     .set = set_framework},
    {.name = "run-on",
     .argument = "WHERE",
     .env = "MUSTER_RUN_ON",
     .fallback = "auto",
     .help = "all: CMD runs at every worker; chief: at rank 0, and the\n"
             "others serve what it launches; auto: chief for mpi and\n"
             "horovod, else all",
     .set = set_run_on},
    {.name = "on-change",
     .argument = "WHAT",
     .env = "MUSTER_ON_CHANGE",
     .fallback = "restart",
     .help = "when membership changes: restart CMD everywhere, ignore\n"
             "it, or stop everything",
     .set = set_on_change},
    {.name = "grace",
     .argument = "TIME",
     .env = "MUSTER_GRACE",
     .fallback = "5s",
     .help = "from SIGTERM to SIGKILL where CMD is to end",
     .set = set_grace},
    {.name = "ports",
     .argument = "RANGE",
     .env = "MUSTER_PORTS",
     .help = "where CMD's own free port is chosen, PORT or FIRST:LAST;\n"
             "by default from 20000 up to the kernel's own range",
     .set = set_ports},
    {.name = "any-command",
     .kind = MST_OPT_FLAG,
     .env = "MUSTER_ANY_COMMAND",
     .help = "let workers with another CMD join, too",
     .set = set_any_command},
    {.name = "events",
     .argument = "WHERE",
     .env = "MUSTER_EVENTS",
     .fallback = "stdout",
     .help = "events go to stdout, stderr or none; stdout is CMD's, too",
     .set = set_events},
    OPTION_WORKERS,
    OPTION_STANDALONE,
    OPTION_PEERS,
    OPTION_WAIT,
    OPTION_STATE,
    OPTION_RUN,
    OPTION_ALLOW_MINORITY,
    OPTION_CLUSTER,
    OPTION_SLOT,
    OPTION_SUBNET,
    OPTION_INTERFACE,
    OPTION_DNS,
    OPTION_PORT,
    OPTION_KEY_FILE,
    OPTION_OLD_KEY_FILE,
    OPTION_INSECURE,
    OPTION_USER,
    OPTIONS_LOG,
};

const struct mst_options config_exec_options = {
    .program = MUSTER_PROGRAM,
    .verb = "exec",
    .synopsis = "[options] -- CMD [ARGUMENT...]",
    .about = "Find the other workers on the subnet, agree on who they are, and start CMD with the\n"
             "variables by which its framework is told. CMD runs as the user that started this, and its\n"
             "exit status is returned; 125 stands for muster's own faults.",
    .table = table,
    .count = MST_ARRAY_COUNT(table),
};

int config_exec_complete(struct agent_config *config, int count, char *const *operands, struct mst_error *err)
{
    struct exec_settings *exec = &config->exec;
    if (count < 1 || *operands[0] == '\0')
        return mst_error_set(err, -EINVAL, "expected a command: exec [options] -- CMD [ARGUMENT...]");
    exec->command = operands;
    exec->chief_only = exec->run_on == EXEC_ON_CHIEF ||
                       (exec->run_on == EXEC_ON_AUTO && exec_frameworks_launch(exec->frameworks));
    if (exec->ports.first == 0)
        exec->ports = exec_ports_default();
    return 0;
}
