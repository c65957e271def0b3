/* SPDX-License-Identifier: Apache-2.0 */
#include "muster/opts.h"
#include "muster/parse.h"
#include "test.h"

struct settings {
    char trail[256]; /* every setter call, in order: "name=text;" */
};

static int note(struct settings *settings, const char *name, const char *text)
{
    const size_t used = strlen(settings->trail);
    (void)snprintf(settings->trail + used, sizeof settings->trail - used, "%s=%s;", name, text);
    return 0;
}

static int set_number(void *settings, const char *text, struct mst_error *err)
{
    uint32_t value;
    const int r = mst_parse_u32(text, 1, 9, &value, err);
    return r < 0 ? r : note(settings, "number", text);
}

static int set_flag(void *settings, const char *text, struct mst_error *err)
{
    bool on;
    const int r = mst_parse_bool(text, &on, err);
    return r < 0 ? r : note(settings, "flag", text);
}

static int set_file(void *settings, const char *text, struct mst_error *err)
{
    (void)err;
    return note(settings, "file", text);
}

static const struct mst_option table[] = {
    {.name = "number",
     .letter = 'n',
     .argument = "N",
     .env = "MUSTER_TEST_NUMBER",
     .fallback = "3",
     .help = "a number\nof two lines",
     .set = set_number},
    {.name = "flag",
     .letter = 'f',
     .kind = MST_OPT_FLAG,
     .env = "MUSTER_TEST_FLAG",
     .help = "a flag",
     .set = set_flag},
    {.name = "file",
     .letter = 'c',
     .kind = MST_OPT_REPEAT,
     .argument = "FILE",
     .env = "MUSTER_TEST_FILE",
     .help = "files",
     .set = set_file},
};
static const struct mst_options options = {.program = "prog",
                                           .verb = "verb",
                                           .synopsis = "[options]",
                                           .about = "Tests.",
                                           .table = table,
                                           .count = MST_ARRAY_COUNT(table)};

struct run {
    char *argv[12];
    int argc, operands;
    struct settings settings;
    struct mst_error err;
};

/* The words are a NULL-ended list; "MUSTER_...=x" words before the rest go into the environment. */
static int parse(struct run *run, const char *const *words)
{
    *run = (struct run){.operands = -1};
    for (size_t o = 0; o < MST_ARRAY_COUNT(table); o++)
        (void)unsetenv(table[o].env);
    static char program[] = "prog";
    run->argv[run->argc++] = program;
    for (; *words; words++) {
        const char *equals = strchr(*words, '=');
        if (strncmp(*words, "MUSTER_", 7) == 0) {
            char name[64];
            (void)snprintf(name, sizeof name, "%.*s", (int)(equals - *words), *words);
            assert_int_equal(setenv(name, equals + 1, 1), 0);
        } else {
            run->argv[run->argc++] = (char *)(uintptr_t)*words; /* argv is char * by tradition */
        }
    }
    return mst_options_parse(&options, run->argc, run->argv, &run->settings, &run->operands, &run->err);
}

static void flags_win_over_environment_over_defaults(void **state)
{
    (void)state;
    static const struct {
        const char *words[8];
        const char *trail;
    } cases[] = {
        {{NULL}, "number=3;"},
        {{"--number", "4", NULL}, "number=4;"},
        {{"--number=4", NULL}, "number=4;"},
        {{"-n", "4", NULL}, "number=4;"},
        {{"-n4", NULL}, "number=4;"},
        {{"MUSTER_TEST_NUMBER=5", NULL}, "number=5;"},
        {{"MUSTER_TEST_NUMBER=5", "-n", "6", NULL}, "number=6;"},
        {{"MUSTER_TEST_NUMBER=", NULL}, "number=3;"}, /* empty is not set: stacks leave variables empty */
        {{"MUSTER_TEST_NUMBER=x", "-n6", NULL}, "number=6;"}, /* what does not count is not read */
        {{"--flag", NULL}, "flag=true;number=3;"},
        {{"-f", "--flag", NULL}, "flag=true;flag=true;number=3;"},
        {{"MUSTER_TEST_FLAG=no", NULL}, "number=3;flag=no;"},
        {{"-c", "a", "--file=b", "--file", "", NULL}, "file=a;file=b;file=;number=3;"},
        {{"MUSTER_TEST_FILE=e", "-ca", NULL}, "file=a;number=3;"},
        {{"--file", "--flag", NULL}, "file=--flag;number=3;"}, /* a value is a value */
        {{"--file=a=b", NULL}, "file=a=b;number=3;"},
    };
    for (size_t c = 0; c < MST_ARRAY_COUNT(cases); c++) {
        struct run run;
        assert_int_equal(parse(&run, cases[c].words), 0);
        assert_string_equal(run.settings.trail, cases[c].trail);
        assert_int_equal(run.operands, run.argc);
    }
}

static void what_is_wrong_is_named(void **state)
{
    (void)state;
    static const struct {
        const char *words[6];
        const char *text;
    } cases[] = {
        {{"--numbr", "4", NULL}, "did you mean '--number'?"},
        {{"--numbr=4", NULL}, "did you mean '--number'?"},
        {{"--hlep", NULL}, "did you mean '--help'?"},
        {{"--banana", NULL}, "unknown option '--banana'; '--help' lists them"},
        {{"-x", NULL}, "unknown option '-x'"},
        {{"-fx", NULL}, "unknown option '-fx'"},
        {{"--flag=true", NULL}, "takes no value"},
        {{"--number", NULL}, "'--number' needs a value: N"},
        {{"-n", NULL}, "'--number' needs a value: N"},
        {{"--number=", NULL}, "option '--number': ''"},
        {{"--number=10", NULL}, "option '--number': '10' is not a whole number from 1 to 9"},
        {{"-n1", "--number=2", NULL}, "given twice"},
        {{"MUSTER_TEST_NUMBER=10", NULL}, "environment variable MUSTER_TEST_NUMBER: '10'"},
        {{"MUSTER_TEST_FLAG=maybe", NULL}, "environment variable MUSTER_TEST_FLAG: 'maybe'"},
    };
    for (size_t c = 0; c < MST_ARRAY_COUNT(cases); c++) {
        struct run run;
        assert_int_equal(parse(&run, cases[c].words), -EINVAL);
        assert_non_null(strstr(run.err.text, cases[c].text));
        assert_int_equal(run.operands, -1);
    }
}

static void operands_end_up_behind_the_options(void **state)
{
    (void)state;
    static const struct {
        const char *words[8];
        size_t count;
        const char *operands[4];
    } cases[] = {
        {{"a", "-n", "4", "b", NULL}, 2, {"a", "b"}},
        {{"-n4", "--", "-n", "--help", NULL}, 2, {"-n", "--help"}},
        {{"-", NULL}, 1, {"-"}}, /* standard input by custom */
        {{"--", NULL}, 0, {NULL}},
        {{"", NULL}, 1, {""}},
    };
    for (size_t c = 0; c < MST_ARRAY_COUNT(cases); c++) {
        struct run run;
        assert_int_equal(parse(&run, cases[c].words), 0);
        assert_int_equal(run.argc - run.operands, cases[c].count);
        for (size_t o = 0; o < cases[c].count; o++)
            assert_string_equal(run.argv[run.operands + (int)o], cases[c].operands[o]);
    }
}

static void a_required_option_must_come_from_somewhere(void **state)
{
    (void)state;
    static const struct mst_option needed[] = {{.name = "model",
                                                .argument = "FILE",
                                                .env = "MUSTER_TEST_FILE",
                                                .help = "h",
                                                .set = set_file,
                                                .required = true}};
    static const struct mst_options one = {
        .program = "prog", .synopsis = "", .about = "", .table = needed, .count = 1};
    struct settings settings = {0};
    struct mst_error err = MST_ERROR_INIT;
    char program[] = "prog", *argv[] = {program, NULL};
    int operands = -1;
    (void)unsetenv("MUSTER_TEST_FILE");
    assert_int_equal(mst_options_parse(&one, 1, argv, &settings, &operands, &err), -EINVAL);
    assert_string_equal(err.text, "option '--model FILE' is required, or set MUSTER_TEST_FILE");
    assert_int_equal(setenv("MUSTER_TEST_FILE", "x", 1), 0);
    assert_int_equal(mst_options_parse(&one, 1, argv, &settings, &operands, &err), 0);
    assert_string_equal(settings.trail, "file=x;");
    (void)unsetenv("MUSTER_TEST_FILE");
}

static void help_lists_every_option_with_its_sources(void **state)
{
    (void)state;
    char text[4096];
    struct run run;
    struct test_capture capture;
    static const char *const words[] = {"--help", "--banana", NULL};
    test_capture_begin(&capture, STDOUT_FILENO);
    const int r = parse(&run, words);
    (void)test_capture_end(&capture, text, sizeof text);
    assert_int_equal(r, 1);
    static const char *const parts[] = {"Usage: prog verb [options]",
                                        "-n, --number N",
                                        "MUSTER_TEST_NUMBER, default 3",
                                        "-f, --flag",
                                        "-c, --file FILE",
                                        "[MUSTER_TEST_FILE]",
                                        "--help"};
    for (size_t p = 0; p < MST_ARRAY_COUNT(parts); p++)
        assert_non_null(strstr(text, parts[p]));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(flags_win_over_environment_over_defaults),
        cmocka_unit_test(what_is_wrong_is_named),
        cmocka_unit_test(operands_end_up_behind_the_options),
        cmocka_unit_test(a_required_option_must_come_from_somewhere),
        cmocka_unit_test(help_lists_every_option_with_its_sources),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
