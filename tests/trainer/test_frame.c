/* SPDX-License-Identifier: Apache-2.0 */
#include "exchange/frame.h"
#include "helpers.h"

static const struct exchange_frame expected = {
    .job_key = 0x1122334455667788, .step = 41, .view = 3, .bytes = 400, .phase = 2, .segment = 5};

/* As the exchanges do: read, then compare. 1: to be dropped. */
static int judge(const uint8_t *wire, struct exchange_frame *ret_frame, struct mst_error *err)
{
    const int r = exchange_frame_read(wire, &expected, ret_frame, err);
    return r == 0 ? exchange_frame_match(ret_frame, &expected, err) : r;
}

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
    assert_int_equal(judge(wire, &frame, NULL), 0);
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
        {4, 4, -ESTALE, "is in view 4, this worker in 3"},
        {4, 2, 1, ""},
        {16, 40, -EPROTO, "sent step 40"},
        {23, 0x40, -EPROTO,
         "sent evaluation after step 41, phase 2, segment 5, 400 bytes; expected step 41,"},
        {23, 0x80, -EPROTO, "sent comparison after step 41"},
        {23, 0xc0, -EPROTO, "sent state after step 41"},
        {24, 3, -EPROTO, "phase 3"},
        {26, 6, -EPROTO, "segment 6"},
        {28, 0, -EPROTO, "256 bytes; expected"},
        {30, 4, -EPROTO, "a frame of 262544 bytes, the limit is 262144"},
        {31, 255, -EPROTO, "the limit is 262144"},
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct mst_error err = MST_ERROR_INIT;
        struct exchange_frame frame;
        uint8_t wire[EXCHANGE_FRAME_BYTES];
        exchange_frame_write(&expected, wire);
        wire[cases[i].offset] = cases[i].value;
        assert_int_equal(judge(wire, &frame, &err), cases[i].code);
        if (!strstr(err.text, cases[i].says))
            fail_msg("'%s' has no '%s'", err.text, cases[i].says);
    }
}

static void an_older_views_frame_is_dropped_whatever_it_holds_but_not_beyond_the_limit(void **state)
{
    (void)state;
    struct exchange_frame old = {.job_key = expected.job_key, .view = 2, .step = 900}, frame;
    uint8_t wire[EXCHANGE_FRAME_BYTES];

    old.phase = 7;
    old.segment = 9;
    old.bytes = EXCHANGE_PAYLOAD_MAX;
    exchange_frame_write(&old, wire);
    assert_int_equal(judge(wire, &frame, NULL), 1);
    assert_int_equal(frame.bytes, EXCHANGE_PAYLOAD_MAX);
    old.bytes = EXCHANGE_PAYLOAD_MAX + 1;
    exchange_frame_write(&old, wire);
    assert_int_equal(judge(wire, &frame, NULL), -EPROTO);
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
