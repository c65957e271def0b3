/* SPDX-License-Identifier: Apache-2.0 */
#include "anchors.h"
#include "test.h"

#define ANCHORS 50000U
/* A red-black tree of 50,000 is at most 2 * log2(50,001) high: 31.2. Looking at each would be 25,000 in the
 * mean. */
#define HEIGHT_MAX 32U

static void the_newest_of_a_name_is_found(void **state)
{
    (void)state;
    struct compose_arena *arena = compose_arena_new();
    struct anchors anchors = {.arena = arena};
    struct node first = {0}, second = {0};
    assert_null(anchors_find(&anchors, "a"));
    assert_ptr_equal(anchors_add(&anchors, "a", &first)->node, &first);
    assert_non_null(anchors_add(&anchors, "b", &second));
    assert_ptr_equal(anchors_find(&anchors, "a")->node, &first);
    assert_false(anchors_find(&anchors, "a")->is_whole);
    assert_non_null(anchors_add(&anchors, "a", &second));
    assert_ptr_equal(anchors_find(&anchors, "a")->node, &second);
    assert_null(anchors_find(&anchors, "A"));
    anchors_release(&anchors);
    assert_null(anchors_find(&anchors, "a"));
    compose_arena_free(arena);
}

/* Names in an order that would make an unbalanced tree, or a list, do the most. */
static size_t name_of(unsigned order, size_t i)
{
    return order == 0 ? i : order == 1 ? ANCHORS - 1 - i : i % 2 ? ANCHORS - 1 - i / 2 : i / 2;
}

static void many_anchors_take_few_comparisons_each(void **state)
{
    (void)state;
    for (unsigned order = 0; order < 3; order++) {
        struct compose_arena *arena = compose_arena_new();
        struct anchors anchors = {.arena = arena};
        struct node node = {0};
        char name[16];
        for (size_t i = 0; i < ANCHORS; i++) {
            (void)snprintf(name, sizeof name, "n%06zu", name_of(order, i));
            assert_non_null(anchors_add(&anchors, name, &node));
        }
        for (size_t i = 0; i < ANCHORS; i++) {
            (void)snprintf(name, sizeof name, "n%06zu", i);
            assert_non_null(anchors_find(&anchors, name));
        }
        assert_true(anchors.comparisons > 2 * ANCHORS);
        assert_true(anchors.comparisons <= (size_t)2 * ANCHORS * HEIGHT_MAX);
        anchors_release(&anchors);
        compose_arena_free(arena);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_newest_of_a_name_is_found),
        cmocka_unit_test(many_anchors_take_few_comparisons_each),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
