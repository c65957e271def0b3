/* SPDX-License-Identifier: Apache-2.0 */
#include "test.h"

static const char full[] =
    TEST_SERVICE("    deploy:\n"
                 "      mode: replicated\n"
                 "      replicas: 4\n"
                 "      labels: {x: 1, y: null, z: 1.50}\n"
                 "      endpoint_mode: VIP\n"
                 "      update_config:\n"
                 "        parallelism: 0\n"
                 "        delay: 1m30s\n"
                 "        failure_action: rollback\n"
                 "        monitor: 2s\n"
                 "        max_failure_ratio: 0.25\n"
                 "        order: start-first\n"
                 "      rollback_config: {}\n"
                 "      placement:\n"
                 "        constraints: [node.role == manager, node.labels.a!=b]\n"
                 "        preferences: [{spread: node.labels.z}, {spread: node.labels.a}]\n"
                 "        max_replicas_per_node: 2\n"
                 "      resources:\n"
                 "        limits: {cpus: '0.5', memory: 50M, pids: 5}\n"
                 "        reservations:\n"
                 "          cpus: 0.25\n"
                 "          memory: 4194304\n"
                 "          generic_resources:\n"
                 "            - discrete_resource_spec: {kind: gpu, value: 2}\n"
                 "      restart_policy: {condition: any, delay: 5s, max_attempts: 0, window: 1m}\n");

static void every_key_of_deploy_is_read(void **state)
{
    (void)state;
    struct compose_project *project = test_project(full);
    const struct compose_deploy *deploy = &project->services[0].deploy;
    assert_int_equal(project->warnings.count, 0);
    assert_int_equal(deploy->mode, COMPOSE_MODE_REPLICATED);
    assert_true(deploy->replicas.is_set);
    assert_int_equal(deploy->replicas.value, 4);
    assert_int_equal(deploy->labels.count, 3);
    assert_string_equal(compose_pairs_find(&deploy->labels, "x"), "1");
    assert_string_equal(compose_pairs_find(&deploy->labels, "y"), "");
    assert_string_equal(compose_pairs_find(&deploy->labels, "z"), "1.5");
    assert_string_equal(deploy->endpoint_mode, "vip");
    const struct compose_update *update = &deploy->update_config;
    assert_true(update->is_set && update->parallelism.is_set);
    assert_int_equal(update->parallelism.value, 0);
    assert_int_equal(update->delay_ns, 90000000000);
    assert_int_equal(update->monitor_ns, 2000000000);
    assert_string_equal(update->failure_action, "rollback");
    assert_string_equal(update->order, "start-first");
    assert_true(update->max_failure_ratio == 0.25);
    assert_true(deploy->rollback_config.is_set);
    assert_false(deploy->rollback_config.parallelism.is_set);
    test_strings(&deploy->constraints, "node.role == manager,node.labels.a!=b");
    test_strings(&deploy->spread, "node.labels.z,node.labels.a");
    assert_int_equal(deploy->max_replicas_per_node, 2);
    assert_true(deploy->limits.is_set && deploy->reservations.is_set);
    assert_int_equal(deploy->limits.nano_cpus, 500000000);
    assert_int_equal(deploy->limits.memory_bytes, 50 << 20);
    assert_int_equal(deploy->limits.pids, 5);
    assert_int_equal(deploy->reservations.nano_cpus, 250000000);
    assert_int_equal(deploy->reservations.memory_bytes, 4 << 20);
    assert_int_equal(deploy->reservations.generic_count, 1);
    assert_string_equal(deploy->reservations.generic[0].kind, "gpu");
    assert_int_equal(deploy->reservations.generic[0].value, 2);
    const struct compose_restart_policy *restart = &deploy->restart_policy;
    assert_true(restart->is_set && restart->delay_ns.is_set && restart->max_attempts.is_set &&
                restart->window_ns.is_set);
    assert_string_equal(restart->condition, "any");
    assert_int_equal(restart->delay_ns.value, 5000000000);
    assert_int_equal(restart->max_attempts.value, 0);
    assert_int_equal(restart->window_ns.value, 60000000000);
    compose_project_free(project);
}

static void what_is_absent_is_not_set(void **state)
{
    (void)state;
    struct compose_project *project = test_project(TEST_SERVICE(""));
    const struct compose_deploy *deploy = &project->services[0].deploy;
    assert_false(deploy->replicas.is_set || deploy->limits.is_set || deploy->reservations.is_set ||
                 deploy->restart_policy.is_set || deploy->update_config.is_set ||
                 deploy->rollback_config.is_set);
    assert_null(deploy->endpoint_mode);
    assert_int_equal(deploy->mode, COMPOSE_MODE_REPLICATED);
    compose_project_free(project);
}

static void jobs_and_global_services_are_modes(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        enum compose_mode mode;
    } modes[] = {{"replicated", COMPOSE_MODE_REPLICATED},
                 {"global", COMPOSE_MODE_GLOBAL},
                 {"replicated-job", COMPOSE_MODE_REPLICATED_JOB},
                 {"global-job", COMPOSE_MODE_GLOBAL_JOB}};
    for (size_t i = 0; i < MST_ARRAY_COUNT(modes); i++) {
        char text[256];
        (void)snprintf(text, sizeof text, TEST_SERVICE("    deploy: {mode: %s}\n"), modes[i].name);
        struct compose_project *project = test_project(text);
        assert_int_equal(project->services[0].deploy.mode, modes[i].mode);
        compose_project_free(project);
    }
}

static void restart_stands_in_for_a_missing_policy(void **state)
{
    (void)state;
    static const struct {
        const char *restart, *condition; /* NULL: no policy */
        bool has_attempts;
        uint64_t attempts;
    } restarts[] = {{"no", NULL, false, 0},
                    {"always", "any", false, 0},
                    {"unless-stopped", "any", false, 0},
                    {"on-failure", "on-failure", false, 0},
                    {"on-failure:3", "on-failure", true, 3}};
    for (size_t i = 0; i < MST_ARRAY_COUNT(restarts); i++) {
        char text[256];
        (void)snprintf(text, sizeof text, TEST_SERVICE("    restart: %s\n"), restarts[i].restart);
        struct compose_project *project = test_project(text);
        const struct compose_restart_policy *policy = &project->services[0].deploy.restart_policy;
        assert_int_equal(policy->is_set, restarts[i].condition != NULL);
        if (restarts[i].condition)
            assert_string_equal(policy->condition, restarts[i].condition);
        assert_int_equal(policy->max_attempts.is_set, restarts[i].has_attempts);
        assert_int_equal(policy->max_attempts.value, restarts[i].attempts);
        compose_project_free(project);
    }
    struct compose_project *project =
        test_project(TEST_SERVICE("    restart: always\n    deploy: {restart_policy: {condition: none}}\n"));
    assert_string_equal(project->services[0].deploy.restart_policy.condition, "none");
    test_strings(&project->warnings,
                 "stack.yml:4:14: services.a.restart: ignored: deploy.restart_policy stands as well");
    compose_project_free(project);
}

#define AT(column, path) "stack.yml:4:" column ": services.a.deploy" path ": "

static const struct {
    const char *deploy, *error;
} bad[] = {
    {"3", AT("13", "") "'3' is not a mapping"},
    {"{mode: job}", AT("20", ".mode") "'job' is none of: replicated, global, replicated-job, global-job"},
    {"{replicas: three}", AT("24", ".replicas") "'three' is not a whole number"},
    {"{replicas: 1.5}", AT("24", ".replicas") "'1.5' is not a whole number"},
    {"{replicas: -1}", AT("24", ".replicas") "'-1' is below 0"},
    {"{replicas: [1]}", AT("24", ".replicas") "a list is not a whole number"},
    {"{replicas: ~}", AT("24", ".replicas") "nothing stands here: it takes a whole number"},
    {"{replica: 1}", AT("14", "") "the key 'replica' is not known: did you mean 'replicas'?"},
    {"{qqq: 1}", AT("14", "") "the key 'qqq' is not known"},
    {"{mode: global, replicas: 2}", AT("38", ".replicas") "a global service runs once on each node"},
    {"{mode: global-job, update_config: {}}",
     "stack.yml:2:3: services.a.deploy.update_config: a job is not updated in "
     "steps"},
    {"{labels: {x: true}}",
     AT("26", ".labels.x") "'true' is a truth value here, not a text: put it in quotes"},
    {"{labels: x}", AT("22", ".labels") "'x' is not a mapping or a list of NAME=VALUE"},
    {"{labels: ['=x']}", AT("23", ".labels[0]") "a name must stand before the '='"},
    {"{endpoint_mode: lb}", AT("29", ".endpoint_mode") "'lb' is none of: vip, dnsrr"},
    {"{resources: {limits: {cpus: '1/3'}}}",
     AT("41", ".resources.limits.cpus") "'1/3' is not a whole number of billionths of a processor"},
    {"{resources: {limits: {cpus: many}}}",
     AT("41", ".resources.limits.cpus") "'many' is not a number of processors such as 0.5 or 2"},
    {"{resources: {limits: {cpus: 0.0001}}}",
     AT("41", ".resources.limits.cpus") "the engine takes 0 or at least 0.001"},
    {"{resources: {limits: {memory: 1M}}}",
     AT("43", ".resources.limits.memory") "the engine takes 0 or at least 4M"},
    {"{resources: {limits: {memory: big}}}",
     AT("43", ".resources.limits.memory") "'big' is not a size such as 512M, 1.5g or 4096"},
    {"{resources: {limits: {memory: 1.5}}}",
     AT("43", ".resources.limits.memory") "'1.5' is not a size such as 512M, 1.5g or 4096"},
    {"{resources: {limits: {pids: -2}}}", AT("41", ".resources.limits.pids") "'-2' is below -1"},
    {"{resources: {reservations: {pids: 2}}}",
     AT("41", ".resources.reservations") "the key 'pids' is not known"},
    {"{resources: {reservations: {generic_resources: [{}]}}}",
     AT("61", ".resources.reservations.generic_resources[0]") "discrete_resource_spec is missing"},
    {"{restart_policy: {condition: never}}",
     AT("42", ".restart_policy.condition") "'never' is none of: none, on-failure, any"},
    {"{restart_policy: {delay: 5}}",
     AT("38", ".restart_policy.delay") "'5' is not a duration such as 90s, 1m30s or 250ms"},
    {"{restart_policy: {delay: 3d}}",
     AT("38", ".restart_policy.delay") "'3d' is not a duration such as 90s, 1m30s or 250ms"},
    {"{update_config: {max_failure_ratio: 1.5}}",
     AT("49", ".update_config.max_failure_ratio") "'1.5' is not a number from 0 to 1"},
    {"{update_config: {order: first}}",
     AT("37", ".update_config.order") "'first' is none of: stop-first, start-first"},
    {"{rollback_config: {failure_action: rollback}}",
     AT("48", ".rollback_config.failure_action") "'rollback' is none of: pause, continue"},
    {"{placement: {constraints: [node=foo]}}",
     AT("40", ".placement.constraints[0]") "'node=foo' is not a constraint such as node.hostname == node1"},
    {"{placement: {constraints: ['node.hostname == ']}}",
     AT("40", ".placement.constraints[0]") "'node.hostname == ' is not a constraint such as node.hostname == "
                                           "node1"},
    {"{placement: {constraints: ['node.role==a', 'node.role==a']}}",
     AT("56", ".placement.constraints[1]") "'node.role==a' stands twice in this list"},
    {"{placement: {constraints: node.role==a}}",
     AT("39", ".placement.constraints") "'node.role==a' is not a list"},
    {"{placement: {preferences: [{}]}}", AT("40", ".placement.preferences[0]") "spread is missing"},
};

static void bad_deploy_sections_are_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < MST_ARRAY_COUNT(bad); i++) {
        char text[512];
        (void)snprintf(text, sizeof text, TEST_SERVICE("    deploy: %s\n"), bad[i].deploy);
        test_refused(text, bad[i].error);
    }
}

static void devices_are_a_warning(void **state)
{
    (void)state;
    struct compose_project *project = test_project(
        TEST_SERVICE("    deploy: {resources: {reservations: {devices: [{capabilities: [gpu]}]}}}\n"));
    test_strings(&project->warnings, "stack.yml:4:41: services.a.deploy.resources.reservations.devices: "
                                     "ignored: swarm gives no devices to "
                                     "services");
    compose_project_free(project);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_key_of_deploy_is_read),
        cmocka_unit_test(what_is_absent_is_not_set),
        cmocka_unit_test(jobs_and_global_services_are_modes),
        cmocka_unit_test(restart_stands_in_for_a_missing_policy),
        cmocka_unit_test(bad_deploy_sections_are_refused),
        cmocka_unit_test(devices_are_a_warning),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
