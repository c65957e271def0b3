/* SPDX-License-Identifier: Apache-2.0 */
#include "muster/file.h"
#include "test.h"

#include <fcntl.h>
#include <stdlib.h>

static int load(const char *const *files, size_t count, struct compose_options options,
                struct compose_project **ret_project, struct mst_error *err)
{
    options.files = files;
    options.file_count = count;
    return compose_project_load(&options, ret_project, err);
}

static void a_later_file_goes_onto_the_earlier(void **state)
{
    (void)state;
    static const char *const files[] = {MUSTER_TEST_DATA "/base.yml", MUSTER_TEST_DATA "/sub/override.yml"};
    struct compose_project *project = NULL;
    struct mst_error err = MST_ERROR_INIT;
    if (load(files, 2, (struct compose_options){0}, &project, &err) < 0)
        fail_msg("%s", err.text);
    assert_int_equal(project->service_count, 3);
    const struct compose_service *web = compose_service_find(project, "web");
    assert_string_equal(web->image, "override:2");
    test_strings(&web->command, "c");
    test_strings(&web->environment, "A=1,B=3,C=4");
    assert_int_equal(web->labels.count, 2);
    assert_false(web->read_only);
    test_strings(&web->dns, "1.1.1.1,8.8.8.8");
    assert_int_equal(web->port_count,
                     5); /* 3000 4000 5000 unpublished, 53/tcp, 53/udp: none lost, none twice */
    assert_int_equal(web->mount_count, 3);
    assert_string_equal(web->mounts[0].source, "/tmp");
    assert_int_equal(web->mounts[0].type, COMPOSE_MOUNT_BIND);
    assert_true(web->mounts[0].read_only);
    assert_string_equal(web->mounts[1].source, MUSTER_TEST_DATA "/conf");
    assert_string_equal(web->mounts[2].source, MUSTER_TEST_DATA "/more"); /* from the first file's folder */
    test_strings(&web->healthcheck.test, "CMD,c,d");
    assert_int_equal(web->healthcheck.interval_ns, 5000000000);
    assert_string_equal(web->logging.driver, "json-file");
    assert_string_equal(compose_pairs_find(&web->logging.options, "max-size"), "2m");
    assert_string_equal(compose_pairs_find(&web->logging.options, "max-file"), "3");
    assert_int_equal(web->network_count, 1);
    test_strings(&web->networks[0].aliases, "two");
    assert_int_equal(web->deploy.replicas.value, 0);
    test_strings(&web->deploy.constraints, "node.role==worker,node.hostname==h");
    assert_true(project->networks[0].attachable);
    assert_string_equal(compose_pairs_find(&project->networks[0].driver_opts, "a"), "b");
    compose_project_free(project);
}

static int parse_two(const char *second, struct compose_project **ret_project, struct mst_error *err)
{
    static const char pattern[] = "/tmp/muster-test-compose-XXXXXX";
    char folder[sizeof pattern], paths[2][64];
    memcpy(folder, pattern, sizeof pattern);
    assert_non_null(mkdtemp(folder));
    static const char first[] = TEST_SERVICE("    healthcheck: {test: x}\n");
    (void)snprintf(paths[0], sizeof paths[0], "%s/1.yml", folder);
    (void)snprintf(paths[1], sizeof paths[1], "%s/2.yml", folder);
    assert_int_equal(mst_file_write_atomic(paths[0], first, strlen(first), 0600, NULL), 0);
    assert_int_equal(mst_file_write_atomic(paths[1], second, strlen(second), 0600, NULL), 0);
    const char *const files[] = {paths[0], paths[1]};
    int r = load(files, 2, (struct compose_options){0}, ret_project, err);
    (void)unlink(paths[0]);
    (void)unlink(paths[1]);
    (void)rmdir(folder);
    return r;
}

static void a_later_file_may_switch_the_healthcheck_off(void **state)
{
    (void)state;
    struct compose_project *project = NULL;
    struct mst_error err = MST_ERROR_INIT;
    assert_int_equal(parse_two("services: {a: {healthcheck: {disable: true}}}\n", &project, &err), 0);
    test_strings(&project->services[0].healthcheck.test, "NONE");
    compose_project_free(project);
    assert_int_equal(parse_two("services: {a: {healthcheck: {disable: false}}}\n", &project, &err), 0);
    test_strings(&project->services[0].healthcheck.test, "CMD-SHELL,x");
    compose_project_free(project);
    project = NULL;
    assert_int_equal(parse_two("services: {a: {healthcheck: {disable: true, test: y}}}\n", &project, &err),
                     -EBADMSG);
    assert_non_null(
        strstr(err.text, "/2.yml:1:29: services.a.healthcheck: test and disable: true can't stand together"));
    assert_null(project);
}

static void objects_are_named_after_the_stack(void **state)
{
    (void)state;
    static const char text[] =
        TEST_SERVICE("    networks: [n, e]\n    volumes: ['v:/v']\n    secrets: [s]\n    configs: "
                     "[c]\n") "networks: {n: , e: {external: true}}\nvolumes: {v: }\n"
                              "secrets: {s: {x-muster-generate: 32}}\nconfigs: {c: {content: x, "
                              "name: own}}\n";
    const struct compose_options options = {.stack = "st"};
    struct compose_project *project = NULL;
    struct mst_error err = MST_ERROR_INIT;
    if (compose_project_parse(text, strlen(text), "f", ".", &options, &project, &err) < 0)
        fail_msg("%s", err.text);
    assert_string_equal(project->stack, "st");
    assert_string_equal(project->services[0].name, "st_a");
    assert_string_equal(project->networks[0].name, "st_n");
    assert_string_equal(project->networks[1].name, "e");
    assert_string_equal(project->volumes[0].name, "st_v");
    assert_string_equal(project->secrets[0].name, "st_s");
    assert_string_equal(project->configs[0].name, "own");
    compose_project_free(project);
}

static void stack_names_are_what_swarm_takes(void **state)
{
    (void)state;
    static const char *const good[] = {"a", "A1", "a-b_c", "a--b",
                                       "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"};
    static const char *const bad[] = {"",
                                      " ",
                                      "a b",
                                      "'a'",
                                      "a.b",
                                      "-a",
                                      "a-",
                                      "_a",
                                      "a/b",
                                      "\xc3\xa9",
                                      "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"};
    struct mst_error err = MST_ERROR_INIT;
    for (size_t i = 0; i < MST_ARRAY_COUNT(good); i++)
        assert_int_equal(compose_stack_name_check(good[i], &err), 0);
    for (size_t i = 0; i < MST_ARRAY_COUNT(bad); i++)
        assert_int_equal(compose_stack_name_check(bad[i], &err), -EINVAL);
    (void)compose_stack_name_check("a b", &err);
    assert_string_equal(
        err.text, "'a b' is not a stack's name: letters and digits, inside also - and _, at most 63 in all");
    struct compose_project *project = NULL;
    static const char *const files[] = {MUSTER_TEST_DATA "/base.yml"};
    assert_int_equal(load(files, 1, (struct compose_options){.stack = "a b"}, &project, &err), -EINVAL);
    assert_null(project);
}

static void variables_are_cast_where_a_type_is_wanted(void **state)
{
    (void)state;
    static const char *const given[] = {"N=3", "YES=yes", "OFF=Off", "OCTAL=0400", "T=010", NULL};
    static const char text[] =
        TEST_SERVICE("    read_only: $YES\n"
                     "    tty: ${OFF}\n"
                     "    environment: {T: $T}\n"
                     "    configs: [{source: c, mode: $OCTAL}]\n"
                     "    deploy: {replicas: '${N}', labels: {n: $N}}\n"
                     "    stop_grace_period: ${N}s\n"
                     "    healthcheck: {retries: $T}\n") "configs: {c: {content: x}}\n";
    const struct compose_options options = {.given = given};
    struct compose_project *project = NULL;
    struct mst_error err = MST_ERROR_INIT;
    if (compose_project_parse(text, strlen(text), "f", ".", &options, &project, &err) < 0)
        fail_msg("%s", err.text);
    const struct compose_service *service = &project->services[0];
    assert_true(service->read_only);
    assert_false(service->tty);
    test_strings(&service->environment, "T=010");
    assert_int_equal(service->configs[0].mode, 0400);
    assert_int_equal(service->deploy.replicas.value, 3);
    assert_int_equal(service->stop_grace_period_ns.value, 3000000000);
    assert_int_equal(service->healthcheck.retries, 10); /* of a text: decimal, as docker casts it */
    compose_project_free(project);
}

static void unset_variables_are_warnings_with_their_place(void **state)
{
    (void)state;
    struct compose_project *project = test_project(TEST_SERVICE("    user: x$NOPE\n"));
    test_strings(
        &project->warnings,
        "stack.yml:4:11: services.a.user: the variable 'NOPE' is not set: nothing stands in its place");
    compose_project_free(project);
}

static void a_shared_node_is_interpolated_once(void **state)
{
    (void)state;
    struct compose_project *project = test_project("x-user: &user {user: 'a$$b$NOPE'}\n"
                                                   "x-unused: ${\n"
                                                   "services:\n"
                                                   "  a: {image: x, <<: *user}\n"
                                                   "  b: {image: x, <<: *user}\n");
    assert_string_equal(project->services[0].user, "a$b");
    assert_string_equal(project->services[1].user, "a$b");
    assert_int_equal(project->warnings.count, 1);
    compose_project_free(project);
}

static const struct {
    const char *text, *error;
} bad[] = {
    {"", "stack.yml: the file is empty"},
    {"[]\n", "stack.yml:1:1: a list is not a mapping"},
    {"text\n", "stack.yml:1:1: 'text' is not a mapping"},
    {"service: {}\n", "stack.yml:1:1: the key 'service' is not known: did you mean 'services'?"},
    {"version: 3\n", "stack.yml:1:10: version: '3' is a number here, not a text: put it in quotes"},
    {"version: '2.4'\n",
     "stack.yml:1:10: version: '2.4' is not a format that stacks take: leave it out, or write \"3.13\""},
    {"version: '3.x'\n",
     "stack.yml:1:10: version: '3.x' is not a format that stacks take: leave it out, or write \"3.13\""},
    {"include: [x]\n", "stack.yml:1:1: include: not supported in stacks: give each file with -c"},
    {TEST_SERVICE("    user: ${\n"),
     "stack.yml:4:11: services.a.user: not a variable: '${' (write '$$' for a '$' that "
     "stands for itself)"},
    {TEST_SERVICE("    ports: [80, '${P:?say it}']\n"),
     "stack.yml:4:17: services.a.ports[1]: variable 'P' is required, and not set: say it"},
    {"services:\n  a:\n    image: x\n    image: y\n",
     "stack.yml:4:5: the key 'image' stands here already, on line 3"},
    {TEST_SERVICE("    deploy: {\"re\\nplicas\": 1}\n"),
     "stack.yml:4:14: services.a.deploy: the key 're?plicas' is not known: did you mean 'replicas'?"},
};

static void bad_files_are_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < MST_ARRAY_COUNT(bad); i++)
        test_refused(bad[i].text, bad[i].error);
}

static void good_tops_are_taken(void **state)
{
    (void)state;
    static const struct {
        const char *text, *warnings;
    } tops[] = {
        {"version: '3'\nservices: {a: {image: x}}\n", ""},
        {"version: '3.13'\nname: proj\nx-more: {any: [thing]}\nservices: {a: {image: x}}\n", ""},
        {"services: {a: {image: x}}\nnetworks:\nvolumes:\nsecrets:\nconfigs:\n", ""},
        {"version: '3'\n", "no services: there is nothing to deploy"},
        {"services: {a: {image: x}}\n---\nservices: 3\n",
         "stack.yml:1:1: only the first document of the file is read"},
        {"services: {a: {image: x}}\nx-muster-genrate: 3\n",
         "stack.yml:2:1: the extension key 'x-muster-genrate' means nothing here"},
    };
    for (size_t i = 0; i < MST_ARRAY_COUNT(tops); i++) {
        struct compose_project *project = test_project(tops[i].text);
        test_strings(&project->warnings, tops[i].warnings);
        compose_project_free(project);
    }
}

static void strict_makes_an_error_of_the_first_warning(void **state)
{
    (void)state;
    static const char text[] = TEST_SERVICE("    build: .\n    links: [x]\n");
    const struct compose_options options = {.strict = true};
    struct compose_project *project = NULL;
    struct mst_error err = MST_ERROR_INIT;
    assert_int_equal(compose_project_parse(text, strlen(text), "f", ".", &options, &project, &err), -EBADMSG);
    assert_string_equal(err.text, "f:4:5: services.a.build: ignored: a stack does not build images");
    assert_null(project);
}

static void files_that_cannot_be_read_are_named(void **state)
{
    (void)state;
    struct compose_project *project = NULL;
    struct mst_error err = MST_ERROR_INIT;
    assert_int_equal(load(NULL, 0, (struct compose_options){0}, &project, &err), -EINVAL);
    static const char *const missing[] = {MUSTER_TEST_DATA "/none.yml"};
    assert_int_equal(load(missing, 1, (struct compose_options){0}, &project, &err), -ENOENT);
    assert_non_null(strstr(err.text, "none.yml"));
    static const char *const nowhere[] = {"/no/such/folder/none.yml"};
    assert_int_equal(load(nowhere, 1, (struct compose_options){0}, &project, &err), -ENOENT);
    static const char *const folder[] = {MUSTER_TEST_DATA};
    assert_true(load(folder, 1, (struct compose_options){0}, &project, &err) < 0);
    const char *many[65];
    for (size_t i = 0; i < MST_ARRAY_COUNT(many); i++)
        many[i] = missing[0];
    assert_int_equal(load(many, 65, (struct compose_options){0}, &project, &err), -EINVAL);
    assert_null(project);
}

static void a_dash_is_stdin(void **state)
{
    (void)state;
    static const char text[] = "services: {a: {image: 3}}\n";
    int ends[2], saved = dup(STDIN_FILENO);
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    assert_int_equal(mst_write_all(ends[1], text, strlen(text)), 0);
    (void)close(ends[1]);
    assert_int_equal(dup2(ends[0], STDIN_FILENO), STDIN_FILENO);
    (void)close(ends[0]);
    static const char *const files[] = {"-"};
    struct compose_project *project = NULL;
    struct mst_error err = MST_ERROR_INIT;
    int r = load(files, 1, (struct compose_options){0}, &project, &err);
    if (saved >= 0) {
        (void)dup2(saved, STDIN_FILENO);
        (void)close(saved);
    }
    assert_int_equal(r, -EBADMSG);
    assert_string_equal(err.text,
                        "stdin:1:23: services.a.image: '3' is a number here, not a text: put it in quotes");
}

static void too_large_a_text_is_refused(void **state)
{
    (void)state;
    struct compose_project *project = NULL;
    struct mst_error err = MST_ERROR_INIT;
    const struct compose_options options = {0};
    assert_int_equal(
        compose_project_parse("a", COMPOSE_FILE_MAX_BYTES + 1U, "f", ".", &options, &project, &err), -EFBIG);
    assert_string_equal(err.text, "f: more than 4194304 bytes");
    compose_project_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_later_file_goes_onto_the_earlier),
        cmocka_unit_test(a_later_file_may_switch_the_healthcheck_off),
        cmocka_unit_test(objects_are_named_after_the_stack),
        cmocka_unit_test(stack_names_are_what_swarm_takes),
        cmocka_unit_test(variables_are_cast_where_a_type_is_wanted),
        cmocka_unit_test(unset_variables_are_warnings_with_their_place),
        cmocka_unit_test(a_shared_node_is_interpolated_once),
        cmocka_unit_test(bad_files_are_refused),
        cmocka_unit_test(good_tops_are_taken),
        cmocka_unit_test(strict_makes_an_error_of_the_first_warning),
        cmocka_unit_test(files_that_cannot_be_read_are_named),
        cmocka_unit_test(a_dash_is_stdin),
        cmocka_unit_test(too_large_a_text_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
