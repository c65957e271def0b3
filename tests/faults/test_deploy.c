/* SPDX-License-Identifier: Apache-2.0 */
/* Deployments on an engine that fails in the middle. */
#include "apply.h"
#include "deploy_bench.h"
#include "muster/json.h"
#include "remove.h"
#include "stack.h"

static const char file[] = "version: '3.8'\n"
                           "services:\n"
                           "  a: {image: 'img:1', networks: [inner], secrets: [key]}\n"
                           "  b: {image: 'img:1', networks: [inner], configs: [model]}\n"
                           "  c: {image: 'img:1', networks: [inner], ports: ['8080:80']}\n"
                           "networks: {inner: {ipam: {config: [{subnet: 198.18.7.0/24}]}}}\n"
                           "configs: {model: {content: 'layers'}}\n"
                           "secrets: {key: {external: true, name: st_key, x-muster-generate: 32}}\n";

static size_t count_all(struct bench *bench)
{
    return fake_engine_objects(bench->fake, "services") + fake_engine_objects(bench->fake, "networks") +
           fake_engine_objects(bench->fake, "secrets") + fake_engine_objects(bench->fake, "configs");
}

static void a_deployment_makes_each_object_once_and_attaches_by_id(void **state)
{
    struct bench bench;
    mst_cleanup(mst_json_deletep) cJSON *service = NULL, *secret = NULL;

    (void)state;
    open_bench(&bench, file, NULL, 0);
    if (deploy(&bench) < 0)
        fail_msg("%s", bench.err.text);
    assert_int_equal(fake_engine_objects(bench.fake, "services"), 3);
    assert_int_equal(count_all(&bench), 6);
    service = fake_engine_body(bench.fake, "POST /services/create");
    assert_string_equal(
        mst_json_string_or(cJSON_GetArrayItem(mst_json_at(service, "TaskTemplate", "Networks", NULL), 0),
                           "Target", ""),
        "id1");
    secret = fake_engine_body(bench.fake, "POST /secrets/create");
    assert_string_equal(mst_json_string_or(secret, "Name", ""), "st_key");
    assert_int_equal(strlen(mst_json_string_or(secret, "Data", "")), 44); /* 32 bytes */
    /* It is kept from then on, and listed as everything else is. */
    mst_cleanup(plan_release) struct plan plan = {0};
    const struct plan_options again = {.resolve = IMAGE_NEVER};
    assert_int_equal(plan_make(&bench.session, bench.project, &again, &plan, &bench.err), 0);
    assert_int_equal(plan.count, 6);
    for (size_t i = 0; i < plan.count; i++)
        assert_int_equal(plan.steps[i].action, PLAN_KEEP);
    /* Once more: nothing is written but the question whether the secret is the same, which a generated one
     * needs not. */
    assert_int_equal(deploy(&bench), 0);
    assert_int_equal(fake_engine_count(bench.fake, "POST "), 6);
    (void)fflush(bench.log);
    assert_null(strstr(bench.log_text, mst_json_string_or(secret, "Data", "")));
    close_bench(&bench);
}

static void a_refused_second_service_leaves_nothing(void **state)
{
    struct fake_rule rule = {
        "POST", "/services/create", 2, 1, FAKE_REFUSE, 409, "name conflicts with an existing object", 0};
    struct bench bench;

    (void)state;
    open_bench(&bench, file, &rule, 1);
    assert_int_equal(deploy(&bench), -EREMOTEIO);
    assert_non_null(
        strstr(bench.err.text, "POST /v1.43/services/create (service 'st_b'): 409 Conflict: name conflicts"));
    assert_int_equal(count_all(&bench), 0);
    close_bench(&bench);
}

static void what_cannot_be_undone_is_named(void **state)
{
    struct fake_rule rules[] = {
        {"POST", "/services/create", 2, 1, FAKE_REFUSE, 500, "no more", 0},
        {"DELETE", "/secrets/*", 0, 0, FAKE_CLOSE, 0, NULL, 0},
    };
    struct bench bench;

    (void)state;
    open_bench(&bench, file, rules, MST_ARRAY_COUNT(rules));
    assert_int_equal(deploy(&bench), -EREMOTEIO);
    assert_non_null(strstr(bench.err.text, "left standing: secret st_key"));
    assert_int_equal(count_all(&bench), 1);
    close_bench(&bench);
}

static void a_lost_reply_to_a_create_is_looked_up(void **state)
{
    struct fake_rule rule = {"POST", "/services/create", 2, 1, FAKE_CUT, 0, NULL, 0};
    struct bench bench;

    (void)state;
    open_bench(&bench, file, &rule, 1);
    if (deploy(&bench) < 0)
        fail_msg("%s", bench.err.text);
    assert_int_equal(fake_engine_objects(bench.fake, "services"), 3);
    assert_int_equal(fake_engine_count(bench.fake, "POST /services/create"), 3);
    close_bench(&bench);
}

static void a_create_that_did_not_happen_is_a_failure(void **state)
{
    struct fake_rule rule = {"POST", "/services/create", 2, 1, FAKE_CLOSE, 0, NULL, 0};
    struct bench bench;

    (void)state;
    open_bench(&bench, file, &rule, 1);
    assert_int_equal(deploy(&bench), -EPROTO);
    assert_int_equal(count_all(&bench), 0);
    close_bench(&bench);
}

/* The same stack with another image: each service is to be updated. */
static void change_image(struct bench *bench)
{
    for (size_t i = 0; i < bench->project->service_count; i++)
        bench->project->services[i].image = "img:2";
}

static void an_update_out_of_sequence_is_tried_again(void **state)
{
    struct fake_rule rule = {"POST",
                             "/services/id4/update",
                             1,
                             1,
                             FAKE_REFUSE,
                             500,
                             "rpc error: code = Unknown desc = update out of sequence",
                             0};
    struct bench bench;

    (void)state;
    open_bench(&bench, file, &rule, 1);
    assert_int_equal(deploy(&bench), 0);
    change_image(&bench);
    if (deploy(&bench) < 0)
        fail_msg("%s", bench.err.text);
    assert_int_equal(fake_engine_count(bench.fake, "POST /services/id4/update"), 2);
    assert_int_equal(fake_engine_count(bench.fake, "POST /services/id5/update"), 1);
    close_bench(&bench);
}

static void an_update_that_stays_out_of_sequence_is_refused(void **state)
{
    struct fake_rule rule = {"POST", "/services/*", 4, 0, FAKE_REFUSE, 500, "update out of sequence", 0};
    struct bench bench;

    (void)state;
    open_bench(&bench, file, &rule, 1);
    assert_int_equal(deploy(&bench), 0);
    change_image(&bench);
    assert_int_equal(deploy(&bench), -EREMOTEIO);
    assert_int_equal(swarm_exit_status(-EREMOTEIO, 0), MST_EXIT_REFUSED);
    assert_int_equal(fake_engine_count(bench.fake, "POST /services/id4/update"), 4);
    assert_int_equal(fake_engine_objects(bench.fake, "services"), 3);
    close_bench(&bench);
}

static void checks_come_before_the_first_write(void **state)
{
    static const struct {
        const char *list, *json, *text;
        int code;
    } cases[] = {
        {"networks",
         "{\"Name\":\"other\",\"Id\":\"o\",\"IPAM\":{\"Config\":[{\"Subnet\":\"198.18.0.0/16\"}]}}",
         "subnet 198.18.7.0/24 overlaps network 'other' (198.18.0.0/16); ", -EADDRINUSE},
        {"configs",
         "{\"ID\":\"c\",\"Spec\":{\"Name\":\"st_model\",\"Data\":\"b3RoZXI=\",\"Labels\":{\"com.docker.stack."
         "namespace\":\"theirs\"}}}",
         "st.yml:7:11: configs.model: there is a config 'st_model' already, which belongs to stack 'theirs'",
         -EEXIST},
        {"services", "{\"ID\":\"s\",\"Spec\":{\"Name\":\"st_b\"}}",
         "services.b: there is a service 'st_b' already, which belongs to no stack", -EEXIST},
        {"networks", "{\"Id\":\"s\",\"Name\":\"st_inner\",\"Scope\":\"swarm\"}",
         "networks.inner: there is a network 'st_inner' already, which belongs to no stack", -EEXIST},
        {"services",
         "{\"ID\":\"s\",\"Spec\":{\"Name\":\"web\"},\"Endpoint\":{\"Ports\":[{\"Protocol\":\"tcp\","
         "\"PublishedPort\":8080,\"PublishMode\":\"ingress\"}]}}",
         "services.c.ports: port 8080/tcp is published by service 'web' already", -EADDRINUSE},
        {"services",
         "{\"ID\":\"s\",\"Spec\":{\"Name\":\"st_a\",\"Labels\":{\"com.docker.stack.namespace\":\"st\"},"
         "\"Mode\":{\"Global\":{}}}}",
         "services.a.deploy.mode: the live service is global, and no service can become replicated",
         -EREMOTEIO},
    };

    (void)state;
    for (size_t i = 0; i < MST_ARRAY_COUNT(cases); i++) {
        struct bench bench;
        open_bench(&bench, file, NULL, 0);
        fake_engine_add(bench.fake, cases[i].list, cases[i].json);
        assert_int_equal(deploy(&bench), cases[i].code);
        if (!strstr(bench.err.text, cases[i].text))
            fail_msg("%s", bench.err.text);
        assert_int_equal(fake_engine_count(bench.fake, "POST "), 0);
        assert_int_equal(fake_engine_count(bench.fake, "DELETE "), 0);
        close_bench(&bench);
    }
}

static void services_are_made_after_those_that_they_depend_on(void **state)
{
    mst_cleanup(mst_json_deletep) cJSON *last = NULL;
    struct bench bench;

    (void)state;
    open_bench(&bench, file, NULL, 0);
    set_file(&bench, "services:\n"
                     "  c: {image: 'i:1', depends_on: [b]}\n"
                     "  b: {image: 'i:1', depends_on: {a: {condition: service_healthy}}}\n"
                     "  a: {image: 'i:1'}\n");
    assert_int_equal(deploy(&bench), 0);
    last = fake_engine_body(bench.fake, "POST /services/create");
    assert_string_equal(mst_json_string_or(last, "Name", ""), "st_c");
    (void)fflush(bench.log);
    assert_non_null(
        strstr(bench.log_text, "st_b does not wait for st_a: nothing is waited for with --detach"));
    assert_non_null(strstr(bench.log_text, "created service st_a\n"));
    assert_true(strstr(bench.log_text, "created service st_a") <
                strstr(bench.log_text, "created service st_b"));
    close_bench(&bench);
}

static void a_dependency_that_does_not_come_up_ends_the_deployment_as_it_stands(void **state)
{
    struct deploy_options options = {.resolve = IMAGE_NEVER};
    struct bench bench;

    (void)state;
    open_bench(&bench, file, NULL, 0);
    set_file(&bench, "services:\n"
                     "  b: {image: 'i:1', depends_on: {a: {condition: service_completed_successfully}}}\n"
                     "  a: {image: 'i:1', restart: 'no'}\n");
    options.deadline_ns = mst_now_ns() + 400 * MST_NS_PER_MS;
    assert_int_equal(deploy_stack(&bench.session, bench.project, &options, NULL, &bench.err), -ETIMEDOUT);
    assert_non_null(strstr(bench.err.text, "st_a 0/1"));
    assert_int_equal(fake_engine_objects(bench.fake, "services"), 1);
    close_bench(&bench);
}

static void a_removal_waits_for_networks_in_use(void **state)
{
    struct fake_rule rule = {
        "DELETE", "/networks/*", 1, 2, FAKE_REFUSE, 400, "network st_inner is in use by task x", 0};
    struct bench bench;
    bool is_found = false;

    (void)state;
    open_bench(&bench, file, &rule, 1);
    assert_int_equal(deploy(&bench), 0);
    assert_int_equal(
        remove_stack(&bench.session, "st", false, mst_now_ns() + 20 * MST_NS_PER_S, &is_found, &bench.err),
        0);
    assert_true(is_found);
    assert_int_equal(count_all(&bench), 0);
    assert_int_equal(remove_stack(&bench.session, "st", false, mst_now_ns() + MST_NS_PER_S, &is_found, NULL),
                     0);
    assert_false(is_found);
    close_bench(&bench);
}

static void a_removal_has_a_deadline(void **state)
{
    struct fake_rule rule = {
        "DELETE", "/networks/*", 0, 0, FAKE_REFUSE, 400, "network st_inner is in use by task x", 0};
    struct bench bench;
    bool is_found = false;

    (void)state;
    open_bench(&bench, file, &rule, 1);
    assert_int_equal(deploy(&bench), 0);
    assert_int_equal(
        remove_stack(&bench.session, "st", false, mst_now_ns() + 300 * MST_NS_PER_MS, &is_found, &bench.err),
        -ETIMEDOUT);
    assert_non_null(strstr(bench.err.text, "in use by task x"));
    close_bench(&bench);
}

static void leftover_tasks_hold_up_a_deployment(void **state)
{
    struct bench bench;
    const struct deploy_options options = {.detach = true, .deadline_ns = mst_now_ns() + 400 * MST_NS_PER_MS};

    (void)state;
    open_bench(&bench, file, NULL, 0);
    fake_engine_add(bench.fake, "tasks",
                    "{\"ID\":\"t\",\"ServiceID\":\"gone\",\"Status\":{\"State\":\"running\"},"
                    "\"DesiredState\":\"remove\"}");
    assert_int_equal(deploy_stack(&bench.session, bench.project, &options, NULL, &bench.err), -ETIMEDOUT);
    assert_non_null(strstr(bench.err.text, "1 tasks of removed services"));
    assert_int_equal(fake_engine_count(bench.fake, "POST "), 0);
    close_bench(&bench);
}

static void the_second_of_two_deployments_at_a_time_says_what_it_is(void **state)
{
    /* The other one came between our look and our write. */
    static const char *const names[] = {"networks", "services"};

    (void)state;
    for (size_t i = 0; i < MST_ARRAY_COUNT(names); i++) {
        char path[32];
        struct fake_rule rule = {"GET", path, 1, 1, FAKE_REPLY, 200, "[]", 0};
        struct bench bench;
        (void)snprintf(path, sizeof path, "/%s", names[i]);
        open_bench(&bench, file, &rule, 1);
        if (i == 0)
            fake_engine_add(bench.fake, "networks",
                            "{\"ID\":\"x\",\"Id\":\"x\",\"Name\":\"st_inner\",\"Labels\":{"
                            "\"com.docker.stack.namespace\":\"st\"}}");
        else
            fake_engine_add(bench.fake, "services",
                            "{\"ID\":\"x\",\"Spec\":{\"Name\":\"st_b\",\"Labels\":{"
                            "\"com.docker.stack.namespace\":\"st\"}}}");
        if (deploy(&bench) != -EEXIST ||
            !strstr(bench.err.text,
                    "was made by somebody else meanwhile: stack 'st' is being deployed twice"))
            fail_msg("%s: %s", names[i], bench.err.text);
        /* What it made may be in use by the other. */
        assert_int_equal(fake_engine_count(bench.fake, "DELETE "), 0);
        close_bench(&bench);
    }
}

static void an_engine_that_restarts_during_a_removal_is_waited_for(void **state)
{
    struct fake_rule rules[] = {
        {"DELETE", "/secrets/*", 1, 1, FAKE_CLOSE, 0, NULL, 0},
        {"GET", "/services", 3, 1, FAKE_REFUSE, 503, "This node is not a swarm manager", 0},
        {"DELETE", "/configs/*", 1, 1, FAKE_REFUSE, 500, "rpc error: the swarm has no leader", 0},
    };
    struct bench bench;
    bool is_found = false;

    (void)state;
    open_bench(&bench, file, NULL, 0);
    assert_int_equal(deploy(&bench), 0);
    fake_engine_rules(bench.fake, rules, MST_ARRAY_COUNT(rules));
    if (remove_stack(&bench.session, "st", false, mst_now_ns() + 20 * MST_NS_PER_S, &is_found, &bench.err) <
        0)
        fail_msg("%s", bench.err.text);
    assert_true(is_found);
    assert_int_equal(count_all(&bench), 0);
    (void)fflush(bench.log);
    assert_non_null(strstr(bench.log_text, "; trying again\n"));
    close_bench(&bench);
}

static void who_asks_the_wrong_engine_to_remove_is_told_at_once(void **state)
{
    struct fake_rule rule = {"GET", "/services", 1, 0, FAKE_REFUSE, 503, "This node is not a swarm manager",
                             0};
    struct bench bench;
    bool is_found = true;

    (void)state;
    open_bench(&bench, file, &rule, 1);
    assert_int_equal(
        remove_stack(&bench.session, "st", false, mst_now_ns() + 20 * MST_NS_PER_S, &is_found, &bench.err),
        -EREMOTEIO);
    assert_int_equal(fake_engine_count(bench.fake, "GET /services"), 1);
    close_bench(&bench);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_second_of_two_deployments_at_a_time_says_what_it_is),
        cmocka_unit_test(an_engine_that_restarts_during_a_removal_is_waited_for),
        cmocka_unit_test(who_asks_the_wrong_engine_to_remove_is_told_at_once),
        cmocka_unit_test(a_deployment_makes_each_object_once_and_attaches_by_id),
        cmocka_unit_test(a_refused_second_service_leaves_nothing),
        cmocka_unit_test(what_cannot_be_undone_is_named),
        cmocka_unit_test(a_lost_reply_to_a_create_is_looked_up),
        cmocka_unit_test(a_create_that_did_not_happen_is_a_failure),
        cmocka_unit_test(an_update_out_of_sequence_is_tried_again),
        cmocka_unit_test(an_update_that_stays_out_of_sequence_is_refused),
        cmocka_unit_test(checks_come_before_the_first_write),
        cmocka_unit_test(a_removal_waits_for_networks_in_use),
        cmocka_unit_test(a_removal_has_a_deadline),
        cmocka_unit_test(leftover_tasks_hold_up_a_deployment),
        cmocka_unit_test(services_are_made_after_those_that_they_depend_on),
        cmocka_unit_test(a_dependency_that_does_not_come_up_ends_the_deployment_as_it_stands),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
