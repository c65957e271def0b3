/* SPDX-License-Identifier: Apache-2.0 */
#include "helpers.h"
#include "muster/json.h"
#include "safetensors.h"

#include <inttypes.h>

#define ENTRIES 2
#define FLOATS  9

/* Two tensors whose values lie one behind the other in `values`. */
#define ENTRIES_OF(floats)                                                                                   \
    (const struct safetensors_entry[])                                                                       \
    {                                                                                                        \
        {.name = "a.weight", .shape = {.count = 2, .dims = {2, 3}}, .values = (floats)},                     \
            {.name = "a.bias", .shape = {.count = 1, .dims = {3}}, .values = (floats) + 6},                  \
    }

static void writes_what_it_reads_back(void **state)
{
    struct mst_error err = MST_ERROR_INIT;
    float values[FLOATS] = {1, 2, 3, 4, 5, 6, -1.5f, 0, 1e-30f}, got[FLOATS] = {0};
    cJSON *metadata = cJSON_CreateObject(), *got_metadata = NULL;
    char path[512], head[8];
    uint64_t bytes = 0;

    assert_non_null(cJSON_AddStringToObject(metadata, "step", "70"));
    helper_path(state, "model.safetensors", path, sizeof path);
    if (safetensors_write(path, ENTRIES_OF(values), ENTRIES, metadata, &bytes, &err) < 0)
        fail_msg("%s", err.text);
    if (safetensors_read(path, ENTRIES_OF(got), ENTRIES, NULL, &got_metadata, &err) < 0)
        fail_msg("%s", err.text);
    assert_memory_equal(values, got, sizeof values);
    assert_string_equal(mst_json_string_or(got_metadata, "step", ""), "70");
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    assert_int_equal(fread(head, 1, 8, file), 8);
    assert_int_equal(fseek(file, 0, SEEK_END), 0);
    assert_int_equal((uint64_t)ftell(file), bytes);
    assert_int_equal(fclose(file), 0);
    assert_int_equal((unsigned char)head[0] % 8, 0); /* the data is aligned */
    cJSON_Delete(metadata);
    cJSON_Delete(got_metadata);
}

/* A file of this header and `data_bytes` of data. */
static void write_file(const char *path, const char *header, uint64_t said_bytes, size_t data_bytes)
{
    FILE *file = fopen(path, "wb");

    assert_non_null(file);
    assert_int_equal(fwrite(&said_bytes, 1, 8, file), 8);
    assert_int_equal(fwrite(header, 1, strlen(header), file), strlen(header));
    for (size_t i = 0; i < data_bytes; i++)
        assert_int_equal(fputc((int)i, file), (int)i);
    assert_int_equal(fclose(file), 0);
}

#define WEIGHT        "\"a.weight\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[0,24]}"
#define BIAS          "\"a.bias\":{\"dtype\":\"F32\",\"shape\":[3],\"data_offsets\":[24,36]}"
#define BIAS_AT(a, b) "\"a.bias\":{\"dtype\":\"F32\",\"shape\":[3],\"data_offsets\":[" #a "," #b "]}"

static void reads_tensors_in_any_order_in_the_file(void **state)
{
    float values[FLOATS];
    char path[512];
    const char *header = "{\"a.bias\":{\"dtype\":\"F32\",\"shape\":[3],\"data_offsets\":[0,12]},"
                         "\"a.weight\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[12,36]}}  ";
    uint8_t bias_first[4] = {0, 1, 2, 3}, weight_first[4] = {12, 13, 14, 15};

    helper_path(state, "f", path, sizeof path);
    write_file(path, header, strlen(header), 36);
    assert_int_equal(safetensors_read(path, ENTRIES_OF(values), ENTRIES, NULL, NULL, NULL), 0);
    assert_memory_equal(&values[0], weight_first, 4);
    assert_memory_equal(&values[6], bias_first, 4);
}

static const struct {
    const char *header;
    size_t data_bytes;
    const char *says;
} hostile[] = {
    {"{" WEIGHT "," BIAS "}", 35, "'a.bias': data_offsets"},
    {"{" WEIGHT "," BIAS "}", 37, "holes"},
    {"{" WEIGHT "}", 24, "'a.bias' is missing"},
    {"{" WEIGHT "," BIAS ",\"b\":{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[36,36]}}", 36,
     "no tensor 'b'"},
    {"{" WEIGHT "," WEIGHT "," BIAS "}", 36, "'a.weight' is there twice"},
    {"{" WEIGHT "," BIAS_AT(0, 12) "}", 24, "holes in the data, or overlap"},
    {"{" WEIGHT "," BIAS_AT(28, 40) "}", 40, "holes in the data, or overlap"},
    {"{" WEIGHT "," BIAS_AT(24, 20) "}", 36, "data_offsets"},
    {"{" WEIGHT "," BIAS_AT(24, 40) "}", 40, "data_offsets"},
    {"{" WEIGHT "," BIAS_AT(-12, 0) "}", 36, "data_offsets"},
    {"{" WEIGHT "," BIAS_AT(24.5, 36.5) "}", 36, "data_offsets"},
    {"{" WEIGHT "," BIAS_AT(18446744073709551604, 18446744073709551616) "}", 36, "data_offsets"},
    {"{" WEIGHT "," BIAS_AT(1e308, 1e309) "}", 36, "data_offsets"},
    {"{" WEIGHT ",\"a.bias\":{\"dtype\":\"F32\",\"shape\":[3],\"data_offsets\":[24]}}", 36, "data_offsets"},
    {"{" WEIGHT ",\"a.bias\":{\"dtype\":\"F32\",\"shape\":[3]}}", 36, "data_offsets"},
    {"{" WEIGHT ",\"a.bias\":{\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[24,36]}}", 36,
     "its shape is not"},
    {"{" WEIGHT ",\"a.bias\":{\"dtype\":\"F32\",\"shape\":[3,1],\"data_offsets\":[24,36]}}", 36,
     "its shape is not"},
    {"{" WEIGHT ",\"a.bias\":{\"dtype\":\"F32\",\"shape\":3,\"data_offsets\":[24,36]}}", 36,
     "its shape is not"},
    {"{" WEIGHT ",\"a.bias\":{\"dtype\":\"F16\",\"shape\":[3],\"data_offsets\":[24,36]}}", 36, "dtype 'F16'"},
    {"{" WEIGHT ",\"a.bias\":{\"dtype\":7,\"shape\":[3],\"data_offsets\":[24,36]}}", 36, "dtype ''"},
    {"{" WEIGHT ",\"a.bias\":[]}", 36, "'a.bias' is missing"},
    {"{\"__metadata__\":{\"step\":7}," WEIGHT "," BIAS "}", 36, "must be an object of strings"},
    {"{\"__metadata__\":\"x\"," WEIGHT "," BIAS "}", 36, "must be an object of strings"},
    {"{" WEIGHT "," BIAS, 36, "not well-formed"},
    {"[]", 36, "no JSON object"},
    {" {}", 36, "no JSON object"},
};

static void refuses_hostile_headers(void **state)
{
    char path[512];

    helper_path(state, "hostile", path, sizeof path);
    for (size_t i = 0; i < sizeof hostile / sizeof hostile[0]; i++) {
        struct mst_error err = MST_ERROR_INIT;
        cJSON *metadata = NULL;
        float values[FLOATS];
        write_file(path, hostile[i].header, strlen(hostile[i].header), hostile[i].data_bytes);
        assert_int_equal(safetensors_read(path, ENTRIES_OF(values), ENTRIES, NULL, &metadata, &err),
                         -EBADMSG);
        assert_null(metadata);
        if (!strstr(err.text, path) || !strstr(err.text, hostile[i].says))
            fail_msg("%s: '%s'", hostile[i].header, err.text);
    }
}

static void refuses_header_lengths_that_the_file_does_not_hold(void **state)
{
    static const uint64_t lengths[] = {
        0, 1, 1000, SAFETENSORS_MAX_HEADER_BYTES + 1, UINT64_MAX, UINT64_MAX - 7};
    char path[512];

    helper_path(state, "lengths", path, sizeof path);
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        struct mst_error err = MST_ERROR_INIT;
        float values[FLOATS];
        write_file(path, "{" WEIGHT "," BIAS "}", lengths[i], 36);
        assert_int_equal(safetensors_read(path, ENTRIES_OF(values), ENTRIES, NULL, NULL, &err), -EBADMSG);
        if (!strstr(err.text, "not a safetensors file"))
            fail_msg("a header of %" PRIu64 " bytes: '%s'", lengths[i], err.text);
    }
    struct mst_error err = MST_ERROR_INIT;
    float ignored[FLOATS];
    write_file(path, "{", SAFETENSORS_MAX_HEADER_BYTES + 8, 0);
    assert_int_equal(truncate(path, SAFETENSORS_MAX_HEADER_BYTES + 64), 0);
    assert_int_equal(safetensors_read(path, ENTRIES_OF(ignored), ENTRIES, NULL, NULL, &err), -EBADMSG);
    assert_non_null(strstr(err.text, "header of 100000008 bytes, the limit is 100000000"));
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fclose(file), 0);
    float values[FLOATS];
    assert_int_equal(safetensors_read(path, ENTRIES_OF(values), ENTRIES, NULL, NULL, NULL), -EBADMSG);
    assert_int_equal(safetensors_read(*state, ENTRIES_OF(values), ENTRIES, NULL, NULL, NULL), -EISDIR);
    assert_int_equal(safetensors_read("/nonexistent", ENTRIES_OF(values), ENTRIES, NULL, NULL, NULL),
                     -ENOENT);
}

static void a_file_that_cannot_be_written_leaves_nothing(void **state)
{
    struct mst_error err = MST_ERROR_INIT;
    float values[FLOATS] = {0};
    cJSON *metadata = cJSON_CreateObject();
    char path[512];

    helper_path(state, "no/such/folder", path, sizeof path);
    assert_true(safetensors_write(path, ENTRIES_OF(values), ENTRIES, metadata, NULL, &err) < 0);
    assert_non_null(strstr(err.text, path));
    cJSON_Delete(metadata);
}

static void optional_tensors_are_all_there_or_none(void **state)
{
    static const struct {
        const char *header;
        size_t data_bytes;
        int code;
        bool there;
        const char *says;
    } cases[] = {
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4, 0, false, ""},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},"
         "\"b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,8]},"
         "\"c\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[8,12]}}",
         12, 0, true, ""},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},"
         "\"c\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,8]}}",
         8, -EBADMSG, false, "tensor 'b' is missing"},
        {"{\"b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},"
         "\"c\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,8]}}",
         8, -EBADMSG, false, "tensor 'a' is missing"},
    };
    const struct trainer_shape one = {.count = 1, .dims = {1}};
    char path[512];

    helper_path(state, "optional", path, sizeof path);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        float a = -1, c = -1;
        const struct safetensors_entry wanted[] = {
            {.name = "a", .shape = one, .values = &a},
            {.name = "b", .shape = one, .optional = true}, /* checked, but not wanted */
            {.name = "c", .shape = one, .values = &c, .optional = true},
        };
        struct mst_error err = MST_ERROR_INIT;
        bool there = !cases[i].there;
        write_file(path, cases[i].header, strlen(cases[i].header), cases[i].data_bytes);
        assert_int_equal(safetensors_read(path, wanted, 3, &there, NULL, &err), cases[i].code);
        if (!strstr(err.text, cases[i].says))
            fail_msg("case %zu: '%s'", i, err.text);
        if (cases[i].code < 0)
            continue;
        assert_int_equal(there, cases[i].there);
        assert_true(a != -1 && (c == -1) == !cases[i].there);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(writes_what_it_reads_back, helper_make_folder, helper_remove_folder),
        cmocka_unit_test_setup_teardown(reads_tensors_in_any_order_in_the_file, helper_make_folder,
                                        helper_remove_folder),
        cmocka_unit_test_setup_teardown(refuses_hostile_headers, helper_make_folder, helper_remove_folder),
        cmocka_unit_test_setup_teardown(refuses_header_lengths_that_the_file_does_not_hold,
                                        helper_make_folder, helper_remove_folder),
        cmocka_unit_test_setup_teardown(optional_tensors_are_all_there_or_none, helper_make_folder,
                                        helper_remove_folder),
        cmocka_unit_test_setup_teardown(a_file_that_cannot_be_written_leaves_nothing, helper_make_folder,
                                        helper_remove_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
