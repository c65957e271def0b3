/* SPDX-License-Identifier: Apache-2.0 */
/* The traffic of exchange_spread(): a state, cut into segments, from those that have it to those that do not.
 * Which segments take which link is for the kind of exchange to say; whoever passes segments on sends each as
 * soon as it has it. */
#ifndef TRAINER_EXCHANGE_SPREAD_H
#define TRAINER_EXCHANGE_SPREAD_H

#include "exchange.h"

extern const struct exchange_traffic exchange_spread_traffic;

void exchange_spread_lay_out(struct trainer_exchange *exchange, const struct exchange_spread *spread);

#endif
