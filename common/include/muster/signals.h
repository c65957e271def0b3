/* SPDX-License-Identifier: Apache-2.0 */
/* Signals as a readable descriptor, so that one loop waits for everything, and every wait can end on them.
 * Dispositions are the process's, and so is this: of several calls the newest one hears.
 *
 * signalfd(2) would be neater, but needs the signals blocked in every thread, and a library may start threads
 * before main() (OpenBLAS does): a SIGTERM would reach one of those and end the process. */
#ifndef MUSTER_SIGNALS_H
#define MUSTER_SIGNALS_H

#include "muster/error.h"

#include <stddef.h>

/* Catch `numbers`, ignore SIGPIPE. *ret_fd (the caller's to close) is readable once one came, until
 * mst_signals_read() took it. System calls that a signal interrupts go on, but for poll(2) and its like. */
int mst_signals_open(const int *numbers, size_t count, int *ret_fd, struct mst_error *err);
/* The next that came, in their order; 0: no more. */
int mst_signals_read(int fd);
/* The newest that came so far, whether read or not; 0: none. */
int mst_signals_newest(void);
/* `numbers` do what they do by default again. */
void mst_signals_restore(const int *numbers, size_t count);

#endif
