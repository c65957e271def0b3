/* SPDX-License-Identifier: Apache-2.0 */
/* Files of variables for the stack file itself: .env and --env-file, as Compose reads them.
 *
 *     # a comment
 *     export NAME=value          # blanks around it are dropped, a comment needs a blank before it
 *     NAME='as $it is'           may go over several lines; \' is a quote
 *     NAME="$OTHER\n"            likewise; \n \r \t \" \\ \$ are what they are in C
 *     NAME                       nothing new: the caller's environment is asked first anyway
 *
 * Values that are not in single quotes may hold variables: of the caller, and of lines before. (A service's
 * env_file is another format, as docker has it: environment.c.) */
#ifndef COMPOSE_DOTENV_H
#define COMPOSE_DOTENV_H

#include "schema.h"

/* Read the files that load->options names, or the first stack file's neighbour .env, into load->source.files.
 * -EBADMSG with the place (values are never shown), -ENOENT and such for a named file that cannot be read. */
int dotenv_read(struct schema_load *load);

/* One file's text, onto load->source.files. `file` is kept in warnings' places. */
int dotenv_parse(struct schema_load *load, const char *text, size_t text_bytes, const char *file);

#endif
