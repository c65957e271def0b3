/* SPDX-License-Identifier: Apache-2.0 */
#include "../common/test.h"
#include "muster/peers.h"

#include <math.h>

struct seen {
    size_t count;
    char name[64], value[64];
    double number;
    bool has_label;
};

/* The newest sample, and its label `k`. */
static int see(void *context, const struct peers_sample *sample, struct mst_error *err)
{
    struct seen *seen = context;

    (void)err;
    seen->count++;
    (void)snprintf(seen->name, sizeof seen->name, "%.*s", (int)sample->name_bytes, sample->name);
    seen->number = sample->value;
    seen->has_label = peers_label(sample, "k", seen->value, sizeof seen->value);
    return 0;
}

static void samples_are_read(void **state)
{
    static const struct {
        const char *text, *name, *value;
        double number;
    } cases[] = {
        {"a 1\n", "a", NULL, 1},
        {"a 1", "a", NULL, 1},
        {"# HELP a b\n# TYPE a counter\n\n a{} 1.5e3 1795823218000\r\n", "a", NULL, 1500},
        {"a{k=\"v\"} 2\n", "a", "v", 2},
        {"a { j = \"x\" , k = \"v\" , } -2\n", "a", "v", -2},
        {"a{k=\"a\\\\b\\\"c\\nd}, k=\"} 3 -5\n", "a", "a\\b\"c\nd}, k=", 3},
        {"a{k=\"\"} 4\n", "a", "", 4},
        {"a{kk=\"1\",ik=\"2\"} 5\n", "a", NULL, 5},
        {"a:b_c9{k=\"v\"}\t6\n", "a:b_c9", "v", 6},
        {"a +Inf\n", "a", NULL, HUGE_VAL},
    };

    (void)state;
    for (size_t i = 0; i < MST_ARRAY_COUNT(cases); i++) {
        struct seen seen = {.count = 0};
        struct mst_error err = MST_ERROR_INIT;
        const int r = peers_read(cases[i].text, see, &seen, &err);
        if (r < 0 || seen.count != 1 || strcmp(seen.name, cases[i].name) != 0 ||
            seen.number < cases[i].number || seen.number > cases[i].number ||
            seen.has_label != (cases[i].value != NULL) ||
            strcmp(seen.value, cases[i].value ? cases[i].value : "") != 0)
            fail_msg("case %zu: %d '%s', %zu samples, '%s' %g '%s'", i, r, err.text, seen.count, seen.name,
                     seen.number, seen.value);
    }
}

static void what_is_none_is_named_with_its_line(void **state)
{
    static const char *const bad[] = {
        "<html>",      "a",        "a{",        "a{k}",        "a{k=v} 1",      "a{k=\"v} 1",
        "a{k=\"v\" 1", "a{k=\"\\", "a{k=\"v\\", "a{k=\"v\"}",  "a{k=\"v\"}\n1", "a x",
        "a 1 x",       "a 1 2 3",  "9a 1",      "{k=\"v\"} 1", "a{9=\"v\"} 1",  "a{k=\"v\"j=\"w\"} 1",
        "a{,} 1",      "a \n 1",   "\001",
    };

    (void)state;
    for (size_t i = 0; i < MST_ARRAY_COUNT(bad); i++) {
        char text[128];
        struct seen seen = {.count = 0};
        struct mst_error err = MST_ERROR_INIT;
        (void)snprintf(text, sizeof text, "good 1\n%s", bad[i]);
        if (peers_read(text, see, &seen, &err) != -EBADMSG || !strstr(err.text, "line 2 is no sample"))
            fail_msg("'%s': '%s'", bad[i], err.text);
        assert_int_equal(seen.count, 1);
    }
}

static int stop(void *context, const struct peers_sample *sample, struct mst_error *err)
{
    (void)sample;
    ++*(int *)context;
    return mst_error_set(err, -ENOSPC, "enough");
}

static void the_reader_may_stop(void **state)
{
    int count = 0;

    (void)state;
    assert_int_equal(peers_read("a 1\nb 2\n", stop, &count, NULL), -ENOSPC);
    assert_int_equal(count, 1);
}

static int keep(void *context, const struct peers_sample *sample, struct mst_error *err)
{
    (void)err;
    *(struct peers_sample *)context = *sample;
    return 0;
}

static void long_values_are_cut(void **state)
{
    struct peers_sample sample;
    char value[4];

    (void)state;
    assert_int_equal(peers_read("a{k=\"a\\\\\\\\long\"} 1\n", keep, &sample, NULL), 0);
    assert_true(peers_label(&sample, "k", value, sizeof value));
    assert_string_equal(value, "a\\\\");
    assert_true(peers_is_named(&sample, "a"));
    assert_false(peers_is_named(&sample, "ab"));
}

#define ID "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

static void containers_are_found_in_paths(void **state)
{
    static const struct {
        const char *path;
        bool is_one;
    } cases[] = {
        {"/docker/" ID, true},
        {"/system.slice/docker-" ID ".scope", true},
        {"/lab/abc/docker/" ID, true},
        {ID, true},
        {ID "0", false}, /* 65 digits are no id */
        {"/", false},
        {"", false},
        {"/docker/0123456789abcdef", false},
    };
    char id[65];

    (void)state;
    for (size_t i = 0; i < MST_ARRAY_COUNT(cases); i++) {
        assert_int_equal(peers_container_id(cases[i].path, id), cases[i].is_one);
        if (cases[i].is_one)
            assert_string_equal(id, ID);
    }
}

static void names_of_gauges_are_short_words(void **state)
{
    static const char digits[] = "0123456789012345678901234567890123456789012345678901234567890123";
    static const struct {
        const char *name;
        bool is_one;
    } cases[] = {{"queue", true},   {"queue.open-1", true},   {"_", true},
                 {"", false},       {"a b", false},           {"a\"b", false},
                 {"a\n", false},    {"gr\303\266sse", false}, {digits, false}, /* 64 */
                 {digits + 1, true}};

    (void)state;
    for (size_t i = 0; i < MST_ARRAY_COUNT(cases); i++) {
        if (peers_is_gauge_name(cases[i].name) != cases[i].is_one)
            fail_msg("'%s'", cases[i].name);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(samples_are_read),
        cmocka_unit_test(what_is_none_is_named_with_its_line),
        cmocka_unit_test(the_reader_may_stop),
        cmocka_unit_test(long_values_are_cut),
        cmocka_unit_test(containers_are_found_in_paths),
        cmocka_unit_test(names_of_gauges_are_short_words),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
