/* SPDX-License-Identifier: Apache-2.0 */
#include "times.h"

#include "muster/parse.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

int times_parse(const char *text, const char *what, double *ret_seconds, struct mst_error *err)
{
    struct tm tm = {0};
    const char *rest = strptime(text, "%Y-%m-%dT%H:%M:%S", &tm);
    double fraction = 0;
    char digits[32] = "0";

    if (rest && *rest == '.') {
        const size_t count = 1 + strspn(rest + 1, "0123456789");
        (void)snprintf(digits, sizeof digits, "0%.*s", (int)(count < 20 ? count : 20), rest);
        rest += count;
    }
    if (!rest || strcmp(rest, "Z") != 0 || mst_parse_double(digits, 0, 1, &fraction, NULL) < 0)
        return mst_error_set(err, -EBADMSG, "%s: '%.40s' is no time of the form 2026-11-28T10:00:00Z", what,
                             text);
    *ret_seconds = (double)timegm(&tm) + fraction;
    return 0;
}
