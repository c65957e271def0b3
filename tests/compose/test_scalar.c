/* SPDX-License-Identifier: Apache-2.0 */
#include "scalar.h"
#include "test.h"

#include <math.h>

/* What docker 28.2.2 prints for each when it is an environment variable's value. */
static const struct {
    const char *text;
    enum scalar_kind kind;
    const char *printed; /* NULL: not a number */
} cases[] = {
    {"", SCALAR_NULL, NULL},
    {"~", SCALAR_NULL, NULL},
    {"null", SCALAR_NULL, NULL},
    {"Null", SCALAR_NULL, NULL},
    {"NULL", SCALAR_NULL, NULL},
    {"nULL", SCALAR_TEXT, NULL},
    {"true", SCALAR_BOOL, NULL},
    {"False", SCALAR_BOOL, NULL},
    {"TRUE", SCALAR_BOOL, NULL},
    {"tRUE", SCALAR_TEXT, NULL},
    {"yes", SCALAR_TEXT, NULL},
    {"no", SCALAR_TEXT, NULL},
    {"on", SCALAR_TEXT, NULL},
    {"y", SCALAR_TEXT, NULL},
    {"0", SCALAR_INT, "0"},
    {"-0", SCALAR_INT, "0"},
    {"+5", SCALAR_INT, "5"},
    {"010", SCALAR_INT, "8"},
    {"0440", SCALAR_INT, "288"},
    {"0o17", SCALAR_INT, "15"},
    {"-0o17", SCALAR_INT, "-15"},
    {"0x10", SCALAR_INT, "16"},
    {"-0x10", SCALAR_INT, "-16"},
    {"0X1F", SCALAR_INT, "31"},
    {"0b11", SCALAR_INT, "3"},
    {"0B11", SCALAR_INT, "3"},
    {"-0b11", SCALAR_INT, "-3"},
    {"1_000", SCALAR_INT, "1000"},
    {"1__0", SCALAR_INT, "10"},
    {"0_8", SCALAR_FLOAT, "8"},
    {"08", SCALAR_FLOAT, "8"},
    {"-08", SCALAR_FLOAT, "-8"},
    {"0x", SCALAR_TEXT, NULL},
    {"0b", SCALAR_TEXT, NULL},
    {"0b12", SCALAR_TEXT, NULL},
    {"22:22", SCALAR_TEXT, NULL},
    {"1.2.3", SCALAR_TEXT, NULL},
    {"2020-01-01", SCALAR_TEXT, NULL},
    {"-", SCALAR_TEXT, NULL},
    {"+", SCALAR_TEXT, NULL},
    {".", SCALAR_TEXT, NULL},
    {"1e", SCALAR_TEXT, NULL},
    {"e1", SCALAR_TEXT, NULL},
    {"1e400", SCALAR_TEXT, NULL},
    {"._5", SCALAR_TEXT, NULL},
    {"18446744073709551615", SCALAR_INT, "18446744073709551615"},
    {"18446744073709551616", SCALAR_FLOAT, "1.8446744073709552e+19"},
    {"+9223372036854775808", SCALAR_FLOAT, "9.223372036854776e+18"},
    {"-9223372036854775808", SCALAR_INT, "-9223372036854775808"},
    {"-9223372036854775809", SCALAR_FLOAT, "-9.223372036854776e+18"},
    {"12345678901234567890123", SCALAR_FLOAT, "1.2345678901234568e+22"},
    {"1.50", SCALAR_FLOAT, "1.5"},
    {"1.", SCALAR_FLOAT, "1"},
    {".5", SCALAR_FLOAT, "0.5"},
    {"+.5e3", SCALAR_FLOAT, "500"},
    {"-0.0", SCALAR_FLOAT, "-0"},
    {"1e3", SCALAR_FLOAT, "1000"},
    {"12e03", SCALAR_FLOAT, "12000"},
    {"1e5", SCALAR_FLOAT, "100000"},
    {"1e6", SCALAR_FLOAT, "1e+06"},
    {"1e22", SCALAR_FLOAT, "1e+22"},
    {"99999.95", SCALAR_FLOAT, "99999.95"},
    {"100000.5", SCALAR_FLOAT, "100000.5"},
    {"999999.5", SCALAR_FLOAT, "999999.5"},
    {"123456.0", SCALAR_FLOAT, "123456"},
    {"1234567.0", SCALAR_FLOAT, "1.234567e+06"},
    {"123456789.0", SCALAR_FLOAT, "1.23456789e+08"},
    {"0.0001", SCALAR_FLOAT, "0.0001"},
    {"0.00001", SCALAR_FLOAT, "1e-05"},
    {"5e-324", SCALAR_FLOAT, "5e-324"},
    {"685_230.15", SCALAR_FLOAT, "685230.15"},
    {".inf", SCALAR_FLOAT, "+Inf"},
    {"-.Inf", SCALAR_FLOAT, "-Inf"},
    {".nan", SCALAR_FLOAT, "NaN"},
};

static void scalars_mean_what_they_mean_to_go(void **state)
{
    (void)state;
    for (size_t i = 0; i < MST_ARRAY_COUNT(cases); i++) {
        struct scalar scalar = scalar_resolve(cases[i].text);
        char printed[SCALAR_TEXT_BYTES] = "";
        if (scalar.kind == SCALAR_INT || scalar.kind == SCALAR_FLOAT)
            scalar_print(&scalar, printed);
        if (scalar.kind != cases[i].kind || (cases[i].printed && strcmp(printed, cases[i].printed) != 0))
            fail_msg("'%s': kind %d '%s', expected %d '%s'", cases[i].text, (int)scalar.kind, printed,
                     (int)cases[i].kind, cases[i].printed ? cases[i].printed : "");
    }
}

static void a_number_of_a_thousand_digits_is_a_text(void **state)
{
    (void)state;
    char text[1001];
    memset(text, '7', 1000);
    text[1000] = '\0';
    assert_int_equal(scalar_resolve(text).kind, SCALAR_TEXT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(scalars_mean_what_they_mean_to_go),
        cmocka_unit_test(a_number_of_a_thousand_digits_is_a_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
