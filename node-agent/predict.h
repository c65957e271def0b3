/* SPDX-License-Identifier: Apache-2.0 */
/* The verb predict: label samples with a trained model. */
#ifndef AGENT_PREDICT_H
#define AGENT_PREDICT_H

#include "config.h"

int agent_predict(const struct agent_config *config); /* an exit status */

#endif
