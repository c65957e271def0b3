/* SPDX-License-Identifier: Apache-2.0 */
/* The readers of a data folder, by format. Each gives sets that are not finished yet (dataset.h), the
 * validation set already apart, and all of them of one shape. */
#ifndef TRAINER_DATA_H
#define TRAINER_DATA_H

#include "dataset.h"
#include "description.h"

/* MNIST's four files. */
int data_idx_open(const char *folder, const struct trainer_data_options *options,
                  struct trainer_data *ret_data, struct mst_error *err);
bool data_idx_is_there(const char *folder);

int data_csv_open(const char *folder, const struct description *description,
                  const struct trainer_data_options *options, struct trainer_data *ret_data,
                  struct mst_error *err);

int data_images_open(const char *folder, const struct description *description,
                     const struct trainer_data_options *options, struct trainer_data *ret_data,
                     struct mst_error *err);

/* Take the validation set out of data->train, where one is asked for. */
int data_take_validation(struct trainer_data *data, const struct trainer_data_options *options,
                         struct mst_error *err);

#endif
