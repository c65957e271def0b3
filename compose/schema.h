/* SPDX-License-Identifier: Apache-2.0 */
/* Nodes to structs, by tables. A mapping of the format is a `struct schema_field` table: for each key the
 * function that reads its value into a member of the struct. schema_map() walks a node by a table: a key that
 * is not in it is an error with a suggestion, a key that is there to be refused or ignored says so. Every
 * error and warning has the path of keys, which schema_map() and schema_list_...() keep in `load->path`.
 *
 * A setter is called once for each file that has the key, the later file onto what the earlier one left:
 * texts and numbers are replaced, lists are appended to, mappings are merged by key. That is the whole of
 * merging. */
#ifndef COMPOSE_SCHEMA_H
#define COMPOSE_SCHEMA_H

#include "arena.h"
#include "interpolate.h"
#include "muster/cleanup.h"
#include "node.h"

#include <stddef.h>

#define SCHEMA_MAX_PATH 72U /* levels; the reader's depth and some */

struct schema_path {
    const char *key; /* NULL: a list's item */
    size_t index;
};

/* What a service says that only counts when all files are read. */
struct schema_draft {
    struct compose_pairs environment; /* value NULL: a name alone */
    struct compose_strings env_files; /* absolute paths */
    bool *env_file_required;          /* as many */
    struct compose_strings label_files;
    const char *restart;
    struct compose_maybe_u64 scale;
    struct compose_place env_file_place, label_file_place, restart_place, replicas_place, scale_place;
};

/* The reading of one project. */
struct schema_load {
    struct compose_project *project;
    struct compose_arena *arena; /* the project's */
    const struct compose_options *options;
    struct interpolate_source source; /* of variables */
    const char *folder;               /* absolute: where relative paths start, the first file's folder */
    struct schema_draft *drafts;      /* one a service */
    size_t service_index;             /* the service that is being read */
    const char *version;              /* that a file has said; NULL: none yet */
    struct schema_path path[SCHEMA_MAX_PATH];
    size_t depth;
    struct mst_error *err;
};

struct schema_field;
typedef int schema_set(struct schema_load *load, const struct node *node, void *member,
                       const struct schema_field *field);

struct schema_field {
    const char *key;
    schema_set *set;
    size_t offset;
    const char *const *choices; /* schema_set_choice(): the words, NULL at the end */
    const char *advice;         /* schema_set_ignored(), _refused(): why, and what to do */
    bool may_be_null;           /* `key:` with nothing is as if it were absent */
};

#define SCHEMA_FIELD(name, setter, ...)                                                                      \
    {                                                                                                        \
        .key = (name), .set = (setter), .offset = __VA_ARGS__                                                \
    }

/* Read a map by a table into `target`. Keys "x-..." are fine if `extensions`. */
int schema_map(struct schema_load *load, const struct node *node, const struct schema_field *fields,
               size_t count, bool extensions, void *target);
/* The same where docker's schema lets any key pass and drops it: an unknown one is a warning. */
int schema_map_open(struct schema_load *load, const struct node *node, const struct schema_field *fields,
                    size_t count, void *target);

bool schema_has_key(const struct node *map, const char *key);

/* --- errors and warnings --- */

/* "place: path: text", -EBADMSG. */
int schema_fail(struct schema_load *load, const struct compose_place *place, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* One key further down than the path stands. */
#define SCHEMA_FAIL_AT(load, key, place, ...) (schema_enter(load, key), schema_fail(load, place, __VA_ARGS__))
int schema_fail_memory(struct schema_load *load);
/* "'three' is not <what>" or "a list is not <what>". */
int schema_fail_type(struct schema_load *load, const struct node *node, const char *what);
int schema_warn(struct schema_load *load, const struct compose_place *place, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
int schema_warn_unset(struct schema_load *load, const struct compose_place *place, const char *name);

/* Go down to a key or a list's item in the path; every enter has its leave, except when an error ends all. */
void schema_enter(struct schema_load *load, const char *key);
void schema_enter_item(struct schema_load *load, size_t index);
void schema_leave(struct schema_load *load);

/* --- single values --- */

int schema_text(struct schema_load *load, const struct node *node, const char **ret_text);
/* A text, a number (in Go's text form) or null ("" unless `may_be_null`, then NULL). */
int schema_loose_text(struct schema_load *load, const struct node *node, bool may_be_null,
                      const char **ret_text);
int schema_bool(struct schema_load *load, const struct node *node, bool *ret_value);
/* A whole number in [min, max], also as a text ("3"), which is what a variable gives. */
int schema_i64(struct schema_load *load, const struct node *node, int64_t min, int64_t max,
               int64_t *ret_value);
int schema_expect(struct schema_load *load, const struct node *node, enum node_kind kind);
/* `read` for each entry of a mapping, with its key on the path; the first error ends it. */
int schema_each(struct schema_load *load, const struct node *node,
                int (*read)(struct schema_load *load, const struct node_entry *entry, const void *context),
                const void *context);
/* Put a copy of `item` (item_bytes) behind the *count items that `list`, the address of a pointer to the
 * first, has in the project's arena. */
int schema_append(struct schema_load *load, void *list, size_t *count, const void *item, size_t item_bytes);

int schema_set_text(struct schema_load *load, const struct node *node, void *member,
                    const struct schema_field *f);
int schema_set_choice(struct schema_load *load, const struct node *node, void *member,
                      const struct schema_field *f);
/* The same for an enum whose value of each word is the word's index in `words`. */
int schema_choose(struct schema_load *load, const struct node *node, const struct schema_field *f,
                  const char *const *words, size_t *ret_index);
int schema_set_bool(struct schema_load *load, const struct node *node, void *member,
                    const struct schema_field *f);
int schema_set_maybe_bool(struct schema_load *load, const struct node *node, void *member,
                          const struct schema_field *f);
int schema_set_u64(struct schema_load *load, const struct node *node, void *member,
                   const struct schema_field *f);
int schema_set_maybe_u64(struct schema_load *load, const struct node *node, void *member,
                         const struct schema_field *f);
int schema_set_maybe_i64(struct schema_load *load, const struct node *node, void *member,
                         const struct schema_field *f);
int schema_set_duration(struct schema_load *load, const struct node *node, void *member,
                        const struct schema_field *f);
int schema_set_maybe_duration(struct schema_load *load, const struct node *node, void *member,
                              const struct schema_field *f);
int schema_set_bytes(struct schema_load *load, const struct node *node, void *member,
                     const struct schema_field *f);
int schema_set_ignored(struct schema_load *load, const struct node *node, void *member,
                       const struct schema_field *f);
int schema_set_refused(struct schema_load *load, const struct node *node, void *member,
                       const struct schema_field *f);

/* --- lists and mappings of texts --- */

int schema_strings_add(struct schema_load *load, struct compose_strings *list, const char *text);
/* Put or replace; `place` for the error when there are too many. */
int schema_pairs_put(struct schema_load *load, struct compose_pairs *pairs, const char *key,
                     const char *value, const struct compose_place *place);

/* A list in which each text stands once; another file's are added, what is there already is not added again.
 */
int schema_set_strings(struct schema_load *load, const struct node *node, void *member,
                       const struct schema_field *f);
/* The same, and a single text for a list of one. */
int schema_set_string_or_strings(struct schema_load *load, const struct node *node, void *member,
                                 const struct schema_field *f);
/* Words: a list of texts, or one text that is split as a shell would. Replaces. */
int schema_set_words(struct schema_load *load, const struct node *node, void *member,
                     const struct schema_field *f);
/* A mapping, or a list of "key=value". */
int schema_set_pairs(struct schema_load *load, const struct node *node, void *member,
                     const struct schema_field *f);
int schema_pairs(struct schema_load *load, const struct node *node, bool values_may_be_null,
                 struct compose_pairs *pairs);

/* A list of names, or a mapping with something for each: `read` gets each name, and the value that stands
 * with it (NULL in a list). `what`: for the error when it is neither. */
typedef int schema_read_named(struct schema_load *load, const char *name, const struct compose_place *place,
                              const struct node *value, struct compose_service *service);
int schema_each_named(struct schema_load *load, const struct node *node, const char *what,
                      schema_read_named *read, struct compose_service *service);

/* --- the subjects: one source file each --- */

schema_set schema_set_services;        /* service.c; member: the project, likewise for the next four */
schema_set schema_set_networks;        /* networks.c */
schema_set schema_set_volumes;         /* volumes.c */
schema_set schema_set_secrets;         /* contents.c */
schema_set schema_set_configs;         /* contents.c */
schema_set schema_set_deploy;          /* deploy.c; struct compose_deploy */
schema_set schema_set_attachments;     /* networks.c; struct compose_service, likewise for the rest */
schema_set schema_set_mounts;          /* volumes.c */
schema_set schema_set_secret_uses;     /* contents.c */
schema_set schema_set_config_uses;     /* contents.c */
schema_set schema_set_ports;           /* ports.c */
schema_set schema_set_healthcheck;     /* runtime.c */
schema_set schema_set_logging;         /* runtime.c */
schema_set schema_set_ulimits;         /* runtime.c */
schema_set schema_set_extra_hosts;     /* runtime.c */
schema_set schema_set_credential_spec; /* runtime.c */
schema_set schema_set_depends_on;      /* depends.c */
schema_set schema_set_environment;     /* environment.c */
schema_set schema_set_env_file;        /* environment.c */
schema_set schema_set_label_file;      /* environment.c */

/* env_file and `environment` together, into service->environment. */
int schema_finish_environment(struct schema_load *load, struct compose_service *service,
                              const struct schema_draft *draft);

/* label_file below `labels`, into service->labels. */
int schema_finish_labels(struct schema_load *load, struct compose_service *service,
                         const struct schema_draft *draft);

/* Find what each dependency names; a cycle is an error. When all services are read. */
int schema_resolve_depends_on(struct schema_load *load);

/* An absolute path from one of the file's: from `folder`, "~" is $HOME. */
int schema_path_resolve(struct schema_load *load, const struct node *node, const char *path,
                        const char **ret_path);

/* The names that swarm takes: 63 bytes, letters and digits, inside also runs of '-' and '_'. */
bool schema_is_swarm_name(const char *name);

/* `external:` and `name:` of what stands at the top; used by networks.c, volumes.c and contents.c. */
struct schema_external {
    bool is_set;      /* and true */
    const char *name; /* of the old form `external: {name: x}` */
    struct compose_place place;
};
schema_set schema_set_external; /* struct schema_external */
/* Settle name and external from what the file says; what else external objects may not have, is the caller's.
 */
int schema_settle_name(struct schema_load *load, const struct schema_external *external, const char *key,
                       const char **name, bool *is_external);

#endif
