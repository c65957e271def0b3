/* SPDX-License-Identifier: Apache-2.0 */
/* muster-agent: the program in each container, and on each machine without containers. */
#include "agent.h"
#include "collect.h"
#include "exec/exec_verb.h"
#include "exec/rsh.h"
#include "exec/supervisor.h"
#include "muster/cleanup.h"
#include "predict.h"
#include "program.h"
#include "scan.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <stdnoreturn.h>
#include <unistd.h>

static const struct program_verb verbs[] = {
    {.name = "train",
     .about = "find the other workers, agree, and train with them",
     .verb = CONFIG_TRAIN,
     .run = agent_train},
    {.name = "predict",
     .about = "label samples with a trained model, and say how well it does",
     .verb = CONFIG_PREDICT,
     .run = agent_predict},
    {.name = "exec",
     .about = "find the other workers, agree, and start another framework's program",
     .verb = CONFIG_EXEC,
     .run = agent_exec,
     .usage_status = EXEC_STATUS_FAULT},
    {.name = "collect",
     .about = "receive the workers' result files and keep them",
     .verb = CONFIG_COLLECT,
     .run = agent_collect},
    {.name = "scan",
     .about = "one discovery round: who is on the subnet",
     .verb = CONFIG_SCAN,
     .run = agent_scan},
    {.name = "health",
     .about = "ask the agent on this machine for its state",
     .verb = CONFIG_HEALTH,
     .run = program_health},
    {.name = "rsh", .about = "start a program on another worker, in place of ssh", .run_words = exec_rsh},
};

/* OpenBLAS joins its threads when a process exits, and one of them that has not got its memory waits for it
 * without end: what only reports that memory is short would never be gone. Sanitizers report at exit. */
static noreturn void end(int status)
{
    struct mst_error err = MST_ERROR_INIT;
    if (fflush(NULL) != 0 && status == MST_EXIT_DONE) {
        (void)mst_error_errno(&err, -errno, "write the output");
        status = mst_fail(MST_EXIT_FAILED, &err);
    }
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    exit(status);
#else
    _exit(status);
#endif
}

int main(int argc, char **argv)
{
    end(program_main("muster-agent", verbs, MST_ARRAY_COUNT(verbs), argc, argv));
}
