/* SPDX-License-Identifier: Apache-2.0 */
#include "exchange/frame.h"
#include "helpers.h"

#define MAX_BYTES 1000

static const struct exchange_frame expected = {
    .job_key = 0x1122334455667788, .step = 41, .view = 3, .bytes = 400, .phase = 2, .segment = 5};

static void writes_the_documented_bytes(void **state)
{
    (void)state;
    static const uint8_t bytes[EXCHANGE_FRAME_BYTES] = {
        'M', 'S', 'T', 'F', 3, 0, 0, 0, 0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11,
        41,  0,   0,   0,   0, 0, 0, 0, 2,    0,    5,    0,    0x90, 1,    0,    0};
    uint8_t wire[EXCHANGE_FRAME_BYTES];
    struct exchange_frame frame;

    exchange_frame_write(&expected, wire);
    assert_memory_equal(wire, bytes, sizeof wire);
    assert_int_equal(exchange_frame_read(wire, &expected, MAX_BYTES, &frame, NULL), 0);
    assert_int_equal(frame.bytes, 400);
}

static void judges_frames_that_are_not_the_expected_one(void **state)
{
    (void)state;
    static const struct {
        size_t offset;
        uint8_t value;
        int code;
        const char *says;
    } cases[] = {
        {0, 'X', -EPROTO, "not a frame"},
        {8, 0, -EPROTO, "another job"},
        {4, 4, -ESTALE, "is in view 4, this one in 3"},
        {4, 2, 1, ""},
        {16, 40, -EPROTO, "sent step 40"},
        {24, 3, -EPROTO, "phase 3"},
        {26, 6, -EPROTO, "segment 6"},
        {28, 0, -EPROTO, "256 bytes; expected"},
        {29, 4, -EPROTO, "a frame of 1168 bytes, the limit is 1000"},
        {31, 255, -EPROTO, "the limit is 1000"},
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct mst_error err = MST_ERROR_INIT;
        struct exchange_frame frame = {.bytes = 7};
        uint8_t wire[EXCHANGE_FRAME_BYTES];
        exchange_frame_write(&expected, wire);
        wire[cases[i].offset] = cases[i].value;
        assert_int_equal(exchange_frame_read(wire, &expected, MAX_BYTES, &frame, &err), cases[i].code);
        assert_non_null(strstr(err.text, cases[i].says));
        assert_int_equal(frame.bytes, cases[i].code < 0 ? 7 : 400);
    }
}

static void an_older_views_frame_is_dropped_whatever_it_holds_but_not_beyond_the_limit(void **state)
{
    (void)state;
    struct exchange_frame old = expected, frame;
    uint8_t wire[EXCHANGE_FRAME_BYTES];

    old.view = 1;
    old.step = 9999;
    old.bytes = MAX_BYTES;
    exchange_frame_write(&old, wire);
    assert_int_equal(exchange_frame_read(wire, &expected, MAX_BYTES, &frame, NULL), 1);
    assert_int_equal(frame.bytes, MAX_BYTES);
    old.bytes = MAX_BYTES + 1;
    exchange_frame_write(&old, wire);
    assert_int_equal(exchange_frame_read(wire, &expected, MAX_BYTES, &frame, NULL), -EPROTO);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(writes_the_documented_bytes),
        cmocka_unit_test(judges_frames_that_are_not_the_expected_one),
        cmocka_unit_test(an_older_views_frame_is_dropped_whatever_it_holds_but_not_beyond_the_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
