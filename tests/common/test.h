/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests of this folder share: cmocka with its prerequisites, a folder that goes away, and a capture
 * of what is written to a descriptor. */
#ifndef TESTS_COMMON_TEST_H
#define TESTS_COMMON_TEST_H

#include "muster/buf.h"
#include "muster/cleanup.h"
#include "muster/error.h"
#include "muster/file.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* cmocka.h wants these four before it. */
/* clang-format off */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
/* clang-format on */

struct test_folder {
    char path[64];
};

static inline int test_folder_setup(void **state)
{
    struct test_folder *folder = calloc(1, sizeof *folder);
    if (!folder)
        return -1;
    (void)snprintf(folder->path, sizeof folder->path, "/tmp/muster-test.XXXXXX");
    *state = folder;
    return mkdtemp(folder->path) ? 0 : -1;
}

/* Files only: what a test leaves in sub-folders it takes away itself. */
static inline int test_folder_teardown(void **state)
{
    struct test_folder *folder = *state;
    DIR *dir = opendir(folder->path);
    for (struct dirent *entry = dir ? readdir(dir) : NULL; entry; entry = readdir(dir))
        (void)unlinkat(dirfd(dir), entry->d_name, 0);
    if (dir)
        (void)closedir(dir);
    const int r = rmdir(folder->path);
    free(folder);
    return r;
}

static inline const char *test_path(const struct test_folder *folder, const char *name, char path[static 320])
{
    (void)snprintf(path, 320, "%s/%s", folder->path, name);
    return path;
}

static inline size_t test_entries(const char *path)
{
    size_t count = 0;
    DIR *dir = opendir(path);
    assert_non_null(dir);
    for (struct dirent *entry = readdir(dir); entry; entry = readdir(dir))
        count += strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
    (void)closedir(dir);
    return count;
}

/* Use all of a pipe's room, to the last byte. */
static inline void test_fill_pipe(int fd)
{
    char bytes[4096] = {0};
    const int flags = fcntl(fd, F_GETFL);
    assert_int_equal(fcntl(fd, F_SETFL, flags | O_NONBLOCK), 0);
    for (size_t count = sizeof bytes; count > 0; count /= 2)
        while (write(fd, bytes, count) > 0)
            ;
    assert_int_equal(fcntl(fd, F_SETFL, flags), 0);
}

static inline void test_write(const char *path, const void *bytes, size_t count)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, count, file), count);
    assert_int_equal(fclose(file), 0);
}

/* Between begin and end, descriptor `fd` is a file; end gives its content. */
struct test_capture {
    int fd, saved;
    FILE *file;
};

static inline void test_capture_begin(struct test_capture *capture, int fd)
{
    (void)fflush(NULL);
    capture->fd = fd;
    capture->saved = dup(fd);
    capture->file = tmpfile();
    assert_true(capture->saved >= 0 && capture->file);
    assert_true(dup2(fileno(capture->file), fd) >= 0);
}

static inline size_t test_capture_end(struct test_capture *capture, char *text, size_t text_bytes)
{
    (void)fflush(NULL);
    assert_true(dup2(capture->saved, capture->fd) >= 0);
    (void)close(capture->saved);
    rewind(capture->file);
    const size_t count = fread(text, 1, text_bytes - 1, capture->file);
    text[count] = '\0';
    (void)fclose(capture->file);
    return count;
}

/* `text` has exactly one newline, and that at its end. */
static inline bool test_is_one_line(const char *text)
{
    const char *newline = strchr(text, '\n');
    return newline && newline[1] == '\0';
}

#endif
