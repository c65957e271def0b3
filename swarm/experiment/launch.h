/* SPDX-License-Identifier: Apache-2.0 */
/* Programs that run elsewhere, through a launcher (`ssh {host} {cmd}`), and here: each is a child with pipes
 * to its three streams, and all of them are served by one loop. No call waits longer than its deadline.
 *
 * What a child says on stdout comes line by line. A line {"host":"file","name":...,"bytes":N} is followed by
 * N bytes, which come as one file. */
#ifndef EXPERIMENT_LAUNCH_H
#define EXPERIMENT_LAUNCH_H

#include "muster/buf.h"
#include "muster/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LAUNCH_WORDS_MAX      64
#define LAUNCH_LINE_MAX_BYTES ((size_t)1 << 20)
#define LAUNCH_FILE_MAX_BYTES ((size_t)4 << 30)
#define LAUNCH_TAIL_BYTES     1024

/* A launcher's command as words, in which {host} and {cmd} are still to be put in. */
struct launcher {
    char *words[LAUNCH_WORDS_MAX + 1]; /* owned, ended by NULL */
    size_t count;
};

/* Blanks part words; '...' and "..." hold them together. {cmd} must be there; "local" is short for "{cmd}".
 * -EINVAL. */
int launcher_parse(const char *text, struct launcher *ret_launcher, struct mst_error *err);
void launcher_release(struct launcher *launcher);
bool launcher_is_local(const struct launcher *launcher); /* no {host} in it */
/* The words of `command` (ended by NULL) on `host`. {cmd} alone becomes as many words; within a word, a text.
 * A remote shell may read them again, so that only harmless characters are let through: -EINVAL. *ret_words
 * is freed with launcher_words_free(). */
int launcher_words(const struct launcher *launcher, const char *host, const char *const *command,
                   char ***ret_words, struct mst_error *err);
void launcher_words_free(char **words);

struct launch;

/* A negative errno ends launches_round() with it. Any may be NULL. */
struct launch_handler {
    int (*on_line)(void *context, struct launch *launch, const char *line, size_t count,
                   struct mst_error *err);
    int (*on_complaint)(void *context, struct launch *launch, const char *line,
                        struct mst_error *err); /* stderr */
    int (*on_file)(void *context, struct launch *launch, const char *name, const void *bytes, size_t count,
                   struct mst_error *err);
};

struct launches {
    struct launch **items; /* owned */
    size_t count;
    int signal_fd; /* borrowed, never read: readable means to stop; -1: none */
    int wake_fd;   /* borrowed: readable ends a round with 1; -1: none */
};

#define LAUNCHES_INIT(fd)                                                                                    \
    {                                                                                                        \
        NULL, 0, (fd), -1                                                                                    \
    }

/* What a program is started with beside its words; NULL in its place: this process's environment. */
struct launch_setup {
    const char *const *environment; /* "NAME=VALUE", ended by NULL: the whole of it */
    int (*enter)(void *context);    /* in the child, before exec(3): 0 or a negative errno; NULL: nothing */
    void *context;
};

/* Start `words` (ended by NULL). It gets SIGTERM should this process die. `name` is for messages, copied. The
 * launch is the set's. */
int launches_add(struct launches *set, const char *const *words, const char *name,
                 const struct launch_setup *setup, const struct launch_handler *handler, void *context,
                 struct launch **ret_launch, struct mst_error *err);
/* Wait for something and serve it. 0; 1 by wake_fd; -ECANCELED on a signal; -ETIMEDOUT at `deadline_ns`; what
 * a handler returned. */
int launches_round(struct launches *set, uint64_t deadline_ns, struct mst_error *err);
size_t launches_running(const struct launches *set);
/* Have them end: close their stdin and serve them for `grace_ms`, then SIGTERM and as long again, then
 * SIGKILL. None runs afterwards. Handlers are still called; what they return is not looked at. */
void launches_end(struct launches *set, unsigned grace_ms);
void launches_release(struct launches *set); /* those that run are ended at once */

/* To its stdin, in this order. The bytes are copied; `fd` becomes the launch's own. */
int launch_send(struct launch *launch, const void *bytes, size_t count);
int launch_send_file(struct launch *launch, int fd, uint64_t count);
void launch_close(struct launch *launch); /* once all is sent: the end of its stdin */

const char *launch_name(const struct launch *launch);
bool launch_has_ended(const struct launch *launch);
int launch_status(const struct launch *launch);       /* exit status, or 128 and the signal */
const char *launch_tail(const struct launch *launch); /* last line on stderr, "" for none */
void launch_kill(struct launch *launch, int signal_number);

#endif
