/* SPDX-License-Identifier: Apache-2.0 */
#include "dataset.h"
#include "idx_files.h"

static const char *const names[] = {"train-images-idx3-ubyte", "train-labels-idx1-ubyte",
                                    "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"};

/* A folder of small files; `packed` says by bit which have ".gz". */
static void write_folder(void **state, unsigned packed, uint32_t test_classes, uint32_t test_rows)
{
    uint8_t bytes[4000];
    char name[64], path[512];

    for (unsigned i = 0; i < 4; i++) {
        const uint32_t count = i < 2 ? 12 : 6;
        const size_t length = i % 2 ? idx_labels(bytes, count, i < 2 ? 3 : test_classes)
                                    : idx_images(bytes, count, i < 2 ? 4 : test_rows, 5);
        const bool gz = packed >> i & 1;
        (void)snprintf(name, sizeof name, "%s%s", names[i], gz ? ".gz" : "");
        helper_path(state, name, path, sizeof path);
        if (gz)
            idx_write_gz(path, bytes, length);
        else
            idx_write_bytes(path, bytes, length);
    }
}

static void opens_a_folder_and_gets_the_same_digest_packed_or_not(void **state)
{
    struct mst_error err = MST_ERROR_INIT;
    uint8_t digests[2][MST_SHA256_BYTES];
    struct trainer_dataset *train, *test;

    for (unsigned round = 0; round < 2; round++) {
        write_folder(state, round ? 0x0 : 0x9, 3, 4); /* plain files are found first */
        if (trainer_dataset_open_folder(*state, &train, &test, &err) < 0)
            fail_msg("%s", err.text);
        assert_int_equal(trainer_dataset_count(train), 12);
        assert_int_equal(trainer_dataset_count(test), 6);
        assert_int_equal(trainer_dataset_classes(train), 3);
        assert_int_equal(trainer_dataset_classes(test), 3);
        const struct trainer_shape shape = trainer_dataset_shape(test);
        assert_int_equal(shape.count, 3);
        assert_int_equal(shape.dims[0], 4);
        assert_int_equal(shape.dims[1], 5);
        assert_int_equal(shape.dims[2], 1);
        memcpy(digests[round], trainer_dataset_digest(train), MST_SHA256_BYTES);
        assert_memory_not_equal(trainer_dataset_digest(train), trainer_dataset_digest(test),
                                MST_SHA256_BYTES);
        trainer_dataset_free(train);
        trainer_dataset_free(test);
    }
    assert_memory_equal(digests[0], digests[1], MST_SHA256_BYTES);
}

static void check_refused(void **state, int code, const char *says)
{
    struct mst_error err = MST_ERROR_INIT;
    struct trainer_dataset *train = NULL, *test = NULL;

    assert_int_equal(trainer_dataset_open_folder(*state, &train, &test, &err), code);
    if (!strstr(err.text, says))
        fail_msg("'%s' has no '%s'", err.text, says);
    assert_null(train);
    assert_null(test);
}

static void names_the_file_that_is_missing(void **state)
{
    char path[512];

    write_folder(state, 0, 3, 4);
    assert_int_equal(unlink(helper_path(state, names[3], path, sizeof path)), 0);
    check_refused(state, -ENOENT, "t10k-labels-idx1-ubyte' or 't10k-labels-idx1-ubyte.gz'");
}

static void refuses_test_data_that_is_not_of_the_same_kind(void **state)
{
    write_folder(state, 0, 4, 4);
    check_refused(state, -EBADMSG, "label 3 is 3, expected 0 to 2");
    write_folder(state, 0, 3, 5);
    check_refused(state, -EBADMSG, "test images of 5 x 5, training images of 4 x 5");
}

static void refuses_labels_for_another_number_of_images(void **state)
{
    uint8_t bytes[100];
    char path[512];

    write_folder(state, 0, 3, 4);
    idx_write_bytes(helper_path(state, names[1], path, sizeof path), bytes, idx_labels(bytes, 11, 3));
    check_refused(state, -EBADMSG, "11 labels for the 12 images");
}

static void gathers_scaled_values_and_labels_by_number(void **state)
{
    (void)state;
    static const uint8_t values[] = {0, 255, 51, 102, 1, 2}, labels[] = {2, 0, 1};
    const struct trainer_shape shape = {.count = 1, .dims = {2}};
    const uint32_t samples[] = {2, 0, 2};
    struct trainer_dataset *set;
    uint32_t got[3];
    float x[6];

    assert_int_equal(trainer_dataset_new(&shape, 3, 0, values, labels, &set, NULL), 0);
    assert_int_equal(trainer_dataset_classes(set), 3);
    trainer_dataset_gather(set, samples, 3, x, got);
    const float expected[] = {1 / 255.0f, 2 / 255.0f, 0, 1, 1 / 255.0f, 2 / 255.0f};
    assert_memory_equal(x, expected, sizeof x);
    assert_int_equal(got[0], 1);
    assert_int_equal(got[1], 2);
    assert_int_equal(got[2], 1);
    trainer_dataset_free(set);
    assert_int_equal(trainer_dataset_new(&shape, 3, 2, values, labels, &set, NULL), -EBADMSG);
    trainer_dataset_free(NULL);
}

static void reads_the_mnist_that_comes_with_the_source(void **state)
{
    (void)state;
    struct mst_error err = MST_ERROR_INIT;
    struct trainer_dataset *train, *test;

    if (trainer_dataset_open_folder(MUSTER_SOURCE_DIR "/data/mnist", &train, &test, &err) < 0)
        fail_msg("%s", err.text);
    assert_int_equal(trainer_dataset_count(train), 60000);
    assert_int_equal(trainer_dataset_count(test), 10000);
    assert_int_equal(trainer_dataset_classes(train), 10);
    /* The first digits of the training set are a five, a zero and a four. */
    assert_int_equal(train->labels[0], 5);
    assert_int_equal(train->labels[1], 0);
    assert_int_equal(train->labels[2], 4);
    trainer_dataset_free(train);
    trainer_dataset_free(test);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(opens_a_folder_and_gets_the_same_digest_packed_or_not,
                                        helper_make_folder, helper_remove_folder),
        cmocka_unit_test_setup_teardown(names_the_file_that_is_missing, helper_make_folder,
                                        helper_remove_folder),
        cmocka_unit_test_setup_teardown(refuses_test_data_that_is_not_of_the_same_kind, helper_make_folder,
                                        helper_remove_folder),
        cmocka_unit_test_setup_teardown(refuses_labels_for_another_number_of_images, helper_make_folder,
                                        helper_remove_folder),
        cmocka_unit_test(gathers_scaled_values_and_labels_by_number),
        cmocka_unit_test(reads_the_mnist_that_comes_with_the_source),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
