/* SPDX-License-Identifier: Apache-2.0 */
/* The variables by which each framework is told who it is: pure, from the facts of a view and the variables
 * that the agent was started with.
 *
 * Who takes part and where to meet (RANK, MASTER_ADDR, TF_CONFIG, MUSTER_...) is set whatever was there
 * before. What is advice (which interface, which launch agent) is left as the user has it, if it was set.
 * Addresses are numbers, never names: a name may lead to 127.0.0.1, to another network, or nowhere. */
#ifndef EXEC_ENVIRONMENT_H
#define EXEC_ENVIRONMENT_H

#include "facts.h"
#include "muster/error.h"
#include "string_list.h"

#include <stdbool.h>

enum exec_framework {
    EXEC_TENSORFLOW = 1,
    EXEC_TORCH = 2,
    EXEC_HOROVOD = 4,
    EXEC_MPI = 8,
    EXEC_ENV = 16, /* MUSTER_... alone, which all get */
};

/* "torch,mpi" to bits; -EINVAL. */
int exec_frameworks_parse(const char *text, unsigned *ret_frameworks, struct mst_error *err);
/* These start programs on the other workers by themselves. */
bool exec_frameworks_launch(unsigned frameworks);

struct exec_tools {
    const char *program;   /* path of this program, for "PROGRAM rsh HOST CMD"; NULL: unknown */
    const char *folder;    /* with the host file and the stand-in for ssh; NULL: there is none */
    const char *host_file; /* in it */
};

/* `base` ends with NULL. -E2BIG when a variable is longer than a program can be given. */
int exec_environment(unsigned frameworks, const struct exec_facts *facts, const struct exec_tools *tools,
                     char *const *base, struct exec_strings *ret_environment, struct mst_error *err);

/* "10.0.0.1 slots=2\n" an address, in rank order: Open MPI's form, which Horovod reads, too. */
int exec_host_file(const struct exec_facts *facts, struct mst_buf *ret_text, struct mst_error *err);

#endif
