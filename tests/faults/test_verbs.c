/* SPDX-License-Identifier: Apache-2.0 */
/* scale, inspect, --dry-run and the shells' completions, as a user calls them. */
#include "../common/test.h"
#include "fake_engine.h"
#include "muster/json.h"
#include "program.h"

#define LABELS "\"Labels\":{\"com.docker.stack.namespace\":\"st\"}"

static const char web[] =
    "{\"ID\":\"s1\",\"Version\":{\"Index\":7},\"CreatedAt\":\"2026-01-02T03:04:05Z\","
    "\"Spec\":{\"Name\":\"st_web\"," LABELS ",\"TaskTemplate\":{\"ContainerSpec\":{\"Image\":"
    "\"img:1\",\"StopGracePeriod\":4000000000000000}},"
    "\"Mode\":{\"Replicated\":{\"Replicas\":2}}}}";
static const char everywhere[] =
    "{\"ID\":\"s2\",\"Version\":{\"Index\":8},\"Spec\":{\"Name\":\"st_each\"," LABELS
    ",\"Mode\":{\"Global\":{}}}}";
static const char network[] =
    "{\"ID\":\"net1\",\"Id\":\"net1\",\"Name\":\"st_default\",\"Scope\":\"swarm\","
    "\"Driver\":\"overlay\",\"IPAM\":{\"Config\":[{\"Subnet\":\"10.0.5.0/24\"}]}," LABELS "}";
static const char config[] =
    "{\"ID\":\"c1\",\"Version\":{\"Index\":9},\"Spec\":{\"Name\":\"st_model\",\"Data\":\"bGF5ZXJz\"," LABELS
    "}}";

static struct fake_engine *start_stack(void)
{
    struct fake_engine *fake = fake_engine_start(NULL, 0);

    fake_engine_add(fake, "services", web);
    fake_engine_add(fake, "services", everywhere);
    fake_engine_add(fake, "networks", network);
    fake_engine_add(fake, "configs", config);
    return fake;
}

static void expect(const struct fake_engine *fake, const char *const *arguments, const char *input,
                   int status, const char *out, const char *err)
{
    struct program program;

    program_run(&program, fake, arguments, input);
    if (program.status != status || !strstr(mst_buf_text(&program.out), out) ||
        !strstr(mst_buf_text(&program.err), err))
        fail_msg("%s: %d, '%s', '%s' instead of %d, '%s', '%s'", arguments[0], program.status,
                 mst_buf_text(&program.out), mst_buf_text(&program.err), status, out, err);
    program_release(&program);
}

#define EXPECT(fake, status, out, err, ...)                                                                  \
    expect(fake, (const char *const[]){__VA_ARGS__, NULL}, NULL, status, out, err)

static void scale_changes_the_number_and_nothing_else(void **state)
{
    struct fake_engine *fake = start_stack();
    mst_cleanup(mst_json_deletep) cJSON *body = NULL, *before = cJSON_Parse(web), *after = NULL;
    cJSON *spec = cJSON_GetObjectItem(before, "Spec");

    (void)state;
    EXPECT(fake, 0, "", "scaled service st_web: 2 -> 5", "scale", "-d", "st", "web=5");
    body = fake_engine_body(fake, "POST /services/s1/update");
    cJSON_SetNumberValue(cJSON_GetObjectItem(mst_json_at(spec, "Mode", "Replicated", NULL), "Replicas"), 5);
    assert_true(cJSON_Compare(body, spec, true));
    /* With the stack's name in front too; and what is so already is not written. */
    EXPECT(fake, 0, "", "stack 'st': nothing to change", "scale", "-d", "st", "st_web=5");
    assert_int_equal(fake_engine_count(fake, "POST "), 1);
    fake_engine_stop(fake);
}

static void scale_refuses_before_it_writes(void **state)
{
    struct fake_engine *fake = start_stack();

    (void)state;
    EXPECT(fake, 2, "", "'web': expected SERVICE=REPLICAS", "scale", "st", "web");
    EXPECT(fake, 2, "", "'=3': expected SERVICE=REPLICAS", "scale", "st", "=3");
    EXPECT(fake, 2, "", "'web=x'", "scale", "st", "web=x");
    EXPECT(fake, 2, "", "too few arguments", "scale", "st");
    EXPECT(fake, 1, "", "stack 'st' has no service 'wev' (each, web)", "scale", "st", "web=3", "wev=3");
    EXPECT(fake, 2, "", "service 'st_each' is not replicated", "scale", "st", "web=3", "each=3");
    EXPECT(fake, 2, "", "service 'st_web' is named twice", "scale", "st", "web=3", "st_web=4");
    EXPECT(fake, 0, "scale st_web: 2 -> 3\n", "", "scale", "--dry-run", "st", "web=3");
    assert_int_equal(fake_engine_count(fake, "POST "), 0);
    fake_engine_stop(fake);
}

static void scale_tries_again_when_the_version_moved(void **state)
{
    struct fake_rule rule = {"POST", "/services/s1/update",    1, 2, FAKE_REFUSE,
                             500,    "update out of sequence", 0};
    struct fake_engine *fake = start_stack();

    (void)state;
    fake_engine_rules(fake, &rule, 1);
    EXPECT(fake, 0, "", "2 -> 3", "scale", "-d", "st", "web=3");
    assert_int_equal(fake_engine_count(fake, "POST /services/s1/update"), 3);
    fake_engine_stop(fake);
}

static void inspect_shows_what_a_stack_consists_of(void **state)
{
    struct fake_engine *fake = start_stack();
    struct program program;
    mst_cleanup(mst_json_deletep) cJSON *json = NULL;

    (void)state;
    EXPECT(fake, 0, "service  st_web      s1          7  2026-01-02T03:04:05  -        image img:1", "",
           "inspect", "st");
    EXPECT(fake, 0, "overlay 10.0.5.0/24", "", "inspect", "st");
    EXPECT(fake, 0, "6 bytes", "", "inspect", "st");
    program_run(&program, fake, (const char *const[]){"inspect", "--format", "json", "st", "web", NULL},
                NULL);
    json = cJSON_Parse(mst_buf_text(&program.out));
    assert_string_equal(mst_json_string_or(json, "stack", ""), "st");
    assert_int_equal(cJSON_GetArraySize(mst_json_at(json, "services", NULL)), 1);
    assert_null(mst_json_at(json, "networks", NULL));
    program_release(&program);
    EXPECT(fake, 1, "", "has no service 'x'", "inspect", "st", "x");
    EXPECT(fake, 1, "", "nothing found in stack 'other'", "inspect", "other");
    fake_engine_stop(fake);
}

static void a_dry_run_writes_nothing(void **state)
{
    static const char file[] = "services: {web: {image: 'img:2'}, new: {image: 'img:1'}}\n";
    static const char *const deploy[] = {"deploy", "--dry-run", "--prune", "--resolve-image", "never", "-c",
                                         "-",      "st",        NULL};
    static const char *const json[] = {"deploy", "--dry-run", "--format", "json", "--resolve-image",
                                       "never",  "-c",        "-",        "st",   NULL};
    static const char *const run[] = {"run", "--dry-run", "--resolve-image", "never",
                                      "-c",  "-",         "fresh",           NULL};
    struct fake_engine *fake = start_stack();

    (void)state;
    expect(fake, deploy, file, 0, "create  service  st_new", "");
    expect(fake, deploy, file, 0, "update  service  st_web", "");
    expect(fake, deploy, file, 0, "remove  config   st_model", "");
    expect(fake, json, file, 0, "\"action\":\t\"create\"", "");
    expect(fake, run, file, 0, "create  service  fresh_web", "");
    EXPECT(fake, 0, "st     config   st_model", "", "rm", "--dry-run", "st", "other");
    assert_int_equal(fake_engine_count(fake, "POST "), 0);
    assert_int_equal(fake_engine_count(fake, "DELETE "), 0);
    fake_engine_stop(fake);
}

static void several_stacks_are_removed_at_once(void **state)
{
    struct fake_engine *fake = start_stack();

    (void)state;
    fake_engine_add(
        fake, "services",
        "{\"ID\":\"z\",\"Spec\":{\"Name\":\"zwei_a\",\"Labels\":{\"com.docker.stack.namespace\":\"zwei\"}}}");
    EXPECT(fake, 0, "", "removed service zwei_a", "rm", "st", "zwei");
    assert_int_equal(fake_engine_objects(fake, "services"), 0);
    assert_int_equal(fake_engine_objects(fake, "networks"), 0);
    assert_int_equal(fake_engine_objects(fake, "configs"), 0);
    EXPECT(fake, 2, "", "a b", "rm", "st", "a b");
    fake_engine_stop(fake);
}

/* ---- ends of a wait ---- */

#define FAILED(id, second)                                                                                   \
    "{\"ID\":\"" id "\",\"ServiceID\":\"s1\",\"CreatedAt\":\"2026-01-01T00:00:" second                       \
    "Z\",\"DesiredState\":\"shutdown\",\"Status\":{\"State\":\"failed\",\"Err\":\"task: non-zero exit "      \
    "(1)\"}}"

static void a_crash_loop_ends_with_the_last_words(void **state)
{
    mst_cleanup(mst_buf_release) struct mst_buf log = MST_BUF_INIT(65536);
    struct fake_engine *fake = fake_engine_start(NULL, 0);

    (void)state;
    fake_engine_add(fake, "services", web);
    fake_engine_add(fake, "tasks", FAILED("t1", "01"));
    fake_engine_add(fake, "tasks", FAILED("t3", "03"));
    fake_engine_add(fake, "tasks", FAILED("t2", "02"));
    fake_engine_frame(&log, 2, "03", "t3", "cannot open /data: No such file\n");
    fake_engine_stream(fake, "/tasks/t3/logs", log.bytes, log.count);
    EXPECT(fake, 6, "",
           "last lines of service 'st_web':\n  cannot open /data: No such file\nmuster: ", "wait", "st");
    EXPECT(fake, 6, "", "service 'st_web' will not converge (crash loop): task: non-zero exit (1)", "wait",
           "st");
    fake_engine_stop(fake);
}

static void each_end_has_its_status(void **state)
{
    static const struct {
        const char *update, *err;
        int status;
    } cases[] = {
        {"rollback_completed", "service 'st_web' was rolled back (rolled back): why", 5},
        {"paused", "service 'st_web' will not converge (paused): paused: why", 6},
        {"updating", "stack 'st' has not converged in time: st_web 0/2", 4},
    };

    (void)state;
    for (size_t i = 0; i < MST_ARRAY_COUNT(cases); i++) {
        struct fake_engine *fake = fake_engine_start(NULL, 0);
        char service[512];
        (void)snprintf(service, sizeof service,
                       "{\"ID\":\"s1\",\"Spec\":{\"Name\":\"st_web\"," LABELS
                       ",\"Mode\":{\"Replicated\":{\"Replicas\":2}}},\"UpdateStatus\":{\"State\":\"%s\","
                       "\"Message\":\"why\"}}",
                       cases[i].update);
        fake_engine_add(fake, "services", service);
        EXPECT(fake, cases[i].status, "", cases[i].err, "wait", "--timeout", "300ms", "st");
        fake_engine_stop(fake);
    }
}

/* ---- completions ---- */

/* What bash offers for a line whose last word is being written. */
static void assert_offers(const struct fake_engine *fake, const char *line, const char *words)
{
    mst_cleanup(mst_buf_release) struct mst_buf script = MST_BUF_INIT(8192);
    char out[4096];
    FILE *pipe;
    size_t count;

    assert_int_equal(mst_buf_printf(&script,
                                    "MUSTER_HOST=%s bash -c '. %s/muster.bash; muster() { %s \"$@\"; }; "
                                    "line=\"muster %s\"; COMP_WORDS=($line); [[ $line == *\" \" ]] && "
                                    "COMP_WORDS+=(\"\"); COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _muster; "
                                    "echo \"${COMPREPLY[*]}\"' 2>&1",
                                    fake_engine_host(fake), COMPLETIONS, MUSTER, line),
                     0);
    pipe = popen(mst_buf_text(&script), "r");
    assert_non_null(pipe);
    count = fread(out, 1, sizeof out - 1, pipe);
    out[count] = '\0';
    assert_int_equal(pclose(pipe), 0);
    out[strcspn(out, "\n")] = '\0';
    if (words[0] == '*' ? !strstr(out, words + 1) : strcmp(out, words) != 0)
        fail_msg("'%s': '%s' instead of '%s'", line, out, words);
}

static void bash_completes_verbs_options_stacks_and_services(void **state)
{
    struct fake_engine *fake = start_stack();

    (void)state;
    assert_offers(fake, "sc", "scale");
    assert_offers(fake, "", "*deploy run wait");
    assert_offers(fake, "help in", "inspect");
    assert_offers(fake, "deploy --dr", "--dry-run");
    assert_offers(fake, "deploy -", "*--compose-file --set --env-file --strict");
    assert_offers(fake, "ps --format ", "table json");
    assert_offers(fake, "deploy --resolve-image n", "never");
    assert_offers(fake, "ps ", "st");
    assert_offers(fake, "rm st ", "st");
    assert_offers(fake, "logs st ", "*web");
    assert_offers(fake, "logs --tail 3 s", "st");
    assert_offers(fake, "scale st w", "web=");
    assert_offers(fake, "deploy --timeout ", "");
    fake_engine_stop(fake);
}

static void zsh_reads_its_completions(void **state)
{
    (void)state;
    if (system("command -v zsh >/dev/null 2>&1") != 0)
        skip();
    assert_int_equal(system("zsh -n " COMPLETIONS "/_muster"), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(scale_changes_the_number_and_nothing_else),
        cmocka_unit_test(scale_refuses_before_it_writes),
        cmocka_unit_test(scale_tries_again_when_the_version_moved),
        cmocka_unit_test(inspect_shows_what_a_stack_consists_of),
        cmocka_unit_test(a_dry_run_writes_nothing),
        cmocka_unit_test(several_stacks_are_removed_at_once),
        cmocka_unit_test(a_crash_loop_ends_with_the_last_words),
        cmocka_unit_test(each_end_has_its_status),
        cmocka_unit_test(bash_completes_verbs_options_stacks_and_services),
        cmocka_unit_test(zsh_reads_its_completions),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
