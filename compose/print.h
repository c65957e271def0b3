/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COMPOSE_PRINT_H
#define COMPOSE_PRINT_H

#include "muster/compose.h"
#include "yaml_out.h"

/* The keys of one service. */
void print_service(struct yaml_out *out, const struct compose_service *service);

void print_flag(struct yaml_out *out, const char *key, bool is_set); /* nothing when not */
void print_pairs(struct yaml_out *out, const char *key,
                 const struct compose_pairs *pairs); /* nothing for none */

#endif
