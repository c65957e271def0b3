/* SPDX-License-Identifier: Apache-2.0 */
#include "test.h"

static void the_code_comes_back_with_and_without_a_place_for_text(void **state)
{
    (void)state;
    struct mst_error err = MST_ERROR_INIT;
    assert_int_equal(mst_error_set(NULL, -EINVAL, "x %d", 1), -EINVAL);
    assert_int_equal(mst_error_errno(NULL, -ENOENT, "x %d", 1), -ENOENT);
    assert_int_equal(mst_error_wrap(NULL, -EPIPE, "x %d", 1), -EPIPE);
    assert_int_equal(mst_error_set(&err, -EINVAL, "bad %s", "thing"), -EINVAL);
    assert_int_equal(err.code, -EINVAL);
    assert_string_equal(err.text, "bad thing");
}

static void errno_adds_its_meaning(void **state)
{
    (void)state;
    struct mst_error err = MST_ERROR_INIT;
    assert_int_equal(mst_error_errno(&err, -ENOENT, "open '%s'", "f"), -ENOENT);
    assert_string_equal(err.text, "open 'f': No such file or directory");
    assert_int_equal(mst_error_errno(&err, -99999, "open"), -99999);
    assert_string_equal(err.text, "open: Unknown error 99999");
}

static void wrapping_puts_context_in_front(void **state)
{
    (void)state;
    struct mst_error err = MST_ERROR_INIT;
    (void)mst_error_set(&err, -ENOENT, "inner");
    assert_int_equal(mst_error_wrap(&err, -ENOENT, "middle %d", 2), -ENOENT);
    assert_int_equal(mst_error_wrap(&err, -EIO, "outer"), -EIO);
    assert_string_equal(err.text, "outer: middle 2: inner");
    assert_int_equal(err.code, -EIO);
}

static void long_texts_are_cut_and_stay_texts(void **state)
{
    (void)state;
    struct mst_error err = MST_ERROR_INIT;
    char text[3000];
    memset(text, 'y', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    static const size_t lengths[] = {1000, 1020, 1021, 1022, 1023, 1024, 2999};
    for (size_t l = 0; l < MST_ARRAY_COUNT(lengths); l++) {
        const int length = (int)lengths[l];
        (void)mst_error_set(&err, -EIO, "%.*s", length, text);
        assert_true(strlen(err.text) < sizeof err.text);
        (void)mst_error_errno(&err, -EIO, "%.*s", length, text);
        assert_true(strlen(err.text) < sizeof err.text);
        (void)mst_error_wrap(&err, -EIO, "%.*s", length, text);
        assert_true(strlen(err.text) < sizeof err.text);
        (void)mst_error_wrap(&err, -EIO, "in front");
        assert_memory_equal(err.text, "in front: yyyy", 14);
    }
}

static void each_code_has_its_exit_status(void **state)
{
    (void)state;
    static const struct {
        int code, status;
    } cases[] = {
        {0, MST_EXIT_DONE},
        {1, MST_EXIT_DONE},
        {-EINVAL, MST_EXIT_USAGE},
        {-EBADMSG, MST_EXIT_USAGE},
        {-EREMOTEIO, MST_EXIT_REFUSED},
        {-ETIMEDOUT, MST_EXIT_TIMEOUT},
        {-EPIPE, MST_EXIT_FAILED},
        {-ENOMEM, MST_EXIT_FAILED},
        {-99999, MST_EXIT_FAILED},
    };
    for (size_t c = 0; c < MST_ARRAY_COUNT(cases); c++)
        assert_int_equal(mst_exit_status(cases[c].code), cases[c].status);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_code_comes_back_with_and_without_a_place_for_text),
        cmocka_unit_test(errno_adds_its_meaning),
        cmocka_unit_test(wrapping_puts_context_in_front),
        cmocka_unit_test(long_texts_are_cut_and_stay_texts),
        cmocka_unit_test(each_code_has_its_exit_status),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
