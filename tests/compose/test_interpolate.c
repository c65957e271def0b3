/* SPDX-License-Identifier: Apache-2.0 */
#include "interpolate.h"
#include "test.h"

static const char *const given[] = {"A=one", "EMPTY=", "BOTH=given", NULL};
static const char *const environment[] = {"BOTH=environment", "ENV=two", "LAYER=environment", NULL};
static const char *const fallback[] = {"LAYER=fallback", "FALL=three", "SECRET=hunter2", NULL};
static const struct compose_options options = {
    .given = given, .environment = environment, .fallback = fallback};
static struct compose_pair from_files[] = {
    {"A", "hidden"}, {"FILE", "four"}, {"FILES", "five"}, {"FILES_2", "six"}, {"LAYER", "hidden"}};
static const struct interpolate_source source = {.options = &options,
                                                 .files = {from_files, MST_ARRAY_COUNT(from_files)}};

struct unset_names {
    char text[256];
};

static int note_unset(void *context, const char *name)
{
    struct unset_names *unset = context;
    size_t used = strlen(unset->text);
    (void)snprintf(unset->text + used, sizeof unset->text - used, "%s ", name);
    return 0;
}

static const struct {
    const char *text, *expected, *unset;
} good[] = {
    {"", "", ""},
    {"plain } { text", "plain } { text", ""},
    {"$A", "one", ""},
    {"${A}", "one", ""},
    {"x${A}y$A-z",
     "xoney"
     "one-z",
     ""},
    {"$A$ENV", "onetwo", ""},
    {"$$A $${A} $$$$", "$A ${A} $$", ""},
    {"$$$A", "$one", ""},
    {"${BOTH} $LAYER $FALL", "given environment three", ""},
    {"$FILE$FILES$FILES_2${FILES_:-not}$FIL", "fourfivesixnot", "FIL "},
    {"[$NONE]", "[]", "NONE "},
    {"[${NONE}]", "[]", "NONE "},
    {"$NONE$MORE", "", "NONE MORE "},
    {"${EMPTY}", "", ""},
    {"${NONE:-d}", "d", ""},
    {"${NONE-d}", "d", ""},
    {"${EMPTY:-d}", "d", ""},
    {"${EMPTY-d}", "", ""},
    {"${A:-d}", "one", ""},
    {"${A-d}", "one", ""},
    {"${NONE:-}", "", ""},
    {"${NONE:-a b:c/d}", "a b:c/d", ""},
    {"${A:?needed}", "one", ""},
    {"${EMPTY?needed}", "", ""},
    {"${A:+word}", "word", ""},
    {"${A+word}", "word", ""},
    {"${EMPTY:+word}", "", ""},
    {"${EMPTY+word}", "word", ""},
    {"${NONE:+word}", "", ""},
    {"${NONE:-${A}}", "one", ""},
    {"${NONE:-$A/x}", "one/x", ""},
    {"${NONE:-${MORE:-${ENV}}}!", "two!", ""},
    {"${NONE:-${MORE}}", "", "MORE "},
    {"${A:-${MORE}}", "one", ""},
    {"${A:-${MORE:?not looked at}}", "one", ""},
    {"${NONE:-$$5}", "$5", ""},
    {"${NONE:-{}x}", "{x}", ""},
    {"{{.Task.Slot}}.${A}", "{{.Task.Slot}}.one", ""},
    {"$_a1", "", "_a1 "},
};

static void variables_are_replaced_by_the_specification(void **state)
{
    (void)state;
    struct compose_arena *arena = compose_arena_new();
    for (size_t i = 0; i < MST_ARRAY_COUNT(good); i++) {
        struct mst_error err = MST_ERROR_INIT;
        struct unset_names unset = {""};
        const char *text = NULL;
        int r = interpolate_text(arena, good[i].text, &source, note_unset, &unset, &text, &err);
        if (r < 0)
            fail_msg("'%s': %s", good[i].text, err.text);
        if (strcmp(text, good[i].expected) != 0 || strcmp(unset.text, good[i].unset) != 0)
            fail_msg("'%s': '%s' (unset %s)", good[i].text, text, unset.text);
    }
    compose_arena_free(arena);
}

#define BAD_FORM(text) "not a variable: '" text "' (write '$$' for a '$' that stands for itself)"

static const struct {
    const char *text, *error;
} bad[] = {
    {"$", BAD_FORM("$")},
    {"a$", BAD_FORM("$")},
    {"$1", BAD_FORM("$1")},
    {"$ A", BAD_FORM("$ A")},
    {"${", BAD_FORM("${")},
    {"${}", BAD_FORM("${}")},
    {"${A", BAD_FORM("${A")},
    {"${ A}", BAD_FORM("${ A}")},
    {"${A }", BAD_FORM("${A }")},
    {"${1}", BAD_FORM("${1}")},
    {"${A:}", BAD_FORM("${A:}")},
    {"${A:=x}", BAD_FORM("${A:=x}")},
    {"${A!x}", BAD_FORM("${A!x}")},
    {"${A:-x", BAD_FORM("${A:-x")},
    {"${A:-${B}", BAD_FORM("${A:-${B}")},
    {"${A:-$}", BAD_FORM("$}")},
    {"${A:-${}}", BAD_FORM("${}}")},
    {"${NONE:?}", "variable 'NONE' is required, and not set"},
    {"${NONE?}", "variable 'NONE' is required, and not set"},
    {"${NONE:?say so}", "variable 'NONE' is required, and not set: say so"},
    {"${EMPTY:?say so}", "variable 'EMPTY' is required, and empty: say so"},
    {"${NONE:?say so}/app:${A:-latest}", "variable 'NONE' is required, and not set: say so"},
    {"${A}${NONE?say so}$ENV", "variable 'NONE' is required, and not set: say so"},
    {"${NONE:-${MORE:?inner}}", "variable 'MORE' is required, and not set: inner"},
    {"${NONE:?not $SECRET}", "variable 'NONE' is required, and not set: not $SECRET"},
    {"${NONE:?one\ntwo\033[1m}", "variable 'NONE' is required, and not set: one two [1m"},
};

static void what_is_wrong_is_said_even_when_a_later_variable_is_right(void **state)
{
    (void)state;
    struct compose_arena *arena = compose_arena_new();
    for (size_t i = 0; i < MST_ARRAY_COUNT(bad); i++) {
        struct mst_error err = MST_ERROR_INIT;
        const char *text = "untouched";
        assert_int_equal(interpolate_text(arena, bad[i].text, &source, NULL, NULL, &text, &err), -EBADMSG);
        assert_string_equal(err.text, bad[i].error);
        assert_string_equal(text, "untouched");
    }
    compose_arena_free(arena);
}

static void nesting_has_an_end(void **state)
{
    (void)state;
    struct compose_arena *arena = compose_arena_new();
    struct mst_error err = MST_ERROR_INIT;
    char text[4096] = "";
    for (size_t i = 0; i < 600; i++)
        memcpy(text + 5 * i, "${X:-", 6);
    const char *result;
    assert_int_equal(interpolate_text(arena, text, &source, NULL, NULL, &result, &err), -EBADMSG);
    assert_string_equal(err.text, "variables nested deeper than 16");
    compose_arena_free(arena);
}

static void a_text_does_not_grow_without_end(void **state)
{
    (void)state;
    static char long_value[70000];
    memset(long_value, 'x', sizeof long_value - 1);
    memcpy(long_value, "L=", 2);
    const char *const list[] = {long_value, NULL};
    const struct compose_options long_options = {.given = list};
    const struct interpolate_source long_source = {.options = &long_options};
    struct compose_arena *arena = compose_arena_new();
    struct mst_error err = MST_ERROR_INIT;
    const char *result;
    assert_int_equal(interpolate_text(arena, "$L$L$L$L$L$L$L$L$L$L$L$L$L$L$L$L$L", &long_source, NULL, NULL,
                                      &result, &err),
                     -EBADMSG);
    assert_string_equal(err.text, "grows past 1048576 bytes with its variables");
    compose_arena_free(arena);
}

static void a_name_is_found_only_whole(void **state)
{
    (void)state;
    static const struct compose_options nothing = {0};
    assert_null(interpolate_lookup(&source, "BO", 2));
    assert_null(interpolate_lookup(&source, "BOTHER", 6));
    assert_string_equal(interpolate_lookup(&source, "BOTHER", 4), "given");
    assert_null(interpolate_lookup(&(struct interpolate_source){.options = &nothing}, "A", 1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(variables_are_replaced_by_the_specification),
        cmocka_unit_test(what_is_wrong_is_said_even_when_a_later_variable_is_right),
        cmocka_unit_test(nesting_has_an_end),
        cmocka_unit_test(a_text_does_not_grow_without_end),
        cmocka_unit_test(a_name_is_found_only_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
