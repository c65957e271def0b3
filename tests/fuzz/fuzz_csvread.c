/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a CSV file of a run folder. */
#include "csvread.h"
#include "fuzz_file.h"
#include "muster/cleanup.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    struct fuzz_file file = fuzz_file_open(bytes, count);
    mst_cleanup(csvread_release) struct csvread csv = {0};
    struct mst_error err = MST_ERROR_INIT;
    const int r = csvread_load(file.path, (size_t)1 << 20, &csv, &err);

    if (r < 0 && !err.text[0])
        abort();
    for (size_t row = 0; r == 0 && row < csv.rows; row++) {
        for (size_t column = 0; column < csv.columns; column++) {
            double value;
            if (strlen(csvread_text(&csv, row, column)) > count)
                abort();
            if (csvread_number(&csv, row, column, 0, 1e6, false, &value, &err) == 0 &&
                !(value >= 0 && value <= 1e6))
                abort();
        }
    }
    fuzz_file_close(&file);
    return 0;
}
