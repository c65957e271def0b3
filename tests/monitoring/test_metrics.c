/* SPDX-License-Identifier: Apache-2.0 */
#include "metrics.h"
#include "metrics_private.h"
#include "muster/cleanup.h"
#include "passes.h"

static struct mst_buf page_of(const struct monitor_pass *pass, const struct metrics_options *options)
{
    struct mst_buf text = MST_BUF_INIT(1 << 22);
    assert_int_equal(metrics_write(pass, options, &text), 0);
    return text;
}

static const struct metrics_options all = {.kinds = METRICS_ALL, .version = "0.1.0"};

static void has(const struct mst_buf *page, const char *line)
{
    if (!strstr(mst_buf_text(page), line))
        fail_msg("the page lacks: %s", line);
}

static void lacks(const struct mst_buf *page, const char *text)
{
    if (strstr(mst_buf_text(page), text))
        fail_msg("the page has: %s", text);
}

static void families_come_once_and_in_the_order_of_their_names(void **state)
{
    static struct made_pass made;
    (void)state;
    make_pass(&made, 3, 1);
    struct mst_buf page = page_of(&made.pass, &all);
    char last[128] = "";
    size_t families = 0;
    for (char *line = page.bytes; *line; line = strchr(line, '\n') + 1) {
        char name[128], type[16];
        if (sscanf(line, "# TYPE %127s %15s", name, type) == 2) {
            assert_true(strcmp(name, last) > 0);
            (void)snprintf(last, sizeof last, "%s", name);
            families++;
        } else if (*line != '#') { /* a sample belongs to the family above it */
            assert_int_equal(strncmp(line, last, strlen(last)), 0);
            assert_true(line[strlen(last)] == '{' || line[strlen(last)] == ' ');
        }
    }
    assert_true(families > 80);
    assert_int_equal(page.bytes[page.count - 1], '\n');
    mst_buf_release(&page);
}

static void labels_are_cadvisors_and_in_order(void **state)
{
    static struct made_pass made;
    (void)state;
    make_pass(&made, 2, 0);
    made.samples[1].cpu_ns = 1500000000;
    struct mst_buf page = page_of(&made.pass, &all);
#define SERVICE "container_label_com_docker_swarm_service_name=\"shop_web\","
#define ID      "id=\"/docker/0000000000000000000000000000000000000000000000000000000000000001\","
#define IMAGE   "image=\"shop/web:1@sha256:1\","
    has(&page,
        "\ncontainer_cpu_usage_seconds_total{" SERVICE "cpu=\"total\"," ID IMAGE "name=\"web.1\"} 1.5\n");
    has(&page, "\ncontainer_network_receive_bytes_total{" SERVICE ID IMAGE
               "interface=\"eth0\",name=\"web.1\"} 4096\n");
    has(&page,
        "\ncontainer_fs_reads_bytes_total{" SERVICE "device=\"/dev/sda\"," ID IMAGE "name=\"web.1\"} 0\n");
    has(&page, "\ncontainer_memory_failures_total{" SERVICE "failure_type=\"pgfault\"," ID IMAGE
               "name=\"web.1\",scope=\"hierarchy\"} ");
    has(&page, "\ncontainer_last_seen{" SERVICE ID IMAGE "name=\"web.1\"} 1.8e+09 1800000000250\n");
    has(&page, "\ncontainer_last_seen{id=\"/\"} 1.8e+09 1800000000250\n");
    has(&page, "\ncontainer_health_state{id=\"/\"} -1\n");
    has(&page, "\nmachine_cpu_cores 2\n");
    has(&page, "kernelVersion=\"6.1.0\",osVersion=\"Debian \\\"12\\\"\"} 1\n");
    has(&page, "\nmuster_members{slot=\"w1.1\"} 3\n");
    has(&page, "\nmuster_containers 1\n");
    lacks(&page, "=\"\"");
    mst_buf_release(&page);
}

static void disks_filesystems_and_tasks_are_the_machines(void **state)
{
    static struct made_pass made;
    (void)state;
    make_pass(&made, 2, 1);
    made.samples[1].groups &= ~(unsigned)(MONITOR_IO_TIMES | MONITOR_FILESYSTEMS | MONITOR_TASKS);
    made.samples[0].tasks_running = 3;
    made.samples[0].load_milli = 2500;
    struct mst_buf page = page_of(&made.pass, &all);
    has(&page, "\ncontainer_fs_limit_bytes{device=\"/dev/sda1\",id=\"/\"} 1e+06\n");
    has(&page, "\ncontainer_fs_usage_bytes{device=\"/dev/sdb1\",id=\"/\"} 1000\n");
    has(&page, "\ncontainer_fs_inodes_total{device=\"/dev/sda1\",id=\"/\"} 100\n");
    has(&page, "\ncontainer_fs_inodes_free{device=\"/dev/sda1\",id=\"/\"} 98\n");
    has(&page, "\ncontainer_fs_read_seconds_total{device=\"/dev/sda\",id=\"/\"} 1.501\n");
    has(&page, "\ncontainer_fs_sector_reads_total{device=\"/dev/sda\",id=\"/\"} 1\n");
    has(&page, "\ncontainer_fs_io_current{device=\"/dev/sda\",id=\"/\"} 1\n");
    has(&page, "\ncontainer_tasks_state{id=\"/\",state=\"running\"} 3\n");
    has(&page, "\ncontainer_cpu_load_average_10s{id=\"/\"} 2500\n");
    has(&page, "\ncontainer_fs_reads_bytes_total{" SERVICE "device=\"/dev/sda\"," ID);
    lacks(&page, "container_fs_usage_bytes{" SERVICE);
    lacks(&page, "container_fs_io_current{" SERVICE);
    lacks(&page, "container_tasks_state{" SERVICE);
    mst_buf_release(&page);
}

static void what_was_not_read_is_not_there(void **state)
{
    static struct made_pass made;
    (void)state;
    make_pass(&made, 2, 0);
    made.samples[0].groups = made.samples[1].groups = MONITOR_CPU;
    struct mst_buf page = page_of(&made.pass, &all);
    has(&page, "container_cpu_usage_seconds_total");
    lacks(&page, "container_memory_");
    lacks(&page, "container_network_");
    lacks(&page, "container_spec_");
    mst_buf_release(&page);
}

static void quota_metrics_are_for_those_with_a_quota(void **state)
{
    static struct made_pass made;
    (void)state;
    make_pass(&made, 2, 0);
    made.samples[0].cpu_quota_us = made.samples[1].cpu_quota_us = 0;
    struct mst_buf page = page_of(&made.pass, &all);
    lacks(&page, "container_cpu_cfs_");
    lacks(&page, "container_spec_cpu_quota");
    has(&page, "container_spec_cpu_period");
    mst_buf_release(&page);
}

static void options_leave_out_and_stamp(void **state)
{
    static struct made_pass made;
    static const char *const names[] = {"container_last_seen", "up", NULL};
    const struct metrics_options few = {
        .kinds = METRICS_SPEC | METRICS_CPU, .version = "1", .without_machine = true, .has_timestamps = true};
    const struct metrics_options named = {.kinds = METRICS_ALL, .version = "1", .names = names};
    (void)state;
    make_pass(&made, 2, 0);
    struct mst_buf page = page_of(&made.pass, &few);
    lacks(&page, "id=\"/\"");
    lacks(&page, "container_memory_rss");
    lacks(&page, "process_");
    has(&page, "container_cpu_user_seconds_total{" SERVICE ID IMAGE "name=\"web.1\"} 0.003 1800000000250\n");
    has(&page,
        "container_start_time_seconds{" SERVICE ID IMAGE "name=\"web.1\"} 1.7e+09\n"); /* never stamped */
    mst_buf_release(&page);
    page = page_of(&made.pass, &named);
    assert_int_equal(strncmp(page.bytes, "# HELP container_last_seen ", 27), 0);
    assert_null(strstr(page.bytes + 1, "# HELP"));
    mst_buf_release(&page);
}

static void hostile_names_do_not_break_lines(void **state)
{
    static struct made_pass made;
    (void)state;
    make_pass(&made, 2, 0);
    (void)snprintf(made.containers[1].image, sizeof made.containers[1].image, "a\"b\\c\nd\xff");
    memcpy(made.interfaces[1][0].name, "et\"h\\0", 7);
    struct mst_buf page = page_of(&made.pass, &all);
    has(&page, "image=\"a\\\"b\\\\c\\nd\xef\xbf\xbd\"");
    has(&page, "interface=\"et\\\"h\\\\0\"");
    mst_buf_release(&page);
}

static void an_empty_pass_says_that_nothing_could_be_read(void **state)
{
    const struct monitor_pass none = {0};
    (void)state;
    struct mst_buf page = page_of(&none, &all);
    has(&page, "\ncontainer_scrape_error 1\n");
    has(&page, "\nmachine_scrape_error 1\n");
    has(&page, "\nmuster_containers 0\n");
    mst_buf_release(&page);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(families_come_once_and_in_the_order_of_their_names),
        cmocka_unit_test(labels_are_cadvisors_and_in_order),
        cmocka_unit_test(disks_filesystems_and_tasks_are_the_machines),
        cmocka_unit_test(what_was_not_read_is_not_there),
        cmocka_unit_test(quota_metrics_are_for_those_with_a_quota),
        cmocka_unit_test(options_leave_out_and_stamp),
        cmocka_unit_test(hostile_names_do_not_break_lines),
        cmocka_unit_test(an_empty_pass_says_that_nothing_could_be_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
