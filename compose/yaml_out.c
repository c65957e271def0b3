/* SPDX-License-Identifier: Apache-2.0 */
#include "yaml_out.h"

#include "scalar.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define YAML_OUT_STEP 2U

static void put(struct yaml_out *out, const char *bytes, size_t count)
{
    if (out->result == 0)
        out->result = mst_buf_append(out->text, bytes, count);
}

static void put_text(struct yaml_out *out, const char *text)
{
    put(out, text, strlen(text));
}

/* Lines begin with their newline, so that what follows a key can still be decided. */
static void begin_line(struct yaml_out *out)
{
    if (out->text->count > out->start)
        put_text(out, "\n");
    const unsigned blanks = out->is_item ? out->indent - YAML_OUT_STEP : out->indent;
    for (unsigned i = 0; i < blanks; i++)
        put_text(out, " ");
    if (out->is_item)
        put_text(out, "- ");
    out->is_item = false;
}

/* --- when a text needs quotes --- */

/* What YAML 1.1 readers take for true, false, a number of base 60, a date or a merge key. */
static bool is_mistaken_elsewhere(const char *text)
{
    static const char *const words[] = {"y", "yes", "on", "n", "no", "off"};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (strcasecmp(words[i], text) == 0)
            return true;
    if (strcmp(text, "<<") == 0)
        return true;
    const char *p = text + (*text == '+' || *text == '-');
    const size_t digits = strspn(p, "0123456789_");
    if (digits == 0 || !isdigit((unsigned char)*p))
        return false;
    if (digits == 4 && p[4] == '-' && isdigit((unsigned char)p[5]))
        return true;
    return p[digits] == ':' && isdigit((unsigned char)p[digits + 1]) &&
           strspn(p, "0123456789_:.") == strlen(p);
}

/* The bytes of the printable UTF-8 character at `p`; 0: none starts here, or it is a control character. */
static size_t printable_bytes(const char *p)
{
    const unsigned char *c = (const unsigned char *)p;
    if (c[0] < 0x80)
        return c[0] >= 0x20 && c[0] != 0x7f;
    size_t bytes = c[0] >= 0xf0 && c[0] <= 0xf4  ? 4
                   : c[0] >= 0xe0 && c[0] < 0xf0 ? 3
                   : c[0] >= 0xc2 && c[0] < 0xe0 ? 2
                                                 : 0;
    uint32_t point = bytes ? c[0] & (0xffU >> (bytes + 1)) : 0;
    for (size_t i = 1; i < bytes; i++) {
        if ((c[i] & 0xc0) != 0x80)
            return 0;
        point = point << 6 | (c[i] & 0x3fU);
    }
    if (point < 0xa0 || (point >= 0xd800 && point < 0xe000) || (bytes == 3 && point < 0x800) ||
        (bytes == 4 && (point < 0x10000 || point > 0x10ffff)) || point == 0x2028 || point == 0x2029 ||
        point == 0xfeff || point == 0xfffe || point == 0xffff)
        return 0;
    return bytes;
}

static bool is_printable(const char *text)
{
    for (size_t bytes; *text; text += bytes) {
        bytes = printable_bytes(text);
        if (bytes == 0)
            return false;
    }
    return true;
}

static bool is_plain(const char *text)
{
    const size_t length = strlen(text);
    if (isspace((unsigned char)text[0]) || isspace((unsigned char)text[length - 1]))
        return false;
    if (strchr("#,[]{}&*!|>'\"%@`", text[0]))
        return false;
    if (strchr("-?:", text[0]) && (!text[1] || isspace((unsigned char)text[1])))
        return false;
    if (strncmp(text, "---", 3) == 0 || strncmp(text, "...", 3) == 0)
        return false;
    for (const char *p = text; *p; p++) {
        if (*p == ':' && (!p[1] || isspace((unsigned char)p[1])))
            return false;
        if (*p == '#' && p > text && isspace((unsigned char)p[-1]))
            return false;
    }
    return true;
}

static void put_double_quoted(struct yaml_out *out, const char *text)
{
    put_text(out, "\"");
    for (size_t bytes; *text; text += bytes) {
        bytes = printable_bytes(text);
        if (*text == '"' || *text == '\\')
            put_text(out, "\\");
        if (bytes > 0) {
            put(out, text, bytes);
            continue;
        }
        bytes = 1;
        if (*text == '\n')
            put_text(out, "\\n");
        else if (*text == '\t')
            put_text(out, "\\t");
        else if (out->result == 0)
            out->result = mst_buf_printf(out->text, "\\x%02x", (unsigned)(unsigned char)*text);
    }
    put_text(out, "\"");
}

static void put_single_quoted(struct yaml_out *out, const char *text)
{
    put_text(out, "'");
    for (; *text; text++) {
        if (*text == '\'')
            put_text(out, "'");
        put(out, text, 1);
    }
    put_text(out, "'");
}

static void put_scalar(struct yaml_out *out, const char *text)
{
    if (scalar_resolve(text).kind != SCALAR_TEXT || is_mistaken_elsewhere(text) || !is_printable(text))
        put_double_quoted(out, text);
    else if (is_plain(text))
        put_text(out, text);
    else
        put_single_quoted(out, text);
}

/* A value, which a reader of stack files looks through for variables: "$$" is a '$' to it. */
static void put_value(struct yaml_out *out, const char *text)
{
    if (!strchr(text, '$')) {
        put_scalar(out, text);
        return;
    }
    char *escaped = malloc(2 * strlen(text) + 1), *to = escaped;
    if (!escaped) {
        out->result = out->result < 0 ? out->result : -ENOMEM;
        return;
    }
    for (const char *from = text; *from; from++) {
        if (*from == '$')
            *to++ = '$';
        *to++ = *from;
    }
    *to = '\0';
    put_scalar(out, escaped);
    free(escaped);
}

/* --- lines --- */

void yaml_out_init(struct yaml_out *out, struct mst_buf *text)
{
    *out = (struct yaml_out){.text = text, .start = text->count};
}

int yaml_out_finish(struct yaml_out *out)
{
    put_text(out, "\n");
    return out->result;
}

void yaml_out_text(struct yaml_out *out, const char *key, const char *value)
{
    if (!value)
        return;
    begin_line(out);
    put_scalar(out, key);
    put_text(out, ": ");
    put_value(out, value);
}

void yaml_out_raw(struct yaml_out *out, const char *key, const char *format, ...)
{
    char value[64];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(value, sizeof value, format, args);
    va_end(args);
    begin_line(out);
    put_scalar(out, key);
    put_text(out, ": ");
    put_text(out, value);
}

size_t yaml_out_open(struct yaml_out *out, const char *key)
{
    begin_line(out);
    put_scalar(out, key);
    put_text(out, ":");
    out->indent += YAML_OUT_STEP;
    return out->text->count;
}

void yaml_out_close(struct yaml_out *out, size_t mark)
{
    if (out->text->count == mark)
        put_text(out, " {}");
    out->indent -= YAML_OUT_STEP;
}

void yaml_out_close_optional(struct yaml_out *out, size_t mark)
{
    out->indent -= YAML_OUT_STEP;
    if (out->text->count != mark || out->result < 0)
        return;
    while (out->text->count > out->start && out->text->bytes[out->text->count - 1] != '\n')
        out->text->count--;
    if (out->text->count > out->start)
        out->text->count--; /* the newline that began the line */
    out->text->bytes[out->text->count] = '\0';
}

size_t yaml_out_open_list(struct yaml_out *out, const char *key)
{
    const size_t mark = yaml_out_open(out, key);
    out->indent += YAML_OUT_STEP; /* items' content; their dash stands two columns before */
    return mark;
}

void yaml_out_close_list(struct yaml_out *out, size_t mark)
{
    if (out->text->count == mark)
        put_text(out, " []");
    out->indent -= 2 * YAML_OUT_STEP;
}

void yaml_out_item_text(struct yaml_out *out, const char *value)
{
    out->is_item = true;
    begin_line(out);
    put_value(out, value);
}

void yaml_out_item(struct yaml_out *out)
{
    out->is_item = true;
}

void yaml_out_item_end(struct yaml_out *out)
{
    if (out->is_item) { /* nothing was written into it */
        begin_line(out);
        put_text(out, "{}");
    }
}
