/* SPDX-License-Identifier: Apache-2.0 */
#include "http_guard.h"
#include "muster/clock.h"
#include "test.h"

static void a_token_comes_back_each_interval(void **state)
{
    const struct web_config config = {.rate_interval_ns = MST_NS_PER_S, .rate_burst = 2};
    struct http_guard guard;
    (void)state;
    http_guard_init(&guard);
    assert_true(http_guard_has_room(&guard, &config, 10 * MST_NS_PER_S));
    assert_true(http_guard_has_room(&guard, &config, 10 * MST_NS_PER_S));
    assert_false(http_guard_has_room(&guard, &config, 10 * MST_NS_PER_S + 1));
    assert_true(http_guard_has_room(&guard, &config, 11 * MST_NS_PER_S + 1));
    assert_false(http_guard_has_room(&guard, &config, 11 * MST_NS_PER_S + 2));
    http_guard_release(&guard);
}

/* Two listening threads: who read the clock first need not be first here. */
static void a_time_from_before_brings_no_tokens(void **state)
{
    const struct web_config config = {.rate_interval_ns = MST_NS_PER_S, .rate_burst = 1};
    struct http_guard guard;
    (void)state;
    http_guard_init(&guard);
    assert_true(http_guard_has_room(&guard, &config, 10 * MST_NS_PER_S));
    assert_false(http_guard_has_room(&guard, &config, 10 * MST_NS_PER_S - 1));
    assert_false(http_guard_has_room(&guard, &config, 9 * MST_NS_PER_S));
    /* Nor is the second from 9 to 10 counted twice. */
    assert_false(http_guard_has_room(&guard, &config, 10 * MST_NS_PER_S + MST_NS_PER_S / 2));
    assert_true(http_guard_has_room(&guard, &config, 11 * MST_NS_PER_S + 1));
    http_guard_release(&guard);
}

static void without_a_limit_there_is_always_room(void **state)
{
    const struct web_config config = {.rate_burst = 1};
    struct http_guard guard;
    (void)state;
    http_guard_init(&guard);
    for (int i = 0; i < 100; i++)
        assert_true(http_guard_has_room(&guard, &config, 1));
    http_guard_release(&guard);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_token_comes_back_each_interval),
        cmocka_unit_test(a_time_from_before_brings_no_tokens),
        cmocka_unit_test(without_a_limit_there_is_always_room),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
