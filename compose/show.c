/* SPDX-License-Identifier: Apache-2.0 */
#include "show.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

const char *show(const char *text, char shown[static SHOW_BYTES])
{
    static const char more[] = "...";
    const size_t length = strlen(text);
    const bool fits = length <= SHOW_BYTES - sizeof "''";
    size_t kept = fits ? length : SHOW_BYTES - sizeof "''" - strlen(more);
    if (!fits) /* not in the middle of a UTF-8 character */
        while (kept > 0 && ((unsigned char)text[kept] & 0xc0) == 0x80)
            kept--;
    char *out = shown;
    *out++ = '\'';
    for (size_t i = 0; i < kept; i++) {
        const unsigned char c = (unsigned char)text[i];
        *out++ = c < 0x20 || c == 0x7f ? '?' : text[i];
    }
    *out++ = '\'';
    (void)snprintf(out, SHOW_BYTES - (size_t)(out - shown), "%s", fits ? "" : more);
    return shown;
}

int show_error(struct mst_error *err, int code, const struct compose_place *place, const char *path,
               const char *format, ...)
{
    char text[MST_ERROR_TEXT_BYTES];
    va_list args;
    va_start(args, format);
    int length = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (length < 0)
        text[0] = '\0';
    const bool has_path = path && *path;
    if (!place->file)
        return mst_error_set(err, code, "%s%s%s", has_path ? path : "", has_path ? ": " : "", text);
    return mst_error_set(err, code, "%s:%u:%u: %s%s%s", place->file, place->line, place->column,
                         has_path ? path : "", has_path ? ": " : "", text);
}
