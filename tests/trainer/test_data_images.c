/* SPDX-License-Identifier: Apache-2.0 */
#include "dataset.h"
#include "image.h"
#include "muster/cleanup.h"
#include "muster/file.h"
#include "text_files.h"

#include <jpeglib.h>
#include <png.h>
#include <stdio.h>
#include <sys/stat.h>

static const struct trainer_data_options plain = {0};

static const char *in_folder(void **state, const char *name, char path[static 512])
{
    char folder[512];

    (void)helper_path(state, name, path, 512);
    (void)snprintf(folder, sizeof folder, "%s", path);
    *strrchr(folder, '/') = '\0';
    assert_int_equal(mst_make_folders(folder, 0755, NULL), 0);
    return path;
}

/* All places have one value, or the three of `color`. */
static void put_png(void **state, const char *name, unsigned rows, unsigned columns, const uint8_t *color,
                    size_t channels)
{
    png_image png = {.version = PNG_IMAGE_VERSION,
                     .width = columns,
                     .height = rows,
                     .format = channels == 3 ? PNG_FORMAT_RGB : PNG_FORMAT_GRAY};
    uint8_t pixels[3000];
    char path[512];

    assert_true(rows * columns * channels <= sizeof pixels);
    for (size_t i = 0; i < rows * columns * channels; i++)
        pixels[i] = color[i % channels];
    assert_true(png_image_write_to_file(&png, in_folder(state, name, path), 0, pixels, 0, NULL));
}

static void put_jpeg(void **state, const char *name, unsigned rows, unsigned columns, uint8_t gray)
{
    struct jpeg_compress_struct jpeg;
    struct jpeg_error_mgr errors;
    uint8_t row[64];
    char path[512];
    FILE *file = fopen(in_folder(state, name, path), "wb");

    assert_non_null(file);
    memset(row, gray, sizeof row);
    jpeg.err = jpeg_std_error(&errors);
    jpeg_create_compress(&jpeg);
    jpeg_stdio_dest(&jpeg, file);
    jpeg.image_width = columns;
    jpeg.image_height = rows;
    jpeg.input_components = 1;
    jpeg.in_color_space = JCS_GRAYSCALE;
    jpeg_set_defaults(&jpeg);
    jpeg_start_compress(&jpeg, TRUE);
    JSAMPROW scanline = row;
    while (jpeg.next_scanline < rows)
        assert_int_equal(jpeg_write_scanlines(&jpeg, &scanline, 1), 1);
    jpeg_finish_compress(&jpeg);
    jpeg_destroy_compress(&jpeg);
    assert_int_equal(fclose(file), 0);
}

static void remove_all(const char *path)
{
    char command[600];

    (void)snprintf(command, sizeof command, "rm -rf '%s'", path);
    assert_int_equal(system(command), 0);
}

static int tear_down(void **state)
{
    remove_all(*state);
    free(*state);
    return 0;
}

static struct trainer_data open_data(void **state, const struct trainer_data_options *options)
{
    struct mst_error err = MST_ERROR_INIT;
    struct trainer_data data = {0};

    if (trainer_data_open(*state, options, &data, &err) < 0)
        fail_msg("%s", err.text);
    return data;
}

static void check_refused(void **state, const char *says)
{
    struct mst_error err = MST_ERROR_INIT;
    struct trainer_data data = {0};

    assert_int_equal(trainer_data_open(*state, &plain, &data, &err), -EBADMSG);
    if (!strstr(err.text, says))
        fail_msg("'%s' has no '%s'", err.text, says);
    assert_null(data.train);
}

static void folders_are_classes_and_files_their_samples(void **state)
{
    put_png(state, "train/dog/a.png", 3, 5, (const uint8_t[]){10, 20, 30}, 3);
    put_png(state, "train/cat/b.PNG", 3, 5, (const uint8_t[]){1, 2, 3}, 3);
    put_png(state, "train/cat/a.png", 3, 5, (const uint8_t[]){77}, 1);
    text_put(state, "train/cat/notes.txt", "not an image");
    text_put(state, "train/cat/.hidden.png", "not one either");
    put_jpeg(state, "test/dog/x.jpg", 3, 5, 200);
    struct trainer_data data = open_data(state, &plain);
    assert_int_equal(data.train->count, 3);
    assert_int_equal(data.train->classes, 2);
    assert_int_equal(data.train->shape.count, 3);
    assert_int_equal(data.train->shape.dims[0], 3);
    assert_int_equal(data.train->shape.dims[1], 5);
    /* The first is cat/a.png, which is gray: all are. */
    assert_int_equal(data.train->shape.dims[2], 1);
    assert_int_equal(data.train->values[0], 77);
    assert_memory_equal(data.train->labels, ((const uint32_t[]){0, 0, 1}), 12);
    assert_int_equal(data.test->count, 1);
    assert_int_equal(data.test->labels[0], 1);
    assert_in_range(data.test->values[7], 199, 201);
    assert_non_null(strstr(data.encoding, "[\"cat\",\"dog\"]"));
    /* What such a model is given later may be without classes. */
    char path[512];
    remove_all(helper_path(state, "train", path, sizeof path));
    remove_all(helper_path(state, "test", path, sizeof path));
    put_png(state, "test/new.png", 3, 5, (const uint8_t[]){9}, 1);
    text_put(state, "dataset.json", "{\"format\": \"images\"}");
    const struct trainer_data_options options = {.encoding = data.encoding};
    struct trainer_data later = open_data(state, &options);
    assert_false(trainer_dataset_is_labelled(later.test));
    assert_int_equal(later.test->classes, 2);
    trainer_data_release(&later);
    trainer_data_release(&data);
}

static void color_is_asked_for_in_the_description(void **state)
{
    text_put(state, "dataset.json", "{\"format\": \"images\", \"channels\": 3}");
    put_png(state, "train/a/1.png", 2, 2, (const uint8_t[]){7}, 1);
    put_png(state, "train/b/1.png", 2, 2, (const uint8_t[]){1, 2, 3}, 3);
    struct trainer_data data = open_data(state, &plain);
    assert_memory_equal(data.train->values, ((const uint8_t[]){7, 7, 7}), 3);
    assert_memory_equal(data.train->values + 12, ((const uint8_t[]){1, 2, 3}), 3);
    trainer_data_release(&data);
}

static void what_does_not_fit_is_told_with_the_file(void **state)
{
    char path[512];

    put_png(state, "train/a/1.png", 2, 2, (const uint8_t[]){7}, 1);
    put_png(state, "train/b/2.png", 2, 3, (const uint8_t[]){7}, 1);
    check_refused(state, "train/b/2.png': 2 x 3, the first image is 2 x 2");
    text_put(state, "train/b/2.png", "GIF89a");
    check_refused(state, "train/b/2.png': neither PNG nor JPEG");
    assert_int_equal(unlink(helper_path(state, "train/b/2.png", path, sizeof path)), 0);
    check_refused(state, "train/b' holds no image");
    put_png(state, "train/b/2.png", 2, 2, (const uint8_t[]){7}, 1);
    put_png(state, "test/c/2.png", 2, 2, (const uint8_t[]){7}, 1);
    check_refused(state, "class 'c' is not among the training set's");
    text_put(state, "dataset.json", "{\"format\": \"images\", \"channels\": 2}");
    check_refused(state, "key 'channels' must be 1 or 3");
}

static void link_to(void **state, const char *target, const char *name)
{
    char path[512];

    assert_int_equal(symlink(target, helper_path(state, name, path, sizeof path)), 0);
}

static void drop(void **state, const char *name)
{
    char path[512];

    assert_int_equal(remove(helper_path(state, name, path, sizeof path)), 0);
}

/* What can only be meant to be a sample or a class is not passed over because it cannot be read. */
static void what_has_an_image_s_name_or_a_class_s_place_must_be_one(void **state)
{
    const char *nowhere = "it is a link to something that is not there";
    char path[512];

    put_png(state, "train/a/1.png", 2, 2, (const uint8_t[]){7}, 1);
    put_png(state, "train/b/1.png", 2, 2, (const uint8_t[]){7}, 1);
    link_to(state, "nothing", "train/b/notes.txt");
    link_to(state, "../a/1.png", "train/b/2.png");
    struct trainer_data data = open_data(state, &plain);
    assert_int_equal(data.train->count, 3);
    trainer_data_release(&data);

    link_to(state, "nothing", "train/b/9.png");
    check_refused(state, "train/b/9.png': it is a link");
    check_refused(state, nowhere);
    drop(state, "train/b/9.png");
    assert_int_equal(mkfifo(helper_path(state, "train/b/9.png", path, sizeof path), 0600), 0);
    check_refused(state, "train/b/9.png': expected an image, and it is no file");
    drop(state, "train/b/9.png");
    assert_int_equal(mkdir(path, 0700), 0);
    check_refused(state, "train/b/9.png': expected an image, and it is no file");
    drop(state, "train/b/9.png");
    link_to(state, "nothing", "train/c");
    check_refused(state, "train/c': it is a link");
    drop(state, "train/c");

    static const char *const names[] = {"test", "dataset.json", "train.csv"};
    for (size_t i = 0; i < MST_ARRAY_COUNT(names); i++) {
        struct mst_error err = MST_ERROR_INIT;
        link_to(state, "nothing", names[i]);
        if (trainer_data_open(*state, &plain, &data, &err) != -ENOENT || !strstr(err.text, names[i]))
            fail_msg("%s: %s", names[i], err.text);
        drop(state, names[i]);
    }
}

/* Cut at every length, and with each byte turned: an error or an image, and never more. */
static void damaged_files_are_refused_or_decoded(void **state)
{
    static const char *const names[] = {"x/a.png", "x/a.jpg"};
    char path[512];

    put_png(state, names[0], 6, 7, (const uint8_t[]){1, 2, 3}, 3);
    put_jpeg(state, names[1], 6, 7, 99);
    for (size_t n = 0; n < 2; n++) {
        mst_cleanup(mst_buf_release) struct mst_buf bytes = MST_BUF_INIT(100000);
        assert_int_equal(mst_file_read(helper_path(state, names[n], path, sizeof path), &bytes, NULL), 0);
        for (size_t cut = 0; cut < bytes.count; cut++) {
            mst_cleanup(mst_freep) uint8_t *copy = malloc(cut + 1);
            struct image image = {0};
            assert_non_null(copy);
            memcpy(copy, bytes.bytes, cut);
            if (image_decode(copy, cut, 0, "cut", &image, NULL) == 0)
                assert_true(cut + 13 > bytes.count); /* the end marker alone is missing */
            image_release(&image);
        }
        for (size_t i = 0; i < bytes.count; i++) {
            struct image image = {0};
            bytes.bytes[i] = (char)(bytes.bytes[i] ^ 0x81);
            (void)image_decode((uint8_t *)bytes.bytes, bytes.count, 0, "turned", &image, NULL);
            image_release(&image);
            bytes.bytes[i] = (char)(bytes.bytes[i] ^ 0x81);
        }
    }
}

#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, helper_make_folder, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_FOLDER(folders_are_classes_and_files_their_samples),
        IN_FOLDER(color_is_asked_for_in_the_description),
        IN_FOLDER(what_does_not_fit_is_told_with_the_file),
        IN_FOLDER(what_has_an_image_s_name_or_a_class_s_place_must_be_one),
        IN_FOLDER(damaged_files_are_refused_or_decoded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
