/* SPDX-License-Identifier: Apache-2.0 */
/* Whose network a container has, told from control groups and /proc alone, by a process that has given up
 * root. */
#include "muster/cleanup.h"
#include "scan.h"
#include "test.h"

#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#define NOBODY 65532

static char folder[] = "/tmp/muster-scan-XXXXXX";

static void write_file(const char *name, const char *text)
{
    char path[256];
    (void)snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static void make_container(char digit, pid_t pid)
{
    char name[256], text[32], id[MONITOR_ID_BYTES];
    memset(id, digit, sizeof id - 1);
    id[sizeof id - 1] = '\0';
    (void)snprintf(name, sizeof name, "%s/fs/cgroup/%s", folder, id);
    assert_int_equal(mkdir(name, 0755), 0);
    (void)snprintf(name, sizeof name, "fs/cgroup/%s/memory.current", id);
    write_file(name, "4096\n");
    (void)snprintf(name, sizeof name, "fs/cgroup/%s/cgroup.procs", id);
    (void)snprintf(text, sizeof text, "%d\n", (int)pid);
    write_file(name, text);
}

/* A process that waits, in a network namespace of its own if it is to be; a second one shares it. -1: not
 * allowed. */
static pid_t start(bool has_network, pid_t *ret_second)
{
    int ready[2];
    pid_t second = -1;
    assert_int_equal(pipe(ready), 0);
    const pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (has_network && unshare(CLONE_NEWNET) < 0)
            _exit(77);
        second = fork();
        if (second == 0) {
            (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
            for (;;)
                (void)pause();
        }
        (void)!write(ready[1], &second, sizeof second);
        for (;;)
            (void)pause();
    }
    (void)close(ready[1]);
    const bool is_ready = read(ready[0], &second, sizeof second) == sizeof second;
    (void)close(ready[0]);
    *ret_second = second;
    return is_ready ? pid : -1;
}

static enum monitor_network network_of(const struct roster *roster, char digit)
{
    char id[MONITOR_ID_BYTES];
    memset(id, digit, sizeof id - 1);
    id[sizeof id - 1] = '\0';
    const struct target *target = roster_find(roster, id);
    assert_non_null(target);
    return target->info.network;
}

static void a_network_is_told_without_root(void **state)
{
    const struct monitor_paths paths = {"/proc", folder};
    struct roster roster;
    pid_t sharing, idle;
    (void)state;
    const pid_t own = start(true, &sharing);
    if (own < 0)
        skip(); /* without the right to make namespaces */
    const pid_t of_host = start(false, &idle);
    assert_true(of_host > 0);
    make_container('a', own);
    make_container('b', sharing);
    make_container('c', of_host);
    roster_init(&roster, &paths);
    roster.wanted = MONITOR_GROUPS_ALL;
    assert_int_equal(setegid(NOBODY) + seteuid(NOBODY), 0);
    const int r = scan_run(&roster, NULL);
    assert_int_equal(seteuid(0) + setegid(0), 0);
    assert_int_equal(r, 0);
    assert_int_equal(roster.count, 3);
    /* One of the two that share it, whichever was found first, and never the host's. */
    const enum monitor_network a = network_of(&roster, 'a'), b = network_of(&roster, 'b');
    assert_true((a == MONITOR_NETWORK_OWN && b == MONITOR_NETWORK_SHARED) ||
                (a == MONITOR_NETWORK_SHARED && b == MONITOR_NETWORK_OWN));
    assert_int_equal(network_of(&roster, 'c'), MONITOR_NETWORK_HOST);
    roster_release(&roster);
    const pid_t all[] = {sharing, idle, own, of_host};
    for (size_t i = 0; i < MST_ARRAY_COUNT(all); i++)
        assert_int_equal(kill(all[i], SIGKILL), 0);
    assert_true(waitpid(own, NULL, 0) == own && waitpid(of_host, NULL, 0) == of_host);
}

static int make_tree(void **state)
{
    char path[128];
    (void)state;
    if (!mkdtemp(folder) || chmod(folder, 0755) < 0)
        return -1;
    (void)snprintf(path, sizeof path, "%s/fs", folder);
    if (mkdir(path, 0755) < 0)
        return -1;
    (void)snprintf(path, sizeof path, "%s/fs/cgroup", folder);
    if (mkdir(path, 0755) < 0)
        return -1;
    write_file("fs/cgroup/cgroup.controllers", "cpu memory\n");
    return 0;
}

static int remove_tree(void **state)
{
    char command[128];
    (void)state;
    (void)snprintf(command, sizeof command, "rm -rf %s", folder);
    return system(command);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_network_is_told_without_root),
    };
    if (geteuid() != 0)
        return 77;
    return cmocka_run_group_tests(tests, make_tree, remove_tree);
}
