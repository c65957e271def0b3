/* SPDX-License-Identifier: Apache-2.0 */
#include "privileges.h"
#include "test.h"

#include <grp.h>
#include <sys/prctl.h>
#include <sys/wait.h>

/* Runs in a child, which may give up what it likes; its exit status is the number of the check that failed.
 */
static int in_child(int (*body)(void))
{
    const pid_t pid = fork();
    if (pid == 0)
        _exit(body());
    int status = -1;
    assert_true(pid > 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 255;
}

static bool status_line_is(const char *name, const char *value)
{
    char line[256];
    bool found = false;
    FILE *file = fopen("/proc/self/status", "re");
    while (file && fgets(line, sizeof line, file)) {
        if (strncmp(line, name, strlen(name)) != 0)
            continue;
        line[strcspn(line, "\n")] = '\0';
        found = strcmp(line + strlen(name), value) == 0;
    }
    if (file)
        (void)fclose(file);
    return found;
}

static int drop_and_check(void)
{
    if (privileges_drop(65532, 65533, NULL) != 0)
        return 1;
    if (!status_line_is("Uid:", "\t65532\t65532\t65532\t65532") ||
        !status_line_is("Gid:", "\t65533\t65533\t65533\t65533") || getgroups(0, NULL) != 0)
        return 2;
    static const char *const sets[] = {"CapInh:", "CapPrm:", "CapEff:", "CapAmb:"};
    for (size_t s = 0; s < MST_ARRAY_COUNT(sets); s++)
        if (!status_line_is(sets[s], "\t0000000000000000"))
            return 3;
    if (!status_line_is("NoNewPrivs:", "\t1"))
        return 4;
    if (setuid(0) == 0 || seteuid(0) == 0 || setgid(0) == 0 || setgroups(0, NULL) == 0)
        return 5;
    return privileges_drop(1, 1, NULL) == 0 ? 0 : 6; /* no longer root: nothing to do */
}

static void root_is_given_up_for_good(void **state)
{
    (void)state;
    if (geteuid() != 0)
        skip();
    assert_int_equal(in_child(drop_and_check), 0);
}

/* As a container with odd securebits: leaving uid 0 would keep the capabilities. */
static int drop_with_kept_capabilities(void)
{
    if (prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0) < 0)
        return 99;
    return drop_and_check();
}

static void capabilities_that_would_stay_are_cleared(void **state)
{
    (void)state;
    if (geteuid() != 0)
        skip();
    assert_int_equal(in_child(drop_with_kept_capabilities), 0);
}

static int drop_without_the_right(void)
{
    static const int needed[] = {6, 7}; /* CAP_SETGID, CAP_SETUID */
    for (size_t c = 0; c < MST_ARRAY_COUNT(needed); c++)
        if (prctl(PR_CAPBSET_DROP, needed[c], 0, 0, 0) < 0)
            return 99;
    /* The bounding set counts at the next exec. */
    static const char path[] = "/proc/self/exe";
    char self[512];
    const ssize_t bytes = readlink(path, self, sizeof self - 1);
    if (bytes < 0)
        return 98;
    self[bytes] = '\0';
    (void)execl(self, self, "--drop", (char *)NULL);
    return 97;
}

static void without_the_right_it_fails_and_says_what_is_missing(void **state)
{
    (void)state;
    if (geteuid() != 0)
        skip();
    assert_int_equal(in_child(drop_without_the_right), 0);
}

static int nobody_drops(void)
{
    if (setresuid(1234, 1234, 1234) < 0)
        return 99;
    return privileges_drop(65532, 65532, NULL) == 0 && getuid() == 1234 ? 0 : 1;
}

static void who_is_not_root_stays_who_it_is(void **state)
{
    (void)state;
    if (geteuid() != 0)
        skip();
    assert_int_equal(in_child(nobody_drops), 0);
}

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "--drop") == 0) {
        struct mst_error err = MST_ERROR_INIT;
        return privileges_drop(65532, 65532, &err) == -EPERM && strstr(err.text, "CAP_SETUID") ? 0 : 1;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(root_is_given_up_for_good),
        cmocka_unit_test(capabilities_that_would_stay_are_cleared),
        cmocka_unit_test(without_the_right_it_fails_and_says_what_is_missing),
        cmocka_unit_test(who_is_not_root_stays_who_it_is),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
