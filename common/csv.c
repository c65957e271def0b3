/* SPDX-License-Identifier: Apache-2.0 */
#include "muster/csv.h"

#include <stdbool.h>
#include <string.h>

int mst_csv_append(struct mst_buf *row, const char *text, char end)
{
    const bool is_formula = text[0] != '\0' && strchr("=+-@", text[0]);
    const bool is_quoted = is_formula || strpbrk(text, ",\"\r\n");
    int r = mst_buf_append_text(row, is_formula ? "\"'" : is_quoted ? "\"" : "");

    for (const char *c = text; *c != '\0' && r == 0; c++) {
        const char shown = (unsigned char)*c < ' ' || *c == 0x7f ? ' ' : *c;
        r = shown == '"' ? mst_buf_append_text(row, "\"\"") : mst_buf_append(row, &shown, 1);
    }
    if (r == 0 && is_quoted)
        r = mst_buf_append_text(row, "\"");
    return r < 0 ? r : mst_buf_append(row, &end, 1);
}
