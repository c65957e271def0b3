/* SPDX-License-Identifier: Apache-2.0 */
#include "../common/test.h"
#include "compare.h"
#include "muster/json.h"

static void note(void *context, const char *path, const cJSON *desired, const cJSON *live)
{
    struct mst_buf *text = context;
    char a[64], b[64];

    compare_value_text(live, a, sizeof a);
    compare_value_text(desired, b, sizeof b);
    assert_int_equal(mst_buf_printf(text, "%s %s->%s;", path, a, b), 0);
}

static void services_differ_in_what_matters_only(void **state)
{
    static const struct {
        const char *desired, *live, *differences;
    } cases[] = {
        {"{}", "{}", ""},
        {"{\"Name\":\"a\"}", "{\"Name\":\"a\"}", ""},
        {"{\"Name\":\"a\"}", "{\"Name\":\"b\"}", "Name \"b\"->\"a\";"},
        /* what the engine fills in */
        {"{\"TaskTemplate\":{\"Resources\":{}},\"Mode\":{\"Replicated\":{}},\"EndpointSpec\":{}}",
         "{\"TaskTemplate\":{\"Resources\":{\"Limits\":{},\"Reservations\":{}},\"ForceUpdate\":0,\"Runtime\":"
         "\"container\",\"ContainerSpec\":{\"Isolation\":\"default\"}},\"Mode\":{\"Replicated\":{"
         "\"Replicas\":1}},"
         "\"EndpointSpec\":{\"Mode\":\"vip\"}}",
         ""},
        {"{\"UpdateConfig\":{\"Parallelism\":1,\"MaxFailureRatio\":0,\"Order\":\"\"}}",
         "{\"UpdateConfig\":{\"Parallelism\":1,\"FailureAction\":\"pause\",\"MaxFailureRatio\":0,\"Order\":"
         "\"stop-first\"}}",
         ""},
        {"{\"EndpointSpec\":{\"Ports\":[{\"TargetPort\":80}]}}",
         "{\"EndpointSpec\":{\"Mode\":\"vip\",\"Ports\":[{\"Protocol\":\"tcp\",\"TargetPort\":80,"
         "\"PublishMode\":\"ingress\"}]}}",
         ""},
        /* what only looks alike */
        {"{\"Mode\":{\"Replicated\":{\"Replicas\":2}}}", "{\"Mode\":{\"Replicated\":{\"Replicas\":1}}}",
         "Mode.Replicated.Replicas 1->2;"},
        {"{\"Mode\":{\"Global\":{}}}", "{\"Mode\":{\"Replicated\":{\"Replicas\":1}}}",
         "Mode {\"Replicated\":{\"Replicas\":1}}->{\"Global\":{}};"},
        {"{\"T\":{\"StopGracePeriod\":0}}", "{\"T\":{}}", "T.StopGracePeriod none->0;"},
        {"{\"Env\":[\"A=1\"]}", "{\"Env\":[\"A=1\",\"B=2\"]}", "Env [\"A=1\",\"B=2\"]->[\"A=1\"];"},
        {"{\"Env\":[\"A=1\",\"B=2\"]}", "{\"Env\":[\"B=2\",\"A=1\"]}",
         "Env[] \"B=2\"->\"A=1\";Env[] \"A=1\"->\"B=2\";"},
        {"{\"Labels\":{\"a\":\"1\"}}", "{\"Labels\":{\"b\":\"1\"}}",
         "Labels.a none->\"1\";Labels.b \"1\"->none;"},
        {"{\"EndpointSpec\":{}}", "{\"EndpointSpec\":{\"Mode\":\"dnsrr\"}}",
         "EndpointSpec.Mode \"dnsrr\"->none;"},
        {"{\"x\":{}}", "{\"x\":[1]}", "x [1]->{};"},
    };

    (void)state;
    for (size_t i = 0; i < MST_ARRAY_COUNT(cases); i++) {
        mst_cleanup(mst_json_deletep) cJSON *desired = cJSON_Parse(cases[i].desired);
        mst_cleanup(mst_json_deletep) cJSON *live = cJSON_Parse(cases[i].live);
        mst_cleanup(mst_buf_release) struct mst_buf text = MST_BUF_INIT(4096);
        const size_t count = compare_service(desired, live, note, &text);
        assert_string_equal(mst_buf_text(&text), cases[i].differences);
        assert_int_equal(count > 0, cases[i].differences[0] != '\0');
        assert_int_equal(compare_service(desired, live, NULL, NULL), count);
    }
}

static void large_numbers_are_numbers(void **state)
{
    mst_cleanup(mst_json_deletep) cJSON *desired = cJSON_CreateObject();
    mst_cleanup(mst_json_deletep) cJSON *live = cJSON_Parse("{\"Delay\":2000000000000000}");

    (void)state;
    assert_non_null(cJSON_AddRawToObject(desired, "Delay", "2000000000000000"));
    assert_int_equal(compare_service(desired, live, NULL, NULL), 0);
}

static void networks_may_have_more_than_the_file_says(void **state)
{
    static const struct {
        const char *desired, *live;
        size_t count;
    } cases[] = {
        {"{\"Name\":\"n\",\"Driver\":\"overlay\",\"IPAM\":{\"Config\":[{\"Subnet\":\"10.1.0.0/24\"}]}}",
         "{\"Name\":\"n\",\"Driver\":\"overlay\",\"Options\":{\"com.docker.network.driver.overlay.vxlanid_"
         "list\":\"4097\"},"
         "\"IPAM\":{\"Config\":[{\"Subnet\":\"10.1.0.0/24\",\"Gateway\":\"10.1.0.1\"}]}}",
         0},
        {"{\"Driver\":\"overlay\",\"IPAM\":{\"Config\":[{\"Subnet\":\"10.1.0.0/24\"}]}}",
         "{\"Driver\":\"overlay\",\"IPAM\":{\"Config\":[{\"Subnet\":\"10.2.0.0/24\"}]}}", 1},
        {"{\"Driver\":\"overlay\",\"Options\":{\"encrypted\":\"\"}}", "{\"Driver\":\"overlay\"}", 0},
        {"{\"Driver\":\"overlay\",\"Options\":{\"mtu\":\"1400\"}}", "{\"Driver\":\"overlay\",\"Options\":{}}",
         1},
        {"{\"Driver\":\"overlay\"}", "{\"Driver\":\"overlay\",\"Attachable\":true}", 1},
        {"{\"Driver\":\"overlay\"}", "{\"Driver\":\"overlay\",\"Attachable\":false,\"Internal\":false}", 0},
    };

    (void)state;
    for (size_t i = 0; i < MST_ARRAY_COUNT(cases); i++) {
        mst_cleanup(mst_json_deletep) cJSON *desired = cJSON_Parse(cases[i].desired);
        mst_cleanup(mst_json_deletep) cJSON *live = cJSON_Parse(cases[i].live);
        assert_int_equal(compare_network(desired, live, NULL, NULL), cases[i].count);
    }
}

static void values_are_cut_for_people(void **state)
{
    cJSON *value = cJSON_CreateString("0123456789012345");
    char text[12];

    (void)state;
    compare_value_text(value, text, sizeof text);
    assert_string_equal(text, "\"0123456...");
    compare_value_text(NULL, text, sizeof text);
    assert_string_equal(text, "none");
    cJSON_Delete(value);
}

static void line(void *context, const char *path, const cJSON *desired, const cJSON *live)
{
    compare_add_line(context, path, desired, live);
}

static void lines_say_what_the_engine_will_have(void **state)
{
    static const struct {
        const char *desired, *live, *lines;
    } cases[] = {
        {"{\"Mode\":{\"Replicated\":{}}}", "{\"Mode\":{\"Replicated\":{\"Replicas\":2}}}",
         "Mode.Replicated.Replicas: 2 -> 1\n"},
        {"{\"Mode\":{\"Replicated\":{\"Replicas\":0}}}", "{\"Mode\":{\"Replicated\":{}}}",
         "Mode.Replicated.Replicas: 1 -> 0\n"},
        {"{\"EndpointSpec\":{}}", "{\"EndpointSpec\":{\"Mode\":\"dnsrr\"}}",
         "EndpointSpec.Mode: \"dnsrr\" -> \"vip\"\n"},
        {"{\"Labels\":{\"a\":\"1\"}}", "{}", "Labels.a: none -> \"1\"\n"},
        /* a version that is to be made, and one that is there */
        {"{\"Configs\":[{\"ConfigID\":\"\",\"ConfigName\":\"c_2\"}]}",
         "{\"Configs\":[{\"ConfigID\":\"8n1\",\"ConfigName\":\"c\"}]}",
         "Configs[].ConfigName: \"c\" -> \"c_2\"\n"},
        {"{\"Secrets\":[{\"SecretID\":\"\",\"SecretName\":\"s_2\"}]}",
         "{\"Secrets\":[{\"SecretID\":\"8n1\",\"SecretName\":\"s\"}]}",
         "Secrets[].SecretName: \"s\" -> \"s_2\"\n"},
        {"{\"Configs\":[{\"ConfigID\":\"9x\"}]}", "{\"Configs\":[{\"ConfigID\":\"8n1\"}]}",
         "Configs[].ConfigID: \"8n1\" -> \"9x\"\n"},
    };

    (void)state;
    for (size_t i = 0; i < MST_ARRAY_COUNT(cases); i++) {
        mst_cleanup(mst_json_deletep) cJSON *desired = cJSON_Parse(cases[i].desired);
        mst_cleanup(mst_json_deletep) cJSON *live = cJSON_Parse(cases[i].live);
        mst_cleanup(mst_buf_release) struct mst_buf text = MST_BUF_INIT(4096);
        assert_true(compare_service(desired, live, line, &text) > 0);
        assert_string_equal(mst_buf_text(&text), cases[i].lines);
    }
}

static void one_difference_does_not_stand_for_all(void **state)
{
    static const struct {
        const char *lines, *text;
    } cases[] = {
        {"", ""},
        {"a: 1 -> 2\n", "a: 1 -> 2"},
        {"a: 1 -> 2\nb: 1 -> 2\n", "a: 1 -> 2, and 1 more"},
        {"a: 1 -> 2\nb: 1 -> 2\nc: 1 -> 2\nd: 1 -> 2\n", "a: 1 -> 2, and 3 more"},
    };
    char text[64];

    (void)state;
    for (size_t i = 0; i < MST_ARRAY_COUNT(cases); i++) {
        compare_short_text(cases[i].lines, text, sizeof text);
        assert_string_equal(text, cases[i].text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(services_differ_in_what_matters_only),
        cmocka_unit_test(large_numbers_are_numbers),
        cmocka_unit_test(networks_may_have_more_than_the_file_says),
        cmocka_unit_test(lines_say_what_the_engine_will_have),
        cmocka_unit_test(one_difference_does_not_stand_for_all),
        cmocka_unit_test(values_are_cut_for_people),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
