/* SPDX-License-Identifier: Apache-2.0 */
/* The stacks that muster ships: what the programs and scripts rely on in them. */
#include "test.h"

static const struct {
    const char *file, *key, *subnet;
} stacks[] = {
    {MUSTER_SOURCE_DIR "/compose/stacks/workload1.yml", "workload1", "192.168.0.0/24"},
    {MUSTER_SOURCE_DIR "/compose/stacks/workload2.yml", "workload2", "10.10.0.0/24"},
};

static struct compose_project *load(const char *file, const char *stack, const char *const *given)
{
    const struct compose_options options = {
        .files = &file, .file_count = 1, .stack = stack, .given = given, .strict = true};
    struct compose_project *project = NULL;
    struct mst_error err = MST_ERROR_INIT;
    if (compose_project_load(&options, &project, &err) < 0)
        fail_msg("%s", err.text);
    assert_int_equal(project->warnings.count, 0);
    return project;
}

static bool has(const struct compose_strings *list, const char *text)
{
    for (size_t i = 0; i < list->count; i++)
        if (strcmp(list->items[i], text) == 0)
            return true;
    return false;
}

static const struct compose_service *service(const struct compose_project *project, const char *key)
{
    const struct compose_service *found = compose_service_find(project, key);
    assert_non_null(found);
    return found;
}

static void check_worker(const struct compose_project *project, const char *key, const char *constraint)
{
    static const char *const expected[] = {
        "MUSTER_SLOT={{.Service.Name}}.{{.Task.Slot}}",
        "MUSTER_STATE=/state/{{.Service.Name}}.{{.Task.Slot}}",
    };
    const struct compose_service *worker = service(project, key);
    test_strings(&worker->command, "muster-agent,train");
    test_strings(&worker->cap_add, "CAP_NET_RAW,CAP_SETGID,CAP_SETUID");
    test_strings(&worker->cap_drop, "ALL");
    assert_true(worker->read_only);
    assert_int_equal(worker->mount_count, 2);
    assert_string_equal(worker->mounts[0].target, "/runs");
    assert_string_equal(worker->mounts[1].target, "/state");
    assert_non_null(worker->mounts[0].volume);
    assert_int_equal(worker->secret_count, 1);
    assert_string_equal(worker->secrets[0].target, "muster_key");
    assert_string_equal(worker->secrets[0].uid, "65532");
    assert_int_equal(worker->secrets[0].mode, 0400);
    assert_string_equal(worker->configs[0].target, "/model.json");
    assert_true(worker->init.is_set && !worker->init.value);
    test_strings(&worker->healthcheck.test, "CMD,muster-agent,health");
    test_strings(&worker->deploy.constraints, constraint);
    assert_string_equal(worker->deploy.endpoint_mode, "dnsrr");
    /* LEAVE takes less than this; then Swarm kills. */
    assert_int_equal(worker->stop_grace_period_ns.value, 10000000000);
    assert_string_equal(worker->deploy.restart_policy.condition, "on-failure");
    assert_int_equal(worker->deploy.restart_policy.delay_ns.value, 1000000000);
    assert_true(worker->deploy.restart_policy.max_attempts.is_set &&
                worker->deploy.restart_policy.window_ns.is_set);
    assert_string_equal(compose_pairs_find(&worker->deploy.labels, "muster.role"), "worker");
    for (size_t i = 0; i < MST_ARRAY_COUNT(expected); i++)
        if (!has(&worker->environment, expected[i]))
            fail_msg("no %s", expected[i]);
}

/* Every option that a recipe may speak for. */
static const char *const of_recipes[] = {"MUSTER_RECIPE",     "MUSTER_EPOCHS",  "MUSTER_STEPS",
                                         "MUSTER_BATCH",      "MUSTER_LR",      "MUSTER_MOMENTUM",
                                         "MUSTER_VALIDATION", "MUSTER_PATIENCE"};

static void shipped_stacks_are_read_without_a_warning(void **state)
{
    (void)state;
    for (size_t i = 0; i < MST_ARRAY_COUNT(stacks); i++) {
        struct compose_project *project = load(stacks[i].file, NULL, NULL);
        char text[128];
        assert_int_equal(project->service_count, 5);
        check_worker(project, "w1", "node.hostname == node1");
        check_worker(project, "w2", "node.hostname == node2");
        check_worker(project, "w3", "node.hostname == node3");
        assert_int_equal(project->network_count, 1);
        assert_string_equal(project->networks[0].subnets[0].subnet, stacks[i].subnet);
        assert_int_equal(project->secret_count, 1);
        assert_true(project->secrets[0].external);
        assert_int_equal(project->secrets[0].generate_bytes, 32);
        (void)snprintf(text, sizeof text, "%s_muster_key", stacks[i].key);
        assert_string_equal(project->secrets[0].name, text);
        (void)snprintf(text, sizeof text, "MUSTER_CLUSTER=%s", stacks[i].key);
        assert_true(has(&service(project, "w1")->environment, text));
        assert_true(has(&service(project, "w1")->environment, "MUSTER_RUN=")); /* empty is as not set */
        /* What a recipe says must not lose against a default of the stack. */
        for (size_t n = 0; n < MST_ARRAY_COUNT(of_recipes); n++) {
            (void)snprintf(text, sizeof text, "%s=", of_recipes[n]);
            if (!has(&service(project, "w1")->environment, text))
                fail_msg("%s is set", of_recipes[n]);
        }
        assert_true(has(&service(project, "w1")->environment, "MUSTER_CHECKPOINT_STEPS="));
        assert_int_equal(project->config_count, 1);
        assert_true(project->configs[0].byte_count > 2 && project->configs[0].bytes[0] == '{');
        compose_project_free(project);
    }
}

static void the_elastic_stack_is_one_service_on_all_nodes(void **state)
{
    static const char *const given[] = {"MUSTER_REPLICAS=5", "MUSTER_WORKERS=3:6", NULL};
    static const struct {
        const char *const *given;
        const char *workers;
        uint64_t replicas;
    } cases[] = {{NULL, "MUSTER_WORKERS=2:8", 3}, {given, "MUSTER_WORKERS=3:6", 5}};

    (void)state;
    for (size_t i = 0; i < MST_ARRAY_COUNT(cases); i++) {
        struct compose_project *project =
            load(MUSTER_SOURCE_DIR "/compose/stacks/elastic.yml", NULL, cases[i].given);
        const struct compose_service *worker = service(project, "worker");
        assert_int_equal(project->service_count, 3);
        check_worker(project, "worker", "");
        assert_true(has(&worker->environment, cases[i].workers));
        assert_true(has(&worker->environment, "MUSTER_EXCHANGE=direct"));
        assert_true(has(&worker->environment, "MUSTER_CLUSTER=elastic"));
        assert_int_equal(worker->deploy.replicas.value, cases[i].replicas);
        assert_string_equal(project->secrets[0].name, "elastic_muster_key");
        compose_project_free(project);
    }
}

static void the_collector_is_where_the_manager_is(void **state)
{
    (void)state;
    struct compose_project *project = load(stacks[0].file, "demo", NULL);
    const struct compose_service *collector = service(project, "collector");
    test_strings(&collector->command, "muster-agent,collect");
    test_strings(&collector->deploy.constraints, "node.hostname == node1");
    test_strings(&collector->cap_add, "CAP_SETGID,CAP_SETUID");
    assert_string_equal(collector->mounts[0].target, "/runs");
    assert_string_equal(collector->name, "demo_collector");
    compose_project_free(project);
}

static void the_monitor_is_everywhere_and_reads_only(void **state)
{
    (void)state;
    struct compose_project *project = load(stacks[0].file, NULL, NULL);
    const struct compose_service *monitor = service(project, "monitor");
    test_strings(&monitor->command, "muster-monitor,emit");
    assert_int_equal(monitor->deploy.mode, COMPOSE_MODE_GLOBAL);
    assert_int_equal(monitor->mount_count, 3);
    for (size_t i = 0; i < monitor->mount_count; i++) {
        assert_int_equal(monitor->mounts[i].type, COMPOSE_MOUNT_BIND);
        assert_true(monitor->mounts[i].read_only);
    }
    compose_project_free(project);
}

static void what_users_set_goes_everywhere_it_belongs(void **state)
{
    (void)state;
    static const char *const given[] = {"MUSTER_IMAGE=10.77.0.254:5000/muster:1",
                                        "MUSTER_STACK=mine",
                                        "MUSTER_NODE1=a",
                                        "MUSTER_NODE2=b",
                                        "MUSTER_NODE3=a",
                                        "MUSTER_MANAGER=m",
                                        "MUSTER_WORKERS=4",
                                        "MUSTER_REPLICAS1=2",
                                        "MUSTER_SUBNET=172.30.0.0/24",
                                        "MUSTER_CPUS=0.5",
                                        "MUSTER_MEMORY=512M",
                                        "MUSTER_MODEL=/m.json",
                                        "MUSTER_RECIPE=/r.json",
                                        "MUSTER_EPOCHS=2",
                                        "MUSTER_STEPS=7",
                                        "MUSTER_BATCH=8",
                                        "MUSTER_LR=0.1",
                                        "MUSTER_SEED=9",
                                        "MUSTER_THREADS=2",
                                        "MUSTER_EXCHANGE=direct",
                                        "MUSTER_CHECKPOINT_STEPS=9",
                                        "MUSTER_RUN=a-run",
                                        "MUSTER_DOCKER_SOCK=/run/other.sock",
                                        NULL};
    static const char *const expected[] = {"MUSTER_CLUSTER=mine",
                                           "MUSTER_WORKERS=4",
                                           "MUSTER_SUBNET=172.30.0.0/24",
                                           "MUSTER_MODEL=/m.json",
                                           "MUSTER_RECIPE=/r.json",
                                           "MUSTER_EPOCHS=2",
                                           "MUSTER_STEPS=7",
                                           "MUSTER_BATCH=8",
                                           "MUSTER_LR=0.1",
                                           "MUSTER_SEED=9",
                                           "MUSTER_THREADS=2",
                                           "MUSTER_EXCHANGE=direct",
                                           "MUSTER_CHECKPOINT_STEPS=9",
                                           "MUSTER_RUN=a-run"};
    for (size_t i = 0; i < MST_ARRAY_COUNT(stacks); i++) {
        struct compose_project *project = load(stacks[i].file, "mine", given);
        check_worker(project, "w1", "node.hostname == a");
        check_worker(project, "w2", "node.hostname == b");
        check_worker(project, "w3", "node.hostname == a");
        test_strings(&service(project, "collector")->deploy.constraints, "node.hostname == m");
        const struct compose_service *w1 = service(project, "w1");
        for (size_t e = 0; e < MST_ARRAY_COUNT(expected); e++)
            if (!has(&w1->environment, expected[e]))
                fail_msg("no %s", expected[e]);
        assert_int_equal(w1->deploy.replicas.value, 2);
        assert_int_equal(w1->deploy.limits.nano_cpus, 500000000);
        assert_int_equal(w1->deploy.limits.memory_bytes, 512 << 20);
        for (size_t s = 0; s < project->service_count; s++)
            assert_string_equal(project->services[s].image, "10.77.0.254:5000/muster:1");
        assert_string_equal(service(project, "monitor")->mounts[0].source, "/run/other.sock");
        assert_string_equal(project->networks[0].subnets[0].subnet, "172.30.0.0/24");
        assert_string_equal(project->networks[0].name, "mine_training");
        assert_string_equal(project->secrets[0].name, "mine_muster_key");
        compose_project_free(project);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shipped_stacks_are_read_without_a_warning),
        cmocka_unit_test(the_elastic_stack_is_one_service_on_all_nodes),
        cmocka_unit_test(the_collector_is_where_the_manager_is),
        cmocka_unit_test(the_monitor_is_everywhere_and_reads_only),
        cmocka_unit_test(what_users_set_goes_everywhere_it_belongs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
