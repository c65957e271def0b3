/* SPDX-License-Identifier: Apache-2.0 */
/* An experiment: the same trainings in several modes, again and again, one mode beside the other. The plan is
 * made first (conduct_plan.c), every run is a turn (conduct_turn.c) of containers (conduct_container.c, by
 * `muster run`) or of bare processes (conduct_bare.c, through the launcher), and experiment.json tells at any
 * time what was done and what is left (conduct_record.c), so that an experiment that was ended can go on. */
#ifndef EXPERIMENT_CONDUCT_H
#define EXPERIMENT_CONDUCT_H

#include "cli.h"
#include "experiment/checks.h"
#include "experiment/conduct_job.h"
#include "experiment/launch.h"

#define CONDUCT_MODES_MAX     16
#define CONDUCT_EXCHANGES_MAX 8
#define CONDUCT_WORKLOADS_MAX 2
#define CONDUCT_HOSTS_MAX     JOB_WORKERS_MAX
#define CONDUCT_NAME_BYTES    33
#define CONDUCT_PATH_BYTES    512
#define CONDUCT_OUT_MAX_BYTES 256 /* behind it come a turn's folder, a run's and a file */

enum conduct_kind { CONDUCT_PROCESS, CONDUCT_CONTAINER };
enum conduct_network { CONDUCT_NETWORK_HOST, CONDUCT_NETWORK_OVERLAY, CONDUCT_NETWORK_ENCRYPTED };

struct conduct_mode {
    char name[CONDUCT_NAME_BYTES], label[96];
    enum conduct_kind kind;
    enum conduct_network network;
    bool monitor; /* containers: the stack's monitors run; processes: they are sampled */
};

struct conduct_options {
    struct cli_common *common;
    struct conduct_mode modes[CONDUCT_MODES_MAX];
    size_t mode_count, baseline;
    unsigned workloads[CONDUCT_WORKLOADS_MAX]; /* how many at a time, each a series of its own */
    size_t workloads_count;
    char exchanges[CONDUCT_EXCHANGES_MAX][16]; /* none: as the stack says */
    size_t exchange_count;
    unsigned repeats, warmups, attempts, port;
    const char *launcher_text, *muster, *agent, *host_folder; /* on the hosts */
    struct launcher launcher;
    const char *subnet, *data, *name, *out; /* NULL: not given */
    uint64_t run_timeout_ns;
    const char *const *command; /* as typed, ended by NULL */
};

/* --- the plan --- */

struct conduct_cell {
    char series[48], exchange[16];
    size_t mode;
    unsigned workloads, repeat, position, attempts; /* attempts: so far */
    bool is_warmup, is_complete, is_given_up;
};

struct conduct_plan {
    struct conduct_cell *cells; /* owned, in the order in which they are to be carried out */
    size_t count;
};

/* `exchange` stands for an exchange that was not chosen. */
int conduct_plan_make(const struct conduct_options *options, const char *exchange,
                      struct conduct_plan *ret_plan, struct mst_error *err);
void conduct_plan_release(struct conduct_plan *plan);
struct conduct_cell *conduct_plan_find(const struct conduct_plan *plan, const char *series, size_t mode,
                                       unsigned repeat, unsigned position);
size_t conduct_plan_left(const struct conduct_plan *plan);

/* "container,bare", with --host-network, --encrypted and --monitor both in mind. -EINVAL. */
enum conduct_monitor { CONDUCT_MONITOR_ON, CONDUCT_MONITOR_OFF, CONDUCT_MONITOR_BOTH };
int conduct_modes_parse(const char *text, bool with_host_network, enum conduct_monitor monitor,
                        struct conduct_options *options, struct mst_error *err);
int conduct_exchanges_parse(const char *text, struct conduct_options *options, struct mst_error *err);
int conduct_workloads_parse(const char *text, struct conduct_options *options, struct mst_error *err);
bool conduct_needs_engine(const struct conduct_options *options);
bool conduct_needs_hosts(
    const struct conduct_options *options); /* processes on them, or containers on their network */

/* --- the experiment --- */

struct conduct {
    const struct conduct_options *options; /* borrowed */
    struct cli_project work[CONDUCT_WORKLOADS_MAX];
    struct cli_common file_common[CONDUCT_WORKLOADS_MAX];
    char stacks[CONDUCT_WORKLOADS_MAX][STACK_NAME_BYTES];
    struct job jobs[CONDUCT_WORKLOADS_MAX];
    size_t job_count;
    const char *hosts[CONDUCT_HOSTS_MAX]; /* borrowed from the jobs */
    struct checks_look looks[CONDUCT_HOSTS_MAX];
    size_t host_count;
    bool has_looks;
    struct conduct_plan plan;
    struct checks_warnings warnings;
    struct report report;
    int signal_fd;             /* borrowed */
    char *out, *self;          /* owned: its folder, and this program's path */
    char id[17], *host_folder; /* host_folder: with the id; owned */
    double started_s;
    char started_text[32];
    cJSON *data;    /* the data set's files: [{name, bytes, sha256}]; owned; NULL: none is sent */
    cJSON *entries; /* of experiment.json's runs, those that were begun; owned */
    cJSON *asked;   /* owned */
    unsigned next_number;
};

/* All of it. 0 when every planned run is complete; SWARM_WORKER_FAILED when some are not; -ECANCELED, and
 * what keeps an experiment from beginning. */
int conduct_experiment(const struct conduct_options *options, struct mst_error *err);

/* --- experiment.json --- */

enum conduct_state { CONDUCT_UNFINISHED, CONDUCT_COMPLETE, CONDUCT_INTERRUPTED, CONDUCT_FAILED };

/* What was asked for, which a resumed experiment must have in common with its beginning. */
int conduct_record_asked(const struct conduct *conduct, cJSON **ret_asked, struct mst_error *err);
int conduct_record_write(const struct conduct *conduct, enum conduct_state state, const char *reason,
                         struct mst_error *err);
/* Take up what the folder's experiment.json tells, when there is one: 1; 0 when not. -EINVAL when it is
 * another's. */
int conduct_record_resume(struct conduct *conduct, struct mst_error *err);
/* --resume DIR: the command that began it, with the folder it was given in. *ret_json owns the words. */
int conduct_record_command(const char *out, cJSON **ret_json, struct mst_error *err);

/* A run's entry: as planned, then with what became of it. */
cJSON *conduct_entry_new(const struct conduct *conduct, const struct conduct_cell *cell, unsigned number,
                         const char *state);
int conduct_entry_set_text(cJSON *entry, const char *key, const char *text); /* NULL: null */
int conduct_entry_set_number(cJSON *entry, const char *key, double value);   /* negative: null */

/* --- a call to a host, through the launcher --- */

struct conduct_call {
    const char *host, *name; /* name: of the call, for messages */
    cJSON *request;          /* owned once started */
    int (*on_json)(struct conduct_call *call, const cJSON *json, struct mst_error *err);
    int (*on_event)(struct conduct_call *call, const char *line, size_t count, struct mst_error *err);
    int (*on_file)(struct conduct_call *call, const char *name, const void *bytes, size_t count,
                   struct mst_error *err);
    int (*on_complaint)(struct conduct_call *call, const char *line, struct mst_error *err);
    int (*on_asked)(struct conduct_call *call,
                    struct mst_error *err); /* the request is under way: send what follows */
    void *context;
    size_t index;
    struct launch *launch;
    unsigned strange_lines;
    bool said_hello, said_end;
    int code;
    uint64_t asked_ns;
    char text[MST_ERROR_TEXT_BYTES];
};

int conduct_call_start(struct conduct *conduct, struct launches *set, struct conduct_call *call,
                       struct mst_error *err);
/* Of one that has ended: 0, or why not, with the host's name. */
int conduct_call_result(const struct conduct_call *call, struct mst_error *err);
/* Serve `set` until all of `calls` have ended; the first that failed ends the others. */
int conduct_calls_await(struct launches *set, struct conduct_call *calls, size_t count, uint64_t deadline_ns,
                        struct mst_error *err);
cJSON *conduct_request(const char *verb, const struct conduct *conduct); /* {"do":verb,"folder":...} */

/* On all hosts: look at them; give them the data; take it away. */
int conduct_hosts_look(struct conduct *conduct, struct mst_error *err);
int conduct_hosts_prepare(struct conduct *conduct, struct mst_error *err);
int conduct_hosts_remove(struct conduct *conduct, struct mst_error *err);
int conduct_data_list(const char *folder, cJSON **ret_list, struct mst_error *err);

/* --- a turn --- */

struct turn_reading {
    struct checks_reading first, start, last;
    size_t count;
    bool has_start;
    struct mst_buf rows; /* of nodes.csv */
    struct checks_reading before_row;
};

struct turn {
    struct conduct *conduct;
    const struct conduct_cell *cell;
    const struct conduct_mode *mode;
    unsigned number;
    char folder[CONDUCT_PATH_BYTES];                             /* of this turn */
    char run_folders[CONDUCT_WORKLOADS_MAX][CONDUCT_PATH_BYTES]; /* "" until known */
    struct launches set;
    struct conduct_call watches[CONDUCT_HOSTS_MAX];
    struct turn_reading readings[CONDUCT_HOSTS_MAX];
    uint64_t deadline_ns;
    double ordered_s;
};

/* Carry out a cell; its entry in conduct->entries tells how it went. 0: complete; -ECANCELED; else failed. */
int conduct_turn(struct conduct *conduct, struct conduct_cell *cell, struct mst_error *err);
/* Until all workloads of the turn are done and their run folders whole. */
int conduct_bare(struct turn *turn, struct mst_error *err);
int conduct_container(struct turn *turn, struct mst_error *err);
/* The second stack file that makes a mode of the first. */
int conduct_override(const struct turn *turn, unsigned workload, struct mst_buf *text, struct mst_error *err);
/* Where a worker of the turn has its files on its host. */
void turn_host_name(const struct turn *turn, unsigned workload, const char *host, char *name, size_t bytes);

#endif
