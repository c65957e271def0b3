/* SPDX-License-Identifier: Apache-2.0 */
#include "muster/cleanup.h"
#include "muster/clock.h"
#include "nodes.h"
#include "test.h"

#define C1 "1111111111111111111111111111111111111111111111111111111111111111"
#define C2 "2222222222222222222222222222222222222222222222222222222222222222"

static const char first[] =
    "machine_cpu_cores 2\n"
    "machine_memory_bytes 1000\n"
    "container_cpu_usage_seconds_total{cpu=\"total\",id=\"/\"} 100\n"
    "container_cpu_usage_seconds_total{container_label_com_docker_stack_namespace=\"st\","
    "container_label_com_docker_swarm_service_name=\"st_web\",id=\"/docker/" C2 "\",name=\"st_web.1.x\"} 10\n"
    "container_cpu_usage_seconds_total{id=\"/docker/" C1 "\",name=\"alone\"} 1\n"
    "container_memory_working_set_bytes{id=\"/docker/" C1 "\"} 100\n"
    "container_memory_working_set_bytes{id=\"/docker/" C2 "\"} 200\n"
    "container_spec_memory_limit_bytes{id=\"/docker/" C1 "\"} 0\n"
    "container_spec_memory_limit_bytes{id=\"/docker/" C2 "\"} 400\n"
    "container_network_receive_bytes_total{id=\"/docker/" C1 "\",interface=\"eth0\"} 5\n"
    "container_network_receive_bytes_total{id=\"/docker/" C1 "\",interface=\"eth1\"} 6\n"
    "container_threads{id=\"/docker/" C1 "\"} 3\n"
    "container_cpu_usage_seconds_total{id=\"/user.slice\"} 9\n";
static const char second[] =
    "container_cpu_usage_seconds_total{id=\"/docker/" C1 "\",name=\"alone\"} 2\n"
    "container_cpu_usage_seconds_total{container_label_com_docker_stack_namespace=\"st\","
    "container_label_com_docker_swarm_service_name=\"st_web\",id=\"/docker/" C2 "\",name=\"st_web.1.x\"} 9\n";

static void a_page_is_containers_and_the_machine(void **state)
{
    mst_cleanup(nodes_page_release) struct nodes_page page = {.count = 0};
    const struct nodes_container *one;

    (void)state;
    assert_int_equal(nodes_page_read(first, &page, NULL), 0);
    assert_int_equal(page.count, 3); /* what is no container is left out */
    assert_true(page.cpus > 1.9 && page.cpus < 2.1 && page.memory > 999 && page.memory < 1001);
    assert_string_equal(page.items[0].id, "");
    one = nodes_page_find(&page, C1);
    assert_non_null(one);
    assert_string_equal(one->name, "alone");
    assert_true(one->has_net && one->rx > 10.9 && one->rx < 11.1); /* over both interfaces */
    assert_false(one->has_block);
    one = nodes_page_find(&page, C2);
    assert_string_equal(one->service, "st_web");
    assert_string_equal(one->stack, "st");
    assert_null(nodes_page_find(&page, "3"));
}

static void pages_that_make_no_sense_are_refused(void **state)
{
    struct nodes_page page = {.count = 77};
    struct mst_error err = MST_ERROR_INIT;

    (void)state;
    assert_int_equal(nodes_page_read("<html>", &page, &err), -EBADMSG);
    assert_int_equal(page.count, 77);
    assert_non_null(strstr(err.text, "line 1"));
}

static void too_many_containers_are_refused(void **state)
{
    mst_cleanup(mst_buf_release) struct mst_buf text = MST_BUF_INIT((size_t)8 << 20);
    struct nodes_page page = {.count = 77};

    (void)state;
    for (size_t i = 0; i <= NODES_CONTAINERS_MAX; i++)
        assert_int_equal(mst_buf_printf(&text, "container_threads{id=\"/docker/%064zx\"} 1\n", i), 0);
    assert_int_equal(nodes_page_read(mst_buf_text(&text), &page, NULL), -E2BIG);
    assert_int_equal(page.count, 77);
}

static void rows_are_the_difference_of_two_pages(void **state)
{
    mst_cleanup(nodes_page_release) struct nodes_page before = {.count = 0}, now = {.count = 0};
    struct stats_row rows[4];

    (void)state;
    assert_int_equal(nodes_page_read(first, &before, NULL), 0);
    assert_int_equal(nodes_page_read(second, &now, NULL), 0);
    assert_int_equal(nodes_rows(&before, NULL, 0, "node1", NULL, rows), 2);
    assert_false(rows[0].has_cpu); /* of one reading there is no rate */
    assert_string_equal(rows[0].node, "node1");
    assert_int_equal(rows[0].limit_bytes, 1000); /* the machine's: it has none */
    assert_int_equal(rows[1].limit_bytes, 400);
    assert_int_equal(rows[0].pids, 3);
    assert_int_equal(nodes_rows(&now, &before, 2 * MST_NS_PER_S, "node1", NULL, rows), 2);
    assert_true(rows[0].has_cpu && rows[0].cpu_percent > 49.9 && rows[0].cpu_percent < 50.1);
    assert_false(rows[1].has_cpu); /* its counter began anew */
    assert_int_equal(nodes_rows(&before, NULL, 0, "node1", "st", rows), 1);
    assert_string_equal(rows[0].name, "st_web.1.x");
}

static void the_table_says_which_node(void **state)
{
    static const struct stats_row rows[] = {
        {.id = C1, .name = "a", .node = "node1", .has_cpu = true, .cpu_percent = 1},
        {.node = "node2", .fault = "no answer in 4000 ms"},
    };
    struct mst_buf text = MST_BUF_INIT(65536);
    struct stats_options options = {.with_nodes = true};

    (void)state;
    assert_int_equal(stats_print(rows, 2, &options, &text, NULL), 0);
    assert_non_null(strstr(text.bytes, "NODE    CONTAINER ID   NAME"));
    assert_non_null(strstr(text.bytes, "node1   111111111111   a "));
    assert_non_null(strstr(text.bytes, "node2   --             unreachable: no answer in 4000 ms   --"));
    mst_buf_clear(&text);
    options.format = "json";
    assert_int_equal(stats_print(rows, 2, &options, &text, NULL), 0);
    assert_non_null(strstr(text.bytes, "\"Node\":\"node1\",\"Error\":\"\"}"));
    assert_non_null(strstr(text.bytes, "\"Node\":\"node2\",\"Error\":\"no answer in 4000 ms\"}"));
    mst_buf_clear(&text);
    options.format = "{{.Node}} {{.Error}}";
    assert_int_equal(stats_print(rows, 2, &options, &text, NULL), 0);
    assert_string_equal(text.bytes, "node1 \nnode2 no answer in 4000 ms\n");
    /* Of this node alone there is no such thing. */
    options.with_nodes = false;
    assert_int_equal(stats_check(&options, NULL), -EINVAL);
    mst_buf_release(&text);
}

static void services_are_summed_over_the_nodes(void **state)
{
    struct stats_row rows[] = {
        {.id = C1,
         .name = "st_web.1.x",
         .service = "st_web",
         .node = "node1",
         .containers = 1,
         .pids = 1,
         .has_pids = true},
        {.id = C2,
         .name = "st_web.2.y",
         .service = "st_web",
         .node = "node1",
         .containers = 1,
         .pids = 2,
         .has_pids = true},
        {.id = C2,
         .name = "st_web.3.z",
         .service = "st_web",
         .node = "node2",
         .containers = 1,
         .pids = 4,
         .has_pids = true},
        {.id = C2, .name = "alone", .node = "node2", .containers = 1},
        {.node = "node3", .fault = "no answer"},
    };
    const struct stats_options options = {.by_service = true, .with_nodes = true};
    struct mst_buf text = MST_BUF_INIT(65536);
    size_t count = 5;

    (void)state;
    stats_arrange(rows, &count, &options);
    assert_int_equal(count, 3);
    assert_string_equal(rows[0].name, "st_web");
    assert_int_equal(rows[0].pids, 7);
    assert_int_equal(rows[0].nodes, 2);
    assert_string_equal(rows[1].name, "alone");
    assert_string_equal(rows[2].fault, "no answer");
    assert_int_equal(stats_print(rows, count, &options, &text, NULL), 0);
    assert_non_null(strstr(text.bytes, "2 nodes   --"));
    mst_buf_release(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_page_is_containers_and_the_machine),
        cmocka_unit_test(pages_that_make_no_sense_are_refused),
        cmocka_unit_test(too_many_containers_are_refused),
        cmocka_unit_test(rows_are_the_difference_of_two_pages),
        cmocka_unit_test(the_table_says_which_node),
        cmocka_unit_test(services_are_summed_over_the_nodes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
