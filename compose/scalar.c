/* SPDX-License-Identifier: Apache-2.0 */
#include "scalar.h"

#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SCALAR_NUMBER_MAX_BYTES 400 /* 1.8e308 written out has 309 digits */

static bool is_one_of(const char *text, const char *const *words)
{
    for (; *words; words++)
        if (strcmp(text, *words) == 0)
            return true;
    return false;
}

static int digit_value(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c = (char)(c | 0x20);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : 99;
}

static bool parse_digits(const char *text, unsigned base, uint64_t *ret_value)
{
    uint64_t value = 0;
    if (!*text)
        return false;
    for (; *text; text++) {
        unsigned digit = (unsigned)digit_value(*text);
        if (digit >= base || __builtin_mul_overflow(value, (uint64_t)base, &value) ||
            __builtin_add_overflow(value, (uint64_t)digit, &value))
            return false;
    }
    *ret_value = value;
    return true;
}

/* Go's strconv.ParseInt and ParseUint with base 0: a sign is fine for the signed one only. */
static bool parse_int(const char *text, struct scalar *scalar)
{
    bool has_sign = *text == '+' || *text == '-', negative = *text == '-';
    uint64_t value;
    text += has_sign;
    unsigned base = 10;
    if (text[0] == '0' && text[1]) {
        char mark = (char)(text[1] | 0x20);
        base = mark == 'x' ? 16 : mark == 'b' ? 2 : 8;
        text += mark == 'x' || mark == 'b' || mark == 'o' ? 2 : 1;
    }
    if (!parse_digits(text, base, &value))
        return false;
    const uint64_t most = negative ? (uint64_t)INT64_MAX + 1 : has_sign ? INT64_MAX : UINT64_MAX;
    if (value > most)
        return false;
    *scalar = (struct scalar){.kind = SCALAR_INT, .negative = negative && value, .magnitude = value};
    return true;
}

static const char *skip_digits(const char *p)
{
    while (*p >= '0' && *p <= '9')
        p++;
    return p;
}

/* [-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)? */
static bool looks_like_float(const char *p)
{
    p += *p == '+' || *p == '-';
    const char *start = p;
    p = skip_digits(p);
    bool has_whole = p > start;
    if (*p == '.') {
        const char *fraction = ++p;
        p = skip_digits(p);
        if (!has_whole && p == fraction)
            return false;
    } else if (!has_whole) {
        return false;
    }
    if (*p == 'e' || *p == 'E') {
        p++;
        p += *p == '+' || *p == '-';
        start = p;
        p = skip_digits(p);
        if (p == start)
            return false;
    }
    return !*p;
}

static bool parse_number(const char *text, struct scalar *scalar)
{
    char plain[SCALAR_NUMBER_MAX_BYTES];
    size_t length = 0;
    /* Underscores may stand anywhere in a number, except that a leading dot makes Go look no further. */
    for (const char *p = text; *p; p++) {
        if (*p == '_' && *text != '.')
            continue;
        if (length + 1 >= sizeof plain)
            return false;
        plain[length++] = *p;
    }
    plain[length] = '\0';
    if (*text != '.' && parse_int(plain, scalar))
        return true;
    if (!looks_like_float(plain))
        return false;
    /* The programs never call setlocale(), so the decimal point is a point. */
    double value = strtod(plain, NULL);
    if (!isfinite(value))
        return false;
    *scalar = (struct scalar){.kind = SCALAR_FLOAT, .real = value};
    return true;
}

static bool parse_special_float(const char *text, struct scalar *scalar)
{
    static const char *const nans[] = {".nan", ".NaN", ".NAN", NULL};
    static const char *const infinities[] = {".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF", NULL};
    static const char *const negatives[] = {"-.inf", "-.Inf", "-.INF", NULL};
    double value;
    if (is_one_of(text, nans))
        value = (double)NAN;
    else if (is_one_of(text, infinities))
        value = (double)INFINITY;
    else if (is_one_of(text, negatives))
        value = -(double)INFINITY;
    else
        return false;
    *scalar = (struct scalar){.kind = SCALAR_FLOAT, .real = value};
    return true;
}

struct scalar scalar_resolve(const char *text)
{
    static const char *const nulls[] = {"", "~", "null", "Null", "NULL", NULL};
    static const char *const trues[] = {"true", "True", "TRUE", NULL};
    static const char *const falses[] = {"false", "False", "FALSE", NULL};
    struct scalar scalar = {.kind = SCALAR_TEXT};
    if (is_one_of(text, nulls)) {
        scalar.kind = SCALAR_NULL;
    } else if (is_one_of(text, trues) || is_one_of(text, falses)) {
        scalar.kind = SCALAR_BOOL;
        scalar.boolean = (*text | 0x20) == 't';
    } else if (strchr("0123456789+-.", *text)) {
        if (!parse_special_float(text, &scalar))
            (void)parse_number(text, &scalar);
    }
    return scalar;
}

/* Go's %v: the fewest digits that read back as the same number, with an exponent from 1e+06 up and below
 * 1e-04. */
static void print_real(double value, char text[static SCALAR_TEXT_BYTES])
{
    if (isnan(value) || isinf(value)) {
        (void)snprintf(text, SCALAR_TEXT_BYTES, "%s", isnan(value) ? "NaN" : value > 0 ? "+Inf" : "-Inf");
        return;
    }
    int digits = 1;
    for (; digits < 17; digits++) {
        (void)snprintf(text, SCALAR_TEXT_BYTES, "%.*e", digits - 1, value);
        if (strtod(text, NULL) == value)
            break;
    }
    (void)snprintf(text, SCALAR_TEXT_BYTES, "%.*e", digits - 1, value);
    const char *exponent_text = strchr(text, 'e');
    long exponent = exponent_text ? strtol(exponent_text + 1, NULL, 10) : 0;
    /* Go's threshold is 21 for numbers with that many digits only; with the shortest form it is 6. */
    if (exponent >= -4 && exponent < 6) {
        long decimals = digits - 1 - exponent;
        (void)snprintf(text, SCALAR_TEXT_BYTES, "%.*f", decimals > 0 ? (int)decimals : 0, value);
    }
}

void scalar_print(const struct scalar *scalar, char text[static SCALAR_TEXT_BYTES])
{
    if (scalar->kind == SCALAR_FLOAT)
        print_real(scalar->real, text);
    else
        (void)snprintf(text, SCALAR_TEXT_BYTES, "%s%" PRIu64, scalar->negative ? "-" : "", scalar->magnitude);
}
