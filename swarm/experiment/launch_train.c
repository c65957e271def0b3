/* SPDX-License-Identifier: Apache-2.0 */
/* A worker without a container, on its host: `muster-agent train` in a control group with the container's
 * limits. Its lines go on as they are; once a second a sample of what it uses comes between, as the monitor's
 * are. */
#include "experiment/launch.h"
#include "experiment/launch_host.h"
#include "experiment/limits.h"
#include "muster/cleanup.h"
#include "muster/clock.h"
#include "muster/file.h"
#include "muster/json.h"
#include "muster/net.h"

#include <ifaddrs.h>
#include <inttypes.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>

#define ENVIRONMENT_MAX 256
#define SAMPLE_MS       1000
#define KILL_MS         10000
#define FOLDER_MODE     0700
#define DEV_MAX_BYTES   ((size_t)1 << 20)

struct host_job {
    const cJSON *request;
    const char *slot, *stack;
    char *folder, *out; /* owned */
    char interface[IFNAMSIZ], node[128];
    struct limits_group group;
    struct launches set;
    struct launch *agent;
    bool has_group, samples, is_deaf; /* is_deaf: nobody takes what it says any more */
    unsigned grace_ms;
};

/* ---- what it uses ---- */

static void find_interface(struct host_job *job)
{
    const char *subnet = mst_json_string_or(job->request, "subnet", "");
    struct ifaddrs *list = NULL;
    struct mst_cidr cidr;

    if (subnet[0] == '\0' || mst_parse_cidr(subnet, &cidr, NULL) < 0 || getifaddrs(&list) < 0)
        return;
    for (const struct ifaddrs *i = list; i && job->interface[0] == '\0'; i = i->ifa_next) {
        struct sockaddr_in address;
        if (!i->ifa_addr || i->ifa_addr->sa_family != AF_INET)
            continue;
        memcpy(&address, i->ifa_addr, sizeof address);
        if (mst_cidr_contains(cidr, ntohl(address.sin_addr.s_addr)))
            (void)snprintf(job->interface, sizeof job->interface, "%s", i->ifa_name);
    }
    freeifaddrs(list);
}

static bool read_traffic(const char *interface, uint64_t counts[4])
{
    mst_cleanup(mst_buf_release) struct mst_buf text = MST_BUF_INIT(DEV_MAX_BYTES);

    if (interface[0] == '\0' || mst_file_read("/proc/net/dev", &text, NULL) < 0)
        return false;
    for (const char *line = mst_buf_text(&text); *line != '\0'; line += line[0] == '\n') {
        char name[32];
        if (sscanf(line, " %31[^:]: %" SCNu64 " %" SCNu64 " %*u %*u %*u %*u %*u %*u %" SCNu64 " %" SCNu64,
                   name, &counts[0], &counts[1], &counts[2], &counts[3]) == 5 &&
            strcmp(name, interface) == 0)
            return true;
        line += strcspn(line, "\n");
    }
    return false;
}

/* In the form of docs/events.md's `sample`; what could not be read is not there. */
static int say_sample(const struct host_job *job)
{
    mst_cleanup(mst_buf_release) struct mst_buf line = MST_BUF_INIT(4096);
    struct limits_use use;
    uint64_t counts[4];
    int r;

    limits_read_use(&job->group, &use);
    /* Slots and host names are plain names: nothing in them needs escaping. */
    r = mst_buf_printf(&line,
                       "{\"event\":\"sample\",\"t\":%.3f,\"slot\":\"%s\",\"node\":\"%s\",\"container\":\"%"
                       "s\",\"name\":\"%s\","
                       "\"service\":\"\",\"stack\":\"%s\",\"task_slot\":\"%s\",\"read_ns\":%" PRIu64,
                       mst_wall_s(), job->slot, job->node, job->slot, job->slot, job->stack, job->slot,
                       mst_now_ns());
    if (r >= 0 && use.has_cpu)
        r = mst_buf_printf(&line, ",\"cpu_ns\":%" PRIu64, use.cpu_ns);
    if (r >= 0 && use.has_throttled)
        r = mst_buf_printf(&line, ",\"cfs_throttled_ns\":%" PRIu64, use.throttled_ns);
    if (r >= 0 && use.has_memory)
        r = mst_buf_printf(&line, ",\"memory_bytes\":%" PRIu64, use.memory_bytes);
    if (r >= 0 && job->group.limits.memory_bytes > 0)
        r = mst_buf_printf(&line, ",\"memory_limit_bytes\":%" PRId64, job->group.limits.memory_bytes);
    if (r >= 0 && read_traffic(job->interface, counts))
        r = mst_buf_printf(&line,
                           ",\"rx_bytes\":%" PRIu64 ",\"rx_packets\":%" PRIu64 ",\"tx_bytes\":%" PRIu64
                           ",\"tx_packets\":%" PRIu64,
                           counts[0], counts[1], counts[2], counts[3]);
    if (r >= 0)
        r = mst_buf_append_text(&line, "}");
    return r < 0 ? r : host_say_text(mst_buf_text(&line), line.count);
}

/* ---- the agent ---- */

static int pass_line(void *context, struct launch *launch, const char *line, size_t count,
                     struct mst_error *err)
{
    struct host_job *job = context;
    const int r = job->is_deaf ? 0 : host_say_text(line, count);

    (void)launch;
    /* Said once: the agent has its time to end in order although nobody listens any more. */
    job->is_deaf |= r < 0;
    return r < 0 ? mst_error_errno(err, r, "pass an event on") : 0;
}

static int pass_complaint(void *context, struct launch *launch, const char *line, struct mst_error *err)
{
    (void)context, (void)launch, (void)err;
    (void)fprintf(stderr, "%s\n", line); /* stderr that went away is nothing to end a run for */
    return 0;
}

static int enter_limits(void *context)
{
    return limits_enter(context);
}

static int start_agent(struct host_job *job, struct mst_error *err)
{
    static const struct launch_handler handler = {.on_line = pass_line, .on_complaint = pass_complaint};
    const char *environment[ENVIRONMENT_MAX + 2], *agent;
    const cJSON *item, *list = mst_json_at(job->request, "environment", NULL);
    const struct launch_setup setup = {
        .environment = environment, .enter = enter_limits, .context = &job->group};
    size_t count = 0;
    int r = mst_json_get_string(job->request, "agent", "request", &agent, err);

    if (r < 0)
        return r;
    const char *const words[] = {agent, "train", NULL};
    mst_cleanup(mst_freep) char *path =
        mst_format("PATH=%s", getenv("PATH") ? getenv("PATH") : "/usr/bin:/bin");
    if (!path)
        return mst_error_set(err, -ENOMEM, "train: no memory");
    environment[count++] = path;
    cJSON_ArrayForEach(item, list)
    {
        if (count > ENVIRONMENT_MAX || !cJSON_IsString(item))
            return mst_error_set(err, -EINVAL, "request: not a list of at most %d variables",
                                 ENVIRONMENT_MAX);
        environment[count++] = item->valuestring;
    }
    environment[count] = NULL;
    return launches_add(&job->set, words, job->slot, &setup, &handler, job, &job->agent, err);
}

/* Told to stop: as a container is, SIGTERM first. */
static void stop_agent(struct host_job *job)
{
    const uint64_t deadline_ns = mst_now_ns() + job->grace_ms * MST_NS_PER_MS;

    job->set.signal_fd = job->set.wake_fd = -1;
    launch_kill(job->agent, SIGTERM);
    while (!launch_has_ended(job->agent) && mst_now_ns() < deadline_ns) {
        struct mst_error ignored = MST_ERROR_INIT;
        if (launches_round(&job->set, deadline_ns, &ignored) < 0)
            break;
    }
}

/* Until it has ended by itself, or is to stop. */
static int follow_agent(struct host_job *job, struct mst_error *err)
{
    uint64_t next_ns = mst_now_ns();

    while (!launch_has_ended(job->agent)) {
        struct mst_error why = MST_ERROR_INIT;
        int r = launches_round(&job->set, next_ns, &why);
        if (r == -ETIMEDOUT) {
            r = job->samples ? say_sample(job) : 0;
            next_ns += SAMPLE_MS * MST_NS_PER_MS;
            job->is_deaf |= r < 0;
            if (r < 0)
                (void)mst_error_errno(&why, r, "say a sample");
        } else if (r == 1) { /* stdin: its end, or a word, and both mean the same */
            r = mst_error_set(&why, -ECANCELED, "told to stop");
        }
        if (r < 0) {
            stop_agent(job);
            return mst_error_set(err, r, "%s", why.text);
        }
    }
    if (job->samples)
        (void)say_sample(job); /* the last one: all that it used; a reader that is gone is noticed next */
    if (launch_status(job->agent) != 0)
        return mst_error_set(err, -EOWNERDEAD, "worker '%s' ended with status %d%s%s", job->slot,
                             launch_status(job->agent), launch_tail(job->agent)[0] ? ": " : "",
                             launch_tail(job->agent));
    return 0;
}

/* ---- its folder ---- */

static int take_files(struct host_side *side, struct host_job *job, struct mst_error *err)
{
    const uint64_t deadline_ns = mst_now_ns() + HOST_REQUEST_S * MST_NS_PER_S;
    const cJSON *item;
    int r = 0;

    cJSON_ArrayForEach(item, mst_json_at(job->request, "files", NULL))
    {
        mst_cleanup(mst_freep) char *path = NULL;
        const char *name;
        uint64_t bytes;
        r = mst_json_get_string(item, "name", "files", &name, err);
        if (r >= 0)
            r = mst_json_get_u64(item, "bytes", 0, UINT64_C(1) << 30, "files", &bytes, err);
        if (r >= 0 && !mst_name_is_plain(name))
            r = mst_error_set(err, -EINVAL, "files: '%s' is no plain name", name);
        if (r < 0)
            return r;
        path = mst_path_join(job->folder, name);
        if (!path)
            return mst_error_set(err, -ENOMEM, "files: no memory");
        r = host_read_file(side, deadline_ns, path, 0600, bytes, err);
        if (r >= 0 && geteuid() == 0 && chown(path, HOST_WORKER_UID, HOST_WORKER_UID) < 0)
            r = mst_error_errno(err, -errno, "give '%s' to user %d", path, HOST_WORKER_UID);
        if (r < 0)
            return r;
    }
    return r;
}

static int make_folders(struct host_job *job, struct mst_error *err)
{
    mst_cleanup(mst_freep) char *state = mst_path_join(job->folder, "state");
    int r;

    job->out = mst_path_join(job->folder, "out");
    if (!job->out || !state)
        return mst_error_set(err, -ENOMEM, "train: no memory");
    r = host_remove_tree(job->folder, err); /* of an attempt that was killed */
    if (r >= 0)
        r = host_make_folder(job->folder, FOLDER_MODE, true, err);
    if (r >= 0)
        r = host_make_folder(job->out, FOLDER_MODE, true, err);
    return r < 0 ? r : host_make_folder(state, FOLDER_MODE, true, err);
}

static int make_group(struct host_job *job, struct mst_error *err)
{
    const struct limits limits = {.nano_cpus = (int64_t)mst_json_u64_or(job->request, "nano_cpus", 0),
                                  .memory_bytes = (int64_t)mst_json_u64_or(job->request, "memory_bytes", 0),
                                  .pids = (int64_t)mst_json_u64_or(job->request, "pids", 0)};
    struct limits_mounts mounts;
    char name[192];
    char number[8];
    const char *folder = strrchr(mst_json_string_or(job->request, "folder", "/"), '/') + 1;
    int r = limits_look(&limits, &mounts, err);

    /* Runs come one after the other: a worker of another one was left by a launcher that was killed. */
    (void)snprintf(number, sizeof number, "%.4s", mst_json_string_or(job->request, "name", ""));
    if (r >= 0)
        r = limits_sweep(&mounts, folder, number, KILL_MS, err);
    if (r < 0)
        return r;
    /* Hosts may be one machine, as in the lab: its name tells them apart. */
    (void)snprintf(name, sizeof name, "%s/%s-%s", folder, mst_json_string_or(job->request, "name", ""),
                   job->node);
    r = limits_make(&mounts, name, &limits, &job->group, err);
    job->has_group = r >= 0;
    return r;
}

static int clean_up(struct host_job *job, int code, struct mst_error *err)
{
    struct mst_error later = MST_ERROR_INIT;
    int r = 0;

    if (job->has_group) {
        r = limits_kill(&job->group, KILL_MS, &later);
        launches_release(&job->set);
        if (r >= 0)
            r = limits_remove(&job->group, &later);
    }
    launches_release(&job->set);
    if (job->folder && host_remove_tree(job->folder, r < 0 ? NULL : &later) < 0)
        r = -EIO;
    return code >= 0 && r < 0 ? mst_error_set(err, r, "%s", later.text) : code;
}

int host_train(struct host_side *side, const cJSON *request, struct mst_error *err)
{
    struct host_job job = {.request = request,
                           .set = LAUNCHES_INIT(side->signal_fd),
                           .samples = mst_json_bool_or(request, "samples", false),
                           .grace_ms = (unsigned)mst_json_u64_or(request, "grace_ms", 10000),
                           .stack = mst_json_string_or(request, "stack", "")};
    struct utsname name;
    int r = host_path(request, &job.folder, err);

    if (r >= 0)
        r = mst_json_get_string(request, "slot", "request", &job.slot, err);
    if (r >= 0 && (!mst_name_is_plain(job.slot) || strpbrk(job.slot, "\"\\") || strpbrk(job.stack, "\"\\")))
        r = mst_error_set(err, -EINVAL, "request: slot '%s' is no plain name", job.slot);
    if (r >= 0 && uname(&name) == 0)
        (void)snprintf(job.node, sizeof job.node, "%s", name.nodename);
    find_interface(&job);
    if (r >= 0)
        r = make_folders(&job, err);
    if (r >= 0)
        r = take_files(side, &job, err);
    if (r >= 0)
        r = make_group(&job, err);
    job.set.wake_fd = STDIN_FILENO;
    if (r >= 0)
        r = start_agent(&job, err);
    if (r >= 0)
        r = follow_agent(&job, err);
    /* Also of one that failed: how far it came. */
    if (job.agent && job.out) {
        const int sent =
            host_send_results(job.out, mst_json_bool_or(request, "model", false), r < 0 ? NULL : err);
        r = r < 0 ? r : sent;
    }
    r = clean_up(&job, r, err);
    free(job.folder);
    free(job.out);
    return r;
}
