/* SPDX-License-Identifier: Apache-2.0 */
/* muster-launch: what another framework's image needs of muster-agent, as one file without libraries. */
#include "exec_verb.h"
#include "muster/cleanup.h"
#include "program.h"
#include "rsh.h"
#include "scan.h"
#include "supervisor.h"

static const struct program_verb verbs[] = {
    {.name = "exec",
     .about = "find the other workers, agree, and start another framework's program",
     .verb = CONFIG_EXEC,
     .run = agent_exec,
     .usage_status = EXEC_STATUS_FAULT},
    {.name = "scan",
     .about = "one discovery round by TCP: who is on the subnet",
     .verb = CONFIG_SCAN,
     .run = agent_scan},
    {.name = "health",
     .about = "ask the agent on this machine for its state",
     .verb = CONFIG_HEALTH,
     .run = program_health},
    {.name = "rsh", .about = "start a program on another worker, in place of ssh", .run_words = exec_rsh},
};

int main(int argc, char **argv)
{
    return program_main("muster-launch", verbs, MST_ARRAY_COUNT(verbs), argc, argv);
}
