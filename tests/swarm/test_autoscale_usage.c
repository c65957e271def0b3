/* SPDX-License-Identifier: Apache-2.0 */
#include "../common/test.h"
#include "autoscale/usage.h"
#include "muster/clock.h"
#include "muster/json.h"

#define S  MST_NS_PER_S
#define C1 "1111111111111111111111111111111111111111111111111111111111111111"
#define C2 "2222222222222222222222222222222222222222222222222222222222222222"

#define SERVICES_OF(labels, limits)                                                                          \
    "[{\"ID\":\"s1\",\"Spec\":{\"Name\":\"st_web\",\"Labels\":{\"muster.autoscale.max\":\"9\"" labels "},"   \
    "\"TaskTemplate\":{\"Resources\":{\"Limits\":{" limits                                                   \
    "}}},\"Mode\":{\"Replicated\":{\"Replicas\":2}}}},"                                                      \
    "{\"ID\":\"s2\",\"Spec\":{\"Name\":\"st_broker\",\"Mode\":{\"Replicated\":{\"Replicas\":1}}}}]"

static const char tasks[] =
    "[{\"ID\":\"t1\",\"ServiceID\":\"s1\",\"Slot\":1,\"DesiredState\":\"running\","
    "\"Status\":{\"State\":\"running\",\"ContainerStatus\":{\"ContainerID\":\"" C1 "\"}}},"
    "{\"ID\":\"t2\",\"ServiceID\":\"s1\",\"Slot\":2,\"DesiredState\":\"running\","
    "\"Status\":{\"State\":\"running\",\"ContainerStatus\":{\"ContainerID\":\"" C2 "\"}}},"
    "{\"ID\":\"t3\",\"ServiceID\":\"s2\",\"Slot\":1,\"DesiredState\":\"running\",\"Status\":{\"State\":"
    "\"running\"}}]";

struct world {
    cJSON *services, *tasks;
    struct autoscale_view view;
    struct autoscale_usage usage;
};

static void world_init(struct world *world, const char *services)
{
    *world = (struct world){.services = cJSON_Parse(services), .tasks = cJSON_Parse(tasks)};
    assert_non_null(world->services);
    assert_int_equal(autoscale_view_make(world->services, world->tasks, "st", &world->view, NULL), 0);
    assert_int_equal(world->view.items[0].code, 0);
}

static void world_release(struct world *world)
{
    autoscale_usage_release(&world->usage);
    autoscale_view_release(&world->view);
    cJSON_Delete(world->services);
    cJSON_Delete(world->tasks);
}

/* A page of one container. */
static void put(struct mst_buf *page, const char *id, double cpu_s, double memory, double seen_s)
{
    assert_int_equal(
        mst_buf_printf(page,
                       "container_cpu_usage_seconds_total{cpu=\"total\",id=\"/docker/%s\"} %g\n"
                       "container_last_seen{id=\"/docker/%s\"} %.0f 1795823218000\n"
                       "container_memory_working_set_bytes{id=\"/system.slice/docker-%s.scope\"} %g\n",
                       id, cpu_s, id, seen_s, id, memory),
        0);
}

/* A round with both containers at `at_s`. */
static void round_at(struct world *world, unsigned at_s, double cpu1, double cpu2, double memory,
                     double seen_s)
{
    mst_cleanup(mst_buf_release) struct mst_buf page = MST_BUF_INIT(65536);

    put(&page, C1, cpu1, memory, seen_s);
    put(&page, C2, cpu2, memory, seen_s);
    assert_int_equal(autoscale_usage_begin(&world->usage, &world->view, NULL), 0);
    assert_int_equal(autoscale_usage_take(&world->usage, mst_buf_text(&page), at_s * S, NULL), 0);
}

static void expect_use(const struct world *world, unsigned now_s, double value)
{
    char missing[200] = "";
    double got = -1;

    if (!autoscale_usage_value(&world->usage, &world->view, &world->view.items[0], now_s * S, &got, missing))
        fail_msg("no value: '%s'", missing);
    if (got < value - 0.01 || got > value + 0.01)
        fail_msg("%g instead of %g", got, value);
}

static void expect_missing(const struct world *world, unsigned now_s, const char *text)
{
    char missing[200] = "";
    double got = -77;

    assert_false(
        autoscale_usage_value(&world->usage, &world->view, &world->view.items[0], now_s * S, &got, missing));
    if (!strstr(missing, text))
        fail_msg("'%s' instead of '%s'", missing, text);
    assert_true(got < -76);
}

static void cpu_is_a_share_of_the_limit(void **state)
{
    struct world world;

    (void)state;
    world_init(&world, SERVICES_OF("", "\"NanoCPUs\":500000000"));
    round_at(&world, 100, 10, 20, 1, 5000);
    expect_missing(&world, 100, "no value for 2 of 2 tasks: st_web.1: it has been read only once");
    round_at(&world, 105, 11, 22, 1, 5005); /* 0.2 and 0.4 cores of 0.5 */
    expect_use(&world, 105, 60);
    round_at(&world, 110, 12, 24, 1, 5010);
    expect_use(&world, 110, 60);
    expect_missing(&world, 141, "too old");
    world_release(&world);
}

static void cores_know_no_limit(void **state)
{
    struct world world;

    (void)state;
    world_init(&world, SERVICES_OF(",\"muster.autoscale.metric\":\"cores\"", "\"NanoCPUs\":500000000"));
    round_at(&world, 100, 10, 20, 1, 5000);
    round_at(&world, 110, 12, 24, 1, 5010);
    expect_use(&world, 110, 30);
    world_release(&world);
}

static void memory_is_a_share_of_the_limit(void **state)
{
    struct world world;

    (void)state;
    world_init(&world, SERVICES_OF(",\"muster.autoscale.metric\":\"memory\"", "\"MemoryBytes\":1000"));
    round_at(&world, 100, 1, 1, 400, 5000);
    expect_use(&world, 100, 40);
    round_at(&world, 105, 1, 1, 800, 5005); /* the mean */
    expect_use(&world, 105, 60);
    world_release(&world);
}

/* 15 s by default. */
static void what_is_long_ago_counts_no_more(void **state)
{
    struct world world;

    (void)state;
    world_init(&world, SERVICES_OF("", ""));
    for (unsigned s = 0; s <= 300; s += 5) { /* idle, then at full speed for 20 s */
        const double cpu = s <= 280 ? 0 : s - 280;
        round_at(&world, 1000 + s, cpu, cpu, 1, 5000 + s);
    }
    expect_use(&world, 1300, 100);
    world_release(&world);
}

static void what_cannot_be_believed_is_left_out(void **state)
{
    struct world world;

    (void)state;
    world_init(&world, SERVICES_OF("", ""));
    round_at(&world, 100, 10, 10, 1, 5000);
    round_at(&world, 105, 11, 11, 1, 5000); /* the same time of day: an old page */
    expect_missing(&world, 105, "read only once");
    round_at(&world, 110, 12, 12, 1, 5010);
    expect_use(&world, 110, 20);
    round_at(&world, 115, 1, 13, 1, 5015); /* one began anew */
    expect_missing(&world, 115, "no value for 1 of 2 tasks: st_web.1");
    round_at(&world, 120, 2, 14, 1, 4000); /* a clock that was set back is still a clock */
    expect_use(&world, 120, 20);
    world_release(&world);
}

static void a_task_that_no_monitor_knows_holds(void **state)
{
    mst_cleanup(mst_buf_release) struct mst_buf page = MST_BUF_INIT(65536);
    struct world world;

    (void)state;
    world_init(&world, SERVICES_OF("", ""));
    round_at(&world, 100, 10, 10, 1, 5000);
    put(&page, C1, 11, 1, 5005);
    assert_int_equal(autoscale_usage_begin(&world.usage, &world.view, NULL), 0);
    assert_int_equal(autoscale_usage_take(&world.usage, mst_buf_text(&page), 105 * S, NULL), 0);
    expect_missing(&world, 105, "no value for 1 of 2 tasks: st_web.2: it has been read only once");
    /* A page that makes no sense counts for nothing. */
    assert_int_equal(autoscale_usage_begin(&world.usage, &world.view, NULL), 0);
    assert_int_equal(mst_buf_append_text(&page, "<html>\n"), 0);
    assert_int_equal(autoscale_usage_take(&world.usage, mst_buf_text(&page), 110 * S, NULL), -EBADMSG);
    expect_missing(&world, 140, "too old");
    world_release(&world);
}

/* Two tasks' gauges; reports < 0: it says nothing. */
static void gauges_at(struct world *world, unsigned at_s, double one, double reports1, double two,
                      double reports2)
{
    mst_cleanup(mst_buf_release) struct mst_buf page = MST_BUF_INIT(65536);
    const double values[] = {one, two}, reports[] = {reports1, reports2};

    for (int i = 0; i < 2; i++) {
        if (reports[i] < 0)
            continue;
        assert_int_equal(
            mst_buf_printf(
                &page,
                "muster_reported_value{container=\"st_web.%d.t%d\",name=\"queue\",service=\"st_web\"} %g\n"
                "muster_reports_total{container=\"st_web.%d.t%d\",name=\"queue\","
                "service=\"st_web\"} %g\n",
                i + 1, i + 1, values[i], i + 1, i + 1, reports[i]),
            0);
    }
    /* Nobody asked for these. */
    assert_int_equal(mst_buf_append_text(
                         &page,
                         "muster_reported_value{container=\"st_web.1.t1\",name=\"x\",service=\"st_web\"} 9\n"
                         "muster_reported_value{container=\"st_web.9.gone\",name=\"queue\","
                         "service=\"st_web\"} 9\n"),
                     0);
    assert_int_equal(autoscale_usage_begin(&world->usage, &world->view, NULL), 0);
    assert_int_equal(autoscale_usage_take(&world->usage, mst_buf_text(&page), at_s * S, NULL), 0);
    assert_true(world->usage.gauge_count <= 2);
}

#define QUEUE ",\"muster.autoscale.metric\":\"gauge:queue\",\"muster.autoscale.target\":\"5\""

static void gauges_are_summed_over_the_tasks(void **state)
{
    struct world world;

    (void)state;
    world_init(&world, SERVICES_OF(QUEUE, ""));
    gauges_at(&world, 100, 3, 1, 0, -1);
    expect_missing(&world, 100, "gauge 'queue': 1 of 2 tasks of service 'st_web' have reported it");
    gauges_at(&world, 105, 3, 2, 4, 1);
    expect_use(&world, 105, 7);
    for (unsigned s = 110; s <= 170; s += 5) /* the second has stopped to report */
        gauges_at(&world, s, 3, s, 4, 1);
    expect_missing(&world, 170, "1 of 2 tasks");
    gauges_at(&world, 175, 3, 175, 4, 2);
    expect_use(&world, 175, 7);
    world_release(&world);
}

static void of_a_shared_queue_one_report_is_enough(void **state)
{
    struct world world;

    (void)state;
    world_init(&world, SERVICES_OF(QUEUE ",\"muster.autoscale.combine\":\"max\"", ""));
    gauges_at(&world, 100, 30, 1, 0, -1);
    expect_use(&world, 100, 30);
    gauges_at(&world, 105, 30, 2, 10, 1);
    expect_use(&world, 105, 30);
    world_release(&world);
}

static void another_service_may_report_it(void **state)
{
    static const char page[] =
        "muster_reported_value{container=\"st_broker.1.t3\",name=\"queue\",service=\"st_broker\"} 12\n"
        "muster_reports_total{container=\"st_broker.1.t3\",name=\"queue\","
        "service=\"st_broker\"} 3\n";
    struct world world;

    (void)state;
    world_init(&world, SERVICES_OF(QUEUE ",\"muster.autoscale.source\":\"broker\"", ""));
    assert_int_equal(autoscale_usage_begin(&world.usage, &world.view, NULL), 0);
    assert_int_equal(autoscale_usage_take(&world.usage, page, 100 * S, NULL), 0);
    expect_use(&world, 100, 12);
    world_release(&world);
    world_init(&world, SERVICES_OF(QUEUE ",\"muster.autoscale.source\":\"nobody\"", ""));
    assert_int_equal(autoscale_usage_begin(&world.usage, &world.view, NULL), 0);
    expect_missing(&world, 100, "there is no service 'st_nobody'");
    world_release(&world);
}

/* Looks that follow each other closely do not push the older ones out. */
static void many_looks_still_reach_back(void **state)
{
    struct world world;

    (void)state;
    world_init(&world, SERVICES_OF(",\"muster.autoscale.average\":\"2m\"", ""));
    for (unsigned s = 0; s <= 600; s++) { /* half of each minute at full speed */
        const double cpu = (double)(s / 60) * 30 + (s % 60 < 30 ? s % 60 : 30);
        round_at(&world, 1000 + s, cpu, cpu, 1, 5000 + s);
    }
    expect_use(&world, 1600, 50); /* over two minutes, to the second */
    world_release(&world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cpu_is_a_share_of_the_limit),
        cmocka_unit_test(cores_know_no_limit),
        cmocka_unit_test(memory_is_a_share_of_the_limit),
        cmocka_unit_test(what_is_long_ago_counts_no_more),
        cmocka_unit_test(what_cannot_be_believed_is_left_out),
        cmocka_unit_test(a_task_that_no_monitor_knows_holds),
        cmocka_unit_test(gauges_are_summed_over_the_tasks),
        cmocka_unit_test(of_a_shared_queue_one_report_is_enough),
        cmocka_unit_test(another_service_may_report_it),
        cmocka_unit_test(many_looks_still_reach_back),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
