/* SPDX-License-Identifier: Apache-2.0 */
#include "test.h"

static const char *const outer[] = {"BARE=outer bare", "EMPTY=outer empty", "OTHER=x", "A=outer a", NULL};

static int parse(const char *lines, struct compose_project **ret_project, struct mst_error *err)
{
    static const struct compose_options options = {.environment = outer};
    char text[1024];
    (void)snprintf(text, sizeof text, TEST_SERVICE("%s"), lines);
    return compose_project_parse(text, strlen(text), "stack.yml", MUSTER_TEST_DATA, &options, ret_project,
                                 err);
}

static const struct {
    const char *lines, *expected;
} good[] = {
    {"    environment: {B: 2, A: one, C: 1.50, D: '', E: 010, F: 'true'}\n", "A=one,B=2,C=1.5,D=,E=8,F=true"},
    {"    environment: [B=2, A=one=two, 'C= x ']\n", "A=one=two,B=2,C= x "},
    {"    environment: {BARE: , NONE: }\n", "BARE=outer bare,NONE"},
    {"    environment: [BARE, NONE]\n", "BARE=outer bare,NONE"},
    /* docker gives the caller's value to an empty one too. */
    {"    environment: {EMPTY: ''}\n", "EMPTY=outer empty"},
    {"    environment: {A: '${OTHER}/${OTHER}'}\n", "A=x/x"},
    /* By the whole text, as docker: "A-B=" before "A=". */
    {"    environment: {A: 1, A-B: 2, A0: 3}\n", "A-B=2,A0=3,A=1"},
    {"    environment: {}\n", ""},
    {"    environment:\n", ""},
    {"    env_file: one.env\n", "A=from file ,B=\"quoted $x\",BARE=outer bare,D=1,EMPTY=outer empty"},
    {"    env_file: [one.env, ./two.env]\n    environment: {B: mine}\n",
     "A=from file ,B=mine,BARE=outer bare,D=2,E=last,EMPTY=outer empty"},
    {"    env_file: [{path: two.env}, {path: none.env, required: false}]\n", "D=2,E=last"},
};

static void variables_come_from_files_the_section_and_the_caller(void **state)
{
    (void)state;
    for (size_t i = 0; i < MST_ARRAY_COUNT(good); i++) {
        struct compose_project *project = NULL;
        struct mst_error err = MST_ERROR_INIT;
        if (parse(good[i].lines, &project, &err) < 0)
            fail_msg("%s: %s", good[i].lines, err.text);
        test_strings(&project->services[0].environment, good[i].expected);
        compose_project_free(project);
    }
}

static const struct {
    const char *lines, *error;
} bad[] = {
    {"    environment: {A: true}\n",
     "stack.yml:4:22: services.a.environment.A: 'true' is a truth value here, not a text: put it in quotes"},
    {"    environment: {A: [x]}\n",
     "stack.yml:4:22: services.a.environment.A: a list is not a text, a number or nothing"},
    {"    environment: x\n",
     "stack.yml:4:18: services.a.environment: 'x' is not a mapping or a list of NAME=VALUE"},
    {"    environment: [=x]\n",
     "stack.yml:4:19: services.a.environment[0]: a name must stand before the '='"},
    {"    environment: {'': x}\n", "stack.yml:4:19: services.a.environment.: an empty name"},
    {"    environment: {A=B: x}\n",
     "stack.yml:4:19: services.a.environment.A=B: a variable's name has no '='"},
    {"    environment: [1]\n",
     "stack.yml:4:19: services.a.environment[0]: '1' is a number here, not a text: put it in quotes"},
    {"    env_file: bad.env\n",
     MUSTER_TEST_DATA "/bad.env:2:1: services.a.environment: the variable's name has a blank in it"},
    {"    env_file: nameless.env\n",
     MUSTER_TEST_DATA "/nameless.env:1:1: services.a.environment: a name must stand before the '='"},
    {"    env_file: ''\n", "stack.yml:4:15: services.a.env_file: path is missing"},
    {"    env_file: [{required: true}]\n", "stack.yml:4:16: services.a.env_file[0]: path is missing"},
    {"    env_file: 3\n",
     "stack.yml:4:15: services.a.env_file: '3' is a number here, not a text: put it in quotes"},
};

static void bad_environments_are_refused(void **state)
{
    (void)state;
    struct compose_project *project = NULL;
    struct mst_error err = MST_ERROR_INIT;
    for (size_t i = 0; i < MST_ARRAY_COUNT(bad); i++) {
        assert_int_equal(parse(bad[i].lines, &project, &err), -EBADMSG);
        assert_string_equal(err.text, bad[i].error);
    }
    assert_int_equal(parse("    env_file: none.env\n", &project, &err), -EBADMSG);
    assert_int_equal(strncmp(err.text, "stack.yml:4:15: services.a.environment: ", 40), 0);
    assert_non_null(strstr(err.text, "none.env"));
    assert_null(project);
}

static void labels_come_from_files_and_the_section(void **state)
{
    (void)state;
    struct compose_project *project = NULL;
    struct mst_error err = MST_ERROR_INIT;
    /* Nothing comes from the caller's environment, which has BARE and EMPTY. */
    assert_int_equal(
        parse("    label_file: [one.env, two.env]\n    labels: {B: mine, z: last}\n", &project, &err), 0);
    const struct compose_pairs *labels = &project->services[0].labels;
    assert_string_equal(compose_pairs_find(labels, "A"), "from file ");
    assert_string_equal(compose_pairs_find(labels, "B"), "mine");
    assert_string_equal(compose_pairs_find(labels, "BARE"), "");
    assert_string_equal(compose_pairs_find(labels, "EMPTY"), "");
    assert_string_equal(compose_pairs_find(labels, "D"), "2");
    assert_string_equal(compose_pairs_find(labels, "z"), "last");
    assert_int_equal(project->services[0].environment.count, 0);
    assert_int_equal(project->warnings.count, 0);
    compose_project_free(project);

    static const struct {
        const char *lines, *error;
    } bad_files[] = {
        {"    label_file: bad.env\n",
         MUSTER_TEST_DATA "/bad.env:2:1: services.a.label_file: the label's name has a blank in it"},
        {"    label_file: ['']\n", "stack.yml:4:17: services.a.label_file: a path is missing"},
        {"    label_file: {a: b}\n", "stack.yml:4:17: services.a.label_file: a mapping is not a list"},
    };
    for (size_t i = 0; i < MST_ARRAY_COUNT(bad_files); i++) {
        assert_int_equal(parse(bad_files[i].lines, &project, &err), -EBADMSG);
        assert_string_equal(err.text, bad_files[i].error);
    }
    assert_int_equal(parse("    label_file: none.env\n", &project, &err), -EBADMSG);
    assert_non_null(strstr(err.text, "none.env"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(variables_come_from_files_the_section_and_the_caller),
        cmocka_unit_test(bad_environments_are_refused),
        cmocka_unit_test(labels_come_from_files_and_the_section),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
