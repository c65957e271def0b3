/* SPDX-License-Identifier: Apache-2.0 */
/* The options of muster-launch, where muster-agent has config.c. */
#include "config_private.h"
#include "muster/cleanup.h"

static const struct mst_option scan_table[] = {
    {.name = "format",
     .argument = "FORMAT",
     .fallback = "table",
     .help = "table or json; ips.xml is muster-agent's to write",
     .set = config_set_format},
    {.name = "wait",
     .argument = "TIME",
     .env = "MUSTER_WAIT",
     .fallback = "5s",
     .help = "deadline of the whole scan",
     .set = config_set_wait},
    OPTION_CLUSTER,
    OPTION_SLOT,
    OPTION_SUBNET,
    OPTION_INTERFACE,
    OPTION_DNS,
    OPTION_PORT,
    OPTION_KEY_FILE,
    OPTION_OLD_KEY_FILE,
    OPTION_INSECURE,
    OPTION_USER,
    OPTIONS_LOG,
};

static const struct mst_option health_table[] = {
    OPTION_PORT,
    OPTIONS_LOG,
};

static const struct mst_options scan_options = {
    .program = "muster-launch",
    .verb = "scan",
    .synopsis = "[options]",
    .about = "One discovery round by TCP: who is on the subnet, and who of them is a worker.",
    .table = scan_table,
    .count = MST_ARRAY_COUNT(scan_table),
};

static const struct mst_options health_options = {
    .program = "muster-launch",
    .verb = "health",
    .synopsis = "[options]",
    .about = "Ask the agent on this machine for its state; exit 0 when it is well, else 1.",
    .table = health_table,
    .count = MST_ARRAY_COUNT(health_table),
};

const struct mst_options *config_options(enum config_verb verb)
{
    switch (verb) {
    case CONFIG_EXEC:
        return &config_exec_options;
    case CONFIG_SCAN:
        return &scan_options;
    default: /* no verb of this program has another */
        return &health_options;
    }
}
