/* SPDX-License-Identifier: Apache-2.0 */
#include "exposition.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPONENT_MIN (-4)
#define EXPONENT_MAX 6 /* from 10^6 on, as Go does for the shortest digits */

/* `digits` (without zeros at either end, at least one) as 0.DIGITS * 10^point. */
static size_t layout(const char *digits, size_t count, int point, char *text)
{
    char *at = text;
    const int exponent = point - 1;
    if (exponent < EXPONENT_MIN || exponent >= EXPONENT_MAX) {
        *at++ = digits[0];
        if (count > 1) {
            *at++ = '.';
            memcpy(at, digits + 1, count - 1);
            at += count - 1;
        }
        return (size_t)(at - text) +
               (size_t)snprintf(at, 8, "e%c%02d", exponent < 0 ? '-' : '+', abs(exponent));
    }
    if (point <= 0) {
        *at++ = '0';
        *at++ = '.';
        for (int i = point; i < 0; i++)
            *at++ = '0';
        memcpy(at, digits, count);
        return (size_t)(at - text) + count;
    }
    for (size_t i = 0; i < count || (int)i < point; i++) {
        if ((int)i == point)
            *at++ = '.';
        *at++ = i < count ? digits[i] : '0';
    }
    return (size_t)(at - text);
}

size_t exposition_format(struct exposition_number number, char text[static EXPOSITION_NUMBER_BYTES])
{
    char digits[20];
    size_t start = sizeof digits, end = sizeof digits;
    if (number.value == 0) {
        memcpy(text, "0", 2);
        return 1;
    }
    for (uint64_t rest = number.value; rest > 0; rest /= 10)
        digits[--start] = (char)('0' + rest % 10);
    const int point = (int)(end - start) - (int)number.scale;
    while (digits[end - 1] == '0')
        end--;
    const size_t length = layout(digits + start, end - start, point, text);
    text[length] = '\0';
    return length;
}

size_t exposition_format_double(double value, char text[static EXPOSITION_NUMBER_BYTES])
{
    char digits[32];
    char *at = text;
    if (!isfinite(value) || value == 0)
        return (size_t)snprintf(text, EXPOSITION_NUMBER_BYTES, "%s",
                                isnan(value)       ? "NaN"
                                : !isfinite(value) ? (value > 0 ? "+Inf" : "-Inf")
                                : signbit(value)   ? "-0"
                                                   : "0");
    /* The fewest digits that read back as the same number. */
    for (int precision = 0; precision < 17; precision++) {
        (void)snprintf(digits, sizeof digits, "%.*e", precision, fabs(value));
        if (strtod(digits, NULL) == fabs(value))
            break;
    }
    char *e = strchr(digits, 'e');
    const int point = (int)strtol(e + 1, NULL, 10) + 1;
    size_t count = (size_t)(e - digits);
    if (count > 1) {
        memmove(digits + 1, digits + 2, count - 2); /* the dot */
        count--;
    }
    while (count > 1 && digits[count - 1] == '0')
        count--;
    if (value < 0)
        *at++ = '-';
    const size_t length = (size_t)(at - text) + layout(digits, count, point, at);
    text[length] = '\0';
    return length;
}

void exposition_family(struct exposition *out, const char *name, enum exposition_kind kind, const char *help)
{
    out->name = name;
    out->name_bytes = strlen(name);
    out->kind = kind;
    out->help = help;
    out->has_head = false;
}

static void line(struct exposition *out, const struct exposition_labels *labels, const char *value,
                 size_t value_bytes)
{
    size_t sizes[EXPOSITION_PIECES], total = 0;
    if (out->code == 0 && !out->has_head)
        out->code = mst_buf_printf(out->text, "# HELP %s %s\n# TYPE %s %s\n", out->name, out->help, out->name,
                                   out->kind == EXPOSITION_COUNTER ? "counter" : "gauge");
    out->has_head = true;
    for (size_t i = 0; i < EXPOSITION_PIECES; i++) {
        sizes[i] = labels && labels->pieces[i] ? strlen(labels->pieces[i]) : 0;
        total += sizes[i];
    }
    if (out->code == 0)
        out->code = mst_buf_reserve(out->text, out->name_bytes + total + value_bytes + 8);
    if (out->code < 0)
        return;
    char *at = out->text->bytes + out->text->count;
    memcpy(at, out->name, out->name_bytes);
    at += out->name_bytes;
    if (total > 0) {
        *at++ = '{';
        for (size_t i = 0; i < EXPOSITION_PIECES; i++) {
            if (sizes[i] > 0)
                memcpy(at, labels->pieces[i], sizes[i]);
            at += sizes[i];
        }
        at[-1] = '}'; /* over the last comma */
    }
    *at++ = ' ';
    memcpy(at, value, value_bytes);
    at += value_bytes;
    *at++ = '\n';
    *at = '\0';
    out->text->count = (size_t)(at - out->text->bytes);
}

void exposition_line(struct exposition *out, const struct exposition_labels *labels,
                     struct exposition_number number)
{
    char text[EXPOSITION_NUMBER_BYTES];
    line(out, labels, text, exposition_format(number, text));
}

void exposition_line_at(struct exposition *out, const struct exposition_labels *labels,
                        struct exposition_number number, uint64_t ms)
{
    char value[EXPOSITION_NUMBER_BYTES], text[EXPOSITION_NUMBER_BYTES + 24];
    (void)exposition_format(number, value);
    const int bytes = snprintf(text, sizeof text, "%s %" PRIu64, value, ms);
    line(out, labels, text, (size_t)bytes);
}

void exposition_line_double(struct exposition *out, const struct exposition_labels *labels, double value)
{
    char text[EXPOSITION_NUMBER_BYTES];
    line(out, labels, text, exposition_format_double(value, text));
}

int exposition_end(const struct exposition *out)
{
    return out->code;
}
