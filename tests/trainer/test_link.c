/* SPDX-License-Identifier: Apache-2.0 */
#include "exchange/link.h"
#include "helpers.h"
#include "muster/clock.h"
#include "muster/net.h"

#include <sys/socket.h>

#define FLOATS 50000

static const struct exchange_frame own = {.job_key = 77, .view = 3, .step = 9};

/* Both ends of a connection: frames go from `out` to `in`. */
struct pair {
    struct exchange_link out, in;
    uint64_t sent, received;
    struct mst_error err;
};

static void set_up(struct pair *pair)
{
    int fds[2];

    *pair = (struct pair){0};
    assert_int_equal(mst_socket_pair(fds, NULL), 0);
    pair->out = (struct exchange_link){.fd = fds[0], .peer = 1, .readable = true, .writable = true};
    pair->in = (struct exchange_link){.fd = fds[1], .peer = 6, .readable = true, .writable = true};
}

static void tear_down(struct pair *pair)
{
    (void)close(pair->out.fd);
    (void)close(pair->in.fd);
}

static struct exchange_frame frame_of(uint32_t view, size_t floats)
{
    struct exchange_frame frame = own;

    frame.view = view;
    frame.bytes = (uint32_t)(floats * sizeof(float));
    return frame;
}

/* Send the loaded frame and receive until one is whole, `to` its place: frames of older views are not told.
 */
static int pass_on(struct pair *pair, float *to)
{
    for (;;) {
        if (pair->out.out.busy && exchange_link_send(&pair->out, &pair->sent, &pair->err) < 0)
            return pair->err.code;
        const int r = exchange_link_receive(&pair->in, &own, &pair->received, &pair->err);
        if (r == EXCHANGE_LINK_FRAME)
            pair->in.in.payload = to;
        if (r < 0 || r == EXCHANGE_LINK_WHOLE || (r == EXCHANGE_LINK_BLOCKED && !pair->out.out.busy))
            return r;
        pair->out.writable = pair->in.readable = true; /* as poll(2) would say */
    }
}

static void a_frame_larger_than_the_sockets_buffer_goes_through_in_pieces(void **state)
{
    (void)state;
    static float values[FLOATS], got[FLOATS + 1];
    const struct exchange_frame frame = frame_of(3, FLOATS);
    struct pair pair;
    const int small = 4096;

    set_up(&pair);
    assert_int_equal(setsockopt(pair.out.fd, SOL_SOCKET, SO_SNDBUF, &small, sizeof small), 0);
    for (int i = 0; i < FLOATS; i++)
        values[i] = (float)i;
    exchange_link_load(&pair.out, &frame, values);
    /* Until the socket is full: then it says so, and remembers. */
    while (pair.out.writable)
        assert_true(exchange_link_send(&pair.out, &pair.sent, NULL) >= 0);
    assert_true(pair.out.out.busy);
    assert_int_equal(pass_on(&pair, got), EXCHANGE_LINK_WHOLE);
    assert_false(pair.out.out.busy);
    assert_memory_equal(values, got, sizeof values);
    assert_true(got[FLOATS] == 0);
    assert_int_equal(pair.sent, EXCHANGE_FRAME_BYTES + sizeof values);
    assert_int_equal(pair.received, pair.sent);
    assert_int_equal(pass_on(&pair, got), EXCHANGE_LINK_BLOCKED);
    assert_false(pair.in.readable);
    tear_down(&pair);
}

static void what_comes_byte_by_byte_is_put_together_and_older_views_are_dropped(void **state)
{
    (void)state;
    static const struct {
        uint32_t view;
        size_t floats;
    } frames[] = {{2, 5000}, {3, 3}, {1, 0}, {2, 1}, {3, 1}};
    float values[5000], got[5000];
    struct pair pair;
    int whole = 0;

    set_up(&pair);
    for (size_t f = 0; f < sizeof frames / sizeof frames[0]; f++) {
        const struct exchange_frame frame = frame_of(frames[f].view, frames[f].floats);
        uint8_t bytes[EXCHANGE_FRAME_BYTES + sizeof values];
        for (int i = 0; i < 5000; i++)
            values[i] = (float)(f * 10000) + (float)i;
        exchange_frame_write(&frame, bytes);
        memcpy(bytes + EXCHANGE_FRAME_BYTES, values, frame.bytes);
        for (size_t i = 0; i < EXCHANGE_FRAME_BYTES + frame.bytes; i++) {
            assert_int_equal(send(pair.out.fd, bytes + i, 1, 0), 1);
            const int r = pass_on(&pair, got);
            assert_true(r >= 0);
            whole += r == EXCHANGE_LINK_WHOLE;
        }
        if (frames[f].view == 3)
            assert_memory_equal(values, got, frame.bytes);
    }
    assert_int_equal(whole, 2);
    tear_down(&pair);
}

static void errors_name_the_other_side(void **state)
{
    (void)state;
    const struct exchange_frame newer = frame_of(4, 1), good = frame_of(3, 1);
    const float value = 1;
    float got[1];
    struct pair pair;

    set_up(&pair);
    exchange_link_load(&pair.out, &newer, &value);
    assert_int_equal(pass_on(&pair, got), -ESTALE);
    assert_non_null(strstr(pair.err.text, "rank 6: it is in view 4"));
    tear_down(&pair);

    set_up(&pair);
    assert_int_equal(shutdown(pair.out.fd, SHUT_WR), 0);
    assert_int_equal(pass_on(&pair, got), -EPIPE);
    assert_string_equal(pair.err.text, "receive from rank 6: it closed the connection");
    assert_int_equal(shutdown(pair.in.fd, SHUT_RD), 0);
    exchange_link_load(&pair.out, &good, &value);
    assert_int_equal(exchange_link_send(&pair.out, &pair.sent, &pair.err), -EPIPE);
    assert_string_equal(pair.err.text, "send to rank 1: it closed the connection");
    tear_down(&pair);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_frame_larger_than_the_sockets_buffer_goes_through_in_pieces),
        cmocka_unit_test(what_comes_byte_by_byte_is_put_together_and_older_views_are_dropped),
        cmocka_unit_test(errors_name_the_other_side),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
