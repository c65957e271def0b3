/* SPDX-License-Identifier: Apache-2.0 */
/* What an earlier exporter has recorded, for the page of this one: the last minutes as they were, and a day
 * in steps that can be seen. */
#ifndef MONITORING_ARCHIVE_H
#define MONITORING_ARCHIVE_H

#include "history.h"

#define ARCHIVE_SPAN_S 86400.0
#define ARCHIVE_STEPS  720 /* of two minutes: 17 KB a container */

/* A history over ARCHIVE_SPAN_S. */
int archive_init(struct history *day, const char *node, const char *version, struct mst_error *err);

/* Fills both from the recording at `path` and the files that it was rotated into, as far as they reach back
 * from now; `recent` takes `recent_s` seconds. Files that are damaged are complained about and passed over.
 * 0, -ENOMEM. */
int archive_load(const char *path, double recent_s, struct history *recent, struct history *day,
                 struct mst_error *err);

#endif
