/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COMPOSE_IMAGE_H
#define COMPOSE_IMAGE_H

#include <stdbool.h>

/* Is `text` an image reference: [HOST[:PORT]/]path[:tag][@algorithm:hex]? The grammar is that of the
 * distribution project's reference package. */
bool image_reference_is_valid(const char *text);

#endif
