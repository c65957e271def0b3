/* SPDX-License-Identifier: Apache-2.0 */
#include "test.h"
#include "words.h"

static const struct {
    const char *text, *joined; /* joined NULL: refused */
} cases[] = {
    {"", ""},
    {"  \t\n ", ""},
    {"a", "a"},
    {"a  b\tc\nd", "a,b,c,d"},
    {"'a b' c", "a b,c"},
    {"\"a b\"c", "a bc"},
    {"a\\ b", "a b"},
    {"'a\\b'", "a\\b"},
    {"\"a\\\"b\\n\"", "a\"bn"},
    {"'' \"\"", ","},
    {"a # b c", "a"},
    {"a#b '#c'", "a#b,#c"},
    {"# x\nb", "b"},
    {"sh -c 'echo \"$HOME\"'", "sh,-c,echo \"$HOME\""},
    {"\\#a", "#a"},
    {"'a", NULL},
    {"\"a", NULL},
    {"a\\", NULL},
    {"\"a\\", NULL},
};

static void commands_are_split_as_docker_splits_them(void **state)
{
    (void)state;
    for (size_t i = 0; i < MST_ARRAY_COUNT(cases); i++) {
        struct compose_arena *arena = compose_arena_new();
        struct compose_strings words = {0};
        struct mst_error err = MST_ERROR_INIT;
        assert_non_null(arena);
        int r = words_split(arena, cases[i].text, &words, &err);
        char joined[256];
        if ((r < 0) != !cases[i].joined)
            fail_msg("'%s': %d %s", cases[i].text, r, err.text);
        if (r == 0)
            assert_string_equal(test_join(&words, joined, sizeof joined), cases[i].joined);
        else
            assert_int_equal(r, -EINVAL);
        compose_arena_free(arena);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(commands_are_split_as_docker_splits_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
