/* SPDX-License-Identifier: Apache-2.0 */
#include "muster/json.h"
#include "test.h"

#include <math.h>

static cJSON *parse(const char *text)
{
    cJSON *json = NULL;
    assert_int_equal(mst_json_parse(text, strlen(text), "text", &json, NULL), 0);
    assert_non_null(json);
    return json;
}

static void exactly_one_value_is_parsed(void **state)
{
    (void)state;
    static const char *const good[] = {"{}", "[]", "1", "\"a\"", "null", " {\"a\": [1, 2]} \r\n\t", "true"};
    for (size_t c = 0; c < MST_ARRAY_COUNT(good); c++) {
        mst_cleanup(mst_json_deletep) cJSON *json = parse(good[c]);
        assert_non_null(json);
    }
}

static void a_fault_is_told_by_line_and_column(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        size_t bytes; /* 0: strlen */
        const char *place;
    } cases[] = {
        {"", 0, "file.json:1:1"},
        {"{", 0, "file.json:1:"},
        {"{}x", 0, "file.json:1:3"},
        {"{} {}", 0, "file.json:1:4"},
        {"{\n \"a\": 1,\n \"b\": x}", 0, "file.json:3:7"},
        {"[1,]", 0, "file.json:1:"},
        {"{\"a\" 1}", 0, "file.json:1:"},
        {"'a'", 0, "file.json:1:1"},
        {"\"unclosed", 0, "file.json:1:"},
        {"{}\0{}", 5, "file.json:1:3"},
        {"[1", 0, "file.json:1:"},
        {"nul", 0, "file.json:1:"},
        {"\"\\u12\"", 0, "file.json:1:"},
    };
    for (size_t c = 0; c < MST_ARRAY_COUNT(cases); c++) {
        struct mst_error err = MST_ERROR_INIT;
        cJSON *const untouched = (cJSON *)&err;
        cJSON *json = untouched;
        const size_t bytes = cases[c].bytes ? cases[c].bytes : strlen(cases[c].text);
        assert_int_equal(mst_json_parse(cases[c].text, bytes, "file.json", &json, &err), -EBADMSG);
        assert_non_null(strstr(err.text, cases[c].place));
        assert_ptr_equal(json, untouched);
    }
}

static void every_truncation_is_refused_without_reading_beyond(void **state)
{
    (void)state;
    static const char text[] = "{\"a\": [1, -2.5e3, \"x\\u00e9\\\"y\", {\"b\": null}], \"c\": true}";
    for (size_t bytes = 0; bytes < sizeof text - 1; bytes++) {
        /* A copy of exactly that size: the address sanitizer sees a byte too far. */
        mst_cleanup(mst_freep) char *copy = malloc(bytes + (bytes == 0));
        memcpy(copy, text, bytes);
        cJSON *json = NULL;
        assert_int_equal(mst_json_parse(copy, bytes, "text", &json, NULL), -EBADMSG);
        assert_null(json);
    }
}

static void depth_is_limited_outside_strings(void **state)
{
    (void)state;
    char text[400];
    cJSON *json = NULL;
    for (size_t depth = MST_JSON_MAX_DEPTH; depth <= MST_JSON_MAX_DEPTH + 1; depth++) {
        memset(text, '[', depth);
        memset(text + depth, ']', depth);
        const int r = mst_json_parse(text, 2 * depth, "text", &json, NULL);
        assert_int_equal(r, depth > MST_JSON_MAX_DEPTH ? -EBADMSG : 0);
        if (r == 0)
            mst_json_deletep(&json);
    }
    memset(text, '[', sizeof text);
    text[0] = '"';
    text[1] = '\\';
    text[2] = '"';
    text[sizeof text - 1] = '"';
    assert_int_equal(mst_json_parse(text, sizeof text, "text", &json, NULL), 0);
    mst_json_deletep(&json);
    mst_json_deletep(&json); /* NULL by now */
}

static void members_have_types_and_bounds(void **state)
{
    (void)state;
    mst_cleanup(mst_json_deletep) cJSON *json = parse(
        "{\"s\": \"text\", \"n\": 42, \"f\": 1.5, \"neg\": -1, \"big\": 1e300, \"huge\": 1e999, "
        "\"exact\": 9007199254740992, \"beyond\": 9007199254740994, \"null\": null, \"t\": true, \"N\": 1}");
    static const struct {
        const char *key;
        uint64_t min, max;
        int code;
        uint64_t value;
    } cases[] = {
        {"n", 0, 100, 0, 42},
        {"n", 43, 100, -EBADMSG, 7},
        {"n", 0, 41, -EBADMSG, 7},
        {"f", 0, 100, -EBADMSG, 7},
        {"neg", 0, 100, -EBADMSG, 7},
        {"big", 0, UINT64_MAX, -EBADMSG, 7},
        {"huge", 0, UINT64_MAX, -EBADMSG, 7},
        {"exact", 0, UINT64_MAX, 0, 9007199254740992},
        {"beyond", 0, UINT64_MAX, -EBADMSG, 7},
        {"s", 0, 100, -EBADMSG, 7},
        {"null", 0, 100, -EBADMSG, 7},
        {"absent", 0, 100, -EBADMSG, 7},
        {"S", 0, 100, -EBADMSG, 7}, /* case counts */
    };
    for (size_t c = 0; c < MST_ARRAY_COUNT(cases); c++) {
        struct mst_error err = MST_ERROR_INIT;
        uint64_t value = 7;
        assert_int_equal(
            mst_json_get_u64(json, cases[c].key, cases[c].min, cases[c].max, "file", &value, &err),
            cases[c].code);
        assert_int_equal(value, cases[c].value);
        if (cases[c].code < 0)
            assert_non_null(strstr(err.text, cases[c].key));
    }

    const char *text = "untouched";
    assert_int_equal(mst_json_get_string(json, "n", "file", &text, NULL), -EBADMSG);
    assert_int_equal(mst_json_get_string(NULL, "s", "file", &text, NULL), -EBADMSG);
    assert_string_equal(text, "untouched");
    assert_int_equal(mst_json_get_string(json, "s", "file", &text, NULL), 0);
    assert_string_equal(text, "text");

    double number = 7;
    assert_int_equal(mst_json_get_double(json, "s", "file", &number, NULL), -EBADMSG);
    assert_int_equal(mst_json_get_double(json, "huge", "file", &number, NULL), -EBADMSG); /* no infinity */
    assert_true(number == 7);
    assert_int_equal(mst_json_get_double(json, "f", "file", &number, NULL), 0);
    assert_true(number == 1.5);
}

static void fallbacks_stand_in_for_what_is_not_there(void **state)
{
    (void)state;
    mst_cleanup(mst_json_deletep) cJSON *json =
        parse("{\"s\": \"text\", \"n\": 42, \"neg\": -1, \"huge\": 1e999, \"null\": null, \"no\": false}");
    assert_string_equal(mst_json_string_or(json, "s", "-"), "text");
    assert_string_equal(mst_json_string_or(json, "n", "-"), "-");
    assert_string_equal(mst_json_string_or(NULL, "s", "-"), "-");
    assert_true(mst_json_double_or(json, "n", 1) == 42);
    assert_true(mst_json_double_or(json, "null", 1) == 1);
    assert_int_equal(mst_json_u64_or(json, "n", 1), 42);
    assert_int_equal(mst_json_u64_or(json, "neg", 1), 1);
    assert_int_equal(mst_json_u64_or(json, "huge", 1), 1);
    assert_int_equal(mst_json_u64_or(json, "absent", 1), 1);
    assert_false(mst_json_bool_or(json, "no", true));
    assert_true(mst_json_bool_or(json, "n", true));
}

static void nested_members_are_reached_or_not_there(void **state)
{
    (void)state;
    mst_cleanup(mst_json_deletep) cJSON *json = parse("{\"a\": {\"b\": {\"c\": 1}}, \"d\": 2}");
    assert_int_equal(mst_json_at(json, "a", "b", "c", NULL)->valueint, 1);
    assert_ptr_equal(mst_json_at(json, NULL), json);
    assert_null(mst_json_at(json, "a", "x", "c", NULL));
    assert_null(mst_json_at(json, "d", "b", NULL));
    assert_null(mst_json_at(NULL, "a", NULL));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exactly_one_value_is_parsed),
        cmocka_unit_test(a_fault_is_told_by_line_and_column),
        cmocka_unit_test(every_truncation_is_refused_without_reading_beyond),
        cmocka_unit_test(depth_is_limited_outside_strings),
        cmocka_unit_test(members_have_types_and_bounds),
        cmocka_unit_test(fallbacks_stand_in_for_what_is_not_there),
        cmocka_unit_test(nested_members_are_reached_or_not_there),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
