/* SPDX-License-Identifier: Apache-2.0 */
#include "trainer_state.h"

#include <math.h>
#include <string.h>

int trainer_predict(struct trainer *trainer, const struct trainer_dataset *dataset, size_t first,
                    size_t count, float *ret_outputs, struct mst_error *err)
{
    const size_t width = trainer_model_classes(trainer->config.model), most = trainer->network.max_batch;

    if (!trainer_shape_equal(&dataset->shape, &trainer->config.model->input))
        return mst_error_set(err, -EINVAL, "the data does not fit model '%s'", trainer->config.model->name);
    if (first > dataset->count || count > dataset->count - first)
        return mst_error_set(err, -EINVAL, "samples %zu to %zu of a set of %zu", first, first + count,
                             dataset->count);
    for (size_t done = 0; done < count;) {
        const size_t batch = count - done < most ? count - done : most;
        for (size_t i = 0; i < batch; i++)
            trainer->samples[i] = (uint32_t)(first + done + i);
        trainer_dataset_gather(dataset, trainer->samples, batch, trainer->network.input, NULL);
        const float *outputs =
            trainer_network_forward(&trainer->network, trainer->parameters[trainer->current], batch);
        for (size_t i = 0; i < batch * width; i++) {
            if (!isfinite(outputs[i]))
                return mst_error_set(err, -ERANGE,
                                     "sample %zu: output %zu of model '%s' is not a finite number: its "
                                     "parameters are too large for these data",
                                     first + done + i / width, i % width, trainer->config.model->name);
        }
        memcpy(ret_outputs + done * width, outputs, batch * width * sizeof *outputs);
        done += batch;
    }
    return 0;
}
