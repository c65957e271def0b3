/* SPDX-License-Identifier: Apache-2.0 */
/* What the options' tables are made of: one setter an option (config_read.c), and the entries that several
 * verbs share. The tables are config.c's for muster-agent, and exec/launch_config.c's for muster-launch. */
#ifndef AGENT_CONFIG_PRIVATE_H
#define AGENT_CONFIG_PRIVATE_H

#include "config.h"

#define DEFAULT_USER "65532" /* the image's unprivileged user */

/* Where a Swarm puts the key. A name, not a literal, so that config_set_key_file() knows it by its address.
 */
extern const char config_default_key_file[];

/* As mst_option's `set`, over a struct agent_config. */
#define CONFIG_SETTER(name) int config_set_##name(void *settings, const char *text, struct mst_error *err)
CONFIG_SETTER(cluster);
CONFIG_SETTER(slot);
CONFIG_SETTER(key_file);
CONFIG_SETTER(old_key_file);
CONFIG_SETTER(interface);
CONFIG_SETTER(dns);
CONFIG_SETTER(from_xml);
CONFIG_SETTER(model);
CONFIG_SETTER(init);
CONFIG_SETTER(save_formats);
CONFIG_SETTER(recipe);
CONFIG_SETTER(weights);
CONFIG_SETTER(part);
CONFIG_SETTER(data);
CONFIG_SETTER(out);
CONFIG_SETTER(xml);
CONFIG_SETTER(state);
CONFIG_SETTER(epochs);
CONFIG_SETTER(steps);
CONFIG_SETTER(batch);
CONFIG_SETTER(threads);
CONFIG_SETTER(insecure);
CONFIG_SETTER(standalone);
CONFIG_SETTER(collect);
CONFIG_SETTER(step_log);
CONFIG_SETTER(profile);
CONFIG_SETTER(progress);
CONFIG_SETTER(allow_minority);
CONFIG_SETTER(checkpoint_steps);
CONFIG_SETTER(run);
CONFIG_SETTER(workers);
CONFIG_SETTER(exchange);
CONFIG_SETTER(wire);
CONFIG_SETTER(congestion);
CONFIG_SETTER(port);
CONFIG_SETTER(subnet);
CONFIG_SETTER(wait);
CONFIG_SETTER(lr);
CONFIG_SETTER(momentum);
CONFIG_SETTER(validation);
CONFIG_SETTER(patience);
CONFIG_SETTER(seed);
CONFIG_SETTER(user);
CONFIG_SETTER(peers);
CONFIG_SETTER(format);
CONFIG_SETTER(log_format);
CONFIG_SETTER(verbose);

/* The verb exec is the same in both programs (exec/config_exec.c). */
extern const struct mst_options config_exec_options;
/* CMD, and what follows from several options together. `operands` ends with NULL. */
int config_exec_complete(struct agent_config *config, int count, char *const *operands,
                         struct mst_error *err);

/* Entries that several verbs share. */
#define OPTION_CLUSTER                                                                                       \
    {                                                                                                        \
        .name = "cluster", .argument = "NAME", .env = "MUSTER_CLUSTER", .fallback = "muster",                \
        .help = "only agents of this name meet (a stack's name)", .set = config_set_cluster                  \
    }
#define OPTION_SLOT                                                                                          \
    {                                                                                                        \
        .name = "slot", .argument = "NAME", .env = "MUSTER_SLOT",                                            \
        .help = "this agent's own name, kept over restarts; the host's name when not given",                 \
        .set = config_set_slot                                                                               \
    }
#define OPTION_SUBNET                                                                                        \
    {                                                                                                        \
        .name = "subnet", .argument = "CIDR", .env = "MUSTER_SUBNET",                                        \
        .help = "subnet to search, one that is attached here; chosen among the\n"                            \
                "interfaces without the default route when not given",                                       \
        .set = config_set_subnet                                                                             \
    }
#define OPTION_INTERFACE                                                                                     \
    {                                                                                                        \
        .name = "interface", .argument = "NAME|CIDR|!NAME,...", .env = "MUSTER_INTERFACE",                   \
        .help = "interfaces that may be searched, or with '!' may not", .set = config_set_interface          \
    }
#define OPTION_DNS                                                                                           \
    {                                                                                                        \
        .name = "dns", .argument = "NAME", .env = "MUSTER_DNS",                                              \
        .help = "a name whose addresses are asked as well, such as\ntasks.SERVICE in a Swarm",               \
        .set = config_set_dns                                                                                \
    }
#define OPTION_FROM_XML                                                                                      \
    {                                                                                                        \
        .name = "from-xml", .argument = "FILE", .env = "MUSTER_FROM_XML",                                    \
        .help = "hosts to ask first, from a file of nmap -oX or --xml", .set = config_set_from_xml           \
    }
#define OPTION_PORT                                                                                          \
    {                                                                                                        \
        .name = "port", .argument = "PORT", .env = "MUSTER_PORT", .fallback = "7070",                        \
        .help = "TCP port for hello, control and data", .set = config_set_port                               \
    }
#define OPTION_KEY_FILE                                                                                      \
    {                                                                                                        \
        .name = "key-file", .argument = "FILE", .env = "MUSTER_KEY_FILE",                                    \
        .fallback = config_default_key_file, .help = "the shared key, 32 to 1024 bytes",                     \
        .set = config_set_key_file                                                                           \
    }
#define OPTION_OLD_KEY_FILE                                                                                  \
    {                                                                                                        \
        .name = "old-key-file", .argument = "FILE", .env = "MUSTER_OLD_KEY_FILE",                            \
        .help = "the key that --key-file replaces, good as well", .set = config_set_old_key_file             \
    }
#define OPTION_INSECURE                                                                                      \
    {                                                                                                        \
        .name = "insecure", .kind = MST_OPT_FLAG, .env = "MUSTER_INSECURE",                                  \
        .help = "run without a key: anybody on the subnet may join", .set = config_set_insecure              \
    }
#define OPTION_USER                                                                                          \
    {                                                                                                        \
        .name = "user", .argument = "UID[:GID]", .env = "MUSTER_USER", .fallback = DEFAULT_USER,             \
        .help = "what to become when started as root, or 'none'", .set = config_set_user                     \
    }
#define OPTION_OUT(default_folder)                                                                           \
    {                                                                                                        \
        .name = "out", .argument = "DIR", .env = "MUSTER_OUT", .fallback = (default_folder),                 \
        .help = "folder for the results", .set = config_set_out                                              \
    }
#define OPTION_WORKERS                                                                                       \
    {                                                                                                        \
        .name = "workers", .argument = "N|MIN:MAX", .env = "MUSTER_WORKERS", .fallback = "1",                \
        .help = "workers, 1 to 1024: a number,\n"                                                            \
                "or the least and the most",                                                                 \
        .set = config_set_workers                                                                            \
    }
#define OPTION_STANDALONE                                                                                    \
    {                                                                                                        \
        .name = "standalone", .kind = MST_OPT_FLAG, .env = "MUSTER_STANDALONE",                              \
        .help = "be the only worker: no network at all", .set = config_set_standalone                        \
    }
#define OPTION_PEERS                                                                                         \
    {                                                                                                        \
        .name = "peers", .argument = "A,B,...", .env = "MUSTER_PEERS",                                       \
        .help = "addresses of all workers, ADDRESS[:PORT]: no sweep", .set = config_set_peers                \
    }
#define OPTION_WAIT                                                                                          \
    {                                                                                                        \
        .name = "wait", .argument = "TIME", .env = "MUSTER_WAIT", .fallback = "60s",                         \
        .help = "how long to wait for the other workers", .set = config_set_wait                             \
    }
#define OPTION_STATE                                                                                         \
    {                                                                                                        \
        .name = "state", .argument = "DIR", .env = "MUSTER_STATE",                                           \
        .help = "this worker's own folder for what a restart must find:\n"                                   \
                "its last agreement, and checkpoints",                                                       \
        .set = config_set_state                                                                              \
    }
#define OPTION_RUN                                                                                           \
    {                                                                                                        \
        .name = "run", .argument = "TEXT", .env = "MUSTER_RUN",                                              \
        .help = "name of this run: state of another one is not taken up", .set = config_set_run              \
    }
#define OPTION_ALLOW_MINORITY                                                                                \
    {                                                                                                        \
        .name = "allow-minority", .kind = MST_OPT_FLAG, .env = "MUSTER_ALLOW_MINORITY",                      \
        .help = "go on with fewer than half of the workers: nobody else\n"                                   \
                "may be at the same job",                                                                    \
        .set = config_set_allow_minority                                                                     \
    }
#define OPTIONS_LOG                                                                                          \
    {.name = "verbose",                                                                                      \
     .letter = 'v',                                                                                          \
     .kind = MST_OPT_FLAG,                                                                                   \
     .env = "MUSTER_VERBOSE",                                                                                \
     .help = "log at debug level",                                                                           \
     .set = config_set_verbose},                                                                             \
    {                                                                                                        \
        .name = "log-format", .argument = "FORMAT", .env = "MUSTER_LOG_FORMAT", .fallback = "text",          \
        .help = "text or json", .set = config_set_log_format                                                 \
    }

#endif
