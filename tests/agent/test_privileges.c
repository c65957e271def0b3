/* SPDX-License-Identifier: Apache-2.0 */
#include "privileges.h"
#include "test.h"

#include <grp.h>
#include <pthread.h>
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

/* Of one thread. */
static bool status_line_is(pid_t thread, const char *name, const char *value)
{
    char line[256], path[64];
    bool found = false;
    (void)snprintf(path, sizeof path, "/proc/self/task/%d/status", (int)thread);
    FILE *file = fopen(path, "re");
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

static int check_thread(pid_t thread)
{
    if (!status_line_is(thread, "Uid:", "\t65532\t65532\t65532\t65532") ||
        !status_line_is(thread, "Gid:", "\t65533\t65533\t65533\t65533"))
        return 2;
    static const char *const sets[] = {"CapInh:", "CapPrm:", "CapEff:", "CapAmb:"};
    for (size_t s = 0; s < MST_ARRAY_COUNT(sets); s++)
        if (!status_line_is(thread, sets[s], "\t0000000000000000"))
            return 3;
    return status_line_is(thread, "NoNewPrivs:", "\t1") ? 0 : 4;
}

/* A thread that was there before, as OpenBLAS's are. */
struct bystander {
    pthread_t thread;
    pid_t id;
    int ready[2], go[2];
};

static void *stand_by(void *context)
{
    struct bystander *bystander = context;
    char byte = 'x';
    bystander->id = gettid();
    (void)!write(bystander->ready[1], &byte, 1);
    (void)!read(bystander->go[0], &byte, 1);
    return NULL;
}

static int drop_and_check_with(bool keep_capabilities)
{
    struct bystander bystander = {0};
    char byte;
    if (pipe(bystander.ready) < 0 || pipe(bystander.go) < 0 ||
        pthread_create(&bystander.thread, NULL, stand_by, &bystander) != 0 ||
        read(bystander.ready[0], &byte, 1) != 1)
        return 99;
    if (keep_capabilities && prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0) < 0)
        return 97;
    if (privileges_drop(65532, 65533, NULL) != 0)
        return 1;
    const int own = check_thread(gettid()), others = check_thread(bystander.id);
    if (own != 0 || others != 0)
        return own != 0 ? own : 10 + others;
    if (getgroups(0, NULL) != 0 || setuid(0) == 0 || seteuid(0) == 0 || setgid(0) == 0 ||
        setgroups(0, NULL) == 0)
        return 5;
    if (write(bystander.go[1], "x", 1) != 1 || pthread_join(bystander.thread, NULL) != 0)
        return 98;
    return privileges_drop(1, 1, NULL) == 0 ? 0 : 6; /* no longer root: nothing to do */
}

static int drop_and_check(void)
{
    return drop_and_check_with(false);
}

static void root_is_given_up_for_good(void **state)
{
    (void)state;
    if (geteuid() != 0)
        skip();
    assert_int_equal(in_child(drop_and_check), 0);
}

/* Leaving uid 0 would not take them. */
static int drop_with_kept_capabilities(void)
{
    return drop_and_check_with(true);
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
