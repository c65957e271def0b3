/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"
#include "test.h"

#define WORDS_MAX 12

/* Read a NULL-ended list of words for a verb. */
static int read_words(enum config_verb verb, const char *const *words, struct agent_config *ret_config,
                      struct mst_error *err)
{
    static char program[] = "muster-agent";
    char *argv[WORDS_MAX + 2] = {program};
    int argc = 1;
    for (; *words; words++)
        argv[argc++] = (char *)(uintptr_t)*words; /* argv is char * by tradition */
    return config_read(verb, argc, argv, ret_config, err);
}

static int clear_environment(void **state)
{
    (void)state;
    for (enum config_verb verb = CONFIG_TRAIN; verb <= CONFIG_HEALTH; verb++) {
        const struct mst_options *options = config_options(verb);
        for (size_t o = 0; o < options->count; o++)
            if (options->table[o].env)
                (void)unsetenv(options->table[o].env);
    }
    return 0;
}

static void defaults_are_those_of_the_published_runs(void **state)
{
    (void)state;
    static const char *const words[] = {"--model", "m.json", "--data", "d", NULL};
    mst_cleanup(config_release) struct agent_config config = {0};
    assert_int_equal(read_words(CONFIG_TRAIN, words, &config, NULL), 0);
    assert_string_equal(config.model, "m.json");
    assert_string_equal(config.data, "d");
    assert_int_equal(config.workers, 1);
    assert_int_equal(config.epochs, 12);
    assert_int_equal(config.steps, 70);
    assert_int_equal(config.batch, 64);
    assert_true(config.lr == 0.001 && config.momentum == 0);
    assert_int_equal(config.seed, 1);
    assert_int_equal(config.port, 7070);
    assert_int_equal(config.wait_ns, 60000000000ULL);
    assert_int_equal(config.uid, 65532);
    assert_int_equal(config.gid, 65532);
    assert_string_equal(config.key_file, "/run/secrets/muster_key");
    assert_false(config.insecure || config.keep_user || config.standalone || config.collect ||
                 config.has_subnet);
    assert_null(config.slot);
    assert_null(config.peers);
}

static void every_option_has_its_field(void **state)
{
    (void)state;
    static const char *const words[] = {"--model=m",    "--data=d",
                                        "--workers=3",  "--peers=10.0.0.1,10.0.0.2:9,10.0.0.3",
                                        "--user=7:8",   "--subnet=10.0.0.9/24",
                                        "--wait=1m30s", "--seed=18446744073709551615",
                                        "--collect",    "--step-log",
                                        "-v",           NULL};
    mst_cleanup(config_release) struct agent_config config = {0};
    assert_int_equal(read_words(CONFIG_TRAIN, words, &config, NULL), 0);
    assert_int_equal(config.peer_count, 3);
    assert_int_equal(config.peers[0].ipv4, 0x0a000001);
    assert_int_equal(config.peers[0].port, 0);
    assert_int_equal(config.peers[1].port, 9);
    assert_int_equal(config.uid, 7);
    assert_int_equal(config.gid, 8);
    assert_true(config.has_subnet);
    assert_int_equal(config.subnet.network, 0x0a000000);
    assert_int_equal(config.wait_ns, 90000000000ULL);
    assert_true(config.seed == UINT64_MAX);
    assert_true(config.collect && config.step_log);
    assert_int_equal(config.log_level, MST_LOG_DEBUG);
}

static void wrong_words_are_named_and_leave_the_config_alone(void **state)
{
    (void)state;
#define MODEL "--model=m", "--data=d"
    static const struct {
        enum config_verb verb;
        const char *words[6];
        const char *text;
    } cases[] = {
        {CONFIG_TRAIN, {NULL}, "--model FILE"},
        {CONFIG_TRAIN, {"--model=m", NULL}, "--data DIR"},
        {CONFIG_TRAIN, {MODEL, "--workers=0", NULL}, "'--workers': '0'"},
        {CONFIG_TRAIN, {MODEL, "--workers=1025", NULL}, "from 1 to 1024"},
        {CONFIG_TRAIN, {MODEL, "--epochs=0", NULL}, "'--epochs'"},
        {CONFIG_TRAIN, {MODEL, "--batch=-1", NULL}, "'--batch'"},
        {CONFIG_TRAIN, {MODEL, "--lr=0", NULL}, "'--lr'"},
        {CONFIG_TRAIN, {MODEL, "--lr=nan", NULL}, "'--lr'"},
        {CONFIG_TRAIN, {MODEL, "--momentum=1", NULL}, "'--momentum'"},
        {CONFIG_TRAIN, {MODEL, "--port=0", NULL}, "'--port'"},
        {CONFIG_TRAIN, {MODEL, "--port=65536", NULL}, "'--port'"},
        {CONFIG_TRAIN, {MODEL, "--subnet=10.0.0.0", NULL}, "'--subnet'"},
        {CONFIG_TRAIN, {MODEL, "--wait=60", NULL}, "'--wait'"},
        {CONFIG_TRAIN, {MODEL, "--user=0", NULL}, "'--user'"},
        {CONFIG_TRAIN, {MODEL, "--user=1:0", NULL}, "'--user'"},
        {CONFIG_TRAIN, {MODEL, "--user=root", NULL}, "'--user'"},
        {CONFIG_TRAIN, {MODEL, "--user=", NULL}, "'--user'"},
        {CONFIG_TRAIN, {MODEL, "--user=4294967295", NULL}, "'--user'"}, /* (uid_t)-1: leave as it is */
        {CONFIG_TRAIN, {MODEL, "--user=1:", NULL}, "'--user'"},
        {CONFIG_TRAIN, {MODEL, "--user=1:2:3", NULL}, "'--user'"},
        {CONFIG_TRAIN, {MODEL, "--peers=", NULL}, "'--peers'"},
        {CONFIG_TRAIN, {MODEL, "--peers=10.0.0.1,", NULL}, "'--peers'"},
        {CONFIG_TRAIN, {MODEL, "--peers=10.0.0.1:0", NULL}, "'--peers'"},
        {CONFIG_TRAIN, {MODEL, "--peers=host", NULL}, "'--peers'"},
        {CONFIG_TRAIN, {MODEL, "--peers=1111111111111111111111111111", NULL}, "'--peers'"},
        {CONFIG_TRAIN, {MODEL, "--peers=10.0.0.1", "--workers=2", NULL}, "1 addresses for 2 workers"},
        {CONFIG_TRAIN, {MODEL, "--standalone", "--workers=2", NULL}, "'--standalone'"},
        {CONFIG_TRAIN, {MODEL, "--standalone", "--peers=10.0.0.1", NULL}, "'--peers'"},
        {CONFIG_TRAIN, {MODEL, "--insecure", "--key-file=k", NULL}, "'--insecure' is to run without a key"},
        {CONFIG_TRAIN, {MODEL, "--old-key-file=k", "--insecure", NULL}, "'--old-key-file' names one"},
        {CONFIG_EXEC, {"--insecure", "--key-file=k", "--", "true", NULL}, "'--insecure'"},
        {CONFIG_COLLECT, {"--insecure", "--key-file=k", NULL}, "'--insecure'"},
        {CONFIG_SCAN, {"--insecure", "--key-file=/run/secrets/muster_key", NULL}, "'--insecure'"},
        {CONFIG_TRAIN, {MODEL, "--out=", NULL}, "'--out': must not be empty"},
        {CONFIG_TRAIN, {MODEL, "--log-format=xml", NULL}, "'--log-format'"},
        {CONFIG_TRAIN, {MODEL, "--worker=3", NULL}, "did you mean '--workers'?"},
        {CONFIG_TRAIN, {MODEL, "stray", NULL}, "'stray'"},
        {CONFIG_COLLECT, {"--workers=3", NULL}, "unknown option"},
        {CONFIG_SCAN, {"--format=xml", NULL}, "'--format'"},
        {CONFIG_HEALTH, {"--port=x", NULL}, "'--port'"},
    };
    for (size_t c = 0; c < MST_ARRAY_COUNT(cases); c++) {
        struct agent_config config = {.batch = 777};
        struct mst_error err = MST_ERROR_INIT;
        assert_int_equal(read_words(cases[c].verb, cases[c].words, &config, &err), -EINVAL);
        if (!strstr(err.text, cases[c].text))
            fail_msg("'%s' does not say \"%s\"", err.text, cases[c].text);
        assert_int_equal(config.batch, 777);
    }
}

static void no_key_is_given_by_default(void **state)
{
    (void)state;
    static const char *const words[] = {"--insecure", NULL};
    mst_cleanup(config_release) struct agent_config config = {0};
    assert_int_equal(read_words(CONFIG_SCAN, words, &config, NULL), 0);
    assert_true(config.insecure && !config.key_given);
    assert_int_equal(setenv("MUSTER_KEY_FILE", "k", 1), 0); /* which is given as well */
    assert_int_equal(read_words(CONFIG_SCAN, words, &config, NULL), -EINVAL);
    assert_int_equal(read_words(CONFIG_SCAN, words + 1, &config, NULL), 0);
    assert_true(config.key_given && !config.insecure);
}

static void the_environment_speaks_for_a_stack(void **state)
{
    (void)state;
    static const char *const words[] = {"--batch=5", NULL};
    static const char *const variables[][2] = {{"MUSTER_MODEL", "m"}, {"MUSTER_DATA", "d"},
                                               {"MUSTER_BATCH", "6"}, {"MUSTER_WORKERS", "3"},
                                               {"MUSTER_SUBNET", ""}, {"MUSTER_COLLECT", "yes"}};
    for (size_t v = 0; v < MST_ARRAY_COUNT(variables); v++)
        assert_int_equal(setenv(variables[v][0], variables[v][1], 1), 0);
    mst_cleanup(config_release) struct agent_config config = {0};
    assert_int_equal(read_words(CONFIG_TRAIN, words, &config, NULL), 0);
    assert_string_equal(config.model, "m");
    assert_int_equal(config.batch, 5);
    assert_int_equal(config.workers, 3);
    assert_false(config.has_subnet); /* an empty variable is none */
    assert_true(config.collect);

    struct mst_error err = MST_ERROR_INIT;
    assert_int_equal(setenv("MUSTER_WORKERS", "three", 1), 0);
    assert_int_equal(read_words(CONFIG_TRAIN, words, &config, &err), -EINVAL);
    assert_non_null(strstr(err.text, "MUSTER_WORKERS"));
}

#define CLEAN(test) cmocka_unit_test_setup_teardown(test, clear_environment, clear_environment)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CLEAN(defaults_are_those_of_the_published_runs),
        CLEAN(every_option_has_its_field),
        CLEAN(wrong_words_are_named_and_leave_the_config_alone),
        CLEAN(no_key_is_given_by_default),
        CLEAN(the_environment_speaks_for_a_stack),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
