/* SPDX-License-Identifier: Apache-2.0 */
/* Files with a state, in the format that docs/model-files.md describes: parameters alone, which is a model,
 * or with what the optimizer remembers and the marks of a checkpoint. */
#ifndef TRAINER_SAVE_H
#define TRAINER_SAVE_H

#include "optimizer.h"

#include <cjson/cJSON.h>

struct save_state {
    const struct trainer_config *config; /* borrowed, as all others */
    uint64_t step;
    float *parameters;
    float *states[TRAINER_MAX_STATES]; /* of the optimizer, as many as it has; NULL: none */
};

/* What a checkpoint says of itself, besides its state. */
struct save_marks {
    const uint8_t *job; /* MST_SHA256_BYTES */
    const char *run;
    const uint8_t *extra;
    size_t extra_bytes; /* at most TRAINER_MAX_EXTRA_BYTES */
};

/* Whole or not at all. `marks` NULL: a model, without the optimizer's arrays. ret_saved may be NULL. */
int save_write(const char *path, const struct save_state *state, const struct save_marks *marks,
               struct trainer_saved *ret_saved, struct mst_error *err);

/* Fill in the arrays of `state` (NULL in `states`: not wanted) and its step, 0 where the file does not say.
 * When the file has no arrays of this optimizer's, state->states are zeros, and *ret_states false. -EBADMSG
 * says what is wrong, damage included; the arrays are then undefined. *ret_metadata is for cJSON_Delete(). */
int save_read(const char *path, struct save_state *state, bool *ret_states, cJSON **ret_metadata,
              struct mst_error *err);

/* Whether a file with this metadata, as save_read() gave it, is a checkpoint with these marks, and fill in
 * ret_extra (marks->extra is not looked at): 0, or -EBADMSG with the reason. */
int save_check_marks(const char *path, const cJSON *metadata, const struct save_marks *marks,
                     uint8_t *ret_extra, struct mst_error *err);

#endif
