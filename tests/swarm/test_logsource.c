/* SPDX-License-Identifier: Apache-2.0 */
#include "../common/test.h"
#include "logsource.h"

#include <string.h>

#define AT(second) "2026-01-01T00:00:" second ".000000000Z"

static bool take(struct logsource *source, const char *timestamp, const char *text)
{
    return logsource_take(source, timestamp, text, strlen(text));
}

static void a_log_that_is_read_again_says_nothing_twice(void **state)
{
    struct logsources sources = {0};
    struct logsource *source = logsources_find(&sources, "t1", 1);

    (void)state;
    assert_true(take(source, AT("30"), "one"));
    assert_true(take(source, AT("50"), "two"));
    assert_true(take(source, AT("20"), "the clock went back"));
    assert_true(take(source, AT("20"), "and the same moment again"));
    logsources_read_again(&sources);
    assert_false(take(source, AT("50"), "two"));
    assert_false(take(source, AT("20"), "the clock went back"));
    assert_false(take(source, AT("20"), "and the same moment again"));
    assert_true(take(source, AT("20"), "written while nobody listened"));
    assert_true(take(source, AT("10"), "and the clock went back once more"));
    logsources_release(&sources);
}

static void what_a_log_lost_is_made_up_for_by_time(void **state)
{
    struct logsources sources = {0};
    struct logsource *source = logsources_find(&sources, "t1", 1);

    (void)state;
    assert_true(take(source, AT("30"), "one"));
    logsources_read_again(&sources); /* and the log was cut meanwhile: "one" is not in it */
    assert_false(take(source, AT("29"), "older"));
    assert_true(take(source, AT("31"), "newer"));
    assert_true(take(source, AT("10"), "the clock went back"));
    logsources_release(&sources);
}

static void who_never_spoke_is_new_when_the_log_is_read_again(void **state)
{
    struct logsources sources = {0};

    (void)state;
    assert_non_null(logsources_find(&sources, "t1", 1));
    assert_true(logsources_since_s(&sources) <= 0);
    logsources_read_again(&sources);
    assert_true(take(logsources_find(&sources, "t1", 1), AT("01"), "one"));
    assert_int_equal(sources.count, 1);
    assert_true(take(logsources_find(&sources, "t1", 2), AT("01"), "one"));
    assert_true(take(logsources_find(&sources, "t2", 1), AT("01"), "one"));
    assert_int_equal(sources.count, 3);
    logsources_release(&sources);
}

static void reading_again_begins_before_the_earliest_of_the_last(void **state)
{
    struct logsources sources = {0};

    (void)state;
    assert_true(take(logsources_find(&sources, "t1", 1), AT("50"), "one"));
    assert_true(take(logsources_find(&sources, "t2", 1), AT("20"), "its clock is behind"));
    assert_true(logsources_since_s(&sources) == 1767225620 - 10);
    /* Long silent: a task that has ended. */
    logsources_find(&sources, "t2", 1)->heard_ns -= 31000000000ULL;
    assert_true(logsources_since_s(&sources) == 1767225650 - 10);
    logsources_release(&sources);
}

static void a_line_without_end_comes_in_pieces_of_the_limit(void **state)
{
    static char piece[64 << 10];
    struct logsources sources = {0};
    struct logsource *source = logsources_find(&sources, "t1", 1);

    (void)state;
    memset(piece, 'x', sizeof piece);
    for (size_t sent = sizeof piece; sent < LOGSOURCE_LINE_MAX_BYTES; sent += sizeof piece)
        assert_int_equal(logsource_join(source, AT("01"), piece, sizeof piece, false), 0);
    assert_int_equal(logsource_join(source, AT("02"), piece, sizeof piece, false), 1);
    assert_int_equal(source->begun.count, LOGSOURCE_LINE_MAX_BYTES);
    assert_string_equal(source->begun_at, AT("01"));
    logsource_ended(source);
    assert_int_equal(logsource_join(source, AT("03"), "end", 3, true), 1);
    assert_string_equal(mst_buf_text(&source->begun), "end");
    assert_string_equal(source->begun_at, AT("03"));
    logsources_release(&sources);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_log_that_is_read_again_says_nothing_twice),
        cmocka_unit_test(what_a_log_lost_is_made_up_for_by_time),
        cmocka_unit_test(who_never_spoke_is_new_when_the_log_is_read_again),
        cmocka_unit_test(reading_again_begins_before_the_earliest_of_the_last),
        cmocka_unit_test(a_line_without_end_comes_in_pieces_of_the_limit),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
