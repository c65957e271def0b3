/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a recording. Checksums would stop nearly all of them at the door, so the payload of a block is
 * also handed to the decoder without one. */
#include "fuzz_file.h"
#include "metrics.h"
#include "record_decode.h"
#include "recording.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);

/* Whatever comes out must make a page whose lines are whole. */
static void show(const struct monitor_pass *pass)
{
    const struct metrics_options options = {.kinds = METRICS_ALL, .version = "0"};
    struct mst_buf page = MST_BUF_INIT((size_t)64 << 20);
    if (metrics_write(pass, &options, &page) == 0) {
        for (const char *line = mst_buf_text(&page); *line; line = strchr(line, '\n') + 1) {
            if (*line != '#' && *line != 'c' && *line != 'm' && *line != 'p')
                abort();
        }
    }
    mst_buf_release(&page);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    struct fuzz_file file = fuzz_file_open(bytes, count);
    struct recording *recording = NULL;
    const struct monitor_pass *pass;
    struct mst_error err = MST_ERROR_INIT;
    int r = recording_open(file.path, &recording, &err);
    if (r < 0 && (recording || !err.text[0]))
        abort();
    for (int i = 0; r == 0 && i < 100 && recording_next(recording, &pass, &err) == 1; i++)
        show(pass);
    recording_free(recording);
    fuzz_file_close(&file);

    struct record_decoder decoder = {0};
    record_decoder_start(&decoder, bytes, count);
    for (int i = 0; i < 100 && record_decode(&decoder) == 1; i++)
        show(&decoder.pass);
    record_decoder_release(&decoder);
    return 0;
}
