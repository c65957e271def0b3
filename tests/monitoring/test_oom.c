/* SPDX-License-Identifier: Apache-2.0 */
#include "oom.h"
#include "test.h"

#define S UINT64_C(1000000000)

/* The container in its life that began at second `start`. */
static struct monitor_container life(unsigned start)
{
    struct monitor_container info = {.id = CONTAINER_ID, .started_s = start};
    (void)snprintf(info.started_at, sizeof info.started_at, "at %u", start);
    return info;
}

static void kernel_and_engine_tell_of_the_same_kill(void **state)
{
    struct oom oom = {0};
    const struct monitor_container first = life(10);
    (void)state;
    assert_true(oom_total(&oom, &first, 0) == 0);
    assert_int_equal(oom.count, 0);
    assert_true(oom_total(&oom, &first, 1) == 1);
    oom_event(&oom, CONTAINER_ID, 20 * S);
    assert_true(oom_total(&oom, &first, 1) == 1);
    oom_event(&oom, CONTAINER_ID, 20 * S); /* told again after a reconnect */
    oom_event(&oom, CONTAINER_ID, 21 * S);
    assert_true(oom_total(&oom, &first, 1) == 2); /* the kernel's is read a moment later */
    assert_true(oom_total(&oom, &first, 2) == 2);
    assert_true(oom_total(&oom, &first, 3) == 3); /* several kills may make one event */
    oom_release(&oom);
}

static void what_was_counted_survives_a_restart(void **state)
{
    struct oom oom = {0};
    const struct monitor_container first = life(10), second = life(30), third = life(50);
    (void)state;
    assert_true(oom_total(&oom, &first, 0) == 0);
    oom_event(&oom, CONTAINER_ID, 20 * S); /* the first process: no reading has seen it */
    assert_true(oom_total(&oom, &second, 0) == 1);
    assert_true(oom_total(&oom, &second, 1) == 2);
    oom_event(&oom, CONTAINER_ID, 40 * S);
    assert_true(oom_total(&oom, &third, 0) == 2);
    assert_true(oom_total(&oom, &third, 0) == 2);
    oom_forget(&oom, CONTAINER_ID);
    oom_forget(&oom, OTHER_ID);
    assert_true(oom_total(&oom, &third, 0) == 0);
    oom_release(&oom);
}

static void a_life_that_nobody_read_is_counted_once(void **state)
{
    struct oom oom = {0};
    const struct monitor_container first = life(10), second = life(30);
    (void)state;
    assert_true(oom_total(&oom, &first, 1) == 1);
    oom_event(&oom, CONTAINER_ID, 20 * S);
    oom_event(&oom, CONTAINER_ID, 31 * S);         /* of the second life */
    assert_true(oom_total(&oom, &second, 1) == 2); /* which is read only now */
    oom_release(&oom);
}

static void there_is_an_end_to_what_is_kept(void **state)
{
    struct oom oom = {0};
    struct monitor_container info = life(10);
    (void)state;
    for (unsigned i = 0; i < OOM_MAX + 10; i++) {
        (void)snprintf(info.id, sizeof info.id, "%064x", i);
        assert_true(oom_total(&oom, &info, 2) == 2);
    }
    assert_int_equal(oom.count, OOM_MAX);
    assert_true(oom_total(&oom, &info, 0) == 2);
    oom_release(&oom);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kernel_and_engine_tell_of_the_same_kill),
        cmocka_unit_test(what_was_counted_survives_a_restart),
        cmocka_unit_test(a_life_that_nobody_read_is_counted_once),
        cmocka_unit_test(there_is_an_end_to_what_is_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
