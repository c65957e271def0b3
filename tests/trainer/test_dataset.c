/* SPDX-License-Identifier: Apache-2.0 */
#include "dataset.h"
#include "idx_files.h"

#include <math.h>

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

/* docs/data.md: without a test set nothing is tested. Half of one is an error, and so is a link to nothing.
 */
static void the_test_files_may_both_be_absent(void **state)
{
    struct mst_error err = MST_ERROR_INIT;
    struct trainer_dataset *train = NULL, *test = NULL;
    char path[512];

    write_folder(state, 0, 3, 4);
    assert_int_equal(unlink(helper_path(state, names[2], path, sizeof path)), 0);
    check_refused(state, -ENOENT, "t10k-images-idx3-ubyte' or 't10k-images-idx3-ubyte.gz'");
    assert_int_equal(unlink(helper_path(state, names[3], path, sizeof path)), 0);
    if (trainer_dataset_open_folder(*state, &train, &test, &err) < 0)
        fail_msg("%s", err.text);
    assert_non_null(train);
    assert_null(test);
    trainer_dataset_free(train);
    assert_int_equal(symlink("nothing", path), 0);
    train = NULL;
    check_refused(state, -ENOENT, "t10k-images-idx3-ubyte");
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

static struct trainer_dataset *with_targets(size_t count)
{
    struct mst_error err = MST_ERROR_INIT;
    struct trainer_dataset *set = NULL;
    float floats[200], targets[200];

    assert_true(2 * count <= 200);
    for (size_t i = 0; i < 2 * count; i++) {
        floats[i] = (float)i / 8 - 5;
        targets[i] = -(float)i;
    }
    const struct trainer_samples samples = {.shape = {.count = 1, .dims = {2}},
                                            .count = count,
                                            .floats = floats,
                                            .target_size = 2,
                                            .targets = targets};
    if (trainer_dataset_from(&samples, &set, &err) < 0)
        fail_msg("%s", err.text);
    return set;
}

static void floats_and_targets_are_gathered_as_they_are(void **state)
{
    (void)state;
    static const uint32_t samples[] = {3, 0};
    struct trainer_dataset *set = with_targets(5);
    uint32_t labels[2] = {9, 9};
    float x[4], targets[4];

    assert_int_equal(trainer_dataset_classes(set), 0);
    assert_int_equal(trainer_dataset_target_size(set), 2);
    trainer_dataset_gather(set, samples, 2, x, labels);
    trainer_dataset_gather_targets(set, samples, 2, targets);
    assert_memory_equal(x, ((const float[]){-4.25f, -4.125f, -5, -4.875f}), sizeof x);
    assert_memory_equal(targets, ((const float[]){-6, -7, -0.0f, -1}), sizeof targets);
    assert_int_equal(labels[0] + labels[1], 0);
    trainer_dataset_gather(set, samples, 1, x, NULL);
    trainer_dataset_free(set);
}

static void values_that_are_not_finite_are_refused_with_their_place(void **state)
{
    (void)state;
    static const uint32_t labels[] = {0, 70000};
    struct trainer_samples samples = {
        .shape = {.count = 1, .dims = {2}}, .count = 2, .labels = (const uint32_t[]){0, 1}};
    struct mst_error err = MST_ERROR_INIT;
    struct trainer_dataset *set = NULL;

    samples.floats = (const float[]){0, 1, 2, (float)INFINITY};
    assert_int_equal(trainer_dataset_from(&samples, &set, &err), -EBADMSG);
    assert_string_equal(err.text, "read 'memory': value 1 of sample 1 is not a finite number");
    samples.floats = (const float[]){0, (float)NAN, 2, 3};
    assert_int_equal(trainer_dataset_from(&samples, &set, &err), -EBADMSG);
    samples.floats = (const float[]){0, 1, 2, 3};
    samples.labels = labels;
    assert_int_equal(trainer_dataset_from(&samples, &set, &err), -EBADMSG);
    assert_non_null(strstr(err.text, "labels up to 70000, expected less than 65536"));
    assert_null(set);
}

static void a_share_is_taken_out_by_the_seed_and_nothing_is_lost(void **state)
{
    (void)state;
    float first[3][20];
    static const uint64_t seeds[] = {7, 7, 8};

    for (size_t round = 0; round < 3; round++) {
        struct trainer_dataset *set = with_targets(100), *taken = NULL;
        bool seen[100] = {false};
        assert_int_equal(dataset_take_share(set, 0.2, seeds[round], &taken, NULL), 0);
        assert_int_equal(set->count, 80);
        assert_int_equal(taken->count, 20);
        for (size_t i = 0; i < 100; i++) {
            const struct trainer_dataset *part = i < 80 ? set : taken;
            const size_t at = i < 80 ? i : i - 80;
            const size_t number = (size_t)-part->targets[2 * at] / 2; /* its place before */
            assert_false(seen[number]);
            seen[number] = true;
            assert_true(part->floats[2 * at] == (float)number / 4 - 5);
            assert_true(at == 0 || part->floats[2 * at] > part->floats[2 * at - 2]); /* in order */
            if (i >= 80)
                first[round][at] = part->floats[2 * at];
        }
        trainer_dataset_free(set);
        trainer_dataset_free(taken);
    }
    assert_memory_equal(first[0], first[1], sizeof first[0]);
    assert_memory_not_equal(first[0], first[2], sizeof first[0]);
}

static void no_part_may_be_empty(void **state)
{
    (void)state;
    struct mst_error err = MST_ERROR_INIT;
    struct trainer_dataset *set = with_targets(10), *taken = NULL;

    assert_int_equal(dataset_take_share(set, 0.01, 1, &taken, &err), -EINVAL);
    assert_string_equal(err.text, "a share of 0.01 of 10 samples leaves one part empty");
    assert_int_equal(dataset_take_share(set, 0.99, 1, &taken, &err), -EINVAL);
    assert_int_equal(dataset_take_last(set, 10, &taken, &err), -EINVAL);
    assert_int_equal(dataset_take_last(set, 0, &taken, &err), -EINVAL);
    assert_null(taken);
    assert_int_equal(dataset_take_last(set, 3, &taken, &err), 0);
    assert_int_equal(set->count, 7);
    assert_true(taken->targets[0] == -14);
    trainer_dataset_free(set);
    trainer_dataset_free(taken);
}

static void a_folder_of_idx_files_is_parted_for_validation(void **state)
{
    struct trainer_data_options options = {.validation = 0.25, .seed = 3};
    struct mst_error err = MST_ERROR_INIT;
    struct trainer_data data = {0};

    write_folder(state, 0, 3, 4);
    if (trainer_data_open(*state, &options, &data, &err) < 0)
        fail_msg("%s", err.text);
    assert_int_equal(trainer_dataset_count(data.train), 9);
    assert_int_equal(trainer_dataset_count(data.validation), 3);
    assert_int_equal(trainer_dataset_count(data.test), 6);
    assert_memory_not_equal(data.train->digest, data.validation->digest, MST_SHA256_BYTES);
    trainer_data_release(&data);
    options.validation = 1;
    assert_int_equal(trainer_data_open(*state, &options, &data, &err), -EINVAL);
    options.validation = 0;
    assert_int_equal(trainer_data_open(*state, &options, &data, &err), 0);
    assert_null(data.validation);
    trainer_data_release(&data);
    trainer_data_release(&data);
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
        cmocka_unit_test_setup_teardown(the_test_files_may_both_be_absent, helper_make_folder,
                                        helper_remove_folder),
        cmocka_unit_test_setup_teardown(refuses_test_data_that_is_not_of_the_same_kind, helper_make_folder,
                                        helper_remove_folder),
        cmocka_unit_test_setup_teardown(refuses_labels_for_another_number_of_images, helper_make_folder,
                                        helper_remove_folder),
        cmocka_unit_test(floats_and_targets_are_gathered_as_they_are),
        cmocka_unit_test(values_that_are_not_finite_are_refused_with_their_place),
        cmocka_unit_test(a_share_is_taken_out_by_the_seed_and_nothing_is_lost),
        cmocka_unit_test(no_part_may_be_empty),
        cmocka_unit_test_setup_teardown(a_folder_of_idx_files_is_parted_for_validation, helper_make_folder,
                                        helper_remove_folder),
        cmocka_unit_test(gathers_scaled_values_and_labels_by_number),
        cmocka_unit_test(reads_the_mnist_that_comes_with_the_source),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
