/* SPDX-License-Identifier: Apache-2.0 */
/* muster-launch's own cJSON (linked into this program) against the real one (loaded): the same texts are read
 * and refused, and the same is printed. */
#include "../agent/test.h"

#include <cjson/cJSON.h>
#include <dlfcn.h>
#include <math.h>

#define SEEDS 20000

static struct {
    cJSON *(*parse)(const char *text, size_t bytes, const char **ret_end, cJSON_bool whole);
    char *(*print)(const cJSON *item);
    char *(*print_plain)(const cJSON *item);
    void (*remove)(cJSON *item);
} real;

static int load_real(void **state)
{
    (void)state;
    void *library = dlopen("libcjson.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!library)
        return -1;
    /* ISO C has no cast from a data to a function pointer; POSIX says that they have one size. */
    *(void **)&real.parse = dlsym(library, "cJSON_ParseWithLengthOpts");
    *(void **)&real.print = dlsym(library, "cJSON_Print");
    *(void **)&real.print_plain = dlsym(library, "cJSON_PrintUnformatted");
    *(void **)&real.remove = dlsym(library, "cJSON_Delete");
    return real.parse && real.print && real.print_plain && real.remove ? 0 : -1;
}

static void compare(const char *text, size_t bytes)
{
    const char *own_end = NULL, *real_end = NULL;
    cJSON *own_json = cJSON_ParseWithLengthOpts(text, bytes, &own_end, 0);
    cJSON *real_json = real.parse(text, bytes, &real_end, 0);
    if (!own_json != !real_json)
        fail_msg("%s refuses '%.*s'", own_json ? "the real one" : "our own", (int)bytes, text);
    if (own_json) {
        assert_ptr_equal(own_end, real_end);
        char *own_text = cJSON_Print(own_json), *real_text = real.print(real_json);
        assert_string_equal(own_text, real_text);
        free(own_text);
        free(real_text);
        own_text = cJSON_PrintUnformatted(own_json);
        real_text = real.print_plain(real_json);
        assert_string_equal(own_text, real_text);
        free(own_text);
        free(real_text);
    }
    cJSON_Delete(own_json);
    real.remove(real_json);
}

static const char *const texts[] = {
    "{\"event\":\"view\",\"t\":1795835472.404,\"members\":[{\"slot\":\"w1\"},{\"slot\":\"w2\"}],\"x\":{}}",
    "[]",
    "{}",
    "[[],{},[{}]]",
    " [ 1 , -2.5e3 , 0 , -0 , 1e300 , 0.1 , 123456789012345678 , 2147483648 , -2147483649 , 1e-7 ] ",
    "[true,false,null]",
    "\"a\\\"b\\\\c\\/d\\b\\f\\n\\r\\t\\u0041\\u00e9\\u20ac\\ud83d\\ude00\"",
    "{\"k\\n\":\"\\u0001\\u001f \x7f \xc3\xa9\"}",
    "\"\\ud83d\"",
    "\"\\ude00\"",
    "\"\\ud83dx\"",
    "\"\\x\"",
    "\"open",
    "[1,]",
    "[,1]",
    "{\"a\"}",
    "{\"a\":}",
    "{\"a\":1,}",
    "{a:1}",
    "tru",
    "nul",
    "-",
    "+1",
    "01",
    "1.",
    ".5",
    "1e",
    "--1",
    "",
    "   ",
    "[1] 2",
    "\xef\xbb\xbf[1]",
    "{\"a\":1,\"a\":2}",
};

static void known_texts_are_read_alike(void **state)
{
    (void)state;
    for (size_t t = 0; t < MST_ARRAY_COUNT(texts); t++)
        for (size_t bytes = 0; bytes <= strlen(texts[t]); bytes++) {
            /* A copy of exactly that length: what is read beyond it is seen by the sanitizer. */
            char *copy = malloc(bytes + 1);
            assert_non_null(copy);
            memcpy(copy, texts[t], bytes);
            copy[bytes] = '\0';
            compare(copy, bytes);
            free(copy);
        }
}

static void altered_texts_are_read_alike(void **state)
{
    static const char alphabet[] = "{}[]\",:\\u0123456789abcdefDtrnl +-.eE\n";
    (void)state;
    uint64_t random = 1;
    for (int seed = 0; seed < SEEDS; seed++) {
        char text[256];
        const char *from = texts[test_below(&random, MST_ARRAY_COUNT(texts))];
        size_t bytes = strlen(from);
        memcpy(text, from, bytes + 1);
        for (uint64_t changes = test_below(&random, 4) + 1; changes > 0 && bytes > 0; changes--)
            text[test_below(&random, bytes)] = alphabet[test_below(&random, sizeof alphabet - 1)];
        /* The two differ on purpose where the real one reads a lone half of a pair, or a NUL, as it likes. */
        if (!strstr(text, "\\u"))
            compare(text, bytes);
    }
}

static void numbers_are_printed_alike(void **state)
{
    (void)state;
    uint64_t random = 7;
    for (int seed = 0; seed < SEEDS; seed++) {
        char text[64];
        const double scale = pow(10, (double)test_below(&random, 40) - 20);
        const double number = (double)(int64_t)test_random(&random) / 1e18 * scale;
        const int bytes = snprintf(text, sizeof text, seed % 2 ? "[%.17g]" : "[%.6f]", number);
        compare(text, (size_t)bytes);
    }
}

static void deep_texts_are_refused(void **state)
{
    (void)state;
    char text[4000];
    memset(text, '[', sizeof text);
    assert_null(cJSON_ParseWithLengthOpts(text, sizeof text, NULL, 0));
    memset(text + 900, ']', 900);
    cJSON *json = cJSON_ParseWithLengthOpts(text, 1800, NULL, 0);
    assert_non_null(json);
    cJSON_Delete(json);
}

static void objects_are_made_as_they_are_read(void **state)
{
    (void)state;
    cJSON *json = cJSON_CreateObject();
    assert_non_null(cJSON_AddStringToObject(json, "text", "a\tb\"c"));
    assert_non_null(cJSON_AddNumberToObject(json, "number", 0.1));
    assert_non_null(cJSON_AddBoolToObject(json, "yes", true));
    cJSON *array = cJSON_AddArrayToObject(json, "list");
    assert_true(cJSON_AddItemToArray(array, cJSON_CreateString("one")));
    assert_true(cJSON_AddItemToArray(array, cJSON_CreateNumber(NAN)));
    assert_false(cJSON_AddItemToArray(array, array));
    assert_int_equal(cJSON_GetArraySize(array), 2);
    assert_null(cJSON_GetObjectItemCaseSensitive(json, "Text"));
    assert_null(cJSON_ParseWithLengthOpts("\"\\u12g4\"", 8, NULL, 0)); /* the real one makes a NUL of it */
    assert_null(cJSON_AddStringToObject(NULL, "text", "x"));           /* no memory before: so none after */
    char *text = cJSON_PrintUnformatted(json);
    assert_string_equal(text,
                        "{\"text\":\"a\\tb\\\"c\",\"number\":0.1,\"yes\":true,\"list\":[\"one\",null]}");
    free(text);
    cJSON_Delete(json);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_texts_are_read_alike),        cmocka_unit_test(altered_texts_are_read_alike),
        cmocka_unit_test(numbers_are_printed_alike),         cmocka_unit_test(deep_texts_are_refused),
        cmocka_unit_test(objects_are_made_as_they_are_read),
    };
    return cmocka_run_group_tests(tests, load_real, NULL);
}
