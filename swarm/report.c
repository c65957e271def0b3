/* SPDX-License-Identifier: Apache-2.0 */
#include "report.h"

#include "muster/buf.h"
#include "muster/cleanup.h"
#include "muster/clock.h"
#include "plain.h"

#include <stdarg.h>
#include <string.h>
#include <sys/ioctl.h>

#define LINE_BYTES      2048
#define DEFAULT_COLUMNS 80
#define BLOCK_MAX_BYTES ((size_t)256 << 10)

void report_init(struct report *report, FILE *stream)
{
    const char *term = getenv("TERM"), *no_color = getenv("NO_COLOR"); /* no-color.org */
    struct winsize size = {0};

    *report = (struct report){.stream = stream,
                              .start_ns = mst_now_ns(),
                              .columns = DEFAULT_COLUMNS,
                              .drawn = MST_BUF_INIT(BLOCK_MAX_BYTES)};
    report->is_terminal = isatty(fileno(stream)) && term && strcmp(term, "dumb") != 0;
    report->has_colours = report->is_terminal && (!no_color || no_color[0] == '\0');
    if (report->is_terminal && ioctl(fileno(stream), TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
        report->columns = size.ws_col;
}

void report_release(struct report *report)
{
    mst_buf_release(&report->drawn);
}

/* Up to the block's first line, and clear from there on. */
static int erase(const struct report *report, struct mst_buf *out)
{
    return report->drawn_lines > 0 ? mst_buf_printf(out, "\033[%zuA\033[J", report->drawn_lines) : 0;
}

static void put(const struct report *report, const struct mst_buf *out)
{
    /* stderr that went away is nothing to end a deployment for. */
    (void)fwrite(mst_buf_text(out), 1, out->count, report->stream);
    (void)fflush(report->stream);
}

void report_line(struct report *report, const char *format, ...)
{
    mst_cleanup(mst_buf_release) struct mst_buf out = MST_BUF_INIT(LINE_BYTES + 64);
    char text[LINE_BYTES];
    va_list arguments;

    va_start(arguments, format);
    (void)vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    plain_text(text); /* reasons and last words come out of containers */
    if (erase(report, &out) == 0 && mst_buf_printf(&out, "%s\n", text) == 0)
        put(report, &out);
    report->drawn_lines = 0;
}

/* One line of the block, cut to the terminal: a line that wraps would spoil the count. UTF-8 is cut between
 * characters, of which each is taken as one column. */
static int append_cut(struct mst_buf *out, const char *line, size_t bytes, size_t columns, bool has_colours)
{
    static const char *const colours[] = {"\033[31m", "\033[32m", "\033[33m"};
    const unsigned mark = bytes > 0 ? (unsigned char)line[0] : 0;
    const bool is_coloured = mark >= 1 && mark <= MST_ARRAY_COUNT(colours);
    size_t shown = 0, used = 0;

    if (is_coloured) {
        line++;
        bytes--;
        has_colours = has_colours && mst_buf_append_text(out, colours[mark - 1]) == 0;
    }

    if (mst_buf_reserve(out, bytes) < 0)
        return -1;
    char *plain = out->bytes + out->count;
    bytes = plain_copy(plain, line, bytes);
    while (used < bytes && shown < columns) {
        used++;
        while (used < bytes && ((unsigned char)plain[used] & 0xc0) == 0x80)
            used++;
        shown++;
    }
    out->count += used;
    return mst_buf_append_text(out, is_coloured && has_colours ? "\033[0m\n" : "\n");
}

void report_block(struct report *report, const char *text)
{
    mst_cleanup(mst_buf_release) struct mst_buf out = MST_BUF_INIT(BLOCK_MAX_BYTES);
    size_t lines = 0;

    if (!report->is_terminal || (report->drawn_lines > 0 && strcmp(mst_buf_text(&report->drawn), text) == 0))
        return;
    mst_buf_clear(&report->drawn);
    if (mst_buf_append_text(&report->drawn, text) < 0 || erase(report, &out) < 0)
        return;
    while (*text != '\0') {
        const size_t bytes = strcspn(text, "\n");
        if (append_cut(&out, text, bytes, report->columns - 1, report->has_colours) < 0)
            return;
        lines++;
        text += bytes + (text[bytes] == '\n');
    }
    put(report, &out);
    report->drawn_lines = lines;
}

void report_keep_block(struct report *report)
{
    report->drawn_lines = 0;
}

double report_seconds(const struct report *report)
{
    return mst_ms_since(report->start_ns) / 1000;
}
