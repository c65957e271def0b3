/* SPDX-License-Identifier: Apache-2.0 */
#include "hello_fixture.h"
#include "muster/cleanup.h"

#include <stdlib.h>

struct ends {
    struct discovery_frames dialer, listener;
};

static struct ends make_ends(uint8_t key)
{
    struct ends ends;
    struct discovery_session session = {.dialer = true};
    memset(session.key, key, sizeof session.key);
    assert_int_equal(discovery_frames_init(&ends.dialer, &session, NULL), 0);
    session.dialer = false;
    assert_int_equal(discovery_frames_init(&ends.listener, &session, NULL), 0);
    return ends;
}

static void ends_release(struct ends *ends)
{
    discovery_frames_release(&ends->dialer);
    discovery_frames_release(&ends->listener);
}

/* Feed all, and take frames out as they become whole; returns how many, or the error. */
static int receive_all(struct discovery_frames *frames, const struct mst_buf *stream, size_t chunk)
{
    int got = 0;
    for (size_t at = 0; at < stream->count;) {
        const size_t left = stream->count - at;
        size_t taken, count;
        uint16_t type;
        const uint8_t *payload;
        assert_int_equal(
            discovery_frames_feed(frames, stream->bytes + at, left < chunk ? left : chunk, &taken, NULL), 0);
        assert_true(taken > 0);
        at += taken;
        int r;
        while ((r = discovery_frames_next(frames, &type, &payload, &count, NULL)) == 1) {
            assert_int_equal(type, 100 + got);
            for (size_t i = 0; i < count; i++)
                assert_int_equal(payload[i], (uint8_t)(i + (size_t)got));
            got++;
        }
        if (r < 0)
            return r;
    }
    return got;
}

/* Three frames: empty, of one byte, of 300; types 100 to 102. */
static void pack_three(struct discovery_frames *frames, struct mst_buf *stream)
{
    static const size_t counts[] = {0, 1, 300};
    uint8_t payload[300];
    for (uint16_t f = 0; f < 3; f++) {
        for (size_t i = 0; i < sizeof payload; i++)
            payload[i] = (uint8_t)(i + f);
        assert_int_equal(discovery_frames_pack(frames, (uint16_t)(100 + f), payload, counts[f], stream, NULL),
                         0);
    }
}

static void frames_arrive_in_order_however_the_stream_is_cut(void **state)
{
    (void)state;
    for (size_t chunk = 1; chunk < 420; chunk++) {
        struct ends ends = make_ends(1);
        mst_cleanup(mst_buf_release) struct mst_buf stream = MST_BUF_INIT(4096);
        pack_three(&ends.dialer, &stream);
        assert_int_equal(stream.count, 301 + 3 * DISCOVERY_FRAME_OVERHEAD_BYTES);
        assert_int_equal(receive_all(&ends.listener, &stream, chunk), 3);
        mst_buf_clear(&stream);
        pack_three(&ends.listener, &stream); /* and back */
        assert_int_equal(receive_all(&ends.dialer, &stream, chunk), 3);
        ends_release(&ends);
    }
}

static void a_byte_altered_anywhere_ends_the_stream_for_good(void **state)
{
    (void)state;
    struct ends ends = make_ends(1);
    mst_cleanup(mst_buf_release) struct mst_buf stream = MST_BUF_INIT(4096);
    pack_three(&ends.dialer, &stream);
    for (size_t at = 0; at < stream.count; at++) {
        struct ends fresh = make_ends(1);
        uint16_t type = 7;
        const uint8_t *payload = NULL;
        size_t count = 7;
        stream.bytes[at] ^= 1;
        const int r = receive_all(&fresh.listener, &stream, 64);
        /* A length that grew by a little is only found when more bytes come; they never do here. */
        if (r >= 0)
            assert_true(r < 3);
        else
            assert_int_equal(r, -EBADMSG);
        stream.bytes[at] ^= 1;
        if (r < 0)
            assert_int_equal(discovery_frames_next(&fresh.listener, &type, &payload, &count, NULL), -EBADMSG);
        assert_true(type == 7 && !payload && count == 7);
        ends_release(&fresh);
    }
    ends_release(&ends);
}

static void repeated_skipped_reflected_and_strange_frames_are_refused(void **state)
{
    (void)state;
    struct ends ends = make_ends(1), other = make_ends(2);
    mst_cleanup(mst_buf_release) struct mst_buf a = MST_BUF_INIT(4096), b = MST_BUF_INIT(4096);
    assert_int_equal(discovery_frames_pack(&ends.dialer, 100, "", 0, &a, NULL), 0);
    const size_t one = a.count;
    assert_int_equal(discovery_frames_pack(&ends.dialer, 101, "", 0, &a, NULL), 0);

    struct ends fresh = make_ends(1); /* repeated */
    assert_int_equal(mst_buf_append(&b, a.bytes, one), 0);
    assert_int_equal(mst_buf_append(&b, a.bytes, one), 0);
    assert_int_equal(receive_all(&fresh.listener, &b, 4096), -EBADMSG);
    ends_release(&fresh);

    fresh = make_ends(1); /* the first one is missing */
    mst_buf_clear(&b);
    assert_int_equal(mst_buf_append(&b, a.bytes + one, a.count - one), 0);
    assert_int_equal(receive_all(&fresh.listener, &b, 4096), -EBADMSG);
    ends_release(&fresh);

    assert_int_equal(receive_all(&ends.dialer, &a, 4096), -EBADMSG);    /* back to its sender */
    assert_int_equal(receive_all(&other.listener, &a, 4096), -EBADMSG); /* on another connection */
    ends_release(&ends);
    ends_release(&other);
}

static void lengths_beyond_the_limit_are_refused_from_the_header_alone(void **state)
{
    (void)state;
    static const uint32_t lengths[] = {DISCOVERY_FRAME_MAX_BYTES + 1, 0x7fffffff, 0x80000000, 0xffffffff};
    for (size_t i = 0; i < MST_ARRAY_COUNT(lengths); i++) {
        struct ends ends = make_ends(1);
        uint8_t header[DISCOVERY_FRAME_HEADER_BYTES] = {(uint8_t)(lengths[i] >> 24),
                                                        (uint8_t)(lengths[i] >> 16),
                                                        (uint8_t)(lengths[i] >> 8), (uint8_t)lengths[i]};
        struct mst_buf stream = {.bytes = (char *)header, .count = sizeof header};
        assert_int_equal(receive_all(&ends.listener, &stream, 4096), -EBADMSG);
        ends_release(&ends);
    }
}

static void the_longest_frame_fits_and_a_longer_one_is_not_packed(void **state)
{
    (void)state;
    struct ends ends = make_ends(1);
    struct mst_error err = MST_ERROR_INIT;
    const size_t longest = DISCOVERY_FRAME_MAX_BYTES;
    mst_cleanup(mst_freep) uint8_t *payload = malloc(longest + 1);
    mst_cleanup(mst_buf_release) struct mst_buf stream = MST_BUF_INIT(2 * longest);
    assert_non_null(payload);
    for (size_t i = 0; i <= longest; i++)
        payload[i] = (uint8_t)i;
    assert_int_equal(discovery_frames_pack(&ends.dialer, 100, payload, longest + 1, &stream, &err),
                     -EMSGSIZE);
    assert_int_equal(stream.count, 0);
    assert_int_equal(discovery_frames_pack(&ends.dialer, 100, payload, longest, &stream, NULL), 0);
    assert_int_equal(receive_all(&ends.listener, &stream, 1000000), 1);
    ends_release(&ends);
}

static void a_full_queue_loses_no_counter(void **state)
{
    (void)state;
    struct ends ends = make_ends(1);
    mst_cleanup(mst_buf_release) struct mst_buf stream = MST_BUF_INIT(50);
    assert_int_equal(discovery_frames_pack(&ends.dialer, 100, "\0\1\2", 3, &stream, NULL), 0);
    assert_int_equal(discovery_frames_pack(&ends.dialer, 101, "\1\2\3", 3, &stream, NULL), -EFBIG);
    assert_int_equal(receive_all(&ends.listener, &stream, 50), 1);
    mst_buf_clear(&stream);
    assert_int_equal(discovery_frames_pack(&ends.dialer, 101, "\1\2\3", 3, &stream, NULL), 0);
    uint16_t type;
    const uint8_t *payload;
    size_t count, taken;
    assert_int_equal(discovery_frames_feed(&ends.listener, stream.bytes, stream.count, &taken, NULL), 0);
    assert_int_equal(discovery_frames_next(&ends.listener, &type, &payload, &count, NULL), 1);
    assert_int_equal(type, 101);
    ends_release(&ends);
}

static void random_bytes_are_never_a_frame(void **state)
{
    (void)state;
    uint64_t random = 9;
    for (int round = 0; round < 2000; round++) {
        struct ends ends = make_ends(1);
        uint8_t bytes[200];
        for (size_t i = 0; i < sizeof bytes; i++) {
            random = random * 6364136223846793005ULL + 1442695040888963407ULL;
            bytes[i] = (uint8_t)(random >> 56);
        }
        if (round % 2)
            memset(bytes, 0, 16); /* a header that is in order, for a frame without payload */
        struct mst_buf stream = {.bytes = (char *)bytes, .count = sizeof bytes};
        assert_int_equal(receive_all(&ends.listener, &stream, 1 + (size_t)round % 199), -EBADMSG);
        ends_release(&ends);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(frames_arrive_in_order_however_the_stream_is_cut),
        cmocka_unit_test(a_byte_altered_anywhere_ends_the_stream_for_good),
        cmocka_unit_test(repeated_skipped_reflected_and_strange_frames_are_refused),
        cmocka_unit_test(lengths_beyond_the_limit_are_refused_from_the_header_alone),
        cmocka_unit_test(the_longest_frame_fits_and_a_longer_one_is_not_packed),
        cmocka_unit_test(a_full_queue_loses_no_counter),
        cmocka_unit_test(random_bytes_are_never_a_frame),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
