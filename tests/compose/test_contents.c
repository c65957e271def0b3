/* SPDX-License-Identifier: Apache-2.0 */
#include "test.h"

static void contents_come_from_files_texts_and_variables(void **state)
{
    (void)state;
    static const char text[] =
        TEST_SERVICE("") "secrets: {s: {file: ./content.txt, labels: {a: b}}, v: {environment: TOKEN}, d: "
                         "{driver: vault, driver_opts: {k: 1}}}\n"
                         "configs: {c: {file: content.txt, template_driver: golang, name: cc}, t: {content: "
                         "'x=${TOKEN}'}}\n";
    const char *const environment[] = {"TOKEN=hush", NULL};
    const struct compose_options options = {.environment = environment};
    struct compose_project *project = NULL;
    struct mst_error err = MST_ERROR_INIT;
    if (compose_project_parse(text, strlen(text), "f", MUSTER_TEST_DATA, &options, &project, &err) < 0)
        fail_msg("%s", err.text);
    assert_int_equal(project->secret_count, 3);
    assert_int_equal(project->secrets[0].byte_count, 16);
    assert_memory_equal(project->secrets[0].bytes, "sixteen bytes ..", 16);
    assert_string_equal(project->secrets[0].path, MUSTER_TEST_DATA "/content.txt");
    assert_string_equal(compose_pairs_find(&project->secrets[0].labels, "a"), "b");
    assert_null(project->secrets[0].name);
    assert_memory_equal(project->secrets[1].bytes, "hush", 4);
    assert_string_equal(project->secrets[2].driver, "vault");
    assert_null(project->secrets[2].bytes);
    assert_int_equal(project->configs[0].byte_count, 16);
    assert_string_equal(project->configs[0].template_driver, "golang");
    assert_string_equal(project->configs[0].name, "cc");
    assert_memory_equal(project->configs[1].bytes, "x=hush", 6);
    compose_project_free(project);
}

static void a_secret_may_be_muster_s_to_make(void **state)
{
    (void)state;
    struct compose_project *project =
        test_project(TEST_SERVICE("") "secrets: {a: {external: true, name: k, x-muster-generate: 32}, b: "
                                      "{x-muster-generate: 64}, c: {external: true}}\n");
    assert_int_equal(project->secrets[0].generate_bytes, 32);
    assert_true(project->secrets[0].external);
    assert_string_equal(project->secrets[0].name, "k");
    assert_int_equal(project->secrets[1].generate_bytes, 64);
    assert_false(project->secrets[1].external);
    assert_int_equal(project->secrets[2].generate_bytes, 0);
    assert_string_equal(project->secrets[2].name, "c");
    compose_project_free(project);
}

static void uses_have_defaults_and_are_sorted(void **state)
{
    (void)state;
    struct compose_project *project = test_project(TEST_SERVICE(
        "    secrets: [z, {source: a, target: t, uid: '1', gid: '2', mode: 0400}, {source: m, mode: "
        "'0640'}]\n"
        "    configs: [{source: c, target: /etc/c, mode: 288}]\n") "secrets: {z: {external: true}, a: "
                                                                   "{external: true}, m: {external: "
                                                                   "true}}\nconfigs: {c: {content: x}}\n");
    const struct compose_service *service = &project->services[0];
    assert_int_equal(service->secret_count, 3);
    const struct compose_content_use *a = &service->secrets[0], *m = &service->secrets[1],
                                     *z = &service->secrets[2];
    assert_string_equal(a->target, "t");
    assert_string_equal(a->uid, "1");
    assert_string_equal(a->gid, "2");
    assert_int_equal(a->mode, 0400);
    assert_ptr_equal(a->content, &project->secrets[1]);
    assert_int_equal(m->mode, 0640);
    assert_string_equal(z->target, "z");
    assert_string_equal(z->uid, "0");
    assert_string_equal(z->gid, "0");
    assert_int_equal(z->mode, 0444);
    assert_string_equal(service->configs[0].target, "/etc/c");
    assert_int_equal(service->configs[0].mode, 0440);
    assert_int_equal(project->warnings.count, 0);
    compose_project_free(project);
}

static void a_decimal_mode_is_a_warning(void **state)
{
    (void)state;
    struct compose_project *project =
        test_project(TEST_SERVICE("    configs: [{source: c, mode: 444}]\nconfigs: {c: {content: x}}\n"));
    test_strings(&project->warnings,
                 "stack.yml:4:33: services.a.configs[0].mode: '444' is a decimal number, mode 0674: "
                 "octal is written 0444");
    compose_project_free(project);
}

#define FOLDER MUSTER_TEST_DATA

static const struct {
    const char *text, *error;
} bad[] = {
    {"secrets: {s: {}}", "stack.yml:4:11: secrets.s: file or external: true is missing"},
    {"secrets: {s: }", "stack.yml:4:14: secrets.s: nothing stands here: it takes a mapping"},
    {"secrets: {s: {file: ''}}", "stack.yml:4:21: secrets.s.file: an empty path"},
    {"secrets: {s: {file: x, external: true}}",
     "stack.yml:4:11: secrets.s: external and file (or another source) can't stand together"},
    {"configs: {c: {file: x, content: y}}",
     "stack.yml:4:11: configs.c: more than one source: file, content, environment or driver"},
    {"secrets: {s: {content: y}}", "stack.yml:4:15: secrets.s: the key 'content' is not known"},
    {"configs: {s: {driver: y}}", "stack.yml:4:15: configs.s: the key 'driver' is not known"},
    {"configs: {s: {x-muster-generate: 32, content: y}}", NULL},
    {"secrets: {s: {environment: NOPE}}", "stack.yml:4:11: secrets.s: the variable 'NOPE' is not set"},
    {"secrets: {s: {x-muster-generate: 8}}",
     "stack.yml:4:34: secrets.s.x-muster-generate: '8' is not between 16 and 1024"},
    {"secrets: {s: {x-muster-generate: 32, file: x}}",
     "stack.yml:4:11: secrets.s: x-muster-generate and a source can't stand together"},
    {"configs: {c: {content: ''}}", "stack.yml:4:11: configs.c: its content must have 1 to 1023999 bytes"},
    {"configs: {c: {file: empty.txt}}",
     "stack.yml:4:11: configs.c: the file '" FOLDER "/empty.txt' is empty"},
    {"configs: {c: {file: none.txt}}", NULL},
    {"configs: {c: {file: .}}", NULL},
    {"secrets: {s-: {external: true}}",
     "stack.yml:4:11: secrets.s-: 's-' is not a name: letters, digits and - _ . inside, at most 64 in all"},
    {"secrets: {s: {external: true, name: 'a/b'}}",
     "stack.yml:4:11: secrets.s: 'a/b' is not a name: letters, digits and - _ . inside, at most 64 in all"},
    {"    secrets: [s]",
     "stack.yml:4:15: services.a.secrets: the secret 's' is not declared at the top of the file"},
    {"    configs: [c]",
     "stack.yml:4:15: services.a.configs: the config 'c' is not declared at the top of the file"},
    {"    secrets: [{target: x}]", "stack.yml:4:15: services.a.secrets[0]: source is missing"},
    {"    secrets: [x, {source: y, target: x}]",
     "stack.yml:4:18: services.a.secrets[1]: the target 'x' is taken already"},
    {"    secrets: [{source: x, mode: 08}]",
     "stack.yml:4:33: services.a.secrets[0].mode: '08' is not a file mode such as 0444"},
    {"    secrets: [{source: x, mode: '444'}]",
     "stack.yml:4:33: services.a.secrets[0].mode: '444' is not a file mode such as 0444"},
    {"    secrets: [{source: x, mode: 010000}]",
     "stack.yml:4:33: services.a.secrets[0].mode: '010000' is not a file mode such as 0444"},
    {"    secrets: [{source: x, uid: 1}]",
     "stack.yml:4:32: services.a.secrets[0].uid: '1' is a number here, not a text: put it in quotes"},
};

static void bad_contents_are_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < MST_ARRAY_COUNT(bad); i++) {
        char text[512];
        (void)snprintf(text, sizeof text, TEST_SERVICE("%s\n"), bad[i].text);
        if (bad[i].error) {
            test_refused(text, bad[i].error);
            continue;
        }
        struct compose_project *project = NULL;
        struct mst_error err = MST_ERROR_INIT;
        const int r = test_parse(text, &project, &err);
        if (strstr(bad[i].text,
                   "generate")) { /* an extension key that means nothing to configs: said, not refused */
            assert_int_equal(r, 0);
            assert_int_equal(project->warnings.count, 1);
        } else {
            assert_int_equal(r, -EBADMSG);
            assert_int_equal(strncmp(err.text, "stack.yml:4:11: configs.c: ", 27), 0);
        }
        compose_project_free(project);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(contents_come_from_files_texts_and_variables),
        cmocka_unit_test(a_secret_may_be_muster_s_to_make),
        cmocka_unit_test(uses_have_defaults_and_are_sorted),
        cmocka_unit_test(a_decimal_mode_is_a_warning),
        cmocka_unit_test(bad_contents_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
