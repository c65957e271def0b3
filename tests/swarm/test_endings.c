/* SPDX-License-Identifier: Apache-2.0 */
/* What the program says at its end, and how it takes its input, on a scripted engine. */
#include "../common/test.h"
#include "fake_engine.h"
#include "muster/file.h"
#include "program.h"

static void expect(const struct fake_engine *fake, const char *const *arguments, const char *input,
                   int status, const char *text)
{
    struct program program;

    program_run(&program, fake, arguments, input);
    if (program.status != status || !strstr(mst_buf_text(&program.err), text))
        fail_msg("%d, '%s' instead of %d, '%s'", program.status, mst_buf_text(&program.err), status, text);
    program_release(&program);
}

static void a_deployment_that_does_not_come_up_says_what_stands(void **state)
{
    static const char *const arguments[] = {
        "deploy", "--resolve-image", "never", "--timeout", "300ms", "-c", "-", "st", NULL};
    struct fake_engine *fake = fake_engine_start(NULL, 0);

    (void)state;
    expect(fake, arguments, "services: {web: {image: 'i:1'}}\n", 4,
           "stack 'st' stands with 1 services; 'muster rm st' removes it");
    fake_engine_stop(fake);
}

static void an_image_that_is_missing_comes_with_advice(void **state)
{
    static const char *const arguments[] = {"wait", "st", NULL};
    static const char task[] = "{\"ServiceID\":\"s1\",\"DesiredState\":\"shutdown\",\"Status\":{\"State\":"
                               "\"rejected\",\"Err\":\"No such image: i:1\"}}";
    char tasks[512];
    struct fake_rule rules[] = {{"GET", "/tasks", 0, 0, FAKE_REPLY, 200, tasks, 0}};
    struct fake_engine *fake;

    (void)state;
    (void)snprintf(tasks, sizeof tasks, "[%s,%s]", task, task);
    fake = fake_engine_start(rules, 1);
    fake_engine_add(fake, "services",
                    "{\"ID\":\"s1\",\"Version\":{\"Index\":1},\"Spec\":{\"Name\":\"st_web\",\"Labels\":{"
                    "\"com.docker.stack.namespace\":\"st\"},\"Mode\":{\"Replicated\":{\"Replicas\":1}}}}");
    expect(fake, arguments, NULL, 6,
           "No such image: i:1; no registry gave it to that node: push it to one, or ");
    fake_engine_stop(fake);
}

static void files_without_services_are_wrong(void **state)
{
    static const char *const deploy[] = {"deploy", "-c", "-", "st", NULL};
    static const char *const config[] = {"config", "-c", "-", "st", NULL};
    struct fake_engine *fake = fake_engine_start(NULL, 0);

    (void)state;
    expect(fake, deploy, "services:\n", 2, "muster: -: no services: there is nothing to deploy");
    expect(fake, config, "services:\n", 0, "no services: there is nothing to deploy");
    assert_int_equal(fake_engine_count(fake, "POST "), 0);
    fake_engine_stop(fake);
}

static void node_check_reads_the_stack_as_deploy_does(void **state)
{
    static const char file[] = "services: {web: {image: '${IMAGE:?none}', links: [x]}}\n";
    char env_file[64];
    const char *const found[] = {"node", "check", "--no-network", "--env-file", env_file,
                                 "-c",   "-",     "st",           NULL};
    const char *const strict[] = {"node", "check", "--strict", "--env-file", env_file, "-c", "-", "st", NULL};
    struct fake_engine *fake = fake_engine_start(NULL, 0);

    (void)state;
    (void)snprintf(env_file, sizeof env_file, "/tmp/muster-endings-%d", (int)getpid());
    assert_int_equal(mst_file_write_atomic(env_file, "IMAGE=i:1\n", 10, 0644, NULL), 0);
    expect(fake, found, file, 0, "services.web.links");
    expect(fake, strict, file, 2, "services.web.links");
    (void)unlink(env_file);
    fake_engine_stop(fake);
}

/* What bash offers for these words, with the cursor behind the last one. */
static void assert_offers(const char *words, const char *offered)
{
    mst_cleanup(mst_freep) char *script = NULL;
    char out[256];
    FILE *pipe;
    size_t count;

    assert_true(asprintf(&script,
                         "bash -c '. %s/muster.bash; muster() { %s \"$@\"; }; COMP_WORDS=(muster %s); "
                         "COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _muster; echo \"${COMPREPLY[*]}\"' 2>&1",
                         COMPLETIONS, MUSTER, words) > 0);
    pipe = popen(script, "r");
    assert_non_null(pipe);
    count = fread(out, 1, sizeof out - 1, pipe);
    out[count] = '\0';
    assert_int_equal(pclose(pipe), 0);
    out[strcspn(out, "\n")] = '\0';
    if (strcmp(out, offered) != 0)
        fail_msg("'%s': '%s' instead of '%s'", words, out, offered);
}

static void values_behind_an_equals_sign_are_completed(void **state)
{
    (void)state;
    assert_offers("ps --format = j", "json");
    assert_offers("ps --format =", "table json");
    assert_offers("ps --format=j", "--format=json");
    assert_offers("deploy --resolve-image = n", "never");
    assert_offers("node --format = json ch", "check");
    assert_offers("deploy -e A = 1 --resolve-image n", "never");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_deployment_that_does_not_come_up_says_what_stands),
        cmocka_unit_test(an_image_that_is_missing_comes_with_advice),
        cmocka_unit_test(files_without_services_are_wrong),
        cmocka_unit_test(node_check_reads_the_stack_as_deploy_does),
        cmocka_unit_test(values_behind_an_equals_sign_are_completed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
