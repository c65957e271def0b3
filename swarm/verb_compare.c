/* SPDX-License-Identifier: Apache-2.0 */
/* muster compare */
#include "cli.h"
#include "experiment/conduct.h"
#include "muster/cleanup.h"
#include "muster/json.h"
#include "muster/net.h"
#include "muster/parse.h"

#include <string.h>
#include <unistd.h>

#define REPEATS_MAX  1000
#define WARMUPS_MAX  10
#define ATTEMPTS_MAX 10
#define NAME_BYTES   48

struct compare_settings {
    struct cli_common common;
    struct conduct_options options;
    const char *modes, *workloads, *exchanges, *resume;
    enum conduct_monitor monitor;
    bool host_network;
};

#define SET_TEXT(name, member)                                                                               \
    static int name(void *settings, const char *text, struct mst_error *err)                                 \
    {                                                                                                        \
        (void)err;                                                                                           \
        ((struct compare_settings *)settings)->member = text;                                                \
        return 0;                                                                                            \
    }
#define SET_NUMBER(name, member, min, max)                                                                   \
    static int name(void *settings, const char *text, struct mst_error *err)                                 \
    {                                                                                                        \
        return mst_parse_u32(text, min, max, &((struct compare_settings *)settings)->member, err);           \
    }

SET_TEXT(set_modes, modes)
SET_TEXT(set_workloads, workloads)
SET_TEXT(set_exchanges, exchanges)
SET_TEXT(set_resume, resume)
SET_TEXT(set_muster, options.muster)
SET_TEXT(set_agent, options.agent)
SET_TEXT(set_host_folder, options.host_folder)
SET_TEXT(set_data, options.data)
SET_TEXT(set_out, options.out)
SET_NUMBER(set_repeats, options.repeats, 1, REPEATS_MAX)
SET_NUMBER(set_warmups, options.warmups, 0, WARMUPS_MAX)
SET_NUMBER(set_attempts, options.attempts, 1, ATTEMPTS_MAX)
SET_NUMBER(set_port, options.port, 1, 65534)
CLI_SET_FLAG(set_host_network, struct compare_settings, host_network)

static int set_launcher(void *settings, const char *text, struct mst_error *err)
{
    struct compare_settings *compare = settings;

    compare->options.launcher_text = text;
    return launcher_parse(text, &compare->options.launcher, err);
}

static int set_subnet(void *settings, const char *text, struct mst_error *err)
{
    struct mst_cidr cidr;

    ((struct compare_settings *)settings)->options.subnet = text;
    return mst_parse_cidr(text, &cidr, err);
}

static int set_monitor(void *settings, const char *text, struct mst_error *err)
{
    static const char *const words[] = {
        [CONDUCT_MONITOR_ON] = "on", [CONDUCT_MONITOR_OFF] = "off", [CONDUCT_MONITOR_BOTH] = "both"};

    for (size_t i = 0; i < MST_ARRAY_COUNT(words); i++) {
        if (strcmp(text, words[i]) == 0) {
            ((struct compare_settings *)settings)->monitor = (enum conduct_monitor)i;
            return 0;
        }
    }
    return mst_error_set(err, -EINVAL, "'%s' is neither on, off nor both", text);
}

static int set_name(void *settings, const char *text, struct mst_error *err)
{
    const size_t plain = strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-");

    ((struct compare_settings *)settings)->options.name = text;
    return text[0] == '\0' || text[plain] != '\0' || plain > NAME_BYTES
               ? mst_error_set(err, -EINVAL, "'%s': expected at most %d letters, digits, '-' and '_'", text,
                               NAME_BYTES)
               : 0;
}

static const struct mst_option table[] = {
    {.name = "compose-file",
     .letter = 'c',
     .kind = MST_OPT_REPEAT,
     .argument = "FILE",
     .set = cli_set_file,
     .help = "stack file of a workload; twice for two workloads"},
    {.name = "set",
     .letter = 'e',
     .kind = MST_OPT_REPEAT,
     .argument = "NAME=VALUE",
     .set = cli_set_variable,
     .help = "a variable for the stack files, over the environment's"},
    {.name = "env-file",
     .kind = MST_OPT_REPEAT,
     .argument = "FILE",
     .set = cli_set_env_file,
     .help = "variables behind the environment's"},
    {.name = "modes",
     .argument = "LIST",
     .fallback = "container,bare",
     .set = set_modes,
     .help = "what is compared: container, container-host, container-encrypted,\nbare; bare,bare asks for "
             "the noise"},
    {.name = "host-network", .kind = MST_OPT_FLAG, .set = set_host_network, .help = "container-host as well"},
    {.name = "monitor",
     .argument = "on|off|both",
     .fallback = "on",
     .set = set_monitor,
     .help = "the stacks' monitors; both: containers with and without"},
    {.name = "exchange",
     .argument = "LIST",
     .set = set_exchanges,
     .help = "exchanges to compare in, each a series; default: the stack's"},
    {.name = "workloads",
     .argument = "1|2|1,2",
     .fallback = "1",
     .set = set_workloads,
     .help = "one training at a time, two at once, or both experiments"},
    {.name = "repeats",
     .argument = "N",
     .fallback = "5",
     .set = set_repeats,
     .help = "runs of each mode that count"},
    {.name = "warmups",
     .argument = "N",
     .fallback = "1",
     .set = set_warmups,
     .help = "runs of each mode beforehand, kept and not counted"},
    {.name = "attempts",
     .argument = "N",
     .fallback = "3",
     .set = set_attempts,
     .help = "times a run is made when it fails"},
    {.name = "launcher",
     .argument = "COMMAND",
     .env = "MUSTER_LAUNCHER",
     .fallback = "ssh {host} {cmd}",
     .set = set_launcher,
     .help = "how a command is started on a host; 'local': on this machine"},
    {.name = "host-muster",
     .argument = "PATH",
     .env = "MUSTER_HOST_MUSTER",
     .fallback = "muster",
     .set = set_muster,
     .help = "this program on the hosts"},
    {.name = "host-agent",
     .argument = "PATH",
     .env = "MUSTER_HOST_AGENT",
     .fallback = "muster-agent",
     .set = set_agent,
     .help = "the agent on the hosts"},
    {.name = "host-folder",
     .argument = "DIR",
     .fallback = "/var/tmp",
     .set = set_host_folder,
     .help = "where an experiment has its folder on the hosts"},
    {.name = "subnet",
     .argument = "CIDR",
     .set = set_subnet,
     .help = "of the hosts' own network, for bare and container-host"},
    {.name = "port",
     .argument = "PORT",
     .fallback = "7070",
     .set = set_port,
     .help = "of workers on that network; the next one for a second workload"},
    {.name = "data",
     .argument = "DIR",
     .set = set_data,
     .help = "the data set, copied to the hosts for bare workers"},
    {.name = "out",
     .letter = 'o',
     .argument = "DIR",
     .set = set_out,
     .help = "the experiment's folder; one that is there is gone on with\n(default: experiments/<UTC "
             "time>-NAME)"},
    {.name = "name",
     .argument = "NAME",
     .set = set_name,
     .help = "of the experiment (default: the first stack's)"},
    {.name = "resume",
     .argument = "DIR",
     .set = set_resume,
     .help = "go on with the experiment in DIR as it was begun; no other option"},
    {.name = "strict",
     .kind = MST_OPT_FLAG,
     .env = "MUSTER_STRICT",
     .set = cli_set_strict,
     .help = "what a stack ignores in the file is an error"},
    CLI_RESOLVE_OPTION,
    CLI_AUTH_OPTION,
    CLI_SHIP_OPTIONS,
    CLI_TIMEOUT_OPTION("1h", "give a run up when its workers are not done by then"),
    CLI_COMMON_OPTIONS,
};

static const struct mst_options options = {
    .program = "muster",
    .verb = "compare",
    .synopsis = "[options] -c FILE [-c FILE]",
    .about = "Run the same training in containers and as plain processes on the same hosts, by turns and "
             "repeatedly, "
             "with\nthe same data, seed and limits, and report what the difference is. Each run leaves its "
             "run folder.",
    .table = table,
    .count = MST_ARRAY_COUNT(table),
};

/* The words of the command that began it, and where its folder is now. */
static int resume(const char *out, cJSON **ret_json, char ***ret_argv, int *ret_argc, struct mst_error *err)
{
    char *absolute = realpath(out, NULL);
    const cJSON *word, *words;
    const char *cwd;
    char **argv;
    int count = 0, r;

    if (!absolute)
        return mst_error_errno(err, -errno, "option '--resume': '%s'", out);
    r = conduct_record_command(absolute, ret_json, err);
    if (r < 0) {
        free(absolute);
        return r;
    }
    words = mst_json_at(*ret_json, "command", NULL);
    argv = calloc((size_t)cJSON_GetArraySize(words) + 4, sizeof(char *));
    if (!argv) {
        free(absolute);
        return mst_error_set(err, -ENOMEM, "resume: no memory");
    }
    cJSON_ArrayForEach(word, words)
    {
        if (word != words->child) /* "muster" */
            argv[count++] = word->valuestring;
    }
    argv[count++] = (char *)(uintptr_t) "--out";
    argv[count++] = absolute; /* kept to the end of the program, as argv is */
    cwd = mst_json_string_or(*ret_json, "cwd", "");
    if (cwd[0] != '\0' && chdir(cwd) < 0) {
        r = mst_error_errno(err, -errno, "enter '%s', where the experiment was begun", cwd);
        free(absolute);
        free(argv);
        return r;
    }
    *ret_argv = argv;
    *ret_argc = count;
    return 0;
}

/* The lists, once all options are known. */
static int settle(struct compare_settings *settings, struct mst_error *err)
{
    struct conduct_options *asked = &settings->options;
    int r = conduct_modes_parse(settings->modes, settings->host_network, settings->monitor, asked, err);

    if (r < 0)
        return mst_error_wrap(err, r, "option '--modes'");
    r = conduct_workloads_parse(settings->workloads, asked, err);
    if (r < 0)
        return mst_error_wrap(err, r, "option '--workloads'");
    r = settings->exchanges ? conduct_exchanges_parse(settings->exchanges, asked, err) : 0;
    if (r < 0)
        return mst_error_wrap(err, r, "option '--exchange'");
    if (settings->common.file_count == 0)
        return mst_error_set(err, -EINVAL, "option '--compose-file' is required (-c FILE)");
    if (!asked->name) {
        const char *slash = strrchr(settings->common.files[0], '/');
        static char name[NAME_BYTES + 1]; /* one command a process */
        (void)snprintf(name, sizeof name, "%.*s",
                       (int)strcspn(slash ? slash + 1 : settings->common.files[0], "."),
                       slash ? slash + 1 : settings->common.files[0]);
        asked->name = name;
    }
    asked->run_timeout_ns = settings->common.timeout_ns;
    asked->common = &settings->common;
    return 0;
}

static int parse(int argc, char **argv, struct compare_settings *settings, int *ret_status)
{
    *settings = (struct compare_settings){0};
    return cli_begin(&options, argc, argv, &settings->common, 0, 0, ret_status);
}

/* Options are moved about while they are parsed. Without the folder: an experiment is resumed in the one that
 * it is in. */
static const char **copy_words(int argc, char **argv)
{
    const char **words = calloc((size_t)argc + 1, sizeof(char *));
    size_t count = 0;

    for (int i = 0; words && i < argc; i++) {
        if (strcmp(argv[i], "--out") == 0 || strcmp(argv[i], "-o") == 0)
            i++;
        else if (strncmp(argv[i], "--out=", 6) != 0 && strncmp(argv[i], "-o", 2) != 0)
            words[count++] = argv[i];
    }
    return words;
}

static bool is_alone(int argc, char **argv)
{
    return argc == (strcmp(argv[1], "--resume") == 0 ? 3 : 2);
}

int verb_compare(int argc, char **argv)
{
    static struct compare_settings settings; /* too large for a stack frame */
    mst_cleanup(mst_freep) const char **words = copy_words(argc, argv);
    mst_cleanup(mst_json_deletep) cJSON *record = NULL;
    mst_cleanup(mst_freep) char **resumed = NULL;
    struct mst_error err = MST_ERROR_INIT;
    const bool alone = argc > 1 && is_alone(argc, argv); /* options are moved about while they are parsed */
    int status, r;

    if (!words)
        return MST_EXIT_FAILED;
    if (parse(argc, argv, &settings, &status) < 0)
        return status;
    if (settings.resume) {
        if (!alone) {
            (void)mst_error_set(&err, -EINVAL,
                                "option '--resume' stands alone: the experiment knows its own options");
            return cli_usage(&err);
        }
        r = resume(settings.resume, &record, &resumed, &argc, &err);
        launcher_release(&settings.options.launcher);
        if (r < 0)
            return r == -EBADMSG || r == -EINVAL || r == -ENOENT ? cli_usage(&err) : cli_end(NULL, r, &err);
        free(words);
        words = copy_words(argc, resumed);
        if (!words || parse(argc, resumed, &settings, &status) < 0)
            return words ? status : MST_EXIT_FAILED;
    }
    settings.options.command = words;
    r = settle(&settings, &err);
    if (r >= 0)
        r = conduct_experiment(&settings.options, &err);
    launcher_release(&settings.options.launcher);
    if (r < 0 && err.text[0] == '\0')
        return MST_EXIT_USAGE; /* told already */
    return cli_end(NULL, r, &err);
}
