/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"
#include "config_private.h"
#include "membership.h"
#include "muster/cleanup.h"
#include "muster/net.h"
#include "muster/parse.h"

#include <stdlib.h>
#include <string.h>

/* Most setters differ in a field and its bounds only. */
#define SET_TEXT(field)                                                                                      \
    int config_set_##field(void *settings, const char *text, struct mst_error *err)                          \
    {                                                                                                        \
        if (*text == '\0')                                                                                   \
            return mst_error_set(err, -EINVAL, "must not be empty");                                         \
        ((struct agent_config *)settings)->field = text;                                                     \
        return 0;                                                                                            \
    }
#define SET_U32(field, min, max)                                                                             \
    int config_set_##field(void *settings, const char *text, struct mst_error *err)                          \
    {                                                                                                        \
        return mst_parse_u32(text, (min), (max), &((struct agent_config *)settings)->field, err);            \
    }
#define SET_BOOL(field)                                                                                      \
    int config_set_##field(void *settings, const char *text, struct mst_error *err)                          \
    {                                                                                                        \
        return mst_parse_bool(text, &((struct agent_config *)settings)->field, err);                         \
    }

SET_TEXT(cluster)
SET_TEXT(slot)
SET_TEXT(old_key_file)
SET_TEXT(dns)
SET_TEXT(from_xml)
SET_TEXT(model)
SET_TEXT(init)
SET_TEXT(recipe)
SET_TEXT(weights)
SET_TEXT(data)
SET_TEXT(out)
SET_TEXT(xml)
SET_TEXT(state)
SET_U32(threads, 0, 256)
SET_BOOL(insecure)
SET_BOOL(standalone)
SET_BOOL(collect)
SET_BOOL(step_log)
SET_BOOL(profile)
SET_BOOL(allow_minority)
SET_U32(checkpoint_steps, 0, 1000000000)

const char config_default_key_file[] = "/run/secrets/muster_key";

int config_set_key_file(void *settings, const char *text, struct mst_error *err)
{
    struct agent_config *config = settings;
    if (*text == '\0')
        return mst_error_set(err, -EINVAL, "must not be empty");
    config->key_file = text;
    config->key_given = text != config_default_key_file;
    return 0;
}

/* The parser gives an option's own default when nothing else was given: the very text, not an equal one. */
static void note_given(struct agent_config *config, enum config_given option, const char *text)
{
    const struct mst_options *options = config_options(CONFIG_TRAIN);
    for (size_t i = 0; i < options->count; i++) {
        if (options->table[i].fallback == text)
            return;
    }
    config->given |= option;
}

#define SET_RECIPE_U32(field, min, max, option)                                                              \
    int config_set_##field(void *settings, const char *text, struct mst_error *err)                          \
    {                                                                                                        \
        note_given(settings, (option), text);                                                                \
        return mst_parse_u32(text, (min), (max), &((struct agent_config *)settings)->field, err);            \
    }
#define SET_RECIPE_DOUBLE(field, min, max, option)                                                           \
    int config_set_##field(void *settings, const char *text, struct mst_error *err)                          \
    {                                                                                                        \
        note_given(settings, (option), text);                                                                \
        return mst_parse_double(text, (min), (max), &((struct agent_config *)settings)->field, err);         \
    }

/* The history of more epochs would be larger than a history may be. */
SET_RECIPE_U32(epochs, 1, 100000, CONFIG_GIVEN_EPOCHS)
SET_RECIPE_U32(steps, 1, 1000000000, CONFIG_GIVEN_STEPS)
SET_RECIPE_U32(batch, 1, 65536, CONFIG_GIVEN_BATCH)
SET_RECIPE_U32(patience, 0, 100000, CONFIG_GIVEN_PATIENCE)
SET_RECIPE_DOUBLE(lr, 1e-12, 1e3, CONFIG_GIVEN_LR)
SET_RECIPE_DOUBLE(momentum, 0, 0.9999, CONFIG_GIVEN_MOMENTUM)
SET_RECIPE_DOUBLE(validation, 0, 0.99, CONFIG_GIVEN_VALIDATION)

int config_set_run(void *settings, const char *text, struct mst_error *err)
{
    if (strlen(text) > CONFIG_RUN_MAX_BYTES)
        return mst_error_set(err, -EINVAL, "a name of more than %d bytes", CONFIG_RUN_MAX_BYTES);
    ((struct agent_config *)settings)->run = text; /* may be empty: what a stack sets to nothing */
    return 0;
}

/* N, or MIN:MAX. */
int config_set_workers(void *settings, const char *text, struct mst_error *err)
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

int config_set_exchange(void *settings, const char *text, struct mst_error *err)
{
    static const char *const names[CONFIG_EXCHANGES] = {
        [CONFIG_EXCHANGE_DIRECT] = "direct",   [CONFIG_EXCHANGE_RING] = "ring",
        [CONFIG_EXCHANGE_FACTORS] = "factors", [CONFIG_EXCHANGE_SHARDED] = "sharded",
        [CONFIG_EXCHANGE_AUTO] = "auto",
    };
    for (int i = 0; i < CONFIG_EXCHANGES; i++) {
        if (strcmp(text, names[i]) == 0) {
            ((struct agent_config *)settings)->exchange = (enum config_exchange)i;
            return 0;
        }
    }
    return mst_error_set(err, -EINVAL, "'%.64s' is none of auto, direct, ring, factors and sharded", text);
}

int config_set_wire(void *settings, const char *text, struct mst_error *err)
{
    struct agent_config *config = settings;
    config->bf16 = strcmp(text, "bf16") == 0;
    if (!config->bf16 && strcmp(text, "f32") != 0)
        return mst_error_set(err, -EINVAL, "'%.64s' is neither f32 nor bf16", text);
    return 0;
}

/* Whether the kernel has it is asked once root is given up: train_check_congestion(). */
int config_set_congestion(void *settings, const char *text, struct mst_error *err)
{
    const size_t bytes = strlen(text);
    if (bytes == 0 || bytes > MST_CONGESTION_MAX_BYTES)
        return mst_error_set(err, -EINVAL, "'%.64s' is not a name of 1 to %d bytes", text,
                             MST_CONGESTION_MAX_BYTES);
    ((struct agent_config *)settings)->congestion = text;
    return 0;
}

int config_set_save_formats(void *settings, const char *text, struct mst_error *err)
{
    static const struct {
        const char *name;
        size_t offset;
    } formats[] = {{"npz", offsetof(struct agent_config, npz)},
                   {"onnx", offsetof(struct agent_config, onnx)}};
    struct agent_config *config = settings;
    mst_cleanup(mst_freep) char *list = strdup(text);
    if (!list)
        return mst_error_set(err, -ENOMEM, "no memory");
    char *rest = list;
    for (char *one = strsep(&rest, ","); one; one = strsep(&rest, ",")) {
        bool known = strcmp(one, "safetensors") == 0; /* which is always written */
        for (size_t f = 0; f < MST_ARRAY_COUNT(formats); f++) {
            if (strcmp(one, formats[f].name) != 0)
                continue;
            *(bool *)((char *)config + formats[f].offset) = true;
            known = true;
        }
        if (!known)
            return mst_error_set(err, -EINVAL, "'%.64s' is none of safetensors, npz and onnx", one);
    }
    return 0;
}

int config_set_progress(void *settings, const char *text, struct mst_error *err)
{
    static const char *const names[CONFIG_PROGRESSES] = {
        [CONFIG_PROGRESS_AUTO] = "auto", [CONFIG_PROGRESS_LINES] = "lines", [CONFIG_PROGRESS_NONE] = "none"};
    for (int i = 0; i < CONFIG_PROGRESSES; i++) {
        if (strcmp(text, names[i]) == 0) {
            ((struct agent_config *)settings)->progress = (enum config_progress)i;
            return 0;
        }
    }
    return mst_error_set(err, -EINVAL, "'%.64s' is none of auto, lines and none", text);
}

int config_set_part(void *settings, const char *text, struct mst_error *err)
{
    if (strcmp(text, "train") != 0 && strcmp(text, "test") != 0)
        return mst_error_set(err, -EINVAL, "'%.64s' is neither train nor test", text);
    ((struct agent_config *)settings)->part = text;
    return 0;
}

int config_set_port(void *settings, const char *text, struct mst_error *err)
{
    uint32_t port;
    const int r = mst_parse_u32(text, 1, 65535, &port, err);
    if (r == 0)
        ((struct agent_config *)settings)->port = (uint16_t)port;
    return r;
}

int config_set_interface(void *settings, const char *text, struct mst_error *err)
{
    return discovery_filter_parse(text, &((struct agent_config *)settings)->interface, err);
}

int config_set_subnet(void *settings, const char *text, struct mst_error *err)
{
    struct agent_config *config = settings;
    config->has_subnet = true;
    return mst_parse_cidr(text, &config->subnet, err);
}

int config_set_wait(void *settings, const char *text, struct mst_error *err)
{
    return mst_parse_duration_ns(text, &((struct agent_config *)settings)->wait_ns, err);
}

int config_set_seed(void *settings, const char *text, struct mst_error *err)
{
    return mst_parse_u64(text, 0, UINT64_MAX, &((struct agent_config *)settings)->seed, err);
}

int config_set_user(void *settings, const char *text, struct mst_error *err)
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

int config_set_peers(void *settings, const char *text, struct mst_error *err)
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

int config_set_format(void *settings, const char *text, struct mst_error *err)
{
    struct agent_config *config = settings;
    config->json = strcmp(text, "json") == 0;
    if (!config->json && strcmp(text, "table") != 0)
        return mst_error_set(err, -EINVAL, "'%.64s' is neither table nor json", text);
    return 0;
}

int config_set_log_format(void *settings, const char *text, struct mst_error *err)
{
    struct agent_config *config = settings;
    config->log_format = strcmp(text, "json") == 0 ? MST_LOG_JSON : MST_LOG_TEXT;
    if (config->log_format == MST_LOG_TEXT && strcmp(text, "text") != 0)
        return mst_error_set(err, -EINVAL, "'%.64s' is neither text nor json", text);
    return 0;
}

int config_set_verbose(void *settings, const char *text, struct mst_error *err)
{
    bool on;
    const int r = mst_parse_bool(text, &on, err);
    if (r == 0 && on)
        ((struct agent_config *)settings)->log_level = MST_LOG_DEBUG;
    return r;
}

/* Options that contradict each other: to let one win in silence would run another cluster than was meant. */
static int check_together(const struct agent_config *config, struct mst_error *err)
{
    if (config->patience > 0 && config->validation == 0 && !config->recipe)
        return mst_error_set(err, -EINVAL, "option '--patience' needs '--validation'");
    if (config->insecure && (config->key_given || config->old_key_file))
        return mst_error_set(err, -EINVAL, "option '--insecure' is to run without a key, and '%s' names one",
                             config->key_given ? "--key-file" : "--old-key-file");
    if (config->standalone && config->workers_max > 1)
        return mst_error_set(err, -EINVAL, "option '--standalone' is for one worker, not for %u",
                             config->workers_max);
    if (config->standalone && config->peer_count > 0)
        return mst_error_set(err, -EINVAL,
                             "option '--standalone' is without a network, and '--peers' names "
                             "workers of one");
    if (config->peer_count > 0 && config->peer_count < config->workers)
        return mst_error_set(err, -EINVAL, "option '--peers' names %zu addresses for %u workers",
                             config->peer_count, config->workers);
    return 0;
}

int config_read(enum config_verb verb, int argc, char **argv, struct agent_config *ret_config,
                struct mst_error *err)
{
    const struct mst_options *options = config_options(verb);
    struct agent_config config = {.log_level = MST_LOG_INFO, .log_format = MST_LOG_TEXT};
    int operands = argc;
    int r = mst_options_parse(options, argc, argv, &config, &operands, err);
    if (r == 0 && verb != CONFIG_EXEC && operands < argc)
        r = mst_error_set(err, -EINVAL, "'%.64s': no operands are expected", argv[operands]);
    if (r == 0 && verb == CONFIG_EXEC)
        r = config_exec_complete(&config, argc - operands, argv + operands, err);
    if (config.workers_max == 0) /* a verb without that option */
        config.workers = config.workers_max = 1;
    if (!config.run)
        config.run = "";
    config.step_log = config.step_log || config.profile;
    if (r == 0)
        r = check_together(&config, err);
    if (r != 0) {
        config_release(&config);
        return r;
    }
    mst_log_init(options->program, config.log_level, config.log_format);
    *ret_config = config;
    return 0;
}

void config_release(struct agent_config *config)
{
    free(config->peers);
    config->peers = NULL;
}
