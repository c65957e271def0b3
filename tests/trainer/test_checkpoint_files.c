/* SPDX-License-Identifier: Apache-2.0 */
#include "checkpoint_files.h"
#include "helpers.h"

static const char *const others[] = {
    "checkpoint-.safetensors",
    "checkpoint-007.safetensors",
    "checkpoint-1.safetensors2",
    "checkpoint-x.safetensors",
    "checkpoint-1.safetensors.XXXXXX7",
    "checkpoint-1.safetensors-abcdef",
    "checkpoint--1.safetensors",
    "Checkpoint-1.safetensors",
    "checkpoint-1",
    "checkpoint-+1.safetensors",
    "vow",
    "checkpoint-99999999999999999999.safetensors",
    "checkpoint-1.safetensors.bak.or",
};

static void touch(void **state, const char *name)
{
    char path[512];
    FILE *file = fopen(helper_path(state, name, path, sizeof path), "w");

    assert_non_null(file);
    assert_int_equal(fclose(file), 0);
}

static bool is_there(void **state, const char *name)
{
    char path[512];

    return access(helper_path(state, name, path, sizeof path), F_OK) == 0;
}

static void fill(void **state)
{
    touch(state, "checkpoint-0.safetensors");
    touch(state, "checkpoint-7.safetensors");
    touch(state, "checkpoint-10.safetensors");
    touch(state, "checkpoint-123.safetensors");
    touch(state, "checkpoint-11.safetensors.aB3xYz");
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        touch(state, others[i]);
}

static void names_say_the_step(void **state)
{
    (void)state;
    char name[TRAINER_CHECKPOINT_NAME_BYTES];

    checkpoint_files_name(140, name);
    assert_string_equal(name, "checkpoint-140.safetensors");
    checkpoint_files_name(UINT64_MAX, name);
    assert_string_equal(name, "checkpoint-18446744073709551615.safetensors");
}

static void finds_one_after_the_other_from_the_newest(void **state)
{
    static const uint64_t steps[] = {123, 10, 7, 0};
    uint64_t step = UINT64_MAX;

    assert_int_equal(checkpoint_files_newest(*state, UINT64_MAX, &step, NULL), 0);
    assert_int_equal(step, UINT64_MAX);
    fill(state);
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
        assert_int_equal(checkpoint_files_newest(*state, step, &step, NULL), 1);
        assert_int_equal(step, steps[i]);
    }
    assert_int_equal(checkpoint_files_newest(*state, step, &step, NULL), 0);
}

static void removes_all_but_the_kept_and_touches_no_other_name(void **state)
{
    const uint64_t kept[] = {123, 7};

    fill(state);
    assert_int_equal(checkpoint_files_prune(*state, kept, 2, NULL), 0);
    assert_true(is_there(state, "checkpoint-123.safetensors"));
    assert_true(is_there(state, "checkpoint-7.safetensors"));
    assert_false(is_there(state, "checkpoint-10.safetensors"));
    assert_false(is_there(state, "checkpoint-0.safetensors"));
    assert_false(is_there(state, "checkpoint-11.safetensors.aB3xYz"));
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        assert_true(is_there(state, others[i]));
}

static void tidying_removes_only_what_was_cut_short(void **state)
{
    fill(state);
    assert_int_equal(checkpoint_files_tidy(*state, NULL), 0);
    assert_true(is_there(state, "checkpoint-0.safetensors"));
    assert_true(is_there(state, "checkpoint-123.safetensors"));
    assert_false(is_there(state, "checkpoint-11.safetensors.aB3xYz"));
    assert_true(is_there(state, "checkpoint-1.safetensors.XXXXXX7"));
}

static void a_folder_that_cannot_be_read_is_named(void **state)
{
    (void)state;
    struct mst_error err = MST_ERROR_INIT;
    uint64_t step = 5;

    assert_int_equal(checkpoint_files_newest("/nonexistent/x", 9, &step, &err), -ENOENT);
    assert_non_null(strstr(err.text, "read folder '/nonexistent/x'"));
    assert_int_equal(step, 5);
    assert_int_equal(checkpoint_files_prune("/nonexistent/x", NULL, 0, NULL), -ENOENT);
    assert_int_equal(checkpoint_files_tidy("/nonexistent/x", NULL), -ENOENT);
}

#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, helper_make_folder, helper_remove_folder)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_say_the_step),
        IN_FOLDER(finds_one_after_the_other_from_the_newest),
        IN_FOLDER(removes_all_but_the_kept_and_touches_no_other_name),
        IN_FOLDER(tidying_removes_only_what_was_cut_short),
        cmocka_unit_test(a_folder_that_cannot_be_read_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
