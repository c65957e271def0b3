/* SPDX-License-Identifier: Apache-2.0 */
#include "dotenv.h"
#include "muster/file.h"
#include "test.h"

#include <stdlib.h>
#include <unistd.h>

static const char *const environment[] = {"OUT=outer", "HIDDEN=outer", "COST=$5", NULL};
static const struct compose_options options = {.environment = environment};

static int parse(const char *text, size_t bytes, struct schema_load *load, struct mst_error *err)
{
    struct compose_arena *arena = compose_arena_new();
    struct compose_project *project = compose_arena_alloc(arena, sizeof *project);
    *project = (struct compose_project){.arena = arena};
    *load = (struct schema_load){
        .project = project, .arena = arena, .options = &options, .source = {.options = &options}, .err = err};
    return dotenv_parse(load, text, bytes, "a.env");
}

/* "NAME=[value] " of each, in the order of the names. */
static void names_have_the_values_that_the_lines_give(void **state)
{
    static const struct {
        const char *text, *expected;
    } cases[] = {
        {"", ""},
        {"\n\n  \n# A=1\n  # B=2", ""},
        {"A=1", "A=[1] "},
        {"B=2\nA=1\n", "A=[1] B=[2] "},
        {"\xef\xbb\xbf"
         "A=1\r\nB=2\r\n",
         "A=[1] B=[2] "},
        {"  A = 1 2  \t\n", "A=[1 2] "},
        {"export A=1\nexport\tB=2\nexport=3\n", "A=[1] B=[2] export=[3] "},
        {"A=\nB=#c\nC= # c\nD=x#y # c\n", "A=[] B=[] C=[] D=[x#y] "},
        {"A=1\nA=2\n", "A=[2] "},
        {"A=b=c\na.b-c_9=1\n", "A=[b=c] a.b-c_9=[1] "},
        {"A\nOUT\nB # c\n", ""},
        {"A='x # $OUT \\n \"q\" it\\'s' # c\n", "A=[x # $OUT \\n \"q\" it's] "},
        {"A=\"x # $OUT\"\t#c\nB=\"a\\nb\\tc\\\\d\\\"e\\$OUT\\q\"\n",
         "A=[x # outer] B=[a\nb\tc\\d\"e$OUT\\q] "},
        {"A='one\ntwo'\nB=\"three\nfour\"\nC=5", "A=[one\ntwo] B=[three\nfour] C=[5] "},
        {"A=1\nB=$A-${A}0\nC=${NONE:-$B}\n", "A=[1] B=[1-10] C=[1-10] "},
        {"HIDDEN=inner\nA=$HIDDEN\n", "A=[outer] HIDDEN=[inner] "},
        {"A=$$5 $COST\n", "A=[$5 $5] "},
        {"A='it''s'\n", NULL},
    };

    (void)state;
    for (size_t i = 0; i < MST_ARRAY_COUNT(cases); i++) {
        struct schema_load load;
        struct mst_error err = MST_ERROR_INIT;
        char got[256] = "";
        size_t used = 0;
        int r = parse(cases[i].text, strlen(cases[i].text), &load, &err);
        if ((r == 0) != (cases[i].expected != NULL))
            fail_msg("%s: %s", cases[i].text, err.text);
        for (size_t v = 0; r == 0 && v < load.source.files.count; v++)
            used += (size_t)snprintf(got + used, sizeof got - used, "%s=[%s] ",
                                     load.source.files.items[v].key, load.source.files.items[v].value);
        if (r == 0)
            assert_string_equal(got, cases[i].expected);
        assert_int_equal(load.project->warnings.count, 0);
        compose_project_free(load.project);
    }
}

static void what_is_no_assignment_is_refused_and_not_shown(void **state)
{
    static const struct {
        const char *text;
        size_t bytes; /* 0: up to the NUL */
        const char *error;
    } cases[] = {
        {"=1", 0, "a.env:1:1: expected NAME=VALUE"},
        {"A=1\n  hunter2 !\n", 0, "a.env:2:11: expected NAME=VALUE"},
        {"A: 1\n", 0, "a.env:1:2: expected NAME=VALUE"},
        {"\xc3\xa9=1", 0, "a.env:1:1: expected NAME=VALUE"},
        {"A='x\n\ny\n", 0, "a.env:1:1: A: the quote ' that begins its value has no end"},
        {" export A=\"x\\\"", 0, "a.env:1:9: A: the quote \" that begins its value has no end"},
        {"A='x\ny' z\n", 0, "a.env:2:4: A: nothing but a comment may stand behind the closing quote"},
        {"A=${B", 0, "a.env:1:1: A: not a variable: '${B' (write '$$' for a '$' that stands for itself)"},
        {"A=\"${B:?say so}\"", 0, "a.env:1:1: A: variable 'B' is required, and not set: say so"},
        {"A=1\0B", 5, "a.env:1:1: a NUL character: this is no file of variables"},
    };

    (void)state;
    for (size_t i = 0; i < MST_ARRAY_COUNT(cases); i++) {
        struct schema_load load;
        struct mst_error err = MST_ERROR_INIT;
        const size_t bytes = cases[i].bytes ? cases[i].bytes : strlen(cases[i].text);
        assert_int_equal(parse(cases[i].text, bytes, &load, &err), -EBADMSG);
        assert_string_equal(err.text, cases[i].error);
        compose_project_free(load.project);
    }
}

static void a_variable_that_is_not_set_is_a_warning(void **state)
{
    (void)state;
    struct schema_load load;
    struct mst_error err = MST_ERROR_INIT;
    static const char text[] = "A=1\nB=[$NONE]\n";
    assert_int_equal(parse(text, strlen(text), &load, &err), 0);
    test_strings(&load.project->warnings,
                 "a.env:2:1: B: the variable 'NONE' is not set: nothing stands in its place");
    assert_string_equal(compose_pairs_find(&load.source.files, "B"), "[]");
    compose_project_free(load.project);
}

/* --- with stack files --- */

static char folder[] = "/tmp/muster-dotenv-XXXXXX";

static const char *path_of(const char *name, char path[static 64])
{
    (void)snprintf(path, 64, "%s/%s", folder, name);
    return path;
}

static void put(const char *name, const char *text)
{
    char path[64];
    assert_int_equal(mst_file_write_atomic(path_of(name, path), text, strlen(text), 0600, NULL), 0);
}

static int setup(void **state)
{
    (void)state;
    if (!mkdtemp(folder))
        return -1;
    put("stack.yml", "services:\n  a:\n    image: \"$V\"\n    environment: {BARE: }\n");
    return 0;
}

static int teardown(void **state)
{
    char path[64];
    (void)state;
    for (size_t i = 0; i < 5; i++)
        (void)unlink(
            path_of((const char *const[]){"stack.yml", ".env", "1.env", "2.env", "bad.env"}[i], path));
    return rmdir(folder);
}

static int load(const char *const *env_files, size_t count, const char *const *given,
                struct compose_project **ret_project, struct mst_error *err)
{
    char stack[64];
    const char *files[] = {path_of("stack.yml", stack)};
    const struct compose_options with = {
        .files = files, .file_count = 1, .given = given, .env_files = env_files, .env_file_count = count};
    return compose_project_load(&with, ret_project, err);
}

static void the_neighbour_is_read_unless_another_file_is_given(void **state)
{
    char one[64], two[64], neighbour[64];
    const char *const env_files[] = {path_of("1.env", one), path_of("2.env", two)};
    static const char *const nothing[] = {"/dev/null"};
    static const char *const given[] = {"V=given", NULL};
    struct mst_error err = MST_ERROR_INIT;
    struct compose_project *project;

    (void)state;
    assert_int_equal(load(NULL, 0, NULL, &project, &err), -EBADMSG); /* no image: there is no .env yet */
    put(".env", "V=neighbour\nBARE=of the file\n");
    put("1.env", "V=one\n");
    put("2.env", "V=two\n");

    assert_int_equal(load(NULL, 0, NULL, &project, &err), 0);
    assert_string_equal(project->services[0].image, "neighbour");
    test_strings(&project->services[0].environment, "BARE=of the file");
    test_strings(&project->env_files, path_of(".env", neighbour));
    compose_project_free(project);

    assert_int_equal(load(env_files, 2, NULL, &project, &err), 0);
    assert_string_equal(project->services[0].image, "two");
    test_strings(&project->services[0].environment, "BARE");
    assert_int_equal(project->env_files.count, 2);
    compose_project_free(project);

    assert_int_equal(load(env_files, 2, given, &project, &err), 0);
    assert_string_equal(project->services[0].image, "given");
    compose_project_free(project);

    assert_int_equal(load(nothing, 1, given, &project, &err), 0);
    test_strings(&project->services[0].environment, "BARE");
    assert_int_equal(project->env_files.count, 0);
    compose_project_free(project);
}

static void a_file_that_is_named_must_be_there_and_right(void **state)
{
    char bad[64], missing[64], text[256];
    const char *const bad_files[] = {path_of("bad.env", bad)};
    const char *const missing_files[] = {path_of("missing.env", missing)};
    struct mst_error err = MST_ERROR_INIT;
    struct compose_project *project = NULL;

    (void)state;
    put("bad.env", "V=1\nno assignment\n");
    assert_int_equal(load(bad_files, 1, NULL, &project, &err), -EBADMSG);
    (void)snprintf(text, sizeof text, "%s:2:4: expected NAME=VALUE", bad);
    assert_string_equal(err.text, text);
    assert_int_equal(load(missing_files, 1, NULL, &project, &err), -ENOENT);
    assert_non_null(strstr(err.text, "missing.env"));
    assert_null(project);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_have_the_values_that_the_lines_give),
        cmocka_unit_test(what_is_no_assignment_is_refused_and_not_shown),
        cmocka_unit_test(a_variable_that_is_not_set_is_a_warning),
        cmocka_unit_test(the_neighbour_is_read_unless_another_file_is_given),
        cmocka_unit_test(a_file_that_is_named_must_be_there_and_right),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
