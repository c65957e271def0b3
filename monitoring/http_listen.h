/* SPDX-License-Identifier: Apache-2.0 */
/* Listening sockets from addresses as exporters write them, and from systemd. */
#ifndef MONITORING_HTTP_LISTEN_H
#define MONITORING_HTTP_LISTEN_H

#include "muster/error.h"

#include <stddef.h>
#include <sys/socket.h>

/* -EINVAL for what is no address. */
int http_listen_parse(const char *text, struct sockaddr_storage *ret_address, socklen_t *ret_bytes,
                      struct mst_error *err);
/* A listening socket, non-blocking and close-on-exec, and its real address as text. */
int http_listen(const char *text, int *ret_fd, char ret_text[static 64], struct mst_error *err);
/* What systemd handed over (LISTEN_PID, LISTEN_FDS). -ENOENT when it did not. */
int http_listen_systemd(int *ret_fds, size_t max, size_t *ret_count, struct mst_error *err);
void http_listen_text(int fd, char ret_text[static 64]);

#endif
