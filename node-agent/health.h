/* SPDX-License-Identifier: Apache-2.0 */
/* The agent's state for HEALTHCHECK and people: a listener in the abstract Unix namespace, which belongs to
 * the network namespace and therefore needs no writable folder and cannot be reached from another container.
 * Only root and the agent's own user are answered. */
#ifndef AGENT_HEALTH_H
#define AGENT_HEALTH_H

#include "loop.h"
#include "muster/error.h"

#include <stdint.h>

struct health;

#define HEALTH_TEXT_BYTES 512

/* `describe` writes the state as one JSON object; it is called for each question. */
typedef void health_describe(void *context, char text[static HEALTH_TEXT_BYTES]);

int health_new(struct loop *loop, uint16_t port, health_describe *describe, void *context,
               struct health **ret_health, struct mst_error *err);
void health_free(struct health *health); /* NULL is fine */

/* Ask the agent that listens on `port`: 0 and its state when it is well, -ETIMEDOUT, or what the socket says.
 */
int health_ask(uint16_t port, char ret_text[static HEALTH_TEXT_BYTES], struct mst_error *err);

#endif
