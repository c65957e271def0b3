/* SPDX-License-Identifier: Apache-2.0 */
#include "test.h"

static struct compose_project *service_with(const char *lines)
{
    char text[2048];
    (void)snprintf(text, sizeof text, TEST_SERVICE("%s"), lines);
    return test_project(text);
}

static void healthchecks_are_read(void **state)
{
    (void)state;
    static const struct {
        const char *line, *test;
    } checks[] = {
        {"test: curl localhost", "CMD-SHELL,curl localhost"},
        {"test: [CMD, muster-agent, health]", "CMD,muster-agent,health"},
        {"test: [CMD-SHELL, 'exit 0']", "CMD-SHELL,exit 0"},
        {"test: [NONE]", "NONE"},
        {"test: []", ""},
        {"disable: true", "NONE"},
        {"{disable: true, test: [NONE]}", "NONE"},
        {"{}", ""},
    };
    for (size_t i = 0; i < MST_ARRAY_COUNT(checks); i++) {
        char text[256];
        const bool is_flow = *checks[i].line == '{';
        (void)snprintf(text, sizeof text, "    healthcheck: %s%s%s\n", is_flow ? "" : "{", checks[i].line,
                       is_flow ? "" : "}");
        struct compose_project *project = service_with(text);
        assert_true(project->services[0].healthcheck.is_set);
        test_strings(&project->services[0].healthcheck.test, checks[i].test);
        compose_project_free(project);
    }
    struct compose_project *project =
        service_with("    healthcheck:\n"
                     "      interval: 5s\n      timeout: 1500ms\n"
                     "      start_period: 0s\n      start_interval: 1m\n      retries: 3\n");
    const struct compose_healthcheck *check = &project->services[0].healthcheck;
    assert_int_equal(check->interval_ns, 5000000000);
    assert_int_equal(check->timeout_ns, 1500000000);
    assert_int_equal(check->start_period_ns, 0);
    assert_int_equal(check->start_interval_ns, 60000000000);
    assert_int_equal(check->retries, 3);
    compose_project_free(project);
}

static void logging_is_read(void **state)
{
    (void)state;
    struct compose_project *project =
        service_with("    logging: {driver: json-file, options: {max-size: 10m, max-file: 3}}\n");
    const struct compose_logging *logging = &project->services[0].logging;
    assert_true(logging->is_set);
    assert_string_equal(logging->driver, "json-file");
    assert_string_equal(compose_pairs_find(&logging->options, "max-file"), "3");
    assert_null(compose_pairs_find(&logging->options, "none"));
    compose_project_free(project);
}

static void ulimits_are_sorted(void **state)
{
    (void)state;
    struct compose_project *project = service_with(
        "    ulimits: {nproc: 7, memlock: -1, nofile: {soft: 1, hard: '2'}, core: {soft: 5, hard: -1}}\n");
    const struct compose_service *service = &project->services[0];
    static const struct compose_ulimit expected[] = {
        {"core", 5, -1}, {"memlock", -1, -1}, {"nofile", 1, 2}, {"nproc", 7, 7}};
    assert_int_equal(service->ulimit_count, MST_ARRAY_COUNT(expected));
    for (size_t i = 0; i < MST_ARRAY_COUNT(expected); i++) {
        assert_string_equal(service->ulimits[i].name, expected[i].name);
        assert_int_equal(service->ulimits[i].soft, expected[i].soft);
        assert_int_equal(service->ulimits[i].hard, expected[i].hard);
    }
    compose_project_free(project);
}

static void extra_hosts_keep_the_order_of_a_list(void **state)
{
    (void)state;
    struct compose_project *project =
        service_with("    extra_hosts: ['b:1.2.3.4', 'a:::1', 'c=10.0.0.1', 'd:[fe80::1]', 'b:5.6.7.8']\n");
    static const struct compose_pair expected[] = {
        {"b", "1.2.3.4"}, {"a", "::1"}, {"c", "10.0.0.1"}, {"d", "fe80::1"}, {"b", "5.6.7.8"}};
    const struct compose_service *service = &project->services[0];
    assert_int_equal(service->extra_host_count, MST_ARRAY_COUNT(expected));
    for (size_t i = 0; i < MST_ARRAY_COUNT(expected); i++) {
        assert_string_equal(service->extra_hosts[i].key, expected[i].key);
        assert_string_equal(service->extra_hosts[i].value, expected[i].value);
    }
    compose_project_free(project);
    project = service_with("    extra_hosts: {b: 1.2.3.4, a: '::1'}\n");
    assert_string_equal(project->services[0].extra_hosts[0].key, "a");
    compose_project_free(project);
}

static void a_credential_spec_may_name_a_config(void **state)
{
    (void)state;
    struct compose_project *project =
        test_project(TEST_SERVICE("    credential_spec: {config: c}\nconfigs: {c: {content: x}}\n"));
    assert_ptr_equal(project->services[0].credential_spec.content, &project->configs[0]);
    assert_true(project->configs[0].is_used);
    compose_project_free(project);
    project = test_project(TEST_SERVICE("    credential_spec: {registry: x}\n"));
    assert_string_equal(project->services[0].credential_spec.registry, "x");
    compose_project_free(project);
}

#define AT(column, path) "stack.yml:4:" column ": services.a." path ": "

static const struct {
    const char *line, *error;
} bad[] = {
    {"healthcheck: {test: [curl, x]}",
     AT("25", "healthcheck.test") "a list must start with CMD, CMD-SHELL or NONE, not with 'curl'"},
    {"healthcheck: {test: 5}",
     AT("25", "healthcheck.test") "'5' is a number here, not a text: put it in quotes"},
    {"healthcheck: {disable: true, test: x}",
     AT("18", "healthcheck") "test and disable: true can't stand together"},
    {"healthcheck: {interval: 5}",
     AT("29", "healthcheck.interval") "'5' is not a duration such as 90s, 1m30s or 250ms"},
    {"healthcheck: {interval: 5us}", AT("18", "healthcheck") "its times must be 0 or at least 1ms"},
    {"healthcheck: {retries: -1}", AT("28", "healthcheck.retries") "'-1' is below 0"},
    {"healthcheck: {intervall: 1s}",
     AT("19", "healthcheck") "the key 'intervall' is not known: did you mean 'interval'?"},
    {"logging: {drivers: x}", AT("15", "logging") "the key 'drivers' is not known: did you mean 'driver'?"},
    {"logging: json-file", AT("14", "logging") "'json-file' is not a mapping"},
    {"ulimits: {nofiles: 1}", AT("15", "ulimits") "'nofiles' is no ulimit: did you mean nofile"},
    {"ulimits: {nofile: -2}", AT("23", "ulimits.nofile") "'-2' is below -1"},
    {"ulimits: {nofile: x}", AT("23", "ulimits.nofile") "'x' is not a whole number"},
    {"ulimits: {nofile: {soft: 1}}", AT("23", "ulimits.nofile") "both soft and hard are needed"},
    {"ulimits: {nofile: {soft: 2, hard: 1}}",
     AT("23", "ulimits.nofile") "the soft limit is above the hard one"},
    {"ulimits: {nofile: {soft: -1, hard: 1}}",
     AT("23", "ulimits.nofile") "the soft limit is above the hard one"},
    {"ulimits: {nofile: {soft: 1, hard: -2}}", AT("23", "ulimits.nofile") "a limit is -1 (none) or more"},
    {"ulimits: [nofile]", AT("14", "ulimits") "a list is not a mapping"},
    {"extra_hosts: [x]", AT("19", "extra_hosts[0]") "'x' is not NAME:ADDRESS"},
    {"extra_hosts: ['x:']", AT("19", "extra_hosts[0]") "'x:' is not NAME:ADDRESS"},
    {"extra_hosts: {x: ''}", AT("18", "extra_hosts") "the host has no address"},
    {"extra_hosts: x", AT("18", "extra_hosts") "'x' is not a mapping or a list of NAME=VALUE"},
    {"credential_spec: {}", AT("22", "credential_spec") "one of config, file and registry is needed"},
    {"credential_spec: {file: a, registry: b}",
     AT("22", "credential_spec") "one of config, file and registry is needed"},
    {"credential_spec: {config: c}",
     "stack.yml:2:3: services.a.credential_spec: the config 'c' is not declared at the top of the file"},
};

static void bad_values_are_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < MST_ARRAY_COUNT(bad); i++) {
        char text[512];
        (void)snprintf(text, sizeof text, TEST_SERVICE("    %s\n"), bad[i].line);
        test_refused(text, bad[i].error);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(healthchecks_are_read),
        cmocka_unit_test(logging_is_read),
        cmocka_unit_test(ulimits_are_sorted),
        cmocka_unit_test(extra_hosts_keep_the_order_of_a_list),
        cmocka_unit_test(a_credential_spec_may_name_a_config),
        cmocka_unit_test(bad_values_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
