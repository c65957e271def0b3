/* SPDX-License-Identifier: Apache-2.0 */
#include "environment.h"
#include "muster/cleanup.h"
#include "muster/clock.h"
#include "muster/log.h"
#include "supervisor_private.h"

#include <stdlib.h>
#include <string.h>

#define SPAWN_REFUSED 255 /* what ssh says of its own faults */

static int take_facts(struct supervisor *supervisor, const struct exec_wire_message *message,
                      struct mst_error *err)
{
    const struct exec_settings *settings = supervisor->options->settings;
    mst_cleanup(exec_facts_release) struct exec_facts facts = {0};
    mst_cleanup(mst_buf_release) struct mst_buf hosts = MST_BUF_INIT(EXEC_FACTS_MAX_BYTES);
    const struct exec_tools tools = {
        .program = settings->program,
        .folder = supervisor->workspace.folder,
        .host_file = supervisor->workspace.host_file,
    };
    int r = exec_facts_unpack(message->facts, message->facts_bytes, &facts, err);
    if (r == 0 && tools.folder)
        r = exec_host_file(&facts, &hosts, err);
    if (r == 0 && tools.folder)
        r = exec_workspace_write_hosts(&supervisor->workspace, &hosts, err);
    if (r < 0)
        return r;
    exec_strings_release(&supervisor->environment);
    supervisor->has_facts = false;
    r = exec_environment(settings->frameworks, &facts, &tools, supervisor->options->environment,
                         &supervisor->environment, err);
    supervisor->has_facts = r == 0;
    return r;
}

static void start_command(struct supervisor *supervisor)
{
    struct mst_error err = MST_ERROR_INIT;
    const struct exec_start start = {.argv = supervisor->options->settings->command,
                                     .environment = supervisor->environment.items,
                                     .foreground = true};
    supervisor->command_ended = false;
    const int r = exec_group_start(&supervisor->command, &start, &err);
    if (r < 0) {
        mst_log_error("exec", "%s", err.text);
        supervisor_command_gone(supervisor, exec_group_start_status(r), false);
        return;
    }
    const struct exec_wire_message started = {.type = EXEC_WIRE_STARTED,
                                              .number = (uint32_t)supervisor->command.pid};
    supervisor_tell(supervisor, &started);
}

static struct spawn *find_spawn(struct supervisor *supervisor, uint32_t id)
{
    for (size_t s = 0; s < SUPERVISOR_SPAWNS; s++)
        if (supervisor->spawns[s].group.state != EXEC_GROUP_NONE && supervisor->spawns[s].id == id)
            return &supervisor->spawns[s];
    return NULL;
}

static int start_spawn(struct supervisor *supervisor, const struct exec_wire_message *message,
                       struct mst_error *err)
{
    struct spawn *spawn = NULL;
    for (size_t s = 0; s < SUPERVISOR_SPAWNS && !spawn; s++)
        if (supervisor->spawns[s].group.state == EXEC_GROUP_NONE)
            spawn = &supervisor->spawns[s];
    if (!spawn)
        return mst_error_set(err, -EAGAIN, "%d programs of other workers run already", SUPERVISOR_SPAWNS);
    char shell[] = "/bin/sh", flag[] = "-c";
    mst_cleanup(mst_freep) char *command = strdup(message->text);
    if (!command)
        return mst_error_set(err, -ENOMEM, "no memory");
    char *const argv[] = {shell, flag, command, NULL};
    const struct exec_start start = {
        .argv = argv, .environment = supervisor->environment.items, .fds = message->fds};
    const int r = exec_group_start(&spawn->group, &start, err);
    if (r == 0)
        spawn->id = message->id;
    return r;
}

/* The first gate on what another worker may run here: only where the user chose a framework that launches. */
static void spawn(struct supervisor *supervisor, const struct exec_wire_message *message)
{
    struct mst_error err = MST_ERROR_INIT;
    int r = 0;
    if (!exec_frameworks_launch(supervisor->options->settings->frameworks))
        r = mst_error_set(&err, -EPERM, "option '--framework' names neither mpi nor horovod");
    else if (supervisor->stopping || !supervisor->has_facts)
        r = mst_error_set(&err, -EAGAIN, "membership is changing");
    else if (find_spawn(supervisor, message->id))
        r = mst_error_set(&err, -EEXIST, "number %u is in use", (unsigned)message->id);
    if (r == 0)
        r = start_spawn(supervisor, message, &err);
    if (r < 0) {
        mst_log_warn("exec", "a program of another worker was not started: %s", err.text);
        supervisor_spawn_gone(supervisor, message->id, SPAWN_REFUSED);
    }
}

static void asked_to(struct supervisor *supervisor, struct exec_wire_message *message)
{
    struct mst_error err = MST_ERROR_INIT;
    struct spawn *found;
    switch (message->type) {
    case EXEC_WIRE_FACTS:
        if (take_facts(supervisor, message, &err) < 0)
            supervisor_distrust(supervisor, err.text);
        return;
    case EXEC_WIRE_START:
        if (!supervisor->has_facts || supervisor->stopping || supervisor->command.state != EXEC_GROUP_NONE)
            supervisor_distrust(supervisor, "it would start the command at the wrong time");
        else if (supervisor->leaving == 0) /* else it is about to hear of that */
            start_command(supervisor);
        return;
    case EXEC_WIRE_STOP:
        supervisor->answer_stop = true;
        supervisor_stop_all(supervisor);
        return;
    case EXEC_WIRE_SPAWN:
        spawn(supervisor, message);
        for (size_t f = 0; f < EXEC_WIRE_FDS; f++)
            mst_closep(&message->fds[f]);
        return;
    case EXEC_WIRE_SIGNAL:
        found = find_spawn(supervisor, message->id);
        if (found)
            exec_group_signal(&found->group, (int)message->number);
        return;
    case EXEC_WIRE_END:
        supervisor->ended = true;
        supervisor->end_status = (int)message->status;
        supervisor->network_kill_ns = mst_now_ns() + SUPERVISOR_FAREWELL_NS;
        return;
    default:
        supervisor_distrust(supervisor, "a message that only this side sends");
    }
}

void supervisor_listen(struct supervisor *supervisor)
{
    while (supervisor->wire_fd >= 0) {
        struct mst_error err = MST_ERROR_INIT;
        struct exec_wire_message message;
        const int r = exec_wire_receive(supervisor->wire_fd, &supervisor->packet, &message, &err);
        if (r == 0)
            return;
        if (r == 1)
            asked_to(supervisor, &message);
        else if (r == -EPIPE || r == -ECONNRESET)
            supervisor_stop_listening(supervisor);
        else
            supervisor_distrust(supervisor, err.text);
    }
}
