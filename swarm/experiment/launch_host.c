/* SPDX-License-Identifier: Apache-2.0 */
#include "experiment/launch_host.h"

#include "cli.h"
#include "experiment/checks.h"
#include "muster/cleanup.h"
#include "muster/clock.h"
#include "muster/digest.h"
#include "muster/file.h"
#include "muster/json.h"
#include "muster/parse.h"
#include "muster/signals.h"

#include <dirent.h>
#include <fcntl.h>
#include <ftw.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define CHUNK_BYTES    ((size_t)64 << 10)
#define REQUEST_MAX    ((size_t)4 << 20)
#define LOOK_SAMPLE_MS 1000
#define WATCH_MS       1000
#define KILL_MS        10000
#define WALK_FDS       16
#define DATA_FILES_MAX 10000

/* ---- talking ---- */

int host_say_text(const char *line, size_t count)
{
    mst_cleanup(mst_freep) char *copy = malloc(count + 1);

    if (!copy)
        return -ENOMEM;
    memcpy(copy, line, count);
    copy[count] = '\n';
    return mst_write_all(STDOUT_FILENO, copy, count + 1);
}

int host_say(cJSON *json)
{
    mst_cleanup(mst_freep) char *text = json ? cJSON_PrintUnformatted(json) : NULL;

    cJSON_Delete(json);
    return text ? host_say_text(text, strlen(text)) : -ENOMEM;
}

static int say_end(int code, const char *text)
{
    cJSON *json = cJSON_CreateObject();

    if (cJSON_AddStringToObject(json, "host", "end") && cJSON_AddNumberToObject(json, "code", code) &&
        cJSON_AddStringToObject(json, "text", text))
        return host_say(json);
    cJSON_Delete(json);
    return -ENOMEM;
}

/* More of stdin, until the deadline. */
static int read_more(struct host_side *side, uint64_t deadline_ns, struct mst_error *err)
{
    struct pollfd fds[2] = {{.fd = side->signal_fd, .events = POLLIN},
                            {.fd = STDIN_FILENO, .events = POLLIN}};
    char chunk[CHUNK_BYTES];
    ssize_t count;

    if (side->is_at_end)
        return mst_error_set(err, -EPIPE, "the request ended half-way");
    if (poll(fds, 2, mst_ms_until(deadline_ns, 60000)) < 0 && errno != EINTR)
        return mst_error_errno(err, -errno, "wait for the request");
    if (fds[0].revents)
        return mst_error_set(err, -ECANCELED, "interrupted");
    if (!fds[1].revents)
        return mst_now_ns() < deadline_ns ? 0 : mst_error_set(err, -ETIMEDOUT, "no request came in time");
    count = read(STDIN_FILENO, chunk, sizeof chunk);
    if (count < 0)
        return errno == EINTR ? 0 : mst_error_errno(err, -errno, "read the request");
    side->is_at_end = count == 0;
    if (mst_buf_append(&side->input, chunk, (size_t)count) < 0)
        return mst_error_set(err, -EFBIG, "a request of more than %zu bytes", REQUEST_MAX);
    return 0;
}

int host_read_line(struct host_side *side, uint64_t deadline_ns, struct mst_buf *ret_line,
                   struct mst_error *err)
{
    for (;;) {
        const char *bytes = mst_buf_text(&side->input);
        const char *end = side->input.count > 0 ? memchr(bytes, '\n', side->input.count) : NULL;
        int r;
        if (end) {
            r = mst_buf_append(ret_line, bytes, (size_t)(end - bytes));
            mst_buf_consume(&side->input, (size_t)(end - bytes) + 1);
            return r < 0 ? mst_error_errno(err, r, "read the request") : 0;
        }
        r = read_more(side, deadline_ns, err);
        if (r < 0)
            return r;
    }
}

int host_read_file(struct host_side *side, uint64_t deadline_ns, const char *path, unsigned mode,
                   uint64_t bytes, struct mst_error *err)
{
    struct mst_file_writer writer = {.fd = -1};
    int r = mst_file_writer_open(&writer, path, mode, err);

    while (r >= 0 && bytes > 0) {
        const size_t part = side->input.count < bytes ? side->input.count : (size_t)bytes;
        if (part == 0) {
            r = read_more(side, deadline_ns, err);
            continue;
        }
        r = mst_write_all(writer.fd, mst_buf_text(&side->input), part);
        if (r < 0)
            (void)mst_error_errno(err, r, "write '%s'", path);
        mst_forget(side->input.bytes, part); /* it may be a key */
        mst_buf_consume(&side->input, part);
        bytes -= part;
    }
    if (r >= 0)
        return mst_file_writer_commit(&writer, err);
    mst_file_writer_discard(&writer);
    return r;
}

/* ---- folders ---- */

static int check_folder(const char *folder, struct mst_error *err)
{
    const char *last = strrchr(folder, '/');

    if (folder[0] != '/' || strncmp(last + 1, HOST_FOLDER_MARK, sizeof HOST_FOLDER_MARK - 1) != 0 ||
        strstr(folder, "/../") || !mst_name_is_plain(last + 1))
        return mst_error_set(err, -EINVAL, "'%s' is no experiment's folder (/.../%s...)", folder,
                             HOST_FOLDER_MARK);
    return 0;
}

static int get_folder(const cJSON *request, const char **ret_folder, struct mst_error *err)
{
    const int r = mst_json_get_string(request, "folder", "request", ret_folder, err);

    return r < 0 ? r : check_folder(*ret_folder, err);
}

int host_path(const cJSON *request, char **ret_path, struct mst_error *err)
{
    const char *folder, *name;
    int r = get_folder(request, &folder, err);

    if (r >= 0)
        r = mst_json_get_string(request, "name", "request", &name, err);
    if (r < 0)
        return r;
    if (!mst_name_is_plain(name))
        return mst_error_set(err, -EINVAL, "request: the name is no plain name");
    *ret_path = mst_path_join(folder, name);
    return *ret_path ? 0 : mst_error_set(err, -ENOMEM, "request: no memory");
}

int host_make_folder(const char *path, mode_t mode, bool for_worker, struct mst_error *err)
{
    if (mkdir(path, mode) < 0 || chmod(path, mode) < 0)
        return mst_error_errno(err, -errno, "make '%s'", path);
    if (for_worker && geteuid() == 0 && chown(path, HOST_WORKER_UID, HOST_WORKER_UID) < 0)
        return mst_error_errno(err, -errno, "give '%s' to user %d", path, HOST_WORKER_UID);
    return 0;
}

static int remove_one(const char *path, const struct stat *status, int type, struct FTW *at)
{
    (void)status, (void)at;
    /* Hosts may share a file system, and remove the same. */
    return (type == FTW_DP ? rmdir(path) : unlink(path)) < 0 && errno != ENOENT ? errno : 0;
}

int host_remove_tree(const char *path, struct mst_error *err)
{
    const int r = nftw(path, remove_one, WALK_FDS, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);

    if (r > 0)
        return mst_error_errno(err, -r, "remove '%s'", path);
    return r < 0 && errno != ENOENT ? mst_error_errno(err, -errno, "remove '%s'", path) : 0;
}

/* A folder that is there must be ours, and nobody else's to write to: its name is no secret. */
static int claim_folder(const char *folder, struct mst_error *err)
{
    struct stat status;

    if (mkdir(folder, 0711) == 0) {
        if (chmod(folder, 0711) < 0) /* the umask may shut the agent's user out */
            return mst_error_errno(err, -errno, "make '%s'", folder);
    } else if (errno != EEXIST) {
        return mst_error_errno(err, -errno, "make '%s'", folder);
    }
    if (lstat(folder, &status) < 0)
        return mst_error_errno(err, -errno, "look at '%s'", folder);
    if (!S_ISDIR(status.st_mode) || status.st_uid != geteuid() || (status.st_mode & 022) != 0)
        return mst_error_set(err, -EPERM, "'%s' is there already, and is not this user's own folder", folder);
    return 0;
}

/* ---- requests ---- */

static int read_limits(const cJSON *request, struct limits *limits)
{
    *limits = (struct limits){.nano_cpus = (int64_t)mst_json_u64_or(request, "nano_cpus", 0),
                              .memory_bytes = (int64_t)mst_json_u64_or(request, "memory_bytes", 0),
                              .pids = (int64_t)mst_json_u64_or(request, "pids", 0)};
    return 0;
}

static int do_look(struct host_side *side, const cJSON *request, struct mst_error *err)
{
    cJSON *clock = cJSON_CreateObject();
    struct checks_look look;
    struct limits limits;
    int r;

    (void)side;
    if (!cJSON_AddStringToObject(clock, "host", "clock") ||
        !cJSON_AddNumberToObject(clock, "t", mst_wall_s())) {
        cJSON_Delete(clock);
        return mst_error_set(err, -ENOMEM, "look: no memory");
    }
    r = host_say(clock);
    if (r < 0)
        return mst_error_errno(err, r, "answer");
    (void)read_limits(request, &limits);
    r = checks_look(mst_json_string_or(request, "agent", ""), &limits,
                    mst_json_string_or(request, "subnet", ""), LOOK_SAMPLE_MS, &look, err);
    if (r >= 0)
        r = host_say(checks_look_json(&look));
    return r;
}

static bool has_digest(const char *path, const char *wanted)
{
    uint8_t digest[MST_SHA256_BYTES];
    char text[MST_SHA256_HEX_BYTES];

    if (mst_sha256_file(path, digest, NULL) < 0)
        return false;
    mst_hex(digest, sizeof digest, text);
    return strcmp(text, wanted) == 0;
}

struct data_file {
    const char *name, *sha256;
    uint64_t bytes;
};

static int read_data_file(const cJSON *item, struct data_file *ret_file, struct mst_error *err)
{
    int r = mst_json_get_string(item, "name", "data", &ret_file->name, err);

    if (r >= 0)
        r = mst_json_get_string(item, "sha256", "data", &ret_file->sha256, err);
    if (r >= 0)
        r = mst_json_get_u64(item, "bytes", 0, UINT64_C(1) << 50, "data", &ret_file->bytes, err);
    return r >= 0 && !mst_name_is_plain(ret_file->name)
               ? mst_error_set(err, -EINVAL, "data: '%s' is no plain name", ret_file->name)
               : r;
}

/* What is there already, whole and equal, is not sent again. */
static int do_prepare(struct host_side *side, const cJSON *request, struct mst_error *err)
{
    const uint64_t deadline_ns = mst_now_ns() + HOST_DATA_S * MST_NS_PER_S;
    const cJSON *item, *list = mst_json_at(request, "data", NULL);
    mst_cleanup(mst_freep) char *data = NULL;
    cJSON *answer, *names;
    const char *folder;
    int r = get_folder(request, &folder, err);

    if (r >= 0)
        r = claim_folder(folder, err);
    if (r < 0)
        return r;
    data = mst_path_join(folder, "data");
    answer = cJSON_CreateObject();
    if (!data || !cJSON_AddStringToObject(answer, "host", "need") ||
        !(names = cJSON_AddArrayToObject(answer, "names"))) {
        cJSON_Delete(answer);
        return mst_error_set(err, -ENOMEM, "prepare: no memory");
    }
    r = mst_make_folders(data, 0755, err);
    if (r >= 0 && chmod(data, 0755) < 0)
        r = mst_error_errno(err, -errno, "make '%s'", data);
    cJSON_ArrayForEach(item, list)
    {
        struct data_file file;
        mst_cleanup(mst_freep) char *path = NULL;
        if (r >= 0)
            r = read_data_file(item, &file, err);
        if (r < 0)
            break;
        path = mst_path_join(data, file.name);
        if (!path ||
            (!has_digest(path, file.sha256) && !cJSON_AddItemToArray(names, cJSON_CreateString(file.name))))
            r = mst_error_set(err, -ENOMEM, "prepare: no memory");
    }
    if (r < 0) {
        cJSON_Delete(answer);
        return r;
    }
    mst_cleanup(mst_json_deletep) cJSON *needed = cJSON_Duplicate(names, true);
    r = host_say(answer);
    cJSON_ArrayForEach(item, list)
    {
        struct data_file file;
        mst_cleanup(mst_freep) char *path = NULL;
        const cJSON *wanted;
        bool is_needed = false;
        if (r < 0 || read_data_file(item, &file, err) < 0)
            break;
        cJSON_ArrayForEach(wanted, needed) is_needed |= strcmp(wanted->valuestring, file.name) == 0;
        path = mst_path_join(data, file.name);
        if (!is_needed || !path)
            continue;
        r = host_read_file(side, deadline_ns, path, 0644, file.bytes, err);
        if (r >= 0 && !has_digest(path, file.sha256))
            r = mst_error_set(err, -EBADMSG, "'%s' changed on the way", file.name);
    }
    return r;
}

static int do_make(struct host_side *side, const cJSON *request, struct mst_error *err)
{
    mst_cleanup(mst_freep) char *path = NULL;
    int r = host_path(request, &path, err);

    (void)side;
    if (r >= 0)
        r = host_remove_tree(path, err); /* of an attempt that was killed */
    return r < 0 ? r : host_make_folder(path, 0755, true, err);
}

int host_send_file(const char *path, const char *name, struct mst_error *err)
{
    mst_cleanup(mst_closep) int fd = -1;
    cJSON *head = cJSON_CreateObject();
    struct stat status;
    char chunk[CHUNK_BYTES];
    off_t left;
    int r = mst_file_open(path, &fd, err);

    if (r >= 0 && fstat(fd, &status) < 0)
        r = mst_error_errno(err, -errno, "look at '%s'", path);
    if (r >= 0 &&
        (!cJSON_AddStringToObject(head, "host", "file") || !cJSON_AddStringToObject(head, "name", name) ||
         !cJSON_AddNumberToObject(head, "bytes", (double)status.st_size)))
        r = mst_error_set(err, -ENOMEM, "send '%s': no memory", name);
    if (r < 0) {
        cJSON_Delete(head);
        return r;
    }
    r = host_say(head);
    for (left = status.st_size; r >= 0 && left > 0;) {
        const ssize_t count = read(fd, chunk, left < (off_t)sizeof chunk ? (size_t)left : sizeof chunk);
        if (count <= 0)
            return mst_error_set(err, -EIO, "'%s' became shorter while it was read", path);
        r = mst_write_all(STDOUT_FILENO, chunk, (size_t)count);
        left -= count;
    }
    return r < 0 ? mst_error_errno(err, r, "send '%s'", name) : 0;
}

static bool is_result(const char *name, bool with_model)
{
    return strncmp(name, "history-", 8) == 0 || strncmp(name, "steps-", 6) == 0 ||
           strncmp(name, "ips-", 4) == 0 || (with_model && strncmp(name, "model", 5) == 0);
}

static int send_folder(const char *folder, bool with_model, unsigned depth, struct mst_error *err)
{
    DIR *list = opendir(folder);
    const struct dirent *entry;
    int r = 0;

    if (!list)
        return mst_error_errno(err, -errno, "read '%s'", folder);
    while (r >= 0 && (entry = readdir(list))) {
        mst_cleanup(mst_freep) char *path = mst_path_join(folder, entry->d_name);
        struct stat status;
        if (!path)
            r = mst_error_set(err, -ENOMEM, "read '%s': no memory", folder);
        else if (entry->d_name[0] == '.' || lstat(path, &status) < 0)
            continue;
        else if (S_ISDIR(status.st_mode) && depth > 0)
            r = send_folder(path, with_model, depth - 1, err);
        else if (S_ISREG(status.st_mode) && is_result(entry->d_name, with_model))
            r = host_send_file(path, entry->d_name, err);
    }
    (void)closedir(list);
    return r;
}

int host_send_results(const char *folder, bool with_model, struct mst_error *err)
{
    return send_folder(folder, with_model, 1, err);
}

static int do_fetch(struct host_side *side, const cJSON *request, struct mst_error *err)
{
    mst_cleanup(mst_freep) char *path = NULL;
    int r = host_path(request, &path, err);

    (void)side;
    if (r >= 0)
        r = host_send_results(path, mst_json_bool_or(request, "model", false), err);
    return r < 0 ? r : host_remove_tree(path, err);
}

static int do_watch(struct host_side *side, const cJSON *request, struct mst_error *err)
{
    uint64_t next_ns = mst_now_ns();

    (void)request;
    while (!side->is_at_end) {
        struct checks_reading reading;
        int r;
        checks_read(&reading);
        r = host_say(checks_reading_json(&reading));
        next_ns += WATCH_MS * MST_NS_PER_MS;
        while (r >= 0 && !side->is_at_end && mst_now_ns() < next_ns) {
            r = read_more(side, next_ns, NULL);
            if (r == -ETIMEDOUT)
                break;
        }
        if (r < 0 && r != -ETIMEDOUT)
            return r == -ECANCELED ? 0 : mst_error_errno(err, r, "watch");
    }
    return 0;
}

static int do_remove(struct host_side *side, const cJSON *request, struct mst_error *err)
{
    const struct limits none = {0};
    struct limits_mounts mounts;
    const char *folder;
    int r = get_folder(request, &folder, err);

    (void)side;
    if (r >= 0 && limits_look(&none, &mounts, NULL) >= 0) /* where there are none, none was made */
        r = limits_sweep(&mounts, strrchr(folder, '/') + 1, NULL, KILL_MS, err);
    if (r >= 0 && access(folder, F_OK) == 0)
        r = claim_folder(folder, err);
    return r < 0 ? r : host_remove_tree(folder, err);
}

static int serve(struct host_side *side, struct mst_error *err)
{
    static const struct {
        const char *name;
        int (*serve)(struct host_side *side, const cJSON *request, struct mst_error *err);
    } verbs[] = {{"look", do_look},   {"prepare", do_prepare}, {"train", host_train}, {"make", do_make},
                 {"fetch", do_fetch}, {"watch", do_watch},     {"remove", do_remove}};
    mst_cleanup(mst_buf_release) struct mst_buf line = MST_BUF_INIT(REQUEST_MAX);
    mst_cleanup(mst_json_deletep) cJSON *request = NULL;
    const char *verb;
    int r = host_read_line(side, mst_now_ns() + HOST_REQUEST_S * MST_NS_PER_S, &line, err);

    if (r >= 0)
        r = mst_json_parse(mst_buf_text(&line), line.count, "request", &request, err);
    if (r >= 0)
        r = mst_json_get_string(request, "do", "request", &verb, err);
    for (size_t i = 0; r >= 0 && i < MST_ARRAY_COUNT(verbs); i++) {
        if (strcmp(verbs[i].name, verb) == 0)
            return verbs[i].serve(side, request, err);
    }
    return r < 0 ? r : mst_error_set(err, -EINVAL, "request: nothing is known of '%s'", verb);
}

static const struct mst_option table[] = {CLI_COMMON_OPTIONS};
static const struct mst_options options = {
    .program = "muster",
    .verb = "compare-host",
    .synopsis = "",
    .about = "The other end of 'muster compare' on one of its hosts, started there through the launcher. It "
             "takes its "
             "request\non stdin and is of no use by hand.",
    .table = table,
    .count = MST_ARRAY_COUNT(table),
};

int verb_compare_host(int argc, char **argv)
{
    static const int caught[] = {SIGINT, SIGTERM, SIGHUP};
    struct host_side side = {.signal_fd = -1, .input = MST_BUF_INIT(REQUEST_MAX)};
    struct cli_common common = {0};
    struct mst_error err = MST_ERROR_INIT;
    cJSON *hello = cJSON_CreateObject();
    int status, r;

    if (cli_begin(&options, argc, argv, &common, 0, 0, &status) < 0) {
        cJSON_Delete(hello);
        return status;
    }
    r = mst_signals_open(caught, MST_ARRAY_COUNT(caught), &side.signal_fd, &err);
    if (!cJSON_AddStringToObject(hello, "host", "hello") ||
        !cJSON_AddStringToObject(hello, "muster", MUSTER_VERSION))
        r = -ENOMEM;
    if (r >= 0)
        r = host_say(hello);
    else
        cJSON_Delete(hello);
    if (r >= 0)
        r = serve(&side, &err);
    if (say_end(r, r < 0 ? err.text : "") < 0 && r >= 0)
        r = mst_error_set(&err, -EPIPE, "nobody reads what this says");
    mst_buf_release(&side.input);
    mst_closep(&side.signal_fd);
    return cli_end(NULL, r, &err);
}
