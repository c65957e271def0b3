/* SPDX-License-Identifier: Apache-2.0 */
/* The verb `exec`: a supervisor, and as its network part an agent whose job is exec.h's. */
#include "exec_verb.h"

#include "agent.h"
#include "environment.h"
#include "exec.h"
#include "muster/cleanup.h"
#include "supervisor.h"

#include <fcntl.h>
#include <limits.h>
#include <unistd.h>

struct verb {
    const struct agent_config *config;
    struct exec_settings settings;
    uid_t uid; /* that CMD has */
    int wire_fd;
    struct exec *exec;
};

/* ---- the network part's work ---- */

static int open_work(void *context, const struct agent_site *site, struct job *ret_job,
                     uint8_t ret_key[static MST_SHA256_BYTES], struct mst_error *err)
{
    struct verb *verb = context;
    const struct exec_options options = {
        .settings = &verb->settings,
        .self = &site->station->self,
        .slot = site->station->slot,
        .choice = &site->station->choice,
        .events = &site->station->events,
        .wire_fd = verb->wire_fd,
        .uid = verb->uid,
    };
    int r = exec_key(&verb->settings, ret_key, err);
    if (r == 0)
        r = exec_new(&options, &verb->exec, err);
    if (r == 0)
        *ret_job = exec_job(verb->exec);
    return r;
}

static void close_work(void *context)
{
    struct verb *verb = context;
    exec_free(verb->exec);
    verb->exec = NULL;
}

static void launch(void *context, const struct discovery_session *session, int fd)
{
    struct verb *verb = context;
    exec_give_launch(verb->exec, session, fd);
}

/* Input and output are CMD's: this part reads nothing, and writes its events where they are wanted. */
static int set_up_streams(const struct exec_settings *settings)
{
    mst_cleanup(mst_closep) int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (null < 0 || dup2(null, STDIN_FILENO) < 0)
        return -errno;
    const int out = settings->events == EXEC_EVENTS_STDOUT   ? STDOUT_FILENO
                    : settings->events == EXEC_EVENTS_STDERR ? STDERR_FILENO
                                                             : null;
    return out == STDOUT_FILENO || dup2(out, STDOUT_FILENO) >= 0 ? 0 : -errno;
}

static int network_main(void *context, int wire_fd)
{
    struct verb *verb = context;
    struct mst_error err = MST_ERROR_INIT;
    const struct agent_work work = {
        .context = verb,
        .open = open_work,
        .close = close_work,
        .needs_all = verb->settings.on_change != EXEC_IGNORE, /* else the program looks after that itself */
        .launch = exec_frameworks_launch(verb->settings.frameworks) ? launch : NULL,
    };
    const int r = set_up_streams(&verb->settings);
    if (r < 0) {
        (void)mst_error_errno(&err, r, "set up input and output");
        return mst_fail(EXEC_STATUS_FAULT, &err);
    }
    verb->wire_fd = wire_fd;
    return agent_run(verb->config, &work);
}

/* ---- the verb ---- */

int agent_exec(const struct agent_config *config)
{
    char program[PATH_MAX];
    const ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
    struct verb verb = {.config = config, .settings = config->exec, .uid = getuid(), .wire_fd = -1};
    if (length > 0) {
        program[length] = '\0';
        verb.settings.program = program;
    }
    const struct exec_supervision supervision = {
        .settings = &verb.settings,
        .environment = environ,
        .network = network_main,
        .context = &verb,
    };
    return exec_supervise(&supervision);
}
