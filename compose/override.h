/* SPDX-License-Identifier: Apache-2.0 */
/* The Compose specification's tags for files that go onto others: `key: !reset ...` takes the key back,
 * whatever its value, and `key: !override value` puts the value in the place of the earlier files', not onto
 * it. They work on the node trees, before anything is read from them. */
#ifndef COMPOSE_OVERRIDE_H
#define COMPOSE_OVERRIDE_H

#include "schema.h"

/* `roots`: the trees of the files, in their order. What the tags of one take back is gone from those before
 * it afterwards, and keys with !reset from its own. A tag that follows no key is an error. */
int override_apply(struct schema_load *load, struct node **roots, size_t count);

#endif
