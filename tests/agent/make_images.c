/* SPDX-License-Identifier: Apache-2.0 */
/* make_images FOLDER COUNT SEED [SIDE]: small pictures of things of two kinds for a test to learn from, as a
 * folder of images: FOLDER/ring/N.png and N.jpg, FOLDER/bar/... COUNT of each kind, of which every other one
 * is a JPEG. They are at different places, of different sizes and shades, on noise. */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* clang-format off: jpeglib.h takes FILE and size_t for known */
#include <jpeglib.h>
#include <png.h>
/* clang-format on */

#define SIDE_MAX 64

/* splitmix64 (Steele, Lea, Flood 2014) */
static uint64_t next(uint64_t *state)
{
    uint64_t z = (*state += 0x9e3779b97f4a7c15ULL);

    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ z >> 27) * 0x94d049bb133111ebULL;
    return z ^ z >> 31;
}

static int below(uint64_t *state, int bound)
{
    return (int)(next(state) % (uint64_t)bound);
}

static bool is_ring(int dx, int dy, int radius)
{
    const int distance = dx * dx + dy * dy;

    return distance <= radius * radius && distance >= (radius - 2) * (radius - 2);
}

/* A thick line through the middle, in one of two directions. */
static bool is_bar(int dx, int dy, int radius, bool rises)
{
    const int across = rises ? dx + dy : dx - dy;

    return dx >= -radius && dx <= radius && across >= -1 && across <= 1;
}

static void draw(uint8_t *pixels, int side, bool ring, uint64_t *state)
{
    const int radius = side / 5 + below(state, 2), middle = side / 2;
    const int x = middle + below(state, 5) - 2, y = middle + below(state, 5) - 2;
    const int shade = 150 + below(state, 80);
    const bool rises = below(state, 2) == 1;

    for (int row = 0; row < side; row++) {
        for (int column = 0; column < side; column++) {
            const bool on =
                ring ? is_ring(column - x, row - y, radius) : is_bar(column - x, row - y, radius, rises);
            pixels[row * side + column] = (uint8_t)((on ? shade : 30) + below(state, 40) - 20);
        }
    }
}

static int write_png(const char *path, const uint8_t *pixels, int side)
{
    png_image image = {.version = PNG_IMAGE_VERSION,
                       .width = (png_uint_32)side,
                       .height = (png_uint_32)side,
                       .format = PNG_FORMAT_GRAY};

    return png_image_write_to_file(&image, path, 0, pixels, 0, NULL) ? 0 : -1;
}

static int write_jpeg(const char *path, const uint8_t *pixels, int side)
{
    struct jpeg_compress_struct state;
    struct jpeg_error_mgr errors;
    FILE *file = fopen(path, "wb");

    if (!file)
        return -1;
    state.err = jpeg_std_error(&errors); /* ends the program on a fault */
    jpeg_create_compress(&state);
    jpeg_stdio_dest(&state, file);
    state.image_width = state.image_height = (JDIMENSION)side;
    state.input_components = 1;
    state.in_color_space = JCS_GRAYSCALE;
    jpeg_set_defaults(&state);
    jpeg_set_quality(&state, 90, TRUE);
    jpeg_start_compress(&state, TRUE);
    for (int row = 0; row < side; row++) {
        uint8_t line[SIDE_MAX];
        JSAMPROW lines[] = {line};
        memcpy(line, pixels + row * side, (size_t)side);
        (void)jpeg_write_scanlines(&state, lines, 1);
    }
    jpeg_finish_compress(&state);
    jpeg_destroy_compress(&state);
    return fclose(file) == 0 ? 0 : -1;
}

static int make_class(const char *folder, const char *name, int count, int side, uint64_t *state)
{
    uint8_t pixels[SIDE_MAX * SIDE_MAX];
    char path[4096];

    (void)snprintf(path, sizeof path, "%s/%s", folder, name);
    if (mkdir(path, 0755) < 0)
        return -1;
    for (int i = 0; i < count; i++) {
        const bool jpeg = i % 2 == 1;
        draw(pixels, side, name[0] == 'r', state);
        (void)snprintf(path, sizeof path, "%s/%s/%04d.%s", folder, name, i, jpeg ? "jpg" : "png");
        if ((jpeg ? write_jpeg(path, pixels, side) : write_png(path, pixels, side)) < 0)
            return -1;
    }
    return 0;
}

int main(int argc, char **argv)
{
    const int count = argc > 2 ? (int)strtol(argv[2], NULL, 10) : 0;
    const int side = argc > 4 ? (int)strtol(argv[4], NULL, 10) : 16;
    uint64_t state = argc > 3 ? strtoull(argv[3], NULL, 10) : 0;

    if (count < 1 || side < 12 || side > SIDE_MAX) {
        (void)fprintf(stderr, "make_images FOLDER COUNT SEED [SIDE]\n");
        return 2;
    }
    if (mkdir(argv[1], 0755) < 0 || make_class(argv[1], "ring", count, side, &state) < 0 ||
        make_class(argv[1], "bar", count, side, &state) < 0) {
        perror(argv[1]);
        return 1;
    }
    return 0;
}
