/* SPDX-License-Identifier: Apache-2.0 */
/* Before an experiment: are its hosts there, alike, and idle? What each says of itself is a look; judging
 * looks takes no I/O. */
#ifndef EXPERIMENT_CHECKS_H
#define EXPERIMENT_CHECKS_H

#include "experiment/limits.h"
#include "muster/error.h"

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Of /proc/stat's first line, in ticks since the machine started. */
struct checks_ticks {
    uint64_t total, busy, steal; /* busy: all but idle and iowait */
};
int checks_parse_stat(const char *text, struct checks_ticks *ret_ticks);

/* One reading of a node's use. */
struct checks_reading {
    double t; /* unix seconds, the node's clock */
    struct checks_ticks ticks;
    double mhz, load1; /* -1: not known */
    uint64_t rx_bytes, tx_bytes;
};
void checks_read(struct checks_reading *ret_reading);
cJSON *
checks_reading_json(const struct checks_reading *reading); /* {"host":"node",...}; NULL without memory */
void checks_reading_parse(const cJSON *json, struct checks_reading *ret_reading);

struct checks_look {
    char hostname[128], muster[32], agent[64], agent_digest[72], boot_id[48], kernel[128], cpu_model[128];
    char congestion[16];         /* TCP's, where the launcher's command runs; "": not known */
    char limits_reason[512];     /* why limits cannot be made; "": they can */
    char encryption_reason[256]; /* why an encrypted overlay cannot; "": it can, or is not known */
    char address[16];            /* on the subnet that was asked for; "": none */
    uint32_t cpus, cgroup_version, containers; /* containers: control groups that look like one's */
    uint64_t memory_bytes, memory_available_bytes;
    double load1, busy_percent, steal_percent, mhz;
    double clock_offset_ms, round_trip_ms; /* of its clock against ours; filled in by who asked */
};

/* Of this machine; takes `sample_ms`, in which its use is measured. `agent` as execvp(3) would find it;
 * `subnet`: "" for none. Only the agent being missing is an error. */
int checks_look(const char *agent, const struct limits *limits, const char *subnet, unsigned sample_ms,
                struct checks_look *ret_look, struct mst_error *err);
cJSON *checks_look_json(const struct checks_look *look);
void checks_look_parse(const cJSON *json, struct checks_look *ret_look);

/* One warning a line. */
struct checks_warnings {
    char **items; /* owned */
    size_t count;
    bool no_memory;
};
/* A text that is there already is not added again. */
void checks_warn(struct checks_warnings *warnings, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void checks_warnings_release(struct checks_warnings *warnings);

struct checks_needs {
    const struct limits *limits; /* of one worker */
    unsigned workers_a_host;     /* at a time */
    bool has_bare, has_encrypted;
    const char *muster; /* our own version */
};

/* What makes numbers meaningless is an error: -EHOSTDOWN, the text names the hosts. What makes them doubtful,
 * warnings. */
int checks_judge(const struct checks_look *looks, const char *const *hosts, size_t count,
                 const struct checks_needs *needs, struct checks_warnings *warnings, struct mst_error *err);

#endif
