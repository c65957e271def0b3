/* SPDX-License-Identifier: Apache-2.0 */
/* Stack files: YAML in, a typed and checked project out. No Docker, no network.
 *
 *     struct compose_options options = {.files = files, .file_count = 1, .stack = "mnist",
 *                                       .given = given, .environment = environ, .fallback = defaults};
 *     r = compose_project_load(&options, &project, err);
 *     ...                                   everything hangs off `project`, read-only
 *     compose_project_free(project);
 *
 * The way of a file: libyaml's events become a node tree (each node knows file, line and column), variables
 * are replaced, the schema turns nodes into the structs below (several files: one onto the other), and a last
 * pass sets defaults, sorts what docker sorts, and checks references. Errors read
 *
 *     stack.yml:14:17: services.web.deploy.replicas: 'three' is not a whole number
 *
 * What the format is: the Compose file format 3.x as `docker stack deploy` reads it, and what the Compose
 * specification adds to it, as far as a stack can use it (docs/stack-files.md).
 *
 * Conventions of the structs: texts are UTF-8, owned by the project, and NULL when absent; lists have a count
 * and `items` is NULL when it is 0; quantities carry their unit in the name; a `struct compose_maybe_...`
 * says whether the file had the key wherever docker makes a difference between absent and zero. "Docker: X"
 * in a comment says what the engine's API takes. */
#ifndef MUSTER_COMPOSE_H
#define MUSTER_COMPOSE_H

#include "muster/buf.h"
#include "muster/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define COMPOSE_FILE_MAX_BYTES   (4U << 20) /* a stack file, an env_file */
#define COMPOSE_SECRET_MAX_BYTES 511999U    /* the engine's own limit: less than 500 KiB */
#define COMPOSE_CONFIG_MAX_BYTES 1023999U   /* likewise: less than 1000 KiB */

/* Where in the files something stands. `file` as the user gave it; NULL: not from a file (a default). */
struct compose_place {
    const char *file;
    uint32_t line, column; /* from 1 */
};

struct compose_maybe_bool {
    bool is_set;
    bool value;
};

struct compose_maybe_u64 {
    bool is_set;
    uint64_t value;
};

struct compose_maybe_i64 {
    bool is_set;
    int64_t value;
};

struct compose_strings {
    const char **items;
    size_t count;
};

struct compose_pair {
    const char *key;
    const char *value; /* NULL only where a comment says so */
};

/* In the order of their keys (strcmp), each key once. */
struct compose_pairs {
    struct compose_pair *items;
    size_t count;
};

/* --- what stands at the top of the file --- */

struct compose_subnet {
    const char *subnet;   /* "192.168.0.0/24" */
    const char *gateway;  /* NULL: the engine's choice */
    const char *ip_range; /* NULL: the whole subnet */
};

struct compose_network {
    struct compose_place place;
    const char *key;
    const char *name;   /* in the engine; see compose_options.stack */
    bool external;      /* somebody else's: must exist, is never made or removed */
    bool is_used;       /* a service is attached: docker makes only these */
    bool is_default;    /* the network `default` that services get which name none */
    const char *driver; /* NULL: overlay */
    struct compose_pairs driver_opts;
    const char *ipam_driver;
    struct compose_subnet *subnets;
    size_t subnet_count;
    bool attachable, internal;
    struct compose_maybe_bool enable_ipv6; /* Compose specification */
    struct compose_pairs labels;
};

/* Volumes are not made by an API call: each node makes them when a task starts (Docker:
 * Mounts[].VolumeOptions). */
struct compose_volume {
    struct compose_place place;
    const char *key;
    const char *name;
    bool external;
    bool is_used;
    const char *driver; /* NULL: the engine's default */
    struct compose_pairs driver_opts;
    struct compose_pairs labels;
};

/* A secret or a config. */
struct compose_content {
    struct compose_place place;
    const char *key;
    const char *name;
    bool external;
    bool is_used;
    const char *path; /* of `file:`, made absolute; NULL: none */
    const unsigned char
        *bytes; /* what was in the file (or in `content:`); secrets are overwritten when freed */
    size_t byte_count;
    struct compose_pairs labels;
    const char *driver;
    struct compose_pairs driver_opts;
    const char *template_driver;
    /* `x-muster-generate: N` (16 to 1024; secrets only): muster makes N random bytes when the secret is
     * missing, although it is external for docker. 0: no. */
    uint32_t generate_bytes;
};

/* --- what a service refers to --- */

enum compose_mount_type {
    COMPOSE_MOUNT_VOLUME,
    COMPOSE_MOUNT_BIND,
    COMPOSE_MOUNT_TMPFS,
    COMPOSE_MOUNT_NPIPE,
    COMPOSE_MOUNT_CLUSTER,
    COMPOSE_MOUNT_IMAGE,
};

struct compose_mount {
    struct compose_place place;
    enum compose_mount_type type;
    /* Volume: its key, NULL for an anonymous one. Bind: an absolute path. May hold {{.Node.Hostname}} and
     * such. */
    const char *source;
    const char *target;
    bool read_only;
    const char *consistency;
    const struct compose_volume *volume;             /* what `source` names; NULL unless a named volume */
    bool has_bind, has_volume, has_tmpfs, has_image; /* the file has the section `bind:` ... */
    const char *bind_propagation;
    bool volume_nocopy;
    const char *volume_subpath, *image_subpath;
    uint64_t tmpfs_size_bytes; /* 0: no limit */
};

/* Secrets and configs as a service uses them. Sorted by the object's name as docker does. */
struct compose_content_use {
    struct compose_place place;
    const char *source;    /* the key at the top of the file */
    const char *target;    /* file name (secrets) or path (configs) in the container; never NULL */
    const char *uid, *gid; /* "0" by default */
    uint32_t mode;         /* 0444 by default */
    const struct compose_content *content; /* what `source` names */
};

/* A network as a service uses it. Sorted by the network's name as docker does. Docker appends the service's
 * key to the aliases, except on the predefined networks (host, bridge, none): that is the deployer's to do.
 */
struct compose_attachment {
    struct compose_place place;
    const char *network_key;
    const struct compose_network *network; /* what it names */
    struct compose_strings aliases;        /* as written */
    struct compose_pairs driver_opts;
};

struct compose_port {
    struct compose_place place;
    uint32_t target;
    uint32_t published; /* 0: the engine's choice */
    const char
        *protocol;    /* "tcp", "udp", "sctp"; NULL in a long form without it (the engine's default: tcp) */
    const char *mode; /* "ingress", "host"; NULL likewise */
};

enum compose_condition {
    COMPOSE_STARTED,
    COMPOSE_HEALTHY,
    COMPOSE_COMPLETED,
};

/* `depends_on`, in file order. Docker's stacks ignore it; no cycle is in it, so that whoever makes the
 * services can do so in its order. */
struct compose_dependency {
    struct compose_place place;
    const char *key;
    enum compose_condition condition;
    bool is_optional;                      /* `required: false` */
    const struct compose_service *service; /* what `key` names; NULL only when optional and not there */
};

struct compose_healthcheck {
    bool is_set;
    bool disable;                /* then test is {"NONE"} */
    struct compose_strings test; /* as the API takes it, "CMD" or "CMD-SHELL" or "NONE" first; may be empty */
    uint64_t interval_ns, timeout_ns, start_period_ns, start_interval_ns; /* 0: the image's or the default */
    uint64_t retries;                                                     /* 0 likewise */
};

struct compose_ulimit {
    const char *name;
    int64_t soft, hard; /* -1: unlimited */
};

struct compose_logging {
    bool is_set;
    const char *driver;
    struct compose_pairs options;
};

struct compose_credential_spec {
    bool is_set;
    const char *config, *file, *registry;
    const struct compose_content *content; /* what `config` names */
};

/* --- deploy: --- */

enum compose_mode {
    COMPOSE_MODE_REPLICATED,
    COMPOSE_MODE_GLOBAL,
    COMPOSE_MODE_REPLICATED_JOB,
    COMPOSE_MODE_GLOBAL_JOB,
};

struct compose_generic_resource {
    const char *kind;
    int64_t value;
};

struct compose_limits {
    bool is_set;
    int64_t nano_cpus;                        /* 1e9 is one core; 0: none */
    int64_t memory_bytes;                     /* 0: none */
    int64_t pids;                             /* limits only; 0: none */
    struct compose_generic_resource *generic; /* reservations only */
    size_t generic_count;
};

struct compose_restart_policy {
    bool is_set;
    const char *condition; /* "none", "on-failure", "any"; NULL: the engine's default */
    struct compose_maybe_u64 delay_ns, max_attempts, window_ns;
};

struct compose_update {
    bool is_set;
    struct compose_maybe_u64 parallelism; /* absent: docker sends 1; 0: all at once */
    uint64_t delay_ns, monitor_ns;
    const char *failure_action; /* NULL: the engine's default */
    double max_failure_ratio;
    const char *order; /* "start-first", "stop-first", NULL */
};

struct compose_deploy {
    enum compose_mode mode;
    struct compose_maybe_u64 replicas; /* for a job: total and concurrent */
    struct compose_pairs labels;       /* of the service */
    struct compose_limits limits, reservations;
    struct compose_restart_policy restart_policy; /* from the service's `restart:` when deploy has none */
    struct compose_strings constraints;           /* file order */
    struct compose_place *constraint_places;      /* as many */
    struct compose_strings spread;                /* placement.preferences[].spread, file order */
    uint64_t max_replicas_per_node;               /* 0: no limit */
    struct compose_update update_config, rollback_config;
    const char *endpoint_mode; /* "vip", "dnsrr", NULL */
};

/* --- services --- */

struct compose_service {
    struct compose_place place;
    const char *key;
    const char *name;                   /* "<stack>_<key>"; the key when no stack was given */
    const char *image;                  /* as in the file */
    struct compose_strings entrypoint;  /* Docker: ContainerSpec.Command */
    struct compose_strings command;     /* Docker: ContainerSpec.Args */
    struct compose_strings environment; /* "K=V", or "K" for a name without a value; sorted (strcmp) */
    const char *hostname, *user, *working_dir;
    struct compose_pairs labels;  /* of the containers */
    struct compose_mount *mounts; /* file order */
    size_t mount_count;
    struct compose_content_use *secrets;
    size_t secret_count;
    struct compose_content_use *configs;
    size_t config_count;
    struct compose_attachment *networks; /* never empty: `default` when the file names none */
    size_t network_count;
    struct compose_dependency *depends_on;
    size_t depends_on_count;
    struct compose_port *ports; /* sorted by published, target, protocol, mode */
    size_t port_count;
    struct compose_healthcheck healthcheck;
    struct compose_strings cap_add,
        cap_drop;                   /* as docker sends them: "CAP_NET_RAW" or "ALL", sorted, each once */
    struct compose_ulimit *ulimits; /* sorted by name */
    size_t ulimit_count;
    struct compose_pairs sysctls;
    struct compose_maybe_bool init;
    bool tty, stdin_open, read_only;
    struct compose_maybe_u64 stop_grace_period_ns;
    const char *stop_signal;
    struct compose_strings dns, dns_search;
    /* key: host name, value: address; file order, a name may come again. Docker: Hosts "ADDRESS NAME". */
    struct compose_pair *extra_hosts;
    size_t extra_host_count;
    struct compose_logging logging;
    struct compose_maybe_i64 oom_score_adj;
    const char *isolation;
    struct compose_credential_spec credential_spec;
    struct compose_deploy deploy;
};

struct compose_arena;

struct compose_project {
    const char *stack;                /* as in the options; NULL: none */
    const char *name;                 /* top-level `name:`; NULL */
    struct compose_service *services; /* file order, likewise below */
    size_t service_count;
    struct compose_network
        *networks; /* with `default` at the end when a service needs it and the file lacks it */
    size_t network_count;
    struct compose_volume *volumes;
    size_t volume_count;
    struct compose_content *secrets;
    size_t secret_count;
    struct compose_content *configs;
    size_t config_count;
    /* What was read but cannot take effect, one line each with place and path, in the order they were met:
     * "stack.yml:9:5: services.web.build: ignored: a stack does not build images". */
    struct compose_strings warnings;
    /* The env files whose variables were taken: docker reads none, so that a program says which. */
    struct compose_strings env_files;
    struct compose_arena *arena; /* all of the above */
};

struct compose_options {
    const char *const *files; /* the later ones onto the earlier; "-" is stdin, named so in errors */
    size_t file_count;
    /* Names the objects: "<stack>_<key>" wherever the file gives no name. NULL: `name` stays NULL there (but
     * a service's is its key). Must be a name that swarm takes: letters and digits with single '-' or '_'
     * runs between, at most 63 characters. */
    const char *stack;
    /* Variables, "NAME=VALUE" lists that end with NULL (each may be NULL); the first that has a name wins. */
    const char *const *given;       /* -e NAME=VALUE */
    const char *const *environment; /* environ */
    const char *const *fallback;    /* defaults of the caller's */
    /* --env-file: files of NAME=VALUE lines (docs/stack-files.md), the later over the earlier. Their
     * variables come behind `environment`. None: the file .env in the first stack file's folder, if there is
     * one. */
    const char *const *env_files;
    size_t env_file_count;
    bool *given_used; /* one for each of `given`, set once a file asks for it; NULL: not wanted. Borrowed. */
    bool strict;      /* warnings are errors: the first one is returned */
};

/* Read, merge and check. -EINVAL for a wrong option (stack's name, no file), -EBADMSG for what is wrong in a
 * file, -ENOENT and such for files that cannot be read. Nothing is left behind on an error. */
int compose_project_load(const struct compose_options *options, struct compose_project **ret_project,
                         struct mst_error *err);

/* The same for text at hand, named `file` in errors; relative paths are taken from `folder`. options->files
 * is not looked at. For tests and for stdin. */
int compose_project_parse(const char *text, size_t text_bytes, const char *file, const char *folder,
                          const struct compose_options *options, struct compose_project **ret_project,
                          struct mst_error *err);

void compose_project_free(struct compose_project *project);   /* NULL is fine */
void compose_project_freep(struct compose_project **project); /* for mst_cleanup() */

/* By key; NULL when there is none. */
const char *compose_pairs_find(const struct compose_pairs *pairs, const char *key);

/* 0 when swarm takes `stack` as a stack's name, else -EINVAL with the rule. */
int compose_stack_name_check(const char *stack, struct mst_error *err);

/* The project as YAML in the normalised form of `docker stack config` (keys sorted, short forms written
 * long), appended to `text`. Secret and config contents are not printed. 0, -EFBIG or -ENOMEM. */
int compose_project_print(const struct compose_project *project, struct mst_buf *text);

#endif
