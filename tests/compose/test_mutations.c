/* SPDX-License-Identifier: Apache-2.0 */
/* The fuzzer's entry over good stack files with random faults in them: what a fuzzer finds in its first
 * minute. */
#include "muster/file.h"
#include "test.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);

#define ROUNDS 400U

struct text {
    char bytes[32768];
    size_t count;
};

static size_t next_random(uint64_t *random, size_t below)
{
    *random = *random * 6364136223846793005ULL + 1442695040888963407ULL;
    return below ? (size_t)(*random >> 33) % below : 0;
}

static void insert(struct text *text, size_t at, const char *bytes, size_t count)
{
    if (text->count + count > sizeof text->bytes)
        return;
    memmove(text->bytes + at + count, text->bytes + at, text->count - at);
    memcpy(text->bytes + at, bytes, count);
    text->count += count;
}

static void mutate(struct text *text, uint64_t *random)
{
    static const char *const tokens[] = {"$",
                                         "${A:-",
                                         "}",
                                         "&a ",
                                         "*a",
                                         "<<: ",
                                         "\n  ",
                                         ": ",
                                         "- ",
                                         "[",
                                         "{",
                                         "'",
                                         "\"",
                                         "null",
                                         "~",
                                         "-1",
                                         "99999999999999999999",
                                         "0x",
                                         ".nan",
                                         "true",
                                         "\t",
                                         "\xff",
                                         "!!str ",
                                         "---\n",
                                         "{}",
                                         "[]",
                                         "\\x00"};
    const size_t at = next_random(random, text->count), span = next_random(random, text->count - at) % 40;
    char copy[40];
    switch (next_random(random, 4)) {
    case 0: /* leave a piece out */
        memmove(text->bytes + at, text->bytes + at + span, text->count - at - span);
        text->count -= span;
        break;
    case 1: /* a piece again somewhere else */
        memcpy(copy, text->bytes + at, span);
        insert(text, next_random(random, text->count), copy, span);
        break;
    case 2:
        text->bytes[at] = (char)next_random(random, 256);
        break;
    default: {
        const char *token = tokens[next_random(random, MST_ARRAY_COUNT(tokens))];
        insert(text, at, token, strlen(token));
    }
    }
}

/* Lines that name files are left out: the entry does not look at such texts. */
static void take_seed(const char *file, struct text *text)
{
    mst_cleanup(mst_buf_release) struct mst_buf content = MST_BUF_INIT(sizeof text->bytes / 2);
    assert_int_equal(mst_file_read(file, &content, NULL), 0);
    text->count = 0;
    for (char *line = content.bytes, *next; line && *line; line = next) {
        next = strchr(line, '\n');
        const size_t length = next ? (size_t)(next - line) + 1 : strlen(line);
        next = next ? next + 1 : NULL;
        if (!memmem(line, length, "file", 4))
            insert(text, text->count, line, length);
    }
}

static void no_fault_in_a_file_does_harm(void **state)
{
    (void)state;
    static const char *const seeds[] = {MUSTER_TEST_DATA "/all.yml", MUSTER_TEST_DATA "/all.printed.yml",
                                        MUSTER_TEST_DATA "/base.yml", MUSTER_TEST_DATA "/sub/override.yml",
                                        MUSTER_SOURCE_DIR "/compose/stacks/workload1.yml"};
    uint64_t random = 1;
    for (size_t i = 0; i < MST_ARRAY_COUNT(seeds); i++) {
        static struct text seed, text;
        take_seed(seeds[i], &seed);
        for (unsigned round = 0; round < ROUNDS; round++) {
            text = seed;
            for (size_t faults = 1 + next_random(&random, 3); faults > 0; faults--)
                mutate(&text, &random);
            assert_int_equal(LLVMFuzzerTestOneInput((const uint8_t *)text.bytes, text.count), 0);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_fault_in_a_file_does_harm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
