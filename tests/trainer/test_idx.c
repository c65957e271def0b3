/* SPDX-License-Identifier: Apache-2.0 */
#include "idx.h"
#include "idx_files.h"

static void reads_plain_and_compressed_files_alike(void **state)
{
    uint8_t bytes[1000];
    const size_t count = idx_images(bytes, 5, 4, 3);
    char path[512];

    for (int packed = 0; packed < 2; packed++) {
        struct mst_error err = MST_ERROR_INIT;
        struct trainer_idx idx;
        helper_path(state, packed ? "images.gz" : "images", path, sizeof path);
        if (packed)
            idx_write_gz(path, bytes, count);
        else
            idx_write_bytes(path, bytes, count);
        if (trainer_idx_read(path, 3, &idx, &err) < 0)
            fail_msg("%s", err.text);
        assert_int_equal(idx.count, 5);
        assert_int_equal(idx.shape.count, 2);
        assert_int_equal(idx.shape.dims[0], 4);
        assert_int_equal(idx.shape.dims[1], 3);
        assert_memory_equal(idx.values, bytes + 16, 60);
        trainer_idx_release(&idx);
    }
}

static const struct {
    const char *what;
    size_t offset; /* of the one field that is changed */
    uint32_t value;
    int add; /* bytes at the end */
    const char *says;
} cases[] = {
    {"an empty file", 0, 0x803, -76, "0 bytes, an IDX header of 3 dims has 16"},
    {"a cut header", 0, 0x803, -61, "15 bytes, an IDX header of 3 dims has 16"},
    {"a labels file", 0, 0x801, 0, "magic number 0x00000801, expected 0x00000803"},
    {"floats", 0, 0xd03, 0, "magic number 0x00000d03"},
    {"a picture", 0, 0x89504e47, 0, "magic number 0x89504e47"},
    {"no values", 0, 0x803, -60, "truncated: 0 bytes of values, the header says 60"},
    {"one byte less", 0, 0x803, -1, "truncated: 59 bytes of values, the header says 60"},
    {"one byte more", 0, 0x803, 1, "more bytes after the 60 values"},
    {"more images than there are", 4, 6, 0, "truncated: 60 bytes of values, the header says 72"},
    {"no images", 4, 0, 0, "0 samples, expected 1 to 10000000"},
    {"4 billion images", 4, 0xffffffff, 0, "4294967295 samples, expected 1 to"},
    {"10 million images in 60 bytes", 4, 10000000, 0, "truncated: 60 bytes"},
    {"rows of nothing", 8, 0, 0, "dim 1 is 0"},
    {"4 billion rows", 8, 0xffffffff, 0, "dim 1 is 4294967295"},
    {"columns that overflow with the rows", 12, 0x80000001, 0, "dim 2 is 2147483649"},
};

static void refuses_what_does_not_add_up(void **state)
{
    char path[512];

    for (int packed = 0; packed < 2; packed++) {
        helper_path(state, packed ? "bad.gz" : "bad", path, sizeof path);
        for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
            struct mst_error err = MST_ERROR_INIT;
            struct trainer_idx idx = {.count = 77};
            uint8_t bytes[1000] = {0};
            const size_t count = idx_images(bytes, 5, 4, 3);
            idx_put_u32(bytes + cases[i].offset, cases[i].value);
            if (packed)
                idx_write_gz(path, bytes, (size_t)((int)count + cases[i].add));
            else
                idx_write_bytes(path, bytes, (size_t)((int)count + cases[i].add));
            assert_int_equal(trainer_idx_read(path, 3, &idx, &err), -EBADMSG);
            if (!strstr(err.text, path) || !strstr(err.text, cases[i].says))
                fail_msg("%s: '%s'", cases[i].what, err.text);
            assert_int_equal(idx.count, 77);
        }
    }
}

/* Large dims that pass one by one but not together: nothing of that size may be allocated. */
static void refuses_sizes_that_only_together_are_too_large(void **state)
{
    struct mst_error err = MST_ERROR_INIT;
    struct trainer_idx idx;
    uint8_t bytes[16];
    char path[512];

    (void)idx_images(bytes, 0, 0, 0);
    idx_put_u32(bytes + 4, 10000000);
    idx_put_u32(bytes + 8, 4096);
    idx_put_u32(bytes + 12, 4096);
    helper_path(state, "large", path, sizeof path);
    idx_write_bytes(path, bytes, sizeof bytes);
    assert_int_equal(trainer_idx_read(path, 3, &idx, &err), -EBADMSG);
    assert_non_null(strstr(err.text, "more than the limit"));
}

static void refuses_damaged_compressed_data_at_every_length(void **state)
{
    uint8_t bytes[5000], packed[6000];
    char whole_path[512], path[512];
    const size_t count = idx_images(bytes, 11, 20, 20);

    helper_path(state, "whole.gz", whole_path, sizeof whole_path);
    helper_path(state, "cut.gz", path, sizeof path);
    idx_write_gz(whole_path, bytes, count);
    FILE *file = fopen(whole_path, "rb");
    assert_non_null(file);
    const size_t packed_count = fread(packed, 1, sizeof packed, file);
    assert_int_equal(fclose(file), 0);
    for (size_t length = 0; length < packed_count; length++) {
        struct trainer_idx idx;
        idx_write_bytes(path, packed, length);
        assert_int_equal(trainer_idx_read(path, 3, &idx, NULL), -EBADMSG);
    }
    /* Behind the gzip header, whose time may be anything, a changed bit is an error or one that fills up a
     * byte. */
    for (size_t at = 10; at < packed_count; at++) {
        struct trainer_idx idx;
        packed[at] ^= 0x10;
        idx_write_bytes(path, packed, packed_count);
        packed[at] ^= 0x10;
        if (trainer_idx_read(path, 3, &idx, NULL) == 0) {
            assert_memory_equal(idx.values, bytes + 16, count - 16);
            trainer_idx_release(&idx);
        }
    }
}

static void a_missing_file_and_a_folder_are_errors(void **state)
{
    struct mst_error err = MST_ERROR_INIT;
    struct trainer_idx idx;
    char path[512];

    helper_path(state, "missing", path, sizeof path);
    assert_int_equal(trainer_idx_read(path, 1, &idx, &err), -ENOENT);
    assert_non_null(strstr(err.text, path));
    assert_int_equal(trainer_idx_read(*state, 1, &idx, &err), -EISDIR);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(reads_plain_and_compressed_files_alike, helper_make_folder,
                                        helper_remove_folder),
        cmocka_unit_test_setup_teardown(refuses_what_does_not_add_up, helper_make_folder,
                                        helper_remove_folder),
        cmocka_unit_test_setup_teardown(refuses_sizes_that_only_together_are_too_large, helper_make_folder,
                                        helper_remove_folder),
        cmocka_unit_test_setup_teardown(refuses_damaged_compressed_data_at_every_length, helper_make_folder,
                                        helper_remove_folder),
        cmocka_unit_test_setup_teardown(a_missing_file_and_a_folder_are_errors, helper_make_folder,
                                        helper_remove_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
