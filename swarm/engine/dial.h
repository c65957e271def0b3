/* SPDX-License-Identifier: Apache-2.0 */
/* Connections through a program: `ssh HOST docker system dial-stdio`, its stdin and stdout being the engine's
 * socket. One process a connection, ended with it. */
#ifndef ENGINE_DIAL_H
#define ENGINE_DIAL_H

#include "muster/error.h"

#include <stddef.h>

struct dialer;

/* "user@host:22" or "user@host:22/run/docker.sock" (what follows ssh://). */
int dialer_new(const char *address, struct dialer **ret_dialer, struct mst_error *err);
/* Ends what still runs: after the last connection was closed. */
void dialer_free(struct dialer *dialer);

/* The path of the socket to connect to, which takes connections of this process only. */
const char *dialer_socket(const struct dialer *dialer);
/* The program's newest complaint, one line; "" when it had none. */
void dialer_complaint(const struct dialer *dialer, char *text, size_t capacity);

#endif
