/* SPDX-License-Identifier: Apache-2.0 */
#include "muster/clock.h"
#include "test.h"

#include <math.h>

static void the_monotonic_clock_never_goes_back(void **state)
{
    (void)state;
    uint64_t before = mst_now_ns();
    for (int i = 0; i < 10000; i++) {
        const uint64_t now = mst_now_ns();
        assert_true(now >= before);
        before = now;
    }
    assert_true(mst_ms_since(before) >= 0);
}

static void the_wall_clock_is_of_this_century(void **state)
{
    (void)state;
    assert_true(mst_wall_s() > 1.6e9 && mst_wall_s() < 4.2e9);
}

static void waiting_times_are_rounded_up_and_capped(void **state)
{
    (void)state;
    const uint64_t now = mst_now_ns();
    assert_int_equal(mst_ms_until(0, 100), 0);
    assert_int_equal(mst_ms_until(now, 100), 0);
    assert_int_equal(mst_ms_until(UINT64_MAX, 100), 100);
    assert_int_equal(mst_ms_until(UINT64_MAX, 0), 0);
    /* Less than a millisecond is not 0: poll(2) would spin. */
    const uint64_t far = mst_now_ns() + 1000 * MST_NS_PER_S + 1;
    const int left = mst_ms_until(far, INT32_MAX);
    assert_true(left > 999000 && left <= 1000001);
}

static void utc_text_is_iso_8601(void **state)
{
    (void)state;
    static const struct {
        double wall_s;
        const char *text;
    } cases[] = {
        {0, "1970-01-01T00:00:00.000Z"},
        {0.25, "1970-01-01T00:00:00.250Z"},
        {0.9999, "1970-01-01T00:00:00.999Z"}, /* never ":00.1000" */
        {951782400, "2000-02-29T00:00:00.000Z"},
        {1767225599.5, "2025-12-31T23:59:59.500Z"},
        {253402300799.0, "9999-12-31T23:59:59.000Z"},
        {253402300800.0, "-"}, /* five digits of year do not fit */
        {-0.5, "1969-12-31T23:59:59.500Z"},
        {1e17, "-"},
        {1e300, "-"},
        {-1e300, "-"},
        {INFINITY, "-"},
        {NAN, "-"},
    };
    for (size_t c = 0; c < MST_ARRAY_COUNT(cases); c++) {
        char text[MST_UTC_TEXT_BYTES];
        memset(text, 'x', sizeof text);
        mst_utc_text(cases[c].wall_s, text);
        assert_string_equal(text, cases[c].text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_monotonic_clock_never_goes_back),
        cmocka_unit_test(the_wall_clock_is_of_this_century),
        cmocka_unit_test(waiting_times_are_rounded_up_and_capped),
        cmocka_unit_test(utc_text_is_iso_8601),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
