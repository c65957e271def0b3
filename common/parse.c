/* SPDX-License-Identifier: Apache-2.0 */
#include "muster/parse.h"

#include "muster/clock.h"

#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define NEAREST_MAX_BYTES    64 /* longer words are not compared: the table below would grow */
#define NEAREST_MAX_DISTANCE 2

int mst_parse_u64(const char *text, uint64_t min, uint64_t max, uint64_t *ret_value, struct mst_error *err)
{
    uint64_t value = 0;
    bool good = *text != '\0';
    for (const char *c = text; good && *c; c++) {
        const unsigned digit = (unsigned)(unsigned char)*c - '0';
        good = digit <= 9 && value <= (UINT64_MAX - digit) / 10;
        value = value * 10 + digit;
    }
    if (!good || value < min || value > max)
        return mst_error_set(err, -EINVAL, "'%.64s' is not a whole number from %" PRIu64 " to %" PRIu64, text,
                             min, max);
    *ret_value = value;
    return 0;
}

int mst_parse_u32(const char *text, uint32_t min, uint32_t max, uint32_t *ret_value, struct mst_error *err)
{
    uint64_t value = 0;
    const int r = mst_parse_u64(text, min, max, &value, err);
    if (r < 0)
        return r;
    *ret_value = (uint32_t)value;
    return 0;
}

int mst_parse_double(const char *text, double min, double max, double *ret_value, struct mst_error *err)
{
    /* strtod() would also take white space, hex, "inf" and "nan". */
    const size_t length = strlen(text);
    bool good = length > 0 && strspn(text, "0123456789+-.eE") == length;
    char *end = NULL;
    double value = 0;
    if (good) {
        value = strtod(text, &end);
        good = *end == '\0' && isfinite(value) && value >= min && value <= max;
    }
    if (!good)
        return mst_error_set(err, -EINVAL, "'%.64s' is not a number from %g to %g", text, min, max);
    *ret_value = value;
    return 0;
}

int mst_parse_bool(const char *text, bool *ret_value, struct mst_error *err)
{
    static const char *const words[2][4] = {{"false", "no", "off", "0"}, {"true", "yes", "on", "1"}};
    for (int value = 0; value < 2; value++) {
        for (int w = 0; w < 4; w++) {
            if (strcmp(text, words[value][w]) == 0) {
                *ret_value = value == 1;
                return 0;
            }
        }
    }
    return mst_error_set(err, -EINVAL, "'%.64s' is neither true nor false", text);
}

/* One "number unit" of a duration; *text moves past it. */
static bool take_duration_part(const char **text, double *ret_ns)
{
    static const struct {
        const char *name;
        double ns;
    } units[] = {{"ns", 1},   {"us", 1e3}, {"\u00b5s", 1e3}, {"\u03bcs", 1e3},
                 {"ms", 1e6}, {"s", 1e9},  {"m", 60e9},      {"h", 3600e9}};

    const size_t digits = strspn(*text, "0123456789.");
    if (digits == 0 || digits > 30)
        return false;
    char number[32];
    memcpy(number, *text, digits);
    number[digits] = '\0';
    char *end;
    const double value = strtod(number, &end);
    if (*end != '\0')
        return false;
    *text += digits;

    for (size_t u = 0; u < sizeof units / sizeof units[0]; u++) {
        const size_t length = strlen(units[u].name);
        const char next = strncmp(*text, units[u].name, length) == 0 ? (*text)[length] : 'x';
        if (next == '\0' || next == '.' || isdigit((unsigned char)next)) {
            *text += length;
            *ret_ns = value * units[u].ns;
            return true;
        }
    }
    return false;
}

int mst_parse_duration_ns(const char *text, uint64_t *ret_ns, struct mst_error *err)
{
    double total_ns = 0;
    const char *next = text;
    bool good = *text != '\0';
    if (strcmp(text, "0") == 0)
        next = "";
    while (good && *next) {
        double part_ns;
        good = take_duration_part(&next, &part_ns);
        if (good)
            total_ns += part_ns;
    }
    if (!good || total_ns > (double)INT64_MAX / 2)
        return mst_error_set(err, -EINVAL, "'%.64s' is not a duration such as 90s, 1m30s or 250ms", text);
    *ret_ns = (uint64_t)(total_ns + 0.5);
    return 0;
}

/* Optimal string alignment: insertion, deletion, substitution, swap of neighbours. */
static size_t edit_distance(const char *a, size_t a_bytes, const char *b, size_t b_bytes)
{
    size_t rows[3][NEAREST_MAX_BYTES + 1];
    for (size_t j = 0; j <= b_bytes; j++)
        rows[0][j] = j;
    for (size_t i = 1; i <= a_bytes; i++) {
        size_t *row = rows[i % 3], *above = rows[(i - 1) % 3], *above2 = rows[(i + 1) % 3];
        row[0] = i;
        for (size_t j = 1; j <= b_bytes; j++) {
            size_t best = above[j - 1] + (a[i - 1] != b[j - 1]);
            if (above[j] + 1 < best)
                best = above[j] + 1;
            if (row[j - 1] + 1 < best)
                best = row[j - 1] + 1;
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] && above2[j - 2] + 1 < best)
                best = above2[j - 2] + 1;
            row[j] = best;
        }
    }
    return rows[a_bytes % 3][b_bytes];
}

const char *mst_nearest(const char *text, const char *const *names, size_t count)
{
    const size_t length = strlen(text);
    const char *best = NULL;
    size_t best_distance = NEAREST_MAX_DISTANCE + 1;
    if (length > NEAREST_MAX_BYTES)
        return NULL;
    for (size_t n = 0; n < count; n++) {
        const size_t name_bytes = strlen(names[n]);
        if (name_bytes > NEAREST_MAX_BYTES)
            continue;
        const size_t distance = edit_distance(text, length, names[n], name_bytes);
        /* A word that shares nothing is no suggestion: "-x" is not "-y". */
        if (distance < best_distance && distance < name_bytes && distance < length) {
            best = names[n];
            best_distance = distance;
        }
    }
    return best;
}
