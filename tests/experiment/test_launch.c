/* SPDX-License-Identifier: Apache-2.0 */
#include "../common/test.h"
#include "experiment/launch.h"
#include "muster/cleanup.h"
#include "muster/clock.h"
#include "muster/json.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

static void template_becomes_words(void **state)
{
    static const struct {
        const char *text, *words; /* joined by '|' */
    } cases[] = {
        {"ssh {host} {cmd}", "ssh|node1|/opt/muster|compare-host"},
        {"  ssh -p  2222 root@{host}  {cmd} ", "ssh|-p|2222|root@node1|/opt/muster|compare-host"},
        {"sh -c '{cmd} 2>/dev/null'", "sh|-c|/opt/muster compare-host 2>/dev/null"},
        {"local", "/opt/muster|compare-host"},
    };
    const char *const command[] = {"/opt/muster", "compare-host", NULL};

    (void)state;
    for (size_t i = 0; i < MST_ARRAY_COUNT(cases); i++) {
        mst_cleanup(mst_buf_release) struct mst_buf joined = MST_BUF_INIT(1024);
        struct launcher launcher;
        char **words;
        assert_int_equal(launcher_parse(cases[i].text, &launcher, NULL), 0);
        assert_int_equal(launcher_words(&launcher, "node1", command, &words, NULL), 0);
        for (size_t w = 0; words[w]; w++)
            assert_int_equal(mst_buf_printf(&joined, "%s%s", w > 0 ? "|" : "", words[w]), 0);
        assert_string_equal(mst_buf_text(&joined), cases[i].words);
        launcher_words_free(words);
        launcher_release(&launcher);
    }
}

static void bad_templates_and_hosts_are_refused(void **state)
{
    static const char *const templates[] = {"", "ssh {host}", "ssh '{cmd}", "ssh \"{host} {cmd}"};
    static const char *const hosts[] = {"", "-oProxyCommand=x", "a b", "a;b", "$(x)", "a'b"};
    const char *const command[] = {"muster", NULL}, *const sharp[] = {"muster;reboot", NULL};
    struct launcher launcher = {.count = 7};
    char **words = NULL;

    (void)state;
    for (size_t i = 0; i < MST_ARRAY_COUNT(templates); i++) {
        assert_int_equal(launcher_parse(templates[i], &launcher, NULL), -EINVAL);
        assert_int_equal(launcher.count, 7); /* untouched */
    }
    assert_int_equal(launcher_parse("ssh {host} {cmd}", &launcher, NULL), 0);
    for (size_t i = 0; i < MST_ARRAY_COUNT(hosts); i++)
        assert_int_equal(launcher_words(&launcher, hosts[i], command, &words, NULL), -EINVAL);
    assert_int_equal(launcher_words(&launcher, "node1", sharp, &words, NULL), -EINVAL);
    assert_null(words);
    launcher_release(&launcher);
}

struct heard {
    struct mst_buf lines, complaints;
    char file_name[64], file[64];
    size_t file_count;
};

static int hear_line(void *context, struct launch *launch, const char *line, size_t count,
                     struct mst_error *err)
{
    (void)launch, (void)err;
    assert_int_equal(strlen(line), count);
    return mst_buf_printf(&((struct heard *)context)->lines, "[%s]", line);
}

static int hear_complaint(void *context, struct launch *launch, const char *line, struct mst_error *err)
{
    (void)launch, (void)err;
    return mst_buf_printf(&((struct heard *)context)->complaints, "[%s]", line);
}

static int hear_file(void *context, struct launch *launch, const char *name, const void *bytes, size_t count,
                     struct mst_error *err)
{
    struct heard *heard = context;

    (void)launch, (void)err;
    (void)snprintf(heard->file_name, sizeof heard->file_name, "%s", name);
    assert_true(count < sizeof heard->file);
    memcpy(heard->file, bytes, count);
    heard->file[count] = '\0';
    heard->file_count++;
    return 0;
}

static const struct launch_handler handler = {hear_line, hear_complaint, hear_file};

static int run(const char *script, const char *input, struct heard *heard, struct launch **ret_launch,
               struct launches *set, struct mst_error *err)
{
    const char *const words[] = {"sh", "-c", script, NULL};
    const uint64_t deadline_ns = mst_now_ns() + 20 * MST_NS_PER_S;
    int r;

    *heard = (struct heard){.lines = MST_BUF_INIT(4096), .complaints = MST_BUF_INIT(4096)};
    r = launches_add(set, words, "test", NULL, &handler, heard, ret_launch, err);
    if (r >= 0 && input)
        r = launch_send(*ret_launch, input, strlen(input));
    if (r >= 0)
        launch_close(*ret_launch);
    while (r >= 0 && !launch_has_ended(*ret_launch))
        r = launches_round(set, deadline_ns, err);
    return r;
}

static void forget(struct heard *heard, struct launches *set)
{
    launches_release(set);
    mst_buf_release(&heard->lines);
    mst_buf_release(&heard->complaints);
}

static void lines_files_and_complaints_come_apart(void **state)
{
    struct launches set = LAUNCHES_INIT(-1);
    struct heard heard;
    struct launch *launch;

    (void)state;
    assert_int_equal(run("echo one; printf '{\"host\":\"file\",\"name\":\"a.csv\",\"bytes\":4}\\nx\\ny\\n'; "
                         "cat; echo wrong >&2; "
                         "printf last; exit 3",
                         "in\n", &heard, &launch, &set, NULL),
                     0);
    assert_string_equal(mst_buf_text(&heard.lines), "[one][in][last]");
    assert_string_equal(mst_buf_text(&heard.complaints), "[wrong]");
    assert_string_equal(heard.file_name, "a.csv");
    assert_string_equal(heard.file, "x\ny\n");
    assert_int_equal(launch_status(launch), 3);
    assert_string_equal(launch_tail(launch), "wrong");
    forget(&heard, &set);
}

static void an_empty_file_is_a_file(void **state)
{
    struct launches set = LAUNCHES_INIT(-1);
    struct heard heard;
    struct launch *launch;

    (void)state;
    assert_int_equal(run("echo '{\"host\":\"file\",\"name\":\"e\",\"bytes\":0}'; echo after", NULL, &heard,
                         &launch, &set, NULL),
                     0);
    assert_int_equal(heard.file_count, 1);
    assert_string_equal(heard.file, "");
    assert_string_equal(mst_buf_text(&heard.lines), "[after]");
    forget(&heard, &set);
}

static void a_file_name_from_elsewhere_stays_in_its_folder(void **state)
{
    static const char *const names[] = {"../x", "/etc/passwd", "", ".."};

    (void)state;
    for (size_t i = 0; i < MST_ARRAY_COUNT(names); i++) {
        struct launches set = LAUNCHES_INIT(-1);
        struct heard heard;
        struct launch *launch;
        char script[128];
        (void)snprintf(script, sizeof script,
                       "echo '{\"host\":\"file\",\"name\":\"%s\",\"bytes\":1}'; echo x", names[i]);
        assert_int_equal(run(script, NULL, &heard, &launch, &set, NULL), -EBADMSG);
        assert_int_equal(heard.file_count, 0);
        forget(&heard, &set);
    }
}

static void what_does_not_end_is_ended(void **state)
{
    struct launches set = LAUNCHES_INIT(-1);
    const char *const words[] = {"sh", "-c", "trap '' TERM; echo on; while :; do sleep 60; done", NULL};
    struct heard heard = {.lines = MST_BUF_INIT(64), .complaints = MST_BUF_INIT(64)};
    const uint64_t deadline_ns = mst_now_ns() + 20 * MST_NS_PER_S;
    struct mst_error err = MST_ERROR_INIT;
    struct launch *launch;

    (void)state;
    assert_int_equal(launches_add(&set, words, "test", NULL, &handler, &heard, &launch, &err), 0);
    while (heard.lines.count == 0)
        assert_int_equal(launches_round(&set, deadline_ns, &err), 0);
    assert_int_equal(launches_round(&set, mst_now_ns() + MST_NS_PER_MS, &err), -ETIMEDOUT);
    launches_end(&set, 50);
    assert_int_equal(launches_running(&set), 0);
    assert_int_equal(launch_status(launch), 128 + SIGKILL);
    forget(&heard, &set);
}

static void a_program_that_is_not_there_says_so(void **state)
{
    const char *const words[] = {"/nowhere/ssh", NULL};
    struct launches set = LAUNCHES_INIT(-1);
    struct heard heard = {.lines = MST_BUF_INIT(64), .complaints = MST_BUF_INIT(1024)};
    const uint64_t deadline_ns = mst_now_ns() + 20 * MST_NS_PER_S;
    struct launch *launch;

    (void)state;
    assert_int_equal(launches_add(&set, words, "test", NULL, &handler, &heard, &launch, NULL), 0);
    while (!launch_has_ended(launch))
        assert_true(launches_round(&set, deadline_ns, NULL) >= 0);
    assert_int_equal(launch_status(launch), 127);
    assert_non_null(strstr(launch_tail(launch), "/nowhere/ssh"));
    forget(&heard, &set);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(template_becomes_words),
        cmocka_unit_test(bad_templates_and_hosts_are_refused),
        cmocka_unit_test(lines_files_and_complaints_come_apart),
        cmocka_unit_test(an_empty_file_is_a_file),
        cmocka_unit_test(a_file_name_from_elsewhere_stays_in_its_folder),
        cmocka_unit_test(what_does_not_end_is_ended),
        cmocka_unit_test(a_program_that_is_not_there_says_so),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
