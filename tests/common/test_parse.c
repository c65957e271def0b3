/* SPDX-License-Identifier: Apache-2.0 */
#include "muster/parse.h"
#include "test.h"

static void whole_numbers_are_read_strictly(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint64_t min, max;
        int code;
        uint64_t value;
    } cases[] = {
        {"0", 0, 10, 0, 0},
        {"10", 0, 10, 0, 10},
        {"007", 0, 10, 0, 7},
        {"18446744073709551615", 0, UINT64_MAX, 0, UINT64_MAX},
        {"18446744073709551616", 0, UINT64_MAX, -EINVAL, 7},
        {"184467440737095516150", 0, UINT64_MAX, -EINVAL, 7},
        {"99999999999999999999999999999", 0, UINT64_MAX, -EINVAL, 7},
        {"11", 0, 10, -EINVAL, 7},
        {"1", 2, 10, -EINVAL, 7},
        {"", 0, 10, -EINVAL, 7},
        {" 1", 0, 10, -EINVAL, 7},
        {"1 ", 0, 10, -EINVAL, 7},
        {"+1", 0, 10, -EINVAL, 7},
        {"-1", 0, UINT64_MAX, -EINVAL, 7},
        {"0x1", 0, 10, -EINVAL, 7},
        {"1.0", 0, 10, -EINVAL, 7},
        {"1e0", 0, 10, -EINVAL, 7},
        {"\xd9\xa1", 0, 10, -EINVAL, 7}, /* an Arabic digit one */
    };
    for (size_t c = 0; c < MST_ARRAY_COUNT(cases); c++) {
        struct mst_error err = MST_ERROR_INIT;
        uint64_t value = 7;
        assert_int_equal(mst_parse_u64(cases[c].text, cases[c].min, cases[c].max, &value, &err),
                         cases[c].code);
        assert_int_equal(value, cases[c].value);
        if (cases[c].code < 0)
            assert_non_null(strstr(err.text, cases[c].text));
    }
    uint32_t small = 7;
    assert_int_equal(mst_parse_u32("4294967295", 0, UINT32_MAX, &small, NULL), 0);
    assert_int_equal(small, UINT32_MAX);
    small = 7;
    assert_int_equal(mst_parse_u32("4294967296", 0, UINT32_MAX, &small, NULL), -EINVAL);
    assert_int_equal(small, 7);
}

static void numbers_are_finite_decimals(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int code;
        double value;
    } cases[] = {
        {"0", 0, 0},           {"-1.5", 0, -1.5},     {"+2", 0, 2},
        {"1e-3", 0, 1e-3},     {".5", 0, 0.5},        {"5.", 0, 5},
        {"100", 0, 100},       {"100.1", -EINVAL, 7}, {"-100.1", -EINVAL, 7},
        {"", -EINVAL, 7},      {" 1", -EINVAL, 7},    {"1 ", -EINVAL, 7},
        {"nan", -EINVAL, 7},   {"inf", -EINVAL, 7},   {"0x10", -EINVAL, 7},
        {"1,5", -EINVAL, 7},   {"e", -EINVAL, 7},     {".", -EINVAL, 7},
        {"1e", -EINVAL, 7},    {"--1", -EINVAL, 7},   {"1e999", -EINVAL, 7},
        {"1.2.3", -EINVAL, 7}, {"-", -EINVAL, 7},     {"1e400000000000", -EINVAL, 7},
    };
    for (size_t c = 0; c < MST_ARRAY_COUNT(cases); c++) {
        double value = 7;
        assert_int_equal(mst_parse_double(cases[c].text, -100, 100, &value, NULL), cases[c].code);
        assert_true(value == cases[c].value);
    }
}

static void truth_has_eight_words(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int code;
        bool value;
    } cases[] = {
        {"true", 0, true},       {"yes", 0, true},         {"on", 0, true},      {"1", 0, true},
        {"false", 0, false},     {"no", 0, false},         {"off", 0, false},    {"0", 0, false},
        {"True", -EINVAL, true}, {"", -EINVAL, true},      {"2", -EINVAL, true}, {"truefalse", -EINVAL, true},
        {"y", -EINVAL, true},    {" true", -EINVAL, true},
    };
    for (size_t c = 0; c < MST_ARRAY_COUNT(cases); c++) {
        bool value = cases[c].code < 0 || !cases[c].value;
        assert_int_equal(mst_parse_bool(cases[c].text, &value, NULL), cases[c].code);
        assert_int_equal(value, cases[c].value);
    }
}

static void durations_are_those_of_go(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int code;
        uint64_t ns;
    } cases[] = {
        {"0", 0, 0},
        {"0s", 0, 0},
        {"1ns", 0, 1},
        {"1us", 0, 1000},
        {"1\u00b5s", 0, 1000}, /* the micro sign and the Greek letter */
        {"1\u03bcs", 0, 1000},
        {"250ms", 0, 250000000},
        {"90s", 0, 90000000000},
        {"1m30s", 0, 90000000000},
        {"1h2m3.5s", 0, 3723500000000},
        {"1.5h", 0, 5400000000000},
        {".5s", 0, 500000000},
        {"1m1m", 0, 120000000000},
        {"", -EINVAL, 7},
        {"5", -EINVAL, 7},
        {"s", -EINVAL, 7},
        {".s", -EINVAL, 7},
        {"1.2.3s", -EINVAL, 7},
        {"3 days", -EINVAL, 7},
        {"1d", -EINVAL, 7},
        {"1S", -EINVAL, 7},
        {" 1s", -EINVAL, 7},
        {"1s ", -EINVAL, 7},
        {"-1s", -EINVAL, 7},
        {"1e3s", -EINVAL, 7},
        {"1mss", -EINVAL, 7},
        {"0x1s", -EINVAL, 7},
        {"00", -EINVAL, 7},
        {"9999999999999999999h", -EINVAL, 7},
        {"1000000000000000000000000000000000s", -EINVAL, 7},
        {"2562048h", -EINVAL, 7},
    };
    for (size_t c = 0; c < MST_ARRAY_COUNT(cases); c++) {
        uint64_t ns = 7;
        assert_int_equal(mst_parse_duration_ns(cases[c].text, &ns, NULL), cases[c].code);
        assert_int_equal(ns, cases[c].ns);
    }
}

static void the_nearest_name_is_a_small_slip_away(void **state)
{
    (void)state;
    static const char *const names[] = {"workers", "steps", "epochs", "seed", "lr", "wait"};
    static const struct {
        const char *text, *nearest;
    } cases[] = {
        {"worker", "workers"},  {"wrokers", "workers"},
        {"workerz", "workers"}, {"wworkers", "workers"},
        {"steps", "steps"},     {"spets", "steps"},
        {"epoch", "epochs"},    {"sed", "seed"},
        {"lr", "lr"},           {"l", NULL},
        {"xy", NULL},           {"", NULL},
        {"banana", NULL},       {"wo", NULL},
    };
    for (size_t c = 0; c < MST_ARRAY_COUNT(cases); c++) {
        const char *nearest = mst_nearest(cases[c].text, names, MST_ARRAY_COUNT(names));
        if (cases[c].nearest) {
            assert_non_null(nearest);
            assert_string_equal(nearest, cases[c].nearest);
        } else {
            assert_null(nearest);
        }
    }
    char word[65];
    memset(word, 'a', sizeof word);
    word[64] = '\0';
    const char *const own[] = {word};
    assert_ptr_equal(mst_nearest(word, own, 1), word); /* 64 bytes: the longest that is compared */
    char longer[66];
    memset(longer, 'a', sizeof longer);
    longer[65] = '\0';
    const char *const two[] = {longer, word};
    assert_null(mst_nearest(longer, two, 2));
    assert_ptr_equal(mst_nearest(word, two, 2), word);
    assert_null(mst_nearest("a", NULL, 0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whole_numbers_are_read_strictly),
        cmocka_unit_test(numbers_are_finite_decimals),
        cmocka_unit_test(truth_has_eight_words),
        cmocka_unit_test(durations_are_those_of_go),
        cmocka_unit_test(the_nearest_name_is_a_small_slip_away),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
