/* SPDX-License-Identifier: Apache-2.0 */
#include "exposition.h"
#include "test.h"

#include <math.h>

static void whole_numbers_are_written_as_go_writes_its_shortest_doubles(void **state)
{
    static const struct {
        uint64_t value;
        unsigned scale;
        const char *text;
    } cases[] = {{0, 0, "0"},
                 {0, 9, "0"},
                 {7, 0, "7"},
                 {524288, 0, "524288"},
                 {999999, 0, "999999"},
                 {1000000, 0, "1e+06"},
                 {2097152, 0, "2.097152e+06"},
                 {1395066363, 0, "1.395066363e+09"},
                 {7, 9, "7e-09"},
                 {1500000000, 9, "1.5"},
                 {100000, 9, "0.0001"},
                 {99999, 9, "9.9999e-05"},
                 {1, 3, "0.001"},
                 {123456789012, 9, "123.456789012"},
                 {UINT64_MAX, 0, "1.8446744073709551615e+19"},
                 {UINT64_MAX, 9, "1.8446744073709551615e+10"},
                 {4000000000000000000, 9, "4e+09"}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[EXPOSITION_NUMBER_BYTES];
        const size_t bytes =
            exposition_format((struct exposition_number){cases[i].value, cases[i].scale}, text);
        assert_string_equal(text, cases[i].text);
        assert_int_equal(bytes, strlen(cases[i].text));
    }
}

static void doubles_read_back_as_they_were(void **state)
{
    static const struct {
        double value;
        const char *text;
    } cases[] = {{0, "0"},
                 {1, "1"},
                 {-1, "-1"},
                 {0.1, "0.1"},
                 {2.302585, "2.302585"},
                 {1e6, "1e+06"},
                 {1e-5, "1e-05"},
                 {NAN, "NaN"},
                 {INFINITY, "+Inf"},
                 {-INFINITY, "-Inf"},
                 {0.30000000000000004, "0.30000000000000004"}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[EXPOSITION_NUMBER_BYTES];
        (void)exposition_format_double(cases[i].value, text);
        assert_string_equal(text, cases[i].text);
        if (isfinite(cases[i].value))
            assert_true(strtod(text, NULL) == cases[i].value);
    }
}

static void a_family_without_lines_leaves_no_trace(void **state)
{
    struct mst_buf text = MST_BUF_INIT(4096);
    struct exposition out = {.text = &text};
    (void)state;
    exposition_family(&out, "a", EXPOSITION_COUNTER, "nothing");
    exposition_family(&out, "b", EXPOSITION_GAUGE, "something");
    exposition_line(&out, &(struct exposition_labels){{"x=\"1\",", NULL, "y=\"2\","}},
                    (struct exposition_number){3, 0});
    exposition_line_at(&out, NULL, (struct exposition_number){4, 0}, 1795849604407);
    assert_int_equal(exposition_end(&out), 0);
    assert_string_equal(mst_buf_text(&text), "# HELP b something\n# TYPE b gauge\nb{x=\"1\",y=\"2\"} 3\n"
                                             "b 4 1795849604407\n");
    mst_buf_release(&text);
}

static void a_page_that_does_not_fit_is_an_error(void **state)
{
    struct mst_buf text = MST_BUF_INIT(40);
    struct exposition out = {.text = &text};
    (void)state;
    exposition_family(&out, "b", EXPOSITION_GAUGE, "something");
    for (int i = 0; i < 10; i++)
        exposition_line(&out, NULL, (struct exposition_number){3, 0});
    assert_int_equal(exposition_end(&out), -EFBIG);
    mst_buf_release(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whole_numbers_are_written_as_go_writes_its_shortest_doubles),
        cmocka_unit_test(doubles_read_back_as_they_were),
        cmocka_unit_test(a_family_without_lines_leaves_no_trace),
        cmocka_unit_test(a_page_that_does_not_fit_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
