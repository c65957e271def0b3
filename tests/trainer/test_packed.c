/* SPDX-License-Identifier: Apache-2.0 */
/* Files that end too early, or change under the reader. */
#include "csv.h"
#include "idx_files.h"
#include "muster/cleanup.h"
#include "packed.h"
#include "text_files.h"

#include <fcntl.h>
#include <sys/stat.h>

#define IN_CHUNK 8192 /* what zlib reads of a file at once */

/* Read it to its end in pieces; the number of bytes, or the error. */
static long read_whole(const char *path, size_t piece, struct mst_error *err)
{
    mst_cleanup(packed_close) struct packed_file file = {0};
    static uint8_t bytes[65536];
    size_t got = 0;
    long total = 0;

    assert_true(piece <= sizeof bytes);
    int r = packed_open(&file, path, err);
    do {
        if (r >= 0)
            r = packed_read(&file, bytes, piece, &got, err);
        total += (long)got;
    } while (r >= 0 && got == piece);
    return r < 0 ? r : total;
}

/* Bytes that gzip cannot make smaller, so that files of any length can be had. */
static void make_noise(uint8_t *bytes, size_t count)
{
    uint64_t state = 7;

    for (size_t i = 0; i < count; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        bytes[i] = (uint8_t)(state >> 56);
    }
}

static off_t size_of(const char *path)
{
    struct stat status;

    assert_int_equal(stat(path, &status), 0);
    return status.st_size;
}

/* Also where the file's end, with or without its checksum, is the end of a piece that zlib reads at once. */
static void a_gz_without_all_of_its_checksum_is_an_error(void **state)
{
    static uint8_t noise[2 * IN_CHUNK];
    char path[512];

    make_noise(noise, sizeof noise);
    helper_path(state, "noise.gz", path, sizeof path);
    for (size_t count = IN_CHUNK - 64; count <= IN_CHUNK; count++) {
        idx_write_gz(path, noise, count);
        assert_int_equal(read_whole(path, 1000, NULL), count);
        const off_t whole = size_of(path);
        for (off_t cut = 1; cut <= 8; cut++) {
            static const size_t pieces[] = {1000, IN_CHUNK - 32, 65536};
            assert_int_equal(truncate(path, whole - cut), 0);
            for (size_t p = 0; p < sizeof pieces / sizeof pieces[0]; p++) {
                struct mst_error err = MST_ERROR_INIT;
                assert_int_equal(read_whole(path, pieces[p], &err), -EBADMSG);
                if (!strstr(err.text, "truncated gzip data") || !strstr(err.text, path))
                    fail_msg("%zu bytes, %d cut: %s", count, (int)cut, err.text);
            }
        }
    }
}

static void a_checksum_that_is_wrong_is_an_error(void **state)
{
    uint8_t noise[100];
    char path[512];
    struct mst_error err = MST_ERROR_INIT;

    make_noise(noise, sizeof noise);
    helper_path(state, "wrong.gz", path, sizeof path);
    idx_write_gz(path, noise, sizeof noise);
    FILE *file = fopen(path, "r+b");
    assert_non_null(file);
    assert_int_equal(fseek(file, -8, SEEK_END), 0);
    const int byte = fgetc(file);
    assert_int_equal(fseek(file, -8, SEEK_END), 0);
    assert_int_equal(fputc(byte ^ 1, file), byte ^ 1);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(read_whole(path, 1000, &err), -EBADMSG);
    assert_non_null(strstr(err.text, "damaged gzip data"));
}

static void append(const char *path, const char *mode, const uint8_t *bytes, size_t count)
{
    if (strcmp(mode, "gz") == 0) {
        gzFile file = gzopen(path, "ab");
        assert_non_null(file);
        assert_int_equal(gzwrite(file, bytes, (unsigned)count), (int)count);
        assert_int_equal(gzclose(file), Z_OK);
        return;
    }
    FILE *file = fopen(path, "ab");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, count, file), count);
    assert_int_equal(fclose(file), 0);
}

/* As `cat a.gz b.gz` makes, and tapes that are filled up with zeros; gzip -t finds all of it good. */
static void several_members_are_one_file(void **state)
{
    static uint8_t noise[100000];
    static const uint8_t zeros[PACKED_BUFFER_BYTES + 1];
    char path[512];

    make_noise(noise, sizeof noise);
    helper_path(state, "several.gz", path, sizeof path);
    for (size_t count = 1; count <= sizeof noise; count = 10 * count) {
        idx_write_gz(path, noise, count);
        append(path, "gz", noise, 0);
        append(path, "gz", noise, count);
        for (size_t piece = 7; piece <= 65536; piece *= 40)
            assert_int_equal(read_whole(path, piece, NULL), 2 * count);
        append(path, "plain", zeros, sizeof zeros);
        assert_int_equal(read_whole(path, 1000, NULL), 2 * count);
    }
}

/* Each byte of the second member's, for a reader that stops at the first passes over all of it. */
static void a_later_member_is_checked_as_the_first(void **state)
{
    uint8_t noise[64], whole[256];
    char path[512];

    make_noise(noise, sizeof noise);
    helper_path(state, "later.gz", path, sizeof path);
    idx_write_gz(path, noise, sizeof noise);
    const size_t first = (size_t)size_of(path);
    append(path, "gz", noise, sizeof noise);
    const size_t count = (size_t)size_of(path);
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    assert_int_equal(fread(whole, 1, sizeof whole, file), count);
    assert_int_equal(fclose(file), 0);
    for (size_t cut = first + 1; cut < count; cut++) {
        struct mst_error err = MST_ERROR_INIT;
        idx_write_bytes(path, whole, cut);
        assert_int_equal(read_whole(path, 1000, &err), -EBADMSG);
        if (!strstr(err.text, "truncated gzip data"))
            fail_msg("cut to %zu of %zu bytes: %s", cut, count, err.text);
    }
    /* Magic number, method and the data with their checksum; a header's other bytes mean nothing here. */
    for (size_t at = first; at < count; at += at == first + 2 ? 8 : 1) {
        struct mst_error err = MST_ERROR_INIT;
        whole[at] ^= 1;
        idx_write_bytes(path, whole, count);
        whole[at] ^= 1;
        if (read_whole(path, 1000, &err) != -EBADMSG || !strstr(err.text, "gzip data"))
            fail_msg("byte %zu of %zu: %s", at, count, err.text);
    }
}

static void what_stands_behind_gzip_data_is_an_error(void **state)
{
    static const struct {
        const char *bytes;
        size_t count;
    } cases[] = {{"1,2,nan\n", 8},
                 {"\0\0"
                  "1",
                  3},
                 {"\x1e", 1}};
    char path[512];

    helper_path(state, "behind.gz", path, sizeof path);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct mst_error err = MST_ERROR_INIT;
        idx_write_gz(path, (const uint8_t *)"1,2,3\n", 6);
        append(path, "plain", (const uint8_t *)cases[i].bytes, cases[i].count);
        assert_int_equal(read_whole(path, 1000, &err), -EBADMSG);
        if (!strstr(err.text, "something else stands behind it") || !strstr(err.text, path))
            fail_msg("case %zu: %s", i, err.text);
    }
}

enum change { SHRINKS, GROWS, IS_WRITTEN_OVER };

static void change(const char *path, enum change how)
{
    const int fd = open(path, O_WRONLY | O_CLOEXEC | (how == GROWS ? O_APPEND : 0));

    assert_true(fd >= 0);
    if (how == SHRINKS)
        assert_int_equal(ftruncate(fd, size_of(path) / 100 * 50), 0);
    else
        assert_int_equal(write(fd, "1,2,x\n", 6), 6);
    /* Two writes within one tick of the file system's clock look alike: a second apart they do not. */
    const struct timespec times[] = {{.tv_sec = 1, .tv_nsec = UTIME_OMIT}, {.tv_sec = 1000000000 + (int)how}};
    assert_int_equal(futimens(fd, times), 0);
    assert_int_equal(close(fd), 0);
}

/* Rows end where the file was cut, so that nothing but its size tells. */
static void a_csv_file_that_changes_while_being_read_is_an_error(void **state)
{
    static const char *const says[] = {"it changed from 600000 to 300000 bytes while being read",
                                       "it changed from 600000 to 600006 bytes while being read",
                                       "it was written to while being read"};
    static char text[600001];
    char path[512];

    for (size_t row = 0; row < 100000; row++)
        (void)snprintf(text + 6 * row, 7, "1,2,3\n");
    for (enum change how = SHRINKS; how <= IS_WRITTEN_OVER; how++) {
        struct mst_error err = MST_ERROR_INIT;
        mst_cleanup(csv_release) struct csv_reader reader = {0};
        size_t rows = 0;
        int r;
        text_write(state, "rows.csv", text, 600000, path, sizeof path);
        assert_int_equal(csv_open(&reader, path, ',', NULL), 0);
        for (; rows < 10; rows++)
            assert_int_equal(csv_next(&reader, NULL), 1);
        change(path, how);
        while ((r = csv_next(&reader, &err)) == 1)
            rows++;
        assert_int_equal(r, -EBADMSG);
        if (!strstr(err.text, says[how]) || !strstr(err.text, path))
            fail_msg("%s", err.text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_gz_without_all_of_its_checksum_is_an_error, helper_make_folder,
                                        helper_remove_folder),
        cmocka_unit_test_setup_teardown(a_checksum_that_is_wrong_is_an_error, helper_make_folder,
                                        helper_remove_folder),
        cmocka_unit_test_setup_teardown(several_members_are_one_file, helper_make_folder,
                                        helper_remove_folder),
        cmocka_unit_test_setup_teardown(a_later_member_is_checked_as_the_first, helper_make_folder,
                                        helper_remove_folder),
        cmocka_unit_test_setup_teardown(what_stands_behind_gzip_data_is_an_error, helper_make_folder,
                                        helper_remove_folder),
        cmocka_unit_test_setup_teardown(a_csv_file_that_changes_while_being_read_is_an_error,
                                        helper_make_folder, helper_remove_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
