/* SPDX-License-Identifier: Apache-2.0 */
/* A turn in containers: `muster run` itself, as a program of its own, with the stack and a second file that
 * makes the mode of it. Should this process die, it is told to stop, and removes its stack. */
#include "experiment/conduct.h"
#include "muster/cleanup.h"
#include "muster/clock.h"
#include "muster/file.h"

#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#define WORDS_MAX        (4 * CLI_VARIABLES_MAX)
#define FILE_MAX_BYTES   ((size_t)256 << 10)
#define REMOVE_GRACE_MS  150000 /* what `muster run` gives the removal of its stack, and some more */
#define FETCH_TIMEOUT_MS 120000

struct container {
    struct turn *turn;
    unsigned workload;
    struct launch *launch;
    char override_path[CONDUCT_PATH_BYTES];
    struct mst_buf log; /* all that it said, up to FILE_MAX_BYTES */
    bool is_cut;
};

static int take_complaint(void *context, struct launch *launch, const char *line, struct mst_error *err)
{
    struct container *container = context;

    (void)launch, (void)err;
    /* A log that grows without end is cut, which is told when it is kept; the run goes on. */
    container->is_cut = container->is_cut || mst_buf_append_text(&container->log, line) < 0 ||
                        mst_buf_append(&container->log, "\n", 1) < 0;
    return 0;
}

static int take_line(void *context, struct launch *launch, const char *line, size_t count,
                     struct mst_error *err)
{
    (void)count;
    return take_complaint(context, launch, line, err);
}

static int write_override(struct container *container, struct mst_error *err)
{
    mst_cleanup(mst_buf_release) struct mst_buf text = MST_BUF_INIT(FILE_MAX_BYTES);
    const int r = conduct_override(container->turn, container->workload, &text, err);

    if (r < 0)
        return r;
    (void)snprintf(container->override_path, sizeof container->override_path, "%s/mode-%u.yml",
                   container->turn->folder, container->workload + 1);
    return mst_file_write_atomic(container->override_path, mst_buf_text(&text), text.count, 0644, err);
}

static size_t add_options(const struct cli_common *common, const char **words, size_t count)
{
    static const char *const resolves[] = {
        [IMAGE_ALWAYS] = "always", [IMAGE_CHANGED] = "changed", [IMAGE_NEVER] = "never"};

    if (common->host) {
        words[count++] = "--host";
        words[count++] = common->host;
    } else if (common->context) {
        words[count++] = "--context";
        words[count++] = common->context;
    }
    for (size_t i = 0; i < common->given_count; i++) {
        words[count++] = "--set";
        words[count++] = common->given[i];
    }
    for (size_t i = 0; i < common->env_file_count; i++) {
        words[count++] = "--env-file";
        words[count++] = common->env_files[i];
    }
    if (common->is_strict)
        words[count++] = "--strict";
    if (common->with_auth)
        words[count++] = "--with-registry-auth";
    if (common->ship)
        words[count++] = "--ship";
    if (common->nodes_file) {
        words[count++] = "--nodes-file";
        words[count++] = common->nodes_file;
    }
    words[count++] = "--resolve-image";
    words[count++] = resolves[common->resolve];
    return count;
}

static int start(struct container *container, struct mst_error *err)
{
    static const struct launch_handler handler = {.on_line = take_line, .on_complaint = take_complaint};
    struct turn *turn = container->turn;
    const struct conduct *conduct = turn->conduct;
    const char *words[WORDS_MAX] = {conduct->self, "run"};
    char timeout[32];
    size_t count = 2;
    int r = write_override(container, err);

    if (r < 0)
        return r;
    (void)snprintf(timeout, sizeof timeout, "%llums",
                   (unsigned long long)(conduct->options->run_timeout_ns / MST_NS_PER_MS));
    words[count++] = "--compose-file";
    words[count++] = conduct->file_common[container->workload].files[0];
    words[count++] = "--compose-file";
    words[count++] = container->override_path;
    count = add_options(conduct->options->common, words, count);
    words[count++] = "--out";
    words[count++] = turn->folder;
    words[count++] = "--timeout";
    words[count++] = timeout;
    words[count++] = conduct->stacks[container->workload];
    words[count] = NULL;
    return launches_add(&turn->set, words, conduct->stacks[container->workload], NULL, &handler, container,
                        &container->launch, err);
}

/* `muster run` names its folder by the time, so it is the one that is there. */
static void find_run_folder(struct container *container)
{
    struct turn *turn = container->turn;
    const char *stack = turn->conduct->stacks[container->workload];
    DIR *list = opendir(turn->folder);
    const struct dirent *entry;

    while (list && (entry = readdir(list))) {
        const char *dash = strchr(entry->d_name, '-');
        if (dash && strcmp(dash + 1, stack) == 0)
            (void)snprintf(turn->run_folders[container->workload], CONDUCT_PATH_BYTES, "%s/%s", turn->folder,
                           entry->d_name);
    }
    if (list)
        (void)closedir(list);
}

static void keep_log(const struct container *container)
{
    char path[CONDUCT_PATH_BYTES];
    struct mst_error ignored = MST_ERROR_INIT;

    (void)snprintf(path, sizeof path, "%s/muster-run-%u.log", container->turn->folder,
                   container->workload + 1);
    if (mst_file_write_atomic(path, mst_buf_text(&container->log), container->log.count, 0644, &ignored) < 0)
        report_line(&container->turn->conduct->report, "warning: %s", ignored.text);
    else if (container->is_cut)
        report_line(&container->turn->conduct->report,
                    "warning: '%s' has only the beginning: 'muster run' said more than %zu kB", path,
                    FILE_MAX_BYTES >> 10);
}

/* 1: ended well. */
static int judge(const struct container *container, struct mst_error *err)
{
    static const char prefix[] = "muster: ";
    const char *tail;

    if (!launch_has_ended(container->launch))
        return 0;
    if (launch_status(container->launch) == 0)
        return 1;
    tail = launch_tail(container->launch);
    if (strncmp(tail, prefix, sizeof prefix - 1) == 0)
        tail += sizeof prefix - 1;
    return mst_error_set(
        err, launch_status(container->launch) == MST_EXIT_TIMEOUT ? -ETIMEDOUT : SWARM_WORKER_FAILED,
        "'muster run' ended with status %d: %s", launch_status(container->launch), tail);
}

/* ---- with the host's network: folders on the hosts ---- */

static int take_file(struct conduct_call *call, const char *name, const void *bytes, size_t count,
                     struct mst_error *err)
{
    const struct container *container = call->context;
    mst_cleanup(mst_freep) char *path =
        mst_path_join(container->turn->run_folders[container->workload], name);

    return path ? mst_file_write_atomic(path, bytes, count, 0644, err)
                : mst_error_set(err, -ENOMEM, "take '%s': no memory", name);
}

/* "make" a folder on each host, or "fetch" what is in it. */
static int for_hosts(struct container *container, const char *verb, struct mst_error *err)
{
    struct turn *turn = container->turn;
    struct conduct *conduct = turn->conduct;
    mst_cleanup(mst_freep) struct conduct_call *calls = calloc(conduct->host_count, sizeof *calls);
    struct launches set = LAUNCHES_INIT(conduct->signal_fd);
    int r = calls ? 0 : mst_error_set(err, -ENOMEM, "%s: no memory", verb);

    for (size_t i = 0; i < conduct->host_count && r >= 0; i++) {
        char name[300];
        cJSON *request = conduct_request(verb, conduct);
        turn_host_name(turn, container->workload, conduct->looks[i].hostname, name, sizeof name);
        calls[i] = (struct conduct_call){.host = conduct->hosts[i],
                                         .name = verb,
                                         .request = request,
                                         .on_file = take_file,
                                         .context = container,
                                         .index = i};
        if (!cJSON_AddStringToObject(request, "name", name) ||
            !cJSON_AddBoolToObject(request, "model", i == 0))
            r = mst_error_set(err, -ENOMEM, "%s: no memory", verb);
        if (r >= 0)
            r = conduct_call_start(conduct, &set, &calls[i], err);
    }
    if (r >= 0)
        r = conduct_calls_await(&set, calls, conduct->host_count,
                                mst_now_ns() + FETCH_TIMEOUT_MS * MST_NS_PER_MS, err);
    launches_release(&set);
    for (size_t i = 0; calls && i < conduct->host_count; i++)
        cJSON_Delete(calls[i].request);
    return r;
}

/* ---- all of it ---- */

static int follow(struct turn *turn, struct container *containers, struct mst_error *err)
{
    /* `muster run` keeps the deadline itself, and removes its stack afterwards. */
    const uint64_t deadline_ns = turn->deadline_ns + (uint64_t)2 * REMOVE_GRACE_MS * MST_NS_PER_MS;
    int r = 0;

    for (unsigned done = 0; r >= 0 && done < turn->cell->workloads;) {
        r = launches_round(&turn->set, deadline_ns, err);
        done = 0;
        for (unsigned w = 0; w < turn->cell->workloads && r >= 0; w++) {
            r = judge(&containers[w], err);
            done += r > 0;
        }
    }
    return r;
}

int conduct_container(struct turn *turn, struct mst_error *err)
{
    struct container containers[CONDUCT_WORKLOADS_MAX];
    const unsigned count = turn->cell->workloads;
    const bool on_host = turn->mode->network == CONDUCT_NETWORK_HOST;
    unsigned started = 0;
    int r = 0;

    for (unsigned w = 0; w < count; w++)
        containers[w] = (struct container){.turn = turn, .workload = w, .log = MST_BUF_INIT(FILE_MAX_BYTES)};
    for (unsigned w = 0; w < count && r >= 0 && on_host; w++)
        r = for_hosts(&containers[w], "make", err);
    for (; started < count && r >= 0; started++)
        r = start(&containers[started], err);
    if (r >= 0)
        r = follow(turn, containers, err);
    if (r < 0) {
        for (unsigned w = 0; w < started; w++) {
            if (containers[w].launch)
                launch_kill(containers[w].launch, SIGTERM);
        }
        launches_end(&turn->set, REMOVE_GRACE_MS);
    }
    for (unsigned w = 0; w < started; w++) {
        find_run_folder(&containers[w]);
        keep_log(&containers[w]);
        if (on_host && turn->run_folders[w][0] != '\0') {
            struct mst_error later = MST_ERROR_INIT;
            const int fetched = r == -ECANCELED ? 0 : for_hosts(&containers[w], "fetch", &later);
            if (fetched < 0 && r >= 0)
                r = mst_error_set(err, fetched, "%s", later.text);
        }
    }
    for (unsigned w = 0; w < count; w++)
        mst_buf_release(&containers[w].log);
    return r;
}
