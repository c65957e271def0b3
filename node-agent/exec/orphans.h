/* SPDX-License-Identifier: Apache-2.0 */
/* Processes that programs left behind, and that became this process's children: it is PID 1 of a container,
 * or their subreaper. */
#ifndef EXEC_ORPHANS_H
#define EXEC_ORPHANS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* Send `number` (0: none) to every living child that `spared` does not name; how many there are. 0, too,
 * where /proc does not tell. */
size_t exec_orphans_signal(int number, bool (*spared)(const void *context, pid_t pid), const void *context);

#endif
