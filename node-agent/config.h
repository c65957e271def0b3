/* SPDX-License-Identifier: Apache-2.0 */
/* What an agent is told: options from flags, environment and defaults. One struct serves all verbs; each
 * verb's table says which of it can be set. Texts are borrowed from argv and the environment. */
#ifndef AGENT_CONFIG_H
#define AGENT_CONFIG_H

#include "exec/settings.h"
#include "muster/discovery.h"
#include "muster/error.h"
#include "muster/log.h"
#include "muster/net.h"
#include "muster/opts.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define CONFIG_PEERS_MAX     1024
#define CONFIG_RUN_MAX_BYTES 255 /* of a run's name; what a checkpoint holds */

struct config_address {
    uint32_t ipv4;
    uint16_t port; /* 0: the agent's own */
};

/* What workers exchange in a step, and how. */
enum config_exchange {
    CONFIG_EXCHANGE_DIRECT,
    CONFIG_EXCHANGE_RING,
    CONFIG_EXCHANGE_FACTORS,
    CONFIG_EXCHANGE_SHARDED,
    CONFIG_EXCHANGE_AUTO,
    CONFIG_EXCHANGES
};

/* How a training alone shows how far it is. */
enum config_progress { CONFIG_PROGRESS_AUTO, CONFIG_PROGRESS_LINES, CONFIG_PROGRESS_NONE, CONFIG_PROGRESSES };

/* Options that a recipe may speak for where they are not given. */
enum config_given {
    CONFIG_GIVEN_LR = 1,
    CONFIG_GIVEN_MOMENTUM = 2,
    CONFIG_GIVEN_BATCH = 4,
    CONFIG_GIVEN_EPOCHS = 8,
    CONFIG_GIVEN_STEPS = 16,
    CONFIG_GIVEN_VALIDATION = 32,
    CONFIG_GIVEN_PATIENCE = 64
};

struct agent_config {
    /* who */
    const char *cluster;
    const char *slot; /* NULL: the host's name */
    const char *key_file;
    const char *old_key_file; /* NULL: no key is being replaced */
    bool key_given;           /* by flag or variable, not by default */
    bool insecure;
    bool keep_user; /* --user none */
    uid_t uid;
    gid_t gid;

    /* where */
    bool has_subnet;
    struct mst_cidr subnet;
    struct discovery_filter interface;
    const char *dns;      /* a name whose addresses are hints; NULL: none */
    const char *from_xml; /* a file of nmap's with hosts; NULL: none */
    uint16_t port;
    bool standalone;
    struct config_address *peers; /* owned, NULL: sweep */
    size_t peer_count;

    /* how many, and for how long to wait */
    uint32_t workers;     /* that a first view needs */
    uint32_t workers_max; /* that any view may have; equal to `workers`: a fixed number */
    bool allow_minority;
    uint64_t wait_ns;

    /* what a restart finds */
    const char *state;         /* folder, NULL: nothing is kept */
    const char *run;           /* state of another run is not taken up */
    uint32_t checkpoint_steps; /* 0: the steps of an epoch */

    /* what to train */
    const char *model, *data;
    const char *recipe;  /* file; NULL: none */
    unsigned given;      /* of enum config_given: by flag or variable, not by default */
    const char *init;    /* a saved model to begin with; NULL: random parameters */
    const char *weights; /* predict: the saved model */
    const char *part;    /* predict: of the data; NULL: chosen */
    uint32_t epochs, steps, batch, threads;
    double lr, momentum;
    double validation; /* share of the training samples that is kept apart */
    uint32_t patience; /* epochs without a better validation loss; 0: no end to it */
    uint64_t seed;
    enum config_exchange exchange;
    bool bf16;              /* gradients on the wire; else f32 */
    const char *congestion; /* TCP's, between workers; NULL: the host's */

    /* where to put it */
    const char *out;
    bool npz, onnx; /* files besides model.safetensors */
    bool collect;   /* hand the files to the cluster's collector */
    bool step_log;
    bool profile; /* where the time of each step goes; includes step_log */
    enum config_progress progress;

    struct exec_settings exec; /* the verb exec: CMD, and what becomes of it */

    /* scan */
    const char *xml;
    bool json;

    enum mst_log_level log_level;
    enum mst_log_format log_format;
};

enum config_verb { CONFIG_TRAIN, CONFIG_PREDICT, CONFIG_EXEC, CONFIG_COLLECT, CONFIG_SCAN, CONFIG_HEALTH };

/* The verb's options, for parsing and for --help. */
const struct mst_options *config_options(enum config_verb verb);
/* 0, 1 after --help, or -EINVAL. Operands are CMD and its arguments for exec, else an error. Sets up the
 * log. */
int config_read(enum config_verb verb, int argc, char **argv, struct agent_config *ret_config,
                struct mst_error *err);
void config_release(struct agent_config *config); /* usable with mst_cleanup() */

#endif
