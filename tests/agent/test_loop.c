/* SPDX-License-Identifier: Apache-2.0 */
#include "loop.h"
#include "muster/clock.h"
#include "muster/net.h"
#include "test.h"

#include <sys/epoll.h>
#include <sys/socket.h>

struct watch {
    struct loop *loop;
    int fds[2];
    size_t calls;
    uint32_t events;
    struct watch *removes, *replaces; /* others, from the callback */
};

static void called(void *context, uint32_t events)
{
    struct watch *watch = context;
    char byte;
    watch->calls++;
    watch->events = events;
    (void)!read(watch->fds[0], &byte, 1);
    if (watch->removes)
        loop_remove(watch->loop, watch->removes->fds[0]);
    if (watch->replaces) {
        /* The same number for another descriptor, in the middle of a batch. */
        const int number = watch->replaces->fds[0];
        loop_remove(watch->loop, number);
        assert_int_equal(close(number), 0);
        int fds[2];
        assert_int_equal(mst_socket_pair(fds, NULL), 0);
        if (fds[0] != number) {
            assert_int_equal(dup2(fds[0], number), number);
            (void)close(fds[0]);
        }
        (void)close(watch->replaces->fds[1]);
        watch->replaces->fds[1] = fds[1];
        assert_int_equal(loop_add(watch->loop, number, EPOLLIN, called, watch->replaces, NULL), 0);
        watch->replaces = NULL;
    }
}

static struct watch new_watch(struct loop *loop)
{
    struct watch watch = {.loop = loop};
    assert_int_equal(mst_socket_pair(watch.fds, NULL), 0);
    return watch;
}

static void watch_begin(struct watch *watch)
{
    assert_int_equal(loop_add(watch->loop, watch->fds[0], EPOLLIN, called, watch, NULL), 0);
}

static void watch_end(struct watch *watch)
{
    loop_remove(watch->loop, watch->fds[0]);
    mst_closep(&watch->fds[0]);
    mst_closep(&watch->fds[1]);
}

static void poke(const struct watch *watch)
{
    assert_int_equal(write(watch->fds[1], "x", 1), 1);
}

static int turn(struct loop *loop)
{
    return loop_run_once(loop, mst_now_ns() + 20 * MST_NS_PER_MS, NULL);
}

static void descriptors_are_called_until_removed(void **state)
{
    (void)state;
    struct loop *loop = NULL;
    assert_int_equal(loop_new(&loop, NULL), 0);
    struct watch watch = new_watch(loop);
    watch_begin(&watch);
    const uint64_t start_ns = mst_now_ns();
    assert_int_equal(turn(loop), 0); /* nothing comes: the deadline ends it */
    assert_true(mst_ms_since(start_ns) >= 20);
    assert_int_equal(watch.calls, 0);
    for (size_t round = 1; round <= 3; round++) {
        poke(&watch);
        assert_int_equal(turn(loop), 0);
        assert_int_equal(watch.calls, round);
        assert_true(watch.events & EPOLLIN);
    }
    assert_int_equal(loop_change(loop, watch.fds[0], EPOLLOUT, NULL), 0);
    assert_int_equal(turn(loop), 0);
    assert_int_equal(watch.events, EPOLLOUT);
    assert_int_equal(loop_change(loop, watch.fds[0], EPOLLIN, NULL), 0);
    (void)shutdown(watch.fds[1], SHUT_RDWR);
    assert_int_equal(turn(loop), 0);
    assert_true(watch.events & EPOLLHUP);
    const size_t calls = watch.calls;
    loop_remove(loop, watch.fds[0]);
    loop_remove(loop, watch.fds[0]);
    assert_int_equal(turn(loop), 0);
    assert_int_equal(watch.calls, calls);
    watch_end(&watch);
    loop_free(loop);
}

static void a_descriptor_removed_in_the_same_batch_is_not_called(void **state)
{
    (void)state;
    struct loop *loop = NULL;
    assert_int_equal(loop_new(&loop, NULL), 0);
    struct watch a = new_watch(loop), b = new_watch(loop);
    a.removes = &b;
    b.removes = &a; /* whichever comes first */
    watch_begin(&a);
    watch_begin(&b);
    poke(&a);
    poke(&b);
    assert_int_equal(turn(loop), 0);
    assert_int_equal(a.calls + b.calls, 1);
    assert_int_equal(turn(loop), 0);
    assert_int_equal(a.calls + b.calls, 1);
    watch_end(&a);
    watch_end(&b);
    loop_free(loop);
}

static void a_new_descriptor_of_the_same_number_does_not_get_the_old_ones_events(void **state)
{
    (void)state;
    struct loop *loop = NULL;
    assert_int_equal(loop_new(&loop, NULL), 0);
    struct watch a = new_watch(loop), b = new_watch(loop);
    a.replaces = &b;
    watch_begin(&a);
    watch_begin(&b);
    poke(&a);
    poke(&b);
    assert_int_equal(turn(loop), 0);
    if (a.replaces == NULL && b.calls == 1)
        print_message("the other one came first\n");
    else
        assert_int_equal(b.calls, 0);
    const size_t before = b.calls;
    assert_int_equal(turn(loop), 0);
    assert_int_equal(b.calls, before);
    poke(&b);
    assert_int_equal(turn(loop), 0);
    assert_int_equal(b.calls, before + 1);
    watch_end(&a);
    watch_end(&b);
    loop_free(loop);
}

static void what_cannot_be_watched_is_an_error(void **state)
{
    const char *folder = *state;
    struct loop *loop = NULL;
    struct watch watch = {0};
    char path[128];
    assert_int_equal(loop_new(&loop, NULL), 0);
    (void)snprintf(path, sizeof path, "%s/file", folder);
    mst_cleanup(mst_closep) int file = open(path, O_CREAT | O_RDWR | O_CLOEXEC, 0600);
    struct mst_error err = MST_ERROR_INIT;
    assert_int_equal(loop_add(loop, file, EPOLLIN, called, &watch, &err), -EPERM);
    assert_true(strlen(err.text) > 0);
    assert_int_equal(loop_add(loop, 1000, EPOLLIN, called, &watch, NULL), -EBADF);
    loop_remove(loop, 1000);
    loop_remove(loop, -1);
    loop_remove(loop, 1 << 20);
    watch = new_watch(loop);
    watch_begin(&watch);
    assert_int_equal(loop_add(loop, watch.fds[1], EPOLLIN, called, &watch, NULL), 0);
    loop_remove(loop, watch.fds[1]);
    watch_end(&watch);
    loop_free(loop);
    loop_free(NULL);
}

static void a_descriptor_that_rests_is_called_again_after_its_time(void **state)
{
    (void)state;
    struct loop *loop = NULL;
    assert_int_equal(loop_new(&loop, NULL), 0);
    struct watch resting = new_watch(loop), other = new_watch(loop);
    watch_begin(&resting);
    watch_begin(&other);
    poke(&resting);
    poke(&other);
    const uint64_t start_ns = mst_now_ns();
    loop_rest(loop, resting.fds[0], 60 * MST_NS_PER_MS);
    loop_rest(loop, resting.fds[0], 60 * MST_NS_PER_MS); /* twice is as well as once */
    assert_int_equal(turn(loop), 0);
    assert_int_equal(resting.calls, 0);
    assert_int_equal(other.calls, 1);
    for (int turns = 0; resting.calls == 0 && turns < 1000; turns++)
        assert_int_equal(loop_run_once(loop, mst_now_ns() + 5000 * MST_NS_PER_MS, NULL), 0);
    assert_int_equal(resting.calls, 1);
    assert_true(mst_ms_since(start_ns) >= 60 && mst_ms_since(start_ns) < 4000);

    loop_rest(loop, resting.fds[0], 3600 * MST_NS_PER_S);
    poke(&resting);
    assert_int_equal(loop_change(loop, resting.fds[0], EPOLLIN, NULL), 0); /* over at once */
    assert_int_equal(turn(loop), 0);
    assert_int_equal(resting.calls, 2);

    loop_rest(loop, resting.fds[0], MST_NS_PER_MS);
    watch_end(&resting); /* nobody is woken in its place */
    struct watch next = new_watch(loop);
    assert_int_equal(loop_add(loop, next.fds[0], 0, called, &next, NULL), 0);
    poke(&next);
    assert_int_equal(turn(loop), 0);
    assert_int_equal(next.calls, 0);
    watch_end(&next);
    watch_end(&other);
    loop_free(loop);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(descriptors_are_called_until_removed),
        cmocka_unit_test(a_descriptor_removed_in_the_same_batch_is_not_called),
        cmocka_unit_test(a_new_descriptor_of_the_same_number_does_not_get_the_old_ones_events),
        cmocka_unit_test(a_descriptor_that_rests_is_called_again_after_its_time),
        cmocka_unit_test_setup_teardown(what_cannot_be_watched_is_an_error, test_folder_setup,
                                        test_folder_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
