/* SPDX-License-Identifier: Apache-2.0 */
/* What makes objects of an engine a stack, to docker's tools and to this one, and the codes of our own ends.
 */
#ifndef SWARM_STACK_H
#define SWARM_STACK_H

#include "muster/error.h"

#define STACK_LABEL   "com.docker.stack.namespace" /* on everything that belongs to a stack */
#define IMAGE_LABEL   "com.docker.stack.image"     /* on services: the image as the file names it */
#define VERSION_LABEL "muster.version-of" /* on secrets and configs that took another's place: its name */
#define ROLE_LABEL    "muster.role"       /* on services: "worker", "collector", "monitor", over the guess */

#define STACK_NAME_BYTES 64

/* Codes for what has an exit status of its own; swarm_exit_status() maps them. */
#define SWARM_ROLLED_BACK    (-EUCLEAN)
#define SWARM_NO_CONVERGENCE (-ENOTRECOVERABLE)
#define SWARM_WORKER_FAILED  (-EOWNERDEAD)
#define SWARM_READER_LEFT    (-ESHUTDOWN) /* of our stdout: the end, without a word */

/* As mst_exit_status(), with the codes above; -ECANCELED is 130 or 143 by the signal that came (0: none). */
int swarm_exit_status(int code, int signal_number);

#endif
