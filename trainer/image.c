/* SPDX-License-Identifier: Apache-2.0 */
#include "image.h"

#include "muster/cleanup.h"

/* jpeglib.h takes FILE for known. */
/* clang-format off */
#include <stdio.h>
#include <jpeglib.h>
/* clang-format on */
#include <png.h>
#include <setjmp.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

void image_release(struct image *image)
{
    free(image->pixels);
    *image = (struct image){0};
}

static int check_sides(size_t rows, size_t columns, const char *what, struct mst_error *err)
{
    if (rows >= 1 && columns >= 1 && rows <= IMAGE_MAX_SIDE && columns <= IMAGE_MAX_SIDE)
        return 0;
    return mst_error_set(err, -EBADMSG, "read '%s': %zu x %zu places, expected at most %d a side", what, rows,
                         columns, IMAGE_MAX_SIDE);
}

static int have_pixels(struct image *image, const char *what, struct mst_error *err)
{
    image->pixels = malloc(image->rows * image->columns * image->channels);
    return image->pixels ? 0 : mst_error_set(err, -ENOMEM, "read '%s': no memory", what);
}

static int decode_png(const uint8_t *bytes, size_t count, size_t channels, const char *what,
                      struct image *image, struct mst_error *err)
{
    static const png_color black = {0};
    png_image png = {.version = PNG_IMAGE_VERSION};

    if (!png_image_begin_read_from_memory(&png, bytes, count))
        return mst_error_set(err, -EBADMSG, "read '%s': no good PNG: %s", what, png.message);
    image->rows = png.height;
    image->columns = png.width;
    image->channels = channels > 0 ? channels : png.format & PNG_FORMAT_FLAG_COLOR ? 3 : 1;
    int r = check_sides(image->rows, image->columns, what, err);
    if (r >= 0)
        r = have_pixels(image, what, err);
    if (r < 0) {
        png_image_free(&png);
        return r;
    }
    png.format = image->channels == 3 ? PNG_FORMAT_RGB : PNG_FORMAT_GRAY;
    if (!png_image_finish_read(&png, &black, image->pixels, 0, NULL))
        return mst_error_set(err, -EBADMSG, "read '%s': no good PNG: %s", what, png.message);
    return 0;
}

/* libjpeg leaves by longjmp() when it cannot go on. */
struct jpeg {
    struct jpeg_decompress_struct state;
    struct jpeg_error_mgr errors;
    jmp_buf out;
    char message[JMSG_LENGTH_MAX]; /* the first complaint */
};

static void jpeg_fails(j_common_ptr state)
{
    struct jpeg *jpeg = state->client_data;

    if (!jpeg->message[0])
        state->err->format_message(state, jpeg->message);
    longjmp(jpeg->out, 1);
}

/* Levels below 0 are warnings: data are damaged, and libjpeg would make up the rest. */
static void jpeg_complains(j_common_ptr state, int level)
{
    struct jpeg *jpeg = state->client_data;

    if (level < 0 && !jpeg->message[0])
        state->err->format_message(state, jpeg->message);
}

static int run_jpeg(struct jpeg *jpeg, const uint8_t *bytes, size_t count, size_t channels, const char *what,
                    struct image *image, struct mst_error *err)
{
    struct jpeg_decompress_struct *state = &jpeg->state;

    if (setjmp(jpeg->out) != 0)
        return mst_error_set(err, -EBADMSG, "read '%s': no good JPEG: %s", what, jpeg->message);
    jpeg_create_decompress(state);
    jpeg_mem_src(state, bytes, count);
    (void)jpeg_read_header(state, TRUE);
    image->rows = state->image_height;
    image->columns = state->image_width;
    image->channels = channels > 0 ? channels : state->num_components == 1 ? 1 : 3;
    int r = check_sides(image->rows, image->columns, what, err);
    if (r >= 0)
        r = have_pixels(image, what, err);
    if (r < 0)
        return r;
    state->out_color_space = image->channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
    (void)jpeg_start_decompress(state);
    while (state->output_scanline < state->output_height) {
        JSAMPROW row = image->pixels + state->output_scanline * image->columns * image->channels;
        (void)jpeg_read_scanlines(state, &row, 1);
    }
    (void)jpeg_finish_decompress(state);
    if (jpeg->message[0])
        return mst_error_set(err, -EBADMSG, "read '%s': no good JPEG: %s", what, jpeg->message);
    return 0;
}

static int decode_jpeg(const uint8_t *bytes, size_t count, size_t channels, const char *what,
                       struct image *image, struct mst_error *err)
{
    struct jpeg jpeg = {0};

    jpeg.state.err = jpeg_std_error(&jpeg.errors);
    jpeg.errors.error_exit = jpeg_fails;
    jpeg.errors.emit_message = jpeg_complains;
    jpeg.state.client_data = &jpeg;
    const int r = run_jpeg(&jpeg, bytes, count, channels, what, image, err);
    jpeg_destroy_decompress(&jpeg.state);
    return r;
}

int image_decode(const uint8_t *bytes, size_t count, size_t channels, const char *what,
                 struct image *ret_image, struct mst_error *err)
{
    static const uint8_t png_start[] = {0x89, 'P', 'N', 'G'}, jpeg_start[] = {0xff, 0xd8};
    mst_cleanup(image_release) struct image image = {0};
    int r;

    if (count >= sizeof png_start && memcmp(bytes, png_start, sizeof png_start) == 0)
        r = decode_png(bytes, count, channels, what, &image, err);
    else if (count >= sizeof jpeg_start && memcmp(bytes, jpeg_start, sizeof jpeg_start) == 0)
        r = decode_jpeg(bytes, count, channels, what, &image, err);
    else
        r = mst_error_set(err, -EBADMSG, "read '%s': neither PNG nor JPEG", what);
    if (r < 0)
        return r;
    *ret_image = image;
    image = (struct image){0};
    return 0;
}
