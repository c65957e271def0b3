/* SPDX-License-Identifier: Apache-2.0 */
#include "taskstate.h"

#include "muster/cleanup.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

static bool is_one_of(const char *state, const char *const *states, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (strcmp(state, states[i]) == 0)
            return true;
    }
    return false;
}

bool taskstate_is_before_running(const char *state)
{
    static const char *const states[] = {"new",      "allocated", "pending", "assigned",
                                         "accepted", "preparing", "ready",   "starting"};

    return is_one_of(state, states, MST_ARRAY_COUNT(states));
}

bool taskstate_is_end(const char *state)
{
    static const char *const states[] = {"complete", "shutdown", "failed", "rejected", "orphaned", "remove"};

    return is_one_of(state, states, MST_ARRAY_COUNT(states));
}

double taskstate_time_s(const char *text)
{
    struct tm tm = {0};
    double second = 0;
    int sign_hours = 0, sign_minutes = 0;
    char zone[8] = "";
    time_t whole;

    if (sscanf(text, "%4d-%2d-%2dT%2d:%2d:%lf%7s", &tm.tm_year, &tm.tm_mon, &tm.tm_mday, &tm.tm_hour,
               &tm.tm_min, &second, zone) < 6)
        return 0;
    if (tm.tm_mon < 1 || tm.tm_mon > 12 || !(second >= 0 && second < 61))
        return 0;
    tm.tm_year -= 1900;
    tm.tm_mon -= 1;
    whole = timegm(&tm);
    if ((zone[0] == '+' || zone[0] == '-') && sscanf(zone + 1, "%2d:%2d", &sign_hours, &sign_minutes) == 2)
        whole -= (zone[0] == '-' ? -1 : 1) * (sign_hours * 3600 + sign_minutes * 60);
    return (double)whole + second;
}
