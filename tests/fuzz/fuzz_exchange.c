/* SPDX-License-Identifier: Apache-2.0 */
/* The header in front of each segment of gradients, of the ring and of the direct exchange. */
#include "exchange/frame.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    const struct exchange_frame own = {.job_key = 0x0102030405060708, .view = 3};
    uint8_t again[EXCHANGE_FRAME_BYTES];
    char text[EXCHANGE_STEP_TEXT_BYTES];
    for (; count >= EXCHANGE_FRAME_BYTES; bytes += EXCHANGE_FRAME_BYTES, count -= EXCHANGE_FRAME_BYTES) {
        struct exchange_frame frame = {0};
        struct mst_error err = MST_ERROR_INIT;
        const int r = exchange_frame_read(bytes, &own, &frame, &err);
        if (r < 0) {
            if (!err.text[0])
                abort();
            continue;
        }
        if (frame.bytes > EXCHANGE_PAYLOAD_MAX || frame.job_key != own.job_key ||
            (r == 0 && frame.view != own.view) || (r == 1 && frame.view >= own.view))
            abort();
        exchange_frame_write(&frame, again);
        if (memcmp(again, bytes, sizeof again) != 0 || exchange_frame_match(&frame, &frame, NULL) < 0)
            abort();
        if (strlen(exchange_step_text(frame.step, text)) >= sizeof text)
            abort();
    }
    return 0;
}
