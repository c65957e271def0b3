/* SPDX-License-Identifier: Apache-2.0 */
#include "../common/test.h"
#include "check.h"
#include "stack.h"

static const char nodes_text[] = "[{\"ID\":\"n1\",\"Spec\":{\"Availability\":\"active\"},\"Description\":{"
                                 "\"Hostname\":\"a\"},\"Status\":{\"State\":\"ready\"}},"
                                 "{\"ID\":\"n2\",\"Spec\":{\"Availability\":\"active\"},\"Description\":{"
                                 "\"Hostname\":\"twin\"},\"Status\":{\"State\":\"ready\"}},"
                                 "{\"ID\":\"n3\",\"Spec\":{\"Availability\":\"active\"},\"Description\":{"
                                 "\"Hostname\":\"twin\"},\"Status\":{\"State\":\"ready\"}},"
                                 "{\"ID\":\"n4\",\"Spec\":{\"Availability\":\"drain\"},\"Description\":{"
                                 "\"Hostname\":\"away\"},\"Status\":{\"State\":\"ready\"}}]";

/* A project of one service with these lines under `deploy:` and at the service. */
static struct compose_project *project_of(const char *deploy, const char *more)
{
    const struct compose_options options = {.stack = "st"};
    struct compose_project *project = NULL;
    struct mst_error err = MST_ERROR_INIT;
    char text[1024];

    (void)snprintf(text, sizeof text, "services:\n  web:\n    image: 'i:1'\n    deploy: {%s}\n%s", deploy,
                   more);
    if (compose_project_parse(text, strlen(text), "st.yml", "/", &options, &project, &err) < 0)
        fail_msg("%s\n%s", err.text, text);
    return project;
}

static void pins_meet_exactly_one_usable_node(void **state)
{
    static const struct {
        const char *deploy;
        int code;
        const char *text;
    } cases[] = {
        {"placement: {constraints: ['node.hostname == a']}", 0, NULL},
        {"placement: {constraints: ['node.id == n2']}", 0, NULL},
        {"placement: {constraints: ['node.hostname == b']}", SWARM_NO_CONVERGENCE,
         "st.yml:2:3: services.web: no node has node.hostname 'b' (ready nodes: a, twin, twin)"},
        {"placement: {constraints: ['node.hostname == twin']}", SWARM_NO_CONVERGENCE,
         "services.web: 2 nodes have node.hostname 'twin'; pin by node.id or a label"},
        {"placement: {constraints: ['node.hostname == away']}", SWARM_NO_CONVERGENCE,
         "the node with node.hostname 'away' is not ready or not active"},
        {"placement: {constraints: ['node.hostname != a']}", 0, NULL},
        {"placement: {constraints: ['node.labels.gpu == yes']}", SWARM_NO_CONVERGENCE,
         "services.web: none of the 3 ready nodes meets 'node.labels.gpu == yes'"},
        {"placement: {constraints: ['node.hostname != a', 'node.labels.gpu == yes']}", SWARM_NO_CONVERGENCE,
         "st.yml:4:62: services.web: none of the 3 ready nodes meets 'node.labels.gpu == yes'"},
        {"placement: {constraints: ['node.hostname == a', 'node.id != n1']}", SWARM_NO_CONVERGENCE,
         "st.yml:4:40: services.web: none of the 3 ready nodes meets all of 'node.hostname == a' and "
         "'node.id != n1'"},
        {"mode: global, placement: {constraints: ['node.labels.gpu == yes']}", 0, NULL},
        {"replicas: 0, placement: {constraints: ['node.hostname == b']}", 0, NULL},
    };
    mst_cleanup(swarm_nodes_release) struct swarm_nodes nodes = {0};

    (void)state;
    assert_int_equal(swarm_nodes_take(cJSON_Parse(nodes_text), &nodes, NULL), 0);
    for (size_t i = 0; i < MST_ARRAY_COUNT(cases); i++) {
        mst_cleanup(compose_project_freep) struct compose_project *project = project_of(cases[i].deploy, "");
        struct mst_error err = MST_ERROR_INIT;
        const int r = check_pins(project, &nodes, &err);
        if (r != cases[i].code || (cases[i].text && !strstr(err.text, cases[i].text)))
            fail_msg("%s: %d, '%s'", cases[i].deploy, r, err.text);
    }
}

static void lists_that_do_not_fit_say_how_many_are_left_out(void **state)
{
    mst_cleanup(mst_buf_release) struct mst_buf text = MST_BUF_INIT(1 << 16);
    mst_cleanup(swarm_nodes_release) struct swarm_nodes nodes = {0};
    struct mst_error err = MST_ERROR_INIT;

    (void)state;
    for (int i = 0; i < 100; i++)
        assert_int_equal(
            mst_buf_printf(&text,
                           "%s{\"ID\":\"n%d\",\"Spec\":{\"Availability\":\"active\"},"
                           "\"Description\":{\"Hostname\":\"host-%03d\"},\"Status\":{\"State\":\"ready\"}}",
                           i > 0 ? "," : "[", i, i),
            0);
    assert_int_equal(mst_buf_append_text(&text, "]"), 0);
    assert_int_equal(swarm_nodes_take(cJSON_Parse(mst_buf_text(&text)), &nodes, NULL), 0);
    mst_cleanup(compose_project_freep) struct compose_project *project =
        project_of("placement: {constraints: ['node.hostname == b']}", "");
    assert_int_equal(check_pins(project, &nodes, &err), SWARM_NO_CONVERGENCE);
    /* 8 bytes for the first, 10 for each of the others. */
    if (!strstr(err.text, "host-049, host-050 and 49 more)"))
        fail_msg("%s", err.text);
}

static void what_the_engine_would_refuse_is_known(void **state)
{
    static const struct {
        const char *deploy, *more;
        int code;
        const char *text;
    } cases[] = {
        {"placement: {constraints: ['node.role==worker', 'node.labels.a!=b']}", "", 0, NULL},
        {"placement: {constraints: ['node.hostnam == x']}", "", -EBADMSG, "a node has no 'node.hostnam'"},
    };

    (void)state;
    for (size_t i = 0; i < MST_ARRAY_COUNT(cases); i++) {
        mst_cleanup(compose_project_freep) struct compose_project *project =
            project_of(cases[i].deploy, cases[i].more);
        struct mst_error err = MST_ERROR_INIT;
        const int r = check_project(project, &err);
        if (r != cases[i].code || (cases[i].text && !strstr(err.text, cases[i].text)))
            fail_msg("%s: %d, '%s'", cases[i].deploy, r, err.text);
        if (r < 0)
            assert_non_null(strstr(err.text, "st.yml:"));
    }
}

static void overlapping_subnets_are_refused_with_a_free_one(void **state)
{
    static const char more[] =
        "    networks: [n]\nnetworks: {n: {ipam: {config: [{subnet: 192.168.0.0/24}]}}}\n";
    mst_cleanup(compose_project_freep) struct compose_project *project = project_of("", more);
    mst_cleanup(subnets_release) struct subnets used = {0};
    mst_cleanup(live_release) struct live live = {.networks = cJSON_Parse("[]")};
    struct mst_error err = MST_ERROR_INIT;

    (void)state;
    assert_int_equal(check_subnets(project, &live, &used, &err), 0);
    subnets_release(&used); /* it holds the new subnet now */
    assert_int_equal(subnets_add_routes(&used, "eth0\t0000A8C0\t0\t0001\t0\t0\t0\t0000FFFF\t0\t0\t0\n", NULL),
                     0);
    assert_int_equal(check_subnets(project, &live, &used, &err), -EADDRINUSE);
    assert_non_null(strstr(err.text,
                           "networks.n: subnet 192.168.0.0/24 overlaps a route of this machine over 'eth0' "
                           "(192.168.0.0/16); 172.16.0.0/24 is free"));
    /* The stack's own network is no obstacle to itself. */
    cJSON_Delete(live.networks);
    live.networks = cJSON_Parse("[{\"Name\":\"st_n\",\"Id\":\"x\"}]");
    assert_int_equal(check_subnets(project, &live, &used, &err), 0);
}

static void two_networks_of_one_file_must_not_overlap(void **state)
{
    static const char more[] = "    networks: [n, m]\n"
                               "networks:\n"
                               "  n: {ipam: {config: [{subnet: 192.168.0.0/24}]}}\n"
                               "  m: {ipam: {config: [{subnet: 192.168.0.128/25}]}}\n";
    mst_cleanup(compose_project_freep) struct compose_project *project = project_of("", more);
    mst_cleanup(subnets_release) struct subnets used = {0};
    mst_cleanup(live_release) struct live live = {.networks = cJSON_Parse("[]")};
    struct mst_error err = MST_ERROR_INIT;

    (void)state;
    assert_int_equal(check_subnets(project, &live, &used, &err), -EADDRINUSE);
    assert_non_null(strstr(err.text, "overlaps network 'st_n'"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pins_meet_exactly_one_usable_node),
        cmocka_unit_test(lists_that_do_not_fit_say_how_many_are_left_out),
        cmocka_unit_test(what_the_engine_would_refuse_is_known),
        cmocka_unit_test(overlapping_subnets_are_refused_with_a_free_one),
        cmocka_unit_test(two_networks_of_one_file_must_not_overlap),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
