/* SPDX-License-Identifier: Apache-2.0 */
/* Stands in for libFuzzer: runs the entry on every file of the corpora, then for some seconds on inputs that
 * are made from those by a seeded generator, and on random ones. It is blind to coverage: the corpora are
 * what makes it go deep. MUSTER_TEST_LONG in the environment makes seconds minutes.
 *
 *     fuzz_NAME_seeded [--seconds N] [--seed N] [CORPUS_FOLDER|FILE]... */
#include <dirent.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#define INPUT_MAX_BYTES 4096
#define CORPUS_MAX      4096
#define LONG_FACTOR     60
#define CLOCK_EACH      64 /* inputs between two looks at the clock */
#define DEFAULT_SECONDS 2

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);

struct input {
    uint8_t *bytes;
    size_t count;
};

static struct input corpus[CORPUS_MAX];
static size_t corpus_count;

static uint64_t next_random(uint64_t *random)
{
    *random = *random * 6364136223846793005ULL + 1442695040888963407ULL;
    return *random >> 33;
}

/* In a block of its own, so that the sanitizer knows its end. */
static void run(const uint8_t *bytes, size_t count)
{
    uint8_t *copy = malloc(count > 0 ? count : 1);
    if (!copy)
        exit(1);
    memcpy(copy, bytes, count);
    (void)LLVMFuzzerTestOneInput(copy, count);
    free(copy);
}

static void load_file(const char *path)
{
    FILE *file = fopen(path, "rbe");
    uint8_t *bytes = malloc(INPUT_MAX_BYTES);
    if (!file || !bytes || corpus_count == CORPUS_MAX) {
        (void)fprintf(stderr, "cannot take '%s' into the corpus\n", path);
        exit(1);
    }
    corpus[corpus_count].bytes = bytes;
    corpus[corpus_count++].count = fread(bytes, 1, INPUT_MAX_BYTES, file);
    (void)fclose(file);
}

static void load(const char *path)
{
    DIR *dir = opendir(path);
    if (!dir) {
        load_file(path);
        return;
    }
    for (const struct dirent *entry = readdir(dir); entry; entry = readdir(dir)) {
        char name[1024];
        if (entry->d_name[0] == '.')
            continue;
        (void)snprintf(name, sizeof name, "%s/%s", path, entry->d_name);
        load_file(name);
    }
    (void)closedir(dir);
}

/* Random text rarely passes a check: most bytes are zero or small. */
static size_t make_random(uint8_t *bytes, uint64_t *random)
{
    const size_t count = next_random(random) % (INPUT_MAX_BYTES / 2);
    for (size_t i = 0; i < count; i++) {
        const uint64_t word = next_random(random);
        bytes[i] = word % 4 == 0 ? (uint8_t)(word >> 8) : (uint8_t)(word % 4 - 1);
    }
    return count;
}

/* One small change in place, or by moving what stands behind. */
static size_t mutate(uint8_t *bytes, size_t count, uint64_t *random)
{
    static const uint8_t interesting[] = {0, 1, 0x7f, 0x80, 0xff, 0xfe, ' ', '<', '"', '/'};
    const size_t at = count > 0 ? next_random(random) % count : 0;
    const size_t room = INPUT_MAX_BYTES - count;
    size_t length = 1 + next_random(random) % 16;
    switch (next_random(random) % 7) {
    case 0:
        if (count > 0)
            bytes[at] ^= (uint8_t)(1U << next_random(random) % 8);
        break;
    case 1:
        if (count > 0)
            bytes[at] = interesting[next_random(random) % sizeof interesting];
        break;
    case 2:
        if (count > 0)
            bytes[at] = (uint8_t)next_random(random);
        break;
    case 3: /* take out */
        length = length < count - at ? length : count - at;
        memmove(bytes + at, bytes + at + length, count - at - length);
        return count - length;
    case 4: /* put in */
        length = length < room ? length : room;
        memmove(bytes + at + length, bytes + at, count - at);
        for (size_t i = 0; i < length; i++)
            bytes[at + i] = (uint8_t)next_random(random);
        return count + length;
    case 5: /* cut */
        return at;
    default: /* go on as another one does */
        if (corpus_count > 0) {
            const struct input *other = &corpus[next_random(random) % corpus_count];
            const size_t from = other->count > 0 ? next_random(random) % other->count : 0;
            length = other->count - from;
            length = length < INPUT_MAX_BYTES - at ? length : INPUT_MAX_BYTES - at;
            memcpy(bytes + at, other->bytes + from, length);
            return at + length > count ? at + length : count;
        }
    }
    return count;
}

static double now_s(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static unsigned long fuzz(double seconds, uint64_t random)
{
    static uint8_t bytes[INPUT_MAX_BYTES];
    unsigned long inputs = 0;
    const double until_s = now_s() + seconds;
    while (inputs % CLOCK_EACH != 0 || now_s() < until_s) {
        size_t count;
        if (corpus_count == 0 || next_random(&random) % 8 == 0) {
            count = make_random(bytes, &random);
        } else {
            const struct input *base = &corpus[next_random(&random) % corpus_count];
            memcpy(bytes, base->bytes, base->count);
            count = base->count;
            for (uint64_t changes = 1 + next_random(&random) % 6; changes > 0; changes--)
                count = mutate(bytes, count, &random);
        }
        run(bytes, count);
        inputs++;
    }
    return inputs;
}

int main(int argc, char **argv)
{
    double seconds = DEFAULT_SECONDS;
    uint64_t seed = 1;
    for (int a = 1; a < argc; a++) {
        if (strcmp(argv[a], "--seconds") == 0 && a + 1 < argc)
            seconds = strtod(argv[++a], NULL);
        else if (strcmp(argv[a], "--seed") == 0 && a + 1 < argc)
            seed = strtoull(argv[++a], NULL, 10);
        else
            load(argv[a]);
    }
    if (getenv("MUSTER_TEST_LONG"))
        seconds *= LONG_FACTOR;
    for (size_t c = 0; c < corpus_count; c++)
        run(corpus[c].bytes, corpus[c].count);
    const unsigned long inputs = fuzz(seconds, seed);
    (void)printf("%zu stored inputs, %lu made from them in %.0f s\n", corpus_count, inputs, seconds);
    for (size_t c = 0; c < corpus_count; c++)
        free(corpus[c].bytes);
    return 0;
}
