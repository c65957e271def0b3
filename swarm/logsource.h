/* SPDX-License-Identifier: Apache-2.0 */
/* Where a service's log comes from: the stdout and stderr of its tasks, each of them in order. Knows what was
 * seen of each, so that nothing comes twice when a log is read again, whatever the nodes' clocks did
 * meanwhile; and puts lines together that docker cut at 16 KiB. */
#ifndef SWARM_LOGSOURCE_H
#define SWARM_LOGSOURCE_H

#include "muster/buf.h"

#include <stdbool.h>
#include <stdint.h>

#define LOGSOURCE_TIMESTAMP_BYTES 40
#define LOGSOURCE_LINE_MAX_BYTES  ((size_t)256 << 10) /* a longer one comes in pieces of that size */

struct logsource {
    char task_id[64];
    unsigned stream;                        /* 1 stdout, 2 stderr */
    char last[LOGSOURCE_TIMESTAMP_BYTES];   /* of the message that came last */
    char newest[LOGSOURCE_TIMESTAMP_BYTES]; /* the highest so far; not the last after a clock went back */
    uint64_t last_hash, heard_ns;
    bool is_read_again;   /* and has not come to its last message so far */
    struct mst_buf begun; /* a line without its end */
    char begun_at[LOGSOURCE_TIMESTAMP_BYTES];
};

struct logsources {
    struct logsource *items; /* owned */
    size_t count;
};

void logsources_release(struct logsources *sources);
/* NULL when there are too many, or no memory. Valid until the next call. */
struct logsource *logsources_find(struct logsources *sources, const char *task_id, unsigned stream);
/* From now on everything may come again. */
void logsources_read_again(struct logsources *sources);
/* Unix seconds from which on the log must be read again; 0: from its beginning. */
double logsources_since_s(const struct logsources *sources);

/* False: seen before the log was read again. Else it is noted as seen. */
bool logsource_take(struct logsource *source, const char *timestamp, const char *text, size_t count);

/* Some of a line. 1: source->begun holds all of it, since source->begun_at, until logsource_ended(); 0: more
 * of it is to come; -ENOMEM. */
int logsource_join(struct logsource *source, const char *timestamp, const char *text, size_t count,
                   bool has_end);
void logsource_ended(struct logsource *source);

#endif
