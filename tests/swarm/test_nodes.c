/* SPDX-License-Identifier: Apache-2.0 */
#include "../common/test.h"
#include "nodes.h"

static const char three_nodes[] =
    "[{\"ID\":\"n2\",\"Spec\":{\"Role\":\"worker\",\"Availability\":\"active\",\"Labels\":{\"rack\":\"B\"}},"
    "\"Description\":{\"Hostname\":\"beta\",\"Platform\":{\"OS\":\"linux\",\"Architecture\":\"x86_64\"},"
    "\"Engine\":{\"Labels\":{\"disk\":\"ssd\"}}},\"Status\":{\"State\":\"ready\",\"Addr\":\"10.1.0.2\"}},"
    "{\"ID\":\"n1\",\"Spec\":{\"Role\":\"manager\",\"Availability\":\"active\"},\"Description\":{"
    "\"Hostname\":\"alpha\"},"
    "\"Status\":{\"State\":\"ready\",\"Addr\":\"10.1.0.1\"}},"
    "{\"ID\":\"n3\",\"Spec\":{\"Role\":\"worker\",\"Availability\":\"drain\"},\"Description\":{\"Hostname\":"
    "\"gamma\"},"
    "\"Status\":{\"State\":\"ready\",\"Addr\":\"10.2.0.3\"}}]";

static void load(struct swarm_nodes *nodes)
{
    assert_int_equal(swarm_nodes_take(cJSON_Parse(three_nodes), nodes, NULL), 0);
}

static void nodes_are_sorted_and_judged(void **state)
{
    mst_cleanup(swarm_nodes_release) struct swarm_nodes nodes = {0};

    (void)state;
    load(&nodes);
    assert_int_equal(nodes.count, 3);
    assert_int_equal(nodes.usable_count, 2);
    assert_string_equal(nodes.items[0].hostname, "alpha");
    assert_true(nodes.items[0].is_manager);
    assert_false(nodes.items[2].is_usable);
    assert_string_equal(swarm_nodes_find(&nodes, "n2")->hostname, "beta");
    assert_null(swarm_nodes_find(&nodes, "n9"));
}

static void replies_without_the_usual_keys_are_survived(void **state)
{
    static const char *const replies[] = {
        "[]", "[{}]", "[5,null,\"x\"]", "{}",
        "[{\"ID\":5,\"Spec\":[],\"Status\":\"ready\",\"Description\":{\"Hostname\":{}}}]"};

    (void)state;
    for (size_t i = 0; i < MST_ARRAY_COUNT(replies); i++) {
        mst_cleanup(swarm_nodes_release) struct swarm_nodes nodes = {0};
        assert_int_equal(swarm_nodes_take(cJSON_Parse(replies[i]), &nodes, NULL), 0);
        assert_int_equal(nodes.usable_count, 0);
    }
}

static void constraints_choose_nodes(void **state)
{
    static const struct {
        const char *text;
        const char *nodes; /* which of alpha, beta, gamma; NULL: refused */
    } cases[] = {
        {"node.hostname == beta", "b"},
        {"node.hostname==BETA", "b"},
        {"node.hostname != beta", "ag"},
        {"node.id == n1", "a"},
        {"node.role==manager", "a"},
        {"node.role != manager", "bg"},
        {"node.labels.rack == b", "b"},
        {"node.labels.rack != B", "ag"},
        {"engine.labels.disk == ssd", "b"},
        {"node.platform.os==linux", "b"},
        {"node.platform.arch == x86_64", "b"},
        {"node.ip == 10.1.0.0/16", "ab"},
        {"node.ip != 10.1.0.0/16", "g"},
        {"node.ip == 10.2.0.3", "g"},
        {"node=foo", NULL},
        {"node.hostname", NULL},
        {"== a", NULL},
        {"node.hostname ==", NULL},
        {"node.name == a", NULL},
        {"", NULL},
    };

    (void)state;
    for (size_t i = 0; i < MST_ARRAY_COUNT(cases); i++) {
        mst_cleanup(swarm_nodes_release) struct swarm_nodes nodes = {0};
        struct mst_error err = MST_ERROR_INIT;
        struct constraint constraint;
        char allowed[4] = "";
        load(&nodes);
        if (!cases[i].nodes) {
            assert_int_equal(constraint_parse(cases[i].text, &constraint, &err), -EINVAL);
            assert_non_null(strstr(err.text, cases[i].text));
            continue;
        }
        assert_int_equal(constraint_parse(cases[i].text, &constraint, NULL), 0);
        for (size_t n = 0; n < nodes.count; n++) {
            if (constraint_allows(&constraint, &nodes.items[n]))
                strncat(allowed, nodes.items[n].hostname, 1);
        }
        if (strcmp(allowed, cases[i].nodes) != 0)
            fail_msg("%s: %s", cases[i].text, allowed);
    }
}

static void only_usable_nodes_are_counted(void **state)
{
    static const char *const texts[] = {"node.role == worker", "node.hostname != alpha"};
    mst_cleanup(swarm_nodes_release) struct swarm_nodes nodes = {0};
    struct compose_strings constraints = {NULL, 0};

    (void)state;
    load(&nodes);
    assert_int_equal(constraints_count_nodes(&constraints, &nodes), 2);
    constraints = (struct compose_strings){(const char **)(uintptr_t)texts, 2};
    assert_int_equal(constraints_count_nodes(&constraints, &nodes), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nodes_are_sorted_and_judged),
        cmocka_unit_test(replies_without_the_usual_keys_are_survived),
        cmocka_unit_test(constraints_choose_nodes),
        cmocka_unit_test(only_usable_nodes_are_counted),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
