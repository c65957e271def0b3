/* SPDX-License-Identifier: Apache-2.0 */
/* How columns become inputs: normalisation, fitted on the rows that train, and categories as numbers or
 * one-hot; and the same as JSON, so that a model can be given other rows later. */
#ifndef TRAINER_ENCODING_H
#define TRAINER_ENCODING_H

#include "table.h"

/* Fit shift and scale of each column of numbers among the inputs to the rows that are marked. */
void encoding_fit(struct table_plan *plan, const struct table *table, const bool *trains);

/* Floats in an encoded sample. */
size_t encoding_width(const struct table_plan *plan);
/* Encode one row's inputs into `x` (encoding_width() floats). */
void encoding_apply(const struct table_plan *plan, const double *cells, float *x);

/* Owned by the caller. */
int encoding_write(const struct table_plan *plan, char **ret_text, struct mst_error *err);
/* Take normalisation and categories from what encoding_write() gave, for the same columns (-EBADMSG). */
int encoding_take(struct table_plan *plan, const char *text, struct mst_error *err);

#endif
