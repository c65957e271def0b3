/* SPDX-License-Identifier: Apache-2.0 */
/* What the outputs have in common. */
#ifndef MONITORING_OUTPUT_H
#define MONITORING_OUTPUT_H

#include <stdint.h>

/* Waits until `fd` takes PIPE_BUF bytes at once (a pipe, a file) or stop_fd is readable: then -ECANCELED. A
 * reader that does not read must not keep the process from ending. */
int output_wait(int fd, int stop_fd);

/* The machine's memory in bytes. */
uint64_t output_machine_bytes(void);

#endif
