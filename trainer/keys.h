/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TRAINER_KEYS_H
#define TRAINER_KEYS_H

#include "muster/error.h"

#include <cjson/cJSON.h>

/* Every key of the object is in one of two lists (each ends with NULL; `more` may be NULL), and none is there
 * twice: else -EBADMSG, which begins with `where`. */
int trainer_check_keys(const cJSON *json, const char *const *keys, const char *const *more, const char *where,
                       struct mst_error *err);

/* "'a', 'b' or 'c'", for errors; `names` ends with NULL. */
#define TRAINER_NAMES_TEXT_BYTES 256
const char *trainer_names_text(const char *const *names, char text[static TRAINER_NAMES_TEXT_BYTES]);

#endif
