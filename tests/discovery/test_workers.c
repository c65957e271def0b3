/* SPDX-License-Identifier: Apache-2.0 */
#include "hello_fixture.h"
#include "muster/cleanup.h"
#include "muster/discovery.h"

static struct discovery_identity worker_at(uint32_t ipv4, uint8_t id)
{
    struct discovery_identity identity = make_self("w.1", id, 7).identity;
    identity.ipv4 = ipv4;
    return identity;
}

static void the_order_is_that_of_whole_addresses_however_they_come(void **state)
{
    (void)state;
    /* By last octet this would be another order, and by subtraction too. */
    static const uint32_t sorted[] = {0x01020304, 0x0a000002, 0x0a000102, 0x0a010001, 0xc0a80001, 0xc0a80101};
    static const size_t orders[][6] = {{0, 1, 2, 3, 4, 5}, {5, 4, 3, 2, 1, 0}, {3, 0, 5, 1, 4, 2}};
    for (size_t o = 0; o < MST_ARRAY_COUNT(orders); o++) {
        mst_cleanup(discovery_workers_release) struct discovery_workers workers = {0};
        for (size_t i = 0; i < 6; i++) {
            const struct discovery_identity worker =
                worker_at(sorted[orders[o][i]], (uint8_t)(40 - orders[o][i]));
            assert_int_equal(discovery_workers_add(&workers, &worker, NULL), 1);
        }
        for (size_t i = 0; i < 6; i++)
            assert_int_equal(workers.items[i].ipv4, sorted[i]);
    }
}

static void a_worker_met_twice_is_listed_once_with_its_latest_words(void **state)
{
    (void)state;
    mst_cleanup(discovery_workers_release) struct discovery_workers workers = {0};
    struct discovery_identity a = worker_at(10, 1), b = worker_at(20, 2);
    assert_int_equal(discovery_workers_add(&workers, &a, NULL), 1);
    assert_int_equal(discovery_workers_add(&workers, &b, NULL), 1);
    a.ipv4 = 30;
    a.step = 99;
    assert_int_equal(discovery_workers_add(&workers, &a, NULL), 0);
    assert_int_equal(discovery_workers_add(&workers, &workers.items[0], NULL), 0); /* the list's own memory */
    assert_int_equal(workers.count, 2);
    assert_int_equal(workers.items[1].ipv4, 30);
    assert_int_equal(discovery_workers_find(&workers, a.incarnation)->step, 99);
}

static void two_workers_on_one_address_are_two(void **state)
{
    (void)state;
    mst_cleanup(discovery_workers_release) struct discovery_workers workers = {0};
    struct discovery_identity a = worker_at(10, 2), b = worker_at(10, 1), c = worker_at(10, 3);
    c.port = 7069;
    (void)discovery_workers_add(&workers, &a, NULL);
    (void)discovery_workers_add(&workers, &b, NULL);
    (void)discovery_workers_add(&workers, &c, NULL);
    assert_int_equal(workers.count, 3);
    assert_int_equal(workers.items[0].port, 7069);
    assert_int_equal(workers.items[1].incarnation[0], 1);
    assert_true(discovery_workers_remove(&workers, c.incarnation));
    assert_false(discovery_workers_remove(&workers, c.incarnation));
    assert_null(discovery_workers_find(&workers, c.incarnation));
    assert_int_equal(workers.count, 2);
}

static void the_list_has_an_end(void **state)
{
    (void)state;
    mst_cleanup(discovery_workers_release) struct discovery_workers workers = {0};
    struct discovery_identity worker = worker_at(0, 0);
    for (uint32_t i = 0; i < DISCOVERY_WORKERS_MAX; i++) {
        worker.ipv4 = i + 1;
        memcpy(worker.incarnation, &i, sizeof i);
        assert_int_equal(discovery_workers_add(&workers, &worker, NULL), 1);
    }
    memset(worker.incarnation, 0xff, sizeof worker.incarnation);
    assert_int_equal(discovery_workers_add(&workers, &worker, NULL), -ENOBUFS);
    assert_int_equal(workers.count, DISCOVERY_WORKERS_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_order_is_that_of_whole_addresses_however_they_come),
        cmocka_unit_test(a_worker_met_twice_is_listed_once_with_its_latest_words),
        cmocka_unit_test(two_workers_on_one_address_are_two),
        cmocka_unit_test(the_list_has_an_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
