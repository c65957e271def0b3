/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests of this folder share: cmocka with its prerequisites, a seeded generator, and a folder. */
#ifndef TESTS_AGENT_TEST_H
#define TESTS_AGENT_TEST_H

#include "muster/cleanup.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
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

/* splitmix64 (Steele, Lea, Flood 2014): every seed is a good one. */
static inline uint64_t test_random(uint64_t *state)
{
    uint64_t z = (*state += 0x9e3779b97f4a7c15ULL);
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ z >> 27) * 0x94d049bb133111ebULL;
    return z ^ z >> 31;
}

static inline uint64_t test_below(uint64_t *state, uint64_t bound)
{
    return bound > 0 ? test_random(state) % bound : 0;
}

/* A folder under /tmp that goes away with the files in it. */
static inline int test_folder_setup(void **state)
{
    char *path = strdup("/tmp/muster-test.XXXXXX");
    *state = path;
    return path && mkdtemp(path) ? 0 : -1;
}

static inline int test_folder_teardown(void **state)
{
    char *path = *state;
    DIR *dir = opendir(path);
    for (struct dirent *entry = dir ? readdir(dir) : NULL; entry; entry = readdir(dir))
        (void)unlinkat(dirfd(dir), entry->d_name, 0);
    if (dir)
        (void)closedir(dir);
    const int r = rmdir(path);
    free(path);
    return r;
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

#endif
