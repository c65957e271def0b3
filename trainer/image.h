/* SPDX-License-Identifier: Apache-2.0 */
/* PNG and JPEG images as bytes: row, column, channel, without padding. */
#ifndef TRAINER_IMAGE_H
#define TRAINER_IMAGE_H

#include "muster/error.h"

#include <stddef.h>
#include <stdint.h>

#define IMAGE_MAX_FILE_BYTES 67108864
#define IMAGE_MAX_SIDE       8192

struct image {
    size_t rows, columns, channels; /* channels: 1 (gray) or 3 (red, green, blue) */
    uint8_t *pixels;                /* owned */
};

/* Decode a file's bytes, PNG or JPEG by content. `channels`: 1 or 3 to have it converted, 0 for what it has.
 * Transparent parts lie on black. -EBADMSG for what is no image, damaged (even if something could be shown of
 * it), or has more than IMAGE_MAX_SIDE places a side; `what` names the source. */
int image_decode(const uint8_t *bytes, size_t count, size_t channels, const char *what,
                 struct image *ret_image, struct mst_error *err);
void image_release(struct image *image); /* for mst_cleanup() */

#endif
