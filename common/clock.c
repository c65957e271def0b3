/* SPDX-License-Identifier: Apache-2.0 */
#include "muster/clock.h"

#include <math.h>
#include <stdio.h>
#include <time.h>

/* The years 0 to 9999: four digits. */
#define UTC_FIRST_S (-62167219200.0)
#define UTC_LAST_S  253402300799.0

uint64_t mst_now_ns(void)
{
    struct timespec now;
    /* Cannot fail: the clock exists on every Linux and the pointer is good. */
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * MST_NS_PER_S + (uint64_t)now.tv_nsec;
}

double mst_wall_s(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_REALTIME, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

double mst_ms_since(uint64_t start_ns)
{
    return (double)(mst_now_ns() - start_ns) / (double)MST_NS_PER_MS;
}

int mst_ms_until(uint64_t deadline_ns, int cap_ms)
{
    const uint64_t now_ns = mst_now_ns();
    if (deadline_ns <= now_ns)
        return 0;
    const uint64_t left_ms = (deadline_ns - now_ns + MST_NS_PER_MS - 1) / MST_NS_PER_MS;
    return left_ms < (uint64_t)cap_ms ? (int)left_ms : cap_ms;
}

void mst_utc_text(double wall_s, char text[static MST_UTC_TEXT_BYTES])
{
    const double whole = floor(wall_s);
    /* Also keeps what no time_t can hold away from the conversion. */
    if (!(whole >= UTC_FIRST_S && whole <= UTC_LAST_S)) {
        (void)snprintf(text, MST_UTC_TEXT_BYTES, "-");
        return;
    }
    const int ms = (int)((wall_s - whole) * 1000.0);
    const time_t seconds = (time_t)whole;
    struct tm utc = {0};
    (void)gmtime_r(&seconds, &utc); /* fails only beyond the years that were let in */
    char buffer[64];                /* the compiler cannot know that the fields are in range */
    (void)snprintf(buffer, sizeof buffer, "%04d-%02d-%02dT%02d:%02d:%02d.%03dZ", utc.tm_year + 1900,
                   utc.tm_mon + 1, utc.tm_mday, utc.tm_hour, utc.tm_min, utc.tm_sec, ms);
    (void)snprintf(text, MST_UTC_TEXT_BYTES, "%.24s", buffer);
}
