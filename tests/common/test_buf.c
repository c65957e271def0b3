/* SPDX-License-Identifier: Apache-2.0 */
#include "test.h"

static void text_grows_and_stays_terminated(void **state)
{
    (void)state;
    mst_cleanup(mst_buf_release) struct mst_buf buf = MST_BUF_INIT(100000);
    assert_string_equal(mst_buf_text(&buf), "");
    for (size_t i = 0; i < 10000; i++) {
        assert_int_equal(mst_buf_append(&buf, &"0123456789"[i % 10], 1), 0);
        assert_int_equal(buf.bytes[buf.count], '\0');
    }
    assert_int_equal(buf.count, 10000);
    for (size_t i = 0; i < buf.count; i++)
        assert_int_equal(buf.bytes[i], '0' + (int)(i % 10));
    assert_int_equal(mst_buf_printf(&buf, "%s-%05d", "x", 42), 0);
    assert_string_equal(buf.bytes + 10000, "x-00042");
    assert_int_equal(mst_buf_append_text(&buf, ""), 0);
    assert_int_equal(mst_buf_append(&buf, NULL, 0), 0);
    assert_int_equal(buf.count, 10007);
}

static void the_limit_is_exact_and_a_refusal_changes_nothing(void **state)
{
    (void)state;
    static const size_t limits[] = {0, 1, 2, 255, 256, 257, 1000};
    char filler[1000];
    memset(filler, 'a', sizeof filler);
    for (size_t l = 0; l < MST_ARRAY_COUNT(limits); l++) {
        const size_t limit = limits[l];
        mst_cleanup(mst_buf_release) struct mst_buf buf = MST_BUF_INIT(limit);
        assert_int_equal(mst_buf_append(&buf, filler, limit), 0);
        assert_int_equal(mst_buf_append(&buf, "b", 1), -EFBIG);
        assert_int_equal(mst_buf_append_text(&buf, "b"), -EFBIG);
        assert_int_equal(mst_buf_printf(&buf, "%d", 1), -EFBIG);
        assert_int_equal(mst_buf_reserve(&buf, 1), -EFBIG);
        assert_int_equal(mst_buf_reserve(&buf, SIZE_MAX), -EFBIG);
        assert_int_equal(buf.count, limit);
        assert_memory_equal(mst_buf_text(&buf), filler, limit);
        assert_int_equal(mst_buf_text(&buf)[limit], '\0');
    }
}

static void what_is_reserved_can_be_written_in_place(void **state)
{
    (void)state;
    mst_cleanup(mst_buf_release) struct mst_buf buf = MST_BUF_INIT(5000);
    assert_int_equal(mst_buf_append_text(&buf, "head"), 0);
    assert_int_equal(mst_buf_reserve(&buf, 4000), 0);
    assert_int_equal(buf.count, 4);
    memset(buf.bytes + buf.count, 'z', 4000);
    buf.count += 4000;
    assert_memory_equal(buf.bytes, "headzz", 6);
}

static void consuming_takes_from_the_front(void **state)
{
    (void)state;
    static const struct {
        size_t count;
        const char *left;
    } cases[] = {{0, "abcdef"}, {1, "bcdef"}, {5, "f"}, {6, ""}, {7, ""}, {SIZE_MAX, ""}};
    for (size_t c = 0; c < MST_ARRAY_COUNT(cases); c++) {
        mst_cleanup(mst_buf_release) struct mst_buf buf = MST_BUF_INIT(16);
        assert_int_equal(mst_buf_append_text(&buf, "abcdef"), 0);
        mst_buf_consume(&buf, cases[c].count);
        assert_string_equal(mst_buf_text(&buf), cases[c].left);
        assert_int_equal(buf.count, strlen(cases[c].left));
    }
    struct mst_buf empty = MST_BUF_INIT(16);
    mst_buf_consume(&empty, 3);
    mst_buf_clear(&empty);
    assert_string_equal(mst_buf_text(&empty), "");
}

static void clearing_keeps_the_memory_and_releasing_can_be_repeated(void **state)
{
    (void)state;
    struct mst_buf buf = MST_BUF_INIT(16);
    assert_int_equal(mst_buf_append(&buf, "a\0b", 3), 0);
    assert_memory_equal(buf.bytes, "a\0b", 4);
    const size_t capacity = buf.capacity;
    mst_buf_clear(&buf);
    assert_int_equal(buf.count, 0);
    assert_int_equal(buf.capacity, capacity);
    assert_string_equal(mst_buf_text(&buf), "");
    mst_buf_release(&buf);
    mst_buf_release(&buf);
    assert_int_equal(mst_buf_append_text(&buf, "again"), 0); /* the limit is kept */
    assert_int_equal(mst_buf_append_text(&buf, "and again..."), -EFBIG);
    mst_buf_release(&buf);
}

static void a_format_makes_a_text_of_its_own(void **state)
{
    (void)state;
    mst_cleanup(mst_freep) char *text = mst_format("%s/%u", "a", 7U);
    assert_string_equal(text, "a/7");
    mst_cleanup(mst_freep) char *empty = mst_format("%s", "");
    assert_string_equal(empty, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_grows_and_stays_terminated),
        cmocka_unit_test(the_limit_is_exact_and_a_refusal_changes_nothing),
        cmocka_unit_test(what_is_reserved_can_be_written_in_place),
        cmocka_unit_test(consuming_takes_from_the_front),
        cmocka_unit_test(clearing_keeps_the_memory_and_releasing_can_be_repeated),
        cmocka_unit_test(a_format_makes_a_text_of_its_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
