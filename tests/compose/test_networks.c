/* SPDX-License-Identifier: Apache-2.0 */
#include "test.h"

static void every_key_of_a_network_is_read(void **state)
{
    (void)state;
    struct compose_project *project = test_project(TEST_SERVICE(
        "    networks: [n]\n") "networks:\n"
                               "  n:\n"
                               "    name: custom\n"
                               "    driver: overlay\n"
                               "    driver_opts: {encrypted: '', com.docker.network.driver.mtu: 1400}\n"
                               "    attachable: true\n"
                               "    internal: true\n"
                               "    enable_ipv6: false\n"
                               "    labels: [a=b]\n"
                               "    ipam:\n"
                               "      driver: default\n"
                               "      config:\n"
                               "        - subnet: 192.168.0.0/24\n"
                               "          gateway: 192.168.0.1\n"
                               "          ip_range: 192.168.0.128/25\n"
                               "        - subnet: fd00::/64\n");
    assert_int_equal(project->warnings.count, 0);
    assert_int_equal(project->network_count, 1);
    const struct compose_network *network = &project->networks[0];
    assert_string_equal(network->name, "custom");
    assert_string_equal(network->driver, "overlay");
    assert_string_equal(compose_pairs_find(&network->driver_opts, "com.docker.network.driver.mtu"), "1400");
    assert_true(network->attachable && network->internal && network->is_used);
    assert_true(network->enable_ipv6.is_set && !network->enable_ipv6.value);
    assert_string_equal(network->ipam_driver, "default");
    assert_int_equal(network->subnet_count, 2);
    assert_string_equal(network->subnets[0].subnet, "192.168.0.0/24");
    assert_string_equal(network->subnets[0].gateway, "192.168.0.1");
    assert_string_equal(network->subnets[0].ip_range, "192.168.0.128/25");
    assert_string_equal(network->subnets[1].subnet, "fd00::/64");
    assert_ptr_equal(project->services[0].networks[0].network, network);
    compose_project_free(project);
}

static void a_service_without_networks_gets_the_default_one(void **state)
{
    (void)state;
    struct compose_project *project = test_project("services: {a: {image: x}, b: {image: x, networks: [n]}}\n"
                                                   "networks: {n: }\n");
    assert_int_equal(project->network_count, 2);
    const struct compose_network *network = &project->networks[1];
    assert_string_equal(network->key, "default");
    assert_true(network->is_default && network->is_used);
    assert_null(network->place.file);
    assert_int_equal(project->services[0].network_count, 1);
    assert_ptr_equal(project->services[0].networks[0].network, network);
    assert_int_equal(project->services[1].network_count, 1);
    compose_project_free(project);

    project = test_project("services: {b: {image: x, networks: [n]}}\nnetworks: {n: }\n");
    assert_int_equal(project->network_count, 1);
    compose_project_free(project);

    project = test_project(
        "services: {b: {image: x, networks: [default]}}\nnetworks: {default: {attachable: true}}\n");
    assert_int_equal(project->network_count, 1);
    assert_true(project->networks[0].is_default && project->networks[0].attachable);
    assert_int_equal(project->warnings.count, 0);
    compose_project_free(project);
}

static void attachments_are_sorted_by_the_networks_name(void **state)
{
    (void)state;
    static const char text[] =
        "services:\n"
        "  a: {image: x, networks: {c: {aliases: [q, p]}, a: , b: {driver_opts: {k: v}}}}\n"
        "networks: {a: {name: zz}, b: , c: }\n";
    struct compose_project *project = test_project(text);
    const struct compose_attachment *networks = project->services[0].networks;
    assert_string_equal(networks[0].network_key, "a"); /* no stack: by key */
    assert_string_equal(networks[1].network_key, "b");
    assert_string_equal(compose_pairs_find(&networks[1].driver_opts, "k"), "v");
    test_strings(&networks[2].aliases, "q,p");
    compose_project_free(project);

    const struct compose_options options = {.stack = "st"};
    struct mst_error err;
    assert_int_equal(compose_project_parse(text, strlen(text), "f", ".", &options, &project, &err), 0);
    networks = project->services[0].networks;
    assert_string_equal(networks[0].network->name, "st_b");
    assert_string_equal(networks[1].network->name, "st_c");
    assert_string_equal(networks[2].network->name, "zz");
    compose_project_free(project);
}

static void external_networks_have_a_name(void **state)
{
    (void)state;
    struct compose_project *project = test_project(
        TEST_SERVICE("    networks: [a, b, c]\n") "networks: {a: {external: true}, b: {external: {name: x}}, "
                                                  "c: {external: true, name: host}}\n");
    assert_string_equal(project->networks[0].name, "a");
    assert_string_equal(project->networks[1].name, "x");
    assert_string_equal(project->networks[2].name, "host");
    assert_true(project->networks[0].external && project->networks[1].external &&
                project->networks[2].external);
    compose_project_free(project);
}

static const struct {
    const char *text, *warning;
} warned[] = {
    {"services: {a: {image: b}}\nnetworks: {n: }\n",
     "stack.yml:2:12: networks.n: no service uses it, so that it is not made"},
    {TEST_SERVICE("    networks: {default: {ipv4_address: 10.0.0.5}}\n"),
     "stack.yml:4:26: services.a.networks.default.ipv4_address: ignored: swarm chooses the addresses of "
     "tasks"},
    {TEST_SERVICE("    networks: [n]\nnetworks: {n: {external: true, driver: x}}\n"),
     "stack.yml:5:12: networks.n: ignored but for its name: an external network is used as it is"},
    {TEST_SERVICE("    networks: [n]\nnetworks: {n: {ipam: {options: {a: b}}}}\n"),
     "stack.yml:5:23: networks.n.ipam.options: ignored: docker's stacks do not send them"},
};

static void what_has_no_effect_is_a_warning(void **state)
{
    (void)state;
    for (size_t i = 0; i < MST_ARRAY_COUNT(warned); i++) {
        struct compose_project *project = test_project(warned[i].text);
        test_strings(&project->warnings, warned[i].warning);
        compose_project_free(project);
    }
}

static const struct {
    const char *text, *error;
} bad[] = {
    {TEST_SERVICE("    networks: [nn]\nnetworks: {n1: }\n"),
     "stack.yml:4:16: services.a.networks: the network 'nn' is not declared at the top of the file: did you "
     "mean 'n1'?"},
    {TEST_SERVICE("    networks: n\n"),
     "stack.yml:4:15: services.a.networks: 'n' is not a list or a mapping of networks"},
    {TEST_SERVICE("    networks: {default: x}\n"),
     "stack.yml:4:25: services.a.networks.default: 'x' is not a mapping"},
    {TEST_SERVICE("    networks: {default: {alias: [x]}}\n"),
     "stack.yml:4:26: services.a.networks.default: the key 'alias' is not known: did you mean 'aliases'?"},
    {TEST_SERVICE("networks: {n: {ipam: {config: [{subnet: 300.0.0.0/24}]}}}\n"), NULL},
    {TEST_SERVICE("networks: {n: {ipam: {config: [{gateway: 10.0.0.1}]}}}\n"),
     "stack.yml:4:32: networks.n.ipam.config[0]: subnet is missing"},
    {TEST_SERVICE("networks: {n: {ipam: {config: {subnet: 10.0.0.0/8}}}}\n"),
     "stack.yml:4:31: networks.n.ipam.config: a mapping is not a list"},
    {TEST_SERVICE("networks: {n: {attachable: yes}}\n"),
     "stack.yml:4:28: networks.n.attachable: 'yes' is not true or false"},
    {TEST_SERVICE("networks: {n: {name: a.b}}\n"),
     "stack.yml:4:12: networks.n: 'a.b' is not a network's name: letters and digits, inside also - and _, at "
     "most 63 "
     "in all"},
    {TEST_SERVICE("networks: {n: {external: {name: x}, name: y}}\n"),
     "stack.yml:4:26: networks.n: external.name and name can't stand together"},
    {TEST_SERVICE("networks: {n: {external: 1}}\n"),
     "stack.yml:4:26: networks.n.external: '1' is not true or false"},
};

static void bad_networks_are_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < MST_ARRAY_COUNT(bad); i++) {
        if (bad[i].error) {
            test_refused(bad[i].text, bad[i].error);
            continue;
        }
        /* The rest of the text is common/'s. */
        struct compose_project *project = NULL;
        struct mst_error err;
        assert_int_equal(test_parse(bad[i].text, &project, &err), -EBADMSG);
        assert_non_null(strstr(err.text, "stack.yml:4:32: networks.n.ipam.config[0]: "));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_key_of_a_network_is_read),
        cmocka_unit_test(a_service_without_networks_gets_the_default_one),
        cmocka_unit_test(attachments_are_sorted_by_the_networks_name),
        cmocka_unit_test(external_networks_have_a_name),
        cmocka_unit_test(what_has_no_effect_is_a_warning),
        cmocka_unit_test(bad_networks_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
