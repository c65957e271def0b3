/* SPDX-License-Identifier: Apache-2.0 */
#include "quantity.h"
#include "test.h"

/* Values start as 7, so that a failure that writes is seen. */
static const struct {
    const char *text;
    int code;
    int64_t bytes;
} sizes[] = {
    {"0", 0, 0},          {"64", 0, 64},          {"64b", 0, 64},
    {"64B", 0, 64},       {"1k", 0, 1024},        {"1kb", 0, 1024},
    {"1KiB", 0, 1024},    {"1 GB", 0, 1 << 30},   {"1.5g", 0, 3LL << 29},
    {"0.5k", 0, 512},     {"1.0001k", 0, 1024},   {"512M", 0, 512 << 20},
    {"2t", 0, 2LL << 40}, {"3p", 0, 3LL << 50},   {"", -EINVAL, 7},
    {" 1k", -EINVAL, 7},  {"1  k", -EINVAL, 7},   {"-1", -EINVAL, 7},
    {"1e3", -EINVAL, 7},  {"1x", -EINVAL, 7},     {"1ki", -EINVAL, 7},
    {"1kbb", -EINVAL, 7}, {"1.2.3k", -EINVAL, 7}, {".", -EINVAL, 7},
    {"k", -EINVAL, 7},    {"9000p", -EINVAL, 7},  {"99999999999999999999999999999999999", -EINVAL, 7},
};

static const struct {
    const char *text;
    int code;
    int64_t nano;
} cpus[] = {
    {"0", 0, 0},
    {"1", 0, 1000000000},
    {"1.0", 0, 1000000000},
    {"0.5", 0, 500000000},
    {".5", 0, 500000000},
    {"2.", 0, 2000000000},
    {"0.000000001", 0, 1},
    {"1.500000000000", 0, 1500000000},
    {"1/4", 0, 250000000},
    {"3/2", 0, 1500000000},
    {"5e-1", 0, 500000000},
    {"1E2", 0, 100000000000},
    {"0/5", 0, 0},
    {"", -EINVAL, 7},
    {".", -EINVAL, 7},
    {"1/3", -EINVAL, 7},
    {"1/0", -EINVAL, 7},
    {"/2", -EINVAL, 7},
    {"1/", -EINVAL, 7},
    {"1/2/3", -EINVAL, 7},
    {"0.0000000001", -EINVAL, 7},
    {"-1", -EINVAL, 7},
    {"1e", -EINVAL, 7},
    {"1e 1", -EINVAL, 7},
    {"1e99", -EINVAL, 7},
    {"1 ", -EINVAL, 7},
    {"0x1", -EINVAL, 7},
    {"two", -EINVAL, 7},
    {"99999999999999999999", -EINVAL, 7},
    {"99999999999", -EINVAL, 7},
};

static void sizes_are_read_as_docker_reads_them(void **state)
{
    (void)state;
    for (size_t i = 0; i < MST_ARRAY_COUNT(sizes); i++) {
        struct mst_error err = MST_ERROR_INIT;
        int64_t bytes = 7;
        int r = quantity_parse_bytes(sizes[i].text, &bytes, &err);
        if (r != sizes[i].code || bytes != sizes[i].bytes)
            fail_msg("'%s': %d, %lld bytes", sizes[i].text, r, (long long)bytes);
        assert_int_equal(r < 0, err.text[0] != '\0');
    }
}

static void processors_are_exact_billionths(void **state)
{
    (void)state;
    for (size_t i = 0; i < MST_ARRAY_COUNT(cpus); i++) {
        struct mst_error err = MST_ERROR_INIT;
        int64_t nano = 7;
        int r = quantity_parse_cpus(cpus[i].text, &nano, &err);
        if (r != cpus[i].code || nano != cpus[i].nano)
            fail_msg("'%s': %d, %lld", cpus[i].text, r, (long long)nano);
        assert_int_equal(r < 0, err.text[0] != '\0');
    }
}

static void the_error_says_what_was_given(void **state)
{
    (void)state;
    struct mst_error err = MST_ERROR_INIT;
    int64_t value;
    assert_int_equal(quantity_parse_bytes("3 days", &value, &err), -EINVAL);
    assert_string_equal(err.text, "'3 days' is not a size such as 512M, 1.5g or 4096");
    assert_int_equal(quantity_parse_cpus("1/3", &value, &err), -EINVAL);
    assert_string_equal(err.text, "'1/3' is not a whole number of billionths of a processor");
    assert_int_equal(quantity_parse_cpus("1/3", &value, NULL), -EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes_are_read_as_docker_reads_them),
        cmocka_unit_test(processors_are_exact_billionths),
        cmocka_unit_test(the_error_says_what_was_given),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
