/* SPDX-License-Identifier: Apache-2.0 */
#include "muster/engine.h"

#include <string.h>

int engine_lines_feed(struct engine_lines *lines, const void *bytes, size_t count, engine_line_fn *on_line,
                      void *context, struct mst_error *err)
{
    const char *at = bytes;

    while (count > 0) {
        const char *end = memchr(at, '\n', count);
        const size_t taken = end ? (size_t)(end - at) : count;
        int r = mst_buf_append(&lines->line, at, taken);

        if (r < 0)
            return mst_error_set(err, r, "stream: a line of more than %zu bytes", lines->line.max_bytes);
        if (!end)
            return 0;
        if (lines->line.count > 0 && lines->line.bytes[lines->line.count - 1] == '\r')
            lines->line.bytes[--lines->line.count] = '\0';
        r = on_line(context, mst_buf_text(&lines->line), lines->line.count, err);
        mst_buf_clear(&lines->line);
        if (r < 0)
            return r;
        at += taken + 1;
        count -= taken + 1;
    }
    return 0;
}

void engine_lines_release(struct engine_lines *lines)
{
    mst_buf_release(&lines->line);
}
