/* SPDX-License-Identifier: Apache-2.0 */
#include "../common/test.h"
#include "variables.h"

static const char nodes_text[] = "[{\"ID\":\"2\",\"Spec\":{\"Availability\":\"active\"},\"Description\":{"
                                 "\"Hostname\":\"b\"},\"Status\":{\"State\":\"ready\"}},"
                                 "{\"ID\":\"1\",\"Spec\":{\"Availability\":\"active\"},\"Description\":{"
                                 "\"Hostname\":\"a\"},\"Status\":{\"State\":\"ready\"}},"
                                 "{\"ID\":\"3\",\"Spec\":{\"Availability\":\"active\"},\"Description\":{"
                                 "\"Hostname\":\"aa\"},\"Status\":{\"State\":\"down\"}}]";

static void assert_value(const struct variables *variables, const char *name, const char *expected)
{
    const char *value = variables_find(name, (const char *const *)variables->items, NULL, NULL);

    if (expected)
        assert_string_equal(value, expected);
    else
        assert_null(value);
}

static void nodes_are_cycled_and_workers_spread(void **state)
{
    static const struct {
        unsigned workers;
        const char *replicas[3];
    } cases[] = {{3, {"1", "1", "1"}}, {1, {"1", "0", "0"}}, {5, {"2", "2", "1"}}, {2, {"1", "1", "0"}}};
    mst_cleanup(swarm_nodes_release) struct swarm_nodes nodes = {0};

    (void)state;
    assert_int_equal(swarm_nodes_take(cJSON_Parse(nodes_text), &nodes, NULL), 0);
    for (size_t i = 0; i < MST_ARRAY_COUNT(cases); i++) {
        mst_cleanup(variables_release) struct variables variables = {0};
        assert_int_equal(variables_fill("st", "a", &nodes, cases[i].workers, &variables, NULL), 0);
        assert_value(&variables, "MUSTER_STACK", "st");
        assert_value(&variables, "MUSTER_MANAGER", "a");
        assert_value(&variables, "MUSTER_NODE1", "a");
        assert_value(&variables, "MUSTER_NODE2", "b"); /* the one that is down is passed over */
        assert_value(&variables, "MUSTER_NODE3", "a");
        assert_value(&variables, "MUSTER_REPLICAS1", cases[i].replicas[0]);
        assert_value(&variables, "MUSTER_REPLICAS2", cases[i].replicas[1]);
        assert_value(&variables, "MUSTER_REPLICAS3", cases[i].replicas[2]);
        assert_value(&variables, "MUSTER_NODE", NULL);
    }
}

static void without_a_swarm_only_the_name_is_filled(void **state)
{
    mst_cleanup(variables_release) struct variables variables = {0}, none = {0};
    mst_cleanup(swarm_nodes_release) struct swarm_nodes nodes = {0};

    (void)state;
    assert_int_equal(variables_fill("st", NULL, NULL, 3, &variables, NULL), 0);
    assert_int_equal(variables.count, 1);
    assert_int_equal(swarm_nodes_take(cJSON_Parse("[]"), &nodes, NULL), 0);
    assert_int_equal(variables_fill("st", "a", &nodes, 3, &none, NULL), 0);
    assert_value(&none, "MUSTER_NODE1", NULL);
}

static void given_variables_have_names(void **state)
{
    static const struct {
        const char *text;
        int code;
    } cases[] = {{"A=1", 0},    {"_a1=", 0},     {"A=b=c", 0},      {"A", -EINVAL},
                 {"", -EINVAL}, {"=x", -EINVAL}, {"1A=x", -EINVAL}, {"A B=x", -EINVAL}};

    (void)state;
    for (size_t i = 0; i < MST_ARRAY_COUNT(cases); i++)
        assert_int_equal(variables_check(cases[i].text, NULL), cases[i].code);
}

static void private_names_are_known(void **state)
{
    (void)state;
    assert_true(variables_is_private("MUSTER_KEY=x"));
    assert_true(variables_is_private("my_password=x"));
    assert_true(variables_is_private("API_TOKEN"));
    assert_false(variables_is_private("MUSTER_EPOCHS=3"));
    assert_false(variables_is_private("A=SECRET")); /* the name counts */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nodes_are_cycled_and_workers_spread),
        cmocka_unit_test(without_a_swarm_only_the_name_is_filled),
        cmocka_unit_test(given_variables_have_names),
        cmocka_unit_test(private_names_are_known),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
