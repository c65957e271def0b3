/* SPDX-License-Identifier: Apache-2.0 */
/* A free TCP port for another framework's program, found by binding to it. */
#ifndef EXEC_PORTS_H
#define EXEC_PORTS_H

#include "muster/error.h"

#include <stdint.h>

struct exec_port_range {
    uint16_t first, last; /* 0, 0: chosen by exec_ports_default() */
};

/* "20000:29999" or "29500". */
int exec_ports_parse(const char *text, struct exec_port_range *ret_range, struct mst_error *err);
/* 20000 up to where the kernel begins to hand out ports for outgoing connections (ip_local_port_range):
 * such a connection must not take the port between the choice and the program's start. The kernel's own
 * range where there is no room below. */
struct exec_port_range exec_ports_default(void);

/* A random one of the range that can be bound at `ipv4` now: returned in *ret_port, and held by *ret_fd (the
 * caller's to close, just before the program starts), so that no other worker at this address is given the
 * same. -EADDRINUSE when none is free. */
int exec_ports_reserve(uint32_t ipv4, struct exec_port_range range, uint16_t *ret_port, int *ret_fd,
                       struct mst_error *err);

#endif
