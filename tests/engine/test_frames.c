/* SPDX-License-Identifier: Apache-2.0 */
#include "../common/test.h"
#include "muster/engine.h"

struct seen {
    char text[4096]; /* "1:hello|2:bad|" */
    size_t frames;
    int stop_with;
};

static int take(void *context, unsigned stream, const char *bytes, size_t count, struct mst_error *err)
{
    struct seen *seen = context;
    const size_t used = strlen(seen->text);

    assert_int_equal(bytes[count], '\0');
    (void)snprintf(seen->text + used, sizeof seen->text - used, "%u:%.*s|", stream, (int)count, bytes);
    seen->frames++;
    return seen->stop_with < 0 ? mst_error_set(err, seen->stop_with, "enough") : 0;
}

static const unsigned char two_frames[] =
    "\x01\0\0\0\0\0\0\x05hello\x02\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\x03you";
#define TWO_FRAMES_BYTES (sizeof two_frames - 1)

static void frames_come_whole_however_they_are_cut(void **state)
{
    (void)state;
    for (size_t first = 0; first <= TWO_FRAMES_BYTES; first++) {
        for (size_t second = first; second <= TWO_FRAMES_BYTES; second++) {
            mst_cleanup(engine_frames_release) struct engine_frames frames = ENGINE_FRAMES_INIT;
            struct seen seen = {0};
            assert_int_equal(engine_frames_feed(&frames, two_frames, first, take, &seen, NULL), 0);
            assert_int_equal(
                engine_frames_feed(&frames, two_frames + first, second - first, take, &seen, NULL), 0);
            assert_int_equal(engine_frames_feed(&frames, two_frames + second, TWO_FRAMES_BYTES - second, take,
                                                &seen, NULL),
                             0);
            assert_string_equal(seen.text, "1:hello|2:|1:you|");
            assert_int_equal(frames.header_count, 0);
        }
    }
}

static void hostile_headers_are_refused(void **state)
{
    static const struct {
        unsigned char header[8];
        int code;
    } cases[] = {
        {{4, 0, 0, 0, 0, 0, 0, 1}, -EPROTO}, /* no such stream */
        {{1, 1, 0, 0, 0, 0, 0, 1}, -EPROTO},
        {{1, 0, 0, 9, 0, 0, 0, 1}, -EPROTO},
        {{'H', 'T', 'T', 'P', '/', '1', '.', '1'}, -EPROTO},
        {{1, 0, 0, 0, 0xff, 0xff, 0xff, 0xff}, -EFBIG},
        {{1, 0, 0, 0, 0x00, 0x10, 0x00, 0x01}, -EFBIG},
    };

    (void)state;
    for (size_t i = 0; i < MST_ARRAY_COUNT(cases); i++) {
        mst_cleanup(engine_frames_release) struct engine_frames frames = ENGINE_FRAMES_INIT;
        struct seen seen = {0};
        struct mst_error err = MST_ERROR_INIT;
        assert_int_equal(engine_frames_feed(&frames, cases[i].header, 8, take, &seen, &err), cases[i].code);
        assert_true(err.text[0] != '\0');
        assert_int_equal(seen.frames, 0);
    }
}

static void the_largest_frame_is_taken(void **state)
{
    static const unsigned char header[8] = {1, 0, 0, 0, 0x00, 0x10, 0x00, 0x00};
    mst_cleanup(engine_frames_release) struct engine_frames frames = ENGINE_FRAMES_INIT;
    mst_cleanup(mst_freep) char *bytes = calloc(1, ENGINE_FRAME_MAX_BYTES);
    struct seen seen = {0};

    (void)state;
    assert_non_null(bytes);
    assert_int_equal(engine_frames_feed(&frames, header, 8, take, &seen, NULL), 0);
    assert_int_equal(frames.header_count, 8);
    assert_int_equal(engine_frames_feed(&frames, bytes, ENGINE_FRAME_MAX_BYTES, take, &seen, NULL), 0);
    assert_int_equal(seen.frames, 1);
}

static void a_refusal_of_the_taker_is_passed_on(void **state)
{
    mst_cleanup(engine_frames_release) struct engine_frames frames = ENGINE_FRAMES_INIT;
    struct seen seen = {.stop_with = -ENOSPC};

    (void)state;
    assert_int_equal(engine_frames_feed(&frames, two_frames, TWO_FRAMES_BYTES, take, &seen, NULL), -ENOSPC);
    assert_int_equal(seen.frames, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(frames_come_whole_however_they_are_cut),
        cmocka_unit_test(hostile_headers_are_refused),
        cmocka_unit_test(the_largest_frame_is_taken),
        cmocka_unit_test(a_refusal_of_the_taker_is_passed_on),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
