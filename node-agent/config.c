/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "membership.h"
#include "muster/cleanup.h"
#include "muster/parse.h"
#include "muster/trainer.h"

#include <stdlib.h>
#include <string.h>

#define DEFAULT_USER "65532" /* the image's unprivileged user */

/* Most setters differ in a field and its bounds only. */
#define SET_TEXT(field)                                                                                      \
    static int set_##field(void *settings, const char *text, struct mst_error *err)                          \
    {                                                                                                        \
        if (*text == '\0')                                                                                   \
            return mst_error_set(err, -EINVAL, "must not be empty");                                         \
        ((struct agent_config *)settings)->field = text;                                                     \
        return 0;                                                                                            \
    }
#define SET_U32(field, min, max)                                                                             \
    static int set_##field(void *settings, const char *text, struct mst_error *err)                          \
    {                                                                                                        \
        return mst_parse_u32(text, (min), (max), &((struct agent_config *)settings)->field, err);            \
    }
#define SET_BOOL(field)                                                                                      \
    static int set_##field(void *settings, const char *text, struct mst_error *err)                          \
    {                                                                                                        \
        return mst_parse_bool(text, &((struct agent_config *)settings)->field, err);                         \
    }

SET_TEXT(cluster)
SET_TEXT(slot)
SET_TEXT(key_file)
SET_TEXT(model)
SET_TEXT(data)
SET_TEXT(out)
SET_TEXT(xml)
SET_TEXT(state)
SET_U32(epochs, 1, 100000) /* the history of more would be larger than a history may be */
SET_U32(steps, 1, 1000000000)
SET_U32(batch, 1, 65536)
SET_U32(threads, 0, 256)
SET_BOOL(insecure)
SET_BOOL(standalone)
SET_BOOL(collect)
SET_BOOL(step_log)
SET_BOOL(allow_minority)
SET_U32(checkpoint_steps, 0, 1000000000)

static int set_run(void *settings, const char *text, struct mst_error *err)
{
    if (strlen(text) > TRAINER_RUN_MAX_BYTES)
        return mst_error_set(err, -EINVAL, "a name of more than %d bytes", TRAINER_RUN_MAX_BYTES);
    ((struct agent_config *)settings)->run = text; /* may be empty: what a stack sets to nothing */
    return 0;
}

/* N, or MIN:MAX. */
static int set_workers(void *settings, const char *text, struct mst_error *err)
{
    struct agent_config *config = settings;
    const char *colon = strchr(text, ':');
    char least[16];
    const size_t bytes = colon ? (size_t)(colon - text) : strlen(text);
    if (bytes >= sizeof least)
        return mst_error_set(err, -EINVAL, "'%.64s' is neither N nor MIN:MAX", text);
    memcpy(least, text, bytes);
    least[bytes] = '\0';
    int r = mst_parse_u32(least, 1, MEMBERSHIP_MAX_WORKERS, &config->workers, err);
    config->workers_max = config->workers;
    if (r == 0 && colon)
        r = mst_parse_u32(colon + 1, config->workers, MEMBERSHIP_MAX_WORKERS, &config->workers_max, err);
    return r;
}

static int set_exchange(void *settings, const char *text, struct mst_error *err)
{
    struct agent_config *config = settings;
    config->ring = strcmp(text, "ring") == 0;
    if (!config->ring && strcmp(text, "direct") != 0)
        return mst_error_set(err, -EINVAL, "'%.64s' is neither direct nor ring", text);
    return 0;
}

static int set_port(void *settings, const char *text, struct mst_error *err)
{
    uint32_t port;
    const int r = mst_parse_u32(text, 1, 65535, &port, err);
    if (r == 0)
        ((struct agent_config *)settings)->port = (uint16_t)port;
    return r;
}

static int set_subnet(void *settings, const char *text, struct mst_error *err)
{
    struct agent_config *config = settings;
    config->has_subnet = true;
    return mst_parse_cidr(text, &config->subnet, err);
}

static int set_wait(void *settings, const char *text, struct mst_error *err)
{
    return mst_parse_duration_ns(text, &((struct agent_config *)settings)->wait_ns, err);
}

static int set_lr(void *settings, const char *text, struct mst_error *err)
{
    return mst_parse_double(text, 1e-12, 1e3, &((struct agent_config *)settings)->lr, err);
}

static int set_momentum(void *settings, const char *text, struct mst_error *err)
{
    return mst_parse_double(text, 0, 0.9999, &((struct agent_config *)settings)->momentum, err);
}

static int set_seed(void *settings, const char *text, struct mst_error *err)
{
    return mst_parse_u64(text, 0, UINT64_MAX, &((struct agent_config *)settings)->seed, err);
}

static int set_user(void *settings, const char *text, struct mst_error *err)
{
    struct agent_config *config = settings;
    uint32_t uid, gid;
    config->keep_user = strcmp(text, "none") == 0;
    if (config->keep_user)
        return 0;
    char first[16];
    const size_t bytes = strcspn(text, ":");
    if (bytes < sizeof first) {
        memcpy(first, text, bytes);
        first[bytes] = '\0';
        if (mst_parse_u32(first, 1, UINT32_MAX - 1, &uid, NULL) == 0 &&
            mst_parse_u32(text[bytes] ? text + bytes + 1 : first, 1, UINT32_MAX - 1, &gid, NULL) == 0) {
            config->uid = uid;
            config->gid = gid;
            return 0;
        }
    }
    return mst_error_set(err, -EINVAL, "'%.64s' is neither UID[:GID] (not 0) nor 'none'", text);
}

static int add_peer(struct agent_config *config, const char *text, struct mst_error *err)
{
    char address[MST_IPV4_TEXT_BYTES];
    const size_t bytes = strcspn(text, ":");
    struct config_address peer = {0};
    uint32_t port = 0;
    if (config->peer_count == CONFIG_PEERS_MAX)
        return mst_error_set(err, -EINVAL, "more than %d peers", CONFIG_PEERS_MAX);
    if (bytes >= sizeof address)
        return mst_error_set(err, -EINVAL, "'%.64s' is not an address such as 10.0.0.1 or 10.0.0.1:7070",
                             text);
    memcpy(address, text, bytes);
    address[bytes] = '\0';
    int r = mst_parse_ipv4(address, &peer.ipv4, err);
    if (r == 0 && text[bytes] == ':')
        r = mst_parse_u32(text + bytes + 1, 1, 65535, &port, err);
    if (r < 0)
        return r;
    peer.port = (uint16_t)port;
    struct config_address *peers = reallocarray(config->peers, config->peer_count + 1, sizeof *peers);
    if (!peers)
        return mst_error_set(err, -ENOMEM, "no memory");
    config->peers = peers;
    config->peers[config->peer_count++] = peer;
    return 0;
}

static int set_peers(void *settings, const char *text, struct mst_error *err)
{
    mst_cleanup(mst_freep) char *list = strdup(text);
    if (!list)
        return mst_error_set(err, -ENOMEM, "no memory");
    char *rest = list;
    for (char *one = strsep(&rest, ","); one; one = strsep(&rest, ",")) {
        const int r = add_peer(settings, one, err);
        if (r < 0)
            return r;
    }
    return 0;
}

static int set_format(void *settings, const char *text, struct mst_error *err)
{
    struct agent_config *config = settings;
    config->json = strcmp(text, "json") == 0;
    if (!config->json && strcmp(text, "table") != 0)
        return mst_error_set(err, -EINVAL, "'%.64s' is neither table nor json", text);
    return 0;
}

static int set_log_format(void *settings, const char *text, struct mst_error *err)
{
    struct agent_config *config = settings;
    config->log_format = strcmp(text, "json") == 0 ? MST_LOG_JSON : MST_LOG_TEXT;
    if (config->log_format == MST_LOG_TEXT && strcmp(text, "text") != 0)
        return mst_error_set(err, -EINVAL, "'%.64s' is neither text nor json", text);
    return 0;
}

static int set_verbose(void *settings, const char *text, struct mst_error *err)
{
    bool on;
    const int r = mst_parse_bool(text, &on, err);
    if (r == 0 && on)
        ((struct agent_config *)settings)->log_level = MST_LOG_DEBUG;
    return r;
}

/* Entries that several verbs share. */
#define OPTION_CLUSTER                                                                                       \
    {                                                                                                        \
        .name = "cluster", .argument = "NAME", .env = "MUSTER_CLUSTER", .fallback = "muster",                \
        .help = "only agents of this name meet (a stack's name)", .set = set_cluster                         \
    }
#define OPTION_SLOT                                                                                          \
    {                                                                                                        \
        .name = "slot", .argument = "NAME", .env = "MUSTER_SLOT",                                            \
        .help = "this agent's own name, kept over restarts; the host's name when not given", .set = set_slot \
    }
#define OPTION_SUBNET                                                                                        \
    {                                                                                                        \
        .name = "subnet", .argument = "CIDR", .env = "MUSTER_SUBNET",                                        \
        .help = "subnet to search, one that is attached here; chosen among the\n"                            \
                "interfaces without the default route when not given",                                       \
        .set = set_subnet                                                                                    \
    }
#define OPTION_PORT                                                                                          \
    {                                                                                                        \
        .name = "port", .argument = "PORT", .env = "MUSTER_PORT", .fallback = "7070",                        \
        .help = "TCP port for hello, control and data", .set = set_port                                      \
    }
#define OPTION_KEY_FILE                                                                                      \
    {                                                                                                        \
        .name = "key-file", .argument = "FILE", .env = "MUSTER_KEY_FILE",                                    \
        .fallback = "/run/secrets/muster_key", .help = "the shared key, 32 to 1024 bytes",                   \
        .set = set_key_file                                                                                  \
    }
#define OPTION_INSECURE                                                                                      \
    {                                                                                                        \
        .name = "insecure", .kind = MST_OPT_FLAG, .env = "MUSTER_INSECURE",                                  \
        .help = "run without a key: anybody on the subnet may join", .set = set_insecure                     \
    }
#define OPTION_USER                                                                                          \
    {                                                                                                        \
        .name = "user", .argument = "UID[:GID]", .env = "MUSTER_USER", .fallback = DEFAULT_USER,             \
        .help = "what to become when started as root, or 'none'", .set = set_user                            \
    }
#define OPTION_OUT(default_folder)                                                                           \
    {                                                                                                        \
        .name = "out", .argument = "DIR", .env = "MUSTER_OUT", .fallback = (default_folder),                 \
        .help = "folder for the results", .set = set_out                                                     \
    }
#define OPTIONS_LOG                                                                                          \
    {.name = "verbose",                                                                                      \
     .letter = 'v',                                                                                          \
     .kind = MST_OPT_FLAG,                                                                                   \
     .env = "MUSTER_VERBOSE",                                                                                \
     .help = "log at debug level",                                                                           \
     .set = set_verbose},                                                                                    \
    {                                                                                                        \
        .name = "log-format", .argument = "FORMAT", .env = "MUSTER_LOG_FORMAT", .fallback = "text",          \
        .help = "text or json", .set = set_log_format                                                        \
    }

static const struct mst_option train_table[] = {
    {.name = "model",
     .argument = "FILE",
     .env = "MUSTER_MODEL",
     .help = "model file (JSON)",
     .set = set_model,
     .required = true},
    {.name = "data",
     .argument = "DIR",
     .env = "MUSTER_DATA",
     .help = "folder with the data set's IDX files",
     .set = set_data,
     .required = true},
    {.name = "workers",
     .argument = "N|MIN:MAX",
     .env = "MUSTER_WORKERS",
     .fallback = "1",
     .help = "workers that train together, 1 to 1024: a number,\n"
             "or the least and the most",
     .set = set_workers},
    {.name = "exchange",
     .argument = "KIND",
     .env = "MUSTER_EXCHANGE",
     .fallback = "direct",
     .help = "of gradients: direct (sums in the order of the shards) or ring",
     .set = set_exchange},
    {.name = "epochs",
     .argument = "N",
     .env = "MUSTER_EPOCHS",
     .fallback = "12",
     .help = "epochs to train",
     .set = set_epochs},
    {.name = "steps",
     .argument = "N",
     .env = "MUSTER_STEPS",
     .fallback = "70",
     .help = "steps an epoch",
     .set = set_steps},
    {.name = "batch",
     .argument = "N",
     .env = "MUSTER_BATCH",
     .fallback = "64",
     .help = "samples a worker and step",
     .set = set_batch},
    {.name = "lr",
     .argument = "X",
     .env = "MUSTER_LR",
     .fallback = "0.001",
     .help = "learning rate",
     .set = set_lr},
    {.name = "momentum",
     .argument = "X",
     .env = "MUSTER_MOMENTUM",
     .fallback = "0",
     .help = "of SGD, 0 to 0.9999",
     .set = set_momentum},
    {.name = "seed",
     .argument = "N",
     .env = "MUSTER_SEED",
     .fallback = "1",
     .help = "of weights and sample order",
     .set = set_seed},
    {.name = "threads",
     .argument = "N",
     .env = "MUSTER_THREADS",
     .fallback = "0",
     .help = "for the arithmetic; 0: as many as quota and affinity allow",
     .set = set_threads},
    {.name = "standalone",
     .kind = MST_OPT_FLAG,
     .env = "MUSTER_STANDALONE",
     .help = "train alone: no network at all",
     .set = set_standalone},
    {.name = "peers",
     .argument = "A,B,...",
     .env = "MUSTER_PEERS",
     .help = "addresses of all workers, ADDRESS[:PORT]: no sweep",
     .set = set_peers},
    {.name = "wait",
     .argument = "TIME",
     .env = "MUSTER_WAIT",
     .fallback = "60s",
     .help = "how long to wait for the other workers",
     .set = set_wait},
    {.name = "state",
     .argument = "DIR",
     .env = "MUSTER_STATE",
     .help = "this worker's own folder for what a restart must find:\n"
             "its last agreement, and checkpoints",
     .set = set_state},
    {.name = "run",
     .argument = "TEXT",
     .env = "MUSTER_RUN",
     .fallback = "",
     .help = "name of this run: state of another one is not taken up",
     .set = set_run},
    {.name = "checkpoint-steps",
     .argument = "N",
     .env = "MUSTER_CHECKPOINT_STEPS",
     .fallback = "0",
     .help = "steps from one checkpoint to the next; 0: those of an epoch",
     .set = set_checkpoint_steps},
    {.name = "allow-minority",
     .kind = MST_OPT_FLAG,
     .env = "MUSTER_ALLOW_MINORITY",
     .help = "go on with fewer than half of the workers: nobody else\n"
             "may be training the same job",
     .set = set_allow_minority},
    {.name = "collect",
     .kind = MST_OPT_FLAG,
     .env = "MUSTER_COLLECT",
     .help = "hand the result files to the cluster's collector",
     .set = set_collect},
    {.name = "step-log",
     .kind = MST_OPT_FLAG,
     .env = "MUSTER_STEP_LOG",
     .help = "write steps-SLOT.csv, a row a step",
     .set = set_step_log},
    OPTION_OUT("."),
    OPTION_CLUSTER,
    OPTION_SLOT,
    OPTION_SUBNET,
    OPTION_PORT,
    OPTION_KEY_FILE,
    OPTION_INSECURE,
    OPTION_USER,
    OPTIONS_LOG,
};

static const struct mst_option collect_table[] = {
    OPTION_OUT("/runs"), OPTION_CLUSTER,  OPTION_SLOT, OPTION_SUBNET, OPTION_PORT,
    OPTION_KEY_FILE,     OPTION_INSECURE, OPTION_USER, OPTIONS_LOG,
};

static const struct mst_option scan_table[] = {
    {.name = "xml", .argument = "FILE", .help = "write the result as nmap-style XML", .set = set_xml},
    {.name = "format", .argument = "FORMAT", .fallback = "table", .help = "table or json", .set = set_format},
    {.name = "wait",
     .argument = "TIME",
     .env = "MUSTER_WAIT",
     .fallback = "5s",
     .help = "deadline of the whole scan",
     .set = set_wait},
    OPTION_CLUSTER,
    OPTION_SLOT,
    OPTION_SUBNET,
    OPTION_PORT,
    OPTION_KEY_FILE,
    OPTION_INSECURE,
    OPTION_USER,
    OPTIONS_LOG,
};

static const struct mst_option health_table[] = {
    OPTION_PORT,
    OPTIONS_LOG,
};

static const struct mst_options verbs[] = {
    [CONFIG_TRAIN] = {.program = "muster-agent",
                      .verb = "train",
                      .synopsis = "--model FILE --data DIR [options]",
                      .about =
                          "Find the other workers on the subnet, agree on who they are, and train with them.",
                      .table = train_table,
                      .count = MST_ARRAY_COUNT(train_table)},
    [CONFIG_COLLECT] = {.program = "muster-agent",
                        .verb = "collect",
                        .synopsis = "[options]",
                        .about = "Receive every worker's result files and keep them until they are fetched.",
                        .table = collect_table,
                        .count = MST_ARRAY_COUNT(collect_table)},
    [CONFIG_SCAN] = {.program = "muster-agent",
                     .verb = "scan",
                     .synopsis = "[options]",
                     .about = "One discovery round: who is on the subnet, and who of them is a worker.",
                     .table = scan_table,
                     .count = MST_ARRAY_COUNT(scan_table)},
    [CONFIG_HEALTH] = {.program = "muster-agent",
                       .verb = "health",
                       .synopsis = "[options]",
                       .about =
                           "Ask the agent on this machine for its state; exit 0 when it is well, else 1.",
                       .table = health_table,
                       .count = MST_ARRAY_COUNT(health_table)},
};

const struct mst_options *config_options(enum config_verb verb)
{
    return &verbs[verb];
}

int config_read(enum config_verb verb, int argc, char **argv, struct agent_config *ret_config,
                struct mst_error *err)
{
    struct agent_config config = {.log_level = MST_LOG_INFO, .log_format = MST_LOG_TEXT};
    int operands = argc;
    int r = mst_options_parse(&verbs[verb], argc, argv, &config, &operands, err);
    if (r == 0 && operands < argc)
        r = mst_error_set(err, -EINVAL, "'%.64s': no operands are expected", argv[operands]);
    if (config.workers_max == 0) /* a verb without that option */
        config.workers = config.workers_max = 1;
    if (!config.run)
        config.run = "";
    if (r == 0 && config.standalone && config.workers_max > 1)
        r = mst_error_set(err, -EINVAL, "option '--standalone' trains with one worker, not with %u",
                          config.workers_max);
    if (r == 0 && config.peer_count > 0 && config.peer_count < config.workers)
        r = mst_error_set(err, -EINVAL, "option '--peers' names %zu addresses for %u workers",
                          config.peer_count, config.workers);
    if (r != 0) {
        config_release(&config);
        return r;
    }
    mst_log_init("muster-agent", config.log_level, config.log_format);
    *ret_config = config;
    return 0;
}

void config_release(struct agent_config *config)
{
    free(config->peers);
    config->peers = NULL;
}
