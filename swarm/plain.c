/* SPDX-License-Identifier: Apache-2.0 */
#include "plain.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

static bool is_plain(uint32_t c)
{
    static const struct {
        uint32_t first, last;
    } ranges[] = {
        {0x00, 0x1f},     {0x7f, 0x9f},     {0xad, 0xad}, /* soft hyphen */
        {0x61c, 0x61c},   {0x180e, 0x180e},               /* marks of direction, vowel separator */
        {0x200b, 0x200f}, {0x2028, 0x202e},               /* no width, marks, embeddings, overrides */
        {0x2060, 0x206f}, {0xfe00, 0xfe0f},               /* joiners, isolates, variation selectors */
        {0xfeff, 0xfeff}, {0xfff0, 0xffff}, {0xd800, 0xdfff}, {0xe0000, 0xe0fff}, {0x110000, UINT32_MAX},
    };

    for (size_t i = 0; i < sizeof ranges / sizeof ranges[0]; i++) {
        if (c >= ranges[i].first && c <= ranges[i].last)
            return false;
    }
    return true;
}

/* The character at `text` and how many bytes it has; UINT32_MAX and 1 for what is no UTF-8. */
static uint32_t decode(const unsigned char *text, size_t bytes, size_t *ret_length)
{
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    const size_t length = text[0] < 0x80    ? 1
                          : text[0] >= 0xf0 ? 4
                          : text[0] >= 0xe0 ? 3
                          : text[0] >= 0xc0 ? 2
                                            : 0;
    uint32_t c = length == 1 ? text[0] : text[0] & (0x7fU >> length);

    *ret_length = 1;
    if (length == 0 || length > bytes || text[0] >= 0xf8)
        return UINT32_MAX;
    for (size_t i = 1; i < length; i++) {
        if ((text[i] & 0xc0) != 0x80)
            return UINT32_MAX;
        c = c << 6 | (text[i] & 0x3f);
    }
    if (c < least[length])
        return UINT32_MAX; /* the long form of another character */
    *ret_length = length;
    return c;
}

size_t plain_copy(char *out, const char *text, size_t bytes)
{
    size_t used = 0;

    for (size_t at = 0, length; at < bytes; at += length) {
        if (is_plain(decode((const unsigned char *)text + at, bytes - at, &length))) {
            memmove(out + used, text + at, length);
            used += length;
        } else {
            out[used++] = ' ';
        }
    }
    out[used] = '\0';
    return used;
}

void plain_text(char *text)
{
    (void)plain_copy(text, text, strlen(text));
}
