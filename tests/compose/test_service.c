/* SPDX-License-Identifier: Apache-2.0 */
#include "test.h"

static void every_plain_key_of_a_service_is_read(void **state)
{
    (void)state;
    struct compose_project *project = test_project("services:\n"
                                                   "  web-1:\n"
                                                   "    image: muster:latest\n"
                                                   "    command: sh -c 'echo \"a b\"'\n"
                                                   "    entrypoint: [/bin/x, 'y']\n"
                                                   "    hostname: '{{.Node.Hostname}}'\n"
                                                   "    user: '1:2'\n"
                                                   "    working_dir: /w\n"
                                                   "    labels: [b, a=1]\n"
                                                   "    cap_add: [net_raw, CAP_SYS_ADMIN, NET_RAW]\n"
                                                   "    cap_drop: [ALL, chown]\n"
                                                   "    sysctls: {net.core.somaxconn: 1024}\n"
                                                   "    init: false\n"
                                                   "    tty: true\n"
                                                   "    stdin_open: true\n"
                                                   "    read_only: true\n"
                                                   "    stop_grace_period: 1m30s\n"
                                                   "    stop_signal: SIGINT\n"
                                                   "    dns: 1.1.1.1\n"
                                                   "    dns_search: [b, a]\n"
                                                   "    oom_score_adj: -5\n"
                                                   "    isolation: default\n"
                                                   "    x-anything: [1, {a: 3}]\n");
    assert_int_equal(project->warnings.count, 0);
    const struct compose_service *service = compose_service_find(project, "web-1");
    assert_ptr_equal(service, &project->services[0]);
    assert_null(compose_service_find(project, "web"));
    assert_string_equal(service->name, "web-1");
    assert_int_equal(service->place.line, 2);
    assert_int_equal(service->place.column, 3);
    assert_string_equal(service->image, "muster:latest");
    test_strings(&service->command, "sh,-c,echo \"a b\"");
    test_strings(&service->entrypoint, "/bin/x,y");
    assert_string_equal(service->hostname, "{{.Node.Hostname}}");
    assert_string_equal(service->user, "1:2");
    assert_string_equal(service->working_dir, "/w");
    assert_int_equal(service->labels.count, 2);
    assert_string_equal(service->labels.items[0].key, "a");
    assert_string_equal(service->labels.items[1].value, "");
    test_strings(&service->cap_add, "CAP_NET_RAW,CAP_SYS_ADMIN");
    test_strings(&service->cap_drop, "ALL");
    assert_string_equal(compose_pairs_find(&service->sysctls, "net.core.somaxconn"), "1024");
    assert_true(service->init.is_set && !service->init.value);
    assert_true(service->tty && service->stdin_open && service->read_only);
    assert_true(service->stop_grace_period_ns.is_set);
    assert_int_equal(service->stop_grace_period_ns.value, 90000000000);
    assert_string_equal(service->stop_signal, "SIGINT");
    test_strings(&service->dns, "1.1.1.1");
    test_strings(&service->dns_search, "b,a");
    assert_true(service->oom_score_adj.is_set);
    assert_int_equal(service->oom_score_adj.value, -5);
    assert_string_equal(service->isolation, "default");
    compose_project_free(project);
}

static void a_minimal_service_has_nothing_set(void **state)
{
    (void)state;
    struct compose_project *project = test_project(TEST_SERVICE(""));
    const struct compose_service *service = &project->services[0];
    assert_false(service->init.is_set || service->stop_grace_period_ns.is_set ||
                 service->oom_score_adj.is_set || service->healthcheck.is_set || service->logging.is_set ||
                 service->credential_spec.is_set);
    assert_int_equal(service->command.count + service->entrypoint.count + service->environment.count +
                         service->labels.count + service->mount_count + service->port_count +
                         service->cap_add.count,
                     0);
    assert_null(service->hostname);
    compose_project_free(project);
}

static void to_add_a_capability_beats_to_drop_it(void **state)
{
    (void)state;
    static const struct {
        const char *add, *drop, *added, *dropped;
    } caps[] = {
        {"[NET_RAW]", "[NET_RAW, CHOWN]", "CAP_NET_RAW", "CAP_CHOWN"},
        {"[ALL, NET_RAW]", "[CHOWN]", "ALL", "CAP_CHOWN"},
        {"[ALL]", "[ALL]", "ALL", ""},
        {"[setuid, SETGID, cap_net_raw]", "[ALL]", "CAP_NET_RAW,CAP_SETGID,CAP_SETUID", "ALL"},
        {"[]", "[]", "", ""},
    };
    for (size_t i = 0; i < MST_ARRAY_COUNT(caps); i++) {
        char text[256];
        (void)snprintf(text, sizeof text, TEST_SERVICE("    cap_add: %s\n    cap_drop: %s\n"), caps[i].add,
                       caps[i].drop);
        struct compose_project *project = test_project(text);
        test_strings(&project->services[0].cap_add, caps[i].added);
        test_strings(&project->services[0].cap_drop, caps[i].dropped);
        compose_project_free(project);
    }
}

static void what_docker_drops_in_silence_is_a_warning(void **state)
{
    (void)state;
    static const char *const keys[] = {
        "annotations",    "attach",         "blkio_config",     "build",
        "cgroup",         "cgroup_parent",  "cgroupns_mode",    "container_name",
        "cpu_count",      "cpu_percent",    "cpu_period",       "cpu_rt_period",
        "cpu_rt_runtime", "cpus",           "develop",          "device_cgroup_rules",
        "devices",        "dns_opt",        "domainname",       "expose",
        "external_links", "gpus",           "group_add",        "ipc",
        "links",          "mac_address",    "mem_reservation",  "mem_swappiness",
        "models",         "network_mode",   "oom_kill_disable", "pid",
        "pids_limit",     "platform",       "post_start",       "pre_stop",
        "privileged",     "profiles",       "provider",         "pull_policy",
        "runtime",        "security_opt",   "shm_size",         "storage_opt",
        "tmpfs",          "use_api_socket", "userns_mode",      "uts"};
    for (size_t i = 0; i < MST_ARRAY_COUNT(keys); i++) {
        char text[256], expected[256];
        (void)snprintf(text, sizeof text, TEST_SERVICE("    %s: {any: [thing]}\n"), keys[i]);
        (void)snprintf(expected, sizeof expected, "stack.yml:4:5: services.a.%s: ignored: ", keys[i]);
        struct compose_project *project = test_project(text);
        assert_int_equal(project->warnings.count, 1);
        if (strncmp(project->warnings.items[0], expected, strlen(expected)) != 0)
            fail_msg("%s", project->warnings.items[0]);
        compose_project_free(project);
    }
}

static void scale_is_another_word_for_replicas(void **state)
{
    (void)state;
    struct compose_project *project = test_project(TEST_SERVICE("    scale: 3\n"));
    assert_true(project->services[0].deploy.replicas.is_set);
    assert_int_equal(project->services[0].deploy.replicas.value, 3);
    assert_int_equal(project->warnings.count, 0);
    compose_project_free(project);
    project = test_project(TEST_SERVICE("    scale: 0\n    deploy: {replicas: 0}\n"));
    assert_int_equal(project->services[0].deploy.replicas.value, 0);
    compose_project_free(project);
    test_refused(TEST_SERVICE("    scale: 3\n    deploy: {replicas: 2}\n"),
                 "stack.yml:4:12: services.a.scale: deploy.replicas says 2");
    test_refused(TEST_SERVICE("    scale: 3\n    deploy: {mode: global}\n"),
                 "stack.yml:4:12: services.a.deploy.replicas: a global service runs once on each node");
    test_refused(TEST_SERVICE("    scale: some\n"),
                 "stack.yml:4:12: services.a.scale: 'some' is not a whole number");
}

static void forbidden_keys_are_errors_with_advice(void **state)
{
    (void)state;
    static const char *const keys[] = {"extends",    "volume_driver", "volumes_from", "cpu_quota",
                                       "cpu_shares", "cpuset",        "mem_limit",    "memswap_limit"};
    for (size_t i = 0; i < MST_ARRAY_COUNT(keys); i++) {
        char text[256], expected[256];
        struct compose_project *project = NULL;
        struct mst_error err = MST_ERROR_INIT;
        (void)snprintf(text, sizeof text, TEST_SERVICE("    %s: x\n"), keys[i]);
        (void)snprintf(expected, sizeof expected,
                       "stack.yml:4:5: services.a.%s: not supported in stacks: ", keys[i]);
        assert_int_equal(test_parse(text, &project, &err), -EBADMSG);
        if (strncmp(err.text, expected, strlen(expected)) != 0)
            fail_msg("%s", err.text);
    }
}

#define AT(column, path) "stack.yml:4:" column ": services.a" path ": "

static const struct {
    const char *line, *error;
} bad[] = {
    {"imagee: x", AT("5", "") "the key 'imagee' is not known: did you mean 'image'?"},
    {"enviroment: {}", AT("5", "") "the key 'enviroment' is not known: did you mean 'environment'?"},
    {"command: {a: b}", AT("14", ".command") "a mapping is not a list"},
    {"command: [1]", AT("15", ".command[0]") "'1' is a number here, not a text: put it in quotes"},
    {"command: \"a 'b\"", AT("14", ".command") "the command has a ' that is not closed"},
    {"entrypoint: 5", AT("17", ".entrypoint") "'5' is a number here, not a text: put it in quotes"},
    {"hostname: true", AT("15", ".hostname") "'true' is a truth value here, not a text: put it in quotes"},
    {"hostname: ", AT("14", ".hostname") "nothing stands here: it takes a text"},
    {"user: 1000", AT("11", ".user") "'1000' is a number here, not a text: put it in quotes"},
    {"working_dir: [x]", AT("18", ".working_dir") "a list is not a text"},
    {"labels: 5", AT("13", ".labels") "'5' is not a mapping or a list of NAME=VALUE"},
    {"read_only: yes", AT("16", ".read_only") "'yes' is not true or false"},
    {"read_only: 1", AT("16", ".read_only") "'1' is not true or false"},
    {"init: maybe", AT("11", ".init") "'maybe' is not true or false"},
    {"tty: {}", AT("10", ".tty") "a mapping is not true or false"},
    {"cap_add: NET_RAW", AT("14", ".cap_add") "'NET_RAW' is not a list"},
    {"cap_add: [x, x]", AT("18", ".cap_add[1]") "'x' stands twice in this list"},
    {"cap_add: ['NET RAW']", "stack.yml:2:3: services.a.cap_add: 'NET RAW' is not a capability"},
    {"dns: [[x]]", AT("11", ".dns[0]") "a list is not a text"},
    {"dns: 5", AT("10", ".dns") "'5' is a number here, not a text: put it in quotes"},
    {"sysctls: {a: {}}", AT("18", ".sysctls.a") "a mapping is not a text, a number or nothing"},
    {"stop_grace_period: 10",
     AT("24", ".stop_grace_period") "'10' is not a duration such as 90s, 1m30s or 250ms"},
    {"oom_score_adj: x", AT("20", ".oom_score_adj") "'x' is not a whole number"},
    {"restart: sometimes",
     AT("14", ".restart") "'sometimes' is none of: no, always, unless-stopped, on-failure[:N]"},
    {"restart: 'on-failure:'",
     AT("14", ".restart") "'on-failure:' is none of: no, always, unless-stopped, on-failure[:N]"},
    {"restart: on-failure:x",
     AT("14", ".restart") "'on-failure:x' is none of: no, always, unless-stopped, on-failure[:N]"},
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

static void images_and_names_are_checked(void **state)
{
    (void)state;
    test_refused("services: {a: {}}\n", "stack.yml:1:12: services.a: image is missing");
    test_refused("services: {a: {image: ''}}\n", "stack.yml:1:12: services.a: image is missing");
    test_refused("services: {a: {image: /x}}\n",
                 "stack.yml:1:12: services.a.image: '/x' is not an image reference");
    test_refused("services: {a: x}\n", "stack.yml:1:15: services.a: 'x' is not a mapping");
    test_refused("services: {a: }\n", "stack.yml:1:15: services.a: nothing stands here: it takes a mapping");
    test_refused("services: [a]\n", "stack.yml:1:11: services: a list is not a mapping");
    test_refused("services: {a.b: {image: x}}\n", "stack.yml:1:12: services.a.b: 'a.b' is not a service's "
                                                  "name: letters and digits, inside also - and _, "
                                                  "at most 63 in all");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_plain_key_of_a_service_is_read),
        cmocka_unit_test(a_minimal_service_has_nothing_set),
        cmocka_unit_test(to_add_a_capability_beats_to_drop_it),
        cmocka_unit_test(what_docker_drops_in_silence_is_a_warning),
        cmocka_unit_test(scale_is_another_word_for_replicas),
        cmocka_unit_test(forbidden_keys_are_errors_with_advice),
        cmocka_unit_test(bad_values_are_refused),
        cmocka_unit_test(images_and_names_are_checked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
