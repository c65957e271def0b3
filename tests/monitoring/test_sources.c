/* SPDX-License-Identifier: Apache-2.0 */
/* Where samples come from when it is not the Engine and a known process: control groups alone, the Engine's
 * stats, workers' events; and labels. */
#include "api.h"
#include "labels.h"
#include "machine.h"
#include "muster/cleanup.h"
#include "muster/json.h"
#include "sampler.h"
#include "scan.h"
#include "test.h"
#include "training.h"

static void names_of_control_groups_are_read_in_every_runtimes_way(void **state)
{
    static const struct {
        const char *name;
        bool is_container;
    } cases[] = {{CONTAINER_ID, true},
                 {"docker-" CONTAINER_ID ".scope", true},
                 {"cri-containerd-" CONTAINER_ID ".scope", true},
                 {"libpod-" CONTAINER_ID ".scope", true},
                 {"docker-" CONTAINER_ID "-shm.mount", false},
                 {"x" CONTAINER_ID, false},
                 {CONTAINER_ID "0", false},
                 {"system.slice", false},
                 {"", false},
                 {".scope", false}};
    (void)state;
    for (size_t i = 0; i < MST_ARRAY_COUNT(cases); i++) {
        char id[MONITOR_ID_BYTES] = "";
        assert_int_equal(scan_name(cases[i].name, id), cases[i].is_container);
        assert_string_equal(id, cases[i].is_container ? CONTAINER_ID : "");
    }
}

static void a_stored_tree_is_sampled_without_an_engine(void **state)
{
    const struct monitor_options options = {
        .source = MONITOR_SOURCE_CGROUPS, .groups = MONITOR_GROUPS_ALL, .paths = v2_paths};
    struct sampler sampler;
    const struct monitor_pass *pass;
    int fds[2];
    (void)state;
    assert_int_equal(pipe(fds), 0);
    assert_int_equal(sampler_init(&sampler, &options, true, fds[0], NULL), 0);
    assert_int_equal(sampler_settle(&sampler, NULL), 0);
    assert_int_equal(sampler_take(&sampler, MONITOR_GROUPS_ALL, &pass, NULL), 0);
    assert_true(pass->count >= 1);
    const struct monitor_sample *sample = &pass->samples[pass->count - 1];
    assert_string_equal(sample->container->id, CONTAINER_ID);
    assert_string_equal(sample->container->cgroup, "/system.slice/docker-" CONTAINER_ID ".scope");
    assert_true(sample->cpu_ns == 7654321000);
    assert_false(sample->groups & MONITOR_NETWORK); /* whose network it is cannot be told here */
    assert_int_equal(pass->before[pass->count - 1].read_ns, 0);
    assert_int_equal(sampler_take(&sampler, MONITOR_CPU, &pass, NULL), 0);
    assert_int_equal(pass->samples[pass->count - 1].groups, MONITOR_CPU);
    assert_true(pass->before[pass->count - 1].read_ns > 0);
    assert_int_equal(write(fds[1], "x", 1), 1);
    assert_int_equal(sampler_wait(&sampler, UINT64_MAX, NULL), -ECANCELED);
    sampler_release(&sampler);
    assert_int_equal(close(fds[0]) + close(fds[1]), 0);
}

static void no_tree_is_an_error(void **state)
{
    const struct monitor_options options = {.source = MONITOR_SOURCE_CGROUPS,
                                            .paths = {"/nowhere/proc", "/nowhere/sys"}};
    struct sampler sampler;
    struct mst_error err = MST_ERROR_INIT;
    (void)state;
    assert_int_equal(sampler_init(&sampler, &options, false, 0, NULL), 0);
    assert_int_equal(sampler_settle(&sampler, &err), -ENOENT);
    assert_non_null(strstr(err.text, "/nowhere/sys/fs/cgroup"));
    sampler_release(&sampler);
}

static void the_engines_stats_become_a_sample(void **state)
{
    static struct monitor_interface interfaces[MONITOR_INTERFACES_MAX];
    static struct monitor_device devices[MONITOR_DEVICES_MAX];
    struct monitor_sample sample = {.interfaces = interfaces, .devices = devices};
    mst_cleanup(mst_buf_release) struct mst_buf json =
        load(MUSTER_SOURCE_DIR "/tests/fuzz/corpus/counters/stats.json");
    (void)state;
    assert_int_equal(api_sample(json.bytes, json.count, &sample, NULL), 0);
    assert_true(sample.cpu_ns == 5 && sample.memory_limit_bytes == 0 && sample.threads_max == 0);
    assert_true(sample.rx_bytes == 1 && sample.tx_packets == 4 && sample.io_read_bytes == 4096);
    assert_int_equal(sample.interface_count, 1);
    assert_string_equal(interfaces[0].name, "eth0");
    assert_int_equal(sample.groups, MONITOR_CPU | MONITOR_CPU_SPLIT | MONITOR_THROTTLING | MONITOR_MEMORY |
                                        MONITOR_MEMORY_STAT | MONITOR_MEMORY_LIMIT | MONITOR_IO |
                                        MONITOR_NETWORK | MONITOR_THREADS | MONITOR_THREADS_MAX);
    static const char stopped[] = "{\"read\":\"0001-01-01T00:00:00Z\",\"cpu_stats\":{}}";
    assert_int_equal(api_sample(stopped, sizeof stopped - 1, &sample, NULL), -ENODEV);
    assert_int_equal(api_sample("[]", 2, &sample, NULL), -EBADMSG);
    assert_int_equal(api_sample("{", 1, &sample, NULL), -EBADMSG);
}

static void tell(struct monitor_training *training, const char *line)
{
    training_line(training, line, strlen(line));
}

static void events_tell_how_a_training_gets_on(void **state)
{
    struct monitor_training training = {0};
    (void)state;
    tell(&training, "not an event");
    tell(&training, "{\"event\":");
    tell(&training, "{\"event\":\"start\",\"slot\":\"w1.1\"}");
    assert_string_equal(training.slot, "w1.1");
    assert_int_equal(training.groups, 0);
    tell(&training, "{\"event\":\"view\",\"slot\":\"w1.1\",\"view\":2,\"rank\":1,\"world\":3}");
    tell(&training,
         "{\"event\":\"progress\",\"epoch\":2,\"step\":80,\"steps\":840,\"loss\":0.5,\"ms_per_step\":20}");
    tell(&training, "{\"event\":\"lost\"}");
    tell(&training, "{\"event\":\"recovered\"}");
    tell(&training, "{\"event\":\"epoch\",\"epoch\":2,\"steps\":70,\"bytes_sent\":1000}");
    tell(&training, "{\"event\":\"failed\",\"reason\":\"disk\"}");
    assert_int_equal(training.groups, MONITOR_TRAINING_PROGRESS | MONITOR_TRAINING_VIEW);
    assert_true(training.members == 3 && training.view == 2 && training.step == 80 && training.steps == 840);
    assert_true(training.lost == 1 && training.recoveries == 1 && training.bytes_sent == 1000);
    assert_true(training.has_failed && !training.is_done && training.loss == 0.5);
    tell(&training, "{\"event\":\"start\",\"slot\":\"w1.1\"}");
    assert_true(!training.has_failed && training.groups == 0 && training.lost == 1);
}

static void anybody_may_report_a_gauge(void **state)
{
    static const char *const refused[] = {
        "{\"event\":\"gauge\",\"value\":1}",
        "{\"event\":\"gauge\",\"name\":\"\",\"value\":1}",
        "{\"event\":\"gauge\",\"name\":\"a b\",\"value\":1}",
        "{\"event\":\"gauge\",\"name\":\"a\\\"b\",\"value\":1}",
        "{\"event\":\"gauge\",\"name\":\"a\",\"value\":\"1\"}",
        "{\"event\":\"gauge\",\"name\":\"a\",\"value\":1e999}",
        "{\"event\":\"gauge\",\"name\":\"a\"}",
        "{\"event\":\"gauge\",\"name\":\"0123456789012345678901234567890123456789012345678901234567890123\","
        "\"value\":1}",
    };
    struct monitor_training training = {.is_no_training = true};
    (void)state;
    for (size_t i = 0; i < MST_ARRAY_COUNT(refused); i++) {
        tell(&training, refused[i]);
        if (training.gauge_count != 0)
            fail_msg("taken: %s", refused[i]);
    }
    tell(&training, "{\"event\":\"gauge\",\"name\":\"queue.open-1\",\"value\":17}");
    tell(&training, "{\"event\":\"gauge\",\"name\":\"queue.open-1\",\"value\":-2.5}");
    tell(&training, "{\"event\":\"gauge\",\"name\":\"other\",\"value\":0}");
    assert_int_equal(training.gauge_count, 2);
    assert_string_equal(training.gauges[0].name, "queue.open-1");
    assert_true(training.gauges[0].value < -2.4 && training.gauges[0].reports == 2);
    assert_true(training.is_no_training);
    for (int i = 0; i < 9; i++) { /* more names than are kept */
        char line[80];
        (void)snprintf(line, sizeof line, "{\"event\":\"gauge\",\"name\":\"n%d\",\"value\":1}", i);
        tell(&training, line);
    }
    assert_int_equal(training.gauge_count, MONITOR_GAUGES_MAX);
    tell(&training, "{\"event\":\"start\",\"slot\":\"w1.1\"}");
    assert_false(training.is_no_training);
}

static void labels_are_sanitised_and_never_blank_each_other(void **state)
{
    static const char json[] = "{\"Labels\":{\"b.c\":\"second\",\"b+c\":\"\",\"b-c\":\"first\","
                               "\"com.docker.stack.namespace\":\"shop\",\"quote\":\"a\\\"\\\\\\n\"},"
                               "\"Env\":[\"PATH=/bin\",\"APP_Mode=x\",\"SECRET=y\"]}";
    static const char *const envs[] = {"APP_", NULL};
    char text[MONITOR_LABELS_BYTES];
    mst_cleanup(mst_json_deletep) cJSON *config = cJSON_Parse(json);
    (void)state;
    labels_of_container(config, NULL, text);
    assert_string_equal(text, "container_label_com_docker_stack_namespace=\"shop\",");
    labels_of_container(config, &(struct monitor_labels){.all = true, .envs = envs}, text);
    assert_string_equal(text, "container_env_app_mode=\"x\",container_label_b_c=\"first\","
                              "container_label_com_docker_stack_namespace=\"shop\","
                              "container_label_quote=\"a\\\"\\\\\\n\",");
    labels_of_container(NULL, NULL, text);
    assert_string_equal(text, "");
}

static void a_machine_is_known_by_its_files(void **state)
{
    struct monitor_machine machine = {0};
    struct monitor_self self = {0};
    (void)state;
    machine_cpuinfo("processor\t: 0\nphysical id\t: 0\ncore id\t\t: 0\n\nprocessor\t: 1\nphysical id\t: "
                    "0\ncore id\t\t: 0\n\n"
                    "processor\t: 2\nphysical id\t: 1\ncore id\t\t: 0\n",
                    &machine);
    assert_true(machine.cpus == 3 && machine.cores == 2 && machine.sockets == 2);
    machine_meminfo("MemTotal:       4096 kB\nMemFree: 1 kB\nSwapTotal:      0 kB\n", &machine);
    assert_true(machine.memory_bytes == 4096 * 1024 && machine.swap_bytes == 0);
    machine_self(&self);
    assert_true(self.cpu_ns > 0 && self.resident_bytes > 0 && self.open_fds >= 3 && self.started_ms > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_of_control_groups_are_read_in_every_runtimes_way),
        cmocka_unit_test(a_stored_tree_is_sampled_without_an_engine),
        cmocka_unit_test(no_tree_is_an_error),
        cmocka_unit_test(the_engines_stats_become_a_sample),
        cmocka_unit_test(events_tell_how_a_training_gets_on),
        cmocka_unit_test(anybody_may_report_a_gauge),
        cmocka_unit_test(labels_are_sanitised_and_never_blank_each_other),
        cmocka_unit_test(a_machine_is_known_by_its_files),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
