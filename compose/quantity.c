/* SPDX-License-Identifier: Apache-2.0 */
#include "quantity.h"

#include "show.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define NANO_PER_CPU 1000000000LL

static int fail(struct mst_error *err, const char *text, const char *what)
{
    char shown[SHOW_BYTES];
    return mst_error_set(err, -EINVAL, "%s is not %s", show(text, shown), what);
}

/* "", "b", "k", "kb", "kib", ... to a power of two; false when it is none of them. */
static bool parse_unit(const char *text, unsigned *ret_shift)
{
    static const char letters[] = "kmgtp";
    *ret_shift = 0;
    const char *letter = *text ? strchr(letters, *text | 0x20) : NULL;
    if (letter && *letter) {
        *ret_shift = 10 * (unsigned)(letter - letters + 1);
        text++;
        if ((*text | 0x20) == 'i' && (text[1] | 0x20) == 'b')
            text++;
    }
    if ((*text | 0x20) == 'b')
        text++;
    return !*text;
}

int quantity_parse_bytes(const char *text, int64_t *ret_bytes, struct mst_error *err)
{
    static const char what[] = "a size such as 512M, 1.5g or 4096";
    char number[32];
    const size_t digits = strspn(text, "0123456789.");
    unsigned shift;
    if (digits == 0 || digits >= sizeof number)
        return fail(err, text, what);
    memcpy(number, text, digits);
    number[digits] = '\0';
    char *end;
    const double value = strtod(number, &end);
    const char *unit = text + digits;
    unit += *unit == ' ';
    if (*end || !parse_unit(unit, &shift))
        return fail(err, text, what);
    const double bytes = value * (double)((uint64_t)1 << shift);
    if (bytes >= 0x1p63)
        return fail(err, text, "a size below 8 EiB");
    *ret_bytes = (int64_t)bytes;
    return 0;
}

/* D[.D][e[+-]D] to nano units, exactly. The digits are gathered into one whole number and the point's place.
 */
static int parse_decimal_nano(const char *text, int64_t *ret_nano, bool *ret_too_precise)
{
    int64_t value = 0;
    long exponent = 9; /* nano */
    bool has_digits = false, in_fraction = false;
    for (; (*text >= '0' && *text <= '9') || (*text == '.' && !in_fraction); text++) {
        if (*text == '.') {
            in_fraction = true;
            continue;
        }
        has_digits = true;
        if (__builtin_mul_overflow(value, 10, &value) || __builtin_add_overflow(value, *text - '0', &value))
            return -EINVAL;
        exponent -= in_fraction;
    }
    if (has_digits && (*text == 'e' || *text == 'E')) {
        char *end;
        if (!strchr("+-0123456789", text[1]) || !text[1])
            return -EINVAL;
        long given = strtol(text + 1, &end, 10);
        if (end == text + 1 || given > 18 || given < -18)
            return -EINVAL;
        exponent += given;
        text = end;
    }
    if (!has_digits || *text)
        return -EINVAL;
    for (; exponent > 0 && value; exponent--)
        if (__builtin_mul_overflow(value, 10, &value))
            return -EINVAL;
    for (; exponent < 0 && value; exponent++) {
        if (value % 10) {
            *ret_too_precise = true;
            return -EINVAL;
        }
        value /= 10;
    }
    *ret_nano = value;
    return 0;
}

static bool parse_whole(const char *text, size_t bytes, int64_t *ret_value)
{
    int64_t value = 0;
    for (size_t i = 0; i < bytes; i++)
        if (text[i] < '0' || text[i] > '9' || __builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, text[i] - '0', &value))
            return false;
    *ret_value = value;
    return bytes > 0;
}

int quantity_parse_cpus(const char *text, int64_t *ret_nano_cpus, struct mst_error *err)
{
    static const char what[] = "a number of processors such as 0.5 or 2";
    static const char too_precise[] = "a whole number of billionths of a processor";
    const char *slash = strchr(text, '/');
    int64_t nano = 0;
    if (slash) {
        int64_t over, under, scaled;
        if (!parse_whole(text, (size_t)(slash - text), &over) ||
            !parse_whole(slash + 1, strlen(slash + 1), &under) || under == 0 ||
            __builtin_mul_overflow(over, NANO_PER_CPU, &scaled))
            return fail(err, text, what);
        if (scaled % under)
            return fail(err, text, too_precise);
        nano = scaled / under;
    } else {
        bool is_too_precise = false;
        if (parse_decimal_nano(text, &nano, &is_too_precise) < 0)
            return fail(err, text, is_too_precise ? too_precise : what);
    }
    *ret_nano_cpus = nano;
    return 0;
}
