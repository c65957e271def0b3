/* SPDX-License-Identifier: Apache-2.0 */
#include "test.h"

static const char *ports_text(const struct compose_service *service, char *text, size_t bytes)
{
    size_t used = 0;
    text[0] = '\0';
    for (size_t i = 0; i < service->port_count; i++) {
        const struct compose_port *port = &service->ports[i];
        int length =
            snprintf(text + used, bytes - used, "%s%u:%u/%s/%s", i ? " " : "", port->published, port->target,
                     port->protocol ? port->protocol : "-", port->mode ? port->mode : "-");
        assert_true(length > 0 && (size_t)length < bytes - used);
        used += (size_t)length;
    }
    return text;
}

static const struct {
    const char *ports, *expected;
    size_t warnings;
} good[] = {
    {"[]", "", 0},
    {"[80]", "0:80/tcp/ingress", 0},
    {"['80']", "0:80/tcp/ingress", 0},
    {"['8080:80']", "8080:80/tcp/ingress", 0},
    {"['53:53/UDP']", "53:53/udp/ingress", 0},
    {"['1:1/sctp']", "1:1/sctp/ingress", 0},
    {"['80-82']", "0:80/tcp/ingress 0:81/tcp/ingress 0:82/tcp/ingress", 0},
    {"['80-81:8080-8081']", "80:8080/tcp/ingress 81:8081/tcp/ingress", 0},
    {"['80-82:8080']", "80:8080/tcp/ingress 81:8080/tcp/ingress 82:8080/tcp/ingress", 0},
    {"['127.0.0.1:80:81']", "80:81/tcp/ingress", 1},
    {"['127.0.0.1::81']", "0:81/tcp/ingress", 1},
    {"['[::1]:80:81']", "80:81/tcp/ingress", 1},
    {"[{target: 80}]", "0:80/-/-", 0},
    {"[{target: 80, published: 81, protocol: udp, mode: host}]", "81:80/udp/host", 0},
    {"[{target: 80, published: '81'}]", "81:80/-/-", 0},
    {"[{target: 80, published: ~, name: web}]", "0:80/-/-", 1},
    /* Sorted by published, target, protocol, mode; equal ones are one. */
    {"['90:9', '80:8', 3000, 2000, '80:8']",
     "0:3000/tcp/ingress 0:2000/tcp/ingress 80:8/tcp/ingress 90:9/tcp/ingress", 1},
    /* docker sorts by the published port alone */
    {"['53:53/udp', '53:53/tcp']", "53:53/udp/ingress 53:53/tcp/ingress", 0},
    {"['53:53/tcp', '53:52/udp']", "53:53/tcp/ingress 53:52/udp/ingress", 0},
};

static void every_form_of_a_port_is_read(void **state)
{
    (void)state;
    for (size_t i = 0; i < MST_ARRAY_COUNT(good); i++) {
        char text[512], got[512];
        (void)snprintf(text, sizeof text, TEST_SERVICE("    ports: %s\n"), good[i].ports);
        struct compose_project *project = test_project(text);
        assert_string_equal(ports_text(&project->services[0], got, sizeof got), good[i].expected);
        assert_int_equal(project->warnings.count, good[i].warnings);
        compose_project_free(project);
    }
}

#define AT       "stack.yml:4:13: services.a.ports[0]: "
#define BAD_FORM " is not [PUBLISHED:]TARGET[/PROTOCOL] with ports from 1 to 65535"

static const struct {
    const char *ports, *error;
} bad[] = {
    {"80", "stack.yml:4:12: services.a.ports: '80' is not a list"},
    {"['']", AT "''" BAD_FORM},
    {"['x']", AT "'x'" BAD_FORM},
    {"['0']", AT "'0'" BAD_FORM},
    {"['-1']", AT "'-1'" BAD_FORM},
    {"['65536']", AT "'65536'" BAD_FORM},
    {"['80:65536']", AT "'80:65536'" BAD_FORM},
    {"['80:']", AT "'80:'" BAD_FORM},
    {"['82-80']", AT "'82-80'" BAD_FORM},
    {"['1-2-3']", AT "'1-2-3'" BAD_FORM},
    {"['80 :80']", AT "'80 :80'" BAD_FORM},
    {"['host:80:80']", AT "'host:80:80'" BAD_FORM},
    {"['80/xyz']", AT "'80/xyz': the protocol is none of tcp, udp and sctp"},
    {"['80-82:8080-8081']", AT "'80-82:8080-8081': the two ranges are of different lengths"},
    {"['1-60000']", AT "more than 4096 ports"},
    {"[~]", AT "nothing stands here: it takes a port or a mapping with target, published, protocol and mode"},
    {"[true]", AT "'true' is not a port or a mapping with target, published, protocol and mode"},
    {"[[80]]", AT "a list is not a port or a mapping with target, published, protocol and mode"},
    {"[{published: 80}]", AT "target is missing"},
    {"[{target: x}]", "stack.yml:4:22: services.a.ports[0].target: 'x' is not a whole number"},
    {"[{target: 70000}]", "stack.yml:4:22: services.a.ports[0].target: '70000' is not between 0 and 65535"},
    {"[{target: 1, mode: hots}]",
     "stack.yml:4:31: services.a.ports[0].mode: 'hots' is none of: ingress, host"},
    {"[{target: 1, publish: 2}]",
     "stack.yml:4:25: services.a.ports[0]: the key 'publish' is not known: did you mean 'published'?"},
    {"['80:1', '80:2']", "stack.yml:4:21: services.a.ports: port 80/tcp is published twice"},
};

static void bad_ports_are_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < MST_ARRAY_COUNT(bad); i++) {
        char text[512];
        (void)snprintf(text, sizeof text, TEST_SERVICE("    ports: %s\n"), bad[i].ports);
        test_refused(text, bad[i].error);
    }
}

static void a_port_belongs_to_one_service(void **state)
{
    (void)state;
    test_refused("services:\n"
                 "  a: {image: x, ports: ['80:1']}\n"
                 "  b: {image: x, ports: ['80:2']}\n",
                 "stack.yml:3:25: services.b.ports: port 80/tcp is published by service 'a' already");
    compose_project_free(test_project("services:\n"
                                      "  a: {image: x, ports: ['80:1', 5, 6]}\n"
                                      "  b: {image: x, ports: ['80:2/udp', 5]}\n"
                                      "  c: {image: x, ports: [{target: 1, published: 80, mode: host}]}\n"));
}

static void dnsrr_has_no_ingress(void **state)
{
    (void)state;
    test_refused(TEST_SERVICE("    deploy: {endpoint_mode: dnsrr}\n    ports: ['80:1']\n"),
                 "stack.yml:5:13: services.a.ports: endpoint_mode dnsrr has no ingress: publish port 1 with "
                 "mode: host");
    test_refused(TEST_SERVICE("    deploy: {endpoint_mode: dnsrr}\n    ports: [{target: 1}]\n"),
                 "stack.yml:5:13: services.a.ports: endpoint_mode dnsrr has no ingress: publish port 1 with "
                 "mode: host");
    compose_project_free(test_project(TEST_SERVICE(
        "    deploy: {endpoint_mode: dnsrr}\n    ports: [{target: 1, published: 80, mode: host}]\n")));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_form_of_a_port_is_read),
        cmocka_unit_test(bad_ports_are_refused),
        cmocka_unit_test(a_port_belongs_to_one_service),
        cmocka_unit_test(dnsrr_has_no_ingress),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
