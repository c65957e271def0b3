/* SPDX-License-Identifier: Apache-2.0 */
/* Secrets and configs whose content changes: the engine lets neither change, so that each content is a
 * version. */
#include "deploy_bench.h"
#include "muster/json.h"

static const char plain_file[] = "services: {a: {image: 'img:1'}}\n";
static const char contents_file[] = "services:\n"
                                    "  a: {image: 'img:1', secrets: [key], configs: [model]}\n"
                                    "  b: {image: 'img:1'}\n"
                                    "configs: {model: {content: '%s'}}\n"
                                    "secrets: {key: {file: %s}}\n";

/* The bench's project anew, with these contents. */
static void set_contents(struct bench *bench, const char *secret, const char *config)
{
    char path[] = "/tmp/muster-secret-XXXXXX", text[1024];
    const int fd = mkstemp(path);

    assert_true(fd >= 0);
    assert_int_equal(mst_write_all(fd, secret, strlen(secret)), 0);
    (void)close(fd);
    (void)snprintf(text, sizeof text, contents_file, config, path);
    set_file(bench, text);
    (void)unlink(path);
}

static void deploy_contents(struct bench *bench, const char *secret, const char *config)
{
    set_contents(bench, secret, config);
    if (deploy(bench) < 0)
        fail_msg("%s", bench->err.text);
}

/* The newest body's reference. */
static void assert_refers(struct bench *bench, const char *request, const char *list, const char *key,
                          const char *name)
{
    mst_cleanup(mst_json_deletep) cJSON *body = fake_engine_body(bench->fake, request);
    const cJSON *references = mst_json_at(body, "TaskTemplate", "ContainerSpec", list, NULL);

    assert_string_equal(mst_json_string_or(cJSON_GetArrayItem(references, 0), key, ""), name);
}

static void what_changed_becomes_a_new_version_and_the_old_is_collected(void **state)
{
    struct bench bench;
    size_t writes;

    (void)state;
    open_bench(&bench, plain_file, NULL, 0);
    set_contents(&bench, "one", "first");
    bench.project->service_count = 1; /* so that the newest body is a's */
    assert_int_equal(deploy(&bench), 0);
    assert_refers(&bench, "POST /services/create", "Secrets", "SecretName", "st_key");
    assert_refers(&bench, "POST /services/create", "Configs", "ConfigName", "st_model");

    /* The same again: the secret is asked about, nothing is written. */
    writes = fake_engine_count(bench.fake, "POST ");
    assert_int_equal(deploy(&bench), 0);
    assert_int_equal(fake_engine_count(bench.fake, "POST "), writes + 1);
    assert_int_equal(fake_engine_count(bench.fake, "POST /secrets/id2/update"), 1);

    /* Both change: new ones beside the old, which a rollback would bring back. */
    set_contents(&bench, "two", "second");
    bench.project->service_count = 1;
    if (deploy(&bench) < 0)
        fail_msg("%s", bench.err.text);
    assert_refers(&bench, "POST /services/id4/update", "Secrets", "SecretName", "st_key_2");
    assert_refers(&bench, "POST /services/id4/update", "Configs", "ConfigName", "st_model_a94dd4d3c2");
    assert_int_equal(fake_engine_objects(bench.fake, "secrets"), 2);
    assert_int_equal(fake_engine_objects(bench.fake, "configs"), 2);

    /* Once more: the first ones go, and their names are free again. */
    set_contents(&bench, "three", "third");
    bench.project->service_count = 1;
    assert_int_equal(deploy(&bench), 0);
    assert_int_equal(fake_engine_objects(bench.fake, "secrets"), 2);
    assert_int_equal(fake_engine_objects(bench.fake, "configs"), 2);
    assert_int_equal(fake_engine_count(bench.fake, "DELETE /secrets/id2"), 1);

    /* Back to what the version before last had: it is known, and no new one is made. */
    writes = fake_engine_count(bench.fake, "POST /secrets/create");
    set_contents(&bench, "two", "third");
    bench.project->service_count = 1;
    assert_int_equal(deploy(&bench), 0);
    assert_refers(&bench, "POST /services/id4/update", "Secrets", "SecretName", "st_key_2");
    assert_int_equal(fake_engine_count(bench.fake, "POST /secrets/create"), writes);
    close_bench(&bench);
}

/* The plan's step for this object; the plan is the caller's to release. */
static const struct plan_step *plan_secret(struct bench *bench, bool ask_secrets, struct plan *plan)
{
    const struct plan_options options = {.resolve = IMAGE_NEVER, .ask_secrets = ask_secrets};

    if (plan_make(&bench->session, bench->project, &options, plan, &bench->err) < 0)
        fail_msg("%s", bench->err.text);
    for (size_t i = 0; i < plan->count; i++) {
        if (plan->steps[i].kind == ENGINE_SECRET)
            return &plan->steps[i];
    }
    fail_msg("no step for the secret");
    return NULL;
}

static size_t count_writes(struct bench *bench)
{
    return fake_engine_count(bench->fake, "POST ") + fake_engine_count(bench->fake, "PUT ") +
           fake_engine_count(bench->fake, "DELETE ");
}

static void a_plan_makes_no_write_call_unless_it_is_told_to_ask(void **state)
{
    mst_cleanup(plan_release) struct plan same = {0}, changed = {0}, asked = {0};
    const struct plan_step *step;
    struct bench bench;

    (void)state;
    open_bench(&bench, plain_file, NULL, 0);
    deploy_contents(&bench, "one", "first");
    deploy_contents(&bench, "two", "first");
    const size_t writes = count_writes(&bench);

    step = plan_secret(&bench, false, &same);
    assert_int_equal(step->action, PLAN_KEEP);
    assert_string_equal(step->name, "st_key_2"); /* the one that the services refer to */
    assert_string_equal(step->changes, "content not compared (plan --ask-secrets does)\n");
    assert_false(plan_has_changes(&same));

    set_contents(&bench, "three", "first");
    step = plan_secret(&bench, false, &changed);
    assert_int_equal(step->action, PLAN_KEEP);
    assert_int_equal(count_writes(&bench), writes);

    step = plan_secret(&bench, true, &asked);
    assert_int_equal(step->action, PLAN_CREATE);
    assert_string_equal(step->name, "st_key_3");
    assert_int_equal(count_writes(&bench), writes + 2); /* both versions were asked about */
    assert_int_equal(fake_engine_objects(bench.fake, "secrets"), 2);
    close_bench(&bench);
}

static void a_changed_label_is_written_without_the_content(void **state)
{
    struct bench bench;
    mst_cleanup(mst_json_deletep) cJSON *body = NULL;

    (void)state;
    open_bench(&bench, plain_file, NULL, 0);
    deploy_contents(&bench, "one", "first");
    static struct compose_pair pair = {"colour", "red"};
    bench.project->configs[0].labels = (struct compose_pairs){&pair, 1};
    assert_int_equal(deploy(&bench), 0);
    body = fake_engine_body(bench.fake, "POST /configs/");
    assert_null(mst_json_at(body, "Data", NULL));
    assert_string_equal(mst_json_string_or(mst_json_at(body, "Labels", NULL), "colour", ""), "red");
    assert_int_equal(fake_engine_objects(bench.fake, "configs"), 1);
    close_bench(&bench);
}

static void a_failed_update_leaves_no_new_version(void **state)
{
    struct fake_rule rule = {"POST", "/services/*", 3, 0, FAKE_REFUSE, 500, "no more", 0};
    struct bench bench;

    (void)state;
    open_bench(&bench, plain_file, &rule, 1);
    deploy_contents(&bench, "one", "first");
    set_contents(&bench, "two", "second");
    assert_int_equal(deploy(&bench), -EREMOTEIO);
    assert_int_equal(fake_engine_objects(bench.fake, "secrets"), 1);
    assert_int_equal(fake_engine_objects(bench.fake, "configs"), 1);
    close_bench(&bench);
}

static void what_nobody_owns_is_taken_over_when_it_is_the_same(void **state)
{
    struct bench bench;

    (void)state;
    open_bench(&bench, plain_file, NULL, 0);
    fake_engine_add(bench.fake, "configs",
                    "{\"ID\":\"c\",\"Version\":{\"Index\":4},\"Spec\":{\"Name\":\"st_model\",\"Data\":"
                    "\"Zmlyc3Q=\"}}");
    deploy_contents(&bench, "one", "first");
    assert_int_equal(fake_engine_count(bench.fake, "POST /configs/c/update"), 1);
    assert_int_equal(fake_engine_objects(bench.fake, "configs"), 1);
    close_bench(&bench);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_changed_becomes_a_new_version_and_the_old_is_collected),
        cmocka_unit_test(a_plan_makes_no_write_call_unless_it_is_told_to_ask),
        cmocka_unit_test(a_changed_label_is_written_without_the_content),
        cmocka_unit_test(a_failed_update_leaves_no_new_version),
        cmocka_unit_test(what_nobody_owns_is_taken_over_when_it_is_the_same),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
